"""Kinematic control: pseudo-inverses, tasks with priorities, inverse kinematics, trajectory feedback, support consistency."""
