"""Sentences of findings: every kind has one, each tells its numbers; certificates come back from their records as they were."""

import dataclasses
import json
import math
from dataclasses import replace

import pytest
from made_solutions import cart, certificate

from ocp.app.pages.certificate_record import certificate_of, certificate_record
from ocp.app.pages.folders import jsonable
from ocp.app.pages.results import summarise
from ocp.app.sentences import STATUSES, TABLES, ending, message, remarks, sentence, sentences
from ocp.certify import Tolerances
from ocp.problem import Finding, Kind, Residual, Statement, Status, Violation

CHECKS = (
    (Residual(Kind.STATIONARITY, 2e-3, 1e-4, data={"kkt_residuals": (1e-9, 2e-8)}),
     "stationarity 0.002 > 0.0001 (unscaled KKT residuals: 1.0e-09, 2.0e-08)"),
    (Residual(Kind.STATIONARITY, 0.5, 1e-4, "drop", time=0.4321, cause=Kind.STATE_DEPENDENT_JUMP),
     "stationarity 0.5 > 0.0001 (in phase drop; at t = 0.4321 s rates or costs jump where the state crosses a surface: end "
     "a phase there)"),
    (Residual(Kind.COMPLEMENTARITY, math.nan, 1e-3), "complementarity could not be computed"),
    (Residual(Kind.GAP_SEGMENT, 0.01, 2e-3, span=(0.5, 0.75)), "segment re-integration gap 0.01 > 0.002 on [0.5, 0.75] s"),
    (Residual(Kind.GAP_SEGMENT, 0.01, 2e-3, "rise", (0.5, 0.75)),
     "segment re-integration gap 0.01 > 0.002 on [0.5, 0.75] s of phase rise"),
    (Residual(Kind.GAP_SEGMENT, math.nan, 2e-3, time=0.25, cause=Kind.RATES_NOT_FINITE),
     "segment re-integration gap could not be computed (the rates are not finite at t = 0.25 s)"),
    (Residual(Kind.GAP_TOTAL, 0.1, 0.05, cause=Kind.ERROR_GROWTH, data={"open_loop": 30.0, "growth": 345.6}),
     "total re-integration gap 0.1 > 0.05 (open loop 30, errors grow 346-fold)"),
    (Residual(Kind.GAP_TOTAL, 0.1, 0.05, data={"open_loop": 0.1, "growth": 1.0}), "total re-integration gap 0.1 > 0.05"),
    (Residual(Kind.OBJECTIVE, 0.1, 1e-5, cause=Kind.OSCILLATING_COST, data={"reported": 1.5, "integrated": 2.5, "turns": 3183}),
     "objective against its quadrature 0.1 > 1e-05 (1.5 reported, 2.5 integrated along the trajectory; running costs have 3183 "
     "extrema along the motion, which needs as many intervals: use their mean over a period, or shorten the motion)"),
    (Residual(Kind.POINT, math.inf, 1e-8, cause=Kind.SIZES_DIFFER, data={"quantity": "states"}),
     "consistency of the multipliers inf > 1e-08 (in the states; their numbers differ)"),
    (Residual(Kind.OBJECTIVE_ERROR, math.nan, 1e-2, cause=Kind.FINER_SOLVE_FAILED, data={"status": "ITERATION_LIMIT"}),
     "error of the objective could not be computed (the solve on a finer mesh ended: iteration limit)"),
    (Residual(Kind.OBJECTIVE_ERROR, 0.1, 1e-2, data={"finer_objective": 12.25}),
     "error of the objective 0.1 > 0.01 (12.25 on a finer mesh)"),
)

