"""What is published: a wheel of the two packages alone, typed, and metadata that are right."""

import datetime
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import mvnorth

ROOT = Path(__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

EXAMPLE = """\
import numpy as np

import mvnorth
from exact_torch import SigmaSchedule

result: mvnorth.OrthantResult = mvnorth.orthant(np.zeros(2), np.eye(2))
threads: int = mvnorth.get_num_threads()
sigma: float = SigmaSchedule(10.0, 1.0)(0.5)
print(mvnorth.__file__)
"""
MYPY = "[mypy]\n[mypy-torch.*]\nignore_missing_imports = True\nfollow_imports = skip\n"


def test_citation():
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] == "software"
    assert CITATION["version"] == mvnorth.__version__
    assert CITATION["license"] == PROJECT["license"]
    assert isinstance(CITATION["date-released"], datetime.date)
    assert [each["name"] for each in CITATION["authors"]] == [
        each["name"] for each in PROJECT["authors"]
    ]
    needed = {"message", "title"}
    # What the schema of version 1.2.0 has beside these; other keys make a file invalid.
    allowed = {"abstract", "commit", "contact", "doi", "identifiers", "keywords", "license-url"}
    allowed |= {"preferred-citation", "references", "repository", "repository-artifact"}
    allowed |= {"repository-code", "url"}
    here = {"cff-version", "type", "version", "license", "date-released", "authors"}
    assert needed <= set(CITATION) <= needed | allowed | here


def test_tests_install_what_the_docs_take():
    extras = PROJECT["optional-dependencies"]
    assert {each for each in extras["docs"] if "[" not in each} <= set(extras["test"])
    assert set(extras["train"]) <= set(extras["test"])


def test_nothing_installed_needs_what_is_not():
    for package in ("mvnorth", "exact_torch"):
        for path in (ROOT / package).rglob("*.py"):
            imports = re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
            assert not {"validation", "tests"} & set(imports), path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both distributions, made of the sources with the setuptools that is installed."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT],
        check=True,
        capture_output=True,
    )
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


@pytest.mark.slow
def test_distributions(built, tmp_path):
    sdist, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {name.split("/")[0].partition("-")[0] for name in names} == {
            "mvnorth",
            "exact_torch",
        }
        rest = [name for name in names if not name.endswith(".py") and ".dist-info/" not in name]
        packages = ("mvnorth", "exact_torch")
        assert sorted(rest) == sorted(
            [
                "mvnorth/_tables/gauss.npy",
                "mvnorth/_tables/lattice.npy",
                *(f"{package}/py.typed" for package in packages),
            ]
        )
        sources = {
            str(path.relative_to(ROOT)) for name in packages for path in (ROOT / name).rglob("*.py")
        }
        assert {name for name in names if name.endswith(".py")} == sources
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA")))
        assert f"Version: {mvnorth.__version__}\n".encode() in metadata
        # As pip does it: an environment with the wheel, and beside it what it depends on.
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
        (home,) = (tmp_path / "v").glob("lib/python*/site-packages")
        archive.extractall(home)
    (home / "others.pth").write_text("\n".join(p for p in sys.path if p.endswith("-packages")))
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "pyproject.toml", "mvnorth/_tables/lattice.npy"} <= held
    assert not [name for name in held if "__pycache__" in name or "_build" in name]

    python = next((tmp_path / "v").glob("bin/python"))
    (tmp_path / "example.py").write_text(EXAMPLE)
    (tmp_path / "wrong.py").write_text(EXAMPLE.replace("threads: int", "threads: str"))
    (tmp_path / "mypy.ini").write_text(MYPY)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command):
        return subprocess.run(
            [*map(str, command)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    ran = run(python, "example.py")
    assert ran.returncode == 0, ran.stderr
    assert Path(ran.stdout.strip()).parents[1] == home
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python]
    checked = run(*mypy, "example.py")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert 'has type "int", variable has type "str"' in run(*mypy, "wrong.py").stdout
