"""Thresholds: each has a reason and a test that exists; converted rooms keep no numbers of their own; a command lists them."""

import ast
import math
from dataclasses import FrozenInstanceError, fields

import pytest
from repository import ROOT

from ocp.app import cli
from ocp.thresholds import RECORDS, thresholds
from ocp.thresholds.record import listed

#: rooms whose numbers that decide are all thresholds
CONVERTED = ("ocp/certify", "ocp/reach", "ocp/explain", "ocp/guesses", "ocp/reductions",
             "ocp/transcription/refine", "ocp/transcription/duration_guard.py", "ocp/transcription/repeated.py", "ocp/strategy")
#: constants that are mathematics or notation
MATHEMATICS = {
    ("ocp/certify/stiff.py", "STAGES"): "of Radau IIA of order 9",
    ("ocp/explain/not_finite.py", "_TIGHT"): "precedence of operators",
    ("ocp/guesses/perturbed.py", "WAVES"): "the basis of perturbations: half waves over a phase",
    ("ocp/transcription/refine/finer_rule.py", "EXTRA_POINTS"): "order of the error: two would do for its leading term",
    ("ocp/transcription/refine/finer_rule.py", "MAX_DECAY"): "stands for infinity: a lower degree holds the function already",
    ("ocp/transcription/refine/margins.py", "NODES_PER_PEAK"): "how far nodes move for a peak between them to move by one",
}
#: constants that are a format: sizes of tables, decimals, and how the same numbers are stored
FORMAT = {
    ("ocp/guesses/sampling.py", "SAMPLES"): "size of a table",
    ("ocp/guesses/sampling.py", "INTERVALS"): "size of a table",
    ("ocp/transcription/refine/criteria.py", "SAMPLES_PER_INTERVAL"): "size of a table",
    ("ocp/transcription/refine/plan.py", "DECIMALS"): "of edges in the text of a mesh",
    ("ocp/transcription/refine/carry.py", "MIN_DENSE_SHARE"): "columns of a matrix that are stored as full ones",
    ("ocp/reductions/algebraic_elimination.py", "MAX_SCALAR_UNKNOWNS"): "graphs of scalars, else of matrices",
}


def functions(path):
    """Names of the tests of a file."""
    return {node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}


def number(node):
    """Whether an expression is a number, or a tuple or arithmetic of numbers."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return number(node.operand)
    if isinstance(node, ast.BinOp):
        return number(node.left) and number(node.right)
    return isinstance(node, ast.Tuple) and bool(node.elts) and all(map(number, node.elts))


def constants(text):
    """Names in capitals of a module that stand for numbers."""
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets if targets and node.value is not None else ():
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            apart = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            values = node.value.elts if apart else [node.value] * len(names)
            yield from (name.id for name, value in zip(names, values, strict=True)
                        if isinstance(name, ast.Name) and name.id.isupper() and number(value))


def numbers(room):
    """(file, name) of the numbers of a room, a folder or one file."""
    paths = [ROOT / room] if room.endswith(".py") else sorted((ROOT / room).rglob("*.py"))
    return [(path.relative_to(ROOT).as_posix(), name) for path in paths for name in constants(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("one", thresholds(), ids=lambda one: f"{one.record}.{one.name}")
def test_every_threshold_has_a_reason_and_a_test(one):
    file, _, name = one.test.partition("::")
    assert (ROOT / file).is_file(), file
    assert name in functions(ROOT / file), one.test
    assert one.why
    assert one.unit
    assert math.isfinite(one.value)
    assert one.value > 0


def test_records_cannot_be_changed_and_have_names_of_their_own():
    names = [type(record).__name__ for record in RECORDS]
    assert len(names) == len(set(names))
    for record in RECORDS:
        with pytest.raises(FrozenInstanceError):
            setattr(record, fields(record)[0].name, 1.0)


@pytest.mark.parametrize("room", CONVERTED)
def test_converted_rooms_keep_no_numbers_of_their_own(room):
    assert [one for one in numbers(room) if one not in MATHEMATICS | FORMAT] == []


def test_all_that_is_let_pass_is_there():
    assert sorted(MATHEMATICS | FORMAT) == sorted(one for room in CONVERTED for one in numbers(room))


@pytest.mark.parametrize(("text", "names"), [("A = 1e-3", ["A"]), ("A, B = 3, -2.5", ["A", "B"]), ("A: int = 2_000", ["A"]),
                                             ("A = 1 - 1e-9", ["A"]), ("A = (1.0, 2.0)", ["A"]), ("a = 1", []), ("A = 'x'", []),
                                             ("A = np.inf", []), ("A, B = f(3)", []), ("A = True", [])])
def test_numbers_in_capitals_are_seen(text, names):
    assert list(constants(text)) == names


def test_every_threshold_is_listed_by_the_command(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["show", "--thresholds"])
    assert ended.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    for one in listed(RECORDS):
        assert one.name in printed, one.name
        assert one.why.split()[0] in printed
    assert "unbounded_duration 1e+30 s" in printed
