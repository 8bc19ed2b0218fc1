"""Notation: what textbooks and other libraries write, and other roads to what the algorithms compute.

No system of optimal control reaches this room. It serves readers, who find the formulas of their book here, users, who convert to
and from other tools, and tests, which ask these forms whether the algorithms are right. Of what is outside, ``ocp export`` alone
imports it: its adapters.

    representation          left, mixed, right, kindr: one table, the linear maps it implies, conversions
    twists, wrenches, accelerations, inertia    one concept each, on poses and 6-vectors
    jacobians, moving_base  the same for robots: Jacobians, equations of motion, change of base
    hamel, differentials    equations of motion and pose differentials by differentiation alone
    lagrange_first_kind     constrained motion by differentiation alone, with multipliers
    projected_newton_euler  equations of motion as sums over bodies
    newton_euler            the same for every body cut free, with the reactions of joints
    contact_equations       equations of motion with contact forces and impulses, no contact law
    base_coordinates        generalised coordinates of a floating robot with any chart for its base
    analytic_jacobians      rates of end-effector coordinates in any chart
    tensor_algebra          third-order tensors of spatial vectors
    tagged                  records that carry frame names and refuse wrong compositions
    books                   6-vectors of other books and libraries
    libraries, adapters     states in the coordinates of Pinocchio, MuJoCo, Drake and kindr
    textbook_robots         the arms, the quadruped and the biped of the lecture notes
"""
