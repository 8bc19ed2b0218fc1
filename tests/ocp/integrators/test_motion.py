"""Implicit steps by the equations of motion: the same motions as other roads, order, derivatives, closed loops, stiff contact."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from integrator_systems import by_differences, derivatives, integrate, order, step_function, stepper
from repository import ROOT

from dynamics import algorithms as alg
from dynamics.errors import ModelError
from dynamics.forces import Ground, JointDamper, JointSpring, Place, Spring
from dynamics.kernels import compile_kernel
from dynamics.mechanism import Mechanism, direct_motors
from dynamics.model.builder import Builder
from dynamics.model.model import BodyInertia, Joint
from dynamics.model.synthetic import random_tree, serial_chain
from dynamics.model.urdf import read_urdf
from dynamics.redmax.implicit import simulate, system
from ocp.app.files.load import load_problem
from ocp.bridge import equations_of_motion, robot_system
from ocp.implicit import implicit
from ocp.integrators import MULTISTEP, motion

ONE_STEP = ("bdf1", "sdirk2")


def chain():
    model = serial_chain(3)
    forces = (JointSpring("spring", model.bodies[1].joint.name, 400.0), JointDamper("damper", model.bodies[2].joint.name, 3.0))
    return Mechanism(model, direct_motors(model), forces=forces)


def floating(bodies=3):
    """A free-flying tree with a quaternion at its root and one in its limbs, a spring to the world."""
    model = random_tree(bodies, np.random.default_rng(12), kinds=("revolute", "spherical"), root="free_flyer", damping=True)
    names = [b.joint.name for b in model.bodies if b.joint.kind != "free_flyer"]
    band = Spring("band", (Place("world", (0.3, 0.2, 1.0)), Place(model.bodies[-1].name)), 40.0, 0.5, 0.4)
    return model, robot_system(Mechanism(model, direct_motors(model, names), forces=(band,)))


def start_of(model, sys):
    rng = np.random.default_rng(4)
    return np.r_[alg.random_configuration(model, rng), 0.6 * rng.normal(size=model.nv)], 0.3 * rng.normal(size=sys.nu)


def march(sys, x, u, duration, n):
    """BDF2 that starts with one step of SDIRK2."""
    t, before, now, inputs, p, h = (ca.MX.sym(s, size) for s, size in zip("tbxuph", (1, sys.nx, sys.nx, sys.nu, sys.np, 1),
                                                                           strict=True))
    on = ca.Function("on", [t, before, now, inputs, p, h], [
        MULTISTEP["bdf2"].advance(sys, t, before, now, inputs, p, h, ca.MX(1))[0]])
    length = duration / n
    before, x = x, stepper(sys, MULTISTEP["bdf2"].first, kind=ca.MX)(0.0, x, u, length)[0]
    for k in range(1, n):
        before, x = x, np.asarray(on(k * length, before, x, u, [0.0] * sys.np, length)).ravel()
    return x


@pytest.mark.parametrize("name", ["bdf1", "sdirk2", "bdf2"])
def test_motions_are_those_of_redmax(name):
    """In flat coordinates the steps are those of ``dynamics.redmax``, whose Newton solves for positions and inverts nothing."""
    mechanism, n = chain(), 12
    sys, u = robot_system(mechanism), np.array([0.5, -0.3, 0.2])
    x = np.array([0.4, -0.6, 0.3, 0.5, -1.0, 0.8])
    other = simulate(system(mechanism), name, (x[:3], x[3:]), 0.02, n, u=np.tile(u, (n, 1)))
    x = march(sys, x, u, 0.02 * n, n) if name == "bdf2" else integrate(stepper(sys, name, kind=ca.MX), x, u, 0.02 * n, n)[0]
    np.testing.assert_allclose(x, np.r_[other.q[-1], other.v[-1]], rtol=0, atol=1e-10)


@pytest.mark.parametrize(("name", "expected"), [("bdf1", 1), ("sdirk2", 2), ("bdf2", 2)])
@pytest.mark.sample(2)
def test_order_with_quaternions(name, expected):
    model, sys = floating()
    x, u = start_of(model, sys)
    fine, _ = integrate(stepper(sys, "rk4"), x, u, 0.3, 600)
    n, errors = np.array([16, 32, 64]), []
    for k in n:
        end = march(sys, x, u, 0.3, k) if name == "bdf2" else integrate(stepper(sys, name, kind=ca.MX), x, u, 0.3, k)[0]
        errors.append(np.linalg.norm(np.asarray(sys.space.minus(ca.DM(fine), ca.DM(end)))))
        assert all(abs(np.linalg.norm(end[i:i + 4]) - 1) < 1e-13 for i in sys.space.quaternions)
    assert order(errors, n) == pytest.approx(expected, abs=0.3)


@pytest.mark.parametrize(("name", "expected"), [("bdf1", 1), ("sdirk2", 2)])
def test_order_of_running_costs(name, expected):
    """The integral of a cost by the quadrature of the step, of a linear oscillator in closed form: q = cos 3 t."""
    b = Builder("oscillator", gravity=(0.0, 0.0, 0.0))
    b.body("b", parent="world", joint=Joint("j", "prismatic", axes=((1.0, 0.0, 0.0),)), inertia=BodyInertia(2.0))
    sys = robot_system(Mechanism(b.build(), forces=(JointSpring("spring", "j", 18.0),)))
    n, errors = np.array([50, 100, 200]), []
    for k in n:
        step = stepper(sys, name, lambda t, x, u: t * x[0] ** 2, kind=ca.MX)
        errors.append(abs(integrate(step, np.array([1.0, 0.0]), np.zeros(0), 1.0, k)[1] - (
            0.25 + np.sin(6.0) / 12 + (np.cos(6.0) - 1) / 72)))
    assert order(errors, n) == pytest.approx(expected, abs=0.2)


def linkage():
    loaded = load_problem(ROOT / "problems/four_bar.yaml")
    phase = loaded.problem.phase
    return phase.system, np.array(phase.start.value)


@pytest.mark.parametrize("case", ["floating", "linkage"])
@pytest.mark.parametrize("name", ONE_STEP)
@pytest.mark.sample(2)
def test_derivatives_against_differences_on_the_manifold(name, case):
    """First and second derivatives of the step map, with quaternions and with multipliers of a closed loop."""
    if case == "floating":
        model, sys = floating(2)
        x, u = start_of(model, sys)
    else:
        sys, x = linkage()
        u, x = np.array([0.4]), x + np.r_[0.1, -0.2, 0.05, 0.3, -0.4, 0.2]
    given = sys, name, ca.MX, x, u, 0.05, np.random.default_rng(7).normal(size=sys.space.ndx)
    (slope, bend), (J, H) = derivatives(*given), by_differences(*given)
    np.testing.assert_allclose(slope, J, atol=1e-7 * max(1, np.abs(J).max()))
    np.testing.assert_allclose(bend, H, atol=1e-5 * max(1, np.abs(H).max()))
    assert np.abs(H).max() > 1e-3


@pytest.mark.parametrize("name", ["bdf1", "sdirk2", "bdf2"])
def test_a_loop_stays_closed(name):
    """Two seconds of a four-bar linkage in steps of 20 ms: the pin stays within the error of the method, and drift decays."""
    sys, x = linkage()
    pin = sys.mechanism.constraints[0].reduced
    q = ca.SX.sym("q", sys.model.nq)
    gap = ca.Function("gap", [q], [pin.value(sys.model, q, 0.0)])
    u = np.array([0.5])

    def after(x, duration, n):
        return march(sys, x, u, duration, n) if name == "bdf2" else integrate(stepper(sys, name, kind=ca.MX), x, u, duration, n)[0]

    ends = [after(x, 2.0, n) for n in (100, 400)]
    gaps = [float(np.abs(np.asarray(gap(end[:sys.model.nq]))).max()) for end in ends]
    assert gaps[0] < (3e-2 if name == "bdf1" else 5e-3)
    assert gaps[1] < 0.5 * gaps[0]
    off = x + np.r_[0.0, 0.02, 0.0, 0.0, 0.0, 0.0]  # opened by 2 cm rad: closed again at the rate of the stabilisation
    opened, later = (float(np.abs(np.asarray(gap(state[:sys.model.nq]))).max()) for state in (off, after(off, 1.0, 400)))
    assert later < (0.2 if name == "bdf1" else 0.05) * opened


def test_no_mass_matrix_is_inverted():
    """A link without any inertia on a spring and a damper: forward dynamics have no value, the steps find the equilibrium."""
    builder = Builder("massless")
    builder.body("arm", parent="world", joint=Joint("hinge", "revolute", axes=((0.0, 1.0, 0.0),)))
    model = builder.build()
    forces = (JointSpring("spring", "hinge", 2.0, (0.5,)), JointDamper("damper", "hinge", 0.1))
    mechanism = Mechanism(model, direct_motors(model), forces=forces)
    with pytest.raises(ModelError, match="nothing resists"):
        mechanism.forward_dynamics(ca.SX(0), ca.SX(0), ca.SX(0))
    plain = robot_system(serial_chain(1))
    sys = replace(plain, motion=lambda: equations_of_motion(mechanism))
    for name in ONE_STEP:
        x, _ = integrate(stepper(sys, name, kind=ca.MX), np.zeros(2), np.array([1.0]), 3.0, 60)
        np.testing.assert_allclose(x, [1.0, 0.0], atol=1e-6)


def test_steps_into_stiff_contact_are_damped_where_whole_ones_fail(monkeypatch):
    """A pendulum falls onto the ground at 1e7 N/m: steps of 20 ms are solved that whole Newton steps do not solve."""
    model = read_urdf(ROOT / "problems/models/acrobot.urdf")
    ground = Ground("ground", (Place("tip"),), 1e7, 0.0, 0.8, 1e3, origin=(0.0, 0.0, -0.6))
    mechanism = Mechanism(model, direct_motors(model), forces=(ground,))
    x0 = np.array([1.2, 0.4, 0.0, 0.0])

    def run():
        motion._stage.cache_clear()
        step = compile_kernel(step_function(robot_system(mechanism), "bdf1", ca.MX))
        x = x0
        for k in range(100):
            x = np.asarray(step(0.02 * k, x, np.zeros(2), 0.02)[0]).ravel()
        return x

    x = run()
    assert np.all(np.isfinite(x))
    assert np.abs(x).max() < 20
    monkeypatch.setattr(motion, "implicit", lambda *given, search: implicit(*given))
    assert not np.all(np.isfinite(run()))
    motion._stage.cache_clear()


def test_differences_of_the_rate_are_asked_of_the_rate():
    sys = robot_system(chain())
    assert motion.moves(sys)
    assert not motion.moves(replace(sys, derivatives="fd"))
    assert not motion.moves(replace(sys, motion=None))
