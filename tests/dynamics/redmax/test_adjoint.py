"""The adjoint method: gradients by every input against differences and against differentiation through Newton, for each scheme."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from arrays import column
from joint_examples import tree_of_kinds
from scipy.optimize import minimize

import dynamics
from dynamics import ModelError
from dynamics import algorithms as alg
from dynamics.forces import JointDamper, Place, Spring
from dynamics.mechanism import Mechanism, direct_motors
from dynamics.model import BodyInertia, Builder, Joint, Placement
from dynamics.redmax.adjoint import Objective, gradient, value
from dynamics.redmax.implicit import simulate, system
from dynamics.redmax.parameters import COMPONENTS, AddedInertia, ForceField, Length, residual
from dynamics.steps.schemes import ALPHA, METHODS, plan

MODEL = tree_of_kinds("revolute", "exponential", "prismatic", "universal", seed=3)
LAST = MODEL.bodies[-1].name
FORCES = (Spring("spring", (Place("world", (0.5, 0.2, 1.0)), Place(LAST, (0.1, 0.2, 0.0))), 20.0, 0.4, 1.5),
          JointDamper("damper", MODEL.bodies[0].joint.name, 0.3))
TREE = Mechanism(MODEL, direct_motors(MODEL), forces=FORCES)
PARAMETERS = (Length(MODEL.bodies[1].joint.name, (0.6, 0.0, 0.8)), Length(MODEL.bodies[3].joint.name, (0.0, 1.0, 0.0)),
              AddedInertia(MODEL.bodies[0].name, "mass"), AddedInertia(LAST, "hy"), AddedInertia(LAST, "xz"),
              AddedInertia(LAST, "zz"), ForceField("spring", "k"), ForceField("spring", "length"), ForceField("damper", "c"))
N, H, STEPS = MODEL.nv, 0.05, 6


def objective():
    """Effort and speed on the way, the last body near a point and slow at the end; everything depends on everything."""
    t, q, v, u, p = (ca.SX.sym(name, size) for name, size in zip("tqvup", (1, N, N, N, len(PARAMETERS)), strict=True))
    running = ca.dot(u, u) / 20 + (1 + t) * ca.dot(v, v) / 10 + ca.sin(q[1]) * p[0]
    tip = alg.frame_pose(MODEL, q, LAST).p
    final = ca.sumsqr(tip - ca.DM([0.3, 0.2, 0.4])) + v[0] * q[2] + ca.dot(p, p) / 7
    return Objective(ca.Function("running", [t, q, v, u, p], [running]), ca.Function("final", [q, v, p], [final]))


GOAL = objective()


@pytest.fixture(scope="module")
def tree():
    return system(TREE, PARAMETERS, mode="interpreted")


def inputs(seed=0):
    rng = np.random.default_rng(seed)
    p = np.r_[0.05, -0.03, 0.2, 0.03, 0.01, 0.05, 18.0, 0.5, 0.25]
    return {"q": rng.uniform(-0.5, 0.5, N), "v": rng.uniform(-0.5, 0.5, N), "u": rng.uniform(-1, 1, (STEPS, N)), "p": p}


def run(robot, method, x):
    return simulate(robot, method, (x["q"], x["v"]), H, STEPS, x["u"], x["p"])


@pytest.mark.row("003:A01", "003:A02", "003:A03", "003:A04", "003:A05", "003:A06")
@pytest.mark.parametrize("method", METHODS)
def test_every_gradient_by_differences(tree, method):
    """Torques, initial state, lengths, inertias and forces; objectives of velocities; entries alone and all together."""
    x = inputs()
    found = gradient(tree, GOAL, run(tree, method, x))
    rng = np.random.default_rng(1)
    for name, h in (("q", 1e-5), ("v", 1e-5), ("u", 1e-4), ("p", 1e-5)):
        ours = getattr(found, name)
        directions = [rng.standard_normal(ours.shape)]
        directions += [np.eye(ours.size)[k].reshape(ours.shape) for k in range(0, ours.size, 5 if name == "u" else 1)]
        for d in directions:
            ends = [value(GOAL, run(tree, method, {**x, name: x[name] + s * h * d})) for s in (1, -1)]
            slope = (ends[0] - ends[1]) / (2 * h)
            assert np.sum(ours * d) == pytest.approx(slope, rel=1e-6, abs=1e-6 * max(1.0, np.abs(ours).max())), (name, d)
    assert found.value == value(GOAL, run(tree, method, x))


@pytest.mark.row("003:A02")
@pytest.mark.parametrize("method", METHODS)
def test_the_gradient_is_that_of_differentiation_through_newton(method):
    """CasADi's implicit functions, differentiated by CasADi: the document's formulas instead of the table of weights."""
    model = tree_of_kinds("revolute", "prismatic", "revolute", seed=3)
    robot = Mechanism(model, direct_motors(model), forces=(JointDamper("d", model.bodies[0].joint.name, 0.5),))
    n, steps, h = model.nv, 4, 0.05
    parameters = (Length(model.bodies[1].joint.name, (1.0, 0.0, 0.0)), ForceField("d", "c"))
    at = [ca.SX.sym(name, size) for name, size in zip("qvaup", (n, n, n, n, 2), strict=True)]
    r = ca.Function("r", at, [residual(robot, parameters, at)])
    q0, v0, u, p = ca.MX.sym("q", n), ca.MX.sym("v", n), ca.MX.sym("u", n, steps), ca.MX.sym("p", 2)

    def solve(velocity, acceleration, guess, k):
        """The q at which the residual vanishes; velocity and acceleration as functions of it."""
        x, rest = ca.SX.sym("x", n), ca.SX.sym("rest", 4 * n + n + 2)
        past = [rest[i * n:(i + 1) * n] for i in range(4)]
        g = r(x, velocity(x, *past), acceleration(x, *past), rest[4 * n:5 * n], rest[5 * n:])
        root = ca.rootfinder("root", "newton", {"x": x, "p": rest, "g": g}, {"abstol": 1e-13})
        return lambda *values: root(x0=guess, p=ca.vertcat(*values, u[:, k], p))["x"]

    a = ALPHA
    path, speeds = [q0], [v0]
    for k in range(steps):
        q, v = path[-1], speeds[-1]
        if method == "bdf1":
            new = solve(lambda x, q, v, *_: (x - q) / h, lambda x, q, v, *_: (x - q - h * v) / h**2, q + h * v, k)(q, v, q, v)
            path, speeds = [*path, new], [*speeds, (new - q) / h]
        elif method == "sdirk2" or k == 0:
            first = solve(lambda x, q, v, *_: (x - q) / (a * h), lambda x, q, v, *_: (x - q - a * h * v) / (a * h) ** 2,
                          q + a * h * v, k)(q, v, q, v)
            new = solve(lambda x, q, v, f, _: (x + (1 / a - 2) * q - (1 - a) / a * f) / (a * h),
                        lambda x, q, v, f, _: (x - q - (2 * a - 1) * h * v - 2 * (1 - a) * (f - q) / a) / (a * h) ** 2,
                        q + h * v, k)(q, v, first, v)
            path, speeds = [*path, new], [*speeds, (new + (1 / a - 2) * q - (1 - a) / a * first) / (a * h)]
        else:
            new = solve(lambda x, q, v, o, w: 3 / (2 * h) * (x - 4 / 3 * q + o / 3),
                        lambda x, q, v, o, w: 9 / (4 * h**2) * (x - 4 / 3 * q + o / 3 - 8 / 9 * h * v + 2 / 9 * h * w),
                        q + h * v, k)(q, v, path[-2], speeds[-2])
            path, speeds = [*path, new], [*speeds, 3 / (2 * h) * (new - 4 / 3 * q + path[-2] / 3)]
    goal = sum(ca.sumsqr(x - 0.3) + ca.sumsqr(w) / 5 for x, w in zip(path[1:], speeds[1:], strict=True)) + ca.sumsqr(u) / 9
    theirs = ca.Function("G", [q0, v0, u, p], [ca.gradient(goal, x) for x in (q0, v0, u, p)])
    rng = np.random.default_rng(2)
    x = {"q": rng.uniform(-0.5, 0.5, n), "v": rng.uniform(-0.5, 0.5, n), "u": rng.uniform(-1, 1, (steps, n)), "p": np.r_[0.1, 0.6]}
    sym = [ca.SX.sym(name, size) for name, size in zip("tqvup", (1, n, n, n, 2), strict=True)]
    ours = Objective(ca.Function("f", sym, [ca.sumsqr(sym[1] - 0.3) + ca.sumsqr(sym[2]) / 5 + ca.sumsqr(sym[3]) / 9]))
    made = system(robot, parameters, mode="interpreted")
    found = gradient(made, ours, simulate(made, method, (x["q"], x["v"]), h, steps, x["u"], x["p"]))
    for name, exact in zip("qvup", theirs(x["q"], x["v"], x["u"].T, x["p"]), strict=True):
        exact = np.array(exact)
        np.testing.assert_allclose(getattr(found, name), exact.T if name == "u" else exact.ravel(), rtol=1e-7, atol=1e-9)


# ------------------------------------------------------------------------------------------------ blocks of the global matrix
def blocks(method, steps):
    """Coefficients of M and of h D in dg_k / dq_j: velocities of the scheme replaced by positions, h = 1. Columns: the initial q
    and v, then every node; the diagonal holds M's part only."""
    solves = plan(method, steps)
    size = len(solves) + 2
    unit = np.eye(size)
    q, v = [unit[0], *unit[2:]], [unit[1]]
    rows = []
    for k, solve in enumerate(solves):
        s, past = solve.gamma, list(zip(solve.weights, solve.past, strict=True))
        v.append((q[k + 1] - sum(w.a * q[j] + w.b * v[j] for w, j in past)) / s)
        of_M = q[k + 1] - sum(w.c * q[j] + w.d * v[j] for w, j in past)
        rows.append((of_M, -(s**2) * v[k + 1]))
    return rows


