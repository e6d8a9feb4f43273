import math

import numpy as np
import pytest
from support.broken import flags

from validation.page import Check, Finding, NotRun, Picture, Section, Table
from validation.reports import exact
from validation.reports.exact import cost, cost_page, grid_page, noise_grid, overhead_page
from validation.reports.exact.overhead import Step
from validation.reports.power_law import Power, fit_power


@pytest.fixture(scope="module")
def results():
    outcomes = {task.name: task.perform() for task in exact.tasks("small")}
    failed = {name: each.failure for name, each in outcomes.items() if each.failure}
    assert not failed
    return {name: each.value for name, each in outcomes.items()}


@pytest.fixture(scope="module")
def section(results):
    return exact.section(results, "small")


def test_no_claim_is_flagged(section):
    checks = [part for part in section.walk() if isinstance(part, Check)]
    assert len(checks) == 15
    assert [check for check in checks if not check.holds] == []


def test_tables_and_pictures(section):
    titles = [part.title for part in section.walk() if isinstance(part, Table | Picture)]
    assert len(titles) == len(set(titles))
    for title in (
        "Errors against 40 digits",
        "Time against C (N = 512)",
        "Memory against N (C = 16)",
        "Estimates of the loss by N draws",
        "Noise of P, C = 50",
        "Gradients by N draws",
        "A step of ResNet-34, C = 16, N = 512",
        "Cosine of a batch's gradient by N draws with the exact one",
    ):
        assert title in titles


def test_every_section_has_an_answer_and_findings_are_few(section):
    assert section.answer
    assert all(part.answer for part in section.walk() if isinstance(part, Section))
    findings = [part for part in section.walk() if isinstance(part, Finding)]
    assert len(findings) == 4
    right = next(each for each in findings if "no sampling" in each.claim)
    assert right.verdict == "holds"


def test_what_is_missing_is_said(results):
    """Measurements of time come last: the report is written without them, and without all."""
    sampled = {name: value for name, value in results.items() if not _is_timed(name)}
    section = exact.section(sampled, "small")
    missing = [part.what for part in section.walk() if isinstance(part, NotRun)]
    assert missing == ["Time and memory", "Seconds of a step"]
    assert "40 digits" in section.answer
    assert "cosine" in section.answer
    assert exact.section({}, "small").answer


def _is_timed(name):
    return name.startswith(("cost", "overhead"))


@pytest.mark.parametrize("scale", ["small", "quick", "full"])
def test_names_are_unique_and_measurements_are_alone(scale):
    tasks = exact.tasks(scale)
    assert len({task.name for task in tasks}) == len(tasks)
    assert len({task.key for task in tasks}) == len(tasks)
    for task in tasks:
        assert task.alone == _is_timed(task.name)


def test_differences_lead_back_to_the_gradient_of_the_loss():
    """Exact derivatives in m, taken back to the scores, are the gradient of ``exact_loss``."""
    from validation.benchmarks.one_factor import truth

    scores, labels, _ = noise_grid.random_batch(12, 0)
    settings = (True, 0.5, 3.0)
    limits, back = noise_grid.differences(scores, labels, *settings)
    slopes = -np.array([truth(row)[1] for row in limits])
    gradient = noise_grid.exact_gradient(scores, labels, *settings, "nll")
    np.testing.assert_allclose(back(slopes), gradient, atol=1e-12)


def test_the_worst_direction_is_reported(results):
    found = grid_page.cells(results, "small")
    changed = dict(results)
    name = noise_grid.task_name(30, True, 0.5, 3.0)
    changed[name] = [noise_grid.Cosine(*row)._replace(scores=0.5) for row in results[name]]
    section = grid_page.section(changed, "small")
    assert "0.500 (0.500 to 0.500) where it is worst (C = 30, normalised" in section.answer
    (finding,) = (part for part in section.walk() if isinstance(part, Finding))
    assert finding.verdict == "does not hold"
    assert any(not part.holds for part in section.walk() if isinstance(part, Check))
    assert len(found) == 16


def test_power_is_fitted_to_large_sizes_only():
    exact_power = {n: 3.0 * n**1.5 for n in (64, 128, 256, 1024)}
    fit = fit_power({1: 100.0, 16: 100.0} | exact_power)
    assert fit.exponent == pytest.approx(1.5)
    assert (fit.first, fit.last) == (64, 1024)
    assert fit.low == pytest.approx(1.5, abs=1e-6) == fit.high
    assert math.isinf(fit_power({8: 1.0, 16: 2.0}).high)


def test_noisy_times_have_a_wide_interval():
    fit = fit_power({64: 1.0, 128: 3.0, 256: 3.0, 512: 9.0})
    assert fit.low < 1.0 < fit.high
    assert fit.high - fit.low > 0.5


def test_linear_cost_of_the_published_estimate_is_no_finding():
    flat = {
        cost.task_name(c, n): {p: [1e-3 * c * n, 1e6] for p in cost.PROGRAMS}
        for c in (8, 16, 32, 64, 128, 256)
        for n in (16, 64, 256, 512, 1024, 2048)
    }
    section = cost_page.section(flat, "quick")
    (finding,) = (part for part in section.walk() if isinstance(part, Finding))
    assert finding.verdict == "does not hold"
    failing = [part for part in section.walk() if isinstance(part, Check) and not part.holds]
    assert len(failing) == 2  # neither time nor memory is larger


def test_samples_lost_to_a_loss():
    step = Step(
        {"cross-entropy": 0.93, "published": 9.0, "exact_loss": 9.0},
        {"cross-entropy": 0.01, "published": 0.08, "exact_loss": 0.01},
    )
    assert overhead_page.fewer_samples([step, step], "published").mean == pytest.approx(7.0)
    assert overhead_page.fewer_samples([step, step], "exact_loss").mean == 0.0


@pytest.mark.slow
def test_a_broken_coefficient_is_flagged(tmp_path):
    old, new = "0.1666666666666668", "0.1666676666666668"  # of the exponential
    claims = flags(tmp_path, "exact", "mvnorth/_tables/normal.py", old, new)
    assert any("40 digits" in claim for claim in claims)
    assert any("trapezoid" in claim for claim in claims)


@pytest.mark.slow
def test_a_broken_loss_is_flagged(tmp_path):
    old, new = "            return -log_prob\n", "            return -1.02 * log_prob\n"
    claims = flags(tmp_path, "exact", "exact_torch/_values.py", old, new)
    assert any("trapezoid" in claim for claim in claims)
    assert any("published draws of P is" in claim for claim in claims)


@pytest.mark.slow
def test_a_broken_margin_is_flagged(tmp_path):
    """A gradient that ignores the margin: the directions of batches do not come near it."""
    old, new = "gap = gap.clamp(max=margin)\n", "gap = gap.clamp(max=margin + 5.0)\n"
    claims = flags(tmp_path, "exact", "exact_torch/_ops.py", old, new)
    assert any("What is missing is noise" in claim for claim in claims)


def test_the_verdict_on_cost_needs_all_exponents():
    def power(exponent, half=0.05):
        return Power(exponent, exponent - half, exponent + half, 64, 1024)

    assert cost_page._linear(power(1.05), power(1.8), power(1.0)) == "holds"
    assert cost_page._linear(power(1.05, 0.2), power(1.8), power(1.0)) == "not decided"
    assert cost_page._linear(power(1.3), power(1.8), power(1.0)) == "does not hold"
    assert cost_page._linear(power(1.0), power(1.8), power(0.6)) == "not decided"
    assert cost_page._linear(power(1.0), power(1.2), power(1.0)) == "does not hold"
