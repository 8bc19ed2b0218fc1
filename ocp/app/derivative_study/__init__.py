"""``ocp derivatives``: every way to get a derivative of one robot's dynamics, side by side, and which one to take.

    target.py      what the command line names: a robot file, a robot of the collection, the robot of a problem file
    measure.py     one way: build, evaluate at random states, time interpreted and compiled inside compiled loops
    judge.py       errors against a reference that another way confirms; what to use for this robot, and why
    study.py       all ways in turn; an interrupt and a limit of time keep what is there
    figures.py     the pictures
    run.py         the command: progress, table, folder, page, exit code
"""

from pathlib import Path

import dynamics
from dynamics.kernels.binaries import discard_stale

_below = Path(dynamics.__file__).parent
discard_stale(str(Path(__file__).parent), str(_below / "loops"), str(_below / "kernels"))
