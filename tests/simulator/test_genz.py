"""Sums of weights against the CPU's.

Both add the same weights in another order: 1e-13 relative.  In single precision T and y are
rounded to 6e-8, of which a sum over d of them and a product of d factors make some 1e-6.
"""

import numpy as np
import pytest
from support import systems

from mvnorth._cuda import genz
from mvnorth._cuda.genz import THREADS, GenzSums

DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["double", "single"])


def check(queue, dtype, arguments, rows, where):
    sums = GenzSums(queue, dtype, *arguments)(rows, where)
    expected = systems.joined(systems.cpu_sums(arguments, rows, where))
    tolerance = {"rtol": 1e-13, "atol": 1e-13} if dtype == np.float64 else {"atol": 2e-6}
    np.testing.assert_allclose(systems.joined(sums), expected, **tolerance)
    return sums


@DTYPES
@pytest.mark.parametrize(
    ("d", "kind"),
    [
        (1, "below"),
        (1, "between"),
        (19, "tilted"),
        (51, "tied"),
        pytest.param(51, "below", marks=pytest.mark.slow),
    ],
)
def test_equals_cpu(queue, dtype, d, kind):
    check(queue, dtype, systems.system(d, kind), np.array([1]), systems.points(d, 100))


@DTYPES
def test_rows_slices_and_parts(queue, dtype, monkeypatch):
    """More items than blocks, slices of several batches, the last of them not full."""
    monkeypatch.setattr(genz, "RESIDENT", 1)
    monkeypatch.setattr(genz, "SLICES", 2)
    where = systems.points(5, 150, parts=2, replicates=1, first=1, stride=2)
    sums = check(queue, dtype, systems.system(5, "between"), np.array([1, 0]), where)
    assert sums.shape == (2, 1, 2, 2)


def test_keeps_what_underflows(queue):
    """Even of Phi(-x) exp(x**2/2), about 1e-7, a product of so many."""
    T, lower, upper, *rest = systems.system(60, "below", size=1)
    arguments = (0.01 * T, lower, upper - 3e6, *rest)
    sums = check(queue, np.float64, arguments, np.array([0]), systems.points(60, 30, replicates=1))
    assert (sums < -1e14).all()


def test_nothing_between(queue):
    T, lower, upper, *rest = systems.system(4, "between", size=1)
    lower[:, 2] = upper[:, 2]
    sums = GenzSums(queue, np.float64, T, lower, upper, *rest)
    assert (sums(np.array([0]), systems.points(4, 30, replicates=1)) == -np.inf).all()


def test_no_rows(queue):
    sums = GenzSums(queue, np.float64, *systems.system(3, "below"))
    where = systems.points(3, THREADS)
    assert sums(np.array([], dtype=np.int64), where).shape == (0, 2, 1, 2)
