"""One-phase problems on flat spaces written for dymos (OpenMDAO), from the same functions.

The rates are one ExplicitComponent over all nodes, with the exact diagonal partials that CasADi gives; the running cost is a state,
as it is for all users of dymos. Optimiser: IPOPT through pyOptSparse where that is installed, else SciPy's SLSQP.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import tempfile
import warnings
from typing import Any

import casadi as ca
import numpy as np
from direct_peers import Answer, Solve
from direct_peers_drake import functions

from ocp.guesses.sampling import sample_guess
from ocp.problem import Phase, Problem


def optimiser() -> str:
    return "IPOPT" if importlib.util.find_spec("pyoptsparse") else "SLSQP"


def dymos_phase(problem: Problem, segments: int, kind: str = "GaussLobatto", order: int = 3) -> Solve:
    """kind: "GaussLobatto" (order 3 is Hermite-Simpson) or "Radau"."""
    with _quiet():
        prob, trajectory_objective = _set_up(problem, segments, kind, order)
    start = {name: np.array(prob.get_val(name)) for name in prob.model.get_design_vars(recurse=True, use_prom_ivc=True)}

    def solve() -> Answer:
        for name, value in start.items():
            prob.set_val(name, value)
        with _quiet():
            found = prob.run_driver()
        return float(prob.get_val(trajectory_objective)[-1, 0]), int(prob.driver.iter_count), bool(found.success), float("nan")

    return solve


def _set_up(problem: Problem, segments: int, kind: str, order: int) -> tuple[Any, str]:
    """The OpenMDAO problem and the timeseries whose last value is the objective."""
    import dymos as dm
    import openmdao.api as om

    phase = problem.phase
    nx, nu, duration = phase.system.nx, phase.system.nu, phase.duration
    prob = om.Problem(reports=False)
    if optimiser() == "IPOPT":
        prob.driver = om.pyOptSparseDriver(optimizer="IPOPT")
        prob.driver.opt_settings.update({"print_level": 0, "tol": 1e-9, "constr_viol_tol": 1e-9})
    else:
        prob.driver = om.ScipyOptimizeDriver(optimizer="SLSQP", tol=1e-10, maxiter=500, disp=False)
    prob.driver.declare_coloring(show_summary=False, show_sparsity=False)
    transcription = getattr(dm, kind)(num_segments=segments, order=order, compressed=True)
    own = dm.Phase(ode_class=_component(), ode_init_kwargs={"phase": phase}, transcription=transcription)
    trajectory = dm.Trajectory()
    trajectory.add_phase("phase0", own)
    prob.model.add_subsystem("trajectory", trajectory)
    free = {"duration_bounds": (duration.lower, min(duration.upper, 1e4))} if duration.free else {"fix_duration": True}
    own.set_time_options(fix_initial=True, **free)
    ends = [b.fixed if b is not None else (False,) * nx for b in (phase.start, phase.final)]
    for i in range(nx):
        limits = {name: value for name, value in (("lower", phase.x_lower[i]), ("upper", phase.x_upper[i])) if np.isfinite(value)}
        own.add_state(f"x{i}", rate_source=f"rate{i}", targets=[f"x{i}"], fix_initial=ends[0][i], fix_final=ends[1][i], **limits)
    own.add_state("J", rate_source="running", targets=["J"], fix_initial=True)
    for i in range(nu):
        limits = {name: value for name, value in (("lower", phase.u_lower[i]), ("upper", phase.u_upper[i])) if np.isfinite(value)}
        own.add_control(f"u{i}", targets=[f"u{i}"], continuity=True, rate_continuity=False, **limits)
    if duration.free:
        own.add_objective("time", loc="final")  # all problems here that leave the duration free ask for the least time
    else:
        own.add_timeseries_output("total")
        own.add_objective("total", loc="final")
    prob.setup(force_alloc_complex=False)
    own.set_time_val(initial=0.0, duration=duration.guess)
    s = np.array([0.0, 0.5, 1.0]) if len(phase.guess.s) < 3 else np.asarray(phase.guess.s)
    x0, u0 = sample_guess(phase.guess, phase.system.space, s)
    for i in range(nx):
        own.set_state_val(f"x{i}", x0[:, i], time_vals=s * duration.guess)
    own.set_state_val("J", np.zeros(len(s)), time_vals=s * duration.guess)
    for i in range(nu):
        own.set_control_val(f"u{i}", u0[:, i], time_vals=s * duration.guess)
    prob.final_setup()
    return prob, "trajectory.phase0.timeseries." + ("time" if duration.free else "total")


@contextlib.contextmanager
def _quiet() -> Any:
    """Without warnings and reports, and without the folders that OpenMDAO leaves where it runs."""
    with (warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()),
          tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder)):
        warnings.simplefilter("ignore")
        yield


def _component() -> Any:
    import openmdao.api as om

    class Rates(om.ExplicitComponent):
        """Rates, the running cost and the whole cost at all nodes."""

        def initialize(self) -> None:
            self.options.declare("num_nodes", types=int)
            self.options.declare("phase", types=Phase)

        def setup(self) -> None:
            phase, n = self.options["phase"], self.options["num_nodes"]
            nx, nu = phase.system.nx, phase.system.nu
            rate, cost = functions(phase)
            x, u, J, T = ca.SX.sym("x", nx), ca.SX.sym("u", nu), ca.SX.sym("J"), ca.DM(phase.duration.guess)
            f, running = rate(x, u)
            v, y = ca.vertcat(x, u, J), ca.vertcat(f, running, J + cost(T, x))
            jacobian = ca.jacobian(y, v)
            self.values = ca.Function("values", [v], [ca.densify(y)]).map(n)
            self.slopes = ca.Function("slopes", [v], [ca.vertcat(ca.SX(0, 1), *jacobian.nonzeros())]).map(n)
            self.inner = [*(f"x{i}" for i in range(nx)), *(f"u{i}" for i in range(nu)), "J"]
            self.outer = [*(f"rate{i}" for i in range(nx)), "running", "total"]
            for name in self.inner:
                self.add_input(name, shape=(n,))
            for name in self.outer:
                self.add_output(name, shape=(n,))
            rows, columns = jacobian.sparsity().get_triplet()
            self.pairs = [(self.outer[r], self.inner[c]) for r, c in zip(rows, columns, strict=True)]
            for pair in self.pairs:
                self.declare_partials(*pair, rows=np.arange(n), cols=np.arange(n))

        def compute(self, inputs: Any, outputs: Any) -> None:
            found = np.asarray(self.values(np.array([inputs[name] for name in self.inner])))
            for name, row in zip(self.outer, found, strict=True):
                outputs[name] = row

        def compute_partials(self, inputs: Any, partials: Any) -> None:
            found = np.asarray(self.slopes(np.array([inputs[name] for name in self.inner])))
            for pair, row in zip(self.pairs, found, strict=True):
                partials[pair] = row

    return Rates
