"""Bounds tightened between nodes at a cost that matters: the mesh is cut there instead, and the answer is nearer to the truth."""

import numpy as np
import pytest

from ocp.app.files.load import load_text
from ocp.certify import Tolerances
from ocp.methods import solve
from ocp.problem import Kind
from ocp.transcription.refine.plan import read_plans

#: Bryson and Denham's problem with the wall at l = 0.1: 4 / (9 l), along the wall from 3 l to 1 - 3 l
WALL = """
name: block below a wall
system: {states: {x: m, v: m/s}, controls: {u: N}, dynamics: {x: v, v: u}}
phase:
  duration: 1
  start: {x: 0, v: 1}
  final: {x: 0, v: -1}
  costs: [{name: effort, running: u**2/2}]
  constraints: [{name: wall, expression: x, upper: 0.1}]
"""
TRUE, ARRIVES, LEAVES = 4 / 0.9, 0.3, 0.7


def solved(*without):
    tolerances = Tolerances(violation_between=1e-6, objective_error=1e-3)
    return solve(load_text(WALL).problem, "collocation", {"refine": "certificate", "intervals": 11}, tolerances=tolerances,
                 without=without)


def bar(found):
    return found.certificate.objective_error.value * found.certificate.objective_size


def test_intervals_are_cut_where_tightened_bounds_make_most_of_the_error_bound():
    cut, tightened = solved(), solved("costly_margins")
    fired = [any(one.taken and one.rule == "costly_margins" for one in found.strategy) for found in (cut, tightened)]
    assert fired == [True, False]
    assert any(one.kind is Kind.REFINED_FURTHER for one in cut.findings)
    assert cut.ok
    assert abs(cut.objective - TRUE) <= bar(cut) < 0.01 * bar(tightened)


def test_what_tightening_costs_is_what_the_objective_rises_by_and_lies_where_the_wall_is_met():
    found = solved("costly_margins")
    costs = found.extra["margins_cost"]
    assert found.objective - TRUE == pytest.approx(costs.sum(), rel=0.3)
    plan, = read_plans(str(found.freeze["mesh"]), [""], "radau", "test")
    edges = np.array(plan.edges)
    assert len(costs) == plan.intervals
    away = (edges[1:] < ARRIVES) | (edges[:-1] > LEAVES)
    assert costs[away].sum() < 1e-3 * costs.sum()
