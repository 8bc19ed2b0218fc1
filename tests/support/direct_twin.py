"""A problem with three phases that has everything; its nonlinear programs as plain loops, to be differentiated as a whole."""

from __future__ import annotations

from itertools import pairwise

import casadi as ca
import numpy as np
from control_problems import flat_system, function, line
from direct_problems import held, linkage_function, reset

from ocp.problem import INF, At, Boundary, Constraint, Cost, Duration, Linkage, Phase, Problem, Sense

DRIFT, THIRD = -0.4, 0.7


def one_rate(t, x, u, p):
    return ca.vertcat(x[2], x[3], u[0] * ca.cos(x[0]) + p[0] * ca.sin(t) - p[1] * x[2] * x[1],
                      u[1] * x[1] + t * x[2] + p[0] * u[0] ** 2 / 9)


def two_rate(t, x, u, p):
    return ca.vertcat(x[1], u[0] / p[0] - p[1] * x[0] * ca.sin(t))


def rich():
    """Shared and own parameters, absolute time, resets, linkages, integrals, a cone, soft terms, residuals."""
    one = flat_system("one", ("q1", "q2", "v1", "v2"), ("u", "w"), one_rate, ("gain", "drift"), (0.7, DRIFT))
    two = flat_system("two", ("q", "v"), ("f",), two_rate, ("mass", "gain"), (0.8, 0.7))

    def first(f):
        return function(4, 2, f, 2)

    def then(f):
        return function(2, 1, f, 2)

    phases = (
        Phase("one", one, Duration(0.5, 3.0, 1.2), line([0.1, 0.2, 0.3, 0], [1, -1, 2, 1], 2), start=Boundary((0.1, 0.2, 0, 0),
                                                                                                    (True, False, True, False)),
              x_upper=(9.0, INF, INF, 9.0), u_lower=(-5.0, -6.0), free_parameters=((0, 0.1, 3.0),),
              costs=(Cost("run", At.PATH, first(lambda t, x, u, p: u[0] ** 2 * (1 + x[0] ** 2) + 0.1 * t * u[1] ** 2 * p[1])),
                     Cost("track", At.PATH, first(lambda t, x, u, p: ca.vertcat(x[0] * x[1] - t, u[1] - p[0] * x[2])),
                          weights=(2.0, 0.3)),
                     Cost("open", At.START, first(lambda t, x, u, p: p[0] * x[1] ** 2 + t)),
                     Cost("close", At.FINAL, first(lambda t, x, u, p: ca.vertcat(x[1] * x[2], x[3] - t)), weights=(3.0, 5.0))),
              constraints=(
                  Constraint("tube", At.PATH, first(lambda t, x, u, p: ca.vertcat(x[0] * u[1] + t, p[0] * x[2] ** 3)), (-1, -2),
                             (1, INF)),
                  Constraint("lid", At.PATH, first(lambda t, x, u, p: x[1] ** 2 + p[0] * t), (-INF,), (4.0,)),
                  Constraint("cone", At.PATH, first(lambda t, x, u, p: ca.vertcat(3 + x[0], u[0], u[1] * x[1])), (-INF,) * 3,
                             (INF,) * 3, Sense.CONE),
                  Constraint("wish", At.PATH, first(lambda t, x, u, p: x[1] - 0.2 * t * u[0]), (-0.3,), (0.2,), soft=7.0),
                  Constraint("fuel", At.INTEGRAL, first(lambda t, x, u, p: t * u[0] ** 2 + p[0]), (2.0,), (2.0,), Sense.EQUAL),
                  Constraint("dose", At.INTEGRAL, first(lambda t, x, u, p: ca.vertcat(x[0] * x[3], u[1])), (-1, -INF), (INF, 2)),
                  Constraint("launch", At.START, first(lambda t, x, u, p: x[1] ** 2 - p[0]), (0.5,), (0.5,), Sense.EQUAL),
                  Constraint("land", At.FINAL, first(lambda t, x, u, p: x[1] * x[2] - t), (-1.0,), (2.0,)),
                  Constraint("near", At.FINAL, first(lambda t, x, u, p: x[1]), (0.0,), (0.0,), soft=2.0))),
        Phase("two", two, Duration(0.3, 2.0, 0.9), line([0.3, 0], [1, 1], 1), reset=reset(
            lambda x, p: ca.vertcat(x[0] + x[1] * p[0], x[2] * p[1]), 4, 2), u_upper=(7.0,),
              costs=(Cost("push", At.PATH, then(lambda t, x, u, p: u[0] ** 2 * ca.cos(t) * p[1] + x[0] ** 4)),
                     Cost("goal", At.FINAL, then(lambda t, x, u, p: x - p), weights=(1.0, 4.0))),
              constraints=(Constraint("roof", At.PATH, then(lambda t, x, u, p: x[0] * x[1] + t), (-3.0,), (3.0,)),
                           Constraint("work", At.INTEGRAL, then(lambda t, x, u, p: u[0] * x[1] * p[0]), (-1.0,), (1.0,)))),
        Phase("three", two, held(THIRD), line([1.0, 1], [0, 0], 1), final=Boundary((0.0, 0.5), (False, True)),
              costs=(Cost("push", At.PATH, then(lambda t, x, u, p: (u[0] - x[1] * t)), weights=(1.5,)),
                     Cost("late", At.FINAL, then(lambda t, x, u, p: t**2 * x[0] ** 2))),
              constraints=(Constraint("grip", At.PATH, then(lambda t, x, u, p: u[0] * x[0] + t), (-3.0,), (3.0,)),)),
    )
    close = linkage_function(lambda a, b, T, p: ca.vertcat(b[0] - a[0] * p[0] + T[1], b[1] * a[3]), (4, 2), 3, 1)
    order = linkage_function(lambda b, T, p: b[1] * p[0] + T[0] * T[2], (2,), 3, 1)
    links = (Linkage("cycle", ((0, At.START), (2, At.FINAL)), close, (0.0, -1.0), (0.0, INF), ("gain",)),
             Linkage("order", ((1, At.START),), order, (-INF,), (5.0,), ("drift",)))
    return Problem("rich", phases, linkages=links)


