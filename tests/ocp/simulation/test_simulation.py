"""Motions of problems: steppers against closed forms and each other, phases, jumps, endings, controls."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from ocp.app.files.load import load_problem, load_text
from ocp.app.simulate import findings
from ocp.errors import ProblemError
from ocp.integrators import INTEGRATORS
from ocp.problem import Formulation
from ocp.simulation import Constant, Ending, Guessed, StepError, simulate, stepper, with_steps_halved

OSCILLATOR = """
name: Oscillator with a supply
system:
  states: {x: m, v: m/s}
  controls: {u: N}
  dynamics: {x: v, v: u - 4*x - 0.2*v}
  energy: v**2/2 + 2*x**2
  power: u*v - 0.2*v**2
phase:
  duration: 2
  start: {x: 1, v: 0}
  costs: [{name: effort, running: u**2}, {name: place, final: x**2}]
"""
DIODE = """
name: Supply through a diode
system:
  states: {charge: C, current: A}
  controls: {supply: V}
  algebraic: {drop: V}
  dynamics: {charge: current}
  equations:
    diode: drop + drop**3 = current
    loop: der(current) + 2*current + charge + drop = supply
phase:
  duration: 1
  start: {charge: 0.4, current: 1}
  costs: [{name: heat, running: "current*drop"}]
"""
SPHERE = """
name: A tumbling box
system:
  bodies:
    box: {mass: 1, inertia: {xx: 1, yy: 2, zz: 3}, joint: {kind: spherical}}
phase:
  duration: 1
  start: {joints: {}, velocities: {box: [0.3, 2, 0.2]}, others: neutral}
  costs: []
