"""The rules of the search as a table: diagnosis, remedy and budget, in the order of evaluation.
The first rule that applies and whose remedy succeeds decides; then the task is solved, and the table is evaluated again. To add a
remedy, write its diagnosis and its remedy in a file of their own and add a row.

"""

from __future__ import annotations

from ocp.strategy import (
    answer,
    attained,
    exploited,
    instants,
    margins,
    modes,
    nodes,
    other_starts,
    relaxation,
    solved,
    unsolved,
    zero_order_hold,
)
from ocp.strategy.rule import Rule, Stage

UNSOLVED, SOLVED, ENDED, ANSWER = (Stage.UNSOLVED,), (Stage.SOLVED,), (Stage.ENDED,), (Stage.ANSWER,)

RULES: tuple[Rule, ...] = (
    # a program was not solved
    Rule("interrupted", UNSOLVED, unsolved.interrupted, solved.ended,
         "the user or the time limit ended the solve", "end, with the best attempt"),
    Rule("no_remedy", UNSOLVED, unsolved.without_remedy, solved.ended,
         "the objective falls without bound, functions are not finite away from the guess, path equations outnumber the controls, "
         "or the limit of passes is reached", "end, with the best attempt"),
    Rule("quasi_newton_stalled", UNSOLVED, unsolved.quasi_newton_stalled, solved.ended,
         "a limited-memory Hessian stalled at a feasible point", "end: curvature is missing, not a guess"),
    Rule("locally_infeasible", UNSOLVED, unsolved.locally_infeasible, solved.ended,
         "the solve ended at a stationary point of the violation, as on a coarse mesh, where other guesses violate no less",
         "end: locally infeasible", at_most=1, optional=True),
    # a program was solved
    Rule("gauss_nodes", SOLVED, nodes.lie_on_a_jump, nodes.inside,
         "at an end of a phase the state lies on a surface across which rates or costs jump",
         "Gauss nodes, which lie inside intervals", "the discretisation", 1, True, True),
    Rule("relaxation", SOLVED, relaxation.switches_fast, relaxation.relax,
         "controls chatter, with more than ten reversals",
         "end where the relaxed problem, whose controls have two values at once, costs less: there is no minimum",
         at_most=1, refines=True),
    Rule("certified", SOLVED, solved.is_certified, solved.ended,
         "the certificate holds, or the mesh is given", "end"),
    Rule("chattering_controls", SOLVED, solved.chatters, solved.ended,
         "controls that enter linearly chatter from node to node", "end the refinement; zero-order hold may serve", refines=True),
    Rule("jump_not_on_mesh", SOLVED, solved.at_a_jump, solved.ended,
         "the remaining error is the time at which the motion crosses a discontinuity, which no mesh determines",
         "end", refines=True),
    Rule("costs_too_fast", SOLVED, solved.too_fast, solved.ended,
         "running costs oscillate faster than a refined mesh can follow", "end", refines=True),
    Rule("rescale", SOLVED, solved.badly_scaled, solved.rescale,
         "the solver stopped before the optimum, because unknowns, constraints or the cost are small",
         "scale unknowns, constraints and cost by the solution, and solve again on the same mesh", "stationarity", 1, True, True),
    Rule("accurate", SOLVED, solved.is_accurate, solved.ended, "errors are within their tolerance", "end", refines=True),
    Rule("passes_used_up", SOLVED, solved.passes_used_up, solved.ended, "max_passes meshes were solved", "end", refines=True),
    # another parameterisation of the controls
    Rule("zero_order_hold", (Stage.UNSOLVED, Stage.SOLVED, Stage.ENDED), zero_order_hold.may_serve, zero_order_hold.hold,
         "programs with polynomial controls converge slowly, overshoot path constraints for three passes, or end uncertified",
         "piecewise-constant controls on a mesh of their own", "the certificate", 1, True, True),
    # the next program
    Rule("next_guess", UNSOLVED, unsolved.guess_not_served, unsolved.next_guess,
         "more passes failed than the policy allows, or functions are not finite at the guess",
         "the next guess of the cascade: inverse dynamics or least squares, simulation, a coarse solution, perturbations",
         "the program", optional=True),
    Rule("original_guess", UNSOLVED, unsolved.is_warm, unsolved.original_guess,
         "a pass that began at the one before failed", "the same mesh from the guess of the problem", "the program",
         None, True, True),
    Rule("halve_intervals", UNSOLVED, unsolved.on_a_mesh, unsolved.halve_intervals,
         "a pass failed", "every interval cut in two", "the program", None, True, True),
    Rule("mesh_exploited", SOLVED, exploited.errors_pay, exploited.finer_everywhere,
         "on the first mesh the motion violates the dynamics, and the objective depends on it",
         "a mesh finer everywhere, from the original guess", "the objective", 2, True, True),
    Rule("refine_mesh", SOLVED, solved.inaccurate, solved.refine,
         "the certificate fails, or intervals miss their tolerance",
         "shorter intervals, higher degrees, edges where controls jump, bounds tightened where motions overshoot them",
         "the largest error, else the search ends as stalled", None, True),
    # an answer is certified
    Rule("order_of_instants", ANSWER, instants.meet, instants.swapped,
         "an instant at which rates or costs jump meets an end of a phase, or another instant",
         "search again from the solution with the two in the other order", "the objective", 12, optional=True),
    Rule("order_of_modes", ANSWER, modes.crosses, modes.in_modes,
         "the motion crosses, or meets, a surface of the state across which rates or costs jump",
         "search again from the solution in pieces that end on the surface, or with one more that waits on it",
         "the objective", 12, optional=True),
    Rule("escape", ANSWER, answer.not_a_minimum, answer.escape,
         "the point has a direction of negative curvature", "search again from 0.3, -0.3 and 1 times this direction",
         "the objective", 3, optional=True),
    Rule("better_controls", ANSWER, answer.misses_the_minimum_principle, answer.with_better_controls,
         "other admissible controls have a smaller Hamiltonian", "search again from the motion with these controls",
         "the objective", 2, optional=True),
    Rule("other_starts", ANSWER, other_starts.may_be_several, other_starts.from_lower,
         "the problem gives no initial guess, and the Hamiltonian is not convex in the controls, or a random guess was needed",
         "search again from the lowest of a few guesses, solved on a few intervals", "the objective", 1, optional=True),
    Rule("no_minimum", ANSWER, attained.no_minimum, attained.not_attained,
         "an unbounded control doubles where every interval is cut in two, as an impulse does, or the relaxed problem costs less",
         "end without a certificate", at_most=1),
    Rule("error_bound", ANSWER, answer.without_bound, answer.bound,
         "the objective has no error bound", "solve on a mesh with every interval cut in two", "", 7),
    Rule("costly_margins", ANSWER, margins.costly, margins.cut_there,
         "bounds tightened between nodes alone use most of the tolerance of the error bound",
         "intervals cut where the tightening costs most, from the solution", "the error bound", 2, optional=True),
    Rule("finer_mesh", ANSWER, answer.wide_bound, answer.from_finer,
         "the error bound of the objective, of iLQR all that shorter intervals mend, is all that fails, and the finer mesh before "
         "made it narrower",
         "continue from the solution on the finer mesh", "the certificate", 6,
         optional=True),
)
OPTIONAL = tuple(rule.name for rule in RULES if rule.optional)
