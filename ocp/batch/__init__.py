"""One problem solved many times: its program is built once, cases differ in numbers.

    compiled.py   Compiled: from a problem to its program; solve(case, start) -> (solution, point)
    starts.py     the guesses of a multi-start
    order.py      which case starts from the solution of which other: a tree, fixed before anything is solved
"""
