"""Inverse kinematics as textbooks write it: iterations, closed forms, recursions through null spaces, trajectory feedback.

No command reaches this room: ``ocp.control.ik`` is the solver for use. It serves readers and tests.

    numerical_ik        Newton, damped, Levenberg-Marquardt and transpose steps, each logged
    closed_forms        every branch of the textbook arms
    prioritised         strict priorities by recursion through null spaces
    support             motions that leave the contacts where they are
    trajectory_control  feedback of the tracking error
"""
