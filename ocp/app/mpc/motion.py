"""What the report of a closed loop animates: the plant's motion, and beside a robot the point it should follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ocp.app.files.load import LoadedProblem
from ocp.app.pages.scene import Dot, Scene, frame_times, scene_from_drawing, scene_from_model
from ocp.app.pipeline import body_poses, drawn
from ocp.mpc import ClosedLoop


def loop_scene(loaded: LoadedProblem, loop: ClosedLoop) -> tuple[Scene | None, str]:
    """The scene, or None and a sentence that says why there is none."""
    good = np.flatnonzero(np.isfinite(loop.fine_x).all(axis=1))
    if len(good) < 2:
        return None, "There is no motion to animate."
    t, x = loop.fine_t[good], loop.fine_x[good]
    u = loop.fine_u[np.minimum(good, len(loop.fine_u) - 1)]
    pick = np.clip(np.searchsorted(t, frame_times(float(t[0]), float(t[-1]))), 0, len(t) - 1)
    system = loop.problem.phase.system
    if system.model is not None:
        q = x[pick, : system.model.nq]
        scene = scene_from_model(drawn(system), t[pick], q, body_poses(drawn(system), q))
        for item in loop.tracking:
            if item.value.shape[1] == 3 and item.unit == "m":
                scene = _with_target(scene, item.reference[pick][: len(scene.t)])
        return scene, ""
    if loaded.drawing is not None:
        return scene_from_drawing(loaded.drawing, t[pick], x[pick], u[pick], system.parameter_values), ""
    return None, "The problem has neither a robot nor a drawing section, so there is nothing to animate."


def _with_target(scene: Scene, points: np.ndarray) -> Scene:
    """The scene with one more point [frames, 3] that moves along a reference."""
    number = scene.points.shape[1]
    return replace(scene, points=np.concatenate([scene.points, points[:, None, :]], axis=1),
                   dots=(*scene.dots, Dot(number, 0.02, "target")), traces=(*scene.traces, number))
