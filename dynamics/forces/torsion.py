"""A spring and damper that turns two frames towards each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import frame_hessian, frame_jacobian, frame_pose
from dynamics.errors import ModelError
from dynamics.forces.force import Force, check_number, columns
from dynamics.lie import so3
from dynamics.model.model import Model

Expr = Any


class Turned(NamedTuple):
    """The rotation vector phi [3]; in axes of the second frame J of the relative angular velocity [3, nv]; the rotation that takes
    axes of the first frame to them [3, 3]; J of the first in its own [3, nv]."""

    phi: Expr
    J: Expr
    back: Expr
    J_first: Expr


@dataclass(frozen=True)
class Torsion(Force):
    """The torque ``-k phi - c w`` on the second frame, and its opposite on the first: phi the rotation vector [3] (rad) from the
    first frame, turned by ``rest``, to the second, w the angular velocity between them. It is the gradient of ``k/2 |phi|^2``.

    first, second: frames, one of them may be the world. k [N m/rad]; c [N m s/rad]; rest [3]: rotation vector without torque (rad).
    """

    name: str
    first: str
    second: str
    k: float
    c: float = 0.0
    rest: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def check(self, model: Model) -> None:
        if model.frame(self.first).body == model.frame(self.second).body:
            raise ModelError(f"frames {self.first!r} and {self.second!r} are fixed to the same body",
                             element=f"force {self.name!r}")
        check_number(self.name, "stiffness", self.k)
        check_number(self.name, "damping", self.c)
        if len(self.rest) != 3 or not all(abs(x) < float("inf") for x in self.rest):
            raise ModelError(f"rest needs three finite numbers, got {self.rest}", element=f"force {self.name!r}")

    def _relative(self, model: Model, q: Expr) -> Turned:
        back = frame_pose(model, q, self.second).R.T @ frame_pose(model, q, self.first).R
        one, two = (spatial.angular(frame_jacobian(model, q, frame, "body")) for frame in (self.first, self.second))
        return Turned(so3.log(so3.exp(-spatial.constant(self.rest)) @ back.T), two - back @ one, back, one)

    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        phi, J, _, _ = self._relative(model, q)
        # the inverse transpose of the right Jacobian leaves its own rotation vector alone
        return -J.T @ (self.k * phi + self.c * (J @ v))

    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        phi, J, back, one = self._relative(model, q)
        torque = self.k * phi + self.c * (J @ v)
        by_q = self.k * ca.solve(so3.right_jacobian(phi), J)
        first, second = (frame_hessian(model, q, frame, "body") for frame in (self.first, self.second))
        slices = [spatial.angular(b) - back @ spatial.angular(a) + spatial.hat(J[:, k]) @ back @ one
                  for k, (a, b) in enumerate(zip(first, second, strict=True))]
        return columns(model, [-h.T @ torque - J.T @ (by_q[:, k] + self.c * (h @ v)) for k, h in enumerate(slices)])

    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        J = self._relative(model, q)[1]
        return -self.c * (J.T @ J)

    def energy(self, model: Model, q: Expr) -> Expr:
        phi = self._relative(model, q)[0]
        return self.k / 2 * ca.dot(phi, phi)

    def remaining(self, model: Model) -> Force | None:
        return self if model.frame(self.first).body != model.frame(self.second).body else None
