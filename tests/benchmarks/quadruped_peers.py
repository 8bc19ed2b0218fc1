"""Peers of the quadruped's receding horizon, with the face of ``ocp.shooting.receding.Receding``: Crocoddyl's FDDP on the same
schedule of contacts, and iLQR through MuJoCo's finite differences, which finds contacts by itself.

Both have the costs of problems/mpc/quadruped_trot.yaml. Crocoddyl has no hard cones: a quadratic barrier stands for them, as in its
own examples. One iteration is timed; shifting the plan and setting the models are not.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ocp.problem import Status

BEGIN, SWING, LIFT, SPEED, HEIGHT, STEP, STEPS = 0.4, 0.16, 0.05, 0.2, 0.32 * np.cos(0.8), 0.02, 24
FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
PAIRS = ((0, 3), (1, 2))  # that swing in turn
POSTURE = np.tile([0.0, 0.8, -1.6], 4) * np.repeat([1, 1, -1, -1], 3)
CALM = np.r_[0, 0, 0, 1, 1, 1, np.full(12, 0.03)]
WEIGHTS = {"posture": 2.0, "upright": 40.0, "trunk": np.array([200.0, 10.0, 10.0, 2.0]), "effort": 0.2, "swing": 2000.0}
GRID = 0.01  # s, of the sampling: times at which a knot may lie


def swinging(t: float, step: float) -> tuple[int, ...]:
    """Feet in the air in a step that begins at t, by its middle."""
    middle = t + step / 2
    return () if middle < BEGIN else PAIRS[int((middle - BEGIN) / SWING + 1e-9) % 2]


def height(t: float) -> float:
    """Of a swinging foot."""
    return float(LIFT * np.sin(np.pi * (t - BEGIN) / SWING) ** 2)


class Peer(ABC):
    """What both have in common: the plan, and the clocks."""

    nu, message, violation = 12, "", 0.0

    def __init__(self, step: float, steps: int):
        self.step, self.t, self.begins = step, np.arange(steps + 1) * step, 0.0
        self.us = np.zeros((steps, self.nu))
        self.wall: list[float] = []
        self.busy: list[float] = []
        self.cost = 0.0

    @property
    def u(self) -> np.ndarray:
        return self.us

    def shift(self, seconds: float) -> None:
        self.begins += seconds
        knots = np.minimum(self.t[:-1] + seconds, self.t[-2]) / self.step
        low = np.minimum(knots.astype(int), len(self.us) - 1)
        part = (knots - low)[:, None]
        self.us = (1 - part) * self.us[low] + part * self.us[np.minimum(low + 1, len(self.us) - 1)]

    def reset(self, x0: np.ndarray, t0: float, iterations: int = 0) -> tuple[Status, str]:
        self.begins = t0
        self.us[:] = self.hold()
        for _ in range(max(1, min(iterations, 10))):
            self.iterate(x0)
        self.wall.clear()
        self.busy.clear()
        return Status.CONVERGED, ""

    def iterate(self, x0: np.ndarray, iterations: int = 1) -> int:
        self.make_ready(x0)
        began, busy = time.perf_counter_ns(), time.thread_time_ns()
        good = self.improve()
        self.busy.append((time.thread_time_ns() - busy) * 1e-9)
        self.wall.append((time.perf_counter_ns() - began) * 1e-9)
        return 0 if good and np.isfinite(self.us).all() else 1

    def control(self, since: float, x: Any) -> np.ndarray:
        return self.us[0].copy()

    @abstractmethod
    def hold(self) -> np.ndarray:
        """Controls that hold the robot still."""

    @abstractmethod
    def make_ready(self, x0: np.ndarray) -> None:
        """Shift the plan and set the models of its times: not part of what is timed."""

    @abstractmethod
    def improve(self) -> bool:
        """One iteration; whether it succeeded."""


class Crocoddyl(Peer):
    """SolverFDDP; models by contacts and time in the cycle, made once."""

    def __init__(self, problem: Any, options: Any):
        super().__init__(STEP, STEPS)
        import crocoddyl
        import example_robot_data
        import pinocchio

        self.croc, self.pin = crocoddyl, pinocchio
        self.model = example_robot_data.load("solo12").model
        self.state = crocoddyl.StateMultibody(self.model)
        self.actuation = crocoddyl.ActuationModelFloatingBase(self.state)
        self.pool: dict[tuple[tuple[int, ...], int], Any] = {}
        self.x = None

    def _costs(self, up: tuple[int, ...], lift: float) -> Any:
        croc, state, nu = self.croc, self.state, self.nu
        costs = croc.CostModelSum(state, nu)

        def add(name: str, weight: float, residual: Any, activation: Any = None) -> None:
            costs.addCost(name, croc.CostModelResidual(state, *(() if activation is None else (activation,)), residual), weight)

        wanted = state.zero()
        wanted[7:19], wanted[19] = POSTURE, SPEED
        trunk = WEIGHTS["trunk"]
        weights = np.r_[np.zeros(6), np.full(12, WEIGHTS["posture"]), trunk[1:], np.zeros(15)]
        weights[18:] += CALM
        add("state", 1.0, croc.ResidualModelState(state, wanted, nu), croc.ActivationModelWeightedQuad(weights))
        base, eye = self.model.getFrameId("base_link"), np.eye(3)
        add("upright", WEIGHTS["upright"], croc.ResidualModelFrameRotation(state, base, eye, nu))
        upward = croc.ActivationModelWeightedQuad(np.array([0.0, 0.0, 1.0]))
        add("height", trunk[0], croc.ResidualModelFrameTranslation(state, base, np.array([0, 0, HEIGHT]), nu), upward)
        add("effort", WEIGHTS["effort"], croc.ResidualModelControl(state, nu))
        for foot, name in enumerate(FEET):
            frame = self.model.getFrameId(name)
            if foot in up:
                add(name, WEIGHTS["swing"], croc.ResidualModelFrameTranslation(state, frame, np.array([0, 0, lift]), nu), upward)
            else:
                cone = croc.FrictionCone(eye, 0.7, 4, False)
                bounds = croc.ActivationBounds(cone.lb, cone.ub)
                add(name, 10.0, croc.ResidualModelContactFrictionCone(state, frame, cone, nu, True),
                    croc.ActivationModelQuadraticBarrier(bounds))
        return costs

    def _model(self, t: float, last: bool = False) -> Any:
        up = swinging(t, STEP)
        key = ((*up, 9) if last else up, round(t / GRID) % round(2 * SWING / GRID) if up else -1)
        if key not in self.pool:
            croc, contacts = self.croc, self.croc.ContactModelMultiple(self.state, self.nu)
            for foot, name in enumerate(FEET):
                if foot not in up:
                    contacts.addContact(name, croc.ContactModel3D(
                        self.state, self.model.getFrameId(name), np.zeros(3), self.pin.LOCAL_WORLD_ALIGNED, self.nu,
                        np.array([0.0, 50.0])))
            costs = croc.CostModelSum(self.state, self.nu) if last else self._costs(up, height(t))
            moves = croc.DifferentialActionModelContactFwdDynamics(self.state, self.actuation, contacts, costs, 0.0, True)
            self.pool[key] = croc.IntegratedActionModelEuler(moves, 0.0 if last else STEP)
        return self.pool[key]

    def hold(self) -> np.ndarray:
        return np.zeros(self.nu)

    def reset(self, x0: np.ndarray, t0: float, iterations: int = 0) -> tuple[Status, str]:
        self.xs = [self._state(x0)] * (STEPS + 1)
        self.begins = t0
        problem = self._problem(x0)
        self.us = np.array(problem.quasiStatic([self._state(x0)] * STEPS))
        solver = self.croc.SolverFDDP(problem)
        solver.solve(self.xs, list(self.us), max(1, iterations), False)
        self.xs, self.us = list(solver.xs), np.array(solver.us)
        self.wall.clear()
        self.busy.clear()
        return Status.CONVERGED, ""

    def _state(self, x: np.ndarray) -> np.ndarray:
        return np.r_[x[:3], x[4:7], x[3], x[7:]]  # quaternions: scalar first, and last

    def _problem(self, x0: np.ndarray) -> Any:
        models = [self._model(self.begins + t) for t in self.t[:-1]]
        problem = self.croc.ShootingProblem(self._state(x0), models, self._model(self.begins + self.t[-2], True))
        problem.nthreads = 1
        return problem

    def shift(self, seconds: float) -> None:
        knots = np.minimum(self.t + seconds, self.t[-1]) / STEP
        low = np.minimum(knots.astype(int), STEPS - 1)
        xs = self.xs
        self.xs = [self.state.integrate(xs[i], r * self.state.diff(xs[i], xs[i + 1]))
                   for i, r in zip(low, knots - low, strict=True)]
        super().shift(seconds)

    def make_ready(self, x0: np.ndarray) -> None:
        problem = self._problem(x0)
        self.solver = self.croc.SolverFDDP(problem)
        self.xs[0] = self._state(x0)

    def improve(self) -> bool:
        self.solver.solve(self.xs, list(self.us), 1, False)
        self.xs, self.us, self.cost = list(self.solver.xs), np.array(self.solver.us), float(self.solver.cost)
        return bool(np.isfinite(self.cost))


class Mujoco(Peer):
    """iLQR through ``mjd_transitionFD`` of the plant's own model, in steps of 10 ms: dynamics and contacts are MuJoCo's."""

    def __init__(self, problem: Any, options: Any, robot: Any = None, points: Any = ()):
        super().__init__(GRID, round(STEPS * STEP / GRID))
        import mujoco

        from ocp.plants.mujoco import mjcf

        self.mj = mujoco
        self.model = mujoco.MjModel.from_xml_string(mjcf(robot, points, GRID))
        self.data = mujoco.MjData(self.model)
        self.feet = [self.model.geom(f"point {k}").id for k in range(4)]
        self.base = self.model.body("base_link").id
        self.nv, N = self.model.nv, len(self.us)
        self.drive = np.vstack([np.zeros((6, 12)), np.eye(12)])
        self.K, self.k = np.zeros((N, 12, 2 * self.nv)), np.zeros((N, 12))
        self.mu = 1e-4

    def reset(self, x0: np.ndarray, t0: float, iterations: int = 0) -> tuple[Status, str]:
        self.make_ready(x0)
        return super().reset(x0, t0, iterations)

    def hold(self) -> np.ndarray:
        """Torques that bear the weight at the start, a quarter on each foot."""
        self._set(self.start, np.zeros(12))
        self.mj.mj_forward(self.model, self.data)
        force, jac = self.data.qfrc_bias.copy(), np.zeros((3, self.nv))
        for geom in self.feet:
            self.mj.mj_jac(self.model, self.data, jac, None, self.data.geom_xpos[geom], self.model.geom_bodyid[geom])
            force -= jac.T @ np.array([0.0, 0.0, 9.81 / 4 * self.model.body_mass.sum()])
        return force[6:]

    def make_ready(self, x0: np.ndarray) -> None:
        R = np.zeros(9)
        self.mj.mju_quat2Mat(R, x0[3:7])
        v = x0[19:].copy()
        v[:3] = R.reshape(3, 3) @ v[:3]
        self.start = np.r_[x0[:19], v]

    def _set(self, x: np.ndarray, u: np.ndarray) -> None:
        self.data.qpos[:], self.data.qvel[:], self.data.qfrc_applied[:] = x[:19], x[19:], self.drive @ u

    def _minus(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """a [-] b in MuJoCo's tangent."""
        dq = np.zeros(self.nv)
        self.mj.mj_differentiatePos(self.model, dq, 1.0, b[:19], a[:19])
        return np.r_[dq, a[19:] - b[19:]]

    def _residuals(self, t: float, x: np.ndarray, u: np.ndarray, slopes: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights, residuals and their Gauss-Newton derivatives by (dx, u) after ``mj_forward``."""
        nv, d = self.nv, self.data
        R, turn = d.xmat[self.base].reshape(3, 3), np.zeros(3)
        self.mj.mju_quat2Vel(turn, x[3:7], 1.0)
        up = swinging(t, self.step)
        seen = [d.geom_xpos[self.feet[foot]][2] - height(t) for foot in up]
        v = np.r_[R.T @ x[19:22], x[22:]]
        r = np.r_[x[7:19] - POSTURE, turn, x[2] - HEIGHT, v[0] - SPEED, v[1:3], v, u, seen]
        W = np.r_[np.full(12, WEIGHTS["posture"]), np.full(3, WEIGHTS["upright"]), WEIGHTS["trunk"], CALM,
                  np.full(12, WEIGHTS["effort"]), np.full(len(seen), WEIGHTS["swing"])]
        J = np.zeros((len(r), 2 * nv + 12))
        if slopes:
            J[:12, 6:nv] = np.eye(12)
            J[12:15, 3:6] = np.eye(3)
            J[15, 2] = 1.0
            J[16:19, nv:nv + 3] = J[19:22, nv:nv + 3] = R.T
            J[22:37, nv + 3:2 * nv] = np.eye(15)
            J[37:49, 2 * nv:] = np.eye(12)
            jac = np.zeros((3, nv))
            for i, foot in enumerate(up):
                geom = self.feet[foot]
                self.mj.mj_jac(self.model, d, jac, None, d.geom_xpos[geom], self.model.geom_bodyid[geom])
                J[49 + i, :nv] = jac[2]
        return W, r, J

    def _rollout(self, us: np.ndarray, xs: np.ndarray | None, a: float) -> tuple[float, np.ndarray, np.ndarray]:
        """Cost, states and controls of ``u + a k + K dx``."""
        x, total, found, made = self.start, 0.0, [self.start], []
        for i, u in enumerate(us):
            if xs is not None:
                u = u + a * self.k[i] + self.K[i] @ self._minus(x, xs[i])
            self._set(x, u)
            self.mj.mj_forward(self.model, self.data)
            W, r, _ = self._residuals(self.begins + self.t[i], x, u, False)
            total += 0.5 * self.step * float(W @ (r * r))
            self.mj.mj_step(self.model, self.data)
            x = np.r_[self.data.qpos, self.data.qvel]
            found.append(x)
            made.append(u)
        return total, np.array(found), np.array(made)

    def improve(self) -> bool:
        nv, N = self.nv, len(self.us)
        cost, xs, us = self._rollout(self.us, None, 0.0)
        A = np.zeros((2 * nv, 2 * nv))
        V, g = np.zeros((2 * nv, 2 * nv)), np.zeros(2 * nv)
        for i in reversed(range(N)):
            self._set(xs[i], us[i])
            self.mj.mj_forward(self.model, self.data)
            W, r, J = self._residuals(self.begins + self.t[i], xs[i], us[i], True)
            self.mj.mjd_transitionFD(self.model, self.data, 1e-6, True, A, None, None, None)
            F = np.hstack([A, self._by_control(xs[i], us[i])])
            H = self.step * (J.T * W) @ J + F.T @ V @ F
            h = self.step * (J.T * W) @ r + F.T @ g
            n = 2 * nv
            Huu = H[n:, n:] + self.mu * np.eye(12)
            both = np.linalg.solve(Huu, np.c_[h[n:], H[n:, :n]])
            self.k[i], self.K[i] = -both[:, 0], -both[:, 1:]
            V = H[:n, :n] + H[:n, n:] @ self.K[i]
            V, g = 0.5 * (V + V.T), h[:n] + H[:n, n:] @ self.k[i]
        a = 1.0
        while a > 1e-2:
            total, _, made = self._rollout(us, xs, a)
            if total < cost:
                self.us, self.cost, self.mu = made, total, max(1e-6, self.mu / 2)
                return True
            a /= 2
        self.us, self.cost, self.mu = us, cost, min(1e2, self.mu * 4)
        return True

    def _by_control(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Derivative of the step by the torques, by differences as those of the state."""
        found, eps = np.zeros((2 * self.nv, 12)), 1e-6
        for j in range(12):
            ends = []
            for sign in (1.0, -1.0):
                moved = u.copy()
                moved[j] += sign * eps
                self._set(x, moved)
                self.mj.mj_step(self.model, self.data)
                ends.append(np.r_[self.data.qpos, self.data.qvel])
            found[:, j] = self._minus(*ends) / (2 * eps)
        return found
