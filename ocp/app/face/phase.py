"""A phase in Python: each call writes the corresponding part of a problem file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any, TypeVar

from dynamics.errors import near
from ocp.app.face.document import Document, KeyPath, key_text, limit, plain, written_at
from ocp.app.face.expression import Expr, Relation, expr
from ocp.app.face.robot import FrameError
from ocp.errors import ProblemError

Method = TypeVar("Method", bound=Any)


def with_caller_in_errors(method: Method) -> Method:
    """A method whose errors, if they name no location, name the line that called it."""
    @wraps(method)
    def called(self: object, *arguments: Any, **options: Any) -> Any:
        try:
            return method(self, *arguments, **options)
        except ProblemError as error:
            if error.where is not None or type(error) is not ProblemError:
                raise
            raise ProblemError(error.message, where=f"{written_at()}: {method.__name__}") from None

    return called  # type: ignore[return-value]


class Phase:
    """One stretch of time: start, final, bounds, costs, constraints and guess, and the names of a system of its own."""

    def __init__(self, document: Document, path: KeyPath, system: KeyPath, name: str = ""):
        self._document, self._path, self._system, self.name = document, path, system, name

    # ---- the system ---------------------------------------------------------------------------------------------------
    @with_caller_in_errors
    def state(self, name: str, unit: str = "") -> Expr:
        """Declare a state."""
        return self._declare("states", name, unit)

    @with_caller_in_errors
    def control(self, name: str, unit: str = "") -> Expr:
        """Declare a control."""
        return self._declare("controls", name, unit)

    @with_caller_in_errors
    def algebraic(self, name: str, unit: str = "") -> Expr:
        """Declare an unknown that equations determine at every time."""
        return self._declare("algebraic", name, unit)

    @with_caller_in_errors
    def define(self, name: str, value: object) -> Expr:
        """Name an expression, for what follows and for reports."""
        value = expr(value)
        self._declare("define", name, value)
        return Expr(name, size=value.size)

    @with_caller_in_errors
    def dynamics(self, rates: Mapping[Any, Any] | None = None, /, **more: object) -> None:
        """The time derivative of states: ``dynamics({x: v, v: force})`` or ``dynamics(x=v, v=force)``."""
        for name, value in {**by_name(rates), **more}.items():
            self._document.put((*self._system, "dynamics", name), scalar(value))

    @with_caller_in_errors
    def next(self, after: Mapping[Any, Any] | None = None, /, *, period: object = None, **more: object) -> None:
        """Discrete time: every state after a step, from states and controls before it, ``next({stock: stock + order - sold})``.
        period [s]: between steps, default 1, so that ``t`` counts them."""
        for name, value in {**by_name(after), **more}.items():
            self._document.put((*self._system, "next", name), scalar(value))
        if period is not None:
            self._document.put((*self._system, "period"), period)

    @with_caller_in_errors
    def sampled(self, period: object, integrator: str = "rk4", steps: int = 1) -> None:
        """Discrete time: so many steps of an integrator over the dynamics in every period [s], in which controls are constant."""
        self._document.put((*self._system, "sampled"), {"period": period, "integrator": integrator, "steps": steps})

    @with_caller_in_errors
    def equation(self, relation: Relation | Any, name: str | None = None) -> None:
        """An implicit equation, ``left == right``; ``der(x)`` is the time derivative of a state."""
        if isinstance(relation, Relation) and relation.sign != "==":
            raise ProblemError(f"an equation needs ==; got {relation}")
        sides = f"{expr(relation.left)} = {expr(relation.right)}" if isinstance(relation, Relation) else str(expr(relation))
        known = self._document.get((*self._system, "equations"))
        self._document.put((*self._system, "equations", name or f"equation {len(known) + 1}"), sides)

    @with_caller_in_errors
    def balance(self, *, energy: object, power: object) -> None:
        """Total mechanical energy [J] and the power supplied [W], for the energy balance of the certificate."""
        self._document.put((*self._system, "energy"), scalar(energy))
        self._document.put((*self._system, "power"), scalar(power))

    def _declare(self, group: str, name: str, value: object) -> Expr:
        system = self._document.get(self._system)
        if self._is_robot() and group != "define":
            raise ProblemError(f"a robot brings its {group}; no others can be added")
        for other in ("states", "controls", "algebraic", "define"):
            if name in system.get(other, {}):
                raise ProblemError(f"the name {name!r} is already among the {other}")
        for first in ("states", "controls"):  # in the order of files
            if not self._is_robot():
                system.setdefault(first, {})
        self._document.put((*self._system, group, name), value)
        return Expr(name)

    def _is_robot(self) -> bool:
        system = self._document.get(self._system)
        return "robot" in system or "bodies" in system

    # ---- ends, bounds, guess ------------------------------------------------------------------------------------------
    @with_caller_in_errors
    def start(self, values: object = None, /, **named: object) -> None:
        """Where the motion starts. ``values``: states by name, a list in order, or what holds for those not named: ``"free"``,
        ``"neutral"`` or a named configuration. Robots: ``joints=``, ``base=``, ``velocities=``, ``rest=True``."""
        self._end("start", {"others": values} if isinstance(values, str) else values, named)

    @with_caller_in_errors
    def final(self, values: object = None, /, **named: object) -> None:
        """Where it ends; what is not named is free. Robots: ``joints=``, ``base=``, ``velocities=``, ``rest=True``,
        ``configuration=``."""
        self._end("final", {"configuration": values} if isinstance(values, str) else values, named)

    def _end(self, end: str, values: object, named: Mapping[str, Any]) -> None:
        if values is None or isinstance(values, Mapping):
            before = self._document.get(self._path).get(end, {})
            values = {**(before if isinstance(before, Mapping) else {}), **by_name(values), **named}
        elif named:
            raise ProblemError("give either a list of all states, or states by name")
        self._document.put((*self._path, end), values)

    @with_caller_in_errors
    def bounds(self, values: Mapping[Any, Any] | None = None, /, **named: object) -> None:
        """(lower, upper) of states and controls by name, None or infinity for no bound. Robots: ``joints={..}``,
        ``velocities={..}``, ``controls={..}``, ``accelerations={..}``."""
        for name, value in {**by_name(values), **named}.items():
            path = (*self._path, "bounds", name)
            if isinstance(value, Mapping):
                for inner, given_pair in by_name(value).items():
                    self._document.put((*path, inner), pair(inner, given_pair))
            else:
                self._document.put(path, pair(name, value))

    @with_caller_in_errors
    def guess(self, **named: object) -> None:
        """Where the search begins: values, or values at equally spaced times, by name. Robots: ``states=[{..}, {..}]``, each as in
        ``start`` or ``{"ik": [..tasks..]}``; ``controls={..}``."""
        system = self._document.get(self._system)
        groups = ("states", "controls", "algebraic", "accelerations")
        for name, value in named.items():
            path: KeyPath = (*self._path, "guess", name)
            if name not in groups:
                group = next((g for g in groups if name in system.get(g, {})), None)
                if group is None:
                    raise ProblemError(f"no state or control named {name!r}"
                                       f"{near(name, [n for g in groups for n in system.get(g, {})] or groups)}")
                path = (*self._path, "guess", group, name)
            self._document.put(path, value)

    # ---- costs and constraints ----------------------------------------------------------------------------------------
    @with_caller_in_errors
    def cost(self, value: object = None, /, *, name: str | None = None, at: str = "path", weights: object = None,
             between: object = None, **error: object) -> None:
        """A term of the objective, integrated over time, or ``at="final"`` added at the end; ``at="stage"`` sums it over the steps
        of a system in discrete time.

        A scalar costs what it is. A vector, or anything with ``weights``, is a residual r and costs ``1/2 sum w r^2``; so does the
        difference of a frame from a target (``robot.pose_error(..)``), and ``state_error={..}``, ``control_error={..}``.
        between: (from, to) [s], outside of which it counts nothing.
        """
        if at not in ("path", "stage", "final"):
            raise ProblemError(f"at={at!r}: a cost counts along the 'path', at each 'stage' or at the 'final' time")
        if (value is None) == (not error):
            raise ProblemError("takes one expression, or one of state_error=, control_error=")
        if isinstance(value, Relation):
            raise ProblemError(f"{value} is a comparison, not a cost; constraint({value}) holds it")
        made: dict[str, Any] = {}
        if isinstance(value, FrameError) or error:
            if at == "stage":
                raise ProblemError("the error of a state, control or frame counts along the 'path' or at the 'final' time; write "
                                   "its components for a 'stage'")
            form, given = (value.form, value.value) if isinstance(value, FrameError) else next(iter(error.items()))
            made = {form: given, **{key: item for key, item in error.items() if key != form}}
            made |= {"at": at} if at != "path" else {}
        else:
            found = expr(value)
            when = "running" if at == "path" else at
            residual = weights is not None or found.size not in (1, None) or isinstance(value, (list, tuple))
            made = {f"{when}_residual" if residual else when: items(value, found) if residual else found}
        made |= {} if weights is None else {"weights": weights}
        made |= {} if between is None else {"between": between}
        self._document.append((*self._path, "costs"), {"name": self._name("costs", name, made), **made})

    @with_caller_in_errors
    def constraint(self, value: object = None, /, *, name: str | None = None, at: str = "path", lower: object = None,
                   upper: object = None, equal: object = None, soft: float | None = None) -> None:
        """A constraint: a comparison (``v <= 2``), or an expression with ``lower=``, ``upper=`` or ``equal=``.

        at: along the "path", at the "start", at the "final" time, or of the "integral" over the phase. soft: weight of a penalty in
        its location.
        """
        limits = {"lower": lower, "upper": upper, "equal": equal}
        limits = {key: found for key, item in limits.items() if item is not None and (found := limit(item)) is not None}
        if isinstance(value, Relation):
            if limits:
                raise ProblemError(f"the comparison {value} has its limit already; leave out {', '.join(limits)}")
            found = value.limits()
            value = found.pop("expression")
            limits = {key: limit(item) for key, item in found.items()}
        if value is None or isinstance(value, bool):
            why = "" if value is None else ": a comparison of plain numbers was evaluated by Python"
            raise ProblemError("expected a comparison such as v <= 2, or an expression with lower=, upper= or equal=; got "
                               f"{value}{why}")
        made = {value.form: value.value} if isinstance(value, FrameError) else {"expression": items(value, expr(value))}
        made |= {"at": at} if at != "path" else {}
        made |= limits | ({} if soft is None else {"soft": soft})
        self._document.append((*self._path, "constraints"), {"name": self._name("constraints", name, made), **made})

    def _name(self, group: str, name: str | None, made: Mapping[str, Any]) -> str:
        """The given name, or one of the words of the expression that no other has."""
        taken = {entry.get("name") for entry in self._document.get(self._path).get(group, [])}
        if name is not None:
            return name
        form, value = next(iter(made.items()))
        words = str(value["frame"]) if isinstance(value, Mapping) and "frame" in value else \
            ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        wish = f"{form.replace('_', ' ')} {words}" if form.endswith("error") else words
        wish = wish if len(wish) <= 60 else f"{wish[:57]}..."
        return next(n for i in range(1, 10**6) if (n := wish if i == 1 else f"{wish} ({i})") not in taken)

    @with_caller_in_errors
    def reset(self, values: Mapping[Any, Any] | None = None, /, **named: object) -> None:
        """State jumps at the start of this phase: states as expressions of the state before. Robots: ``impact=True``,
        ``restitution=``, ``joints={..}``, ``velocities={..}``."""
        self._document.put((*self._path, "reset"), {**by_name(values), **named})

    def at_start(self, name: object) -> Expr:
        """A state, or what ``define`` names, at the start, for :meth:`Problem.linkage`."""
        return self._at("start", name)

    def at_final(self, name: object) -> Expr:
        """A state, or what ``define`` names, at the end, for :meth:`Problem.linkage`."""
        return self._at("final", name)

    def _at(self, end: str, name: object) -> Expr:
        text = str(name)
        if isinstance(name, Expr) and (text.startswith(('q["', 'v["'))):
            text = f"{text[0]}.{text[3:-2]}"
        return Expr(f'{end}["{self.name}.{text}"]' if self.name else f'{end}["{text}"]')

    def __repr__(self) -> str:
        own = self._document.get(self._path)
        return f"Phase {self.name!r}: {len(own.get('costs', []))} costs, {len(own.get('constraints', []))} constraints"


def by_name(values: Mapping[Any, Any] | None) -> dict[str, Any]:
    """A mapping with its keys as text. Raises ProblemError for other arguments."""
    if values is not None and not isinstance(values, Mapping):
        raise ProblemError(f"expected a mapping of names to values, got {type(values).__name__}")
    return {key_text(key): value for key, value in (values or {}).items()}


def scalar(value: object) -> Expr:
    """The value as an expression of one component. Raises ProblemError for more components."""
    found = expr(value)
    if found.size not in (1, None):
        raise ProblemError(f"{found!r} has {found.size} components; a single number is expected here")
    return found


def items(value: object, found: Expr) -> Any:
    """Lists stay lists in the tree, so that each entry stands for itself in a file."""
    return [expr(item) for item in value] if isinstance(value, (list, tuple)) else found


def pair(name: str, value: object) -> Any:
    """Bounds (lower, upper) as in a file. Raises ProblemError for other arguments."""
    if isinstance(value, (int, float)) or not hasattr(value, "__len__") or len(value) != 2:
        raise ProblemError(f"the bound of {name!r} is a pair (lower, upper), None for none; got {value!r}")
    return limit(value)


def duration_of(value: object) -> Any:
    """A duration as in a file, from a number, (shortest, longest) or (shortest, longest, guess)."""
    if isinstance(value, (list, tuple)):
        if len(value) not in (2, 3):
            raise ProblemError(f"a duration is a number, (shortest, longest) or (shortest, longest, guess); got {value!r}")
        return dict(zip(("lower", "upper", "guess"), limit(value), strict=False))
    return plain(value)