"""
NEW = ("bdf1", "sdirk2", "bdf2")
FLAT = [name for name in INTEGRATORS if name not in ("cf4", "rkmk4")]


def problem(text):
    return load_text(text).problem


def end(found, integrator, **how):
    return simulate(found, integrator, Constant({"u": 0.5}, found), kernels="interpreted", **how)


def exact(t, u=0.5):
    """Of the oscillator, by its matrix exponential."""
    from scipy.linalg import expm

    A = np.array([[0, 1, 0], [-4, -0.2, u], [0, 0, 0]])
    return (expm(A * t) @ [1, 0, 1])[:2]


@pytest.mark.parametrize("integrator", [*FLAT, *NEW])
@pytest.mark.sample(4)
def test_every_integrator_ends_where_the_closed_form_does(integrator):
    found = problem(OSCILLATOR)
    errors = [np.abs(end(found, integrator, dt=2 / n).legs[0].x[-1] - exact(2.0)).max() for n in (40, 80)]
    order = 1 if integrator in ("bdf1", "euler", "semi_implicit_euler", "implicit_euler") else 2
    assert errors[1] < 0.2 if order == 1 else errors[1] < 4e-3
    assert errors[0] > 1.6**order * errors[1] or errors[0] < 1e-9


@pytest.mark.row("003:R09")
def test_inner_steps_follow_their_own_error():
    """DOP853 between steps of any length: the closed form, a body on the manifold that keeps its energy, costs as one more state;
    where no inner step is short enough, the state and the time are named."""
    found = problem(OSCILLATOR)
    motion, fine = end(found, "dop853", dt=0.4), end(found, "rk4", dt=1e-3)
    np.testing.assert_allclose(motion.legs[0].x[-1], exact(2.0), atol=1e-9)
    np.testing.assert_allclose(motion.legs[0].integrals[-1], fine.legs[0].integrals[-1], atol=1e-9)
    found = problem(SPHERE)
    motion = simulate(found, "dop853", Guessed(found), dt=0.25, kernels="interpreted")
    fine = simulate(found, "rk4", Guessed(found), dt=1e-3, kernels="interpreted")
    assert np.linalg.norm(motion.legs[0].x[-1][:4]) == pytest.approx(1.0, abs=1e-14)
    assert abs(findings.energies(motion).unexplained) < 1e-9
    np.testing.assert_allclose(motion.legs[0].x[-1], fine.legs[0].x[-1], atol=1e-9)
    found = problem(OSCILLATOR.replace("u - 4*x - 0.2*v}", "u + 3*v**2}").replace("v: 0}", "v: 1}"))
    lost = end(found, "dop853", dt=0.1)
    assert lost.ending is Ending.FAILED
    assert "no inner step is short enough" in lost.message
    assert "'v'" in lost.message


@pytest.mark.parametrize("integrator", NEW)
def test_integrals_are_states_of_the_scheme(integrator):
    """Costs and work are what one more state would have come to."""
    found = problem(OSCILLATOR)
    more = problem(OSCILLATOR.replace("v: m/s}", "v: m/s, w: J}").replace("0.2*v}", "0.2*v, w: u*v - 0.2*v**2}").replace(
        "v: 0}", "v: 0, w: 0}"))
    motion, other = end(found, integrator, dt=0.05), end(more, integrator, dt=0.05)
    np.testing.assert_allclose(motion.legs[0].integrals[:, 1], other.legs[0].x[:, 2], atol=1e-11)
    assert motion.legs[0].integrals[-1, 0] == pytest.approx(0.5)
    assert findings.costs(motion) == {"effort": pytest.approx(0.5), "place": pytest.approx(motion.legs[0].x[-1, 0] ** 2)}


@pytest.mark.parametrize("integrator", NEW)
def test_positions_alone_and_whole_states_agree(integrator):
    """A mechanism in flat coordinates by both forms of the equations, a control acting."""
    found = load_problem(ROOT / "problems" / "acrobot.yaml").problem
    system = found.phase.system
    plain = replace(found, phases=(replace(found.phase, system=replace(system, formulation=Formulation(motion=system.motion))),))
    given = {system.controls[0]: 0.7}
    one, two = (simulate(p, integrator, Constant(given, p), dt=0.02, until=0.6, kernels="interpreted") for p in (found, plain))
    np.testing.assert_allclose(one.legs[0].x, two.legs[0].x, atol=5e-8)
    np.testing.assert_allclose(one.legs[0].integrals, two.legs[0].integrals, atol=5e-8)


@pytest.mark.parametrize(("integrator", "order"), [("bdf1", 1), ("sdirk2", 2), ("bdf2", 2)])
def test_orders_are_kept_on_the_manifold_of_rotations(integrator, order):
    found = problem(SPHERE)
    fine = simulate(found, "rk4", Guessed(found), dt=1e-3, kernels="interpreted").legs[0].x[-1]
    errors = []
    for n in (40, 80, 160):
        x = simulate(found, integrator, Guessed(found), dt=1 / n, kernels="interpreted").legs[0].x[-1]
        assert np.linalg.norm(x[:4]) == pytest.approx(1.0, abs=1e-12)
        errors.append(np.abs(np.asarray(found.phase.system.space.minus(fine, x))).max())
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), order, atol=0.25)


@pytest.mark.parametrize("integrator", ["rk4", *NEW])
def test_algebraic_unknowns_are_solved_for_and_shown(integrator):
    found = problem(DIODE)
    motion = simulate(found, integrator, Constant({"supply": 2.0}, found), dt=1e-3, kernels="interpreted")
    assert motion.ok
    path = findings.as_solution(motion).trajectory
    drop, current = path.u[:, -1], path.x[:-1, 1]
    np.testing.assert_allclose(drop + drop**3, current, atol=1e-9)


@pytest.mark.parametrize("integrator", ["rk4", "bdf2"])
def test_a_ball_falls_and_jumps(integrator):
    """Two phases with a reset between them, against the parabola; then on beyond the end."""
    found = load_text("""
name: A ball that bounces
system: {states: {y: m, v: m/s}, dynamics: {y: v, v: "-10"}, energy: v**2/2 + 10*y, power: "0"}
phases:
  - {name: falls, duration: 0.4, start: {y: 0.8, v: 0}, costs: []}
  - {name: rises, duration: 0.3, reset: {v: -v/2}, costs: []}
