"""What a run leaves behind: the folder, plots, the animated report, and what the terminal shows."""