@pytest.mark.row("003:A07", "003:A08", "003:A09", "003:A10", "003:A11")
def test_blocks_are_those_of_the_document():
    """And rows sum to zero over positions: a translation of everything changes nothing."""
    expected = [
        # columns q0, v0, q_alpha, q1, q2, ...: coefficients of M, then of h D
        ([-1, -ALPHA, 1], [ALPHA, 0, -ALPHA]),
        ([3.828427124746192, -(2 * ALPHA - 1), -4.828427124746192, 1], [-0.414213562373095, 0, 0.7071067811865476, -ALPHA]),
        ([-3.958601888663283, 2 / 9, 7.326791721883811, -4.368189833220529, 1], [-2 / 9, 0, 0, 8 / 9, -2 / 3]),
        ([0.628539361054710, 0, -1.831697930470953, 2.869825236082910, -8 / 3, 1], [0, 0, 0, -2 / 9, 8 / 9, -2 / 3]),
        ([1 / 9, 0, 0, -8 / 9, 22 / 9, -8 / 3, 1], [0, 0, 0, 0, -2 / 9, 8 / 9, -2 / 3]),
        ([0, 0, 0, 1 / 9, -8 / 9, 22 / 9, -8 / 3, 1], [0, 0, 0, 0, 0, -2 / 9, 8 / 9, -2 / 3])]
    for (of_M, of_D), (M, D) in zip(blocks("bdf2", 5), expected, strict=True):
        np.testing.assert_allclose(of_M[:len(M)], M, atol=1e-12)
        np.testing.assert_allclose(of_D[:len(D)], D, atol=1e-12)
    bdf1 = blocks("bdf1", 4)
    np.testing.assert_allclose(bdf1[0][0][:3], [-1, -1, 1])
    np.testing.assert_allclose(bdf1[1][0][:4], [1, 0, -2, 1])
    np.testing.assert_allclose(bdf1[3][0], [0, 0, 0, 1, -2, 1])
    np.testing.assert_allclose(bdf1[3][1], [0, 0, 0, 0, 1, -1])
    for method in METHODS:
        for row in blocks(method, 6):
            for part in row:
                assert part.sum() - part[1] == pytest.approx(0.0, abs=1e-13)


