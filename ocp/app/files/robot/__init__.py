"""Robots in files: their trees, states, drives, forces and constraints."""
