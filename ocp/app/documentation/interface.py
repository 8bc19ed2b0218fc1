"""The page of the interface: what `import ocp` and `import dynamics` offer, by Sphinx's autodoc."""

import importlib

MODULES = (
    "ocp",
    "ocp.problem.problem",
    "ocp.problem.solution",
    "ocp.bridge",
    "ocp.methods",
    "ocp.solvers.hqp",
    "ocp.control.whole_body",
    "dynamics",
    "dynamics.functions",
    "dynamics.mechanism",
    "dynamics.forces",
    "dynamics.constraints",
    "dynamics.kernels",
    "dynamics.loops",
)


def interface_page() -> str:
    """The page as MyST; modules that a release does not have are left out."""
    parts = ["# Interface\n"]
    for name in MODULES:
        members = getattr(importlib.import_module(name), "__all__", None)
        listed = f"   :members: {', '.join(members)}\n" if members else "   :members:\n"
        parts.append(f"## `{name}`\n\n```{{eval-rst}}\n.. automodule:: {name}\n{listed}   :no-index:\n```\n")
    return "\n".join(parts)
