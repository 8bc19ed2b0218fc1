"""From runs: their motion as a guess, what two differ in (``ocp diff``, ``ocp replay``), their policy (``ocp policy``)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.c_code import policy_code
from ocp.app.files.load import LoadedProblem, load_problem, load_text
from ocp.app.pages.folders import check_run, is_run, read_arrays, write_arrays
from ocp.app.pages.results import Run, read_run, read_summary
from ocp.errors import ProblemError
from ocp.guesses.motion import from_samples, with_values
from ocp.problem import Phase, Problem
from ocp.shooting.export import Policy, make_policy, policy_arrays


def from_run(problem: Problem, folder: str | Path) -> Problem:
    """The problem with states, controls, durations and chosen parameters of a run as its guess.

    Durations and parameters are moved into their bounds. Raises ProblemError where the folder is not a run, or where names of its
    phases, states or controls differ from those of the problem.
    """
    run = read_run(folder)
    several = "phase_names" in run.arrays
    names = [str(name) for name in run.arrays["phase_names"]] if several else [problem.phases[0].name]
    wanted = [phase.name for phase in problem.phases]
    if several and names != wanted or len(names) != len(wanted):
        raise ProblemError(f"has phases {', '.join(names)}; the problem has {', '.join(wanted)}", where=str(folder))
    phases = tuple(_with_motion(run, phase, f"{phase.name}." if several else "") for phase in problem.phases)
    free = list(dict.fromkeys(phase.system.parameters[i] for phase in problem.phases for i, _, _ in phase.free_parameters))
    values = dict(zip(free, run.arrays.get("parameters", np.zeros(0)).tolist(), strict=False))
    return with_values(replace(problem, phases=phases), values)


def _with_motion(run: Run, phase: Phase, prefix: str) -> Phase:
    for kind, known in (("state", phase.system.space.names), ("control", phase.system.inputs)):
        found = tuple(str(name) for name in run.arrays[f"{prefix}{kind}_names"])
        if found != tuple(known):
            raise ProblemError(f"has {kind}s {', '.join(found)}; phase {phase.name!r} has {', '.join(known)}",
                               where=str(run.folder))
    t, x, t_u, u = (run.arrays[f"{prefix}{name}"] for name in ("t", "x", "t_u", "u"))
    return from_samples(phase, t, x, t_u, u, where=str(run.folder))


#: what of a run's summary tells its outcome, by name
OUTCOME = (("method", ("method",)), ("status", ("status", "name")), ("certified", ("certificate", "holds")),
           ("objective", ("objective_text",)), ("optimum", ("certificate", "second_order", "kind")),
           ("version", ("provenance", "versions", "lieocp")))


def difference(first: Path, second: Path) -> list[str]:
    """Lines that say in what two problem files or runs differ, as expanded files and by outcome; none where they do not.

    Raises ProblemError where one is neither.
    """
    (one, before), (two, after) = _read(first), _read(second)
    lines = list(difflib.unified_diff(one.splitlines(), two.splitlines(), str(first), str(second), n=1, lineterm=""))
    for name, path in OUTCOME:
        a, b = _at(before, path), _at(after, path)
        if a != b and None not in (a, b):
            lines.append(f"{name}: {a} | {b}")
    return lines


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    if path.is_dir():
        check_run(path)
        file = path / "problem.yaml"
        return load_text(file.read_text(encoding="utf-8"), path, str(file)).expanded(), read_summary(path)
    return load_problem(path).expanded(), {}


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def replay(folder: Path) -> tuple[bool, list[str]]:
    """Solve a run's problem again by its method and options: (whether status, objective and motion come out the same, what was
    compared). Same: the bits of the motion, or where software or machine differ, the objective within its error bound.

    Raises ProblemError where the folder is no run.
    """
    from ocp.app.pipeline import run

    before = read_run(folder)
    outcome = before.summary
    again = run(folder / "problem.yaml", method_name=outcome["method"], write=False).solution
    arrays, path = before.arrays, again.parts[0] if again.parts else again.trajectory
    prefix = f"{again.problem.phases[0].name}." if again.parts and len(again.parts) > 1 else ""
    x = arrays.get(f"{prefix}x")
    bits = x is not None and x.shape == path.x.shape and bool(np.array_equal(x, path.x))
    bar = _at(outcome, ("certificate", "bar"))
    far = abs(again.objective - float(outcome["objective"]))
    near = far <= (bar if isinstance(bar, float) and np.isfinite(bar) else 1e-6 * max(1.0, abs(again.objective)))
    status = again.status.name == outcome["status"]["name"] and again.ok == bool(outcome["ok"])
    return bool(status and (bits or near)), [
        f"status     {outcome['status']['name'].lower()}, now {again.status.name.lower()}",
        f"certified  {'yes' if outcome['ok'] else 'no'}, now {'yes' if again.ok else 'no'}",
        f"objective  {outcome['objective']!r}, now {again.objective!r}",
        f"motion     {'the same to the last bit' if bits else 'not the same bits'}",
    ]


#: the kind of a folder of ``ocp mpc``
CLOSED_LOOP = "lieocp closed loop"
FILES = ("policy.npz", "policy.h", "policy.c")


def export_policy(folder: str | Path, *, out: str | Path | None = None, models: str | Path | None = None,
                  overwrite: bool = False) -> tuple[Policy, Path]:
    """Write the policy of a run as ``policy.npz``, ``policy.h`` and ``policy.c``; returns it and where.

    folder: of the run. out: default: ``policy`` within it, replaced when it is there. models: what the robot file of the problem
    is relative to; default: the folder of the run, which holds it.
    Raises ProblemError for what is no run, has no gains, or whose robot file cannot be found; and where ``out`` holds a policy
    already, unless ``overwrite``.
    """
    policy = _of_loop(Path(folder), models) if is_run(Path(folder), CLOSED_LOOP) else policy_of(read_run(folder), models)
    place = Path(folder) / "policy" if out is None else Path(out)
    if place.exists() and not place.is_dir():
        raise ProblemError("is not a folder; name another folder for the policy", where=str(place))
    there = [name for name in FILES if (place / name).exists()]
    if there and out is not None and not overwrite:
        raise ProblemError(f"already holds {', '.join(there)}; allow overwriting or name another folder", where=str(place))
    code = policy_code(policy)
    place.mkdir(parents=True, exist_ok=True)
    write_arrays(place / "policy.npz", policy_arrays(policy))
    for name, text in code.items():
        (place / name).write_text(text, encoding="utf-8")
    return policy, place


def policy(folder: Path, *, out: Path | None = None, models: Path | None = None, overwrite: bool = False) -> None:
    """Export, and say what and where."""
    found, place = export_policy(folder, out=out, models=models, overwrite=overwrite)
    closed = is_run(folder, CLOSED_LOOP)
    N, nu, ndx = found.K.shape
    print(f"policy of {found.name!r}: {N} steps from {found.t[0]:g} to {found.t[-1]:g} s, gains {nu} x {ndx}")
    if closed:
        print("note: along a closed loop, each gain is that of the horizon that begins at its sample")
    elif not read_run(folder).summary["ok"]:
        print("note: the run is not certified; see its report")
    print(f"written to {place}: {', '.join(FILES)}")


def policy_of(run: Run, models: str | Path | None = None) -> Policy:
    """The policy of a run; models and errors as of :func:`export_policy`."""
    return make_policy(_problem(run, models, run.summary.get("model_hash")).problem, run.arrays, run.summary["method"])


def loop_policy(problem: Problem, arrays: Mapping[str, np.ndarray]) -> Policy:
    """The policy along a closed loop, from its arrays: what was measured and applied at the samples, and the gains there."""
    if "K" not in arrays:
        raise ProblemError("the closed loop has no feedback gains K: its controls act with a delay, or its solver has none",
                           where=f"problem {problem.name!r}")
    x = np.vstack([arrays["measured"], arrays["x"][-1:]])
    return make_policy(problem, {"t": arrays["t"], "x": x, "u": arrays["u"], "K": arrays["K"]}, "ilqr")


def _of_loop(folder: Path, models: str | Path | None) -> Policy:
    """The policy of a run of ``ocp mpc``."""
    summary = read_summary(folder)
    arrays = read_arrays(folder / "trajectory.npz")
    run = Run(folder, (folder / "problem.yaml").read_text(encoding="utf-8"), summary, arrays, ())
    return loop_policy(_problem(run, models, summary["provenance"].get("model", {}).get("sha256")).problem, arrays)


def problem_of(run: Run) -> Problem:
    """The problem of a run, with the robot in its folder. Raises ProblemError where that is another by now."""
    return _problem(run, None, run.summary.get("model_hash")).problem


def _problem(run: Run, models: str | Path | None, known: str | None) -> LoadedProblem:
    """The problem of a run, with the very robot that it was solved for."""
    place = run.folder if models is None else Path(models)
    loaded = load_text(run.problem_yaml, place, str(run.folder / "problem.yaml"))
    found = None if loaded.model is None else loaded.model.fingerprint
    if found != known:
        raise ProblemError("the robot there is not the one that the run was made with (its fingerprint differs)", where=str(place))
    return loaded