""").problem
    motion = simulate(found, integrator, Guessed(found), dt=0.03, until=0.9, kernels="interpreted")
    first, second = motion.legs
    assert first.t[-1] == pytest.approx(0.4)
    np.testing.assert_allclose(first.x[-1], [0.0, -4.0], atol=1e-12)
    np.testing.assert_allclose(second.x[0], [0.0, 2.0], atol=1e-12)
    np.testing.assert_allclose(second.x[-1], [2 * 0.5 - 5 * 0.25, -3.0], atol=1e-9)
    energy = findings.energies(motion)
    assert energy.jumps == pytest.approx(-6.0)
    assert energy.unexplained == pytest.approx(0.0, abs=1e-9)
    assert len(simulate(found, integrator, Guessed(found), dt=0.03, until=0.2, kernels="interpreted").legs) == 1


def test_constraints_are_drawn_back_and_their_drift_is_measured():
    found = load_problem(ROOT / "problems" / "four_bar.yaml").problem
    motion = simulate(found, "rk4", Guessed(found), dt=5e-3, kernels="interpreted")
    drift, = findings.drifts(motion)
    assert drift.name == "pin"
    assert drift.gap[0] < 1e-10
    assert 1e-12 < drift.gap.max() < 1e-4
    worse = findings.drifts(simulate(found, "euler", Guessed(found), dt=5e-3, kernels="interpreted"))[0]
    assert worse.gap.max() > 30 * drift.gap.max()
    apart = findings.drifts(simulate(load_problem(ROOT / "problems" / "four_bar_residual.yaml").problem, "rk4", Guessed(
        load_problem(ROOT / "problems" / "four_bar_residual.yaml").problem), dt=5e-3, kernels="interpreted"))
    assert [d.name for d in apart] == ["pin"]
    assert apart[0].gap.max() < 1e-2


def test_halved_steps_tell_the_error():
    found = problem(OSCILLATOR)
    controls = Constant({"u": 0.5}, found)
    motion = simulate(found, "bdf1", controls, dt=0.01, kernels="interpreted")
    size, name, time = with_steps_halved(motion, controls, kernels="interpreted")
    error = np.abs(motion.legs[0].x - np.array([exact(t) for t in motion.t])).max()
    assert size == pytest.approx(error / 2, rel=0.1)  # of first order: half of the error goes with half of the step
    assert name == "v"
    assert 0 < time <= 2


def test_controls_of_a_guess_are_read_at_the_middle_of_steps():
    text = OSCILLATOR.replace("  costs", "  guess: {controls: {u: [0, 2]}}\n  costs")
    found = problem(text)
    motion = simulate(found, "rk4", Guessed(found), dt=0.5, kernels="interpreted")
    np.testing.assert_allclose(motion.legs[0].u.ravel(), [0.25, 0.75, 1.25, 1.75])
    held = simulate(found, "rk4", Guessed(found, stairs=[True]), dt=0.5, kernels="interpreted")
    np.testing.assert_allclose(held.legs[0].u.ravel(), 0.0)


# ------------------------------------------------------------------------------------------------ what goes wrong
def test_a_failed_step_is_named_and_the_motion_before_it_is_kept():
    """A rod of negative stiffness pushes a prismatic joint out of the domain of its force."""
    text = """
name: A force with an end
system:
  bodies: {block: {mass: 1, joint: {kind: prismatic, axis: [1, 0, 0]}}}
  forces: [{efforts: {block: "1000*log(0.5 - q['block'])"}}]
