"""Loops of whole mechanisms: forces, constraints and wrenches against generated code, its differentiation and complex steps."""

import casadi as ca
import numpy as np
import pytest
from joint_examples import POINTS
from loop_references import close, first_derivatives, hessians

from dynamics import algorithms as alg
from dynamics.constraints import Closure, Coupling, JointMotion, Rod
from dynamics.derivatives.complex_step import complex_step_jacobian
from dynamics.errors import ModelError
from dynamics.forces import Bushing, Cable, Drag, Expression, JointDamper, JointFriction, JointSpring, Place, PointForce, Spring
from dynamics.loops import LoopDynamics
from dynamics.mechanism import Mechanism, Motor, Thruster
from dynamics.model import BodyInertia, Builder, Joint
from dynamics.model.builder import joint

INERTIA = BodyInertia(0.7, (0.05, -0.1, 0.15), ((0.03, 0.001, 0.002), (0.001, 0.04, -0.003), (0.002, -0.003, 0.05)))


def branched():
    """A tree of two branches: a bead on a curve, a universal joint, a ball, and hinges."""
    made = Builder("branched")
    made.body("a", parent="world", joint=joint("a", "revolute", axes=[(0.2, 1, 0.1)], damping=0.3), inertia=INERTIA)
    made.body("b", parent="a", joint=joint("b", "universal", axes=[(0, 1, 0), (1, 0, 0.4)], position=(0.1, 0, 0.3)),
              inertia=INERTIA)
    made.body("c", parent="b", joint=joint("c", "prismatic", axes=[(1, 1, 0)], position=(0, 0.1, 0.3), armature=0.2),
              inertia=INERTIA)
    made.body("d", parent="a", joint=joint("d", "spline_curve", points=POINTS, position=(0, 0.2, 0)), inertia=INERTIA)
    made.body("e", parent="d", joint=Joint("e", "spherical"), inertia=INERTIA)
    return made.build()


def forces(model):
    q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    written = ca.Function("written", [q, v], [ca.densify(ca.sin(q[:1]) * v + 0.3 * v[::-1])])
    return (JointSpring("k", "b", 3.0, (0.1, -0.2)), JointSpring("ball", "e", 2.0), JointDamper("d", "a", 0.2, 0.1),
            JointFriction("mu", "c", 0.4, 0.3), Spring("tie", (Place("c", (0.1, 0, 0)), Place("e", (0, 0, 0.2))), 20.0, 0.1, 0.5),
            Cable("rope", (Place("world", (1.0, 1.0, 1.0)), Place("d"), Place("c")), 8.0, 0.2),
            Bushing("pad", Place("e", (0.1, 0, 0)), Place("world"), 4.0, 0.3), PointForce("wind", Place("c"), (1.0, -2.0, 0.5)),
            Drag("air", "e", (0.1, 0.2, 0.3, 0.01, 0.02, 0.03), (0.2,) * 6), Expression("written", written))


CONSTRAINTS = (Closure("pin", "c", "e", "cylindrical", (0.3, -0.5, 0.8)), Coupling("belt", (("a", 1.0), ("d", -0.5)), 0.1),
               Rod("rod", Place("c"), Place("world", (0.5, 0.1, 0.0)), 0.9))


def mechanism(what):
    model = branched()
    motors = tuple(Motor(name, ((name, 1.0),)) for name in model.velocity_names)  # u is tau
    acting = {"forces": (forces(model), ()), "constraints": ((), CONSTRAINTS[:1]), "both": (forces(model)[3:6], CONSTRAINTS[1:]),
              "redundant": (forces(model)[4:5], (*CONSTRAINTS[1:2], Coupling("twice", (("a", 2.0), ("d", -1.0)), 0.2)))}[what]
    return Mechanism(model, motors, (), *acting)


def point(model, seed=5):
    rng = np.random.default_rng(seed)
    return alg.random_configuration(model, rng), *rng.uniform(-1, 1, (3, model.nv))


