"""Files of inverse kinematics and of whole-body control, and closed loops with a receding horizon."""
