"""Controls of a simulation, as the command line or the file gives them: a guess, constants, an earlier run, a policy, a horizon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dynamics.errors import near
from ocp.app.files.load import LoadedProblem
from ocp.app.pages.results import read_run
from ocp.app.runs import from_run, policy_of
from ocp.errors import ProblemError
from ocp.problem import Problem
from ocp.shooting.export import Policy, read_policy
from ocp.simulation import Constant, Controls, Guessed

#: the policy that the file's own section ``mpc`` describes
MPC = "mpc"
WHERE = "--policy"


def choose(loaded: LoadedProblem, controls: Sequence[str] | None, run: Path | None, policy: str | None
           ) -> tuple[Problem, Controls]:
    """The problem, with the motion of a run as its guess where one is given, and what drives it. controls: as of ``--controls``.

    Raises ProblemError for more than one source, for unknown names, and for policies of other problems.
    """
    given = [name for name, value in (("--controls", controls), ("--from", run), (WHERE, policy)) if value]
    if len(given) > 1:
        raise ProblemError("cannot be combined; give one of them", where=" and ".join(given))
    if run is not None:
        return _of_run(loaded.problem, run)
    if policy == MPC:
        from ocp.mpc.policy import Receding  # loads Numba

        if loaded.mpc is None:
            raise ProblemError("the file has no section 'mpc'; 'mpc: {}' takes every default", where=f"{WHERE} {MPC}")
        return loaded.problem, Receding(loaded.problem, loaded.mpc.options, {**loaded.options_for("ilqr"), **loaded.mpc.ilqr})
    if policy is not None:
        return loaded.problem, Feedback(_policy(Path(policy), loaded.problem), policy)
    if controls:
        return loaded.problem, _named(loaded.problem, controls)
    if loaded.simulate.controls is not None:
        return loaded.problem, _constant(loaded.problem, loaded.simulate.controls)
    return loaded.problem, Guessed(loaded.problem)


class Feedback:
    """A policy, sampled where each step begins; its time begins with the motion."""

    def __init__(self, policy: Policy, path: str):
        self.label, self._policy = f"the policy {path}", policy

    def begin(self) -> None:
        """Return to the start of the controls."""
        return None

    def __call__(self, phase: int, t: float, h: float, x: np.ndarray) -> np.ndarray:
        return np.asarray(self._policy.law(self._policy.t[0] + t, x))


def _of_run(problem: Problem, folder: Path) -> tuple[Problem, Controls]:
    with_motion = from_run(problem, folder)
    arrays = read_run(folder).arrays
    prefixes = [f"{phase.name}." for phase in problem.phases] if "phase_names" in arrays else [""]
    stairs = [len(arrays[f"{at}t_u"]) == len(arrays[f"{at}t"]) - 1 and np.array_equal(arrays[f"{at}t_u"], arrays[f"{at}t"][:-1])
              for at in prefixes]
    words = f"the run {folder}, " + ("held" if all(stairs) else "read linearly between its control times")
    return with_motion, Guessed(with_motion, words, stairs)


def _policy(path: Path, problem: Problem) -> Policy:
    """The policy of an archive, or of the run that made it."""
    if path.is_dir() and (path / "policy.npz").is_file():
        path = path / "policy.npz"
    if path.is_dir():
        found = policy_of(read_run(path))
    elif path.is_file():
        try:
            with np.load(path, allow_pickle=False) as archive:
                found = read_policy(dict(archive))
        except (OSError, ValueError, KeyError) as error:
            raise ProblemError(f"is not an archive of a policy: {error}", where=str(path)) from None
    else:
        raise ProblemError("there is no such file or folder; name a policy.npz, the folder of an iLQR run, or mpc",
                           where=str(path))
    system = problem.phase.system
    for what, own, theirs in (("states", system.space.names, found.state_names),
                              ("controls", system.controls, found.control_names)):
        if tuple(own) != tuple(theirs):
            raise ProblemError(f"has the {what} {', '.join(theirs)}; the problem has {', '.join(own)}", where=str(path))
    return found


def _named(problem: Problem, controls: Sequence[str]) -> Controls:
    if list(controls) == ["guess"]:
        return Guessed(problem)
    if list(controls) == ["zero"]:
        return _constant(problem, {})
    values: dict[str, float] = {}
    for word in (part for item in controls for part in item.split(",")):
        name, equals, text = word.partition("=")
        if not equals:
            raise ProblemError(f"expected guess, zero or NAME=VALUE, got {word!r}", where="--controls")
        if name in values:
            raise ProblemError(f"{name!r} is given twice", where="--controls")
        try:
            values[name] = float(text)
        except ValueError:
            raise ProblemError(f"{text!r} is not a number", where=f"--controls {name}") from None
        if not np.isfinite(values[name]):
            raise ProblemError("must be finite", where=f"--controls {name}")
    known = list(dict.fromkeys(name for phase in problem.phases for name in phase.system.controls))
    for name in values:
        if name not in known:
            raise ProblemError(f"no control named {name!r}{near(name, known, most=30)}" if known else
                               f"no control named {name!r}; the system has none", where="--controls")
    return _constant(problem, values)


def _constant(problem: Problem, values: Mapping[str, float]) -> Controls:
    words = ", ".join(f"{name} = {value:g}" for name, value in values.items())
    return Constant(values, problem, f"constant: {words}" if words else "zero")
