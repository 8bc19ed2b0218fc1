"""``ocp compare``: one problem file by several methods and options, side by side."""
