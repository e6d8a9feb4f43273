"""A copy of the packages with something broken in it, and what a report then flags."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("mvnorth", "exact_torch", "validation")


def flags(folder, report, file, old, new):
    """The claims that ``report`` flags, at its small scale, when ``file`` has ``new`` for ``old``.

    Both must differ in what they compute; ``old`` stands once in the file.
    """
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    path = folder / file
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
    path.write_text(text.replace(old, new))
    told = [sys.executable, "-m", "validation", report, "--small", "--jobs", "1", "--out", "out"]
    done = subprocess.run(
        told,
        cwd=folder,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    checks = json.loads((folder / "out" / f"{report}.json").read_text())["reports"][report][
        "checks"
    ]
    return [check["claim"] for check in checks if not check["holds"]]
