"""Sequential quadratic programming of our own: a filter method over quadratic programs solved on their active set.

    method -> quadratic (active set, or interior) -> kkt_system;  elastic: where linearised constraints contradict each other
"""

from ocp.nlp.sqp.method import prepare

__all__ = ["prepare"]