def forward(robot):
    """Forward dynamics as the references take it; wrenches act as forces ``J' w``."""
    def of(model, q, v, tau, wrenches=None):
        pushed = sum((alg.frame_jacobian(model, q, body, "body").T @ w for body, w in (wrenches or {}).items()), ca.DM(model.nv, 1))
        return robot.forward_dynamics(q, v, tau + pushed)
    return of


def inverse(robot):
    return lambda model, q, v, a, wrenches=None: alg.inverse_dynamics(model, q, v, a, wrenches or {}) - robot.force(q, v)


@pytest.fixture(params=["forces", "constraints", "both", "redundant"], scope="module")
def case(request):
    robot = mechanism(request.param)
    return robot, LoopDynamics(robot), point(robot.model)


def test_values_agree_with_generated_code(case):
    robot, loops, (q, v, tau, _) = case
    a = np.array(robot.forward_dynamics(q, v, tau)).ravel()
    close(loops.forward_dynamics(q, v, tau), a)
    close(loops.inverse_dynamics(q, v, a), np.array(robot.inverse_dynamics(q, v, a)).ravel())
    if robot.constraints:
        again, multipliers = loops.constrained_dynamics(q, v, tau)
        close(again, a)
        # along what dependent rows leave open, rounding is divided by what was added to the diagonal
        close(multipliers, np.array(robot.constrained_dynamics(q, v, tau)[1]).ravel(), 1e-6 if robot.constraints[-1].name == "twice"
              else 1e-10)


@pytest.mark.sample(2)
def test_first_derivatives(case):
    robot, loops, (q, v, tau, _) = case
    model = robot.model
    for ours, theirs in zip(loops.forward_dynamics_derivatives(q, v, tau)[1], first_derivatives(model, forward(robot))(q, v, tau),
                            strict=True):
        close(ours, theirs)
    for ours, theirs in zip(loops.inverse_dynamics_derivatives(q, v, tau), first_derivatives(model, inverse(robot))(q, v, tau),
                            strict=True):
        close(ours, theirs)


@pytest.mark.sample(2)
def test_first_derivatives_by_complex_steps(case):
    robot, loops, (q, v, tau, _) = case
    model, d = robot.model, ca.SX.sym("d", robot.model.nv)
    first = loops.forward_dynamics_derivatives(q, v, tau)[1]
    steps = (lambda: robot.forward_dynamics(alg.jet(model, q, d), v, tau), lambda: robot.forward_dynamics(q, v + d, tau),
             lambda: robot.forward_dynamics(q, v, tau + d))
    for ours, moved in zip(first, steps, strict=True):
        slope = complex_step_jacobian(ca.Function("a", [d], [ca.densify(moved())]))
        close(ours, np.array(slope(np.zeros(model.nv))))


@pytest.mark.sample(2)
def test_second_derivatives(case):
    robot, loops, (q, v, tau, mu) = case
    model = robot.model
    first, ours = loops.forward_contracted_second_order(q, v, tau, mu)[1:]
    close(first, loops.forward_dynamics_derivatives(q, v, tau)[1])
    for x, theirs in zip(ours, hessians(model, forward(robot))(q, v, tau, mu), strict=True):
        close(x, theirs)
    for x, theirs in zip(loops.contracted_second_order(q, v, tau, mu), hessians(model, inverse(robot))(q, v, tau, mu), strict=True):
        close(x, theirs)
    close(np.einsum("i,ikrc->krc", mu, loops.second_order(q, v, tau)), loops.contracted_second_order(q, v, tau, mu))