@pytest.mark.row("003:A08", "003:A12", "003:A14")
@pytest.mark.parametrize("method", METHODS)
def test_the_sweep_solves_the_global_system(tree, method):
    """Multipliers against one dense solve with the transposed block matrix; M, D and H once per solve, memory by the node."""
    x = inputs()
    motion = run(tree, method, x)
    count = len(motion.solves)
    evaluated = []
    honest = tree.terms

    def counted(*arguments):
        evaluated.append(1)
        return honest(*arguments)

    found = gradient(replace(tree, terms=counted), GOAL, motion)
    assert len(evaluated) == count
    assert motion.nodes.shape == (count + 1, 3, N)
    # with the factors of the simulation nothing is evaluated again; memory grows by the solve
    kept = simulate(tree, method, (x["q"], x["v"]), H, STEPS, x["u"], x["p"], keep=True)
    assert [at.lu[0].shape for at in kept.factors] == [(N, N)] * count
    again = gradient(replace(tree, terms=counted), GOAL, kept)
    assert len(evaluated) == count
    for name in ("q", "v", "u", "p", "multipliers"):
        np.testing.assert_allclose(getattr(again, name), getattr(found, name), rtol=1e-13, atol=1e-13)
    big, rhs = np.zeros((count * N, count * N)), np.zeros(count * N)
    velocity = velocities(method)
    sym = [ca.SX.sym(name, size) for name, size in zip("tqvup", (1, N, N, N, len(PARAMETERS)), strict=True)]
    by_q, by_v = (ca.Function("s", sym, [ca.gradient(GOAL.running(*sym), y)]) for y in sym[1:3])
    final = [ca.Function("s", [sym[1], sym[2], sym[4]], [ca.gradient(GOAL.final(sym[1], sym[2], sym[4]), y)]) for y in sym[1:3]]
    for k, (of_M, of_D) in enumerate(blocks(method, STEPS)):
        solve, rows = motion.solves[k], slice(k * N, (k + 1) * N)
        u, s = motion.u[solve.step], solve.gamma * H
        _, r_q, r_v, M = tree.linearised(motion.nodes[k + 1], u, motion.p)
        for j in range(k):
            big[rows, j * N:(j + 1) * N] = of_M[j + 2] * M - of_D[j + 2] * H * r_v
        big[rows, rows] = M + s * r_v + s**2 * r_q
        if solve.last:
            at = (H * (solve.step + 1), *motion.nodes[k + 1, :2], u, motion.p)
            slopes = [column(by_q(*at)), column(by_v(*at))]
            if k == count - 1:
                slopes = [x + column(f(at[1], at[2], at[4])) for x, f in zip(slopes, final, strict=True)]
            rhs[rows] += slopes[0]
            for j in range(count):  # velocities are positions of earlier nodes
                rhs[j * N:(j + 1) * N] += velocity[k + 1][j + 2] / H * slopes[1]
    np.testing.assert_allclose(found.multipliers.ravel(), np.linalg.solve(big.T, rhs), rtol=1e-8, atol=1e-9)


