"""States of a robot in the order and coordinates of Pinocchio, MuJoCo, Drake and kindr, and back, without loss.

What differs is in the table of ``dynamics.notation.libraries``; the rest follows: ``v' = V v`` with V orthogonal, ``a' = V a +
dV/dt v``, ``tau' = V tau``. Numbers in, numbers out; CasADi in, CasADi out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.errors import ModelError, UnknownNameError
from dynamics.model.model import Model
from dynamics.notation import libraries
from dynamics.notation.libraries import Encoding
from dynamics.notation.representation import as_pose
from dynamics.spatial import Transform

Expr = Any
CONSISTENT = 1e-8  # largest disagreement (rad or m) of a follower with its leader that counts as rounding


class State(NamedTuple):
    """Configuration q, velocity v, acceleration a (derivative of v), generalised force tau; None where not given."""

    q: Any = None
    v: Any = None
    a: Any = None
    tau: Any = None


# ------------------------------------------------------------------------------------------------ order and layout
def joint_order(model: Model, library: str, order: Sequence[str] | None = None) -> tuple[int, ...]:
    """Indices of the bodies in the order in which the library lists their joints.

    order: joint names in the library's order when known (Pinocchio: ``names[1:]``); names that the model does not have, or
    moving joints left out, are errors. Default: the library's own rule applied to our tree. Fixed joints carry no coordinate.
    """
    lib = libraries.library(library)
    if order is not None:
        known = [b.joint.name for b in model.bodies]
        for name in order:
            if name not in known:
                raise UnknownNameError("joint", name, known)
        missing = [b.joint.name for i, b in enumerate(model.bodies)
                   if b.joint.name not in order and model.kind(i).nv and (lib.followers or b.joint.mimic is None)]
        if missing or len(set(order)) != len(order):
            raise ModelError(f"the joint order must name every moving joint once; missing {missing}, given {list(order)}")
        return tuple(known.index(name) for name in order)
    if lib.order == "as_is":
        return tuple(range(len(model.bodies)))
    out: list[int] = []

    def visit(i: int) -> None:
        if i >= 0:
            out.append(i)
        below = model.children(i)
        for j in sorted(below, key=lambda k: model.bodies[k].joint.name) if lib.order == "name" else below:
            visit(j)

    visit(-1)
    return tuple(out)


class _Piece(NamedTuple):
    body: int
    encoding: Encoding
    frame: Transform
    q: slice  # in the library's vectors
    v: slice


class Layout(NamedTuple):
    """Pieces of a state in the order of a library, and its numbers of coordinates and velocities."""

    pieces: list[_Piece]
    nq: int
    nv: int


def _layout(model: Model, library: str, order: Sequence[str] | None, bounded: bool) -> Layout:
    lib, pieces, nq, nv = libraries.library(library), [], 0, 0
    for i in joint_order(model, library, order):
        body, kind = model.bodies[i], model.kind(i)
        if kind.nv == 0 or (body.joint.mimic is not None and not lib.followers):
            continue
        if kind.name == "free_flyer" and body.parent >= 0 and not lib.inner_free:
            raise ModelError(f"{library} has free joints at the world only", element=f"joint {body.joint.name!r}")
        encoding = lib.encodings.get(kind.name)
        if encoding is None or (bounded and kind.name == "continuous"):
            encoding = Encoding(kind.nq, lambda F, q: q, lambda F, x: x)
        # a free-flyer at the root is measured from the world, others from the joint frame
        at_world = kind.name == "free_flyer" and body.parent < 0
        frame = tree.placement_transform(body.joint.placement) if at_world else spatial.identity()
        pieces.append(_Piece(i, encoding, frame, slice(nq, nq + encoding.stored), slice(nv, nv + kind.nv)))
        nq, nv = nq + encoding.stored, nv + kind.nv
    return Layout(pieces, nq, nv)


def sizes(model: Model, library: str, *, order: Sequence[str] | None = None, bounded: bool = False) -> tuple[int, int]:
    """(nq, nv) of the robot in that library."""
    return _layout(model, library, order, bounded)[1:]


def coordinate_names(model: Model, library: str, *, order: Sequence[str] | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the components of the library's q and v: the joint, and the component where it has several; ours for components
    that are stored as ours are, else numbers."""
    found: tuple[list[str], list[str]] = [], []
    for piece in _layout(model, library, order, False)[0]:
        joint, kind = model.bodies[piece.body].joint.name, model.kind(piece.body)
        for out, own, count in ((found[0], kind.q_names, piece.encoding.stored), (found[1], kind.v_names, kind.nv)):
            parts = own if len(own) == count else [str(k) for k in range(count)]
            out += [joint] if count == 1 else [f"{joint}.{part}" for part in parts]
    return tuple(found[0]), tuple(found[1])


