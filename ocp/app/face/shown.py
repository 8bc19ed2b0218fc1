"""The common interface of results in Python: pictures, an animation, a report, tables in notebooks, values by name; and
explanations."""

from __future__ import annotations

import base64
import html
import io
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamics.errors import near
from ocp.app.face.document import written_at
from ocp.errors import ProblemError
from ocp.pickles import Portable

if TYPE_CHECKING:
    from rich.console import Console

    from ocp.app.pages.scene import Scene


@dataclass(frozen=True)
class Picture:
    """A picture that notebooks show; ``save(path)`` writes it."""

    name: str
    data: bytes = field(repr=False)

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file; returns its path."""
        place = Path(path)
        place.write_bytes(self.data)
        return place

    def _repr_png_(self) -> bytes:
        return self.data


@dataclass(frozen=True)
class Pictures:
    """Pictures by name, shown one below the other in notebooks; ``save(folder)`` writes them as PNG files."""

    pictures: tuple[Picture, ...]

    def __getitem__(self, name: str) -> Picture:
        found = {picture.name: picture for picture in self.pictures}
        if name not in found:
            raise ProblemError(f"no picture named {name!r}{near(name, found)}")
        return found[name]

    def save(self, folder: str | Path) -> Path:
        """Write all pictures to a folder; returns it."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for picture in self.pictures:
            picture.save(place / f"{picture.name}.png")
        return place

    def __repr__(self) -> str:
        return f"Pictures: {', '.join(picture.name for picture in self.pictures)}; save(folder) writes them"

    def _repr_html_(self) -> str:
        images = {p.name: base64.b64encode(p.data).decode() for p in self.pictures}
        return "".join(f'<img alt="{name}" src="data:image/png;base64,{data}">' for name, data in images.items())


@dataclass(frozen=True)
class Page:
    """A web page without dependencies; notebooks show it, ``save(path)`` writes it."""

    html: str = field(repr=False)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file; returns its path."""
        place = Path(path)
        place.write_text(self.html, encoding="utf-8")
        return place

    def _repr_html_(self) -> str:
        text = self.html.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{text}" style="width:100%;height:560px;border:0" sandbox="allow-scripts"></iframe>'


class Shown(Portable, ABC):
    """A result. Each kind defines its title, pictures, scene, how notebooks show it, and how it is written."""

    @abstractmethod
    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the folder that the command of the same name writes; returns it. Raises ProblemError where one is already."""

    @abstractmethod
    def _pictures(self) -> Mapping[str, bytes]: ...

    @abstractmethod
    def _scene(self) -> tuple[Scene | None, str]:
        """What is animated, with words about it; or None and why there is nothing."""

    @abstractmethod
    def _title(self) -> str: ...

    @abstractmethod
    def _repr_html_(self) -> str: ...

    def plot(self) -> Pictures:
        """The pictures of the report, by name."""
        return Pictures(tuple(Picture(name, data) for name, data in self._pictures().items()))

    def animate(self) -> Page:
        """The motion as a page that plays it. Raises ProblemError where there is nothing to draw."""
        from ocp.app.pages.report import environment, motion

        scene, words = self._scene()
        if scene is None:
            raise ProblemError(words, where=written_at())
        template = environment().get_template("animation.html.j2")
        return Page(template.render(title=self._title(), **motion(scene, words)))

    def report(self) -> Page:
        """The whole report: verdict, figures, tables, pictures and the motion."""
        with tempfile.TemporaryDirectory() as folder:
            return Page((self.save(Path(folder) / "run") / "report.html").read_text(encoding="utf-8"))


def as_printed(tell: Callable[[Console], None]) -> str:
    """The output of a command, for notebooks."""
    from rich.console import Console

    out = io.StringIO()
    tell(Console(file=out, width=140, highlight=False))
    return as_text(out.getvalue().strip())


def as_text(text: str) -> str:
    """Words as they stand, for notebooks."""
    return f"<pre>{html.escape(text)}</pre>"


def column(name: Any, states: tuple[str, ...], controls: tuple[str, ...]) -> tuple[str, int]:
    """``"x"`` or ``"u"``, and the column of a state or control. name: as files say it, ``q["joint"]``, ``tau["joint"]``, ``x``, or
    as a problem in Python holds it. Raises ProblemError with what is near."""
    text = str(name)
    if text[:3] in ('q["', 'v["') and text.endswith('"]'):
        text = f"{text[0]}.{text[3:-2]}"
    text = text[5:-2] if text.startswith('tau["') and text[5:-2] in controls else text
    for which, names in (("x", states), ("u", controls)):
        if text in names:
            return which, names.index(text)
    raise ProblemError(f"no state or control named {text!r}{near(text, (*states, *controls))}", where=written_at())


@dataclass(frozen=True, repr=False)
class Explanation:
    """The report as text, printed as it stands. named: whether a cause, or the price of every constraint, is named."""

    text: str = field(repr=False)
    named: bool

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return as_text(self.text)


def explained(save: Callable[[Path], Path], name: str) -> Explanation:
    """The explanation of a problem file, or of the folder of a run, which ``save`` writes under this name."""
    from rich.console import Console

    from ocp.app.explain.run import EXPLAINED, explain

    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        code = explain(save(Path(folder) / name), quiet=True, console=Console(file=out, width=140, highlight=False))
    return Explanation(out.getvalue().strip("\n"), code == EXPLAINED)
