"""Answers are found on the way that is recorded: the same programs of the same sizes, iterations and endings, the same verdict."""

import json
from importlib import metadata

import pytest
from compare import answer, differences
from record import FOLDERS, HERE, ROOT, SETS, machine, names_of, parse, quick, read, traced

RECORDED = {kind: read(HERE / "recorded" / f"{kind}.txt") for kind in SETS}
#: a second or two each; programs whose iterations do not hang on the last bits of a processor's sums
SAMPLE = (("gallery", "bryson_denham"), ("gallery", "compass_gait"))
#: of objectives and meshes
DIGITS = 6
#: on which sums were rounded as in the recordings; on others iterations and meshes may differ, and only answers are compared
MACHINES = json.loads((HERE / "recorded" / "machines.json").read_text(encoding="utf-8"))


def needs_robots(kind, name):
    return kind in FOLDERS and "robot: robots:" in (ROOT / FOLDERS[kind] / f"{name}.yaml").read_text(encoding="utf-8")


def cases():
    return [pytest.param(kind, name, id=f"{kind} {name}", marks=[] if (kind, name) in SAMPLE else [pytest.mark.slow])
            for kind in SETS for name in RECORDED[kind]]


@pytest.mark.parametrize(("kind", "name"), cases())
def test_the_way_to_the_answer_is_the_recorded_one(kind, name):
    if needs_robots(kind, name) and not list(metadata.distributions(name="example-robot-data")):
        pytest.skip("the robots extra is not installed")
    lines, complaints = traced(kind, name, ROOT)
    whole = MACHINES[kind] == machine() or "capped" in RECORDED[kind][name][-1]
    old, new = ((trace if whole else answer(trace)) for trace in (RECORDED[kind][name], lines))
    assert differences({name: old}, {name: new}, digits=DIGITS) == {}, complaints


@pytest.mark.parametrize("kind", SETS)
def test_every_problem_is_recorded(kind):
    assert list(RECORDED[kind]) == names_of(kind, ROOT)
    assert all(trace[-1].startswith("end ") for trace in RECORDED[kind].values())
    assert set(quick(kind)) <= set(RECORDED[kind])


OLD = """== first
nlp 10 unknowns 5 constraints ipopt CONVERGED 7 iterations objective 1.23456789
mesh 11 knots 0:3*10 1
end CONVERGED certified 7 iterations objective 1.23456789

== second
end capped
"""


@pytest.mark.parametrize(("old", "new", "named"), [
    ("ipopt CONVERGED 7", "ipopt CONVERGED 8", ["first"]), ("certified", "refused", ["first"]),
    ("10 unknowns", "11 unknowns", ["first"]), ("0:3*10", "0:4*10", ["first"]),
    ("nlp 10", "nlp 9 unknowns 1 constraints fatrop\nnlp 10", ["first"]), ("1.23456789", "1.23457789", ["first"]),
    ("1.23456789", "1.23456784", []), ("capped", "CONVERGED", []), ("== first", "== third", []),
])
def test_differences_are_seen(old, new, named):
    assert list(differences(parse(OLD), parse(OLD.replace(old, new)), digits=DIGITS)) == named


@pytest.mark.parametrize(("old", "new", "same"), [
    ("certified 7", "certified 9", True), ("certified", "refused", False), ("1.23456789", "1.5", False), ("first", "first", True),
])
def test_answers_count_no_iterations(old, new, same):
    found = parse(OLD)["first"], parse(OLD.replace(old, new))["first"]
    assert (answer(found[0]) == answer(found[1])) is same


def test_lines_can_be_left_out():
    assert differences(parse(OLD), parse(OLD.replace("0:3*10", "0:4*10")), ignore=("mesh",)) == {}
    assert differences(parse(OLD), parse(OLD.replace("1.23456789", "1.23456784"))) != {}
