"""Quadratic programmes: one at a time, and in strict order."""
