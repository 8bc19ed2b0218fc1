"""``ocp explain``: why a problem was not solved, or what the constraints of its solution cost."""
