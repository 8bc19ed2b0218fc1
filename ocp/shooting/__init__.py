"""Shooting: a controlled rollout, its expansion knot by knot, and a Riccati sweep that improves it."""
