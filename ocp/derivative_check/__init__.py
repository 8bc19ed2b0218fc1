"""Derivatives of every term of a problem, compared by independent methods."""

from ocp.derivative_check.check import TOLERANCE, check_derivatives
from ocp.derivative_check.records import DerivativeCheck, Finding, Kind, Method, Number, Order, Point, TermCheck

__all__ = ["TOLERANCE", "DerivativeCheck", "Finding", "Kind", "Number", "Order", "Point", "Method", "TermCheck",
           "check_derivatives"]
