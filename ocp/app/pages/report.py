"""The report of a run: one HTML page that needs no network and no other file.

Made from plain records only (the summary, the iteration log, pictures, a scene), so that it can be made again from a
run folder. Names and texts are the user's: the template escapes everything, and a content-security policy lets no
script run but the page's own player.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ocp.app.pages.folders import write_summary
from ocp.app.pages.iterations import cell, columns, highlighted
from ocp.app.pages.scene import Scene, encode

TEMPLATES = Path(__file__).parent / "templates"
NO_SCENE = "No animation: the system has neither a robot model nor a drawing."

# the meaning of each check of the certificate, in one sentence
MEANING = {
    "stationarity": "Gradient of the Lagrangian, and the decrease of the objective by one more Newton step.",
    "complementarity": "Products of multipliers and slacks, relative to the objective.",
    "gap_segment": "Each segment, integrated again by an independent method, ends at the next knot.",
    "gap_total": "The whole motion, integrated again in open loop, ends at the final state, relative to the growth of errors.",
    "error_estimate": "Discretisation error: the residual of the dynamics between knots.",
    "energy": "The change of energy equals the work supplied.",
    "objective": "The objective equals an independent quadrature of its terms along the trajectory.",
    "point": "Trajectory, objective and multipliers belong to one point.",
    "minimum_principle": "At many times, no other admissible control has a smaller Hamiltonian; the gain by those that have one.",
    "objective_error": "Error bound of the objective against the continuous problem, from a finer mesh.",
}
CAPTIONS = {
    "states": ("States", "Lines: the method's own interpolant. Dots: knots. Shaded: forbidden by a bound."),
    "controls": ("Controls", "Lines: the method's own interpolant. Dots: control times. Shaded: forbidden by a bound."),
    "contacts": ("Contacts", "When feet stand, how high the others are, forces of the ground, and where it presses. A dot marks "
                 "where the centre of pressure of a phase begins."),
    "constraints": ("Constraints", "Each named constraint with its bounds. Red: violated by more than its tolerance."),
    "certificate": ("Certificate", "Each residual over its tolerance. Right of the line means that it does not hold."),
    "convergence": ("Convergence", "The iteration log, drawn."),
}


def render_report(summary: Mapping[str, Any], iterations: Sequence[Mapping[str, Any]], *, problem_yaml: str,
                  images: Mapping[str, bytes], scene: Scene | None = None, scene_note: str = "") -> str:
    """The page as text. ``summary`` as :func:`ocp.app.pages.results.summarise` makes it; images: PNG by name."""
    log = highlighted(iterations)
    chosen = columns(str(summary["method"]), log)
    page = environment().get_template("report.html.j2").render(
        s=summary, title=summary["problem"]["name"],
        checks=[{**check, "meaning": meaning, "largest": "span" in check.get("data", {})} for key, meaning in MEANING.items()
                if (check := (summary["certificate"] or {}).get(key)) is not None],
        violations=[] if summary["certificate"] is None else [
            {"label": v["name"], **v} for v in summary["certificate"]["violations"]],  # runs of earlier versions have no label
        headings=[c.title for c in chosen],
        rows=[[cell(c, row) for c in chosen] for row in log],
        facts=[(key, value) for key, value in summary["provenance"].items()],
        problem_yaml=problem_yaml,
        figures=figures(images, CAPTIONS),
        **motion(scene, scene_note),
    )
    return str(page)


def write_report(folder: Path, template: str, summary: Mapping[str, Any], images: Mapping[str, bytes],
                 captions: Mapping[str, tuple[str, str]], **more: Any) -> None:
    """The pictures of a folder, the page of a template with them, and, last, the summary. more: variables of the template."""
    for name, data in images.items():
        (folder / f"{name}.png").write_bytes(data)
    page = environment().get_template(template).render(s=summary, figures=figures(images, captions),
                                                       facts=list(summary["provenance"].items()), **more)
    (folder / "report.html").write_text(page, encoding="utf-8")
    write_summary(folder, summary)


def figures(images: Mapping[str, bytes], captions: Mapping[str, tuple[str, str]]) -> list[tuple[str, str, str, str]]:
    """(name, title, caption, PNG as text) of each picture."""
    return [(name, *captions.get(name, (name, "")), base64.b64encode(data).decode("ascii")) for name, data in images.items()]


def environment(folder: Path = TEMPLATES, markup: bool = True, **filters: Any) -> Any:
    """The Jinja environment of a folder of templates: a missing value is an error, and in markup everything from a user is escaped.
    filters: by name, besides those for numbers and nested data."""
    import jinja2

    made = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=markup, trim_blocks=True, lstrip_blocks=True,
                              undefined=jinja2.StrictUndefined, keep_trailing_newline=not markup)
    made.filters |= {"number": number, "text": _text, **filters}
    return made


def motion(scene: Scene | None, note: str = "") -> dict[str, Any]:
    """Data for the section with the animation and for the player; ``note`` says why there is no scene."""
    from markupsafe import Markup

    return {
        "scene": None if scene is None else Markup(encode(scene)),  # encoded without "<"
        "scene_kind": "" if scene is None else scene.kind,
        "scene_notes": scene.notes if scene is not None else (note or NO_SCENE,),
        "has_labels": scene is not None and bool(scene.labels), "has_traces": scene is not None and bool(scene.traces),
        **({} if scene is None else script("player.js")),
    }


def script(name: str) -> dict[str, str]:
    """The one script of a page, and its hash, which the page's security policy names."""
    from markupsafe import Markup

    text = (TEMPLATES / name).read_text(encoding="utf-8")
    return {"player": Markup(text), "player_hash": base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")}


def number(value: Any, digits: int = 6) -> str:
    """A number for reading: significant digits, a true minus sign, and words for what is not finite."""
    if value is None:
        return "—"
    x = float(value)
    if x != x:
        return "not a number"
    if abs(x) == float("inf"):
        return "∞" if x > 0 else "−∞"
    return f"{x:.{digits}g}".replace("-", "−")


def _text(value: object) -> str:
    """Nested plain data on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_text(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(v) for v in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "—" if value is None else str(value)
