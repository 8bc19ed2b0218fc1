"""A Model as flat arrays, for loops that serve every robot with one binary.

What is decided here once: bodies behind fixed joints are merged into their carriers; a universal joint becomes two revolute
joints with a massless body between; the frame of every body on a joint of one degree of freedom is turned so that the axis is
its z axis; subtrees, ancestors and the structural zeros of the tree become lists of (block, lane mask).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dynamics.algorithms import tree
from dynamics.errors import ModelError
from dynamics.loops import layout as at
from dynamics.loops.lanes import WIDTH
from dynamics.model.model import BodyInertia, Model, Placement
from dynamics.model.rigid import compose, inverse, merged, moved, placement, rotation_from_z

_MULTI = {"spherical": (at.SPHERICAL, 3), "planar": (at.PLANAR, 3), "free_flyer": (at.FREE, 6)}


@dataclass(frozen=True)
class Tables:
    """integers, reals: the flat arrays of ``layout``, read-only; nq, nv, columns: sizes (columns exceed nv by the number of
    mimic joints); work: length of a workspace; carriers: for each body of the model the index of the body of the tables that
    carries it (-1: the world) and its placement there."""

    integers: np.ndarray
    reals: np.ndarray
    nq: int
    nv: int
    columns: int
    work: int
    carriers: tuple[tuple[int, Placement], ...]
    first_columns: tuple[int, ...]

    def workspace(self) -> np.ndarray:
        """A zeroed workspace [work], on a cache-line boundary; one for each thread."""
        raw = np.zeros(self.work + WIDTH)
        skip = (-raw.ctypes.data // 8) % WIDTH
        return raw[skip:skip + self.work]


@dataclass
class _Link:
    """One body of the tables while they are being built."""

    parent: int
    kind: int
    columns: int
    q: int
    v: int
    placement: Placement
    inertias: list[BodyInertia]
    prismatic: bool = False
    multiplier: float = 1.0
    offset: float = 0.0


def make_tables(model: Model) -> Tables:
    """Flat arrays of a model. Raises ModelError for a joint kind that the loops do not know."""
    links, carriers = _links(model)
    firsts = np.concatenate([[0], np.cumsum([link.columns for link in links])]).astype(int)
    columns, blocks = int(firsts[-1]), -(-int(firsts[-1]) // WIDTH)
    reals = np.concatenate([np.zeros(_constants_at(model.nv)), np.zeros(blocks * at.CONSTANTS)])
    reals[at.AT_GRAVITY:at.AT_GRAVITY + 3] = model.gravity
    for which, start in (("armature", at.AT_ARMATURE), ("damping", at.AT_ARMATURE + model.nv)):
        reals[start:start + model.nv] = np.array(ca.densify(tree.diagonal(model, which))).ravel()
    _fill_constants(reals[_constants_at(model.nv):], links, firsts)

    header = np.zeros(at.HEADER, dtype=np.int64)
    bodies = [(address(int(firsts[i]), at.ROWS), -1 if link.parent < 0 else address(int(firsts[link.parent]), at.ROWS),
               link.kind, link.q, link.columns, int(firsts[i])) for i, link in enumerate(links)]
    per_column = [(address(int(firsts[i]) + c, at.ROWS), link.q if link.kind == at.ONE else -1, link.v + c)
                  for i, link in enumerate(links) for c in range(link.columns)]
    coupled = columns != model.nv
    lower, upper, above, active = _relations(links, firsts, model.nv if coupled else -1)
    multi = [i for i, link in enumerate(links) if link.kind != at.ONE]
    parts = [header, np.ravel(bodies), np.ravel(per_column), lower, upper, above, active, np.array(multi)]
    starts = np.concatenate([[0], np.cumsum([len(p) for p in parts])])
    integers = np.concatenate([np.asarray(p, dtype=np.int64) for p in parts])
    integers[at.N_BODIES:at.AT_BODIES] = len(links), columns, blocks, model.nv, coupled, len(multi)
    integers[at.AT_BODIES:at.SCRATCH] = starts[1:8]
    square, pairs = WIDTH * blocks * columns, int(above[model.nv])
    room = np.cumsum([blocks * at.ROWS, 4 * square, square, 3 * square, at.PANEL * model.nv + 2 * at.PANEL, pairs + WIDTH,
                      model.nv + WIDTH, model.nv + WIDTH])
    room = -(-room // WIDTH) * WIDTH
    integers[at.SCRATCH:at.AT_BIAS + 1] = room[:-1]
    for array in (integers, reals):
        array.setflags(write=False)
    work = int(room[-1])
    return Tables(integers, reals, model.nq, model.nv, columns, work, tuple(carriers), tuple(int(f) for f in firsts[:-1]))


def _constants_at(nv: int) -> int:
    return -(-(at.AT_ARMATURE + 2 * nv) // WIDTH) * WIDTH


def address(column: int, rows: int) -> int:
    """Flat index of row 0 of a column among records of ``rows`` numbers a block."""
    return column // WIDTH * rows + column % WIDTH


def _links(model: Model) -> tuple[list[_Link], list[tuple[int, Placement]]]:
    links: list[_Link] = []
    carriers: list[tuple[int, Placement]] = []
    for i, body in enumerate(model.bodies):
        joint, name = body.joint, body.joint.kind
        above, inside = carriers[body.parent] if body.parent >= 0 else (-1, Placement())
        place = compose(inside, joint.placement)
        q, v = model.q_slice(i).start, model.v_slice(i).start
        if name == "fixed":
            carriers.append((above, place))
            if above >= 0:
                links[above].inertias.append(moved(place, body.inertia))
            continue
        turned = Placement()
        if name in ("revolute", "continuous", "prismatic"):
            turned = placement(rotation_from_z(joint.axes[0]))
            scale = (joint.mimic.multiplier, joint.mimic.offset) if joint.mimic else (1.0, 0.0)
            links.append(_Link(above, at.ONE, 1, q, v, compose(place, turned), [], name == "prismatic", *scale))
        elif name == "universal":
            first, turned = (placement(rotation_from_z(axis)) for axis in joint.axes)
            links.append(_Link(above, at.ONE, 1, q, v, compose(place, first), []))
            links.append(_Link(len(links) - 1, at.ONE, 1, q + 1, v + 1, compose(inverse(first), turned), []))
        elif name in _MULTI:
            kind, columns = _MULTI[name]
            links.append(_Link(above, kind, columns, q, v, place, []))
        else:
            raise ModelError(f"the loops do not know joint kind {name!r}; use a symbolic execution",
                             element=f"joint {joint.name!r}")
        carriers.append((len(links) - 1, inverse(turned)))  # the model's body frame inside the turned one
        links[-1].inertias.append(moved(inverse(turned), body.inertia))
    return links, carriers


def _fill_constants(constants: np.ndarray, links: list[_Link], firsts: np.ndarray) -> None:
    total = np.zeros(len(links))
    for i, link in enumerate(links):
        inertia = merged(link.inertias) if link.inertias else BodyInertia()
        total[i] = inertia.mass
        com, about_com = np.asarray(inertia.com), np.asarray(inertia.inertia)
        second = np.trace(about_com) / 2 * np.eye(3) - about_com + inertia.mass * np.outer(com, com)
        values: dict[int, Any] = {
            at.K_R: np.asarray(link.placement.rotation).T.ravel(), at.K_P: np.asarray(link.placement.position),
            at.K_REVOLUTE: [float(link.kind == at.ONE and not link.prismatic)], at.K_PRISMATIC: [float(link.prismatic)],
            at.K_M: [inertia.mass], at.K_H: inertia.mass * com,
            at.K_S: [second[0, 0], second[1, 1], second[2, 2], second[0, 1], second[0, 2], second[1, 2]],
            at.K_MULTIPLIER: [link.multiplier], at.K_OFFSET: [link.offset]}
        for row, numbers in values.items():
            for k, x in enumerate(numbers):
                constants[address(int(firsts[i]), at.CONSTANTS) + row + WIDTH * k] = x
    for i in reversed(range(len(links))):
        if links[i].parent >= 0:
            total[links[i].parent] += total[i]
        for c in range(links[i].columns):
            constants[address(int(firsts[i]) + c, at.CONSTANTS) + at.K_TOTAL] = total[i]


def _relations(links: list[_Link], firsts: np.ndarray, dense: int) -> list[np.ndarray]:
    """Lists per row: blocks and masks of ancestors with the own joint, of strict descendants; then the ancestors of a
    velocity, nearest first, for the factorisation (every earlier one when ``dense`` >= 0 velocities couple), and what a solve
    has to visit."""
    columns = int(firsts[-1])
    body = [i for i, link in enumerate(links) for _ in range(link.columns)]
    paths: list[set[int]] = []
    for i, link in enumerate(links):
        paths.append({i} | (paths[link.parent] if link.parent >= 0 else set()))
    lower = [[k for k in range(columns) if body[k] in paths[body[r]]] for r in range(columns)]
    upper = [[k for k in range(columns) if body[r] in paths[body[k]] and body[k] != body[r]] for r in range(columns)]
    above = [list(range(r - 1, -1, -1)) for r in range(dense)] if dense >= 0 else \
        [[k for k in reversed(lower[r]) if k < r] for r in range(columns)]
    return [_masked(lower), _masked(upper), _listed(above), _visits(above)]


def _visits(above: list[list[int]]) -> np.ndarray:
    """For each sixteen columns of the right-hand sides what the first half of a solve touches: rows that stay zero (count,
    rows), then rows from the last to the first (count; row, count, pairs of descendant and number of its entry of L)."""
    n = len(above)
    number = {(i, j): k for k, (i, j) in enumerate((i, j) for i in range(n) for j in above[i])}
    below: list[list[int]] = [[i for i in range(n) if j in above[i]] for j in range(n)]
    groups: list[list[int]] = []
    for first in range(0, n, 2 * WIDTH):
        mine = range(first, min(first + 2 * WIDTH, n))
        touched = {r for c in mine for r in (c, *above[c], *below[c])}
        record = [n - len(touched), *(r for r in range(n) if r not in touched), len(touched)]
        for j in sorted(touched, reverse=True):
            visited = [i for i in below[j] if i in touched]
            record += [j, len(visited), *(x for i in visited for x in (i, number[i, j]))]
        groups.append(record)
    starts = np.concatenate([[0], np.cumsum([len(g) for g in groups])])
    return np.concatenate([starts, np.array([x for g in groups for x in g], dtype=np.int64)]).astype(np.int64)


def _masked(rows: list[list[int]]) -> np.ndarray:
    """[start of row 0, ..., end] then pairs (block, mask); starts count pairs."""
    pairs = [sorted({k // WIDTH for k in row}) for row in rows]
    starts = np.concatenate([[0], np.cumsum([len(p) for p in pairs])])
    flat = [x for row, blocks in zip(rows, pairs, strict=True) for b in blocks
            for x in (b, sum(1 << (k % WIDTH) for k in row if k // WIDTH == b))]
    return np.concatenate([starts, np.array(flat, dtype=np.int64)]).astype(np.int64)


def _listed(rows: list[list[int]]) -> np.ndarray:
    starts = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    return np.concatenate([starts, np.array([k for row in rows for k in row], dtype=np.int64)]).astype(np.int64)
