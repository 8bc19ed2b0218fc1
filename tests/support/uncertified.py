"""Solutions by a direct method alone, without certificate and error bound (but where the certificate decides on meshes)."""

from ocp.methods import uncertified
from ocp.strategy.search import Outside


def by_collocation(problem, options, progress=None, checkpoint=None, resume=None):
    """The solution by direct collocation with these ``CollocationOptions``."""
    return uncertified(problem, "collocation", options, Outside(progress, checkpoint, resume))


def by_multiple_shooting(problem, options, progress=None, checkpoint=None, resume=None):
    """The solution by direct multiple shooting with these ``MultipleShootingOptions``."""
    return uncertified(problem, "multiple_shooting", options, Outside(progress, checkpoint, resume))


def by_ilqr(problem, options, progress=None, checkpoint=None, resume=None):
    """The solution by iLQR with these ``ILQROptions``, from further starts where the first fails."""
    return uncertified(problem, "ilqr", options, Outside(progress, checkpoint, resume))
