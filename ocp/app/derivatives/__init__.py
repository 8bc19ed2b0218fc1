"""``ocp derivatives``: every way to get a derivative of one robot's dynamics, measured side by side and drawn.

    target.py      what the command line names: a robot file, a robot of the collection, the robot of a problem file
    records.py     the names of functions and sources, and one record for each pair
    points.py      random states at which ways are compared
    measure.py     one way: build, evaluate, time interpreted and compiled
    stopwatch.py   compiled loops around calls, so that no interpreter is timed
    loops.py       the ways that are compiled loops over the Model
    peer.py        Pinocchio, where it is installed; the only file that imports it
    reference.py   which way the others are compared with, and the errors
    recommend.py   what to use for this robot, and why
    patterns.py    which entries of the derivatives can be other than zero
    study.py       all pairs in turn; an interrupt keeps what is there
    figures.py     the pictures
    terminal.py    progress and table on the terminal
    run.py         the command: folder, page, exit code
"""

from pathlib import Path

import dynamics
from dynamics.kernels.binaries import discard_stale

_below = Path(dynamics.__file__).parent
discard_stale(str(Path(__file__).parent), str(_below / "loops"), str(_below / "kernels"))
