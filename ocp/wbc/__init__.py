"""Whole-body control in closed loop: tasks by priority and contacts by schedule, against any plant."""

from ocp.wbc.closed_loop import run
from ocp.wbc.paths import Path, constant, moving
from ocp.wbc.result import ContactRecord, Ending, Note, WholeBodyRun
from ocp.wbc.setup import Assignment, ContactPlan, Setup, Switch

__all__ = ["Assignment", "ContactPlan", "ContactRecord", "Ending", "Note", "Path", "Setup", "Switch", "WholeBodyRun", "constant",
           "moving", "run"]
