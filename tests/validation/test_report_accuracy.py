"""The accuracy report at its small scale, what it is computed with, and that it sees a break."""

import math

import mpmath
import numpy as np
import pytest
from support.broken import flags

from validation import problems
from validation.oracles import exact
from validation.page import Check, Finding, Picture, Section, Table
from validation.reports import accuracy, families, runs
from validation.reports.accuracy import automatic, convergence, deterministic, special_functions

pytestmark = pytest.mark.slow  # compiles most kernels


@pytest.fixture(scope="module")
def section():
    outcomes = {task.name: task.perform() for task in accuracy.tasks("small")}
    assert [o.failure for o in outcomes.values() if o.failure] == []
    return accuracy.section({name: o.value for name, o in outcomes.items()}, "small")


def test_all_checks_hold(section):
    checks = [part for part in section.walk() if isinstance(part, Check)]
    assert len(checks) >= 14
    assert [c for c in checks if not c.holds] == []


def test_answers_and_findings(section):
    sections = [section, *(part for part in section.walk() if isinstance(part, Section))]
    assert all(part.answer for part in sections)
    findings = [part for part in section.walk() if isinstance(part, Finding)]
    assert [finding.verdict for finding in findings] == ["holds", "holds"]
    assert accuracy.section({}, "small").answer == "Not computed yet."


def test_has_its_tables_and_pictures(section):
    titles = {part.title for part in section.walk() if isinstance(part, Table)}
    assert titles >= {
        "Median relative error by points",
        "Relative error by dimension",
        "Relative error in the tails",
        "Largest errors of deterministic methods",
        "Side by side",
        "Special functions, worst of each range",
    }
    pictures = [part for part in section.walk() if isinstance(part, Picture)]
    assert len(pictures) >= 14
    assert len({p.title for p in pictures}) == len(pictures)
    assert all(len(p.data.rows) > 0 for p in pictures)


def test_rate_of_a_power():
    n = [10, 100, 1000]
    assert runs.rate(n, [x**-0.75 for x in n]) == pytest.approx(-0.75)
    assert runs.rate([10], [1.0]) is None
    assert runs.rate([10, 100], [0.0, 1.0]) is None


def test_errors_are_relative_to_the_truth():
    problem = runs.Known("", 1, frozenset(), math.log(0.5), 0.0, [])

    def run(log_prob):
        return runs.Run("genz", 64, 0, log_prob, 0.1, "genz", 64)

    assert runs.relative_error(run(math.log(0.6)), problem) == pytest.approx(0.2)
    assert runs.relative_error(run(-math.inf), problem) == 1.0
    assert runs.relative_error(run(800.0), problem) == 1e300
    assert runs.rms([3.0, 4.0]) == pytest.approx(math.sqrt(12.5))


def test_a_curve_is_the_median_of_root_mean_squares():
    def problem(*errors):
        own = [
            runs.Run("genz", 64, k, math.log1p(e), 1.0, "genz", 64) for k, e in enumerate(errors)
        ]
        return runs.Known("", 5, frozenset(), 0.0, 0.0, own)

    curve = convergence.Curve([problem(0.3, 0.4), problem(1.0, 1.0), problem(0.1, 0.1)], "genz")
    assert curve.points == [64]
    assert curve.at(64) == pytest.approx(math.sqrt(0.125))
    assert curve.worst == [pytest.approx(1.0)]


def test_gauss_rules_are_held_to_what_they_claim_and_others_to_rounding():
    def failing(used, off, claimed):
        run = runs.Run("auto", 4096, 0, -1.0 + off, claimed, used, 4096)
        problem = runs.Known("p", 5, frozenset(), -1.0, 0.0, [run])
        right = runs.Run("auto", 4096, 0, -1.0, 1e-14, "markov", 32)
        other = runs.Known("q", 5, frozenset(), -1.0, 0.0, [right])
        return [c.claim for c in automatic.checks([problem, other]) if not c.holds]

    assert failing("gauss", 1e-6, 1e-5) == []
    assert len(failing("gauss", 1e-6, 1e-7)) == 1
    assert len(failing("quadrature", 1e-6, 1e-5)) == 1
    assert failing("quadrature", 1e-14, 1e-13) == []


def test_ulps():
    with mpmath.workdps(40):
        truth = mpmath.mpf(1) + mpmath.mpf(2) ** -52 / 4
    assert special_functions.distance(1.0, truth) == (0.25, pytest.approx(2.0**-54))
    assert special_functions.distance(math.nan, truth) == (math.inf, math.inf)


@pytest.mark.parametrize("function", special_functions.RANGES)
def test_arguments_lie_where_the_function_is_defined(function):
    for where in special_functions.RANGES[function]:
        x = special_functions._arguments(where.scale, np.array([where.low, where.high]))
        for each in x.tolist():
            assert function != "ndtri" or 0.0 < each < 1.0
            truth = getattr(exact, function)(each)
            assert mpmath.isfinite(truth)
            assert truth != 0


@pytest.mark.parametrize("d", [2, 7, 20])
@pytest.mark.parametrize("family", families.BY_DIMENSION)
def test_families_by_dimension_against_brute_force(family, d):
    from validation.oracles import monte_carlo

    problem = families.BY_DIMENSION[family](d)
    assert problem.upper.size == d
    share, error = monte_carlo.prob(problem.lower, problem.upper, problem.cov, draws=20_000)
    assert abs(share - math.exp(problem.log_prob)) < 4.5 * error


def test_levels_of_tails():
    targets = (-1, -3, -10, -30, -100, -300, -1000)
    for family in ("correlations 0.5, d = 20", "two factors, d = 10"):
        for level, target in zip(families.LEVELS[family], targets, strict=True):
            assert families.by_tail(family, level).log_prob == pytest.approx(target, rel=0.02)


def test_problems_by_name():
    assert problems.names("reference", "random")[0] == "bm_rand_d5"
    assert problems.named("bm_rand_d5") is problems.problems("reference", "random")[0]
    assert [problems.named(n).upper.size for n in problems.names("small")] == [
        convergence.dimension(n) for n in problems.names("small")
    ]
    with pytest.raises(KeyError, match="got 'nothing'"):
        problems.named("nothing")


@pytest.mark.slow
def test_a_coefficient_of_phi_is_seen(tmp_path):
    found = flags(
        tmp_path,
        "accuracy",
        "mvnorth/_scalar/normal.py",
        "polynomial(TAIL)",
        "polynomial((*TAIL[:20], TAIL[20] * (1.0 + 1e-11), *TAIL[21:]))",
    )
    assert any("what the documentation says" in claim for claim in found)
    assert any("Deterministic methods" in claim for claim in found)


@pytest.mark.parametrize(
    "row", [[-1.0, math.nan, 1e-15], [-1.0, 1e-12, 1e-11], [-1.0, 1e-16, math.inf]]
)
def test_methods_without_points_may_not_be_off_nor_claim_nothing(row):
    right = [-1.0, 1e-16, 1e-15]
    results = {"exact, stored": {"ordinary": [right, row, right]}}
    checks = [
        each for each in deterministic.section(results, "small").parts if isinstance(each, Check)
    ]
    assert not all(each.holds for each in checks)
    results = {"exact, stored": {"ordinary": [right]}}
    checks = [
        each for each in deterministic.section(results, "small").parts if isinstance(each, Check)
    ]
    assert all(each.holds for each in checks)
