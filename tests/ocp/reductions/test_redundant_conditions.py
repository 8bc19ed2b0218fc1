"""What ends of phases ask beyond what closed loops hold anyway: counted by hand, and what methods and certificates make of it."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from repository import ROOT
from scipy.linalg import null_space

from dynamics import algorithms as alg
from dynamics.constraints import Closure
from dynamics.mechanism import Mechanism, direct_motors
from ocp.app.files.load import load_problem, load_text
from ocp.bridge import robot_system
from ocp.methods import method, solve
from ocp.problem import Boundary, Duration, Guess, Phase, Problem
from ocp.reductions import chain_of, redundant
from ocp.transcription.collocation import CollocationOptions
from tests.support.row_trees import tree_of

FIVE_BAR = """
name: Five-bar
system:
  bodies:
    l1: {mass: 0.4, com: [0.1, 0, 0], inertia: {xx: 1e-4, yy: 1.5e-3, zz: 1.5e-3},
         joint: {name: left, kind: revolute, axis: [0, 1, 0], position: [-0.1, 0, 0]}}
    l2: {parent: l1, mass: 0.3, com: [0.15, 0, 0], inertia: {xx: 1e-4, yy: 2.2e-3, zz: 2.2e-3},
         joint: {name: left elbow, kind: revolute, axis: [0, 1, 0], position: [0.2, 0, 0]}}
    r1: {mass: 0.4, com: [0.1, 0, 0], inertia: {xx: 1e-4, yy: 1.5e-3, zz: 1.5e-3},
         joint: {name: right, kind: revolute, axis: [0, 1, 0], position: [0.1, 0, 0]}}
    r2: {parent: r1, mass: 0.3, com: [0.15, 0, 0], inertia: {xx: 1e-4, yy: 2.2e-3, zz: 2.2e-3},
         joint: {name: right elbow, kind: revolute, axis: [0, 1, 0], position: [0.2, 0, 0]}}
  frames:
    tip: {body: l2, position: [0.3, 0, 0]}
    end: {body: r2, position: [0.3, 0, 0]}
  actuated: [left, right]
  constraints:
    - {name: pin, closure: {first: tip, second: end, joint: revolute, axis: [0, 1, 0]}}
phase:
  duration: 0.8
  start: {joints: {left: -2.2, right: -0.9}, rest: true, others: assembled}
  final: {joints: {left: -1.8, right: -0.4}, rest: true}
  costs: [{name: effort, running: "left**2+right**2"}]
  guess:
    states:
      - {joints: {left elbow: 1.3, right elbow: -1.3}}
      - {joints: {left elbow: 1.3, right elbow: -1.3}}
"""
MOTORS_ALONE = FIVE_BAR.replace("right: -0.4}, rest: true}", "right: -0.4}, velocities: {left: 0, right: 0}}")
SLIDER_CRANK = """
name: Slider and crank
system:
  bodies:
    crank: {mass: 0.4, com: [0.1, 0, 0], inertia: {xx: 1e-4, yy: 1e-3, zz: 1e-3},
            joint: {name: crank, kind: revolute, axis: [0, 1, 0]}}
    rod: {parent: crank, mass: 0.4, com: [0.2, 0, 0], inertia: {xx: 1e-4, yy: 1e-3, zz: 1e-3},
          joint: {name: wrist, kind: revolute, axis: [0, 1, 0], position: [0.2, 0, 0]}}
    piston: {mass: 0.3, joint: {name: slider, kind: prismatic, axis: [1, 0, 0]}}
  frames:
    tip: {body: rod, position: [0.5, 0, 0]}
  actuated: [crank]
  constraints:
    - {name: pin, closure: {first: tip, second: piston, joint: revolute, axis: [0, 1, 0]}}
phase:
  duration: 1
  start: {joints: {crank: 1.0}, rest: true, others: assembled}
  final: {joints: {crank: 0, wrist: 0, slider: 0.7}, velocities: {crank: 1}}
  costs: [{name: effort, running: "crank**2"}]
  guess:
    states: [{joints: {wrist: -1.3, slider: 0.6}}, {}]
