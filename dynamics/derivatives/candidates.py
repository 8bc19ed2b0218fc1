"""Every dynamics quantity by every method that leads to it, with one set of names, shapes and conventions: comparable one to one.

A *quantity* (``QUANTITIES``, under constraints ``CONSTRAINED``) fixes inputs and outputs, a *source* (``SOURCES``) how the numbers
come about; ``candidates`` lists all sources of one quantity, those without a method with the reason. All agree to rounding (``fd``
to its own accuracy).

Conventions of all candidates. Derivatives with respect to q are right-tangent. Second derivatives by q are symmetrised, Hessians
of ``d -> f(q [+] d)``. Matrices are [nv, nv], entry [j, k] by component j of the first letter and k of the second. Tensors are
[nv, nv * nv]: entry (i; j, k) in row i, column j + nv k; ``qv`` is d2f_i/dq_j dv_k, ``Mq`` dM_ij/dq_k, ``qtau`` d2a_i/dq_j dtau_k.
Contracted outputs are those of ``lam^T tau`` (qa: by q and a) and of ``mu^T a`` (qtau).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dynamics.constraints import Constraint
from dynamics.derivatives.roads import BUILDERS, CONSTRAINED, QUANTITIES, ConstrainedModel, Quantity
from dynamics.errors import ModelError, UnknownNameError
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model

__all__ = ["CONSTRAINED", "KNOWN", "QUANTITIES", "SOURCES", "Candidate", "ConstrainedModel", "Evaluator", "Quantity", "candidate",
           "candidates", "constrained_mechanism", "interpreted"]

Array = np.ndarray
Evaluator = Callable[..., tuple[Array, ...]]

SOURCES: Mapping[str, str] = {
    "ad_sx": "algorithmic differentiation of the scalar graph of the algorithm",
    "ad_mx": "algorithmic differentiation of a graph that calls the algorithm as one function",
    "ad_of_analytic": "algorithmic differentiation of the closed-form first derivatives",
    "analytic": "closed form as straight-line code; at order 0 the recursive algorithm itself",
    "loop": "closed form as compiled loops over the model",
    "complex_step": "complex steps of the algorithm (first order) or of the closed-form first derivatives (second order)",
    "fd": "central differences of the algorithm (first order) or of the closed-form first derivatives (second order)",
}

LARGEST_GRAPH: Mapping[str, float] = {"ad_sx": 6e6, "ad_mx": 3e6, "ad_of_analytic": 6e6}
"""Instructions beyond which differentiating a graph twice in full is refused: half a minute, one or two gigabytes of memory."""
KNOWN: Mapping[str, Quantity] = {**QUANTITIES, **CONSTRAINED}
_CSE_UP_TO = 300_000  # common subexpressions cost 10 us an instruction to find; in differentiated graphs they are a tenth


@dataclass(frozen=True)
class Candidate:
    """One quantity (name) of one robot by one source; reason: why there is no such method, empty if there is."""

    robot: ConstrainedModel
    quantity: str
    source: str
    reason: str = ""

    @property
    def model(self) -> Model:
        """The tree."""
        return self.robot.model

    @property
    def what(self) -> Quantity:
        """Inputs and outputs."""
        return KNOWN[self.quantity]

    @property
    def symbolic(self) -> bool:
        """True when ``build`` gives a Function."""
        return not self.reason and self.source != "loop"

    def build(self, dense: bool = False) -> ca.Function | None:
        """The quantity as a Function with its named inputs and outputs; None for ``loop`` and where there is no method.

        Outputs are sparse where the method knows the tree's structural zeros; dense: those zeros are stored numbers.
        """
        if not self.symbolic:
            return None
        what = self.what
        inputs, outputs = BUILDERS[self.source](self.robot, what)
        if isinstance(inputs[0], ca.SX):
            outputs = [ca.sparsify(ca.SX(x)) for x in outputs]
            if ca.Function("f", inputs, outputs).n_instructions() <= _CSE_UP_TO:
                outputs = ca.cse(outputs)
        if dense:
            outputs = [ca.densify(x) for x in outputs]
        return ca.Function(f"{self.quantity}_{self.source}", inputs, outputs, list(what.inputs), list(what.outputs))

    def evaluator(self, compiled: bool = False) -> Evaluator:
        """A callable: NumPy vectors in the order of the quantity's inputs -> tuple of new dense arrays, vectors as [nv].

        compiled: a symbolic method runs as a kernel of C code (where there is a compiler) and not in CasADi's interpreter.
        Raises ModelError, with the reason, where there is no method. For one thread.
        """
        if self.reason:
            raise ModelError(f"no {self.quantity} by {self.source!r}: {self.reason}", element=f"model {self.model.name!r}")
        if self.source == "loop":
            return _loop(self.robot, self.what)
        function = self.build()
        assert function is not None
        if compiled:
            from dynamics.kernels import compile_kernel
            kernel = compile_kernel(function)
            several = function.n_out() > 1
            return lambda *arrays: tuple(np.asarray(y) for y in (kernel(*arrays) if several else (kernel(*arrays),)))
        return interpreted(function)


def candidates(model: Model, quantity: str, constraints: Sequence[Constraint] = ()) -> tuple[Candidate, ...]:
    """All sources of a quantity, in the order of ``SOURCES``, those without a method with their reason. Nothing is built yet.

    constraints: under which the robot moves, for quantities of ``CONSTRAINED``; times are zero. Raises UnknownNameError for an
    unknown quantity, among them those of constraints where there are none.
    """
    known = KNOWN if constraints else QUANTITIES
    if quantity not in known:
        raise UnknownNameError("quantity", quantity, known)
    robot = ConstrainedModel(model, tuple(constraints))
    return tuple(Candidate(robot, quantity, source, _obstacle(robot, known[quantity], source)) for source in SOURCES)


def candidate(model: Model, quantity: str, source: str, constraints: Sequence[Constraint] = ()) -> Candidate:
    """One of ``candidates``. Raises UnknownNameError for an unknown quantity or source."""
    for one in candidates(model, quantity, constraints):
        if one.source == source:
            return one
    raise UnknownNameError("derivative source", source, SOURCES)


def _obstacle(robot: ConstrainedModel, what: Quantity, source: str) -> str:
    """Why there is no method, or nothing."""
    if what.family == "forces" and robot.dependent:
        return "the equations of the constraints depend on each other, so that their forces are not unique"
    if source == "loop" and what.order and what.family in ("forces", "impact"):
        return "the loops differentiate accelerations"
    if what.order == 0:
        return "" if source in ("analytic", "loop") else "nothing to differentiate: the algorithm itself is 'analytic'"
    if source == "ad_of_analytic" and what.order == 1:
        return "the closed form is itself of first order: nothing to differentiate"
    if what.tensor and source in LARGEST_GRAPH:
        size, limit = _graph_size(robot.model, what), LARGEST_GRAPH[source]
        if size > limit:
            return (f"differentiating the graph twice would take about {size / 1e6:.0f} million instructions, the limit is "
                    f"{limit / 1e6:.0f} million")
    return ""


def _graph_size(model: Model, what: Quantity) -> float:
    """Instructions of the algorithm differentiated twice in full, roughly: right on chains, some times too many on bushy trees."""
    ways: list[int] = []  # degrees of freedom from the root down to each body
    for i, body in enumerate(model.bodies):
        ways.append((ways[body.parent] if body.parent >= 0 else 0) + model.kind(i).nv)
    counts = [model.kind(i).nv for i in range(len(ways))]
    if what.inverse:
        return 630.0 * sum(n * d**2 for n, d in zip(counts, ways, strict=True))
    return 1000.0 * model.nv * sum(n * d for n, d in zip(counts, ways, strict=True))


# ------------------------------------------------------------------------------------------------ evaluation
class FixedMemory:
    """A Function whose inputs are read from ``arguments``, and entries of its outputs written to ``stored``, at every ``run``."""

    def __init__(self, function: ca.Function):
        self.buffer, self.run = function.buffer()
        self.arguments = [np.zeros(function.size1_in(k)) for k in range(function.n_in())]
        self.stored = [np.zeros(function.nnz_out(k)) for k in range(function.n_out())]
        for k, x in enumerate(self.arguments):
            self.buffer.set_arg(k, x.data)
        for k, y in enumerate(self.stored):
            self.buffer.set_res(k, y.data)


def interpreted(function: ca.Function) -> Evaluator:
    """A Function as a callable on NumPy vectors, by CasADi's interpreter on fixed memory: microseconds of overhead, where calling
    the Function itself costs tens of them. Inputs must be dense vectors; sparse outputs come back as dense arrays."""
    memory = FixedMemory(function)
    arguments, stored, buffer, run = memory.arguments, memory.stored, memory.buffer, memory.run
    shapes = [function.size_out(k) for k in range(function.n_out())]
    places = [tuple(np.array(i, int) for i in function.sparsity_out(k).get_triplet()) for k in range(function.n_out())]

    def evaluate(*arrays: Any) -> tuple[Array, ...]:
        if len(arrays) != len(arguments):
            names = ", ".join(function.name_in())
            raise ModelError(f"{function.name()} takes {len(arguments)} arguments ({names}), got {len(arrays)}")
        for k, (x, given) in enumerate(zip(arguments, arrays, strict=True)):
            if np.shape(given) != x.shape:
                raise ModelError(f"{function.name()}: {function.name_in(k)} has shape {np.shape(given)}, expected {x.shape}")
            x[:] = given
        run()
        if buffer.ret() != 0:
            raise ModelError(f"evaluation of {function.name()} failed with status {buffer.ret()}")
        out = []
        for y, shape, place in zip(stored, shapes, places, strict=True):
            full = np.zeros(shape, order="F")
            full[place] = y
            out.append(full.ravel() if shape[1] == 1 else full)
        return tuple(out)

    return evaluate


def constrained_mechanism(robot: ConstrainedModel) -> Mechanism:
    """The tree with its constraints alone."""
    return Mechanism(robot.model, (), constraints=robot.constraints)


def _loop(robot: ConstrainedModel, what: Quantity) -> Evaluator:
    from dynamics.loops import LoopDynamics  # Numba takes a second to load, which the symbolic methods need not wait for

    loops, n = LoopDynamics(constrained_mechanism(robot) if what.name in CONSTRAINED else robot.model), robot.model.nv

    def flat(tensor: Array) -> Array:
        return tensor.reshape(n, n * n, order="F")

    def full(blocks: Array) -> tuple[Array, ...]:
        """From [nv, 4, nv, nv], blocks qq, vq, vv, wq named (row, column)."""
        qq, vq, vv, wq = (blocks[:, k] for k in range(4))
        if what.inverse:
            return flat(qq), flat(vv), flat(vq.swapaxes(1, 2)), flat(wq)
        return flat(qq), flat(vq.swapaxes(1, 2)), flat(vv), flat(wq.swapaxes(1, 2))

    def contracted(blocks: Array) -> tuple[Array, ...]:
        return blocks[0], blocks[1].T, blocks[2], blocks[3].T

    def forward_second(q: Array, v: Array, tau: Array) -> tuple[Array, ...]:
        """The loops have no tensors of forward dynamics: its contractions with the unit vectors, one after the other."""
        return full(np.array([loops.forward_contracted_second_order(q, v, tau, mu)[2] for mu in np.eye(n)]).reshape(n, 4, n, n))

    by_name = {
        "forces": lambda *x: (loops.constrained_dynamics(*x)[1],),
        "inverse_dynamics": lambda *x: (loops.inverse_dynamics(*x),),
        "forward_dynamics": lambda *x: (loops.forward_dynamics(*x),),
        "inverse_first": lambda *x: tuple(loops.inverse_dynamics_derivatives(*x)),
        "forward_first": lambda *x: tuple(loops.forward_dynamics_derivatives(*x)[1]),
        "inverse_contracted": lambda *x: contracted(loops.contracted_second_order(*x)),
        "forward_contracted": lambda *x: contracted(loops.forward_contracted_second_order(*x)[2]),
        "inverse_second": lambda *x: full(loops.second_order(*x)),
        "forward_second": forward_second,
    }
    return by_name[what.name.replace("constrained", "forward")]
