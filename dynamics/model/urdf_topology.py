"""How the joints of a URDF hang together: the root link, mimic couplings, armatures from transmissions."""

from __future__ import annotations

from collections.abc import Mapping

from dynamics.errors import near
from dynamics.model.model import Mimic
from dynamics.model.urdf_elements import JointElement, LinkElement, read_armature
from dynamics.model.xmltree import Element, Notes, only

SINGLE_AXIS = ("revolute", "continuous", "prismatic")


def root_link(top: Element, links: Mapping[str, LinkElement], joints: Mapping[str, JointElement]) -> str:
    """The link that is nobody's child. Raises ModelError unless the joints form one tree over all links."""
    carrier: dict[str, JointElement] = {}
    for joint in joints.values():
        where = f"joint {joint.name!r}"
        for tag, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                place = only(joint.element, tag, where) or joint.element
                raise place.error(where, f"{tag} link {link!r} does not exist{near(link, links)}")
        if joint.child in carrier:
            first = carrier[joint.child]
            raise joint.element.error(where, f"link {joint.child!r} is already the child of joint {first.name!r} "
                                             f"(line {first.element.line}): a URDF is a tree, it has no closed loops")
        carrier[joint.child] = joint
    roots = [name for name in links if name not in carrier]
    if len(roots) > 1:
        raise links[roots[1]].element.error(
            f"link {roots[1]!r}", f"several root links {roots}: all but one must be the child of a joint")
    rooted: set[str] = set(roots)
    for name in links:  # walk up from every link: who never reaches the root is on or behind a cycle
        path = {name: None}
        while (last := next(reversed(path))) not in rooted:
            joint = carrier[last]
            if joint.parent in path:
                walked = list(path)
                cycle = [*walked[walked.index(joint.parent):], joint.parent][::-1]
                raise joint.element.error(f"joint {joint.name!r}", f"links form a cycle: {' -> '.join(cycle)}")
            path[joint.parent] = None
        rooted.update(path)
    return roots[0]


def armatures(top: Element, joints: Mapping[str, JointElement], notes: Notes) -> dict[str, float]:
    """Reflected inertia of the rotors [kg m^2] by joint, from the transmissions of a URDF file."""
    out: dict[str, float] = {}
    for transmission in top.all("transmission"):
        found = read_armature(transmission, notes)
        if found is None:
            continue
        name, value = found
        where = f"transmission {transmission.attributes.get('name', '')!r}"
        if name not in joints:
            raise transmission.error(where, f"joint {name!r} does not exist{near(name, joints)}")
        if joints[name].kind not in SINGLE_AXIS:
            raise transmission.error(where, f"joint {name!r} has no single axis for a rotor to act on")
        out[name] = out.get(name, 0.0) + value  # several motors on one joint add up
    return out


def mimics(joints: Mapping[str, JointElement], couple: bool, notes: Notes) -> dict[str, Mimic]:
    """Each follower tied to its independent leader: through a chain, multipliers multiply and offsets add up."""
    out: dict[str, Mimic] = {}
    for joint in joints.values():
        if joint.mimic is None:
            continue
        if not couple:
            notes.tell("mimic joint read as an independent joint, as asked", joint.element.line)
            continue
        where, element = f"joint {joint.name!r}", only(joint.element, "mimic", joint.name) or joint.element
        chain, multiplier, offset = [joint.name], 1.0, 0.0
        step: Mimic | None = joint.mimic
        while step is not None:
            multiplier, offset = multiplier * step.multiplier, multiplier * step.offset + offset
            if step.leader not in joints:
                raise element.error(where, f"mimics unknown joint {step.leader!r}{near(step.leader, joints)}; "
                                           "mimic='independent' reads the joint without its coupling")
            if step.leader in chain:
                raise element.error(where, f"mimic joints form a cycle: {' -> '.join([*chain, step.leader])}")
            chain.append(step.leader)
            leader = joints[step.leader]
            step = leader.mimic
        if leader.kind not in SINGLE_AXIS:
            raise element.error(where, f"mimics joint {leader.name!r} of kind {leader.kind!r}; the leader needs one "
                                       "degree of freedom")
        out[joint.name] = Mimic(leader.name, multiplier, offset)
    return out