# ------------------------------------------------------------------------------------------------ conversion
def to_library(model: Model, library: str, *, q: Any = None, v: Any = None, a: Any = None, tau: Any = None,
               order: Sequence[str] | None = None, bounded: bool = False) -> State:
    """Our state in the library's coordinates.

    q: [nq]; v, a, tau: [nv]. v and tau need q, a needs q and v (for libraries whose velocities are ours they may come
    alone). bounded: Pinocchio models whose continuous joints were made as plain revolute ones. Forces of a leader with
    followers of their own coordinates all go to the leader. Raises ModelError.
    """
    pieces, nq, nv = _layout(model, library, order, bounded)
    mine = _checked(model, "", (q, model.nq), (v, model.nv), (a, model.nv), (tau, model.nv))
    _require(pieces, mine)
    out: list[list[tuple[slice, Expr]]] = [[], [], [], []]
    for piece in pieces:
        i = piece.body
        own_q = None if mine.q is None else tree.joint_configuration(model, i, mine.q)
        own_v = None if mine.v is None else tree.joint_velocity(model, i, mine.v)
        own_a = None if mine.a is None else tree.joint_velocity(model, i, mine.a)
        V = _map(piece, own_q)
        if own_q is not None:
            out[0].append((piece.q, piece.encoding.forward(piece.frame, own_q)))
        if own_v is not None:
            out[1].append((piece.v, V @ own_v))
        if own_a is not None:
            out[2].append((piece.v, V @ own_a + _drift(piece, own_q, own_v)))
        if mine.tau is not None and model.bodies[i].joint.mimic is None:
            out[3].append((piece.v, V @ mine.tau[model.v_slice(i)]))
    return _collect(mine, out, (nq, nv, nv, nv), _symbolic(q, v, a, tau))


def from_library(model: Model, library: str, *, q: Any = None, v: Any = None, a: Any = None, tau: Any = None,
                 order: Sequence[str] | None = None, bounded: bool = False, near_to: Any = None) -> State:
    """The inverse of :func:`to_library`.

    near_to: our configuration [nq] whose number of turns the angles take that the library stores without turns; default:
    within (-pi, pi]. Followers must agree with their leaders (checked for numbers, ModelError otherwise); their generalised
    forces reach the leader with the multiplier.
    """
    pieces, nq, nv = _layout(model, library, order, bounded)
    theirs = _checked(model, f" in {library}", (q, nq), (v, nv), (a, nv), (tau, nv))
    _require(pieces, theirs)
    reference = None if near_to is None else tree.as_column(near_to)
    out: list[list[tuple[slice, Expr]]] = [[], [], [], []]
    shared: dict[int, Expr] = {}
    leaders = [p for p in pieces if model.bodies[p.body].joint.mimic is None]
    for piece in leaders:
        i, qs, vs = piece.body, model.q_slice(piece.body), model.v_slice(piece.body)
        own_q = None if theirs.q is None else piece.encoding.backward(piece.frame, theirs.q[piece.q])
        if own_q is not None and reference is not None and piece.encoding.stored != model.kind(i).nq:
            own_q = _same_turn(own_q, reference[qs], model.kind(i).angular)
        V = _map(piece, own_q)
        own_v = None if theirs.v is None else V.T @ theirs.v[piece.v]
        if own_q is not None:
            out[0].append((qs, own_q))
        if own_v is not None:
            out[1].append((vs, own_v))
        if theirs.a is not None:
            out[2].append((vs, V.T @ (theirs.a[piece.v] - _drift(piece, own_q, own_v))))
        if theirs.tau is not None:
            shared[vs.start] = V.T @ theirs.tau[piece.v]
    for piece in pieces:
        mimic = model.bodies[piece.body].joint.mimic
        if mimic is not None and theirs.tau is not None:
            start = model.v_slice(piece.body).start
            shared[start] = shared[start] + mimic.multiplier * theirs.tau[piece.v]
    out[3] = [(slice(start, start + x.shape[0]), x) for start, x in shared.items()]
    state = _collect(theirs, out, (model.nq, model.nv, model.nv, model.nv), _symbolic(q, v, a, tau))
    _check_followers(model, pieces, state, theirs)
    return state


def to_pinocchio(model: Model, **state: Any) -> State:
    """:func:`to_library` for Pinocchio."""
    return to_library(model, "pinocchio", **state)


def from_pinocchio(model: Model, **state: Any) -> State:
    """:func:`from_library` for Pinocchio."""
    return from_library(model, "pinocchio", **state)


def to_mujoco(model: Model, **state: Any) -> State:
    """:func:`to_library` for MuJoCo: qpos, qvel, qacc, qfrc."""
    return to_library(model, "mujoco", **state)


def from_mujoco(model: Model, **state: Any) -> State:
    """:func:`from_library` for MuJoCo."""
    return from_library(model, "mujoco", **state)