phase: {duration: 1, start: {joints: {block: 0.49}, velocities: {block: 40}}, costs: []}
"""
    found = problem(text)
    motion = simulate(found, "bdf1", Guessed(found), dt=0.005, kernels="interpreted")
    assert motion.ending is Ending.FAILED
    assert "Step 0 of phase" in motion.message
    assert "block'" in motion.message
    assert "residual" in motion.message
    assert np.isfinite(motion.legs[0].x).all()
    other = simulate(found, "rk4", Guessed(found), dt=0.005, kernels="interpreted")
    assert other.ending is Ending.FAILED
    assert "no longer finite" in other.message


@pytest.mark.parametrize(("integrator", "kind", "q"), [
    ("rk4", "kind: euler, chart: xyz", "[0.1, pi/2, 0]"), ("rk4", "kind: euler, chart: xyz", "[0.1, 1.5, 0]"),
    ("sdirk2", "kind: euler, chart: xyz", "[0.1, 1.5, 0]"), ("sdirk2", "kind: euler, chart: xyz", "[0.1, pi/2, 0]"),
    ("sdirk2", "kind: exponential", "[2*pi, 0, 0]")])
def test_a_chart_at_its_singular_place_is_named(integrator, kind, q):
    """Damping of the rates keeps the joint in it."""
    body = "mass: 1, inertia: {xx: 1, yy: 2, zz: 3}, com: [0.1, 0, 0.2]"
    found = problem(f"""
name: A top in a poor chart
system: {{bodies: {{top: {{{body}, joint: {{{kind}, damping: 1e-3}}}}}}}}
phase: {{duration: 1, start: {{joints: {{top: {q}}}, velocities: {{top: [0.1, 2, 0.3]}}}}, costs: []}}
""")
    motion = simulate(found, integrator, Guessed(found), kernels="interpreted")
    # an implicit step may get away from it, and then it is a note
    assert motion.ending is Ending.FAILED or (integrator, q) in (("sdirk2", "[0.1, pi/2, 0]"), ("sdirk2", "[2*pi, 0, 0]"))
    said = motion.message if motion.ending is Ending.FAILED else "".join(motion.notes)
    assert "coordinates of joint 'top' are nearly singular at t = " in said
    assert "joint 'top' stays in its chart" in said
    assert "(det S = " in said


RAIL = """
name: A cart on a rail
system:
  gravity: [0, 0, 0]
  bodies:
    cart: {mass: 1, joint: {kind: frame_spline, frames: [{}, {position: [1, 0, 0]}, {position: [2, 0, 0]}, {position: [3, 0, 0]},
          {position: [4, 0, 0]}]}}
  forces: [FORCE]