"""


def reduced(problem):
    return chain_of(["redundant_conditions"]).apply(problem)


def kept(boundary, names):
    return [name for name, fixed in zip(names, boundary.fixed, strict=True) if fixed]


def five_bar_jacobian(a, b, c, d):
    """Rates of tip minus end (x, z) in the plane, by hand: bars of 0.2 and 0.3 m, angles about y."""
    def arm(q, r):
        q, r = q, q + r
        far = 0.3 * np.array([-np.sin(r), -np.cos(r)])
        return np.column_stack([0.2 * np.array([-np.sin(q), -np.cos(q)]) + far, far])

    return np.hstack([arm(a, b), -arm(c, d)])


def test_joints_of_a_loop_at_rest_are_as_many_as_it_has_freedoms():
    problem = load_text(FIVE_BAR).problem
    phase = reduced(problem).phase
    names = phase.system.space.tangent_names
    assert phase.start == problem.phase.start  # in full
    asked = kept(phase.final, names)
    assert asked[:2] == ["q.left", "q.right"]
    assert len(asked) == 4
    reached = np.array(solve(problem, options={"intervals": 10}).trajectory.x[-1])
    free = null_space(five_bar_jacobian(*reached[:4]))
    assert free.shape == (4, 2)
    which = [names.index(name) - 4 for name in asked[2:]]
    assert np.linalg.cond(free[which]) < 10  # these two at rest are all at rest
    assert reduced(reduced(problem)).phase.final == phase.final


def test_without_constraints_nothing_is_redundant():
    problem = load_problem(ROOT / "problems" / "ur5_reach.yaml").problem
    assert reduced(problem) is problem


def test_a_prescription_at_a_dead_centre_is_kept():
    """Where the piston turns back its place does not move with the crank, and still is one to be reached; of all three joints one
    place is asked, and the speed of the crank."""
    phase = reduced(load_text(SLIDER_CRANK).problem).phase
    asked = kept(phase.final, phase.system.space.tangent_names)
    assert len(asked) == 2
    assert asked[0].startswith("q.")
    assert asked[1] == "v.crank"
    alone = reduced(load_text(SLIDER_CRANK.replace("{crank: 0, wrist: 0, slider: 0.7}", "{slider: 0.7}")).problem).phase
    assert kept(alone.final, phase.system.space.tangent_names) == ["q.slider", "v.crank"]


def test_a_floating_tree_with_a_closure():
    """Ranks by differences of the constraint along the manifold: what is asked adds all that was prescribed, and no more."""
    model = tree_of("free_flyer", "revolute", "spherical", "prismatic", "universal", seed=2, branching=0.5)
    names = [body.joint.name for body in model.bodies]
    mechanism = Mechanism(model, direct_motors(model, names[1:]), constraints=(Closure("tie", "world", "f4", "spherical"),))
    system, rng = robot_system(mechanism), np.random.default_rng(4)
    q = alg.random_configuration(model, rng)
    value = mechanism.constraints[0].value
    for _ in range(50):
        g = np.asarray(ca.DM(value(model, ca.DM(q), 0.0))).ravel()
        J = np.asarray(ca.DM(mechanism.constraints[0].jacobian(model, ca.DM(q), 0.0)))
        q = np.asarray(ca.DM(alg.integrate(model, ca.DM(q), ca.DM(-np.linalg.lstsq(J, g, 1e-9)[0])))).ravel()
    assert np.max(np.abs(g)) < 1e-12
    x = np.r_[q, np.zeros(model.nv)]
    prescribed = np.arange(2 * model.nv) != 3
    guess = Guess(np.array([0.0, 1.0]), np.tile(x, (2, 1)), np.zeros((2, system.nu)))
    phase = Phase("p", system, Duration(1.0, 1.0, 1.0), guess, start=Boundary(tuple(x), (True,) * system.space.ndx),
                  final=Boundary(tuple(x), tuple(prescribed.tolist())))
    problem = reduced(Problem("tied", (phase,)))
    final = problem.phase.final

    def at(dx):
        return np.asarray(ca.DM(value(model, alg.integrate(model, ca.DM(q), ca.DM(dx)), 0.0))).ravel()

    G = np.column_stack([(at(e) - at(-e)) / 2e-6 for e in 1e-6 * np.eye(model.nv)])
    tied = np.kron(np.eye(2), G)
    rank = [np.linalg.matrix_rank(np.vstack([tied, np.eye(2 * model.nv)[list(flags)]]), 1e-6) for flags in (
        np.zeros(2 * model.nv, dtype=bool), prescribed, np.array(final.fixed))]
    assert rank[0] == 2 * 3
    assert rank[1] == rank[2] == rank[0] + sum(final.fixed)
    assert sum(redundant(problem).final[0]) == 5


def test_the_linkage_of_a_whole_turn_asks_for_one_joint():
    """A crank that turns once round in a period: six equations, of a linkage with one freedom."""
    text = """
name: Crank turning round
system:
  robot: models/four_bar.urdf
  actuated: [crank]
  constraints:
    - {name: pin, closure: {first: end, second: tip, joint: revolute, axis: [0, 1, 0]}}
phase:
  duration: 1.5
  costs: [{name: effort, running: "crank**2"}]
  start: {joints: {crank: 0}, others: free}
  guess:
    states:
      - {joints: {crank: 0, coupler: -0.927, rocker: -1.571}}
      - {joints: {crank: "-pi/2", coupler: 1.2, rocker: -1.65}}
      - {joints: {crank: "-pi", coupler: 2.547, rocker: -2.366}}
      - {joints: {crank: "-3*pi/2", coupler: 4.0, rocker: -2.2}}
      - {joints: {crank: "-2*pi", coupler: 5.36, rocker: -1.571}}
