"""Where a robot stands, as whole-body control sees it: contacts of one point each.

f [3] (N, world axes) is the force of the surface ON the robot: n·f ≥ 0 and |f - n n·f| ≤ μ n·f. For the force of the robot on the
surface, F = -f, every sign of f turns. A flat foot is several stances on one link.
"""

from __future__ import annotations

from dynamics.constraints import Cone, Contact, PointContact
from ocp.errors import ProblemError, positive
from ocp.plants.touching import touches

Vector = tuple[float, float, float]


def Stance(frame: str, normal: Vector = (0.0, 0.0, 1.0), friction: float = 0.6, point: Vector = (0.0, 0.0, 0.0), *,
           sides: int = 4, pyramid: str = "inner", heading: float = 0.0, name: str = "", least: float = 0.0,
           most: float = float("inf"), slip: Vector | None = None) -> PointContact:
    """A point [3] (m) of ``frame`` on a surface with normal [3] (world axes, out of the surface) and friction μ: a contact.

    least, most: bounds of the normal force (N). sides, pyramid, heading: of the cone's stand-in (``Cone``). slip: as of a contact.
    Raises ModelError, and ProblemError for μ ≤ 0.
    """
    positive(friction, f"stance {name or frame!r}.friction")
    made = PointContact(name or frame, frame, (point,), normal, friction=friction, cone=Cone(sides, pyramid, heading), least=least,
                        most=most, slip=slip)
    made.check_numbers()
    return made


def stances_of(contact: Contact) -> tuple[PointContact, ...]:
    """The points of a contact as the controller sees them. Raises ProblemError for what has no points."""
    points = tuple(point for point in touches([contact]) if isinstance(point, PointContact))
    if not points:
        raise ProblemError("rolls; whole-body control knows points and flat soles", where=f"contact {contact.name!r}")
    return points