def velocities(method):
    """Coefficients of h v of every node by positions, as columns of ``blocks``."""
    solves = plan(method, STEPS)
    unit = np.eye(len(solves) + 2)
    q, v = [unit[0], *unit[2:]], [unit[1]]
    for k, solve in enumerate(solves):
        past = zip(solve.weights, solve.past, strict=True)
        v.append((q[k + 1] - sum(w.a * q[j] + w.b * v[j] for w, j in past)) / solve.gamma)
    return v


@pytest.mark.row("003:A13")
def test_the_first_node_matters_to_the_first_control_alone(tree):
    """Without the multiplier of the intermediate node the gradient by the first control is wrong; the others are not."""
    x = inputs()
    motion = run(tree, "bdf2", x)
    whole = gradient(tree, GOAL, motion)
    dropped = replace(whole, u=whole.u.copy())
    s = ALPHA * H
    dropped.u[0] += s**2 * column(tree.vjp(*motion.nodes[1], motion.u[0], motion.p, whole.multipliers[0])[0])
    d, h = np.ones(N), 1e-4
    for k in (0, 1):
        step = np.zeros((STEPS, N))
        step[k] = h * d
        ends = [value(GOAL, run(tree, "bdf2", {**x, "u": x["u"] + sign * step})) for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * h)
        assert whole.u[k] @ d == pytest.approx(slope, rel=1e-6)
        if k == 0:
            assert abs(dropped.u[0] @ d - slope) > 1e-3 * abs(slope)
        else:
            assert dropped.u[1] @ d == pytest.approx(slope, rel=1e-6)