WORST = {"violations": (("goal @ final", 0.25), ("x @ knot 3", 1e-3))}
SAID = (
    (Finding(Kind.SOLVER_STATUS, data={"solver": "ipopt", "status": "Maximum_Iterations_Exceeded", **WORST}),
     "IPOPT: Maximum Iterations Exceeded. Most violated: goal @ final: 0.25; x @ knot 3: 0.001."),
    (Finding(Kind.NO_STEP, data={"solver": "interior_point"}), "interior point: no step makes further progress."),
    (Finding(Kind.LARGEST_VIOLATION, data={"solver": "fatrop", **WORST}), "Most violated: goal @ final: 0.25; x @ knot 3: 0.001."),
    (Finding(Kind.NOT_FINITE, data={"found": (
        Finding(Kind.CONSTRAINT_NOT_FINITE, name="speed"), Finding(Kind.OBJECTIVE_NOT_FINITE))}),
     "speed is not finite; the objective is not finite"),
    (Finding(Kind.NOT_FINITE, data={"found": ()}), "the functions are finite at the last iterate, but not at a trial point"),
    (Finding(Kind.FUNCTION_NOT_FINITE, "rise", "root", "root[x]", 0.5, math.nan,
             data={"term": "constraint", "node": "knot 3", "by": "u", "values": {"x": 1.5, "u": -2.0}}),
     "phase 'rise': the derivative with respect to u of constraint 'root' of root[x] is nan at knot 3 (t = 0.5 s; x = 1.5, "
     "u = -2)"),
    (Finding(Kind.SCALED, name="guess", data={
        "reasons": ("unknowns", "costs"), "columns": (0.5, 4.0), "rows": (), "objective": 8.0}),
     "scaling guess for its unknowns and costs: columns 0.5 to 4, constraints none, objective 8"),
    (Finding(Kind.DURATION_CHOSEN, "rise", value=1.25), "duration of rise = 1.25"),
    (Finding(Kind.DURATION_CHOSEN, value=1.25), "duration = 1.25"),
    (Finding(Kind.ITERATIONS_USED_UP, value=0.034, data={"iterations": 9, "violation": 0.5, "constraint": "wall", "missed": 0.5}),
     "projected gradient 0.034 after 9 iterations; largest violation 0.5 (wall); try --method collocation, which has the "
     "states as unknowns"),
    (Finding(Kind.GRADIENT_CONVERGED, value=1e-7, tolerance=1e-6, data={"cost": 2.5, "solver": "L-BFGS-B", "status": "done"}),
     "projected gradient 1e-07, tolerance 1e-06, cost 2.5"),
    (Finding(Kind.STATE_NOT_FINITE, "rise", "v", time=0.4, value=math.nan, data={
        "states": ("v", "w"), "from": {"v": 1.0, "w": 2.5}, "step": 1,
        "failure": {"why": "the residual is not finite", "t": 0.8, "joint": "elbow", "residual": math.inf}}),
     "step 1: Newton's method finds no solution at t = 0.8 s: the residual is not finite; the residual is inf at joint 'elbow'; a "
     "shorter step may help; state 'v', 'w' becomes nan in the step from t = 0.4 s of phase 'rise' (rollout of the initial guess), "
     "from v = 1, w = 2.5"),
    (Finding(Kind.KERNELS_COMPILED, data={"operations": {"node_cost": 8, "node_rows": 6}}),
     "kernels: compiled node_cost (8 operations), node_rows (6 operations); the rest interpreted"),
    (Finding(Kind.CODE_GENERATED, data={"obstacle": Kind.TIMED_CONSTRAINTS}),
     "execution: generated code instead of loops, because constraints of the robot depend on time, times are free, and they "
     "know no derivatives by time"),
)


def test_every_kind_has_one_sentence():
    worded = [kind for table in TABLES for kind in table]
    assert len(worded) == len(set(worded))
    assert set(worded) == set(Kind)


def test_kinds_of_checks_are_the_names_of_their_tolerances():
    assert {Kind(field.name) for field in dataclasses.fields(Tolerances)} <= set(Kind)


@pytest.mark.parametrize(("check", "words"), CHECKS, ids=range(len(CHECKS)))
def test_a_check_tells_its_value_and_where_it_comes_from(check, words):
    assert sentence(check.finding) == words


@pytest.mark.parametrize(("finding", "words"), SAID, ids=[f"{k} {one.kind}" for k, (one, _) in enumerate(SAID)])
def test_a_finding_of_a_solver_tells_its_data(finding, words):
    assert sentence(finding) == words
    json.dumps(jsonable(finding.record()), allow_nan=False)


def test_an_ending_is_reported_after_that_of_its_program_and_without_violations_by_default():
    program = Finding(Kind.NO_STEP, data={"solver": "ipopt", **WORST})
    found = cart(status=Status.STALLED, ending=Finding(Kind.REFINED_MESH_NOT_SOLVED, data={"program": program}))
    last = sentence(replace(found.ending, data={}))
    assert message(found) == f"{sentence(program)} {last}"
    assert message(found, violations=False) == f"IPOPT: no step makes further progress. {last}"
    assert summarise(found, {})["ending"]["data"]["program"]["kind"] == "no_step"


@pytest.mark.parametrize(("violation", "words"), [
    (Violation("rail", 4e-3, 5e-3, 0.8, "rail[x]", 1e-6), "constraint 'rail' violated by 0.004 > 1e-06 at t = 0.8 s (rail[x])"),
    (Violation("rail", 0.0, 5e-3, 0.8, "rail", 1e-6, False, 1e-4, 0.85, "drop"),
     "constraint 'drop: rail' violated by 0.005 > 0.0001 between knots at t = 0.85 s; a finer mesh helps: more intervals, or "
     "refine: hp")])
def test_a_violation_tells_where_it_is_largest(violation, words):
    assert sentence(violation.finding) == words


