"""The table of rules stands in the documentation as it is in the code."""

from pathlib import Path

from ocp.app.commands.begin import show
from ocp.strategy.table import RULES

PAGE = Path(__file__).resolve().parents[3] / "ocp" / "docs" / "strategy.md"


def test_the_page_holds_the_table_of_the_code():
    head = ("asked", "rule", "diagnosis", "remedy", "must improve", "at most", "optional")
    rows = [(" or ".join(stage.name.lower() for stage in rule.stages), f"`{rule.name}`", rule.when, rule.does, rule.improves,
             "" if rule.at_most is None else str(rule.at_most), "yes" if rule.optional else "") for rule in RULES]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))
    assert table in PAGE.read_text(encoding="utf-8")


def test_the_command_prints_every_rule(capsys):
    assert show(strategy=True) == 0
    told = capsys.readouterr().out
    assert all(f"  {rule.name}  (" in told and rule.when.split(",")[0] in told for rule in RULES)
