"""The table of rules stands in the documentation as it is in the code."""

from pathlib import Path

from ocp.app.commands.begin import show
from ocp.app.pages.tables import rule_table
from ocp.strategy.table import RULES

PAGE = Path(__file__).resolve().parents[3] / "ocp" / "docs" / "strategy.md"


def test_the_page_holds_the_table_of_the_code():
    assert rule_table() in PAGE.read_text(encoding="utf-8")


def test_the_command_prints_every_rule(capsys):
    assert show(strategy=True) == 0
    told = capsys.readouterr().out
    assert all(f"  {rule.name}  (" in told and rule.when.split(",")[0] in told for rule in RULES)
