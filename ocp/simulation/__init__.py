"""Initial-value problems: steppers of any system by any integrator, and motions of whole problems under given controls."""

from ocp.simulation.one_step import StepError, integrand, step_function
from ocp.simulation.run import Constant, Controls, Ending, Guessed, Leg, Motion, simulate, start, with_steps_halved
from ocp.simulation.stepper import Stepper, check_integrator, stepper

__all__ = ["Constant", "Controls", "Ending", "Guessed", "Leg", "Motion", "StepError", "Stepper", "check_integrator", "integrand",
           "simulate", "start", "step_function", "stepper", "with_steps_halved"]
