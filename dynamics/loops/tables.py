"""A Model as flat arrays, for loops that serve every robot with one binary.

The links are those of ``dynamics.algorithms.reduced_tree``. What is decided here once: the frame of every body on a joint of one
degree of freedom is turned so that the axis is its z axis; subtrees, ancestors and the structural zeros of the tree become lists
of (block, lane mask).
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.algorithms import tree
from dynamics.algorithms.reduced_tree import Link, ReducedTree, reduced_tree
from dynamics.kernels import Workspace, workspace
from dynamics.loops import acting, hooks, ties
from dynamics.loops import layout as at
from dynamics.loops.dense import padded
from dynamics.loops.lanes import WIDTH
from dynamics.loops.ties import MOTION
from dynamics.mechanism import Mechanism
from dynamics.model.model import BodyInertia, Model, Placement
from dynamics.model.rigid import compose, inverse, moved, placement, rotation_from_z

_GROUPS = {"line": at.ONE, "spherical": at.SPHERICAL, "planar": at.PLANAR, "free": at.FREE, "": at.GENERIC}


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


@dataclass(frozen=True)
class _Body:
    """One body of the tables: a link of the reduced tree in the frame that the loops use, turned against the link's own."""

    link: Link
    kind: int
    columns: int
    placement: Placement
    turned: Placement
    inertia: BodyInertia
    revolute: float
    prismatic: float

    @property
    def parent(self) -> int:
        return self.link.parent


