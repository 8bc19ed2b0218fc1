"""Numbers of robots as parameters in files: the robot that they make, and what is refused."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from dynamics.forces import JointSpring
from dynamics.mechanism import Mechanism
from dynamics.model.model import Placement
from ocp.app.files.load import load_problem
from ocp.errors import ProblemError

TEXT = (ROOT / "problems/spring_arm_design.yaml").read_text().replace("models/", f"{ROOT}/problems/models/")


def test_the_system_is_the_robot_built_with_these_numbers():
    """Accelerations and frames, against a mechanism whose joint stands elsewhere and whose springs are others."""
    phase = load_problem(ROOT / "problems/spring_arm_design.yaml").problem.phase
    system, model = phase.system, phase.system.model
    elbow = model.joint_index("elbow")
    body = model.bodies[elbow]
    place = Placement(body.joint.placement.rotation, (0.0, 0.0, -1.2))
    bodies = tuple(replace(b, joint=replace(b.joint, placement=place)) if i == elbow else b for i, b in enumerate(model.bodies))
    robot = replace(model, bodies=bodies)
    given = load_problem(ROOT / "problems/acrobot.yaml").problem.phase.system.mechanism
    forces = (JointSpring("a", "shoulder", 7.0, (1.2,)), JointSpring("b", "elbow", 3.0, (0.6,)))
    mechanism = Mechanism(robot, (), forces=forces)
    rng = np.random.default_rng(1)
    q, v = rng.normal(size=(2, 2))
    v[0] = 0.0  # no speed in the shoulder's bearing, whose damper is not built here
    found = np.asarray(system.rate(0, np.r_[q, v], [0, 0], [0.2, 7.0, 3.0])).ravel()[2:]
    np.testing.assert_allclose(found, np.asarray(mechanism.forward_dynamics(ca.DM(q), ca.DM(v), ca.DM(0, 1))).ravel(), rtol=1e-9)
    assert given.model.nv == 2
    target = next(c for c in phase.costs if c.name == "target").function
    tip = -1.2 * np.sin(q[0]) - np.sin(q.sum()), -1.2 * np.cos(q[0]) - np.cos(q.sum())
    assert float(target(0, np.r_[q, v], [0, 0], [0.2, 7.0, 3.0])) == pytest.approx(100 * ((tip[0] + 1.6) ** 2 + tip[1] ** 2))


@pytest.mark.parametrize(("old", "new", "words"), [
    ("{parameter: longer, length: {joint: elbow,", "{parameter: longr, length: {joint: elbow,", "longer"),
    ("length: {joint: elbow,", "length: {joint: elbw,", "elbow"),
    ("force: {name: shoulder spring, field: stiffness}", "force: {name: shoulder sprig, field: stiffness}", "shoulder spring"),
    ("force: {name: shoulder spring, field: stiffness}", "force: {name: shoulder spring, field: level}",
     r"no numeric field 'level' \(known: stiffness\)"),
    ("axis: [0, 0, -1]", "axis: [0, 0, 0]", "length.axis: the axis is zero"),
    ("{value: 5, optimise: [0, 40]}", "{value: 5, optimise: [-3, 40]}",
     r"parameters.shoulder_stiffness.optimise: force 'shoulder spring': stiffness must be finite and at least 0, got -3"),
    ("{value: 5, optimise: [0, 40]}", "-2", "shoulder_stiffness.*stiffness must be finite and at least 0, got -2"),
    ("length: {joint: elbow, axis: [0, 0, -1]}", "inertia: {body: lower, component: mass}", None),
    ("  design:", "  formulation: residual\n  design:", "forward_dynamics"),
])
def test_what_a_robot_does_not_have_is_refused(tmp_path, old, new, words):
    path = tmp_path / "design.yaml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new, 1))
    if words is None:  # all is well until the bounds allow what no body has
        load_problem(path)
        path.write_text(TEXT.replace(old, new, 1).replace("[-0.3, 0.3]", "[-1.3, 0.3]"))
        words = r"longer.optimise: body 'lower': mass must not be negative: 1 kg and -1.3 kg"
    with pytest.raises(ProblemError, match=words):
        load_problem(path)
