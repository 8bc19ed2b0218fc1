"""A mechanism from the file of a robot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dynamics.errors import ModelError
from dynamics.mechanism.mechanism import Mechanism, direct_motors
from dynamics.model.urdf import read_urdf


def read_mechanism(path: str | os.PathLike[str], **options: Any) -> Mechanism:
    """The robot of a .urdf or .xml (MJCF) file with its drives and forces.

    URDF: a motor at every joint that can have one, limited as the file says. MJCF: its actuators, springs and tendons.
    options: those of ``read_urdf``; of MJCF only ``gravity``. Raises ModelError.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".urdf":
        model = read_urdf(path, **options)
        return Mechanism(model, direct_motors(model))
    if suffix != ".xml":
        raise ModelError(f"expected a .urdf or .xml file, got {str(path)!r}")
    from dynamics.mechanism.mjcf import read_mjcf_mechanism  # MuJoCo is an extra

    return read_mjcf_mechanism(path, **options)
