"""Joints whose motion has no inertia are named wherever accelerations are asked for; without mass there is no centre."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

import dynamics
from dynamics import algorithms as alg
from dynamics.algorithms.configuration import random_configuration
from dynamics.algorithms.mass_matrix import check_inertia
from dynamics.errors import ModelError
from dynamics.loops import LoopDynamics
from dynamics.model import BodyInertia, Builder, Joint, Mimic, Placement
from dynamics.model.synthetic import random_tree
from dynamics.model.urdf import read_urdf

MATRICES = importlib.import_module("dynamics.algorithms.mass_matrix")  # the package gives its name to a function
Y, Z = ((0.0, 1.0, 0.0),), ((0.0, 0.0, 1.0),)
BALL = BodyInertia(1.0, (0.0, 0.0, 0.5), ((0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.1)))
ROD = BodyInertia(1.0, (0.0, 0.0, 0.5), ((0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.0)))


def robot(hand, kind="revolute", axes=Y, armature=()):
    b = Builder("arm")
    b.body("upper", parent="world", joint=Joint("shoulder", "revolute", axes=Y), inertia=BALL)
    b.body("side", parent="upper", joint=Joint("slide", "prismatic", axes=Z), inertia=BALL)
    b.body("hand", parent="upper", joint=Joint("wrist", kind, Placement(position=(0.0, 0.0, 1.0)), axes, armature=armature),
           inertia=hand)
    return b.build()


def coaxial():
    """Two hinges about one axis, nothing between them."""
    b = Builder("coaxial")
    b.body("ring", parent="world", joint=Joint("outer", "revolute", axes=Y))
    b.body("arm", parent="ring", joint=Joint("inner", "revolute", axes=Y), inertia=BALL)
    return b.build()


BARE = {
    "massless leaf": (robot(BodyInertia()), "'wrist' (body 'hand')"),
    "massless slider": (robot(BodyInertia(), "prismatic"), "'wrist' (body 'hand')"),
    "rod about itself": (robot(ROD, axes=Z), "'wrist' (body 'hand')"),
    "rod in a ball": (robot(ROD, "spherical", ()), "'wrist.wz' (body 'hand')"),
    "coaxial": (coaxial(), "'outer' (body 'ring')"),
}


@pytest.mark.parametrize("name", BARE)
def test_the_joint_is_named(name):
    model, words = BARE[name]
    with pytest.raises(ModelError, match="mass matrix is singular") as error:
        dynamics.make(model, "forward_dynamics")
    assert words in str(error.value)
    assert "slide" not in str(error.value)
    with pytest.raises(ModelError) as error:
        LoopDynamics(model).forward_dynamics(alg.neutral(model), np.zeros(model.nv), np.ones(model.nv))
    assert words in str(error.value)
    dynamics.make(model, "inverse_dynamics")  # asks for no inverse of M


def test_inertia_from_anywhere_will_do():
    check_inertia(robot(BodyInertia(), armature=(0.01,)))
    check_inertia(robot(BALL))
    for seed in range(3):
        check_inertia(random_tree(9, np.random.default_rng(seed), kinds=("free_flyer", "revolute", "spherical", "universal")))
    b = Builder("followed")
    b.body("lead", parent="world", joint=Joint("lead", "revolute", axes=Y))
    b.body("heavy", parent="lead", joint=Joint("follow", "revolute", axes=Z, mimic=Mimic("lead", 2.0)), inertia=BALL)
    check_inertia(b.build())


def test_a_singular_configuration_is_distinguished_from_a_singular_robot():
    """A point mass at the end of two massless rods: nothing moves it along a stretched arm."""
    b = Builder("rods")
    b.body("one", parent="world", joint=Joint("one", "revolute", axes=Y))
    b.body("two", parent="one", joint=Joint("two", "revolute", Placement(position=(0.0, 0.0, 1.0)), Y),
           inertia=BodyInertia(1.0, (0.0, 0.0, 1.0)))
    model = b.build()
    loops = LoopDynamics(model)
    assert np.isfinite(loops.forward_dynamics(np.array([0.3, 1.0]), np.zeros(2), np.ones(2))).all()
    with pytest.raises(ModelError, match="'one' \\(body 'one'\\) here"):
        loops.forward_dynamics(np.zeros(2), np.zeros(2), np.ones(2))


def test_not_a_number_stays_one():
    model = robot(BALL)
    assert np.isnan(LoopDynamics(model).forward_dynamics(np.full(3, np.nan), np.zeros(3), np.ones(3))).any()


def test_a_robot_without_mass_has_no_centre():
    b = Builder("ghost")
    b.body("only", parent="world", joint=Joint("only", "revolute", axes=Y))
    for name in ("centre_of_mass", "centre_of_mass_jacobian"):
        with pytest.raises(ModelError, match="'ghost': has no mass"):
            dynamics.make(b.build(), name)


FIXED = """<robot name="r"><link name="base"/>
<link name="arm"><inertial><mass value="1"/><origin xyz="0 0 .3"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/>
</inertial></link><link name="tool"><inertial><mass value="0.5"/><origin xyz="0 0 .1"/>
<inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="hinge" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint>
<joint name="weld" type="fixed"><parent link="arm"/><child link="tool"/><origin xyz="0.1 0 .5" rpy="0.3 0 0"/></joint></robot>"""


@pytest.mark.parametrize("name", [n for n in dynamics.functions.FUNCTIONS if n != "body_poses"])
def test_one_joint_with_a_body_on_a_kept_weld(name):
    kept, lumped = read_urdf(FIXED, lump_fixed=False), read_urdf(FIXED)
    assert len(kept.bodies) == 2
    rng = np.random.default_rng(1)
    x = [rng.standard_normal(1) for _ in dynamics.functions.FUNCTIONS[name].inputs]
    np.testing.assert_allclose(np.array(dynamics.make(kept, name)(*x)), np.array(dynamics.make(lumped, name)(*x)), atol=1e-12)


@pytest.mark.parametrize("name", ["pose", "jacobian", "velocity", "drift"])
def test_frames_beyond_a_kept_weld(name):
    rng = np.random.default_rng(2)
    functions = [dynamics.make_frame(read_urdf(FIXED, lump_fixed=lump), name, "tool") for lump in (False, True)]
    x = [rng.standard_normal(1) for _ in range(functions[0].n_in())]
    for kept, lumped in zip(*(f.call(x) for f in functions), strict=True):
        np.testing.assert_allclose(np.array(kept), np.array(lumped), atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_bodies_one_by_one_and_the_whole_matrix_blame_the_same(seed):
    """Branching trees of all simple joints, some bodies without mass: pivots of the tree are those of the matrix."""
    rng = np.random.default_rng(seed)
    model = random_tree(12, rng, armature=False)
    empty = BodyInertia(0.0, (0, 0, 0), ((0, 0, 0),) * 3)
    light = set(rng.choice(12, 5, replace=False).tolist()) | {11}
    model = replace(model, bodies=tuple(replace(b, inertia=empty) if i in light else b for i, b in enumerate(model.bodies)))
    q = random_configuration(model, rng)
    one, other = MATRICES._bare_of_tree(model, q), MATRICES._bare_of_matrix(model, q)
    assert one == other
    assert one
