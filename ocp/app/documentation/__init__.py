"""The documentation as a website: `python -m ocp.app.documentation OUT`, with the extra `docs`."""
