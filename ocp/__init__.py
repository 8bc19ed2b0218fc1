"""Optimal control over any system: problems and solutions as data, collocation and iLQR, certificates."""
