"""TSID's step on states that `hqp.py` recorded; run by it, in an environment that has TSID and Pinocchio.

Arguments: URDF, folder (run.npz in, tsid.npz out), points or soles, feet, trunk, torque limit, gain, weight of the posture, joints.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pinocchio as pin
from tsid import tsid_pywrap as tsid

MU, LEAST, MOST = 0.6, 2.0, 5000.0


def main() -> None:
    urdf, folder, touch, feet, trunk, most, gain, posture_weight, joints = sys.argv[1:]
    run, kp = np.load(Path(folder) / "run.npz"), float(gain)**2
    kd = 2.0 * float(gain)
    robot = tsid.RobotWrapper(urdf, [str(Path(urdf).parents[2])], pin.JointModelFreeFlyer(), False)
    model = robot.model()
    names = joints.split(",")
    at = [model.joints[model.getJointId(name)].idx_v - 6 for name in names]

    def state(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own_q, own_v = np.zeros(model.nq), np.zeros(model.nv)
        own_q[:3], own_q[3:6], own_q[6], own_v[:6] = q[:3], q[4:7], q[3], v[:6]
        own_q[7:][at], own_v[6:][at] = q[7:], v[6:]
        return own_q, own_v

    q, v = state(run["q"][0], run["v"][0])
    made = tsid.InverseDynamicsFormulationAccForce("tsid", robot, False)
    made.computeProblemData(0.0, q, v)
    data = made.data()
    contacts = []  # the formulation does not keep them alive
    for foot in feet.split(","):
        pose = robot.framePosition(data, model.getFrameId(foot))
        if touch == "points":
            contact = tsid.ContactPoint(foot, robot, foot, np.array([0.0, 0, 1]), MU, LEAST, MOST)
            contact.setKp(np.zeros(3))
            contact.setKd(20.0 * np.ones(3))
            contact.useLocalFrame(False)
        else:
            corners = np.array([(x, y, 0.0) for x in (0.1, -0.1) for y in (0.06, -0.06)]).T
            contact = tsid.Contact6d(foot, robot, foot, corners, np.array([0.0, 0, 1]), MU, LEAST, MOST)
            contact.setKp(np.zeros(6))
            contact.setKd(20.0 * np.ones(6))
        contact.setReference(pose)
        made.addRigidContact(contact, 1e-8)
        contacts.append(contact)
    com = tsid.TaskComEquality("com", robot)
    com.setKp(kp * np.ones(3))
    com.setKd(kd * np.ones(3))
    made.addMotionTask(com, 1.0, 1, 0.0)
    turn = tsid.TaskSE3Equality("trunk", robot, trunk)
    turn.setKp(kp * np.ones(6))
    turn.setKd(kd * np.ones(6))
    turn.setMask(np.array([0.0, 0, 0, 1, 1, 1]))
    made.addMotionTask(turn, 1.0, 1, 0.0)
    rest = tsid.TaskJointPosture("posture", robot)
    rest.setKp(kp * np.ones(model.nv - 6))
    rest.setKd(kd * np.ones(model.nv - 6))
    made.addMotionTask(rest, float(posture_weight), 1, 0.0)
    bounds = tsid.TaskActuationBounds("limits", robot)
    bounds.setBounds(-float(most) * np.ones(model.nv - 6), float(most) * np.ones(model.nv - 6))
    made.addActuationTask(bounds, 1.0, 0, 0.0)
    held = (tsid.TrajectorySE3Constant("t", robot.framePosition(data, model.getFrameId(trunk))),  # samples belong to them
            tsid.TrajectoryEuclidianConstant("p", q[7:]), tsid.TrajectoryEuclidianConstant("c", run["com"][0][:3]))
    turn.setReference(held[0].computeNext())
    rest.setReference(held[1].computeNext())
    aim = held[2].computeNext()
    solver = tsid.SolverHQuadProgFast("qp")
    solver.resize(made.nVar, made.nEq, made.nIn)
    qs, vs, path = run["q"], run["v"], run["com"]
    count = len(qs)
    busy, failed = np.empty(count), 0
    for k in range(count):
        q, v = state(qs[k], vs[k])
        begin = time.process_time_ns()
        aim.value(path[k, :3])
        aim.derivative(path[k, 3:6])
        aim.second_derivative(path[k, 6:])
        com.setReference(aim)
        answer = solver.solve(made.computeProblemData(k * 1e-3, q, v))
        torque = made.getActuatorForces(answer)
        busy[k] = time.process_time_ns() - begin
        failed += answer.status != 0 or not np.isfinite(torque).all()
    print(made.nVar, made.nEq, made.nIn, np.median(busy) * 1e-3, failed)
    np.savez(Path(folder) / "tsid.npz", busy=busy, failed=failed)


if __name__ == "__main__":
    main()
