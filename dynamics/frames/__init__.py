"""Notation: velocities, accelerations, wrenches, inertias and Jacobians in every frame and representation; adapters."""
