"""The printed numbers of Sueda, Analytically Differentiable Articulated Rigid Body Dynamics, sections 1.3 to 1.5.

The document stacks twists as [angular; linear]; ``flip`` takes them to the order of this package and back.
"""

import casadi as ca
import numpy as np
import pytest
from scipy.linalg import expm

from dynamics import algorithms as alg
from dynamics.algorithms.contact_kinematics import Contact, contact_jacobian
from dynamics.lie import se3
from dynamics.model import BodyInertia, Builder, Joint

flip = np.r_[3:6, 0:3]
FLIP = np.eye(6)[flip]


def pose(E):
    return se3.from_matrix(np.asarray(E, float))


def matrix(H):
    return np.array(ca.DM(se3.to_matrix(H)))


@pytest.mark.row("003:M05")
def test_exponential_and_logarithm_of_a_random_pose():
    E = np.array([[-0.7372, -0.2659, 0.6211, 0.6877], [-0.1676, -0.8186, -0.5493, 0.3886], [0.6545, -0.5091, 0.5589, 0.9371],
                  [0, 0, 0, 1]])
    bracket = np.array([[0, -2.7242, -0.9257, 1.3245], [2.7242, 0, -1.1157, -0.6727], [0.9257, 1.1157, 0, 0.3156], [0, 0, 0, 0]])
    xi = np.r_[bracket[:3, 3], bracket[2, 1], bracket[0, 2], bracket[1, 0]]
    ours = matrix(se3.exp(xi))
    np.testing.assert_allclose(ours, E, atol=1.5e-4)  # four printed digits
    np.testing.assert_allclose(ours, expm(bracket), atol=1e-12)
    # the angle is 3.09 rad: so near pi the logarithm of four digits is good to three
    np.testing.assert_allclose(np.array(ca.DM(se3.log(pose(E)))).ravel(), xi, atol=2e-3)
    np.testing.assert_allclose(np.array(ca.DM(se3.log(se3.exp(xi)))).ravel(), xi, atol=1e-11)


@pytest.mark.row("003:M03")
def test_pose_rate_by_differences_and_by_the_bracket():
    E = np.array([[-0.9227, -0.3845, -0.0274, -0.5020], [0.2865, -0.6364, -0.7162, 0.4564], [0.2579, -0.6687, 0.6973, -1.5617],
                  [0, 0, 0, 1]])
    phi = np.array([-0.1285, 1.2666, 0.8058, -0.6903, -0.5538, -0.1246])
    printed = np.array([[-0.2751, 0.7470, -1.2181, 0.8533], [0.3944, -0.1388, 0.2811, 0.2439], [-1.4221, -0.2974, 0.2408, 0.1054],
                        [0, 0, 0, 0]])
    xi, dt = phi[flip], 1e-6
    analytic = E @ np.array(ca.DM(se3.hat(xi)))
    steps = [E @ matrix(se3.exp(s * dt * xi)) for s in (1, -1)]
    np.testing.assert_allclose(analytic, printed, atol=1.5e-4)
    np.testing.assert_allclose((steps[0] - steps[1]) / (2 * dt), analytic, atol=1e-9)


@pytest.mark.row("003:M07")
def test_material_jacobian():
    b = Builder("body")
    b.body("body", parent="world", joint=Joint("base", "free_flyer"), inertia=BodyInertia(1.0, (0.0, 0.0, 0.0), (
        (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))))
    model = b.build()
    contact = [Contact("body", (1.0, 0.0, 0.0))]
    G = np.array(ca.DM(contact_jacobian(model, alg.neutral(model), contact))) @ FLIP.T
    np.testing.assert_allclose(G, [[0, 0, 0, 1, 0, 0], [0, 0, 1, 0, 1, 0], [0, -1, 0, 0, 0, 1]], atol=1e-15)
    np.testing.assert_allclose(G @ [0, 0, 0, 1, 0, 0], [1, 0, 0], atol=1e-15)
    np.testing.assert_allclose(G @ [0, 0, 1, 0, 0, 0], [0, 1, 0], atol=1e-15)
    # at any pose J = R G, and a point force does the same power as its wrench
    rng = np.random.default_rng(0)
    q, v, f = alg.random_configuration(model, rng), rng.standard_normal(6), rng.standard_normal(3)
    J = np.array(ca.DM(contact_jacobian(model, q, contact)))
    R = np.array(ca.DM(alg.frame_pose(model, q, "body").R))
    np.testing.assert_allclose(J @ FLIP.T, R @ G, atol=1e-14)
    h, tip = 1e-6, []
    for step in (h * v, -h * v):
        H = alg.frame_pose(model, alg.integrate(model, q, step), "body")
        tip.append(np.array(H.p + H.R @ ca.DM([1, 0, 0])))
    speed = (tip[0] - tip[1]).ravel() / (2 * h)
    assert f @ speed == pytest.approx((J.T @ f) @ v, abs=1e-8)


@pytest.mark.row("003:M08")
def test_adjoint():
    E = np.eye(4)
    E[0, 3] = 1.0
    A = FLIP @ np.array(ca.DM(se3.adjoint(pose(E)))) @ FLIP.T
    np.testing.assert_allclose(A, [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0],
                                   [0, 0, -1, 0, 1, 0], [0, 1, 0, 0, 0, 1]], atol=1e-15)
    np.testing.assert_allclose(A @ [0, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 1], atol=1e-15)
    rng = np.random.default_rng(1)
    H1, H2 = (se3.exp(rng.standard_normal(6)) for _ in range(2))
    Ad = [np.array(ca.DM(se3.adjoint(H))) for H in (H1, H2, se3.compose(H1, H2), se3.inverse(H1))]
    np.testing.assert_allclose(Ad[2], Ad[0] @ Ad[1], atol=1e-13)
    np.testing.assert_allclose(Ad[3] @ Ad[0], np.eye(6), atol=1e-13)
    twist, wrench = rng.standard_normal(6), rng.standard_normal(6)
    assert (Ad[0].T @ wrench) @ twist == pytest.approx(wrench @ (Ad[0] @ twist), rel=1e-12)
    # the twist matrix transforms as A [xi] A^-1
    np.testing.assert_allclose(np.array(ca.DM(se3.hat(Ad[0] @ twist))),
                               matrix(H1) @ np.array(ca.DM(se3.hat(twist))) @ np.linalg.inv(matrix(H1)), atol=1e-12)