class Whole:
    """Rows by name, objective and residuals while a program is written down."""

    def __init__(self, program):
        """Names the unknowns as the program orders them: phase after phase by time, then durations, then parameters."""
        nlp = program.nlp
        self.x = ca.SX.sym("x", nlp.n)
        self.rows, self.objective, self.squares, self.rest = {}, ca.SX(0), [], ca.SX(0)
        assert nlp.variables[-3:] == ("one: duration", "two: duration", "p.gain")
        self.T = [self.x[nlp.n - 3], self.x[nlp.n - 2], ca.SX(THIRD)]
        gain = self.x[nlp.n - 1]
        self.p = [ca.vertcat(gain, DRIFT), ca.vertcat(0.8, gain), ca.vertcat(0.8, gain)]
        self.begin = [ca.SX(0), self.T[0], self.T[0] + self.T[1]]
        self.states, self.controls = [], []
        for name, columns, nu in zip(("one", "two", "three"), program.state_columns, (2, 1, 1), strict=True):
            own = [i for i, v in enumerate(nlp.variables) if v.startswith(f"{name}: u.")]
            self.states.append([self.x[[int(i) for i in c]] for c in columns])
            self.controls.append([self.x[own[i:i + nu]] for i in range(0, len(own), nu)])

    def charge(self, phase, where, scale, here):
        """Costs and penalties that apply there, times the scale."""
        for c in phase.costs:
            if c.at is where and c.weights is None:
                self.objective += scale * c.function(*here)
                self.rest += scale * c.function(*here)
            elif c.at is where:
                r = c.function(*here)
                self.objective += scale * sum(w * r[i] ** 2 for i, w in enumerate(c.weights)) / 2
                self.squares.append((scale, c.weights, r))
        for c in phase.constraints:
            if c.at is where and c.soft is not None:
                y, low, high = c.function(*here), c.lower[0], c.upper[0]
                over = (y - low) ** 2 if low == high else ca.fmax(0, y - high) ** 2 + ca.fmax(0, low - y) ** 2
                self.objective += scale * c.soft * over / 2
                self.rest += scale * c.soft * over / 2

    def demand(self, phase, where, at, here, of=lambda c: True):
        """Hard rows that hold there."""
        for c in phase.constraints:
            if c.at is not where or c.soft is not None or not of(c):
                continue
            y = c.function(*here)
            if c.sense is Sense.CONE:
                self.rows[f"{phase.name}: {c.name} (cone) @ {at}"] = y[0] ** 2 - y[1] ** 2 - y[2] ** 2
                self.rows[f"{phase.name}: {c.name} (cone axis) @ {at}"] = y[0]
                continue
            for i in range(c.size):
                self.rows[f"{phase.name}: {c.name}{f'[{i}]' if c.size > 1 else ''} @ {at}"] = y[i]

    def integrate(self, phase, weight, here):
        for c in phase.constraints:
            if c.at is At.INTEGRAL:
                for i in range(c.size):
                    name = f"{phase.name}: {c.name}{f'[{i}]' if c.size > 1 else ''} @ whole phase"
                    self.rows[name] = self.rows.get(name, 0) + weight * c.function(*here)[i]

    def ends(self, problem):
        """Terms at the ends, passages and linkages."""
        for i, phase in enumerate(problem.phases):
            ends = ((At.START, self.states[i][0], self.begin[i]), (At.FINAL, self.states[i][-1], self.begin[i] + self.T[i]))
            for where, x, t in ends:
                here = (t, x, ca.SX.zeros(phase.system.nu), self.p[i])
                self.charge(phase, where, 1, here)
                self.demand(phase, where, where.value, here)
        a, b, c = (x[-1] for x in self.states)
        there = ca.vertcat(a[0] + a[1] * 0.8, a[2] * self.p[0][0])
        for i, name in enumerate(("q", "v")):
            self.rows[f"one to two {name} @ passage"] = self.states[1][0][i] - there[i]
            self.rows[f"two to three {name} @ passage"] = self.states[2][0][i] - b[i]
        start = self.states[0][0]
        self.rows["cycle[0] @ linkage"] = c[0] - start[0] * self.p[0][0] + self.T[1]
        self.rows["cycle[1] @ linkage"] = c[1] * start[3]
        self.rows["order @ linkage"] = self.states[1][0][1] * DRIFT + self.T[0] * THIRD

    def function(self, names):
        """(x, sigma, lam) -> f, g, gradient, Jacobian, upper Hessian, upper Gauss-Newton Hessian of f; rows as in names."""
        assert set(names) == set(self.rows), set(names) ^ set(self.rows)
        g, x = ca.vertcat(*(self.rows[name] for name in names)), self.x
        lam, sigma = ca.SX.sym("lam", g.shape[0]), ca.SX.sym("sigma")
        gauss = ca.hessian(self.rest, x)[0]
        for scale, weights, r in self.squares:
            J = ca.jacobian(r, x)
            gauss += scale * ca.mtimes([J.T, ca.diag(ca.DM(weights)), J])
        hessian = ca.hessian(sigma * self.objective + ca.dot(lam, g), x)[0]
        return ca.Function("twin", [x, sigma, lam], [self.objective, g, ca.gradient(self.objective, x), ca.jacobian(g, x),
                                                     ca.triu(hessian), ca.triu(gauss)])


