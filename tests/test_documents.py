"""The README and the docs tell the truth: their code runs, their commands are the ones in use."""

import importlib.util
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
FOLDERS = ("docs", "validation")
FRAMEWORKS = ("lightning", "skorch", "timm", "transformers")
PAGES = [README, *(page for name in FOLDERS for page in sorted((ROOT / name).glob("**/*.md")))]


def name_of(page):
    return str(page.relative_to(ROOT))


def code_blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def frameworks_of(block):
    return [name for name in FRAMEWORKS if re.search(rf"^(import|from) {name}\b", block, re.M)]


def run_with_framework(block, page, names):
    """Run code of a framework, whose own warnings are not ours."""
    import exact_torch._torchvision  # noqa: F401  # which some of them import, and cannot everywhere

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_blocks_run(page, capsys):
    names, missing = {}, []
    for block in code_blocks(page):
        frameworks = frameworks_of(block)
        absent = [name for name in frameworks if importlib.util.find_spec(name) is None]
        missing += absent
        if frameworks and not absent:
            run_with_framework(block, page, names)
        elif not absent:
            exec(compile(block, str(page), "exec"), names)
    if missing:
        pytest.skip(f"not installed, their blocks of code did not run: {', '.join(missing)}")
    if page == README:
        printed = capsys.readouterr().out
        assert "relative error" in printed
        assert "1.70" in printed
        assert "0.25" in printed


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_files_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_ci_runs_the_readme_command():
    commands = re.findall(r"^python3 -m venv .*-m pytest$", README.read_text(), re.M)
    assert len(commands) == 1
    assert "grep -E '^python3 -m venv .*-m pytest$' README.md" in (ROOT / ".ci/run").read_text()


def test_version_is_the_same_everywhere():
    import mvnorth

    assert f"version: {mvnorth.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_import_does_not_load_numba():
    code = "import mvnorth, sys; sys.exit('numba' in sys.modules or 'scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
