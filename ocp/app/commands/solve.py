"""The commands ``ocp solve`` and ``ocp resume``."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ocp.app.commands import common
from ocp.app.commands.common import CERTIFIED, NOT_SOLVED, Out, Overrides, Overwrite, Problem, Quiet, Run, TimeLimit
from ocp.app.quick_start import without_numpys_tools
from ocp.app.supervisor import report
from ocp.interrupts import at_once, limited


def solve(
    file: Problem, /, *, method: str | None = None, set_: Overrides = None, out: Out = None,
    overwrite: Overwrite = False, quiet: Quiet = False, from_: Annotated[Path | None, Parameter(name="--from")] = None,
    time_limit: TimeLimit = None, replay: str = "",
) -> int:
    """Solve a problem file, certify the answer and write a run folder with pictures and a report.

    Parameters
    ----------
    method
        collocation, multiple_shooting or ilqr; default: what the file says.
    from_
        Folder of an earlier run, by any method: its motion is the guess.
    replay
        A simulator, mujoco or hybrid, in which whole-body control tracks the solved motion; one more line gives its outcome.
    """
    begin = time.perf_counter()
    with limited(time_limit):
        with at_once():
            without_numpys_tools()
            from ocp.app.files.load import load_problem

            loaded = load_problem(file, common.overridden(_with_limit(set_, time_limit)))
            if from_ is not None:
                from ocp.app.runs import from_run

                loaded = replace(loaded, problem=from_run(loaded.problem, from_))
        return _run_and_tell(loaded, file.stem, quiet=quiet, method_name=method or loaded.method, out=out, overwrite=overwrite,
                             begin=begin, replay=replay)


def resume(
    run: Run, /, *, set_: Overrides = None, out: Path | None = None, overwrite: Overwrite = False, quiet: Quiet = False,
    time_limit: TimeLimit = None,
) -> int:
    """Continue a run that was interrupted, or that did not converge, from its last checkpoint. A certified run, which may lack its
    report, is replaced only by a certified one; otherwise the new run is written beside it.

    Parameters
    ----------
    out
        Folder to write; default: that of the run, which is replaced.
    """
    begin = time.perf_counter()
    with limited(time_limit):
        with at_once():
            without_numpys_tools()
            from ocp.app.checkpoints import load_resumable

            loaded, checkpoint = load_resumable(run, common.overridden(_with_limit(set_, time_limit)))
        return _run_and_tell(loaded, run.name, quiet=quiet, method_name=loaded.method, out=out or run,
                             overwrite=overwrite or out is None, begin=begin, resume=checkpoint,
                             keep_certified=out is None or out.resolve() == run.resolve())


def _with_limit(assignments: list[str] | None, seconds: float | None) -> list[str]:
    """The overrides, with that of a limit of time."""
    return [*(assignments or []), *(() if seconds is None else (f"solve.time_limit={seconds}",))]


def _run_and_tell(loaded: Any, stem: str, *, quiet: bool, method_name: str, replay: str = "", **how: Any) -> int:
    """Solve, write, tell, and only then draw: nobody waits for pictures to hear the verdict."""
    left = None if loaded.time_limit is None else loaded.time_limit - (time.perf_counter() - how["begin"])
    with limited(left):
        return _run_within(loaded, stem, quiet=quiet, method_name=method_name, replay=replay, **how)


def _run_within(loaded: Any, stem: str, *, quiet: bool, method_name: str, replay: str, **how: Any) -> int:
    """The same within the limit of time of the file."""
    with at_once():
        from ocp.app.pages.iterations import iteration_table
        from ocp.app.pages.summary import print_outcome
        from ocp.app.pipeline import run_loaded
        from ocp.app.prepare import tell, waiting

    if not quiet:
        tell(waiting(loaded, method_name))
    with iteration_table(method_name, quiet=quiet) as progress:
        outcome = run_loaded(loaded, stem, method_name=method_name, progress=None if quiet else progress, draw=False,
                             command=common.started(), **how)
        progress.finish(outcome.solution)
    code = CERTIFIED if outcome.solution.ok and not outcome.lost else NOT_SOLVED
    try:
        print_outcome(outcome)
        if outcome.certified_before is not None:
            print(f"  the certified run in {outcome.certified_before} is kept; this one is beside it")
        if replay and outcome.solution.ok:
            _replayed(outcome, replay)
        sys.stdout.flush()
        report(code=code)
        outcome.draw()
    except KeyboardInterrupt:
        print(f"interrupted; the run is in {outcome.folder}, without its report: ocp resume {outcome.folder}", file=sys.stderr)
    except OSError as error:
        print(f"error: the report could not be written: {error}", file=sys.stderr)
        return NOT_SOLVED
    if outcome.lost:
        print(f"error: {outcome.lost}", file=sys.stderr)
    return code


def _replayed(outcome: Any, kind: str) -> None:
    """Track the motion in a simulator, print how it went, and keep it with the run."""
    with at_once():
        from ocp.app.pages.results import put_summary, read_summary
        from ocp.app.wbc.replay import replay, sentence

    record = replay(outcome.solution, kind).record()
    print(f"  replay      {sentence(record)}")
    if outcome.folder is not None:
        put_summary(outcome.folder, {**read_summary(outcome.folder), "replay": {**record, "sentence": sentence(record)}})
