"""Control as textbooks write it: inverse kinematics, and laws in the space of joints, tasks and supports.

No command uses this package: ``ocp.control.ik`` and ``ocp.control.whole_body`` are for use. It serves readers and tests.

    numerical_ik        Newton, damped, Levenberg-Marquardt and transpose steps, each logged
    closed_forms        every branch of the textbook arms
    prioritised         strict priorities by recursion through null spaces
    support             motions that leave the contacts where they are
    trajectory_control  feedback of the tracking error
    joint_space         impedance, gravity compensation, computed torque
    task_space          end-effector dynamics, operational space, force and motion at once
    supported           torques and forces of a robot on its supports, virtual models
"""
