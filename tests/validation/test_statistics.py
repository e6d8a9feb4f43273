"""Ranks and tests against published examples, scipy, and counting by hand."""

import itertools

import numpy as np
import pytest
from scipy import stats

from validation import statistics

# Conover (1999), section 5.8, example 1: twelve home owners rank four kinds of grass.
GRASS = [
    [4, 3, 2, 1],
    [4, 2, 3, 1],
    [3, 1.5, 1.5, 4],
    [3, 1, 2, 4],
    [4, 2, 1, 3],
    [2, 2, 2, 4],
    [1, 3, 2, 4],
    [2, 4, 1, 3],
    [3.5, 1, 2, 3.5],
    [4, 1, 3, 2],
    [4, 2, 3, 1],
    [3.5, 1, 2, 3.5],
]


@pytest.fixture
def grass():
    return -np.array(GRASS)  # rank 1 is the largest value


def test_ranks_are_those_they_were_made_of(grass):
    assert (statistics.ranks(grass) == GRASS).all()
    assert statistics.ranks(grass).sum(0).tolist() == [38, 23.5, 24.5, 34]


def test_friedman_has_the_published_value(grass):
    found = statistics.friedman(grass)
    assert found.statistic == pytest.approx(8.0973, abs=1e-4)
    assert found.p == pytest.approx(stats.chi2.sf(8.0973, 3), abs=1e-5)


def test_conover_has_the_published_critical_difference(grass):
    # Rank sums that are 11.49 apart differ at the level 0.05: 38 - 23.5 and 38 - 24.5 are more.
    p = statistics.conover(grass)
    assert [(i, j) for i, j in itertools.combinations(range(4), 2) if p[i, j] < 0.05] == [
        (0, 1),
        (0, 2),
    ]
    apart = stats.t.isf(p[0, 1] / 2, 33)  # in units of the estimated deviation
    assert 14.5 / apart * stats.t.isf(0.025, 33) == pytest.approx(11.49, abs=0.01)


def test_conover_is_the_test_on_the_ranks_two_way_residuals():
    # The same by least squares: ranks minus block and method means, as in an analysis of variance.
    values = np.random.default_rng(1).normal(size=(15, 5)).round(1)
    ranked = np.array([stats.rankdata(-row) for row in values])
    residual = ranked - ranked.mean(0) - ranked.mean(1, keepdims=True) + ranked.mean()
    freedom = 14 * 4
    deviation = np.sqrt((residual**2).sum() / freedom * 2 / 15)
    apart = np.abs(ranked.mean(0)[:, None] - ranked.mean(0))
    expected = np.where(apart > 0, 2 * stats.t.sf(apart / deviation, freedom), 1.0)
    np.testing.assert_allclose(statistics.conover(values), expected, rtol=1e-10)


def test_nothing_but_ties_is_no_difference():
    values = np.ones((4, 3))
    assert statistics.friedman(values) == (0.0, 1.0)
    assert (statistics.conover(values) == 1.0).all()


def test_the_same_order_everywhere_is_certain():
    values = np.tile([3.0, 2.0, 1.0], (5, 1))
    assert (statistics.conover(values) == np.eye(3)).all()


def test_benjamini_hochberg_by_hand():
    p = np.ones((3, 3))
    for (i, j), value in zip([(0, 1), (0, 2), (1, 2)], [0.01, 0.04, 0.03], strict=True):
        p[i, j] = p[j, i] = value
    adjusted = statistics.benjamini_hochberg(p)
    assert adjusted[0, 1] == adjusted[1, 0] == pytest.approx(0.03)
    assert adjusted[0, 2] == adjusted[1, 2] == pytest.approx(0.04)
    assert (np.diag(adjusted) == 1).all()


def test_holm_as_r_has_it():
    found = statistics.holm([0.01, 0.5, 0.02, 0.003, 0.02, 0.9])
    # p.adjust(c(0.01, 0.5, 0.02, 0.003, 0.02, 0.9), "holm")
    np.testing.assert_allclose(found, [0.05, 1.0, 0.08, 0.018, 0.08, 1.0])
    assert len(statistics.holm([])) == 0


def test_groups_hold_no_pair_that_differs():
    p = np.ones((4, 4))
    p[0, 2] = p[2, 0] = p[0, 3] = p[3, 0] = 0.001
    assert statistics.alike([4.0, 3.0, 2.0, 1.0], p) == [[3, 2, 1], [1, 0]]
    assert statistics.alike([1.0, 2.0], [[1.0, 0.01], [0.01, 1.0]]) == []


def test_profiles_by_counting():
    values = np.random.default_rng(2).uniform(size=(20, 3))
    shares = [0.3, 0.7, 0.95, 1.0]
    found = statistics.profile(values, shares)
    for row, share in zip(found, shares, strict=True):
        for method in range(3):
            reached = sum(each[method] >= share * max(each) for each in values)
            assert row[method] == pytest.approx(reached / 20)
    assert found[-1].tolist() == (statistics.wins(values) / 20).tolist()


def test_the_picture_has_every_method_and_group():
    from validation.page import axes

    _, ax = axes()
    statistics.draw_ranks(ax, ["a", "b", "c"], [1.2, 1.9, 2.9], [[0, 1], [1, 2]])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    assert [text.get_text() for text in ax.texts] == ["1.20", "1.90", "2.90"]
    bars = [line for line in ax.lines if line.get_gid() == "group"]
    rows = [[round(float(y)) for y in bar.get_ydata()] for bar in bars]
    assert rows == [[0, 1], [1, 2]]
    assert len({bar.get_xdata()[0] for bar in bars}) == 2


@pytest.mark.parametrize("count", [2, 6, 14])
def test_labels_of_the_picture_do_not_overlap(count):
    from validation.page import axes

    figure, ax = axes()
    mean_ranks = [3.0 + 0.01 * n for n in range(count)]  # all but equal
    names = [f"a long name of method {n}" for n in range(count)]
    statistics.draw_ranks(ax, names, mean_ranks, [list(range(count))])
    figure.draw_without_rendering()
    for labels in (ax.get_yticklabels(), ax.texts):
        boxes = [label.get_window_extent() for label in labels]
        assert len(boxes) == count
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    (bar,) = (line for line in ax.lines if line.get_gid() == "group")
    assert bar.get_window_extent().x0 > max(box.x1 for box in boxes)
    assert figure.bbox.x1 > bar.get_window_extent().x1
