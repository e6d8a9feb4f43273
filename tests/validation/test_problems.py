"""The table of problems: well formed, truthfully tagged, and right by independent judges."""

import dataclasses

import mpmath
import numpy as np
import pytest
from support import naive

from validation.oracles import exact
from validation.oracles.one_dimension import markov_logprob, one_factor_logprob
from validation.problems import Problem, problems, reference, reference_gradient


def deviation(problem: Problem, judged: tuple[float, float]) -> float:
    """How many standard errors lie between the answer and a judge's estimate."""
    estimate, standard_error = judged
    prob = np.exp(problem.log_prob)
    # Where Genz's weights are constant the standard error is zero and only rounding is left.
    return abs(estimate - prob) / (standard_error + 1e-12 * prob)


def correlation(cov):
    sd = np.sqrt(np.diag(cov))
    return cov / np.outer(sd, sd)


def test_the_table_is_large_and_well_spread():
    table = problems()
    assert len(table) >= 70
    assert len({p.name for p in table}) == len(table)
    dimensions = {p.upper.size for p in table}
    assert dimensions >= {1, 2, 3, 4, 5, 8, 10, 20, 50, 100, 200, 500}


@pytest.mark.parametrize(
    ("tag", "at_least"),
    [
        ("exchangeable", 10),
        ("equicorrelation", 20),
        ("negative", 8),
        ("ar1", 10),
        ("one-factor", 30),
        ("two-factor", 8),
        ("block", 5),
        ("random", 10),
        ("near-singular", 5),
        ("singular", 5),
        ("tail", 10),
        ("deep-tail", 5),
        ("box", 20),
        ("independent", 8),
        ("small", 10),
        ("high-dim", 20),
        ("easy", 50),
        ("hard", 20),
    ],
)
def test_every_tag_has_problems(tag, at_least):
    assert len(problems(tag)) >= at_least


def test_tags_are_combined():
    both = problems("box", "tail")
    assert both
    assert both == [p for p in problems("box") if "tail" in p.tags]
    assert problems("no-such-tag") == []


def test_problems_are_built_once_and_cannot_be_spoilt():
    first, again = problems("small")[0], problems("small")[0]
    assert first is again
    with pytest.raises(ValueError, match="read-only"):
        first.cov[0, 0] = 2.0


def test_arrays_are_well_formed():
    for p in problems():
        d = p.upper.size
        assert p.lower.shape == p.upper.shape == (d,), p.name
        assert p.cov.shape == (d, d), p.name
        assert np.array_equal(p.cov, p.cov.T), p.name
        assert np.all(p.lower < p.upper), p.name
        assert p.source, p.name
        assert np.linalg.eigvalsh(correlation(p.cov))[0] > -1e-13 * d, p.name


def test_tags_tell_the_truth():
    for p in problems():
        d, corr = p.upper.size, correlation(p.cov)
        off = corr[~np.eye(d, dtype=bool)]
        smallest = np.linalg.eigvalsh(corr)[0]
        facts = {
            "orthant": np.all(p.lower == -np.inf),
            "box": np.any(p.lower > -np.inf),
            "small": d <= 3,
            "high-dim": d >= 100,
            "tail": -745 < p.log_prob <= -10,
            "deep-tail": p.log_prob <= -745,
            "singular": smallest < 1e-12,
            "independent": not off.any(),
        }
        for tag, holds in facts.items():
            assert (tag in p.tags) == bool(holds), (p.name, tag)
        if "negative" in p.tags:
            assert np.all(off <= 0), p.name
            assert np.any(off < 0), p.name
        if "equicorrelation" in p.tags:
            assert np.ptp(off) < 1e-14, p.name
        if "near-singular" in p.tags:
            # conditional variance over variance
            assert 0 < 1 / np.diag(np.linalg.inv(corr)).max() < 2e-3, p.name
        if "exchangeable" in p.tags:
            assert "equicorrelation" in p.tags, p.name
            assert np.all(p.upper == p.upper[0]), p.name
            assert np.all(p.lower == p.lower[0]), p.name


def test_answers_are_precise_and_the_error_is_positive():
    for p in problems():
        sampled = "reference" in p.tags and "random" in p.tags
        assert 0 < p.log_error < (2e-5 if sampled else 1e-9), p.name


def test_no_order_is_left_in_chains():
    for p in problems("ar1"):
        if "reference" not in p.tags:
            neighbours = np.abs(np.diag(correlation(p.cov), 1))
            assert np.ptp(neighbours) > 1e-3, p.name


def test_variances_are_unequal_in_a_share():
    unequal = [p for p in problems() if np.ptp(np.diag(p.cov)) > 0]
    assert len(unequal) > len(problems()) / 3


