"""An interior-point method in compiled loops, with a factorisation along the intervals of optimal control."""
