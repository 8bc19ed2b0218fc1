"""Smooth random motions of frames as 4x4 matrices, and their derivatives by finite differences: NumPy only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import expm

STENCIL = ((-3, -1 / 60), (-2, 3 / 20), (-1, -3 / 4), (1, 3 / 4), (2, -3 / 20), (3, 1 / 60))  # sixth order


def derivative(f: Callable[[float], np.ndarray], t: float, h: float = 4e-3) -> np.ndarray:
    """f'(t) to about 1e-11 for motions of unit speed."""
    return sum(c * np.asarray(f(t + k * h)) for k, c in STENCIL) / h


def skew(w: np.ndarray) -> np.ndarray:
    x, y, z = w
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]], float)


def unskew(W: np.ndarray) -> np.ndarray:
    return np.array([W[2, 1] - W[1, 2], W[0, 2] - W[2, 0], W[1, 0] - W[0, 1]]) / 2


def vee6(algebra: np.ndarray) -> np.ndarray:
    """[linear; angular] of a 4x4 matrix of se(3)."""
    return np.r_[algebra[:3, 3], unskew(algebra[:3, :3])]


def hat6(xi: np.ndarray) -> np.ndarray:
    out = np.zeros((4, 4))
    out[:3, :3], out[:3, 3] = skew(xi[3:]), xi[:3]
    return out


def motion(rng: np.random.Generator) -> Callable[[float], np.ndarray]:
    """t -> H(t), rotation about moving axes at order-one speed, translation a cubic."""
    a, b, c = rng.standard_normal((3, 3))
    p = rng.standard_normal((4, 3))

    def H(t: float) -> np.ndarray:
        out = np.eye(4)
        out[:3, :3] = expm(skew(a)) @ expm(skew(b * t + c * t * t / 2))
        out[:3, 3] = p[0] + p[1] * t + p[2] * t * t / 2 + p[3] * t**3 / 6
        return out

    return H


def inv(H: np.ndarray) -> np.ndarray:
    return np.linalg.inv(H)


def left(H: Callable[[float], np.ndarray], t: float) -> np.ndarray:
    """B_v_AB from the definition H^-1 dH/dt."""
    return vee6(inv(H(t)) @ derivative(H, t))


def right(H: Callable[[float], np.ndarray], t: float) -> np.ndarray:
    """A_v_AB from the definition dH/dt H^-1."""
    return vee6(derivative(H, t) @ inv(H(t)))


def mixed(H: Callable[[float], np.ndarray], t: float) -> np.ndarray:
    """[d A_o_B / dt; A_w_AB]."""
    rate = derivative(H, t)
    return np.r_[rate[:3, 3], unskew(rate[:3, :3] @ H(t)[:3, :3].T)]


def kindr(H: Callable[[float], np.ndarray], t: float) -> np.ndarray:
    """[d A_o_B / dt; B_w_AB]."""
    rate = derivative(H, t)
    return np.r_[rate[:3, 3], unskew(H(t)[:3, :3].T @ rate[:3, :3])]


BY_DEFINITION = {"left": left, "right": right, "mixed": mixed, "kindr": kindr}


def adjoint(H: np.ndarray) -> np.ndarray:
    """6x6 matrix of the conjugation xi -> vee6(H hat6(xi) H^-1), column by column."""
    return np.array([vee6(H @ hat6(e) @ inv(H)) for e in np.eye(6)]).T
