"""What a process of the command line leaves out is left out, and is there for whoever asks for it."""

import subprocess
import sys

from repository import ROOT

TOOLS = "numpy.f2py.crackfortran", "numpy.testing._private.utils"  # what their packages import first


def said(code):
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def test_scipy_imports_these_tools_of_numpy_unless_they_are_left_out():
    """The first line fails where SciPy has learnt better: then nothing need be left out any more."""
    for words, found in (("", "True"), ("from ocp.app.quick_start import without_numpys_tools; without_numpys_tools();", "False")):
        assert said(f"import sys; {words} import scipy.sparse; print(*(name in sys.modules for name in {TOOLS}))") == [found] * 2


def test_tools_that_were_left_out_work():
    """By the names of NumPy and by imports of their own."""
    assert said("from ocp.app.quick_start import without_numpys_tools; without_numpys_tools(); import numpy, scipy.sparse\n"
                "from numpy.testing import assert_array_equal\n"
                "assert_array_equal([1, 2], [1, 2])\n"
                "import numpy.f2py\n"
                "print(numpy.f2py.crackfortran.__name__, numpy.testing.assert_equal(2, 2))") == ["numpy.f2py.crackfortran", "None"]


def test_a_solve_leaves_them_out_and_looks_for_garbage_rarely(tmp_path):
    code = ("import gc, sys; from ocp.app.cli import main\n"
            f"try: main(['solve', 'problems/block_move.yaml', '--out', {str(tmp_path / 'run')!r}, '--quiet'])\n"
            f"except SystemExit as end: print(end.code, gc.get_threshold()[0] > 10_000, 'scipy.sparse' in sys.modules,\n"
            f"*(name in sys.modules for name in {TOOLS}))")
    assert said(code)[-5:] == ["0", "True", "True", "False", "False"]


def test_usual_rules_and_inverse_kinematics_leave_out_what_only_others_use():
    """More points need SciPy's special functions, which the last word says: names that nobody imports would be left out, too."""
    code = ("import sys; import ocp.control.ik; from ocp.transcription.legendre import gauss, lobatto\n"
            "gauss(2), gauss(3), lobatto(5)\n"
            "print(*(name in sys.modules for name in ('osqp', 'scipy.special'))); gauss(4); import ocp.solvers.engines\n"
            "print(*(name in sys.modules for name in ('osqp', 'scipy.special')))")
    assert said(code) == ["False", "False", "True", "True"]