def test_boxes_mix_all_kinds_of_limits():
    p = next(p for p in problems("box") if p.name == "one-factor-box-200")
    kinds = set(zip(np.isfinite(p.lower).tolist(), np.isfinite(p.upper).tolist(), strict=True))
    assert len(kinds) == 4


@pytest.mark.slow
def test_genz_agrees():
    judged = [p for p in problems() if p.log_prob > -9 and "singular" not in p.tags]
    assert len(judged) > 70
    for p in judged:
        n = 20_000 if p.upper.size < 100 else 4_000
        assert deviation(p, naive.genz(p.lower, p.upper, p.cov, n)) < 4, p.name


def test_genz_agrees_in_tails_it_can_reach():
    judged = 0
    for p in problems("tail"):
        # Without the tightest limits first plain Genz finds nothing out there.
        order = np.argsort(np.minimum(p.upper, -p.lower) / np.sqrt(np.diag(p.cov)))
        cov = p.cov[np.ix_(order, order)]
        estimate, standard_error = naive.genz(p.lower[order], p.upper[order], cov, 20_000)
        if standard_error < 0.02 * estimate:
            judged += 1
            assert deviation(p, (estimate, standard_error)) < 4, p.name
    assert judged >= 10


def test_counting_agrees_where_the_covariance_is_singular():
    for p in problems("singular"):
        assert deviation(p, naive.count(p.lower, p.upper, p.cov, 200_000)) < 4, p.name


def test_nested_quadrature_agrees_in_few_dimensions():
    judged = [p for p in problems("small") if p.log_prob > -10 and "near-singular" not in p.tags]
    assert len(judged) >= 10
    for p in judged:
        prob = naive.nested_quad(p.lower, p.upper, p.cov)
        assert prob == pytest.approx(np.exp(p.log_prob), abs=1e-8), p.name


def test_forty_digits_agree_in_few_dimensions_however_far_out():
    judged = [p for p in problems("small", "orthant") if p.upper.size > 1]
    assert min(p.log_prob for p in judged) < -745
    for p in judged:
        corr, b = correlation(p.cov), p.upper / np.sqrt(np.diag(p.cov))
        if p.upper.size == 2:
            prob = exact.bivariate_prob(b[0], b[1], corr[0, 1])
        else:
            prob = exact.trivariate_prob(b, corr)
        # Dividing by the standard deviations has rounded b: that counts in the tail.
        slack = 4e-16 * np.abs(b).max() ** 2
        assert abs(float(mpmath.log(prob)) - p.log_prob) <= p.log_error + slack, p.name


def test_the_judges_see_a_wrong_answer():
    p = next(p for p in problems("exchangeable") if p.upper.size == 10)
    wrong = dataclasses.replace(p, log_prob=p.log_prob + 0.05)
    assert deviation(wrong, naive.genz(p.lower, p.upper, p.cov, 20_000)) > 4
    assert deviation(wrong, naive.count(p.lower, p.upper, p.cov, 200_000)) > 4


def one_factor_of(cov):
    """The c and v with cov = diag(c) + v v^T, from three rows of it."""
    v0 = np.sqrt(abs(cov[0, 1] * cov[0, 2] / cov[1, 2]))
    v = np.concatenate([[v0], cov[0, 1:] / v0])
    return np.diag(cov) - v**2, v


@pytest.mark.parametrize(
    "name", ["a_exch_d9", "a_exch_d99", "d_tail_d20", "e_orth_d99", "f_onefac_d50"]
)
def test_stored_one_factor_references_are_found_again(name):
    p = reference(name)
    c, v = one_factor_of(p.cov)
    np.testing.assert_allclose(np.diag(c) + np.outer(v, v), p.cov, rtol=1e-12)
    found, _ = one_factor_logprob(p.lower, p.upper, c, v)
    assert found == pytest.approx(p.log_prob, abs=1e-11)

    gradient = reference_gradient(name)
    assert gradient is not None
    for i in (0, 1, p.upper.size - 1):
        step = np.zeros(p.upper.size)
        step[i] = 1e-4
        above, _ = one_factor_logprob(p.lower, p.upper + step, c, v)
        below, _ = one_factor_logprob(p.lower, p.upper - step, c, v)
        assert (above - below) / 2e-4 == pytest.approx(gradient[i], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", ["cm_ar1_d50", "cn_ar1_d50"])
def test_stored_chains_are_found_again(name):
    p = reference(name)
    found, error = markov_logprob(p.lower, p.upper, np.diag(p.cov, 1))
    assert found == pytest.approx(p.log_prob, abs=p.log_error + error)
    assert reference_gradient(name) is None
