"""``ocp robot``: what a robot file holds, by name."""
