"""Sphinx's settings of the website."""

import re
from importlib.metadata import version as installed

from sphinx.application import Sphinx

project = "lieocp"
author = "The lieocp authors"
version = release = installed("lieocp")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
html_theme = "furo"
html_title = f"lieocp {version}"
exclude_patterns = ["ocp/docs/tutorials/problems"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
suppress_warnings = ["toc.not_included"]


def plain(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with code between backticks: stars and bars are themselves."""
    lines[:] = [re.sub(r"(`[^`]*`)|([*|])", lambda found: found[1] or "\\" + found[2], line) for line in lines]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", plain)
