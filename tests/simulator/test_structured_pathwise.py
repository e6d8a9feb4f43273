"""The structured reverse sweep against its twin on the CPU.

Statistics are compared relative to the sum of absolute values, which is what rounding is relative
to: both sum the same terms in another order.  In single precision the twin is given the rounded
rows; what the kernel keeps of a sample is rounded as well.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from mvnorth import qmc
from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._cpu import structured_pathwise as cpu
from mvnorth._cuda import groups, structured_pathwise
from mvnorth._linalg.one_factor import running_sums
from mvnorth._methods.lattice_means import Sums
from mvnorth._methods.structured import System
from mvnorth._points import Points
from mvnorth._problem import Problems


def lattice(d, total, parts=1, replicates=2, first=1, stride=2):
    """``total`` points a shift, in parts."""
    count = total // parts
    start = first + stride * count * np.arange(parts)
    z = qmc.lattice_vector(d) / 1024
    return Points(z, qmc.random_shifts(3, replicates, d), start, stride, count)


def arguments_of(upper, c, v):
    """What both twins take; infinite limits come last."""
    lower = np.full(upper.shape, -np.inf)
    system = System.of(Problems(lower, upper, OneFactorRows(c, v), np.zeros(len(upper))))
    c, v = system.c, system.v
    s, before = running_sums(c, v)
    root = np.sqrt(c) * np.sqrt(s) * np.sqrt(before)
    recursion = np.stack([1 / s, v * v / c, 1 / system.diag, 1 / root, 2 * v / c], axis=1)
    return (*system.kernel_arguments, recursion)


def orthants(size, d, seed=0):
    rng = np.random.default_rng(seed)
    upper = rng.normal(0.0, 1.5, (size, d))
    upper[rng.random((size, d)) < 0.2] = np.inf
    c, v = rng.uniform(0.3, 2.0, (size, d)), rng.normal(0.0, 1.0, (size, d))
    return arguments_of(upper, c, v)


def in_storage(arguments, dtype):
    """Rows as they are stored; the same numbers for the twin."""
    return tuple(a if a.dtype == np.int64 else a.astype(dtype) for a in arguments)


def twin(arguments, rows, points):
    double = tuple(a if a.dtype == np.int64 else a.astype(np.float64) for a in arguments)
    items = rows.size * len(points.shifts) * points.start.size
    stats = np.empty((items, 3, 3, arguments[0].shape[1]))
    kernel = partial(cpu.structured_pathwise_sums, *double, stats)
    return Sums.of_parts(points.log_sums(kernel, rows, 0.0), stats)


def check(queue, arguments, rows, points, dtype=np.float64, rtol=1e-13):
    arguments = in_storage(arguments, dtype)
    sums = structured_pathwise.StructuredPathwiseSums(
        queue, dtype, *arguments[:-1], recursion=arguments[-1]
    )
    logs, stats = sums(rows, points)
    assert logs.shape == (rows.size, len(points.shifts), 1, 2)
    found, expected = Sums.of_parts(logs, stats), twin(arguments, rows, points)
    near = partial(np.testing.assert_allclose, rtol=1e-15, atol=1e-13)
    near(found.log_weight, expected.log_weight)
    near(found.log_largest, expected.log_largest)
    size = expected.stats[:, :, 1]
    for kind in range(3):
        error = np.abs(found.stats[:, :, kind] - expected.stats[:, :, kind])
        assert (error <= rtol * size).all(), (kind, (error / np.maximum(size, 1e-300)).max())
    return found


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
@pytest.mark.parametrize(("total", "parts"), [(1, 1), (2, 1), (6, 2), (16, 1), (40, 1)])
def test_several_items_a_block(queue, dtype, rtol, total, parts):
    rows = np.array([3, 0, 1])
    check(queue, orthants(4, 7), rows, lattice(7, total, parts), dtype, rtol)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_slices(queue, dtype, rtol):
    check(queue, orthants(2, 6), np.array([1]), lattice(6, 300, 3, 1), dtype, rtol)


@pytest.mark.parametrize("slices", [2, 5])
def test_statistics_are_scaled(queue, monkeypatch, slices):
    """In slices, and 128 points after others in a slice, of which later ones weigh far more."""
    monkeypatch.setattr(structured_pathwise, "SLICES", slices)
    d = 4
    v = np.array([[2.0, -2.0, 2.0, -2.0]])
    arguments = arguments_of(np.full((1, d), -1.0), np.full((1, d), 0.1), v)
    points = lattice(d, 640, 5, 1, stride=1)  # along the first coordinate
    largest = [
        twin(arguments, np.array([0]), replace(points, start=points.start[k : k + 1])).log_largest
        for k in range(5)
    ]
    assert (np.diff(largest[:3], axis=0) > np.log(4.0)).any()  # those of the first slice of two
    check(queue, arguments, np.array([0]), points, rtol=1e-12)


def test_segments(queue, monkeypatch):
    """Variables that are drawn again, and more slots than blocks."""
    column = 2 * groups.THREADS * 8
    monkeypatch.setattr(structured_pathwise, "LEAST", 1)
    monkeypatch.setattr(structured_pathwise, "KEPT", 4 * column)
    whole = check(queue, orthants(2, 11), np.arange(2), lattice(11, 70))
    monkeypatch.undo()
    same = check(queue, orthants(2, 11), np.arange(2), lattice(11, 70))
    assert whole.stats.tobytes() == same.stats.tobytes()


def test_some_rows_at_a_time(queue, monkeypatch):
    monkeypatch.setattr(structured_pathwise, "LEAST", 1)
    monkeypatch.setattr(structured_pathwise, "KEPT", 2**13)  # a row takes 72 * 2 * 20
    check(queue, orthants(3, 20), np.array([2, 0, 1]), lattice(20, 2))


def test_one_coordinate(queue):
    check(queue, orthants(3, 1, seed=4), np.arange(3), lattice(1, 4))


def test_special_rows(queue):
    d = 9
    upper = np.full((3, d), np.inf)  # row 0 has no limits
    upper[1:] = np.linspace(-1.0, 1.0, d)
    upper[2] -= 20.0  # weights far below 1e-308
    arguments = arguments_of(upper, np.ones((1, d)), np.linspace(0.0, 1.0, d)[None])
    found = check(queue, arguments, np.arange(3), lattice(d, 8), rtol=1e-12)
    assert (found.stats[0] == 0.0).all()
    assert (found.log_weight[2] < -720.0).all()


def test_mantissas_are_kept_from_underflow(queue):
    """Each is about 4e-7."""
    d = 50
    arguments = arguments_of(np.full((1, d), -1e6), np.ones((1, d)), np.zeros((1, d)))
    found = check(queue, arguments, np.array([0]), lattice(d, 1, replicates=1))
    assert np.isfinite(found.log_weight).all()


def test_single_precision_is_near(queue):
    arguments, rows, points = orthants(3, 7), np.arange(3), lattice(7, 16)
    sums = structured_pathwise.StructuredPathwiseSums(
        queue, np.float32, *arguments[:-1], recursion=arguments[-1]
    )
    found, expected = Sums.of_parts(*sums(rows, points)), twin(arguments, rows, points)
    np.testing.assert_allclose(found.log_weight, expected.log_weight, atol=1e-5)
    error = np.abs(found.stats - expected.stats)
    assert (error <= 1e-5 * expected.stats[:, :, 1:2] + 1e-300).all()


def test_no_rows(queue):
    *given, recursion = orthants(2, 3)
    sums = structured_pathwise.StructuredPathwiseSums(
        queue, np.float64, *given, recursion=recursion
    )
    logs, stats = sums(np.arange(0), lattice(3, 4))
    assert logs.shape == (0, 2, 1, 2)
    assert stats.shape == (0, 3, 3, 3)