def make_tables(robot: Model | Mechanism) -> Tables:
    """Flat arrays of a model, or of a mechanism with its forces, thrusters and constraints; motors are not in them."""
    model = robot.model if isinstance(robot, Mechanism) else robot
    reduced = reduced_tree(model)
    links = _bodies(reduced)
    carriers = [(i, place if i < 0 else compose(inverse(links[i].turned), place)) for i, place in reduced.where]
    firsts = np.concatenate([[0], np.cumsum([link.columns for link in links])]).astype(int)
    columns, blocks = int(firsts[-1]), -(-int(firsts[-1]) // WIDTH)
    reals = np.concatenate([np.zeros(_constants_at(model.nv)), np.zeros(blocks * at.CONSTANTS)])
    reals[at.AT_GRAVITY:at.AT_GRAVITY + 3] = model.gravity
    for which, start in (("armature", at.AT_ARMATURE), ("damping", at.AT_ARMATURE + model.nv)):
        reals[start:start + model.nv] = np.array(ca.densify(tree.diagonal(model, which))).ravel()
    _fill_constants(reals[_constants_at(model.nv):], links, firsts)

    header = np.zeros(at.HEADER, dtype=np.int64)
    bodies = [[address(int(firsts[i]), at.ROWS), -1 if link.parent < 0 else address(int(firsts[link.parent]), at.ROWS),
               link.kind, link.link.q.start, link.columns, int(firsts[i])] for i, link in enumerate(links)]
    # general links have columns without a velocity of their own: coordinate and velocity are any, with multiplier zero
    per_column = [(address(int(firsts[i]) + c, at.ROWS), link.link.q.start if link.kind in (at.ONE, at.GENERIC) else -1,
                   link.link.v.start + (0 if link.kind == at.GENERIC else c))
                  for i, link in enumerate(links) for c in range(link.columns)]
    coupled = columns != model.nv or bool(reduced.moving)
    acted = isinstance(robot, Mechanism) and acting.acts(robot)
    lower, upper, above, active = _relations(links, firsts, model.nv if coupled else -1, acted)
    multi = [i for i, link in enumerate(links) if link.kind != at.ONE]
    square, pairs = WIDTH * blocks * columns, int(above[model.nv])
    room = np.cumsum([blocks * at.ROWS, (7 if reduced.moving else 4) * square, square, 3 * square,
                      at.PANEL * model.nv + 2 * at.PANEL, pairs + WIDTH, model.nv + WIDTH, model.nv + WIDTH, columns + WIDTH])
    room = -(-room // WIDTH) * WIDTH
    work, general, functions, spaces = _general(reduced, model.nq, firsts, bodies, int(room[-1]))
    work, acts, behind, made, more = _acting(robot, work, not coupled)
    parents = [link.parent for link in links]
    frames, relations, placements = ties.records(model, made.relations, carriers, bodies, parents, len(reals), behind)
    reals = np.concatenate([reals, placements])
    parts = [np.ravel(np.asarray(p, dtype=np.int64)) for p in (header, bodies, per_column, lower, upper, above, active, multi,
                                                                general, functions, acts, frames, relations)]
    starts = np.concatenate([[0], np.cumsum([len(p) for p in parts])])
    integers = np.concatenate(parts)
    integers[at.N_BODIES:at.AT_BODIES] = len(links), columns, blocks, model.nv, coupled, len(multi)
    integers[at.AT_BODIES:at.SCRATCH] = starts[1:8]
    integers[at.SCRATCH:at.AT_ROWS + 1] = room[:-1]
    integers[at.N_GENERAL:at.AT_HOOKS + 1] = len(reduced.moving), starts[8], starts[9]
    integers[at.AT_ACTING:at.N_ROWS + 1] = starts[10] if acts else 0, made.rows
    if acts:
        integers[starts[10] + at.AT_FRAMES], integers[starts[10] + at.AT_TIES] = starts[11:13]
    if spaces or more:
        weakref.finalize(integers, _keep_alive,
                         [*spaces, *more])  # the functions live as long as the table that holds their addresses
    for array in (integers, reals):
        array.setflags(write=False)
    return Tables(integers, reals, model.nq, model.nv, columns, work, tuple(carriers), tuple(int(f) for f in firsts[:-1]))


def _constants_at(nv: int) -> int:
    return -(-(at.AT_ARMATURE + 2 * nv) // WIDTH) * WIDTH


def address(column: int, rows: int) -> int:
    """Flat index of row 0 of a column among records of ``rows`` numbers a block."""
    return column // WIDTH * rows + column % WIDTH


def _bodies(reduced: ReducedTree) -> list[_Body]:
    out: list[_Body] = []
    for link in reduced.links:
        turned, revolute, along = Placement(), 0.0, 0.0
        if link.kind.group == "line":
            S = np.array(ca.densify(link.subspace)).ravel()
            axis = S[3:] if S[3:].any() else S[:3]
            # a rotation may come with a translation along its axis: a screw
            revolute, along = float(S[3:].any()), float(S[:3] @ axis)
            turned = placement(rotation_from_z(axis))
        above = inverse(out[link.parent].turned) if link.parent >= 0 else Placement()
        place, inertia = compose(compose(above, link.placement), turned), link.inertia
        if turned != Placement():
            inertia = moved(inverse(turned), inertia)
        out.append(_Body(link, _GROUPS[link.kind.group], link.columns.stop - link.columns.start, place, turned, inertia,
                         revolute, along))
    return out


def _keep_alive(_: list[Workspace]) -> None:
    """Nothing: a finaliser holds on to its arguments."""


class GeneralLinks(NamedTuple):
    """Length of a workspace that includes theirs; their records, those of their functions, and what must outlive the table."""

    length: int
    records: list[int]
    functions: list[int]
    spaces: list[Workspace]


def _general(reduced: ReducedTree, nq: int, firsts: np.ndarray, bodies: list[list[int]], start: int
             ) -> GeneralLinks:
    """Length of a workspace with that of general links, which begins at ``start``; their records, those of their functions, and
    what must outlive the table. Their poses become the coordinates of the bodies."""
    if not reduced.moving:
        return GeneralLinks(start, [], [], [])
    kernels = hooks.compiled(reduced, nq)
    spaces = [workspace(kernel) for kernel in kernels]
    inputs = np.concatenate([[0], np.cumsum([nq, *[reduced.nv] * 3, hooks.WEIGHTS * len(reduced.moving)])]) + start
    results = [int(inputs[-1])]
    records: list[list[int]] = [[int(firsts[reduced.links.index(x)]), x.v.start, x.kind.nv] for x in reduced.moving]
    for which in range(4):
        end = results[-1]
        for link, record in zip(reduced.moving, records, strict=True):
            record.append(end)
            end += hooks.sizes(link)[which]
        results.append(end)
    for link, record in zip(reduced.moving, records, strict=True):
        bodies[reduced.links.index(link)][at.FIRST_Q] = record[3 + hooks.POSE]
    sizes = [max(len(getattr(s, name)) for s in spaces) for name in ("arg", "res", "iw", "w")]
    memory = np.cumsum([-(-x // WIDTH) * WIDTH for x in (results[-1], *sizes)])
    functions = [x for space, to in zip(spaces, results[:-1], strict=True) for x in (space.address, space.handle, to)]
    functions += [*inputs[:-1].tolist(), *memory[:-1].tolist()]
    return GeneralLinks(int(memory[-1]), [x for r in records for x in r], functions, spaces)


class ActingParts(NamedTuple):
    """Length of a workspace with theirs; their record; where results behind those by coordinates begin; what acts; what must
    outlive the table."""

    length: int
    record: list[int]
    behind: list[int]
    made: acting.Acting
    spaces: list[Workspace]


def _acting(robot: Model | Mechanism, start: int, by_frames: bool) -> ActingParts:
    """Forces and constraints on the tree, with their workspace from ``start`` on; empty without any."""
    if not (isinstance(robot, Mechanism) and acting.acts(robot)):
        return ActingParts(start, [], [], acting.Acting((), 0, False, ()), [])
    made = acting.compiled(robot, by_frames)
    spaces, nq, nv = [workspace(kernel) for kernel in made.kernels], robot.model.nq, robot.model.nv
    thrusters, rows, frames = len(robot.thrusters), made.rows, sum(len(tie.moving) for tie in made.relations)
    wide, across, size = padded(nv), padded(rows), max((tie.size for tie in made.relations), default=0)
    behind = acting.sizes(nv, rows, thrusters) if made.whole else acting.Sizes(0, 0, 0)
    needed = [*(kernel.output_shapes[0][0] for kernel in made.kernels), nq, nv, nv, rows, nv, rows, 1 + thrusters,
              MOTION * frames, *(max(len(getattr(s, name)) for s in spaces) for name in ("arg", "res", "iw", "w")),
              rows * wide, nv * across, rows * across, rows**2, 3 * rows * wide, 3 * nv * wide, 3 * rows * wide, 3 * rows * wide,
              12 * frames, 5 * 6 * frames * wide, 4 * nv * wide, rows * wide, 3 * size * wide]
    places = (np.concatenate([[0], np.cumsum([padded(x) for x in needed])]) + start).tolist()
    functions = [x for space, to in zip(spaces, places, strict=False) for x in (space.address, space.handle, to)]
    # the tables of frames and relations come behind the record
    record = [*functions, *places[3:23], int(made.whole), frames, 0, len(made.relations), 0, *places[23:28]]
    return ActingParts(places[-1], record, list(behind), made, spaces)


def _fill_constants(constants: np.ndarray, links: list[_Body], firsts: np.ndarray) -> None:
    total = np.zeros(len(links))
    for i, link in enumerate(links):
        inertia = link.inertia
        total[i] = inertia.mass
        com, about_com = np.asarray(inertia.com), np.asarray(inertia.inertia)
        second = np.trace(about_com) / 2 * np.eye(3) - about_com + inertia.mass * np.outer(com, com)
        values: dict[int, Any] = {
            at.K_R: np.asarray(link.placement.rotation).T.ravel(), at.K_P: np.asarray(link.placement.position),
            at.K_REVOLUTE: [link.revolute], at.K_PRISMATIC: [link.prismatic],
            at.K_M: [inertia.mass], at.K_H: inertia.mass * com,
            at.K_S: [second[0, 0], second[1, 1], second[2, 2], second[0, 1], second[0, 2], second[1, 2]],
            at.K_MULTIPLIER: [0.0 if link.kind == at.GENERIC else link.link.multiplier], at.K_OFFSET: [link.link.offset]}
        for row, numbers in values.items():
            for k, x in enumerate(numbers):
                constants[address(int(firsts[i]), at.CONSTANTS) + row + WIDTH * k] = x
    for i in reversed(range(len(links))):
        if links[i].parent >= 0:
            total[links[i].parent] += total[i]
        for c in range(links[i].columns):
            constants[address(int(firsts[i]) + c, at.CONSTANTS) + at.K_TOTAL] = total[i]


def _relations(links: list[_Body], firsts: np.ndarray, dense: int, acted: bool) -> list[np.ndarray]:
    """Lists per row: blocks and masks of ancestors with the own joint, of strict descendants; then the ancestors of a
    velocity, nearest first, for the factorisation (every earlier one when ``dense`` >= 0 velocities couple), and what a solve
    has to visit: all where forces may fill its right-hand sides (``acted``)."""
    columns = int(firsts[-1])
    body = [i for i, link in enumerate(links) for _ in range(link.columns)]
    paths: list[set[int]] = []
    for i, link in enumerate(links):
        paths.append({i} | (paths[link.parent] if link.parent >= 0 else set()))
    lower = [[k for k in range(columns) if body[k] in paths[body[r]]] for r in range(columns)]
    upper = [[k for k in range(columns) if body[r] in paths[body[k]] and body[k] != body[r]] for r in range(columns)]
    above = [list(range(r - 1, -1, -1)) for r in range(dense)] if dense >= 0 else \
        [[k for k in reversed(lower[r]) if k < r] for r in range(columns)]
    return [_masked(lower), _masked(upper), _listed(above), _visits(above, acted)]


def _visits(above: list[list[int]], acted: bool) -> np.ndarray:
    """For each sixteen columns of the right-hand sides what the first half of a solve touches: rows that stay zero (count,
    rows), then rows from the last to the first (count; row, count, pairs of descendant and number of its entry of L)."""
    n = len(above)
    number = {(i, j): k for k, (i, j) in enumerate((i, j) for i in range(n) for j in above[i])}
    below: list[list[int]] = [[i for i in range(n) if j in above[i]] for j in range(n)]
    groups: list[list[int]] = []
    for first in range(0, n, 2 * WIDTH):
        mine = range(first, min(first + 2 * WIDTH, n))
        touched = set(range(n)) if acted else {r for c in mine for r in (c, *above[c], *below[c])}
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
