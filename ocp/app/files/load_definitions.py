"""Named expressions under ``system.define``: each may use those above it, and everything below may use them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ocp.app.files.load_parts import Reader, check_name


def read_definitions(reader: Reader, define: Mapping[str, Any]) -> Reader:
    """The reader with the definitions in its scope; a wrong one is recorded, and what uses it stays silent."""
    order = list(define)
    for i, (name, text) in enumerate(define.items()):
        later = dict.fromkeys(order[i:], "it is defined later; a definition may only use those above it")
        inner = replace(reader, scope=replace(reader.scope, unavailable={**reader.scope.unavailable, **later}))
        value = inner.expression(text, (*reader.place, "define", name))
        scope = reader.scope
        if value is None:
            scope = replace(scope, broken=scope.broken | {name})
        else:
            scope = replace(scope, names={**scope.names, name: value})
        defined = reader.defined if value is None else {**reader.defined, name: value}
        reader = replace(reader, scope=scope, defined=defined)
    return reader


def read_robot_definitions(reader: Reader, define: Mapping[str, Any], reserved: Sequence[str]) -> Reader:
    """As :func:`read_definitions`, where names have not been checked yet: beside constants and plain controls, ``reserved`` are
    taken."""
    taken = dict.fromkeys(reader.scope.names, "the controls") | {name: f"constants.{name}" for name in reader.constants.names}
    before = len(reader.findings.found)
    for name in define:
        check_name(reader.findings, name, (*reader.place, "define", name), taken, reserved)
    if len(reader.findings.found) > before:
        return reader
    reasons = dict.fromkeys(define, "it is defined from states; only numbers and constants can")
    constants = replace(reader.constants, unavailable={**reader.constants.unavailable, **reasons})
    return read_definitions(replace(reader, constants=constants), define)
