"""A page in a real browser, as wide as a phone."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# Browsers have a least width of a window, but a frame is as narrow as it is told.
WRAPPER = """<!DOCTYPE html><meta charset="utf-8"><body>
<iframe id="frame" style="width:{width}px;height:844px;border:0" srcdoc="{page}"></iframe>
<pre id="found"></pre><script>
frame.onload = () => {{
  const inside = frame.contentDocument;
  const seen = x => x.getBoundingClientRect();
  const figures = [...inside.querySelectorAll("figure svg")].map(seen);
  found.textContent = JSON.stringify({{
    scroll: inside.documentElement.scrollWidth,
    width: inside.documentElement.clientWidth,
    figures: figures.map(x => [x.width, x.height]),
    missing: [...inside.querySelectorAll("svg use")].filter(
      x => !inside.querySelector(x.getAttribute("xlink:href") || x.getAttribute("href"))).length,
    links: [...inside.querySelectorAll("a[href^='#']")].map(x => x.getAttribute("href").slice(1))
      .filter(id => id && !inside.getElementById(id)).length,
    paper: inside.defaultView.getComputedStyle(inside.body).backgroundColor,
    ink: inside.defaultView.getComputedStyle(inside.body).color,
  }});
}};
</script>"""

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
)
PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")


def look(page: Path, width: int = 390, dark: bool = False) -> dict:
    """What a browser finds: sizes, colours, links into nothing, and what its console says."""
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory() as folder:
        wrapper = Path(folder, "wrapper.html")
        text = html.escape(page.read_text(encoding="utf-8"), quote=True)
        wrapper.write_text(WRAPPER.format(width=width, page=text), encoding="utf-8")
        scheme = [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
        done = subprocess.run(
            [
                PROGRAM,
                *OPTIONS,
                *scheme,
                f"--user-data-dir={folder}",
                "--dump-dom",
                wrapper.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        )
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])) | {"console": console}
