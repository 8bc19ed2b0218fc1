"""Every robot of the ``robots`` extra: all read, and agree with Pinocchio's reading of the same file."""

from __future__ import annotations

from importlib import metadata

import numpy as np
import pytest
from reference_kinematics import body_poses, frame_pose, random_configuration, spatial_inertia, total_inertia_in_world
from repository import ROOT

from dynamics.errors import ModelError, UnknownNameError
from dynamics.model.robots import find_robot, robot_paths
from dynamics.model.urdf import read_urdf

MODELS = ROOT / "problems" / "models"

try:
    PATHS = robot_paths()
except ModelError:
    PATHS = {}
installed = pytest.mark.skipif(not PATHS, reason="the robots extra is not installed")

EMPTY = {"ur3"}  # a file without any link
BROKEN_MIMIC = {"alex_psyonic_hands"}  # mimics joints that do not exist
READABLE = sorted(set(PATHS) - EMPTY)


def read(name: str, **options):
    return read_urdf(PATHS[name], mimic="independent" if name in BROKEN_MIMIC else "couple", **options)


@installed
def test_the_collection_is_listed_by_short_unique_names():
    assert len(PATHS) >= 69
    assert all(path.is_file() for path in PATHS.values())
    assert find_robot("panda").name == "panda.urdf"
    assert {"anymal_b_simple/anymal", "anymal_c_simple/anymal"} <= set(PATHS)
    with pytest.raises(UnknownNameError, match="did you mean .*'ur5_robot'"):
        find_robot("ur5_robt")
    with pytest.raises(UnknownNameError, match="did you mean 'hyq_no_sensors'"):  # part of a name, however long the rest
        find_robot("hyq")


def test_missing_extra_is_named(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)
    monkeypatch.setattr(metadata, "distribution", absent)
    with pytest.raises(ModelError, match=r"pip install lieocp\[robots\]"):
        robot_paths()


@installed
@pytest.mark.parametrize("name", READABLE)
@pytest.mark.sample(24)
def test_robot_reads_whole_and_lumped_alike(name):
    lumped, whole = read(name, root="free_flyer"), read(name, root="free_flyer", lump_fixed=False)
    assert (lumped.nq, lumped.nv) == (whole.nq, whole.nv)
    assert lumped.mass == pytest.approx(whole.mass, rel=1e-12)
    q = random_configuration(lumped, np.random.default_rng(1))
    total = total_inertia_in_world(whole, q)
    np.testing.assert_allclose(total_inertia_in_world(lumped, q), total, atol=1e-10 * np.abs(total).max())


@installed
def test_the_files_that_are_wrong_are_refused_precisely():
    with pytest.raises(ModelError, match="no <link>"):
        read_urdf(PATHS["ur3"])
    with pytest.raises(ModelError, match="mimics unknown joint 'index_q1'; did you mean 'Left_index_q1'"):
        read_urdf(PATHS["alex_psyonic_hands"])


