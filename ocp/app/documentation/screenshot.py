"""A picture of a report: `python -m ocp.app.documentation.screenshot RUN OUT.png --at 0.5`, by a headless Chromium."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cyclopts import App

BROWSERS = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome")
#: no start-up chatter on the network, and milliseconds of the page's own clock before the picture
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync", "--virtual-time-budget=8000")


def screenshot(run: Path, out: Path, *, at: float = 0.0, strobe: bool = False, width: int = 1000, height: int = 820) -> int:
    """Take a picture of the first page of a run's report.

    Parameters
    ----------
    run:
        The folder of the run.
    out:
        The PNG file to write.
    at:
        The time at which the motion stands [s].
    strobe:
        Show the motion as a stroboscope does.
    width, height:
        Of the picture [pixels].
    """
    report = run / "report.html"
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None or not report.is_file():
        print(f"no report in {run}" if browser else f"none of {', '.join(BROWSERS)} is installed", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as profile:
        page = f"{report.resolve().as_uri()}#t={at:g}{'&strobe' * strobe}"
        return subprocess.run([browser, *OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},{height}",
                               f"--screenshot={out.resolve()}", page], capture_output=True).returncode


if __name__ == "__main__":
    App(default_command=screenshot, help="A picture of a report.")()
