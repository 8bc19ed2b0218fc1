"""Pages in a browser without a window: how they are in the end, what they complain of, what a script on them finds."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((found for name in BROWSERS if (found := shutil.which(name))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason=f"no browser here ({', '.join(BROWSERS)})")


def opened(address: Path | str, folder: Path, width: int = 1200) -> tuple[str, list[str]]:
    """(the page as it is in the end, what was complained of). folder: where the browser keeps its data."""
    words = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--window-size={width},900",
             "--allow-file-access-from-files", f"--user-data-dir={folder / 'browser'}", "--virtual-time-budget=5000", "--dump-dom")
    url = address if isinstance(address, str) else address.as_uri()
    done = subprocess.run([str(BROWSER), *words, url], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def probed(text: str, script: str, folder: Path, width: int = 1200) -> tuple[dict, list[str]]:
    """(what a script finds on a page: its variable ``found``, complaints); the page allows its own scripts alone."""
    script = ("window.addEventListener('load', () => {" + script + "const out = document.createElement('output'); out.id = 'found';"
              "out.textContent = JSON.stringify(found); document.body.append(out)});")
    own = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = folder / "probed.html"
    allowed = text.replace("script-src 'none'", "script-src ''").replace("script-src '", f"script-src 'sha256-{own}' '", 1)
    page.write_text(allowed.replace(f"{own}' ''", f"{own}'", 1)
                    .replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    dom, complaints = opened(page, folder, width)
    return json.loads(html.unescape(re.search(r'<output id="found">(.*?)</output>', dom, re.S)[1])), complaints
