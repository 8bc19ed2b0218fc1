"""Output of a run: the folder, plots, the animated report, and tables in the terminal."""
