"""Sphinx's settings of the website."""

import re
from importlib.metadata import version as installed
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

project = "lieocp"
author = "The lieocp authors"
version = release = installed("lieocp")
extensions = ["myst_nb", "sphinx.ext.autodoc"]
html_theme = "furo"
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_static_path = ["narrow.css"]
html_css_files = ["narrow.css"]
html_math_renderer = "mathml"
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
    """Docstrings are plain text with code between backticks: asterisks and pipes are literal."""
    lines[:] = [re.sub(r"(`[^`]*`)|([*|])", lambda found: found[1] or "\\" + found[2], line) for line in lines]


def inline_math(page: HTML5Translator, node: nodes.math) -> None:
    """Equations as MathML, which browsers typeset without a network."""
    page.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block_math(page: HTML5Translator, node: nodes.math_block) -> None:
    """Displayed equations; wide ones scroll."""
    typeset = convert(node.astext().strip(), display="block")
    page.body.append(f'<div class="math" style="overflow-x: auto; margin: 0.8em 0">{typeset}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    app.connect("autodoc-process-docstring", plain)
