import numpy as np
import pytest
from scipy.special import log_ndtr

from validation import toy


def test_cross_entropy_and_hinge_by_hand():
    b = np.array([0.0, 0.125, 0.7])
    f = 2.0 * (np.array(toy.X) - b[:, None])
    signed = np.where(np.array(toy.LABELS) == 1, f, -f)
    found = toy.curve("cross-entropy", b, 2.0)
    np.testing.assert_allclose(found, np.log1p(np.exp(-signed)).mean(axis=1), rtol=1e-12)
    found = toy.curve("hinge", b, 2.0)
    np.testing.assert_allclose(found, np.maximum(0.0, 1.0 - signed).mean(axis=1), rtol=1e-12)


def test_exact_with_two_classes_is_probit():
    signed = np.array([0.375, 0.125, 0.125]) / (0.1 * np.sqrt(2.0))
    expected = -log_ndtr(signed).mean()
    assert toy.curve("EXACT, -log P", 0.125, sigma=0.1) == pytest.approx(expected, rel=1e-12)
    expected = -np.expm1(log_ndtr(signed)).mean()
    assert toy.curve("EXACT, 1 - P", 0.125, sigma=0.1) == pytest.approx(expected, rel=1e-12)


def test_curves_broadcast_thresholds_and_slopes():
    assert toy.curve("hinge", np.zeros((4, 1)), np.ones(3)).shape == (4, 3)


@pytest.mark.parametrize(("b", "count"), [(-1.0, 2), (-0.1, 1), (0.125, 0), (0.25, 0), (0.7, 1)])
def test_wrong(b, count):
    assert toy.wrong(b) == count


def test_minimisers_of_the_paper():
    assert toy.minimisers("cross-entropy") == (0.7, 0.7)
    assert toy.minimisers("hinge") == (0.75, 1.0)
    assert toy.minimisers("EXACT, -log P") == (0.125, 0.125)


def test_descent_ends_at_the_minimum():
    path = toy.descent("cross-entropy", scale=False, steps=300)
    assert path.b[-1] == pytest.approx(0.7, abs=2e-2)
    assert path.k[-1] == 1.0
    assert len(path.b) == len(path.k) == len(path.loss) == 301
    assert path.loss[-1] == pytest.approx(float(toy.curve("cross-entropy", path.b[-1])))
