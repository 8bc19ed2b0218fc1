"""The Model record: limits through couplings, names, fingerprints, and what construction refuses."""

from dataclasses import replace

import numpy as np
import pytest

from dynamics.errors import ModelError, UnknownNameError
from dynamics.model import BodyInertia, Builder, Frame, Joint, Limits, Mimic, Placement
from dynamics.model.synthetic import random_tree

UNIT = BodyInertia(1.0, (0.0, 0.0, 0.0), ((0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.1)))
Z = ((0.0, 0.0, 1.0),)


def gripper(multiplier=-0.5, offset=0.1, **limits):
    b = Builder("gripper")
    b.body("a", parent="world", joint=Joint("lead", "revolute", axes=Z, limits=Limits((-1.0,), (1.0,), (3.0,), (5.0,))),
           inertia=UNIT)
    b.body("b", parent="a", joint=Joint("follow", "revolute", axes=Z, limits=Limits(**limits),
                                        mimic=Mimic("lead", multiplier, offset)), inertia=UNIT)
    return b.build()


def test_followers_tighten_the_limits_of_their_leader():
    """The follower moves as -0.5 q + 0.1: its range [-0.2, 0.4] allows the leader [-0.6, 0.6], its speed 1 allows 2."""
    model = gripper(lower=(-0.2,), upper=(0.4,), velocity=(1.0,), effort=(0.1,))
    assert model.limit("lower") == pytest.approx([-0.6])
    assert model.limit("upper") == pytest.approx([0.6])
    assert model.limit("velocity") == pytest.approx([2.0])
    assert model.limit("effort") == pytest.approx([5.0])
    for q in np.linspace(model.limit("lower")[0], model.limit("upper")[0], 7):
        assert -0.2 - 1e-12 <= -0.5 * q + 0.1 <= 0.4 + 1e-12


def test_coordinates_are_named_and_counted():
    model = random_tree(5, np.random.default_rng(0), root="free_flyer")
    assert len(model.coordinate_names) == model.nq == len(set(model.coordinate_names))
    assert len(model.velocity_names) == model.nv
    assert model.coordinate_names[:7] == tuple(f"j0.{n}" for n in ("px", "py", "pz", "w", "x", "y", "z"))
    assert gripper().nq == gripper().nv == 1


def test_fingerprint_sees_every_number_and_nothing_else():
    model = gripper()
    assert model.fingerprint == gripper().fingerprint
    assert model.fingerprint != gripper(multiplier=-0.5000001).fingerprint
    assert model.fingerprint != replace(model, gravity=(0.0, 0.0, -9.8)).fingerprint
    assert model.fingerprint == replace(model, notes=("a remark",)).fingerprint


def test_unknown_names_are_reported_with_near_ones():
    model = gripper()
    with pytest.raises(UnknownNameError, match="no joint named 'leed'; did you mean 'lead'"):
        model.joint_index("leed")
    with pytest.raises(UnknownNameError, match="no frame named 'tool'"):
        model.frame("tool")
    with pytest.raises(ModelError, match="known: lower, upper, velocity, effort"):
        model.limit("torque")


@pytest.mark.parametrize(("change", "words"), [
    (lambda b: replace(b, joint=replace(b.joint, kind="hinge")), "unknown joint kind 'hinge'"),
    (lambda b: replace(b, joint=replace(b.joint, axes=())), "needs 1 axes, got 0"),
    (lambda b: replace(b, joint=replace(b.joint, axes=((0.0, 0.0, 2.0),))), "must be a unit vector"),
    (lambda b: replace(b, inertia=replace(b.inertia, mass=-1.0)), "mass must be finite and not negative"),
    (lambda b: replace(b, inertia=replace(b.inertia, inertia=((1.0, 0.2, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))),
     "not symmetric"),
    (lambda b: replace(b, joint=replace(b.joint, limits=Limits((1.0,), (-1.0,)))), "exceeds upper limit"),
    (lambda b: replace(b, joint=replace(b.joint, damping=(-0.1,))), "damping must be finite"),
    (lambda b: replace(b, joint=replace(b.joint, armature=(0.1, 0.2))), "armature needs 1 values"),
    (lambda b: replace(b, joint=replace(b.joint, placement=Placement(((1.0, 0.0, 0.0),) * 3))), "not a rotation matrix"),
    (lambda b: replace(b, parent=3), "parent index 3"),
    (lambda b: replace(b, name="b"), "body name 'b' appears 2 times"),
    (lambda b: replace(b, joint=replace(b.joint, mimic=Mimic("leed"))), "mimics unknown joint 'leed'"),
])
def test_construction_refuses_what_is_wrong(change, words):
    model = gripper()
    with pytest.raises(ModelError, match=words):
        replace(model, bodies=(change(model.bodies[0]), *model.bodies[1:]))


def test_construction_refuses_wrong_frames_configurations_gravity_and_inertia():
    model = gripper()
    with pytest.raises(ModelError, match="frame 'f'.*body index 9"):
        replace(model, frames=(Frame("f", 9),))
    with pytest.raises(ModelError, match="configuration 'home'.*nq = 1"):
        replace(model, configurations={"home": (0.0, 1.0)})
    with pytest.raises(ModelError, match="gravity must be three finite numbers"):
        replace(model, gravity=(0.0, float("nan"), 0.0))
    b = Builder("bad")
    b.body("a", parent="world", joint=Joint("j", "revolute", axes=Z),
           inertia=BodyInertia(1.0, (0.0, 0.0, 0.0), ((-1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))))
    with pytest.raises(ModelError, match="body 'a'.*not positive semidefinite"):
        b.build()
    with pytest.raises(ModelError, match="parent body 'nowhere' has not been added yet"):
        b.body("c", parent="nowhere", joint=Joint("k", "fixed"))
