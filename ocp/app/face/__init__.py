"""The face in Python: problems written with operators, kept as the tree that a problem file gives, compiled as files are."""
