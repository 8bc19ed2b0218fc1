"""Meshes of robots, thin enough to be drawn and stored in a report."""

from __future__ import annotations

import logging
from functools import lru_cache
from pathlib import Path

import numpy as np

FINEST, COARSEST = 256, 2  # cells along the longest side of a mesh that is thinned
LARGEST = 200e6  # bytes of a file that is still read
FARTHEST = 1e50  # m; squares and volumes of such points are numbers


class UnreadableMesh(Exception):
    """A mesh that cannot be drawn, and why."""


def read_mesh(path: str | None, scale: tuple[float, ...], most: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [n, 3] (m) and triangles [k, 3], k at most about ``most``, of an STL, OBJ, PLY, COLLADA or glTF file.

    path: None of a mesh that a model describes without a file; scale: of x, y and z, or empty. Raises UnreadableMesh.
    """
    if path is None:
        raise UnreadableMesh("has no file")
    place = Path(path)
    try:
        stamp = place.stat()
    except (OSError, ValueError):
        raise UnreadableMesh("does not exist") from None
    if stamp.st_size > LARGEST:
        raise UnreadableMesh(f"is larger than {LARGEST / 1e6:.0f} MB")
    return _read(path, stamp.st_mtime_ns, tuple(scale), most)


@lru_cache(maxsize=256)
def _read(path: str, _: int, scale: tuple[float, ...], most: int) -> tuple[np.ndarray, np.ndarray]:
    vertices, faces = whole_mesh(path)
    scaled = vertices * (np.asarray(scale) if scale else 1.0)
    if not np.abs(scaled).max() <= FARTHEST:
        raise UnreadableMesh("overflows when scaled")
    return thinned(scaled, faces, most)


def whole_mesh(path: str) -> tuple[np.ndarray, np.ndarray]:
    """All vertices [n, 3] and triangles [k, 3] of such a file, corners that meet as one vertex. Raises UnreadableMesh."""
    import trimesh

    logging.getLogger("trimesh").setLevel(logging.CRITICAL)
    try:
        with np.errstate(all="ignore"):  # points beyond all numbers are refused below
            found = trimesh.load(path, force="mesh", skip_materials=True)
        vertices, faces = np.asarray(found.vertices, float), np.asarray(found.faces, int)
    except Exception as error:  # whatever readers of a dozen formats raise
        raise UnreadableMesh(f"cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from None
    if not faces.size or faces.ndim != 2 or faces.shape[1] != 3 or vertices.ndim != 2 or vertices.shape[1] != 3:
        raise UnreadableMesh("holds no triangles")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise UnreadableMesh(f"has a triangle with corner {_stray(faces, len(vertices))}, of {len(vertices)} corners")
    if not np.abs(vertices).max() <= FARTHEST:
        raise UnreadableMesh("holds points that are not finite, or too far away")
    return vertices, faces


def _stray(faces: np.ndarray, count: int) -> int:
    """The first corner that there is not."""
    return int(faces[(faces < 0) | (faces >= count)][0])


def thinned(vertices: np.ndarray, faces: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The mesh with vertices merged by the cells of a grid, as fine as leaves at most ``most`` triangles."""
    low, high = COARSEST, FINEST
    best = _merged(vertices, faces, FINEST)
    if len(best[1]) <= most:
        return best
    best = _merged(vertices, faces, COARSEST)
    while high - low > 1:
        middle = (low + high) // 2
        found = _merged(vertices, faces, middle)
        if len(found[1]) <= most:
            low, best = middle, found
        else:
            high = middle
    return best


def _merged(vertices: np.ndarray, faces: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    start, size = vertices.min(axis=0), max(float(np.ptp(vertices, axis=0).max()), 1e-9) / cells
    place = np.floor((vertices - start) / size).astype(np.int64)
    _, cell = np.unique(place, axis=0, return_inverse=True)
    cell = cell.ravel()
    middle = np.zeros((cell.max() + 1, 3))
    np.add.at(middle, cell, vertices)
    middle /= np.bincount(cell)[:, None]
    left = cell[faces]
    left = left[(left[:, 0] != left[:, 1]) & (left[:, 1] != left[:, 2]) & (left[:, 2] != left[:, 0])]
    _, first = np.unique(np.sort(left, axis=1), axis=0, return_index=True)
    left = left[np.sort(first)]
    used, faces = np.unique(left, return_inverse=True)
    return middle[used], faces.reshape(-1, 3)
