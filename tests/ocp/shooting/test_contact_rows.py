"""Rows that hold forces of contacts: what loops over a robot hand on, against the saddle point written out by CasADi and
differences of it, and against generated code."""

from dataclasses import replace

import numpy as np
import pytest
from plain_shooting import flat
from repository import ROOT

from ocp.app.files.load import load_text
from ocp.methods import method
from ocp.shooting.engine import iterate as it
from ocp.shooting.ilqr import ILQROptions, prepare

LEG = """
name: leg
system:
  robot: models/hopper.urdf
  actuated: [hip, knee]
  limits: {position: false, velocity: false}
  constraints: [{name: foot, contact: {frame: foot, friction: 0.7, gains: [0, 40]}}]
phase:
  duration: 0.1
  start: {joints: {base_pitch: 0, hip: -0.45, knee: 0.9}, rest: true, others: assembled}
  costs:
    - {name: calm, state_error: {rest: true}, weights: 1}
    - {name: effort, running: "1e-3*(hip**2 + knee**2)"}
"""
PLAIN = ILQROptions(intervals=4, integrator="semi_implicit_euler", cost_quadrature="rectangle", derivatives="analytic")


def expanded(hessian, execution, integrator="semi_implicit_euler"):
    """A program with its path expanded, far from rest."""
    options = replace(PLAIN, hessian=hessian, execution=execution, integrator=integrator)
    program = prepare(method("ilqr").reduce(load_text(LEG, ROOT / "problems", "leg.yaml").problem, options), options)
    store, rng = program.store, np.random.default_rng(5)
    nv = program.horizon.kinds[0].space.ndx // 2
    store.path.x[0] = program.horizon.start + np.r_[np.zeros(len(program.horizon.start) - nv), 0.1 * rng.standard_normal(nv)]
    store.path.u[:] = np.array([0.0, 20.0]) + rng.standard_normal(store.path.u.shape)
    log = np.zeros((1, len(it.COLUMNS)))
    assert it.perform(store, it.ROLLOUT, log, 0.0, 0.0, 1)[1] == -1
    assert it.perform(store, it.EXPAND, log, 0.0, 0.0, 1)[1] == -1
    return program


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", pytest.param("rk4", marks=pytest.mark.slow)])
def test_loops_hand_on_forces_and_their_derivatives(integrator):
    program = expanded("gauss_newton", "loops", integrator)
    assert program.compiled.by_loops == (0,)
    horizon, store, stage = program.horizon, program.store, program.horizon.kinds[0]
    assert stage.rows.value_indices
    n, m, count = stage.space.ndx, stage.nu, stage.rows.count
    for k in range(horizon.stages):
        t, x, u, p = horizon.at(k, store.path.x, store.path.u)
        np.testing.assert_allclose(store.conset.c[k, :count], flat(stage.rows.value(t, x, u, p)), rtol=1e-9, atol=1e-9)
        C, e = np.zeros((count, n + m)), 1e-6
        for i in range(n + m):
            z = e * np.eye(n + m)[i]
            ends = [flat(stage.rows.value(t, flat(stage.plus(x, s * z[:n])), u + s * z[n:], p)) for s in (1, -1)]
            C[:, i] = (ends[0] - ends[1]) / (2 * e)
        np.testing.assert_allclose(store.conset.C[k, :count, :n + m], C, rtol=1e-5, atol=1e-5 * np.abs(C).max())
        assert np.abs(C).max() > 0.01


@pytest.mark.parametrize("hessian", ["gauss_newton", "full"])
def test_loops_and_generated_code_expand_alike(hessian):
    ours, theirs = (expanded(hessian, execution) for execution in ("loops", "generated"))
    assert not theirs.compiled.by_loops
    size = ours.horizon.kinds[0].space.ndx + ours.horizon.kinds[0].nu
    for name in ("g", "F", "H"):
        a, b = (getattr(one.store.model, name)[:4] for one in (ours, theirs))
        if name == "H":
            a, b = np.tril(a[:, :size, :size]), np.tril(b[:, :size, :size])
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-8 * max(1.0, np.abs(b).max()), err_msg=name)