def to_drake(model: Model, **state: Any) -> State:
    """:func:`to_library` for Drake's MultibodyPlant. Ball joints lose nothing away from pitch = +-pi/2."""
    return to_library(model, "drake", **state)


def from_drake(model: Model, **state: Any) -> State:
    """:func:`from_library` for Drake."""
    return from_library(model, "drake", **state)


def to_kindr(model: Model, **state: Any) -> State:
    """:func:`to_library` for kindr: q = [I_r_IB; q_IB; phi], u = [I_v_B; B_w_IB; phi']."""
    return to_library(model, "kindr", **state)


def from_kindr(model: Model, **state: Any) -> State:
    """:func:`from_library` for kindr."""
    return from_library(model, "kindr", **state)


def to_mujoco_wrench(W_H_B: Any, B_f: Expr, B_com: Expr) -> Expr:
    """MuJoCo's ``xfrc_applied`` [6] of a wrench ``B_f`` on a body: [force; moment about the centre of mass], world axes.

    B_com: centre of mass of MuJoCo's body [3] (m) in B.
    """
    R = as_pose(W_H_B).R
    at_com = spatial.force_to_child(Transform(ca.DM.eye(3), tree.as_column(B_com)), tree.as_column(B_f))
    return spatial.force(R @ spatial.linear(at_com), R @ spatial.angular(at_com))


# ------------------------------------------------------------------------------------------------ pieces of it
def _map(piece: _Piece, q: Expr | None) -> Expr:
    if piece.encoding.velocity is None or q is None:
        return ca.DM.eye(piece.v.stop - piece.v.start)
    return ca.densify(piece.encoding.velocity(piece.frame, q))


def _drift(piece: _Piece, q: Expr | None, v: Expr | None) -> Expr:
    if piece.encoding.velocity_rate is None or q is None or v is None:
        return ca.DM(piece.v.stop - piece.v.start, 1)
    return piece.encoding.velocity_rate(piece.frame, q, v) @ v


def _same_turn(angle: Expr, reference: Expr, angular: tuple[bool, ...]) -> Expr:
    """Add whole turns to the angles of a joint until they are next to the reference."""
    parts = []
    for k in range(angle.shape[0]):
        turns = ca.floor((reference[k] - angle[k]) / (2 * np.pi) + 0.5) if angular[k] else 0.0
        parts.append(angle[k] + 2 * np.pi * turns)
    return ca.vertcat(*parts)


def _symbolic(*values: Any) -> bool:
    return any(isinstance(x, ca.SX | ca.MX | ca.DM) for x in values)


def _checked(model: Model, where: str, *values: tuple[Any, int]) -> State:
    columns = [None if x is None else tree.as_column(x) for x, _ in values]
    for name, column, (_, size) in zip(State._fields, columns, values, strict=True):
        if column is not None and column.shape != (size, 1):
            raise ModelError(f"{name}{where} has shape {tuple(column.shape)}, expected ({size}, 1)",
                             element=f"model {model.name!r}")
    return State(*columns)


def _require(pieces: list[_Piece], given: State) -> None:
    if any(p.encoding.velocity is not None for p in pieces):
        if given.q is None and (given.v is not None or given.a is not None or given.tau is not None):
            raise ModelError("v, a and tau change with the configuration here: q is needed too")
        if given.a is not None and given.v is None:
            raise ModelError("a changes with the velocity here (d/dt of moving axes): v is needed too")


def _collect(given: State, parts: list[list[tuple[slice, Expr]]], lengths: tuple[int, ...], symbolic: bool) -> State:
    values: list[Any] = []
    for one, pieces, length in zip(given, parts, lengths, strict=True):
        if one is None:
            values.append(None)
            continue
        column = ca.densify(tree.zeros(length, 1, *given, *(x for _, x in pieces)))
        for where, x in pieces:
            column[where] = x
        values.append(column if symbolic else np.array(column).ravel())
    return State(*values)


def _check_followers(model: Model, pieces: list[_Piece], ours: State, theirs: State) -> None:
    for field, value in (("q", theirs.q), ("v", theirs.v), ("a", theirs.a)):
        mine = getattr(ours, field)
        if value is None or not isinstance(value, ca.DM):
            continue
        for piece in pieces:
            mimic = model.bodies[piece.body].joint.mimic
            if mimic is None:
                continue
            read = tree.joint_configuration if field == "q" else tree.joint_velocity
            expected = float(read(model, piece.body, tree.as_column(mine)))
            found = float(value[piece.q if field == "q" else piece.v])
            if abs(expected - found) > CONSISTENT:
                raise ModelError(f"{field} = {found:.9g} contradicts joint {mimic.leader!r}, which asks for {expected:.9g}",
                                 element=f"joint {model.bodies[piece.body].joint.name!r}")
