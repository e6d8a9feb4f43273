"""A page in a real browser, as wide as a phone or a desk."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# Browsers have a least width of a window, but a frame can be narrower.
WRAPPER = """<!DOCTYPE html><meta charset="utf-8"><body>
<iframe id="frame" {sandbox} style="width:{width}px;height:844px;border:0" src="{page}"></iframe>
<pre id="found"></pre><script>
frame.onload = async () => {{
  const inside = frame.contentDocument;
  const seen = x => x.getBoundingClientRect();
  const figures = [...inside.querySelectorAll("figure svg")].map(seen);
  const result = {{
    scroll: inside.documentElement.scrollWidth,
    width: inside.documentElement.clientWidth,
    figures: figures.map(x => [x.width, x.height]),
    missing: [...inside.querySelectorAll("svg use")].filter(
      x => !inside.querySelector(x.getAttribute("xlink:href") || x.getAttribute("href"))).length,
    links: [...inside.querySelectorAll("a[href^='#']")].map(x => x.getAttribute("href").slice(1))
      .filter(id => id && !inside.getElementById(id)).length,
    paper: inside.defaultView.getComputedStyle(inside.body).backgroundColor,
    ink: inside.defaultView.getComputedStyle(inside.body).color,
  }};
  const all = selector => [...inside.querySelectorAll(selector)];
  const one = selector => inside.querySelector(selector);
  const shown = selector => all(selector).some(x => x.checkVisibility());
  const pause = () => new Promise(resolve => setTimeout(resolve, 300));
  try {{
    result.steps = await (async () => {{ {steps} }})();
  }} catch (error) {{
    result.steps = `${{error}}`;
  }}
  found.textContent = JSON.stringify(result);
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
    "--allow-file-access-from-files",  # the wrapper reads the page
    "--virtual-time-budget=20000",
)
PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")


def look(
    page: Path, width: int = 390, dark: bool = False, steps: str = "", script: bool = True
) -> dict:
    """Return what a browser finds: sizes, colours, links into nothing, and its console.

    Parameters
    ----------
    page : Path
    width : int
        In pixels.
    dark : bool
        Whether the reader prefers dark pages.
    steps : str
        Body of an asynchronous JavaScript function, run when the page is loaded, whose result is
        returned under "steps"; it may use ``inside`` (the document), ``all(selector)``,
        ``one(selector)``, ``shown(selector)`` and ``await pause()``.
    script : bool
        Whether scripts of the page run.
    """
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory() as folder:
        wrapper = Path(folder, "wrapper.html")
        address = html.escape(page.resolve().as_uri(), quote=True)
        sandbox = "" if script else 'sandbox="allow-same-origin"'
        wrapper.write_text(
            WRAPPER.format(width=width, page=address, steps=steps, sandbox=sandbox),
            encoding="utf-8",
        )
        done = subprocess.run(
            [
                PROGRAM,
                *OPTIONS,
                f"--window-size={max(width + 50, 800)},1000",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
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
    assert found[1], "the page was not loaded"
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])) | {"console": console}