# ------------------------------------------------------------------------------------------------ parameters mean what they say
def test_parameters_are_those_of_another_mechanism(tree):
    """Built with longer links, other inertias and other forces: the same motion."""
    p = inputs()["p"]
    bodies = list(MODEL.bodies)
    for k, x in enumerate(PARAMETERS):
        if isinstance(x, Length):
            i = MODEL.joint_index(x.joint)
            place = bodies[i].joint.placement
            at = np.array(place.position) + p[k] * np.array(place.rotation) @ np.array(x.axis)
            bodies[i] = replace(bodies[i], joint=replace(bodies[i].joint, placement=Placement(place.rotation, tuple(at))))
        elif isinstance(x, AddedInertia):
            i = MODEL.body_index(x.body)
            bodies[i] = replace(bodies[i], inertia=_added(bodies[i].inertia, x.component, p[k]))
    forces = (replace(FORCES[0], k=p[6], length=p[7]), replace(FORCES[1], c=p[8]))
    other = system(Mechanism(replace(MODEL, bodies=tuple(bodies)), TREE.motors, forces=forces), mode="interpreted")
    x = inputs()
    np.testing.assert_allclose(run(tree, "bdf2", x).q, run(other, "bdf2", {**x, "p": np.zeros(0)}).q, atol=1e-10)
    base = system(TREE, mode="interpreted")
    same = [run(robot, "sdirk2", {**x, "p": robot.nominal}).q for robot in (tree, base)]
    np.testing.assert_allclose(*same, atol=1e-11)


def _added(inertia, component, amount):
    m, c = inertia.mass, np.array(inertia.com)

    def about_origin(m, c, I):
        return I + m * (c @ c * np.eye(3) - np.outer(c, c))

    I, h = about_origin(m, c, np.array(inertia.inertia)), m * c
    if component == "mass":
        m += amount
    elif component[0] == "h":
        h["xyz".index(component[1])] += amount
    else:
        i, j = ("xyz".index(letter) for letter in component)
        I[i, j] = I[j, i] = I[i, j] + amount
    c = h / m
    return BodyInertia(m, tuple(c), tuple(map(tuple, I - (m * (c @ c * np.eye(3) - np.outer(c, c))))))


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.sample(3)
def test_inertial_parameters_of_a_body(component):
    """Inverse dynamics with the parameter is that of the changed body."""
    i = 1
    at = [ca.SX.sym(name, size) for name, size in zip("qvaup", (N, N, N, N, 1), strict=True)]
    r = ca.Function("r", at, [residual(replace(TREE, forces=()), (AddedInertia(MODEL.bodies[i].name, component),), at)])
    rng = np.random.default_rng(3)
    q, v, a = rng.uniform(-1, 1, (3, N))
    bodies = list(MODEL.bodies)
    bodies[i] = replace(bodies[i], inertia=_added(bodies[i].inertia, component, 0.07))
    theirs = dynamics.make(replace(MODEL, bodies=tuple(bodies)), "inverse_dynamics")(q, v, a)
    np.testing.assert_allclose(column(r(q, v, a, np.zeros(N), 0.07)), column(theirs), atol=1e-11)


