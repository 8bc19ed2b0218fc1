"""Locked joints: the same robot as the full one with those coordinates held."""

import numpy as np
import pytest
from row_trees import coupled, tree_of

import dynamics
from dynamics import algorithms as alg
from dynamics.errors import ModelError, UnknownNameError
from dynamics.model.lock import lock_joints


def held(model, names, rng):
    """A configuration with the named joints' coordinates, and masks of the coordinates and velocities that stay."""
    q = alg.random_configuration(model, rng)
    keep_q, keep_v = np.ones(model.nq, bool), np.ones(model.nv, bool)
    for name in names:
        i = model.joint_index(name)
        keep_q[model.q_slice(i)] = False
        keep_v[model.v_slice(i)] = False
    return q, keep_q, keep_v


@pytest.mark.parametrize("seed", range(3))
def test_dynamics_are_those_of_the_full_robot_held_there(seed):
    rng = np.random.default_rng(seed)
    model = tree_of("free_flyer", "revolute", "spherical", "planar", "prismatic", "universal", "revolute", seed=seed, branching=0.5)
    names = [b.joint.name for b in model.bodies]
    locked = [names[k] for k in (2, 4, 5)]
    q, keep_q, keep_v = held(model, locked, rng)
    small = lock_joints(model, {n: q[model.q_slice(model.joint_index(n))] for n in locked})
    assert (small.nq, small.nv) == (keep_q.sum(), keep_v.sum())
    v, a = np.zeros((2, model.nv))
    v[keep_v], a[keep_v] = rng.standard_normal((2, small.nv))
    tau = np.array(dynamics.make(model, "inverse_dynamics")(q, v, a)).ravel()
    found = np.array(dynamics.make(small, "inverse_dynamics")(q[keep_q], v[keep_v], a[keep_v])).ravel()
    np.testing.assert_allclose(found, tau[keep_v], atol=1e-10 * np.abs(tau).max())
    frame = model.frames[-1].name if model.frames else model.bodies[-1].name
    poses = dynamics.make_frame(model, "pose", frame)(q), dynamics.make_frame(small, "pose", frame)(q[keep_q])
    for x, y in zip(*poses, strict=True):
        np.testing.assert_allclose(np.array(x), np.array(y), atol=1e-12)


def test_followers_are_locked_with_their_leader():
    model = coupled()
    leader = next(b.joint.mimic.leader for b in model.bodies if b.joint.mimic)
    rng = np.random.default_rng(0)
    q, keep_q, _ = held(model, [leader], rng)
    small = lock_joints(model, {leader: q[model.q_slice(model.joint_index(leader))]})
    assert not any(b.joint.mimic and b.joint.mimic.leader == leader for b in small.bodies)
    M, full = (np.array(dynamics.make(m, "centre_of_mass")(x)) for m, x in ((small, q[keep_q]), (model, q)))
    np.testing.assert_allclose(M, full, atol=1e-12)


def test_what_cannot_be_locked_is_named():
    model = coupled()
    follower = next(b.joint.name for b in model.bodies if b.joint.mimic)
    other = next(b.joint.name for b in model.bodies if not b.joint.mimic and model.kind(model.joint_index(b.joint.name)).nq == 1)
    with pytest.raises(ModelError, match=f"'{follower}'.*follows.*lock that one"):
        lock_joints(model, {follower: 0.0})
    with pytest.raises(UnknownNameError, match=other):
        lock_joints(model, {other + "x": 0.0})
    with pytest.raises(ModelError, match="expected 1 finite"):
        lock_joints(model, {other: [0.0, 1.0]})
    with pytest.raises(ModelError, match="expected 1 finite"):
        lock_joints(model, {other: np.nan})
    small = lock_joints(model, {other: 0.0})
    with pytest.raises(ModelError, match="fixed already"):
        lock_joints(small, {other: 0.0})