phase: {duration: 2, start: {joints: {cart: 0.5}, velocities: {cart: 1.6}}, costs: []}
"""


@pytest.mark.parametrize("integrator", ["rk4", "bdf1"])
def test_a_joint_that_leaves_its_spline_is_named(integrator):
    """It goes past the last but one frame at t = 1.5 / 1.6 s; with a stop it turns back."""
    found = problem(RAIL.replace("FORCE", ""))
    motion = simulate(found, integrator, Guessed(found), dt=0.01, kernels="interpreted")
    assert motion.ending is Ending.FAILED
    assert "joint 'cart' leaves its spline, from 0 to 2, at t = 0.94 s, and " in motion.message
    found = problem(RAIL.replace("FORCE", "{joint_stop: {joint: cart, lower: 0.2, upper: 1.8, stiffness: 200}}"))
    motion = simulate(found, integrator, Guessed(found), dt=0.01, kernels="interpreted")
    assert motion.ok
    assert not any("spline" in note for note in motion.notes)


@pytest.mark.parametrize("integrator", ["bdf2", "implicit_euler"])
def test_equations_without_a_solution_are_named(integrator):
    found = problem(OSCILLATOR.replace("u - 4*x - 0.2*v}", "u + 3*v**2}").replace("v: 0}", "v: 1}"))
    motion = end(found, integrator, dt=0.1)
    assert motion.ending is Ending.FAILED
    assert "Newton" in motion.message


def test_ctrl_c_keeps_what_ran():
    found = problem(OSCILLATOR)

    class Stopped(Constant):
        ahead = None  # asked at every state

        def __call__(self, phase, t, h, x):
            if t > 0.5:
                raise KeyboardInterrupt
            return np.zeros(found.phase.system.nu)

    motion = simulate(found, "rk4", Stopped({}, found), dt=0.01, kernels="interpreted")
    assert motion.ending is Ending.INTERRUPTED
    assert motion.t[-1] == pytest.approx(0.51)
    assert len(motion.legs[0].u) == len(motion.legs[0].t) - 1 == 51


@pytest.mark.parametrize(("how", "words"), [
    ({"integrator": "rk5"}, "no integrator named 'rk5'.*rk4"),
    ({"integrator": "bdf3"}, "no integrator named 'bdf3'.*bdf2"),
    ({"dt": -0.1}, "must be positive, got -0.1"),
    ({"until": 0.0}, "must be positive, got 0"),
    ({"dt": 1e-9}, "too many"),
])
def test_wrong_input_is_named(how, words):
    found = problem(OSCILLATOR)
    with pytest.raises(ProblemError, match=words):
        simulate(found, **{"integrator": "rk4", **how}, controls=Guessed(found), kernels="interpreted")


@pytest.mark.parametrize("integrator", ["rk4", "bdf1", "sdirk2", "bdf2"])
def test_a_stretch_is_its_steps(integrator):
    """Under changing controls, over steps of any length, one of which grows so much that what looks back begins anew; a stretch
    that fails keeps what came before."""
    found, rng = problem(OSCILLATOR), np.random.default_rng(3)
    phase = found.phase
    at = [ca.SX.sym(name, size) for name, size in (("t", 1), ("x", 2), ("u", 1), ("p", phase.system.np))]
    cost = ca.Function("cost", at, [3.0 + 0.1 * at[1][1] ** 2])
    u, h = rng.standard_normal((30, phase.system.nu)), rng.uniform(0.02, 0.03, 30)
    h[17] = 0.2
    t = np.concatenate([[0.0], np.cumsum(h)])
    whole, single = (stepper(phase.system, integrator, [cost], mode="interpreted") for _ in range(2))
    for mover in (whole, single):
        mover.reset([0.3, -0.2])
    x, rises, error = whole.run(u, t)
    assert error is None
    for k in range(30):
        np.testing.assert_allclose(single.step(u[k], t[k + 1] - t[k]), x[k], atol=1e-9)
        np.testing.assert_allclose(single.risen, rises[k], atol=1e-12)
    u[20] = np.nan
    whole.reset([0.3, -0.2])
    kept, _, error = whole.run(u, t)
    assert isinstance(error, StepError)
    np.testing.assert_array_equal(kept, x[:20])
    np.testing.assert_array_equal(whole.measure(), x[19])


def test_linearly_implicit_steps_are_those_of_bdf1_where_all_is_linear():
    """A mass on a stiff spring with a damper, driven: one solve is exact, integrals included; others are refused by name."""
    found = load_text("""
name: A mass on a stiff spring
system:
  bodies: {mass: {mass: 2, joint: {kind: prismatic, axis: [1, 0, 0]}}}
  forces: [{joint_spring: {joint: mass, stiffness: 1.0e+6}}, {joint_damper: {joint: mass, linear: 3}}]
phase: {duration: 0.5, start: {joints: {mass: 0.1}, rest: true}, costs: []}
""").problem
    one, two = (simulate(found, name, Constant({found.phase.system.controls[0]: 4.0}, found), dt=0.01, kernels="interpreted")
                for name in ("linearly_implicit", "bdf1"))
    np.testing.assert_allclose(one.legs[0].x, two.legs[0].x, atol=1e-10)
    np.testing.assert_allclose(one.legs[0].integrals, two.legs[0].integrals, atol=1e-8)
    with pytest.raises(ProblemError, match="'linearly_implicit' is for robots"):
        end(problem(OSCILLATOR), "linearly_implicit", dt=0.1)
    with pytest.raises(ProblemError, match="'spherical' has not"):
        end(problem(SPHERE), "linearly_implicit", dt=0.1)


def test_a_step_that_fails_leaves_the_stepper_where_it_was():
    found = problem(OSCILLATOR.replace("u - 4*x - 0.2*v}", "u + 3*v**2}"))
    for integrator in ("bdf1", "rk4"):
        mover = stepper(found.phase.system, integrator, mode="interpreted")
        mover.reset([0.0, 1e200])
        with pytest.raises(StepError):
            mover.step(np.zeros(1), 0.1)
        np.testing.assert_array_equal(mover.measure(), [0.0, 1e200])