linkages:
  - name: turn
    expression:
      - 'final["q.crank"] - start["q.crank"] + 2*pi'
      - 'final["q.coupler"] - start["q.coupler"] - 2*pi'
      - 'final["q.rocker"] - start["q.rocker"]'
      - 'final["v.crank"] - start["v.crank"]'
      - 'final["v.coupler"] - start["v.coupler"]'
      - 'final["v.rocker"] - start["v.rocker"]'
    equal: 0
"""
    problem = load_text(text, ROOT / "problems").problem
    less, (linkage,) = reduced(problem), problem.linkages
    left_out, = redundant(less).linkages
    assert left_out.count(True) == 4
    assert [i // 3 for i, out in enumerate(left_out) if not out] == [0, 1]  # one place, one speed
    assert less.linkages[0].components() == tuple(name for name, out in zip(linkage.components(), left_out, strict=True) if not out)
    found = solve(problem, "multiple_shooting", {"intervals": 80})
    off = np.asarray(linkage.function(found.trajectory.x[0], found.trajectory.x[-1], [1.5], [])).ravel()
    assert found.status.name == "CONVERGED"
    assert len(found.iterations) < 60
    assert np.max(np.abs(off)) < 1e-3


@pytest.mark.parametrize("method", ["collocation", "multiple_shooting"])
def test_rest_of_all_joints_is_as_easy_as_that_of_the_motors(method):
    whole, alone = (solve(load_text(text).problem, method) for text in (FIVE_BAR, MOTORS_ALONE))
    assert whole.ok
    assert alone.ok
    assert len(whole.iterations) <= len(alone.iterations) + 3
    assert whole.objective == pytest.approx(alone.objective, rel=1e-5)
    assert np.max(np.abs(whole.trajectory.x[-1][4:])) < 1e-5


def test_velocities_that_the_loop_does_not_allow_are_not_certified():
    text = FIVE_BAR.replace("right: -0.4}, rest: true}",
                            "right: -0.4}, velocities: {left: 0, right: 0, left elbow: 1, right elbow: 0}}")
    found = solve(load_text(text).problem, options={"intervals": 10, "refine": "none"})
    assert not found.ok
    state, = (one for one in found.certificate.violations if one.name == "final state")
    assert state.at_knots > 0.1
    assert not state.holds


def test_what_a_method_hands_back_has_all_conditions():
    problem = load_text(FIVE_BAR).problem
    found = solve(problem, options={"intervals": 10})
    assert sum(redundant(reduced(problem)).final[0]) == 2
    assert found.problem.phase.final == problem.phase.final
    assert all(found.problem.phase.final.fixed[4:])


def test_where_rows_have_no_derivative_at_the_guess_it_is_beside_it_that_counts():
    """A rod between two pendulums of one pivot, whose tips coincide in the guess: its direction is not a number there."""
    link = "{mass: 1, com: [0.1, 0, 0], inertia: {xx: 1e-4, yy: 1e-3, zz: 1e-3}, " \
        "joint: {name: %s, kind: revolute, axis: [0, 1, 0]}}"
    problem = load_text(f"""
name: Scissors
system:
  bodies:
    first: {link % "a"}
    second: {link % "b"}
  constraints:
    - {{name: rod, rod: {{length: 0.1, points: [{{frame: first, position: [0.2, 0, 0]}},
                                               {{frame: second, position: [0.2, 0, 0]}}]}}}}
phase:
  duration: 1
  start: {{joints: {{a: 0}}, rest: true, others: assembled}}
  final: {{rest: true}}
  costs: [{{name: effort, running: "a**2 + b**2"}}]
""").problem
    phase = problem.phase
    still = replace(phase, guess=replace(phase.guess, x=np.zeros_like(phase.guess.x)))
    assert redundant(reduced(replace(problem, phases=(still,)))).final[0].count(True) == 1


def test_feet_on_the_ground_leave_the_base_twelve_conditions():
    """A quadruped on four feet, whose base is to stand somewhere with all joints at rest: feet that do not slip hold velocities
    alone, and with six velocities of the base at rest all are."""
    feet = "".join(f"\n    - {{name: {leg}, contact: {{frame: {leg}_foot, friction: 0.6}}}}" for leg in ("lf", "rf", "lh", "rh"))
    joints = ", ".join(f"{leg}_thigh: 0.6, {leg}_knee: -1.2, {leg}_abduction: 0" for leg in ("lf", "rf", "lh", "rh"))
    problem = load_text(f"""
name: Quadruped on four feet
system:
  robot: models/quadruped.urdf
  root: free_flyer
  constraints: {feet}
phase:
  duration: 0.6
  start: {{base: {{rpy: [0, 0, 0]}}, joints: {{{joints}}}, rest: true, others: assembled}}
  final: {{base: {{position: [0, 0, 0.3], rpy: [0, 0, 0]}}, rest: true}}
  costs: [{{name: effort, running: "dot(tau, tau)"}}]
""", ROOT / "problems").problem
    assert sum(problem.phase.final.fixed) == 24
    reduced = method("collocation").reduce(problem, CollocationOptions(intervals=2))
    fixed = np.array(reduced.phase.final.fixed)
    assert (fixed[:18].sum(), fixed[18:].sum()) == (6, 6)
