"""``ocp mpc``: a problem file in closed loop, its run folder, its pictures and its page."""
