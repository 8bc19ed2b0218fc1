"""Robots that nobody tuned a problem for: a file without options is solved and certified, and holds by an independent road."""

import casadi as ca
import numpy as np
from scipy.integrate import solve_ivp

from ocp.app.files.load import load_text
from ocp.methods import solve

CRANE = """<robot name="crane">
  <link name="rail"/>
  <link name="trolley"><inertial><mass value="5"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="drum"><inertial><mass value="0.2"/>
    <inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="load"><inertial><mass value="10"/>
    <inertia ixx="0.2" iyy="0.2" izz="0.2" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="drive" type="prismatic"><parent link="rail"/><child link="trolley"/><axis xyz="1 0 0"/>
    <limit lower="-5" upper="5" effort="200" velocity="3"/></joint>
  <joint name="swing" type="continuous"><parent link="trolley"/><child link="drum"/><axis xyz="0 -1 0"/></joint>
  <joint name="winch" type="prismatic"><parent link="drum"/><child link="load"/><axis xyz="0 0 -1"/>
    <limit lower="0.5" upper="4" effort="300" velocity="2"/></joint>
</robot>
"""
CRANE_FILE = """name: Crane
system:
  robot: crane.urdf
  actuated: [drive, winch]
phase:
  duration: 4
  start: {joints: {drive: 0, swing: 0, winch: 2}, rest: true}
  final: {joints: {drive: 3, swing: 0, winch: 1}, rest: true}
  costs: [{name: effort, running: "(drive**2 + winch**2)/100"}]
"""


def solved(tmp_path, robot, text):
    """The certified solution of a file beside its robot, by whatever is the default."""
    name = text.split("robot: ")[1].split()[0]
    (tmp_path / name).write_text(robot)
    solution = solve(load_text(text, tmp_path).problem)
    assert solution.ok, (solution.ending, solution.certificate.failures)
    return solution


def crane_rate():
    """Lagrange's equations of trolley, cable and load in (x, angle, length), written by hand: a function of (y, u)."""
    q, w, u = ca.SX.sym("q", 3), ca.SX.sym("w", 3), ca.SX.sym("u", 2)
    x, angle, length = ca.vertsplit(q)
    load = ca.vertcat(x + length * ca.sin(angle), -length * ca.cos(angle))
    speed = ca.jtimes(load, q, w)
    L = 0.5 * (5.2 * w[0]**2 + 0.201 * w[1]**2 + 10 * ca.dot(speed, speed)) - 10 * 9.81 * load[1]
    p = ca.gradient(L, w)
    force = ca.vertcat(u[0], 0, u[1])
    a = ca.solve(ca.jacobian(p, w), force + ca.gradient(L, q) - ca.jtimes(p, q, w))
    return ca.Function("crane", [ca.vertcat(q, w), u], [ca.vertcat(w, a)])


def test_a_crane_swings_its_load(tmp_path):
    solution = solved(tmp_path, CRANE, CRANE_FILE)
    found, rate = solution.trajectory, crane_rate()
    t = found.t
    ends = solve_ivp(lambda s, y: np.asarray(rate(y, found.control(s))).ravel(), (t[0], t[-1]), found.x[0], rtol=1e-9, atol=1e-10,
                     max_step=0.02)
    np.testing.assert_allclose(ends.y[:, -1], [3, 0, 1, 0, 0, 0], atol=2e-2)
    np.testing.assert_allclose(found.x[-1], [3, 0, 1, 0, 0, 0], atol=1e-8)
    assert np.abs(found.x[:, 1]).max() > 0.1  # it does swing
