"""``ocp simulate``: the system of a problem file moved on from its start, under given controls."""
