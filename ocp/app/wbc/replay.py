"""A solved motion in another simulator: whole-body control tracks it there, with its torques as feedforward and its contacts by
schedule, and says whether it falls, how far it strays and how far feet slip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics import algorithms as alg
from dynamics.constraints import Cone
from dynamics.model.model import Model
from ocp.app.pages.results import solution_arrays
from ocp.app.sentences import sentences
from ocp.app.wbc.follow import motion_from
from ocp.contacts import with_contacts
from ocp.errors import ProblemError
from ocp.plants.table import PLANTS, Setting, plant_named
from ocp.problem import Solution
from ocp.wbc import Ending, Setup, WholeBodyRun, run
from ocp.wbc.follow import Following, Motion, follow
from ocp.wbc.ground import Ground

RATE = 500.0  # Hz
LONG = 5.0  # s: a motion that ends at rest stays there for so long in all
REST = 1e-3  # m/s, rad/s: of every velocity, as it ends


@dataclass(frozen=True)
class Replay:
    """How a motion went elsewhere. run: what the plant did; strays (rad), moves (m): largest error of an angle and of a length on
    the way; slips (m): farthest that a standing foot moved."""

    plant: str
    run: WholeBodyRun
    strays: float
    moves: float
    slips: float

    @property
    def holds(self) -> bool:
        """It came to its end, standing and within its limits, and feet stood."""
        return self.run.ending is Ending.FINISHED and not self.run.findings

    def record(self) -> dict[str, Any]:
        """Plain data."""
        return {"plant": self.plant, "holds": self.holds, "why": list(sentences(self.run.findings)),
                "ending": self.run.ending.name, "duration": float(self.run.t[-1]),
                "rate": self.run.setup.rate, "angle_error": self.strays, "length_error": self.moves, "slip": self.slips,
                "unsolved_steps": self.run.failures}


def replay(solution: Solution, kind: str) -> Replay:
    """The motion of a solution on a plant of this kind. Raises ProblemError for what is no robot, and for plants and robots that do
    not fit."""
    robot = solution.problem.phases[0].system.robot
    if robot is None:
        raise ProblemError("is not a robot; only robots can be replayed", where="system")
    free, model = with_contacts(robot, ()), robot.model
    motion = motion_from(solution.problem, solution_arrays(solution), model, "--replay")
    first, last = motion.stretches[0], motion.stretches[-1]
    lasts = motion.ends - motion.begins
    rests = float(np.abs(last.v[-1]).max(initial=0.0)) < REST
    start = np.r_[first.q[0], first.v[0]]
    setup = follow(Setup(free, start, (), (), rate=RATE, duration=max(lasts, LONG) if rests else lasts), motion, Following())
    ground = Ground.below(free, setup.contacts, start)
    made = PLANTS[plant_named(kind)]
    plant = made.make(Setting(free, (*setup.contacts, *(ground.parts if ground else ())), (), Cone()))
    found = run(setup, plant)
    angle, length = _apart(model, motion, found)
    return Replay(kind, found, angle, length, max((c.drift for c in found.contacts), default=0.0))


def sentence(record: Mapping[str, Any]) -> str:
    """How it went, in a sentence."""
    how = "holds" if record["holds"] else f"does not hold ({'; '.join(record['why']) or record['ending'].lower()})"
    return (f"{record['plant']}, tracked by whole-body control at {record['rate']:g} Hz for {record['duration']:.3g} s: {how}; at "
            f"most {record['angle_error']:.2g} rad and {1e3 * record['length_error']:.2g} mm from the plan, feet slip "
            f"{1e3 * record['slip']:.2g} mm")


def _apart(model: Model, motion: Motion, found: WholeBodyRun) -> tuple[float, float]:
    """Largest errors of angles (rad) and of lengths (m) along the tangent between plan and plant."""
    good = np.isfinite(found.x).all(axis=1)
    q, *_ = motion.sample(motion.begins + found.t[good])
    a, b = ca.SX.sym("a", model.nq), ca.SX.sym("b", model.nq)
    between = ca.Function("between", [a, b], [ca.densify(ca.SX(alg.difference(model, a, b)))])
    off: NDArray[np.float64] = np.abs(between(q.T, found.x[good, :model.nq].T).full()).max(axis=1, initial=0.0)
    straight = np.array([name.endswith(("vx", "vy", "vz")) or kind == "prismatic" for name, kind in _kinds(model)], bool)
    return float(off[~straight].max(initial=0.0)), float(off[straight].max(initial=0.0))


def _kinds(model: Model) -> list[tuple[str, str]]:
    """(name, kind of joint) of every velocity."""
    found = [("", "")] * model.nv
    for i, body in enumerate(model.bodies):
        own = model.v_slice(i)
        for k, name in enumerate(model.velocity_names[own], own.start):
            found[k] = (name, body.joint.kind)
    return found
