"""The robots shipped with the problems, read by us and by Pinocchio: every algorithm at random states, to 1e-9."""


import numpy as np
import pytest
from repository import ROOT

pytest.importorskip("pinocchio")
from urdf_twin import UrdfTwin  # needs Pinocchio

ROBOTS = sorted((ROOT / "problems" / "models").glob("*.urdf"))


@pytest.mark.parametrize("root", [pytest.param("fixed", marks=pytest.mark.slow), "free_flyer"])
@pytest.mark.parametrize("path", ROBOTS, ids=lambda p: p.stem)
@pytest.mark.sample(3)
def test_algorithms_agree_with_pinocchio(path, root):
    twin = UrdfTwin(path, root)
    for seed in range(3):
        gaps = twin.compare(np.random.default_rng(seed))
        worst = max(gaps, key=gaps.get)
        assert gaps[worst] < 1e-9, (worst, gaps[worst])
    assert len(ROBOTS) >= 5
