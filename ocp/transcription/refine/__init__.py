"""Mesh refinement: error between knots, policies, edges at switches, and the loop around the solves."""
