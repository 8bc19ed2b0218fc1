"""The command ``ocp``.

Exit codes: 0 certified (``ik``: tasks met; ``mpc``, ``simulate``: finished; ``explain``: a cause was named), 1 not solved, 2 bad
input, 3 internal, 4 (``compare``) certified, but the costs differ.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from ocp.interrupts import NOTHING, at_once, held

with at_once():
    import cyclopts
    from cyclopts import Parameter

CERTIFIED, NOT_SOLVED, BAD_INPUT, INTERNAL = 0, 1, 2, 3
#: what the system says of places where nothing can be written, or no longer
PLACES = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOSPC, errno.EDQUOT)

app = cyclopts.App(
    name="ocp", help="Optimal control and trajectory optimisation of articulated robots from problem files.",
    version_flags=["--version"], result_action="return_value",
)
app.suppress_keyboard_interrupt = False  # what there is to say about it is said by guarded()
# what many commands take
Problem = Annotated[Path, Parameter(help="The file (YAML).")]
Overrides = Annotated[
    list[str] | None,
    Parameter(name="--set", negative=(), help="Override a key of the file: path.to.key=value (YAML). May be repeated."),
]
Out = Annotated[Path | None, Parameter(help="Folder to write; default: one below results/ named after the file and the command, "
                                            "replaced if it holds an earlier result of the same kind.")]
Overwrite = Annotated[bool, Parameter(help="Replace the result that --out holds.")]
Quiet = Annotated[bool, Parameter(help="The outcome only, no progress.")]
Run = Annotated[Path, Parameter(help="The folder of the run.")]
TimeLimit = Annotated[float | None, Parameter(
    help="Seconds after which the best of what was found is returned; short for --set solve.time_limit=. Default: none.")]


def _started() -> list[str]:
    """The command as it was given, for the record."""
    return ["ocp", *sys.argv[1:]]


@app.command
def solve(
    file: Problem, /, *, method: str | None = None, set_: Overrides = None, out: Out = None,
    overwrite: Overwrite = False, quiet: Quiet = False, from_: Annotated[Path | None, Parameter(name="--from")] = None,
    time_limit: TimeLimit = None,
) -> int:
    """Solve a problem file, certify the answer and write a run folder with pictures and a report.

    Parameters
    ----------
    method
        collocation, multiple_shooting or ilqr; default: what the file says.
    from_
        Folder of an earlier run, by any method: its motion is the guess.
    """
    begin = time.perf_counter()
    with at_once():
        from ocp.app.files.load import load_problem, parse_overrides

        loaded = load_problem(file, parse_overrides(_limited(set_, time_limit)))
        if from_ is not None:
            from ocp.app.motion import from_run

            loaded = replace(loaded, problem=from_run(loaded.problem, from_))
    return _run_and_tell(loaded, file.stem, quiet=quiet, method_name=method or loaded.method, out=out, overwrite=overwrite,
                         begin=begin)


@app.command
def resume(
    run: Run, /, *, set_: Overrides = None, out: Path | None = None, overwrite: Overwrite = False, quiet: Quiet = False,
    time_limit: TimeLimit = None,
) -> int:
    """Go on with a run that was cut short, or that did not converge, from its last checkpoint.

    Parameters
    ----------
    out
        Folder to write; default: that of the run, which is replaced.
    """
    begin = time.perf_counter()
    with at_once():
        from ocp.app.checkpoints import load_resumable
        from ocp.app.files.load import parse_overrides

        loaded, checkpoint = load_resumable(run, parse_overrides(_limited(set_, time_limit)))
    return _run_and_tell(loaded, run.name, quiet=quiet, method_name=loaded.method, out=out or run,
                         overwrite=overwrite or out is None, begin=begin, resume=checkpoint)


def _limited(words: list[str] | None, seconds: float | None) -> list[str]:
    """The overrides, with that of a limit of time."""
    return [*(words or []), *(() if seconds is None else (f"solve.time_limit={seconds}",))]


def _run_and_tell(loaded: Any, stem: str, *, quiet: bool, method_name: str, **how: Any) -> int:
    """Solve, write, tell, and only then draw: nobody waits for pictures to hear the verdict."""
    with at_once():
        from ocp.app.pages.iterations import iteration_table
        from ocp.app.pages.summary import print_outcome
        from ocp.app.pipeline import run_loaded
        from ocp.app.prepare import waiting

    if not quiet and (words := waiting(loaded, method_name)):
        print(words, file=sys.stderr, flush=True)
    with iteration_table(method_name, quiet=quiet) as progress:
        outcome = run_loaded(loaded, stem, method_name=method_name, progress=None if quiet else progress, draw=False,
                             command=["ocp", *sys.argv[1:]], **how)
        progress.finish(outcome.solution)
    code = CERTIFIED if outcome.solution.ok and not outcome.lost else NOT_SOLVED
    try:
        print_outcome(outcome)
        sys.stdout.flush()
        outcome.draw()
    except KeyboardInterrupt:
        print(f"interrupted; the run is in {outcome.folder}, without its report: ocp resume {outcome.folder}", file=sys.stderr)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        print(f"error: the report could not be written: {error}", file=sys.stderr)
        return NOT_SOLVED
    if outcome.lost:
        print(f"error: {outcome.lost}", file=sys.stderr)
    return code


@app.command
def ik(
    file: Problem, /, *, set_: Overrides = None, out: Out = None, overwrite: Overwrite = False, quiet: Quiet = False,
) -> int:
    """Find a configuration that meets tasks by priority, and write it with a picture and a report.
    """
    from ocp.app.files.ik_file import load_ik, solve_loaded
    from ocp.app.files.load import parse_overrides
    from ocp.app.pages.ik_report import print_ik, write_ik

    begin = time.perf_counter()
    outcome = solve_loaded(load_ik(file, parse_overrides(set_ or [])), begin=begin)
    place = out if out is not None else Path("results") / f"{file.stem}-ik"
    folder = write_ik(outcome, place, overwrite=overwrite or out is None, command=["ocp", *sys.argv[1:]])
    print_ik(outcome, folder, quiet=quiet)
    return CERTIFIED if outcome.ok else NOT_SOLVED


@app.command
def mpc(
    file: Problem, /, *, set_: Overrides = None, out: Out = None, overwrite: Overwrite = False, quiet: Quiet = False,
) -> int:
    """Run a problem file in closed loop, its horizon receding, against a simulated plant; see its section ``mpc``.
    """
    from ocp.app.files.load import parse_overrides
    from ocp.app.mpc.run import mpc as run_mpc

    return run_mpc(file, overrides=parse_overrides(set_ or []), out=out, overwrite=overwrite, quiet=quiet,
                   command=["ocp", *sys.argv[1:]])


@app.command
def simulate(
    file: Problem, /, *, integrator: str | None = None, dt: float | None = None, until: float | None = None,
    controls: Annotated[list[str] | None, Parameter(negative=())] = None,
    from_: Annotated[Path | None, Parameter(name="--from")] = None, policy: str | None = None,
    quick: Annotated[bool, Parameter(negative=())] = False, set_: Overrides = None, out: Out = None, overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> int:
    """Move the system of a problem file (or of a bare robot file) on from its start, under given controls; nothing is optimised.

    Exit code 0 where the motion reached its end. Ctrl-C, and a step that fails, keep what there is.

    Parameters
    ----------
    integrator
        Any integrator of shooting methods (rk4, radau_iia_3, ..), or bdf1, sdirk2, bdf2, which solve for positions where the system
        is a mechanism. Default: what the file says, or rk4.
    dt
        Longest step [s]; default: what the file says, or a 500th of the whole.
    until
        When to stop [s]; default: at the end of the last phase. Later, the last phase goes on.
    controls
        guess (that of the file, the default), zero, or constants NAME=VALUE.
    from_
        Folder of an earlier run, whose start, durations and controls are taken.
    policy
        policy.npz, or the folder of an iLQR run: its gains act; or mpc: the receding horizon of the file.
    quick
        Leave out the second motion, with steps half as long, that tells the accuracy.
    """
    with at_once():
        from ocp.app.files.load import parse_overrides
        from ocp.app.simulate.run import run as run_simulation

    return run_simulation(file, integrator=integrator, dt=dt, until=until, controls=controls, from_=from_, policy=policy,
                          quick=quick, overrides=parse_overrides(set_ or []), out=out, overwrite=overwrite, quiet=quiet,
                          command=_started())


@app.command
def policy(run: Run, /, *, out: Path | None = None, models: Path | None = None, overwrite: Overwrite = False) -> int:
    """Write the feedback policy of an iLQR run as policy.npz (NumPy) and policy.h, policy.c (portable C99).

    Parameters
    ----------
    out
        Folder to write; default: policy within that of the run.
    models
        The folder that the run's robot file is relative to; default: that of the run, which holds it.
    """
    from ocp.app.policy import policy as export

    export(run, out=out, models=models, overwrite=overwrite)
    return CERTIFIED


@app.command
def check(file: Problem, /, *, set_: Overrides = None) -> int:
    """Validate a problem file, and say which methods can solve it, without solving; or a file of inverse kinematics."""
    from ocp.app.files.ik_file import load_ik
    from ocp.app.files.load import load_problem, parse_overrides
    from ocp.app.files.schema_tasks import is_ik_tree
    from ocp.app.files.yaml_source import read_source
    from ocp.app.pages.ik_report import print_check as print_ik_check
    from ocp.app.pages.summary import print_check

    if is_ik_tree(read_source(file).tree):
        print_ik_check(load_ik(file, parse_overrides(set_ or [])))
        return CERTIFIED
    print_check(load_problem(file, parse_overrides(set_ or [])))
    return CERTIFIED


@app.command
def compare(
    file: Problem, /, *, methods: Annotated[list[str] | None, Parameter(negative=(), consume_multiple=True)] = None,
    set_: Overrides = None, repeat: int = 0, tolerance: float | None = None, out: Out = None, overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> int:
    """Solve one problem file by several methods and options, side by side in one table, one picture and one folder.

    Exit code 0: all are certified and agree; 1: something was not solved, not certified or refused though it was asked for; 4: all
    are certified, but their costs differ by more than the tolerance.

    Parameters
    ----------
    methods
        name or name:key=value,key=value; several of them, or the flag repeated. Default: every method that can serve the file.
    repeat
        Solve each so many times again, for the time without first builds.
    tolerance
        Relative difference of costs that counts as agreement; default: 1e-3, or the reference's where that is wider.
    """
    from ocp.app.compare.run import compare as run_compare
    from ocp.app.files.load import parse_overrides

    return run_compare(file, methods=methods or (), overrides=parse_overrides(set_ or []), repeat=repeat, tolerance=tolerance,
                       out=out, overwrite=overwrite, quiet=quiet, command=["ocp", *sys.argv[1:]])


@app.command
def explain(target: Path, /, *, set_: Overrides = None, quiet: Quiet = False) -> int:
    """Say why a problem was not solved (what to relax and by how much, what is not finite and where), or what its constraints cost.

    Exit code 0 where a cause was named or the problem is solved, 1 otherwise.

    Parameters
    ----------
    target
        The folder of a run, or a problem file, which is solved first.
    """
    from ocp.app.explain.run import explain as run_explain
    from ocp.app.files.load import parse_overrides

    return run_explain(target, overrides=parse_overrides(set_ or []), quiet=quiet)


@app.command
def verify(
    files: Annotated[list[Path] | None, Parameter(negative=())] = None, /, *, quick: bool = False,
    all_: Annotated[bool, Parameter(name="--all", negative=())] = False, seconds: float | None = None, set_: Overrides = None,
    out: Out = None, quiet: Quiet = False, index: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Solve a whole gallery of problem files and print a scoreboard: certificate, cost beside the reference, time, verdict.

    Exit code 0 only if all pass. Ctrl-C keeps what there is. Files of ``ocp ik`` and ``ocp mpc`` are skipped.

    Parameters
    ----------
    files
        Problem files and folders of them; default: the folder problems.
    quick
        Small problems only, and 20 s for each.
    all_
        Every method that a file gives options for, not only its own.
    seconds
        What one file may take; more counts as failed.
    index
        Solve nothing: write the page that lists the gallery by theme, README.md in its folder.
    """
    from ocp.app.files.load import parse_overrides
    from ocp.app.verify.run import verify as run_verify

    if index:
        from ocp.app.verify.gallery import write_gallery

        for folder in files or [Path("problems")]:
            print(write_gallery(folder))
        return CERTIFIED

    return run_verify(files or (), quick=quick, every=all_, seconds=seconds, overrides=parse_overrides(set_ or []), out=out,
                      quiet=quiet, command=["ocp", *sys.argv[1:]])


