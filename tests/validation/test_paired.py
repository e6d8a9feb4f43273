import math

import numpy as np
import pytest

from validation.reports.criticism.paired import error_of_examples, paired


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


def test_ties_do_not_count():
    found = paired([0.0, 1e-15, 0.1])
    assert (found.pairs, found.wins, found.losses, found.sign) == (3, 1, 0, 1.0)
    nothing = paired([0.0, 0.0])
    assert (nothing.sign, nothing.wilcoxon, nothing.verdict) == (1.0, 1.0, "no difference shown")


def test_a_single_pair_has_no_error():
    assert math.isnan(paired([0.3]).error)


def test_error_of_examples_is_of_those_that_differ():
    first = np.array([True, True, False, True])
    assert error_of_examples(first, first) == 0.0
    second = np.array([True, False, True, True])
    assert error_of_examples(first, second) == pytest.approx(math.sqrt(0.5) / 2)
