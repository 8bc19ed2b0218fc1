"""Implicit steps in time: their schemes as one table, and Newton's method for whole stretches of steps in compiled loops.

Nothing here knows of robots: whoever has equations hands them over as kernels.
"""
