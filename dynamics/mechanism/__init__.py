"""Mechanisms: a tree of bodies with its drives, their limits and its own forces, and the equations of the whole."""

from dynamics.mechanism.drives import Motor, Thruster, reflected
from dynamics.mechanism.mechanism import ByFingerprint, Mechanism, direct_motors, drivable_joints, thrust_wrenches
from dynamics.mechanism.reading import read_mechanism

__all__ = ["ByFingerprint", "Mechanism", "Motor", "Thruster", "direct_motors", "drivable_joints", "read_mechanism", "reflected",
           "thrust_wrenches"]