@app.command
def derivatives(
    robot: str, /, *, root: str | None = None, mimic: str | None = None, functions: list[str] | None = None,
    sources: list[str] | None = None, compile_: Annotated[str, Parameter(name="--compile")] = "auto", seed: int = 0,
    samples: int = 3, out: Out = None, overwrite: Overwrite = False, quick: bool = False, quiet: Quiet = False,
) -> int:
    """Every way to the derivatives of a robot's dynamics side by side: errors, times, sizes, and which one to use.

    Parameters
    ----------
    robot
        A .urdf or .xml file, the name of a robot of the robots extra, or a problem file.
    root
        fixed or free_flyer (URDF); default: fixed, or what the problem file says.
    mimic
        couple or independent (URDF); default: couple, or what the problem file says.
    functions
        Which functions, repeated or separated by commas; default: all.
    sources
        Which sources of derivatives, likewise; default: all.
    compile_
        auto (what is affordable), yes or no.
    seed
        Seed of the random states.
    samples
        States at which errors are measured.
    quick
        Short timings.
    """
    from ocp.app.derivative_study.run import derivatives as study

    return study(robot, root=root, mimic=mimic, functions=functions, sources=sources, compiling=compile_, seed=seed,
                 samples=samples, out=out, overwrite=overwrite, quick=quick, quiet=quiet, command=["ocp", *sys.argv[1:]])


