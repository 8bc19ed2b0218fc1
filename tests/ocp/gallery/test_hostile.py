"""Files made to win a certificate that they do not deserve, and twins that do: the verdict on each is the deserved one."""

from collections import Counter

import hostile
import pytest

from ocp.app.files.load import load_text
from ocp.methods import solve

CASES = hostile.cases()
NAMED = sum(1 for _ in hostile.named())
#: of the generated cases every so many runs each time, all others are slow; hostile ones and twins alternate
QUICK = 5


def marks(i, case):
    long = case.family == "tiny cost" or "ilqr" in case.name
    return [pytest.mark.slow] if long or (i >= NAMED and i % QUICK) else []


def answer(case):
    """(certified, objective, what the certificate says) of the file's own method and options."""
    loaded = load_text(case.text)
    solution = solve(loaded.problem, loaded.method, loaded.method_options)
    failures = () if solution.certificate is None else solution.certificate.failures
    return solution.ok, solution.objective, solution.status, failures


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name, marks=marks(i, c)) for i, c in enumerate(CASES)])
@pytest.mark.sample(16)
def test_the_verdict_is_the_deserved_one(case):
    ok, objective, status, failures = answer(case)
    said = f"deserves to be {case.verdict} ({case.reason}; {case.optimum}), got ok = {ok}, {objective!r}, {status}, {failures}"
    assert case.deserves(ok, objective), said


def test_neither_verdict_alone_passes():
    """About half of the cases deserve a certificate: one that refuses all, or none, fails."""
    count = Counter(case.verdict for case in CASES)
    assert sum(count.values()) >= 120
    assert min(count.values()) >= 0.4 * sum(count.values())
