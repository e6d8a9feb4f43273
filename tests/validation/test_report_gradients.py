"""The report on gradients: what it says, what it computes, and that it flags what is broken."""

import copy
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from support.broken import PACKAGES, ROOT

from mvnorth._methods import pathwise
from validation.page import Check, Finding, Picture, Section, Table
from validation.reports import gradients
from validation.reports.gradients import pictures, samples, tables, ways

RIGHT = "-half * (m2 / whole),"
WRONG = "-1.0001 * half * (m2 / whole),"

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def results():
    outcomes = {task.name: task.perform() for task in gradients.tasks("small")}
    assert [outcome.failure for outcome in outcomes.values()] == [None] * len(outcomes)
    return {name: outcome.value for name, outcome in outcomes.items()}


def parts(section, kind):
    return [part for part in section.walk() if isinstance(part, kind)]


def test_nothing_is_flagged(results):
    section = gradients.section(results, "small")
    checks = parts(section, Check)
    assert len(checks) >= 13
    assert [check for check in checks if not check.holds] == []
    titles = [part.title for part in (*parts(section, Table), *parts(section, Picture))]
    assert len(set(titles)) == len(titles)
    assert len(parts(section, Picture)) == 2
    for table in parts(section, Table):
        assert {len(row) for row in table.rows} == {len(table.header)}, table.title


def test_answers_and_the_finding(results):
    section = gradients.section(results, "small")
    assert all(part.answer for part in [section, *parts(section, Section)])
    (finding,) = parts(section, Finding)
    assert finding.verdict != "does not hold"
    wrong = copy.deepcopy(results)
    wrong["ways: one factor, d = 4, 0"]["records"][0].update(off=1e-6)
    (finding,) = parts(gradients.section(wrong, "small"), Finding)
    assert finding.verdict == "does not hold"
    assert gradients.section({}, "small").answer == "Not computed yet."


def test_all_functions_methods_and_arguments_are_there(results):
    records = [r for name in results if name.startswith("ways") for r in results[name]["records"]]
    assert {r["method"] for r in records} == {
        "auto", "closed_form", "conditional", "markov", "pathwise", "pinned", "quadrature",
        "tilting",
    }  # fmt: skip
    assert {r["wrt"] for r in records} == {
        "lower", "upper", "mean", "cov", "c", "v", "m", "L", "x", "lower_limit",
    }  # fmt: skip
    assert len({r["function"] for r in records}) == 4


def test_wrong_results_are_flagged(results):
    """Each check fails when what it is about is wrong by little."""
    claims = set()
    changes = {
        "stored factors": lambda r: r[0].update(off=1e-5),
        "stored limits": lambda r: r[0].update(off=1e-5),
        "digits: d = 2": lambda r: r.update(hessian=1e-8),
        "differences: d = 4, box = False": lambda r: r[0].update(off=1e-3, jumped=False),
        "torch: d = 3": lambda r: r["off"].update({"mvn_logcdf, x": 1e-6}),
        "honesty: tail, 1024": lambda r: r[1].update(outside=r[1]["entries"]),
        "points: d = 5": lambda r: [x.update(error=1e-3) for x in r],
        "ways: one factor, d = 4, 0": lambda r: r["records"][0].update(off=1e-6),
    }
    for name, change in changes.items():
        wrong = copy.deepcopy(results)
        change(wrong[name])
        found = [c.claim for c in parts(gradients.section(wrong, "small"), Check) if not c.holds]
        assert found, name
        claims.update(found)
    assert len(claims) == len(changes)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("stored factors", lambda r: r[-1].update(off=np.nan)),
        ("stored limits", lambda r: r[-1].update(off=np.nan)),
        ("digits: d = 2", lambda r: r.update(hessian=np.nan)),
        ("torch: d = 3", lambda r: r["off"].update({"mvn_logcdf, x": np.nan})),
        ("ways: one factor, d = 4, 0", lambda r: r["records"][-1].update(off=np.nan)),
    ],
)
def test_nan_is_flagged(results, name, change):
    wrong = copy.deepcopy(results)
    change(wrong[name])
    assert not all(c.holds for c in parts(gradients.section(wrong, "small"), Check))


def test_compared_by_hand():
    class Found:
        grad_m = np.array([1.0, 2.0])
        grad_m_error = np.array([0.2, 0.01])

    (record,) = ways.compared(Found, {"m": np.array([1.1, 2.5])}, {"m": 1e-15})
    assert record["off"] == pytest.approx(0.2)
    assert record["claimed"] == pytest.approx(0.08)
    assert (record["outside"], record["entries"]) == (1, 2)


def test_rate_of_a_power():
    n = [256, 512, 4096]
    assert pictures.fitted_rate(n, [3 * x**-0.85 for x in n]) == pytest.approx(0.85)


def test_a_wrong_map_to_the_covariance_is_flagged(monkeypatch, results):
    """One in a hundred too much on the way from the factor to Sigma, in plain Python."""
    right = pathwise._symmetric
    monkeypatch.setattr(pathwise, "_symmetric", lambda *args: 1.01 * right(*args))
    name = "differences: d = 4, box = False"
    wrong = samples.differenced(4, 1, tables.N, False)
    section = gradients.section({**results, name: wrong}, "small")
    found = [check.claim for check in parts(section, Check) if not check.holds]
    assert any("Pathwise derivatives" in claim for claim in found)


@pytest.mark.slow
def test_a_wrong_coefficient_is_flagged(tmp_path, results):
    """The derivative in c, in compiled code: a copy of the packages computes one task."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    file = tmp_path / "mvnorth/_scalar/one_factor.py"
    text = file.read_text()
    assert text.count(RIGHT) == 1
    file.write_text(text.replace(RIGHT, WRONG))
    code = "import json; from validation.reports.gradients import ways as g; "
    code += "print(json.dumps(g.stored_factors(10)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")},
        capture_output=True,
        text=True,
        check=True,
    )
    section = gradients.section({**results, "stored factors": json.loads(done.stdout)}, "small")
    (flagged,) = (check.claim for check in parts(section, Check) if not check.holds)
    assert "stored derivatives" in flagged
