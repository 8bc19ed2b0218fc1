"""From a phase to the functions of its knots: steps, costs and their expansions, hard constraints."""
