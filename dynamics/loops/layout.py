"""Where things lie in the flat arrays of the loops: rows of the constant table, rows of the workspace, integer records.

Degrees of freedom (columns of the tree) are dealt into blocks of eight. A quantity with k components owns k rows of eight
numbers in each block, so that component c of column s is at ``(s // 8) * 8 * rows + 8 c + s % 8``. A body keeps what it owns
at its first column. Every constant below is already multiplied by eight.
"""

from __future__ import annotations

from dynamics.loops.lanes import WIDTH


def _rows(*sizes: tuple[str, int]) -> tuple[dict[str, int], int]:
    at, out = 0, {}
    for name, size in sizes:
        out[name] = at * WIDTH
        at += size
    return out, at * WIDTH


# ---- constant table: one record per column
_c, CONSTANTS = _rows(
    ("rotation", 9), ("position", 3), ("revolute", 1), ("prismatic", 1), ("mass", 1), ("first", 3), ("second", 6),
    ("multiplier", 1), ("offset", 1), ("total_mass", 1))
K_R, K_P, K_REVOLUTE, K_PRISMATIC = _c["rotation"], _c["position"], _c["revolute"], _c["prismatic"]
K_M, K_H, K_S, K_TOTAL = _c["mass"], _c["first"], _c["second"], _c["total_mass"]  # K_TOTAL: mass of the whole subtree
K_MULTIPLIER, K_OFFSET = _c["multiplier"], _c["offset"]

# ---- workspace: one record per column; twists and wrenches at the origin of the root body's frame, in its axes
_w, ROWS = _rows(
    ("q", 1), ("v", 1), ("a", 1), ("lam", 1), ("tau", 1),
    ("relative_R", 9), ("relative_p", 3), ("R", 9), ("p", 3), ("S", 6),
    ("v_above", 6), ("v_body", 6), ("v_joint", 6), ("a_above", 6), ("a_body", 6), ("a_joint", 6),
    # sums over subtrees: h, Sigma, linear momentum, integral of dr/dt r^T, wrench; h_w, z, integral of w r^T
    ("H", 3), ("SIGMA", 6), ("L", 3), ("K", 9), ("F", 6), ("HW", 6), ("Z", 3), ("KW", 9),
    ("f_ext", 6),
    # columns of the first order
    ("psi", 6), ("psi2", 6), ("psi_s", 6), ("U", 6), ("W", 6), ("IS", 6), ("BS", 3),
    # contracted second order
    ("w_above", 6), ("w_body", 6), ("w_joint", 6), ("lift", 6), ("qa", 3), ("qb", 6), ("qe", 3), ("vv", 1),
    # of frames that constraints hold, sums over subtrees: wrenches dual to acceleration, twist and pose; columns of theirs
    ("fa", 6), ("fz", 6), ("fp", 6), ("ta", 3), ("te", 3), ("tc", 6))
Q, V, A, LAM, TAU = _w["q"], _w["v"], _w["a"], _w["lam"], _w["tau"]
RELATIVE_R, RELATIVE_P, R, P, S = _w["relative_R"], _w["relative_p"], _w["R"], _w["p"], _w["S"]
V_ABOVE, V_BODY, V_JOINT = _w["v_above"], _w["v_body"], _w["v_joint"]
A_ABOVE, A_BODY, A_JOINT = _w["a_above"], _w["a_body"], _w["a_joint"]
H, SIGMA, L, K, F, HW, Z, KW, F_EXT = (_w[k] for k in ("H", "SIGMA", "L", "K", "F", "HW", "Z", "KW", "f_ext"))
PSI, PSI2, PSI_S, U, W, IS, BS = (_w[k] for k in ("psi", "psi2", "psi_s", "U", "W", "IS", "BS"))
W_ABOVE, W_BODY, W_JOINT, LIFT = (_w[k] for k in ("w_above", "w_body", "w_joint", "lift"))
QA, QB, QE, VV = (_w[k] for k in ("qa", "qb", "qe", "vv"))
FA, FZ, FP, TA, TE, TC = (_w[k] for k in ("fa", "fz", "fp", "ta", "te", "tc"))

# ---- integer table: a header, then records
(N_BODIES, N_COLUMNS, N_BLOCKS, N_V, COUPLED, N_MULTI, AT_BODIES, AT_COLUMNS, AT_LOWER, AT_UPPER, AT_ABOVE, AT_ACTIVE,
 AT_MULTI) = range(13)
# where in the workspace: room for ``fold``, M, right-hand sides, panel of a solve, L, 1 / D, a vector
SCRATCH, AT_MASS, AT_RIGHT, AT_PANEL, AT_L, AT_D, AT_BIAS, AT_ROWS = range(13, 21)
# links of which only pose and S(q) are known (``dynamics.loops.hooks``); AT_ROWS: room for vectors over the columns
N_GENERAL, AT_GENERAL, AT_HOOKS = range(21, 24)
# efforts on the tree (``dynamics.loops.acting``): their record, 0 where there are none; rows of constraints
AT_ACTING, N_ROWS = range(24, 26)
HEADER = 26
GENERAL = 7  # first column, first velocity, number of velocities, where the four functions write for this link
# functions: (address, handle, where results go) of each; where q, v, a, lam, w lie; where arg, res, iw and w of a call lie
HOOK_INPUTS, HOOK_MEMORY, HOOKS = 12, 17, 21
# its functions: (address, handle, where results go) of each; where q, v, a, multipliers, weights psi and nu, time and thrusts, and
# the motions of frames lie; where arg, res, iw and w of a call lie
ACT_INPUTS, ACT_MEMORY = 9, 17
# of constraints, in rows of whole lanes, w for nv and r for their number: J [rows, w], M^-1 J^T [nv, r], -J M^-1 J^T [rows, r],
# its factors [rows, rows] with inverse diagonal, derivatives of the multipliers [rows, 3 w] and of accelerations [nv, 3 w],
# right-hand sides and workspace [rows, 3 w] each
ACT_J, ACT_ACROSS, ACT_A, ACT_FACTORS, ACT_SLOPES, ACT_X, ACT_RIGHT, ACT_ROOM = range(21, 29)
# whether functions of the coordinates act; frames and relations between them (``dynamics.loops.frames``): how many, where their
# records are; poses [12] at the root, five matrices [6 frames, w], second derivatives [4, nv, w] and [rows, w], work [3, size, w]
(ACT_WHOLE, N_FRAMES, AT_FRAMES, N_TIES, AT_TIES, ACT_POSES, ACT_COLUMNS, ACT_BENT, ACT_TURNED, ACT_PART) = range(29, 39)
# a frame: address of its body, a column of that, address of the root, where its placement is among the real numbers
FRAME = 4
# a relation: rows, six times its frames, first row, first frame, where its part of the results of the three functions begins
TIE = 7
PANEL = 48  # six blocks of eight columns are solved at once
# a body: address of its first column, of its parent's (-1: none), kind, first index in q (GENERIC: in the workspace, of its pose),
# number of columns, first column
BODY = 6
ADDRESS, PARENT, KIND, FIRST_Q, COLUMNS, COLUMN = range(6)
ONE, SPHERICAL, PLANAR, FREE, GENERIC = range(5)  # kinds: revolute and prismatic differ only in the constant table
# real numbers before the constant table: gravity, then armature and damping per velocity
AT_GRAVITY = 0
AT_ARMATURE = 8
