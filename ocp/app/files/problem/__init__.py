"""Parts of every problem file: sections, phases, systems given by their equations, tables."""