def _on_control(c):
    return bool(c.function.jac_sparsity(0, 2).nnz())


def _bounds(c):
    return c.soft is None and (c.sense is Sense.CONE or all(a < b for a, b in zip(c.lower, c.upper, strict=True)))


def lagrange(points, j):
    """Coefficients of the polynomial that is 1 at point j and 0 at the others."""
    others = np.delete(points, j)
    return np.poly(others) / np.prod(points[j] - others) if len(others) else np.ones(1)


def collocation(program, problem):
    """The program of collocation on the meshes, from the definition: polynomials whose rates are the system's."""
    whole = Whole(program)
    for i, (phase, mesh) in enumerate(zip(problem.phases, program.meshes, strict=True)):
        X, U, T, begin, p = whole.states[i], whole.controls[i], whole.T[i], whole.begin[i], whole.p[i]
        node, point, seen, previous, given = 0, 0, set(), None, []
        for k, (scheme, (a, b)) in enumerate(zip(mesh.schemes, pairwise(mesh.edges), strict=True)):
            h, s, c = b - a, len(scheme.nodes), scheme.nodes[scheme.collocated]
            if mesh.controls == "polynomial":
                point -= int(previous is not None and previous[-1] == 1 and c[0] == 0)
                shape, values = c, U[point:point + len(c)]
                point += len(c)
            else:
                shape, values = np.array([0.0, 1.0][:1 + (mesh.controls == "linear")]), U[k:k + 1 + (mesh.controls == "linear")]
            given.append((shape, values))
            F = []
            for r, j in zip(c, scheme.collocated, strict=True):
                u = sum(float(np.polyval(lagrange(shape, m), r)) * value for m, value in enumerate(values))
                here = (begin + T * (a + h * r), X[node + j], u, p)
                F.append(T * phase.system.rate(*here))
                weight = T * h * float(np.polyval(np.polyint(lagrange(c, len(F) - 1)), 1))
                whole.charge(phase, At.PATH, weight, here)
                whole.integrate(phase, weight, here)
                twin = mesh.controls == "held" and r == 1 and k + 1 < mesh.intervals and mesh.schemes[k + 1].collocated[0] == 0
                name = mesh.node_names[node + int(j)] + (f" (end of interval {k})" if twin else "")
                again = node + int(j) in seen
                if not again or mesh.controls == "held":
                    whole.demand(phase, At.PATH, name, here, of=_on_control if again else lambda c: True)
                seen.add(node + int(j))
            _defects(whole, phase, k, scheme, X[node:node + s], F, h)
            node, previous = node + s - 1, c
        for j in range(len(X)):
            if j not in seen:
                end = j in (0, len(X) - 1)  # there the control is extrapolated
                shape, values = given[0 if j == 0 else -1]
                u = sum(float(np.polyval(lagrange(shape, m), float(j > 0))) * value for m, value in enumerate(values))
                here = (begin + T * mesh.fractions[j], X[j], u if end else ca.SX.zeros(phase.system.nu), p)
                whole.demand(phase, At.PATH, mesh.node_names[j], here,
                             of=lambda c, end=end: not _on_control(c) or end and _bounds(c))
    whole.ends(problem)
    return whole.function(program.nlp.constraints)


