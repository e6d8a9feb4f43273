import math

import numpy as np
import pytest
from scipy import stats

from validation.reports.criticism.paired import by_set, interval, paired


def test_all_wins():
    found = paired([0.1, 0.2, 0.3, 0.4, 0.5, 0.7])
    assert (found.pairs, found.wins, found.losses) == (6, 6, 0)
    assert found.sign == found.wilcoxon == pytest.approx(2 * 0.5**6)
    assert found.mean == pytest.approx(2.2 / 6)
    assert found.verdict == "better"
    assert paired([-0.1, -0.2, -0.3, -0.4, -0.5, -0.7]).verdict == "worse"


def test_wilcoxon_by_hand():
    # Ranks 1 and 2 are negative: W = 3, and of 2^5 signs those with W <= 3 are {}, 1, 2, 3, 12.
    found = paired([-0.1, -0.2, 0.3, 0.4, 0.5])
    assert found.wilcoxon == pytest.approx(2 * 5 / 32)
    assert found.sign == 1.0
    assert found.verdict == "no difference shown"


def test_the_direction_is_that_of_the_ranks_and_not_of_the_mean():
    found = paired([0.5 + 0.01 * k for k in range(20)] + [-80.0])
    assert (found.wins, found.losses, found.direction) == (20, 1, 1)
    assert found.mean < 0
    assert found.wilcoxon < 0.001
    assert found.verdict == "better"
    assert paired([-0.1, -0.2, 0.3]).direction == 0


def test_ties_do_not_count():
    found = paired([0.0, 1e-15, 0.1])
    assert (found.pairs, found.wins, found.losses, found.sign) == (3, 1, 0, 1.0)
    nothing = paired([0.0, 0.0])
    assert (nothing.sign, nothing.wilcoxon, nothing.verdict) == (1.0, 1.0, "no difference shown")


def test_a_single_pair_has_no_error():
    assert math.isnan(paired([0.3]).error)


def test_intervals_by_hand():
    found = interval([1.0, 2.0, 3.0])  # t(2) has 4.3027 at 97.5 %, 2.9200 at 95 %
    assert found.mean == pytest.approx(2.0)
    assert found.high - 2.0 == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    narrow = interval([1.0, 2.0, 3.0], 0.90)
    assert narrow.bound == pytest.approx(2.0 + 2.92 / math.sqrt(3), rel=1e-4)
    assert interval([-1.0, -2.0, -3.0], 0.90).bound == pytest.approx(narrow.bound)
    assert str(interval([-1.0, 1.0])) == "+0.00 (\N{MINUS SIGN}12.71 to +12.71)"
    assert str(interval([0.5])) == "+0.50"


def test_the_bound_is_that_of_two_one_sided_tests():
    values = np.random.default_rng(0).normal(0.1, 1.0, 20)
    bound = interval(values.tolist(), 0.90).bound
    p = max(
        stats.ttest_1samp(values, -bound, alternative="greater").pvalue,
        stats.ttest_1samp(values, bound, alternative="less").pvalue,
    )
    assert p == pytest.approx(0.05)


def test_values_of_a_set_are_averaged():
    assert by_set([("a", 1.0), ("b", 5.0), ("a", 3.0)]) == {"a": 2.0, "b": 5.0}