@app.command(name="check-derivatives")
def check_derivatives(
    file: Problem, /, *, set_: Overrides = None, points: int = 3, seed: int = 0, first_order: bool = False,
) -> int:
    """Compare the derivatives of every term of a problem file by independent roads, and name the entry that disagrees.

    Parameters
    ----------
    points
        Points at which to compare: along the guess, and random ones near it.
    seed
        Seed of the random points.
    first_order
        Leave out second derivatives.
    """
    from ocp.app.files.load import load_problem, parse_overrides
    from ocp.app.pages.derivative_check import print_derivative_check, term_places
    from ocp.derivative_check import check_derivatives as run_check

    loaded = load_problem(file, parse_overrides(set_ or []))
    found = run_check(loaded.problem, points=points, seed=seed, second=not first_order, places=term_places(loaded, str(file)))
    print_derivative_check(found)
    return CERTIFIED if found.ok else NOT_SOLVED


@app.command
def show(file: Problem, /, *, set_: Overrides = None, schema: bool = False) -> int:
    """Print a problem file fully expanded, every default written out.

    Parameters
    ----------
    schema
        Print the JSON Schema of problem files instead (for editors); the file is not read.
    """
    from ocp.app.files.load import load_problem, parse_overrides
    from ocp.app.files.schema import problem_json_schema

    if schema:
        print(json.dumps(problem_json_schema(), indent=2))
        return CERTIFIED
    print(load_problem(file, parse_overrides(set_ or [])).expanded(), end="")
    return CERTIFIED


