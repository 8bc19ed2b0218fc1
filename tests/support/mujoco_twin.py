"""The same robot in MuJoCo, written as MJCF: a free joint at the root only, planar joints as two slides and a hinge."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from dynamics.model import Model


def _numbers(values) -> str:
    return " ".join(f"{x:.17g}" for x in np.ravel(values))


def mjcf(model: Model) -> str:
    """MJCF text; joint names are ours (with a suffix where one of our joints takes several of MuJoCo's)."""

    def joints(i: int) -> str:
        joint = model.bodies[i].joint
        axis = [_numbers(a) for a in joint.axes]
        return {
            "free_flyer": lambda: f'<freejoint name="{joint.name}"/>',
            "spherical": lambda: f'<joint name="{joint.name}" type="ball"/>',
            "revolute": lambda: f'<joint name="{joint.name}" type="hinge" axis="{axis[0]}"/>',
            "continuous": lambda: f'<joint name="{joint.name}" type="hinge" axis="{axis[0]}"/>',
            "prismatic": lambda: f'<joint name="{joint.name}" type="slide" axis="{axis[0]}"/>',
            "universal": lambda: "".join(f'<joint name="{joint.name}_{k}" type="hinge" axis="{axis[k]}"/>' for k in (0, 1)),
            "planar": lambda: (f'<joint name="{joint.name}_x" type="slide" axis="1 0 0"/>'
                               f'<joint name="{joint.name}_y" type="slide" axis="0 1 0"/>'
                               f'<joint name="{joint.name}_z" type="hinge" axis="0 0 1"/>'),
            "fixed": lambda: "",
        }[joint.kind]()

    def body(i: int) -> str:
        b = model.bodies[i]
        quat = Rotation.from_matrix(np.array(b.joint.placement.rotation)).as_quat()[[3, 0, 1, 2]]
        I = np.array(b.inertia.inertia)
        full = _numbers([I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])
        return (f'<body name="{b.name}" pos="{_numbers(b.joint.placement.position)}" quat="{_numbers(quat)}">{joints(i)}'
                f'<inertial pos="{_numbers(b.inertia.com)}" mass="{b.inertia.mass:.17g}" fullinertia="{full}"/>'
                + "".join(body(j) for j in model.children(i)) + "</body>")

    roots = "".join(body(j) for j in model.children(-1))
    return (f'<mujoco><compiler angle="radian" balanceinertia="false"/><option gravity="{_numbers(model.gravity)}"/>'
            f"<worldbody>{roots}</worldbody></mujoco>")
