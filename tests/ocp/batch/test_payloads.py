"""Twenty payloads on a six-joint arm, certified, by one program."""

import resource

import numpy as np
import pytest

import ocp


def arm(payload=1.0):
    """The UR5 of the gallery with a point mass at the origin of its last link."""
    p = ocp.load("problems/ur5_reach.yaml")
    p.set("parameters", {"payload": payload})
    p.set("system.design", [{"parameter": "payload", "inertia": {"body": "wrist_3_link", "component": "mass"}}])
    return p


def processor_seconds():
    return sum(own.ru_utime + own.ru_stime for own in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


@pytest.mark.slow
def test_twenty_payloads_on_an_arm_take_half_a_minute_of_two_processors():
    """Every case is certified and solved by the program; effort grows with the load, at the rate that the multiplier of the load
    says; and one of them is what a solve from scratch says."""
    begin, loads = processor_seconds(), np.linspace(0.0, 5.0, 20)
    solver = arm().compile()
    table = solver.solve_many({"parameters.payload": loads}, processes=2)
    spent = processor_seconds() - begin
    assert table.ok
    assert set(table["by"]) == {"program"}
    efforts = np.array(table["objective"])
    assert np.all(np.diff(efforts) > 0)
    assert spent <= 60.0
    at = 8
    found = solver.solve(parameters={"payload": loads[at]})
    slope = -found.solution.extra["lam_x"][-1]
    assert slope == pytest.approx((efforts[at + 1] - efforts[at - 1]) / (loads[at + 1] - loads[at - 1]), rel=1e-2)
    assert found.objective == pytest.approx(arm(float(loads[at])).solve().objective, rel=1e-3)
