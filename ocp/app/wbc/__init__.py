"""``ocp wbc``: a file of whole-body control in closed loop, its run folder, its pictures and its page."""