def _defects(whole, phase, k, scheme, X, F, h):
    s, c = len(X), scheme.nodes[scheme.collocated]
    for i in range(1, s):
        if scheme.name == "hermite_simpson":
            row = (X[1] - (X[0] + X[2]) / 2 - h / 8 * (F[0] - F[2]), X[2] - X[0] - h / 6 * (F[0] + 4 * F[1] + F[2]))[i - 1]
        elif scheme.form == "differential" and i <= len(c):
            basis = scheme.nodes[:len(c) + 1]
            at = c[i - 1]
            row = sum(float(np.polyval(np.polyder(lagrange(basis, j)), at)) * X[j] for j in range(len(basis))) - h * F[i - 1]
        else:
            row = X[i] - X[0] - h * sum(float(np.polyval(np.polyint(lagrange(c, j)), scheme.nodes[i])) * f for j, f in enumerate(F))
        inner = "" if i == s - 1 else "inner defect " if s <= 3 else f"inner defect {i} "
        for e, name in enumerate(phase.system.space.names):
            whole.rows[f"{phase.name}: {inner or 'defect '}{name} @ interval {k}"] = row[e]


def shooting(program, problem):
    """The program of multiple shooting on the grids, one step after another."""
    whole = Whole(program)
    for i, (phase, grid) in enumerate(zip(problem.phases, program.meshes, strict=True)):
        X, U, T, begin, p = whole.states[i], whole.controls[i], whole.T[i], whole.begin[i], whole.p[i]
        for k, (a, b) in enumerate(pairwise(grid.edges)):
            x, h, first, last = X[k], T * (b - a) / grid.steps, begin + T * a, begin + T * b
            for step in range(grid.steps):
                t = first + h * step

                def control(time, first=first, last=last, ends=U[k:k + 2], linear=grid.linear):
                    return ends[0] + (time - first) / (last - first) * (ends[1] - ends[0]) if linear else ends[0]

                def rate(t, x, control=control, p=p, system=phase.system):
                    return system.rate(t, x, control(t), p)

                x, stages = STEPS[grid.integrator](rate, t, x, h)
                for weight, time, state in stages:
                    here = (time, state, control(time), p)
                    whole.charge(phase, At.PATH, weight * h, here)
                    whole.integrate(phase, weight * h, here)
            for e, name in enumerate(phase.system.space.names):
                whole.rows[f"{phase.name}: defect {name} @ interval {k}"] = x[e] - X[k + 1][e]
        for k, x in enumerate(X):
            free = k == len(U)
            here = (begin + T * grid.edges[k], x, ca.SX.zeros(phase.system.nu) if free else U[k], p)
            whole.demand(phase, At.PATH, f"knot {k}", here, of=(lambda c: not _on_control(c)) if free else lambda c: True)
    whole.ends(problem)
    return whole.function(program.nlp.constraints)


def _rk4(f, t, x, h):
    k1 = f(t, x)
    x2 = x + h / 2 * k1
    k2 = f(t + h / 2, x2)
    x3 = x + h / 2 * k2
    k3 = f(t + h / 2, x3)
    x4 = x + h * k3
    k4 = f(t + h, x4)
    nodes = ((1 / 6, t, x), (1 / 3, t + h / 2, x2), (1 / 3, t + h / 2, x3), (1 / 6, t + h, x4))
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), nodes


def _symplectic(f, t, x, h):
    n = x.shape[0] // 2
    v = x[n:] + h * f(t, x)[n:]
    return ca.vertcat(x[:n] + h * v, v), ((1, t, x),)


def _midpoint(f, t, x, h):
    """Implicit midpoint by Newton steps, written out: they and their derivatives converge quadratically."""
    n = x.shape[0]
    z, s, t0, h0 = ca.SX.sym("z", n), ca.SX.sym("s", n), ca.SX.sym("t"), ca.SX.sym("h")
    free = [v for v in ca.symvar(f(t0, z)) if v.name() not in {*(f"z_{i}" for i in range(n)), "t"}]
    gap = z - s - h0 / 2 * f(t0 + h0 / 2, z)
    newton = ca.Function("newton", [z, s, t0, h0, *free], [z - ca.solve(ca.jacobian(gap, z), gap)])
    m = x
    for _ in range(5):
        m = newton(m, x, t, h, *free)
    return 2 * m - x, ((1, t + h / 2, m),)


STEPS = {"rk4": _rk4, "semi_implicit_euler": _symplectic, "gauss_legendre_1": _midpoint}
