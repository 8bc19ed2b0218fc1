"""Problems in Python, or from files: each call writes the corresponding part of a problem file, which is then compiled like any
other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocp.app.face.document import Document, KeyPath, limit, ordered, plain, written_at
from ocp.app.face.expression import Expr, Relation, expr
from ocp.app.face.phase import Phase, duration_of, items, with_caller_in_errors
from ocp.app.face.robot import Robot
from ocp.errors import ProblemError

if TYPE_CHECKING:
    from ocp.app.face.result import Result
    from ocp.app.face.runs import ClosedLoopResult, Simulated
    from ocp.app.face.shown import Explanation
    from ocp.app.face.solver import Solver
    from ocp.app.face.watched import Callback
    from ocp.mpc.controller import Controller


class Problem(Phase):
    """An optimal-control problem: a system given by its equations or a robot, in one phase (``duration``) or several (``phase``).

    duration [s]: a number, or (shortest, longest) or (shortest, longest, guess) where the solver chooses.
    """

    def __init__(self, name: str = "problem", robot: Robot | None = None, /, *, duration: object = None, description: str = "",
                 source: str = "", theme: str = ""):
        tree: dict[str, Any] = {"name": name}
        tree |= {key: words for key, words in (("theme", theme), ("description", description), ("source", source)) if words}
        document = Document(tree, Path() if robot is None else robot.folder, name=name)
        super().__init__(document, ("phase",), ("system",))
        self.robot = robot
        if robot is not None:
            document.put(("system",), robot.tree)
        if duration is not None:
            document.put(("phase", "duration"), duration_of(duration))
            document.put(("phase", "costs"), [])

    @classmethod
    def _of(cls, document: Document) -> Problem:
        made = object.__new__(cls)
        Phase.__init__(made, document, ("phase",), ("system",))
        system = document.tree.get("system", {})
        made.robot = Robot._of(document) if isinstance(system, Mapping) and ("robot" in system or "bodies" in system) else None
        return made

    @property
    def tree(self) -> dict[str, Any]:
        """The content of a file of this problem, as plain values; a copy."""
        return ordered(self._document.copy().tree)

    # ---- numbers, phases, linkages ------------------------------------------------------------------------------------
    @with_caller_in_errors
    def constant(self, name: str, value: object) -> Expr:
        """A named number."""
        self._document.put(("constants", name), value)
        return Expr(name)

    @with_caller_in_errors
    def parameter(self, name: str, value: object, *, optimise: object = None) -> Expr:
        """A named number that stays a symbol; optimise: (lower, upper) within which the solver chooses it."""
        self._document.put(("parameters", name), value if optimise is None else {"value": value, "optimise": limit(optimise)})
        return Expr(name)

    @with_caller_in_errors
    def phase(self, name: str, *, duration: Any, contacts: Any = None, robot: Robot | None = None, own_system: bool = False
              ) -> Phase:
        """The next of several phases. contacts: those of the robot that are active; robot: another than the problem's; own_system:
        its states and controls are declared on it, not on the problem."""
        if "phase" in self._document.tree:
            raise ProblemError("the problem has one phase, because it has a duration or costs of its own; give these to its phases")
        if any(entry["name"] == name for entry in self._document.tree.get("phases", [])):
            raise ProblemError(f"a phase named {name!r} already exists")
        made: dict[str, Any] = {"name": name, "duration": duration_of(duration), "costs": []}
        made |= {} if contacts is None else {"contacts": list(contacts)}
        made |= {} if robot is None else {"system": robot.tree}
        self._document.append(("phases",), made)
        at: KeyPath = ("phases", len(self._document.tree["phases"]) - 1)
        return Phase(self._document, at, (*at, "system") if own_system or robot is not None else ("system",), name)

    @with_caller_in_errors
    def linkage(self, value: object, /, *, name: str | None = None, lower: object = None, upper: object = None,
                equal: object = None) -> None:
        """A constraint between ends of phases: ``linkage(p.at_start("x") == p.at_final("x"))``."""
        limits = {key: limit(item) for key, item in (("lower", lower), ("upper", upper), ("equal", equal)) if item is not None}
        if isinstance(value, Relation):
            limits = value.limits()
            value = limits.pop("expression")
        taken = [entry["name"] for entry in self._document.tree.get("linkages", [])]
        made = {"name": name or f"linkage {len(taken) + 1}", "expression": items(value, expr(value)), **limits}
        self._document.append(("linkages",), made)

    @with_caller_in_errors
    def method(self, name: str = "collocation", /, **options: Any) -> None:
        """The method that solves it unless :meth:`solve` says otherwise, and its options."""
        self._document.put(("solve", "method"), name)
        for key, value in options.items():
            self._document.put(("solve", name, key), value)

    @with_caller_in_errors
    def accept(self, **tolerances: float) -> None:
        """Tolerances of the certificate that differ from the default."""
        for key, value in tolerances.items():
            self._document.put(("accept", key), value)

    @with_caller_in_errors
    def set(self, path: str, value: object) -> None:
        """Set any key of the file: ``set("phase.duration", 2)``, also keys without a method of their own."""
        from ocp.app.files.syntax.overrides import changed
        from ocp.app.files.syntax.yaml_source import Source

        document, here = self._document, f"{written_at()}: set"
        source = changed(Source(document.name, "", document.tree, document.entries, document.origins), path, plain(value), here)
        document.tree, document.entries, document.origins = source.tree, source.entries, dict(source.origins)

    # ---- files --------------------------------------------------------------------------------------------------------
    def to_yaml(self) -> str:
        """The problem as the text of a problem file; paths in it are relative to :attr:`folder`."""
        from ocp.app.files.syntax.yaml_text import dump

        return dump(self.tree)

    @property
    def folder(self) -> Path:
        """The folder to which paths in the problem are relative."""
        return self._document.folder

    def save(self, path: str | Path) -> Path:
        """Write the problem file; paths in it are rewritten to be right from there."""
        from ocp.app.face.document import moved
        from ocp.app.files.syntax.yaml_text import dump

        place = Path(path)
        place.write_text(dump(moved(self.tree, self.folder, place.parent)), encoding="utf-8")
        return place

    def copy(self) -> Problem:
        """The same, to be changed on its own."""
        return Problem._of(self._document.copy())

    # ---- solving ------------------------------------------------------------------------------------------------------
    def load(self) -> Any:
        """Compile: ``.problem`` is the mathematics, with its CasADi functions. Raises ProblemFileError, each error with the line of
        Python, or of the file, that it is about."""
        return self._document.load()

    def check(self) -> str:
        """Compile, and say in words what there is and which methods can serve it."""
        import io

        from rich.console import Console

        from ocp.app.pages.summary import print_check

        out = io.StringIO()
        print_check(self.load(), Console(file=out, width=140, highlight=False))
        return out.getvalue()

    @with_caller_in_errors
    def solve(self, method: str | None = None, /, *, guess: Result | str | Path | None = None, time_limit: float | None = None,
              without: Sequence[str] = (), verbose: bool = False, callback: Callback | None = None, **options: Any) -> Result:
        """Solve and certify: ``solve()``, ``solve("ilqr", intervals=100)``.

        method: collocation, multiple_shooting or ilqr; options: of that method. guess: an earlier result, or the folder of a run,
        to start from. time_limit [s]: the best answer until then comes back. without: rules of the
        strategy that are switched off (``ocp show --strategy``). verbose: print the iterations. callback: called after each
        iteration, in every pass, with the iterate (``ocp.app.face.watched.Iterate``: its record, ``iterate["x"]``); where it
        returns something true, the solve stops with the best iterate. The logger ``ocp`` of ``logging`` hears the same.
        """
        from ocp.app.face.result import solved

        document = self._chosen(method, options)
        if time_limit is not None:
            document.put(("solve", "time_limit"), time_limit)
        if without:
            document.put(("solve", "strategy", "without"), list(without))
        return solved(document, guess=guess, verbose=verbose, callback=callback)

    def _chosen(self, method: str | None, options: Mapping[str, Any]) -> Document:
        """A copy of the document with a method and its options."""
        document = self._document.copy()
        if method is not None:
            document.put(("solve", "method"), method)
        name = document.tree.get("solve", {}).get("method", "collocation")
        for key, value in options.items():
            document.put(("solve", name, key), value)
        return document

    @with_caller_in_errors
    def compile(self, method: str | None = None, /, *, vary: Sequence[str] = (), **options: Any) -> Solver:
        """Build once, solve often: ``solver = problem.compile()``, then ``solver.solve(x0={"theta": 0.1})``.

        vary: paths of numbers that stand in functions, such as ``constants.mass``; parameters that the problem declares, starts,
        goals, bounds and limits need no mention. method, options: as of :meth:`solve`.
        """
        from ocp.app.face.solver import Solver

        return Solver(self._chosen(method, options), tuple(vary))

    def vary(self, *paths: str, method: str | None = None, **options: Any) -> Solver:
        """The same by paths: ``ocp.load(file).vary("constants.mass", "phase.start.theta")``."""
        return self.compile(method, vary=paths, **options)

    @with_caller_in_errors
    def mpc(self, **section: Any) -> ClosedLoopResult:
        """Run it in closed loop, its horizon receding, against a simulated plant; keywords are those of the section ``mpc``."""
        from ocp.app.face.runs import closed_loop

        return closed_loop(self._with_mpc(section))

    @with_caller_in_errors
    def controller(self, *, safe: object = "hold", **section: Any) -> Controller:
        """Its receding horizon for a loop of your own: ``mpc = p.controller(rate=100)``, ``mpc.reset(x)``, then ``u = mpc.step(x,
        t)`` every sampling period. safe: the control of a step without a plan: ``"hold"``, ``"plan"`` or a function (t, x) -> u.
        Keywords are those of the section ``mpc``; what is there of plants, disturbances and tracked quantities plays no part."""
        from ocp.app.face.runs import controller_of

        return controller_of(self._with_mpc(section), safe)

    def _with_mpc(self, section: Mapping[str, Any]) -> Document:
        document = self._document.copy()
        document.tree.setdefault("mpc", {})
        for key, value in section.items():
            document.put(("mpc", key), value)
        return document

    @with_caller_in_errors
    def simulate(self, integrator: str | None = None, /, *, dt: float | None = None, until: float | None = None,
                 run: Result | str | Path | None = None, policy: Result | str | Path | None = None, **controls: float) -> Simulated:
        """Move it on from its start; nothing is optimised. integrator: ``"rk4"``, ``"bdf2"`` ...; dt: longest step [s]; until: when
        to stop [s]. Source of the controls: constants by name; or run, whose start, durations and controls are taken; or policy:
        a solve by iLQR, whose gains act, or ``"mpc"``, the receding horizon of the problem. Default: the controls of the guess."""
        from ocp.app.face.runs import simulated

        return simulated(self._document.copy(), integrator, dt, until, controls, run, policy)

    def explain(self) -> Explanation:
        """Solve it, and say why that fails (what to relax and by how much, what is not finite and where), or what its constraints
        cost."""
        from ocp.app.face.shown import explained

        return explained(self.save, "problem.yaml")

    # ---- looks --------------------------------------------------------------------------------------------------------
    def __repr__(self) -> str:
        tree = self._document.tree
        system = tree.get("system", {})
        what = f"robot {system.get('robot', 'of bodies')}" if self._is_robot() else \
            f"{len(system.get('states', {}))} states, {len(system.get('controls', {}))} controls"
        if "phases" in tree:
            return f"Problem {tree['name']!r}: {what}, {len(tree['phases'])} phases"
        phase = tree.get("phase", {})
        counts = ", ".join(f"{len(phase.get(group, []))} {group}" for group in ("costs", "constraints"))
        return f"Problem {tree['name']!r}: {what}, {counts}"

    def _repr_html_(self) -> str:
        from ocp.app.face.shown import as_text

        return as_text(self.to_yaml())


def load(file: str | Path, /, **changes: Any) -> Problem:
    """The problem of a YAML file, to be changed, solved and saved. changes: keys by path, ``**{"phase.duration": 2}``.

    Raises ProblemError where the file cannot be read. The problem is checked when it is compiled: ``problem.check()``.
    """
    from ocp.app.files.problem.gallery import in_gallery
    from ocp.app.files.syntax.kinds import expect
    from ocp.app.files.syntax.yaml_source import read_source

    file = in_gallery(Path(file))
    source = read_source(file)
    expect(source, "problem")
    problem = Problem._of(Document(source.tree, file.parent, str(file), {}, source.entries))
    for path, value in changes.items():
        problem.set(path, value)
    return problem


def solve(file: str | Path, method: str | None = None, /, **how: Any) -> Result:
    """Solve a problem file: ``load(file).solve(method, ..)``."""
    return load(file).solve(method, **how)
