"""A live view of a run in the browser (``ocp view``), by viser: the extra ``viz``."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from ocp.app.pages.scene import Scene, decode
from ocp.errors import ProblemError

LINK, BODY, WORLD = (47, 111, 181), (170, 184, 204), (190, 190, 190)
THIN = 0.01  # m, of a link


def scene_of_run(folder: Path) -> tuple[str, Scene]:
    """The name of a run's problem and the motion that its report shows. Raises ProblemError where there is none."""
    report = folder / "report.html"
    if not report.is_file():
        raise ProblemError("is not the folder of a run with a report (no report.html)", where=str(folder))
    text = report.read_text(encoding="utf-8")
    found = re.search(r'<script[^>]*id="scene"[^>]*>(.*?)</script>', text, flags=re.S)
    if found is None:
        raise ProblemError("its report shows no motion", where=str(folder))
    title = re.search(r"<title>(.*?)</title>", text, flags=re.S)
    return html.unescape(title[1].strip()) if title else folder.name, decode(found[1])


class Stage:
    """A scene on a viser server; ``show(frame)`` moves it."""

    def __init__(self, server: Any, scene: Scene):
        self.scene, world = scene, server.scene
        world.set_up_direction("+z")
        world.add_grid("/ground", position=(0.0, 0.0, scene.ground), infinite_grid=True, cell_size=0.1, section_size=0.5)
        around = scene.points.reshape(-1, 3)
        middle, reach = around.mean(axis=0), 1.8 * float(np.ptp(around, axis=0).max()) + 0.1
        server.initial_camera.look_at = tuple(middle)
        server.initial_camera.position = tuple(middle + reach * np.array([0.75, -0.85, 0.45]))
        bodies = {solid.body for solid in scene.solids}
        self._frames = {body: world.add_frame(f"/bodies/{body}", show_axes=False) for body in bodies}
        for k, solid in enumerate(scene.solids):
            triangles = np.array([(f[0], f[i], f[i + 1]) for f in solid.faces for i in range(1, len(f) - 1)])
            world.add_mesh_simple(f"/bodies/{solid.body}/{k}", np.asarray(solid.vertices, np.float32), triangles.astype(np.uint32),
                                  color=BODY if solid.body >= 0 else WORLD, flat_shading=True, side="double")
        self._balls = [(dot.point, world.add_icosphere(f"/balls/{k}", dot.radius, BODY))
                       for k, dot in enumerate(scene.dots) if dot.radius]
        self._pairs = [pair for edge in scene.edges if edge.points[0] not in scene.inside
                       for pair in zip(edge.points[:-1], edge.points[1:], strict=True)]
        self._links = world.add_line_segments("/links", self._segments(0), LINK, thickness=THIN) if self._pairs else None
        for k, point in enumerate(scene.traces):
            world.add_spline_catmull_rom(f"/paths/{k}", scene.points[:, point], color=(217, 129, 44), thickness=THIN / 3)
        self.show(0)

    def _segments(self, frame: int) -> np.ndarray:
        return self.scene.points[frame][np.array(self._pairs)].astype(np.float32)

    def show(self, frame: int) -> None:
        """Set the pose of every body of the scene to that in a frame of the motion."""
        for body, handle in self._frames.items():
            pose = self.scene.pose(frame, body)
            handle.position, handle.wxyz = pose[:3, 3], Rotation.from_matrix(pose[:3, :3]).as_quat()[[3, 0, 1, 2]]
        for point, ball in self._balls:
            ball.position = self.scene.points[frame, point]
        if self._links is not None:
            self._links.points = self._segments(frame)


def view(folder: Path, port: int, say: Callable[[str], None]) -> None:
    """Serve a run until Ctrl-C. Raises ProblemError without viser."""
    try:
        import viser
    except ImportError:
        raise ProblemError('needs viser: pip install "lieocp[viz]"', where="ocp view") from None
    name, scene = scene_of_run(folder)
    server = viser.ViserServer(port=port, label=name, verbose=False)
    stage, t = Stage(server, scene), scene.t
    playing = server.gui.add_checkbox("play", True)
    speed = server.gui.add_slider("speed", min=0.1, max=3.0, step=0.1, initial_value=1.0)
    now = server.gui.add_slider("time [s]", min=float(t[0]), max=float(t[-1]), step=1e-3, initial_value=float(t[0]))
    now.on_update(lambda _: stage.show(int(np.searchsorted(t, now.value).clip(0, len(t) - 1))))
    say(f"{name}: http://localhost:{server.get_port()}  (Ctrl-C ends)")
    try:
        while True:
            time.sleep(1 / 30)
            if playing.value:
                later = now.value + speed.value / 30
                now.value = float(t[0] if now.value >= t[-1] else min(later, t[-1]))
    finally:
        server.stop()
