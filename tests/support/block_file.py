"""A mass that moves by one metre, as a problem file: least effort 12 (m d)^2 / T^3."""

#: without the section ``solve``; more keys of the phase, or sections, may follow
BLOCK = """
name: block
parameters: {mass: 2.0}
system:
  states: {x: m, v: m/s}
  controls: {force: N}
  dynamics: {x: v, v: force/mass}
phase:
  duration: 1.0
  start: {x: 0, v: 0}
  final: {x: 1, v: 0}
  bounds: {force: [-100, 100]}
  costs: [{name: effort, running: force**2}]
"""
#: the same, solved on ten intervals
SOLVED_BLOCK = BLOCK + """solve:
  method: collocation
  collocation: {scheme: hermite_simpson, intervals: 10}
"""