@pytest.mark.parametrize("what", ["both"])
def test_wrenches_act_beside_forces_and_constraints(what):
    robot = mechanism(what)
    model, loops, (q, v, tau, mu) = robot.model, LoopDynamics(robot), point(robot.model, 8)
    rng = np.random.default_rng(3)
    wrenches = {name: 3 * rng.standard_normal(6) for name in ("b", "e")}
    symbols = {name: ca.DM(w) for name, w in wrenches.items()}
    close(loops.forward_dynamics(q, v, tau, wrenches), np.array(forward(robot)(model, q, v, tau, symbols)).ravel())
    a, first, second = loops.forward_contracted_second_order(q, v, tau, mu, wrenches)
    for ours, theirs in zip(first, first_derivatives(model, forward(robot), symbols)(q, v, tau), strict=True):
        close(ours, theirs)
    for ours, theirs in zip(second, hessians(model, forward(robot), symbols)(q, v, tau, mu), strict=True):
        close(ours, theirs)
    for ours, theirs in zip(loops.inverse_dynamics_derivatives(q, v, a, wrenches),
                            first_derivatives(model, inverse(robot), symbols)(q, v, a), strict=True):
        close(ours, theirs)


def driven():
    """Thrusters on the base, on a branch, and between the branches; a joint that follows a motion in time."""
    model, t = branched(), ca.SX.sym("t")
    thrusters = (Thruster("r1", "b", (0.1, 0.2, 0.9), 0.05, (0.1, 0, 0.2)), Thruster("r2", "e", (1, -0.3, 0.2)),
                 Thruster("piston", "c", (0, 1, 0.1), 0.0, (0.1, 0.1, 0), against="e"))
    motors = tuple(Motor(name, ((name, 1.0),)) for name in model.velocity_names)
    guided = JointMotion("guided", "a", ca.Function("p", [t], [ca.sin(3 * t) + t**2]))
    return Mechanism(model, motors, thrusters, forces(model)[:3], (guided, *CONSTRAINTS[2:]))


@pytest.mark.slow
def test_thrusters_and_time():
    robot = driven()
    model, loops, (q, v, tau, mu) = robot.model, LoopDynamics(robot), point(robot.model, 3)
    thrusts, t = np.array([2.0, -3.0, 5.0]), 0.4

    def forward_at(_, q, v, tau, wrenches=None):
        return robot.forward_dynamics(q, v, ca.vertcat(tau, thrusts), t)

    def inverse_at(_, q, v, a, wrenches=None):
        return robot.inverse_dynamics(q, v, a, ca.DM(thrusts))

    a, first, second = loops.forward_contracted_second_order(q, v, tau, mu, t=t, thrusts=thrusts)
    close(a, np.array(forward_at(model, q, v, tau)).ravel())
    close(loops.forward_dynamics(q, v, tau, t=t, thrusts=thrusts), a)
    assert all(np.abs(loops.forward_dynamics(q, v, tau, **other) - a).max() > 1e-2
               for other in ({"t": t}, {"thrusts": thrusts}))  # neither is kept from an earlier call
    for ours, theirs in ((first, first_derivatives(model, forward_at)(q, v, tau)),
                         (second, hessians(model, forward_at)(q, v, tau, mu)),
                         (loops.inverse_dynamics_derivatives(q, v, a, thrusts=thrusts),
                          first_derivatives(model, inverse_at)(q, v, a)),
                         (loops.contracted_second_order(q, v, a, mu, thrusts=thrusts),
                          hessians(model, inverse_at)(q, v, a, mu))):
        for x, y in zip(ours, theirs, strict=True):
            close(x, y)
    close(loops.inverse_dynamics(q, v, a, thrusts=thrusts), np.array(inverse_at(model, q, v, a)).ravel())
    with pytest.raises(ModelError, match=r"thrusts has shape \(2,\), expected \(3,\)"):
        loops.forward_dynamics(q, v, tau, thrusts=[1.0, 2.0])


def test_results_do_not_depend_on_what_came_before():
    """Results are written over results: a second call, and one at another point in between, change nothing."""
    robot = mechanism("both")
    loops = LoopDynamics(robot)
    here, there = point(robot.model, 1), point(robot.model, 2)
    out = np.zeros((4, robot.model.nv, robot.model.nv))
    once = loops.contracted_second_order(*here, out=out).copy()
    loops.forward_contracted_second_order(*there)
    loops.contracted_second_order(*there, out=out)
    np.testing.assert_array_equal(loops.contracted_second_order(*here, out=out), once)
    with pytest.raises(ModelError):
        loops.forward_dynamics(*here[:2], np.zeros(3))
