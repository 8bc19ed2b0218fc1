"""Whole-body control, closed loops and explanations in Python."""

import numpy as np
import pytest

import ocp
from ocp.app.runs import export_policy
from ocp.errors import ProblemError
from tests.support.repository import ROOT

A, B, Q, R = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.005], [0.1]]), np.diag([1.0, 0.1]), 0.05


def double_integrator(**bounds):
    p = ocp.Problem("Double integrator", duration=3.0)
    x, v, f = p.state("x", "m"), p.state("v", "m/s"), p.control("f", "N")
    p.next({x: x + 0.1 * v + 0.005 * f, v: v + 0.1 * f}, period=0.1)
    p.start(x=1, v=0)
    p.cost([x, v], weights=[1, 0.1], at="stage", name="state")
    p.cost(0.5 * 0.05 * f**2, at="stage", name="effort")
    if bounds:
        p.bounds(**bounds)
    return p


def test_a_closed_loop_has_a_policy_and_columns(tmp_path):
    run = double_integrator().mpc(duration=0.5)
    P, gain = np.zeros((2, 2)), None
    for _ in range(30):  # Riccati's recursion over one horizon
        gain = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ A - A.T @ P @ B @ gain
    policy = run.policy
    np.testing.assert_allclose(policy.K, np.tile(-gain, (5, 1, 1)), atol=1e-8)
    np.testing.assert_allclose(policy(0.0, [1.1, -0.2]), -gain @ [1.1, -0.2], atol=1e-7)
    np.testing.assert_allclose(run["x"], run.loop.x[:, 0])
    np.testing.assert_allclose(run["f"], run.loop.u[:, 0])
    with pytest.raises(ProblemError, match="no state or control named 'y'"):
        run["y"]
    folder = run.save(tmp_path / "run")
    again, place = export_policy(folder)
    np.testing.assert_allclose(again.K, policy.K)
    assert (place / "policy.c").is_file()
    late = double_integrator().mpc(duration=0.5, delay="predicted")
    with pytest.raises(ProblemError, match="with a delay"):
        late.policy  # noqa: B018


def test_simulations_have_what_every_result_has(tmp_path):
    p = ocp.Problem("Pendulum", duration=1.0)
    angle, rate, torque = p.state("angle", "rad"), p.state("rate", "rad/s"), p.control("torque", "N m")
    p.dynamics({angle: rate, rate: torque - 9.81 * ocp.sin(angle)})
    p.start(angle=0.3, rate=0)
    p.cost(angle**2 + rate**2 + 0.1 * torque**2)
    free = p.simulate(dt=0.01, torque=0.5)
    np.testing.assert_allclose(free["torque"], 0.5)
    energy = free["rate"] ** 2 / 2 - 9.81 * np.cos(free["angle"]) - 0.5 * free["angle"]
    np.testing.assert_allclose(energy, energy[0], atol=1e-6)
    assert (free.save(tmp_path / "free") / "report.html").is_file()
    assert "finished" in free._repr_html_()
    assert "states" in repr(free.plot())
    with pytest.raises(ProblemError, match="nothing to draw|no robot|drawing|There is"):
        free.animate()
    solved = p.solve("ilqr")
    same, led = p.simulate("rk4", run=solved, dt=0.001), p.simulate(policy=solved, dt=0.001)
    for motion in (same, led):
        np.testing.assert_allclose(motion["angle"][-1], solved["angle"][-1], atol=2e-3)
    with pytest.raises(ProblemError, match="--controls"):
        p.simulate(run=solved, torque=1)
    with pytest.raises(ProblemError, match="give either run or policy"):
        p.simulate(run=solved, policy=solved)
    assert abs(p.simulate(policy="mpc", dt=0.01)["angle"][-1]) < 0.2  # no section needed


def test_a_closed_loop_has_what_every_result_has():
    run = double_integrator().mpc(duration=0.5)
    assert len(run.t) == len(run["x"]) == len(run["f"]) + 1
    assert "cost of the closed loop" in run._repr_html_()
    assert "<svg" in run.report().html or "<img" in run.report().html


def test_explanations_are_text():
    solved = double_integrator(f=[-0.4, 0.4]).solve()
    told = solved.explain()
    assert told.named
    assert "bound of f" in repr(told)
    assert told._repr_html_().startswith("<pre>")
    impossible = double_integrator(f=[-0.1, 0.1])
    impossible.final(x=-5)
    told = impossible.explain()
    assert told.named
    assert "f" in told.text


def test_whole_body_control_is_run_and_kept(tmp_path):
    body = ocp.WholeBody(ROOT / "problems" / "wbc" / "box_slides.yaml", **{"wbc.duration": 0.4})
    assert "1 contacts" in repr(body)
    run = body.run()
    assert run.ok
    assert run.t[-1] == pytest.approx(0.4)
    np.testing.assert_allclose(run["q.base.px"][-1], 1 / (2 * 0.3 * 9.81), atol=1e-8)  # v^2 / (2 mu g)
    with pytest.raises(ProblemError, match="no state or control named 'q.knee'"):
        run["q.knee"]
    with pytest.raises(ProblemError, match="did you mean 'mujoco'"):
        body.run("mujco")
    assert (run.save(tmp_path / "run") / "report.html").is_file()
    assert run.animate().html
    with pytest.raises(ProblemError, match="ocp.WholeBody"):
        ocp.load(ROOT / "problems" / "wbc" / "box_slides.yaml")
