"""``ocp policy``: the feedback policy of a run as an archive for NumPy and as C source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ocp.app.files.load import LoadedProblem, load_text
from ocp.app.pages.folders import is_run, write_arrays
from ocp.app.pages.results import Run, read_run
from ocp.errors import ProblemError
from ocp.problem import Problem
from ocp.shooting.export import Policy, c_header, c_source, make_policy, policy_arrays

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
        raise ProblemError("is not a folder; name another place for the policy", where=str(place))
    there = [name for name in FILES if (place / name).exists()]
    if there and out is not None and not overwrite:
        raise ProblemError(f"already holds {', '.join(there)}; allow overwriting or name another folder", where=str(place))
    header, source = c_header(policy), c_source(policy)
    place.mkdir(parents=True, exist_ok=True)
    write_arrays(place / "policy.npz", policy_arrays(policy))
    (place / "policy.h").write_text(header, encoding="utf-8")
    (place / "policy.c").write_text(source, encoding="utf-8")
    return policy, place


def policy(folder: Path, *, out: Path | None = None, models: Path | None = None, overwrite: bool = False) -> None:
    """What the command does: export, and say what and where."""
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


def along(problem: Problem, arrays: Mapping[str, np.ndarray]) -> Policy:
    """The policy along a closed loop, from its arrays: what was measured and applied at the samples, and the gains there."""
    if "K" not in arrays:
        raise ProblemError("the closed loop has no feedback gains K: its controls act with a delay, or its solver has none",
                           where=f"problem {problem.name!r}")
    x = np.vstack([arrays["measured"], arrays["x"][-1:]])
    return make_policy(problem, {"t": arrays["t"], "x": x, "u": arrays["u"], "K": arrays["K"]}, "ilqr")


def _of_loop(folder: Path, models: str | Path | None) -> Policy:
    """The policy of a run of ``ocp mpc``."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    with np.load(folder / "trajectory.npz", allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    run = Run(folder, (folder / "problem.yaml").read_text(encoding="utf-8"), summary, arrays, ())
    return along(_problem(run, models, summary["provenance"].get("model", {}).get("sha256")).problem, arrays)


def _problem(run: Run, models: str | Path | None, known: str | None) -> LoadedProblem:
    """The problem of a run, with the very robot that it was solved for."""
    place = run.folder if models is None else Path(models)
    loaded = load_text(run.problem_yaml, place, str(run.folder / "problem.yaml"))
    found = None if loaded.model is None else loaded.model.fingerprint
    if found != known:
        raise ProblemError("the robot there is not the one that the run was made with (its fingerprint differs)", where=str(place))
    return loaded