@pytest.mark.parametrize(("point", "words"), [
    (Statement(Kind.STRICT_MINIMUM), "a strict local minimum"),
    (Statement(Kind.STRICT_MINIMUM, weak=True), "a strict local (weak) minimum"),
    (Statement(Kind.STRICT_MINIMUM, discrete=(Kind.ACTIVE_CONSTRAINTS, Kind.PIECEWISE_CONSTANT_CONTROLS)),
     "a strict local minimum of the discrete problem (active constraints, piecewise constant controls)"),
    (Statement(Kind.SADDLE, 3, 20), "a saddle point: 3 of 20 free directions have negative curvature"),
    (Statement(Kind.POINT_NOT_EXAMINED), "a point of unknown kind: second-order conditions were not examined")])
def test_kinds_of_points_are_reported(point, words):
    assert sentence(point.finding) == words
    assert point.holds is (point.kind is Kind.STRICT_MINIMUM)


@pytest.mark.parametrize("check", [check for check, _ in CHECKS], ids=range(len(CHECKS)))
def test_a_certificate_comes_back_from_its_record(check):
    """Through JSON, numbers that are not finite included."""
    made = certificate(**{check.kind: check}, second_order=Statement(Kind.SADDLE, 3, 20, (Kind.FLAT_DIRECTIONS,)),
                       violations=(Violation("rail", 0.0, 5e-3, 0.8, "rail", 1e-6, False, 1e-4, 0.85, "drop"),))
    record = json.loads(json.dumps(jsonable(certificate_record(made)), allow_nan=False))
    again = certificate_of(record)
    assert repr(again) == repr(made)  # NaN is not itself
    assert record["failures"] == list(sentences(made.failures)) == list(sentences(again.failures))
    assert [one["kind"] for one in record["findings"]] == [str(one.kind) for one in made.failures]


def test_why_nothing_was_solved_is_reported_with_the_status_and_not_among_the_remarks():
    reach = {"within": (0.0, 0.5), "asked": (1.0, math.inf), "at": "final", "sure": True}
    proof = Finding(Kind.CONSTRAINT_OUT_OF_REACH, "drop", "wall", "wall[x]", data=reach)
    found = cart(status=Status.INFEASIBLE, findings=(proof, Finding(Kind.NOTHING_SOLVED)), certificate=None)
    told = ("No motion exists, whatever the method: phase drop: wall[x] can only be between 0 and 0.5 at the end, by the bounds of "
            "states and controls alone; required is at least 1.")
    assert message(found) == told
    assert ending(found) == f"{STATUSES[Status.INFEASIBLE]} {told}"
    assert remarks(found) == (sentence(Finding(Kind.NOTHING_SOLVED)),)
    assert remarks(found, without=(Kind.NOTHING_SOLVED,)) == ()
    unsure = replace(proof, data={**reach, "sure": False})
    said = Finding(Kind.CERTIFICATE_INCOMPLETE)
    assert message(replace(found, findings=(unsure,), ending=said)) == sentence(said)
    summary = summarise(found, {})
    assert summary["status"]["message"] == told
    assert [one["kind"] for one in summary["findings"]] == ["constraint_out_of_reach", "nothing_solved"]
    assert summary["findings"][0]["data"]["asked"] == [1.0, "Infinity"]


def test_a_certificate_of_an_earlier_version_is_read():
    """It kept words alone: they are told again, and what decides is known from them."""
    def check(name, where=""):
        return {"name": name, "value": 0.5, "tolerance": 1e-3, "where": where, "holds": False}

    jump = "(at t = 0.5 s rates or costs jump where the state passes a place, and what moving that would gain no mesh sees)"
    record = {"stationarity": check("stationarity", jump), "complementarity": check("complementarity"),
              "gap_segment": check("segment re-integration gap", "on [0, 0.1] s"), "gap_total": check("total"),
              "error_estimate": check("defect between knots"), "energy": None,
              "second_order": {"name": "second order", "words": "a saddle: 1 of 20 free directions lead down", "holds": False},
              "violations": [{"name": "drop: rail", "at_knots": 1.0, "between_knots": 1.0, "time": 0.5, "component": "rail",
                              "tolerance": 1e-6, "soft": False, "tolerance_between": 1e-4, "holds": False}]}
    found = certificate_of(record)
    assert found.causes == {Kind.STATE_DEPENDENT_JUMP}
    assert found.second_order.kind is Kind.SADDLE
    assert not found.second_order.holds
    assert sentence(found.stationarity.finding) == f"stationarity 0.5 > 0.001 {jump}"
    assert sentence(found.gap_segment.finding) == "segment re-integration gap 0.5 > 0.001 on [0, 0.1] s"
    assert found.violations[0].label == "drop: rail"
    for words, kind in (("a strict minimum of the discrete problem (constraints push)", Kind.STRICT_MINIMUM),
                        ("a minimum, flat along some directions", Kind.FLAT_MINIMUM), ("a maximum: 1 of 1", Kind.MAXIMUM),
                        ("not examined", Kind.POINT_NOT_EXAMINED)):
        assert certificate_of(record | {"second_order": {"words": words, "holds": True}}).second_order.kind is kind
