"""What every problem file says: sections, phases, systems given by their equations, tables."""
