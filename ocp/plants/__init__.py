"""Plants for testing controllers behind one small protocol, our own integrators among them."""

from ocp.plants.integrated import Disturbances, IntegratedPlant, Kick, PlantSpec, Push
from ocp.plants.plant import Plant

__all__ = ["Disturbances", "IntegratedPlant", "Kick", "Plant", "PlantSpec", "Push"]