@pytest.mark.parametrize(("parameters", "words"), [
    ((Length("elbow", (1.0, 0.0, 0.0)),), r"no joint named 'elbow'"),
    ((Length("j1", (1.0, 1.0, 0.0)),), r"length at joint 'j1': axis must be a unit vector"),
    ((AddedInertia(LAST, "xw"),), r"no inertial parameter 'xw'"),
    ((AddedInertia("b9", "mass"),), r"no body named 'b9'"),
    ((ForceField("sprung", "k"),), r"no force named 'sprung'; did you mean 'spring'"),
    ((ForceField("spring", "stiffness"),), r"force 'spring': no numeric field 'stiffness'.*known: c, k, length"),
    ((ForceField("spring", "k"),) * 2, r"given twice"),
])
def test_wrong_parameters_are_named(parameters, words):
    with pytest.raises(ModelError, match=words):
        system(TREE, parameters, mode="interpreted")


def test_wrong_objectives_and_cut_runs_are_named(tree):
    motion, x = run(tree, "bdf1", inputs()), ca.SX.sym("x", 2)
    with pytest.raises(ModelError, match="3 of 6 steps: .*whole simulation"):
        gradient(tree, GOAL, replace(motion, t=motion.t[:4]))
    with pytest.raises(ModelError, match="needs 3 inputs and a scalar"):
        gradient(tree, Objective(final=ca.Function("f", [x], [x])), motion)


# ------------------------------------------------------------------------------------------------ an outer optimiser
@pytest.mark.row("003:A01", "003:A15")
def test_an_arm_reaches_its_target_by_torques_and_length():
    b = Builder("arm", gravity=(0.0, 0.0, 0.0))
    for k, (parent, reach) in enumerate((("world", 0.0), ("l0", 1.0))):
        b.body(f"l{k}", parent=parent, joint=Joint(f"j{k}", "revolute", Placement(position=(reach, 0.0, 0.0)), ((0.0, 0.0, 1.0),)),
               inertia=BodyInertia(1.0, (0.5, 0.0, 0.0), ((0.01, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.1))))
    model = b.build()
    robot = system(Mechanism(model, direct_motors(model)), (Length("j1", (1.0, 0.0, 0.0)),), mode="interpreted")
    t, q, v, u, p = (ca.SX.sym(name, size) for name, size in zip("tqvup", (1, 2, 2, 2, 1), strict=True))
    tip = ca.vertcat((1 + p) * ca.cos(q[0]) + ca.cos(q[0] + q[1]), (1 + p) * ca.sin(q[0]) + ca.sin(q[0] + q[1]))
    target = np.array([0.4, 1.3])
    goal = Objective(ca.Function("r", [t, q, v, u, p], [1e-4 * ca.sumsqr(u) + 1e-3 * ca.sumsqr(p)]),
                     ca.Function("f", [q, v, p], [100 * ca.sumsqr(tip - target) + ca.sumsqr(v)]))
    steps, calls = 20, []

    def motion(x):
        return simulate(robot, "bdf2", ([0.1, 0.2], [0.0, 0.0]), 0.05, steps, x[1:].reshape(steps, 2), x[:1])

    def f(x):
        found = gradient(robot, goal, motion(x))
        calls.append(found.value)
        return found.value, np.r_[found.p, found.u.ravel()]

    start = np.zeros(2 * steps + 1)
    best = minimize(f, start, jac=True, method="L-BFGS-B", options={"maxiter": 60})
    reached = motion(best.x)
    place = column(ca.Function("tip", [q, p], [tip])(reached.q[-1], reached.p))
    np.testing.assert_allclose(place, target, atol=5e-3)
    assert best.fun == min(calls) < calls[0] / 100
    assert len(calls) < 2 * 60  # one gradient by differences alone would take 41 simulations
