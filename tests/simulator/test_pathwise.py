"""Sums of weights and of their derivatives against the CPU's.

Both add the same numbers in another order, and derivatives of samples have either sign: 1e-13 of
the largest sum.  In single precision T, y and derivatives of samples are rounded to 6e-8, see
``test_genz``.
"""

import numpy as np
import pytest
from support import systems

from mvnorth._cuda import genz, pathwise
from mvnorth._cuda.pathwise import PathwiseSums
from mvnorth._methods.lattice_means import Sums

DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["double", "single"])


def check(queue, dtype, arguments, rows, where, products=True):
    logs, stats, product = PathwiseSums(queue, dtype, *arguments, products=products)(rows, where)
    pairs, d = rows.size * len(where.shifts), arguments[1].shape[1]
    assert logs.shape == (rows.size, len(where.shifts), 1, 2)
    assert stats.shape == (pairs, 3, 3, d)
    sums = Sums.of_parts(logs, stats, product)
    expected = Sums.of_parts(*systems.cpu_pathwise(arguments, rows, where))
    tolerance = 1e-13 if dtype == np.float64 else 3e-6
    for name in ("log_weight", "log_largest", "stats", "products"):
        value, wanted = getattr(sums, name), getattr(expected, name)
        if name != "products" or products:
            scale = max(1.0, np.max(np.abs(wanted)))
            np.testing.assert_allclose(value, wanted, rtol=0.0, atol=tolerance * scale)
    return product


@DTYPES
@pytest.mark.parametrize(("d", "kind"), [(1, "below"), (19, "tilted"), (35, "tied")])
def test_equals_cpu(queue, dtype, d, kind):
    where = systems.points(d, 100, replicates=1)
    check(queue, dtype, systems.system(d, kind), np.array([1]), where)


def test_several_tiles_of_products(queue):
    arguments, where = systems.system(38, "between"), systems.points(38, 100, replicates=1)
    check(queue, np.float64, arguments, np.array([1]), where)


def test_without_products(queue):
    arguments, where = systems.system(51, "below"), systems.points(51, 100, replicates=1)
    assert check(queue, np.float64, arguments, np.array([1]), where, products=False) is None


@pytest.mark.parametrize("most", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_batches_at_a_time(queue, monkeypatch, most):
    """Three batches a row, as many at a time as the work arrays have room for.

    Points come in an order in which later weights are four times the earlier ones.
    """
    d = 3
    T, lower, upper, *rest = systems.system(d, "between")
    arguments = (10.0 * T, lower, upper, *rest)
    monkeypatch.setattr(pathwise, "SCRATCH", most * 4 * d * genz.THREADS * 8)
    where = systems.points(d, 150, parts=2, replicates=1, first=599, stride=-2)
    check(queue, np.float64, arguments, np.array([1, 0]), where)


def test_nothing_between(queue):
    T, lower, upper, *rest = systems.system(4, "between", size=1)
    lower[:, 2] = upper[:, 2]
    sums = PathwiseSums(queue, np.float64, T, lower, upper, *rest, products=True)
    logs, stats, products = sums(np.array([0]), systems.points(4, 30, replicates=1))
    assert (logs == -np.inf).all()
    assert (stats == 0.0).all()
    assert (products == 0.0).all()


def test_no_rows(queue):
    sums = PathwiseSums(queue, np.float64, *systems.system(3, "below"), products=False)
    logs, stats, products = sums(np.array([], dtype=np.int64), systems.points(3, 100))
    assert logs.shape == (0, 2, 1, 2)
    assert stats.shape == (0, 3, 3, 3)
    assert products is None