@app.command
def doctor(*, prepare: Annotated[bool, Parameter(negative=())] = False) -> int:
    """Versions, compiler, kernel cache, loops that are not compiled yet, and a self-test that solves one problem each way.

    Parameters
    ----------
    prepare
        Compile all loops now, so that no solve has to wait for it: about two minutes, once after an installation.
    """
    from ocp.app.doctor import print_diagnosis, print_preparation

    return CERTIFIED if (print_preparation() if prepare else print_diagnosis()) else NOT_SOLVED


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; every error of the user ends in one message and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that has no word for a sign gets a question mark, not an error
        sys.stdout.reconfigure(errors="replace")
    sys.exit(guarded(lambda: app(arguments, exit_on_error=False, print_error=False)))


def guarded(action: Callable[[], int | None]) -> int:
    """Run an action and turn what goes wrong into a message and an exit code."""
    try:
        with held(False):
            return action() or CERTIFIED
    except cyclopts.CycloptsError as error:
        print(f"error: {error}\ntry: ocp --help", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt as stopped:
        print(str(stopped) or NOTHING, file=sys.stderr)
        return NOT_SOLVED
    except BrokenPipeError:  # whoever read has seen enough; what is left in the buffers shall not complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_SOLVED
    except Exception as error:
        return _told(error)


def _told(error: Exception) -> int:
    """The message and the exit code of an error: the user's, the system's or ours."""
    from dynamics.errors import ModelError
    from ocp.errors import ProblemError

    if isinstance(error, ProblemError | ModelError):
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    if isinstance(error, OSError) and error.errno in PLACES:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT if error.errno != errno.ENOSPC else NOT_SOLVED
    traceback.print_exception(error)  # the last resort: whatever else goes wrong is our fault, shown whole
    print("This is a fault of lieocp, not of your file; please report it with the text above.", file=sys.stderr)
    return INTERNAL


if __name__ == "__main__":
    main()