@installed
@pytest.mark.parametrize("free_flyer", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("name", READABLE)
@pytest.mark.sample(32)
def test_robot_agrees_with_pinocchio(name, free_flyer):
    pin = pytest.importorskip("pinocchio")
    import urdf_twin

    model = read(name, root="free_flyer" if free_flyer else "fixed")
    twin = urdf_twin.build(pin, PATHS[name], free_flyer)
    data = twin.createData()
    assert len(model.bodies) == twin.njoints - 1
    assert model.mass == pytest.approx(pin.computeTotalMass(twin) if twin.njoints > 1 else 0.0, abs=1e-10)

    q = random_configuration(model, np.random.default_rng(2))
    pin.framesForwardKinematics(twin, data, urdf_twin.configuration(pin, twin, model, q))
    bodies, compared = body_poses(model, q), 0
    for frame in twin.frames:
        if frame.type == pin.FrameType.BODY and frame.name not in ("world", "universe"):
            theirs = data.oMf[twin.getFrameId(frame.name, pin.FrameType.BODY)].homogeneous
            np.testing.assert_allclose(frame_pose(model, q, frame.name, bodies), theirs, atol=1e-9, err_msg=frame.name)
            compared += 1
    assert compared >= len(model.bodies)
    for body in model.bodies:
        index = twin.getJointId(body.joint.name)
        np.testing.assert_allclose(spatial_inertia(body.inertia), twin.inertias[index].toDynamicParameters(),
                                   atol=1e-10, err_msg=body.name)
        _limits_agree(pin, twin, index, body)


def _limits_agree(pin, twin, index, body):
    joint, limits = twin.joints[index], body.joint.limits
    if limits.lower is not None:
        assert (limits.lower[0], limits.upper[0]) == (twin.lowerPositionLimit[joint.idx_q],
                                                      twin.upperPositionLimit[joint.idx_q])
    if limits.velocity is not None and limits.lower is not None:
        assert limits.velocity[0] == twin.velocityLimit[joint.idx_v]
        assert limits.effort[0] == twin.effortLimit[joint.idx_v]
    if joint.nv == 1:
        assert (body.joint.damping or (0.0,))[0] == twin.damping[joint.idx_v]
        assert (body.joint.friction or (0.0,))[0] == twin.upperDryFrictionLimit[joint.idx_v]


@installed
@pytest.mark.parametrize("name", ["go2", "anymal_c_simple/anymal", "talos_full_v2", "panda", "icub"])
def test_named_configurations_agree_with_pinocchio(name):
    pin = pytest.importorskip("pinocchio")
    import urdf_twin

    model = read(name, root="free_flyer", srdf="auto")
    twin = urdf_twin.build(pin, PATHS[name], True)
    srdf = next(PATHS[name].parents[1].glob(f"srdf/{model.name}.srdf"), None) or next(
        PATHS[name].parents[1].glob(f"srdf/{PATHS[name].stem}.srdf"))
    pin.loadReferenceConfigurations(twin, str(srdf), False)
    assert set(model.configurations) == {entry.key() for entry in twin.referenceConfigurations}
    for state, q in model.configurations.items():
        theirs = twin.referenceConfigurations[state].copy()
        ours = urdf_twin.configuration(pin, twin, model, q)
        for body in model.bodies:
            if body.joint.mimic is not None:  # Pinocchio lets a follower contradict its leader here
                joint = twin.joints[twin.getJointId(body.joint.name)]
                theirs[joint.idx_q] = ours[joint.idx_q]
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


@installed
@pytest.mark.parametrize(("ours", "original", "frames"), [
    ("ur5", "ur5_robot", ["ee_link", "tool0", "forearm_link"]),
    ("panda", "panda", ["panda_link8", "panda_hand_tcp", "panda_leftfinger", "panda_link4"])])
def test_shipped_arm_equals_the_original(ours, original, frames):
    shipped, source = read_urdf(MODELS / f"{ours}.urdf"), read_urdf(PATHS[original])
    assert shipped.coordinate_names == source.coordinate_names[:shipped.nq]
    rng = np.random.default_rng(4)
    for _ in range(3):
        q = random_configuration(shipped, rng)
        q_source = np.concatenate([q, np.zeros(source.nq - shipped.nq)])  # fingers closed
        for frame in frames:
            np.testing.assert_allclose(frame_pose(shipped, q, frame), frame_pose(source, q_source, frame), atol=1e-10)
        np.testing.assert_allclose(total_inertia_in_world(shipped, q), total_inertia_in_world(source, q_source), atol=1e-9)
    for which in ("lower", "upper", "velocity", "effort"):
        np.testing.assert_allclose(shipped.limit(which), source.limit(which)[:shipped.nq], atol=1e-10)
    for mine, theirs in zip(shipped.bodies[:-1], source.bodies, strict=False):
        np.testing.assert_allclose(spatial_inertia(mine.inertia), spatial_inertia(theirs.inertia), atol=1e-12)
