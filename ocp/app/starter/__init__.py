"""``ocp init``: a commented problem file about a robot that is solved and certified as it is written."""
