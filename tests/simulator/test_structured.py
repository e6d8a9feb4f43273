"""The structured Genz kernel against its twin on the CPU.

Both call the same functions of one number; what they may differ in is where a product and a sum
are fused, and the order of sums.  In single precision the twin is given the rounded rows.
"""

from functools import partial

import numpy as np
import pytest

from mvnorth import qmc
from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._cpu import structured as cpu
from mvnorth._cuda import groups, structured
from mvnorth._methods.lattice_rule import log_sum
from mvnorth._methods.structured import System
from mvnorth._points import Points
from mvnorth._problem import Problems


def lattice(d, total, parts=1, replicates=2, first=1, stride=2):
    """``total`` points a shift, in parts."""
    count = total // parts
    start = first + stride * count * np.arange(parts)
    z = qmc.lattice_vector(d) / 1024
    return Points(z, qmc.random_shifts(3, replicates, d), start, stride, count)


def boxes(size, d, seed=0):
    """Rows with one and two limits, and some without any."""
    rng = np.random.default_rng(seed)
    upper = rng.normal(0.5, 1.5, (size, d))
    lower = np.where(rng.random((size, d)) < 0.5, upper - rng.exponential(2.0, (size, d)), -np.inf)
    upper[rng.random((size, d)) < 0.2] = np.inf
    c, v = rng.uniform(0.3, 2.0, (size, d)), rng.normal(0.0, 1.0, (size, d))
    return Problems(lower, upper, OneFactorRows(c, v), np.zeros(size))


def in_storage(arguments, dtype):
    """Rows as they are stored; the same numbers for the twin."""
    return tuple(a if a.dtype == np.int64 else a.astype(dtype) for a in arguments)


def twin(arguments, rows, points):
    double = tuple(a if a.dtype == np.int64 else a.astype(np.float64) for a in arguments)
    logs = points.log_sums(partial(cpu.structured_sums, *double), rows, 0.0)
    return log_sum(logs[..., 0], 2), logs[..., 1].max(axis=2)


def check(queue, arguments, rows, points, dtype=np.float64, atol=1e-13):
    arguments = in_storage(arguments, dtype)
    found = structured.StructuredSums(queue, dtype, *arguments)(rows, points)
    assert found.dtype == np.float64
    assert found.shape[:2] == (rows.size, len(points.shifts))
    total, largest = twin(arguments, rows, points)
    np.testing.assert_allclose(log_sum(found[..., 0], 2), total, rtol=1e-15, atol=atol)
    np.testing.assert_allclose(found[..., 1].max(axis=2), largest, rtol=1e-15, atol=atol)
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("total", "parts"), [(1, 1), (2, 1), (6, 2), (40, 1)])
def test_several_items_a_block(queue, dtype, total, parts):
    system, _ = System.of(boxes(4, 11)).tilted()
    rows = np.array([3, 0, 1])
    check(queue, system.kernel_arguments, rows, lattice(11, total, parts), dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_slices(queue, dtype):
    system = System.of(boxes(2, 6))
    found = check(queue, system.kernel_arguments, np.array([1]), lattice(6, 300, 3), dtype)
    assert found.shape[2] == 3


def test_several_points_a_thread(queue, monkeypatch):
    monkeypatch.setattr(structured, "SLICES", 2)
    system = System.of(boxes(2, 5))
    found = check(queue, system.kernel_arguments, np.array([1]), lattice(5, 600, 1, 1))
    assert found.shape[2] == 2


def test_one_coordinate(queue):
    system = System.of(boxes(3, 1, seed=4))
    check(queue, system.kernel_arguments, np.arange(3), lattice(1, 4))


def test_special_rows(queue):
    d = 9
    upper = np.full((6, d), np.inf)  # row 0 has no limits
    lower = np.full((6, d), -np.inf)
    upper[1:] = np.linspace(-1.0, 1.0, d)
    upper[2] -= 60.0  # quantiles beyond the rational function, weights far below 1e-308
    lower[3], upper[3] = 37.0, np.inf
    lower[4, 2] = upper[4, 2]  # nothing between
    lower[5] = upper[5] - 5e-4  # narrow
    c, v = np.ones((1, d)), np.linspace(0.0, 1.0, d)[None]
    system = System.of(Problems(lower, upper, OneFactorRows(c, v), np.zeros(6)))
    # Limits of -60 less what was drawn: rounding of a limit is multiplied by it.
    found = check(queue, system.kernel_arguments, np.arange(6), lattice(d, 8), atol=1e-11)
    assert found[0].tolist() == [[[np.log(8.0), 0.0]]] * 2
    assert (found[2] < -1e3).all()
    assert (found[4] == -np.inf).all()


def test_mantissas_are_kept_from_underflow(queue):
    """Each is about 4e-7."""
    d = 50
    lower, upper = np.full((1, d), -np.inf), np.full((1, d), -1e6)
    problems = Problems(lower, upper, OneFactorRows(np.ones((1, d)), np.zeros((1, d))), np.zeros(1))
    arguments = System.of(problems).kernel_arguments
    found = check(queue, arguments, np.array([0]), lattice(d, 1, replicates=1))
    assert np.isfinite(found).all()


def test_single_precision_is_near(queue):
    arguments = System.of(boxes(3, 11)).kernel_arguments
    rows, points = np.arange(3), lattice(11, 16)
    found = structured.StructuredSums(queue, np.float32, *arguments)(rows, points)
    total, _ = twin(arguments, rows, points)
    np.testing.assert_allclose(log_sum(found[..., 0], 2), total, atol=1e-5)


def test_no_rows(queue):
    arguments = System.of(boxes(2, 3)).kernel_arguments
    sums = structured.StructuredSums(queue, np.float64, *arguments)
    assert sums(np.arange(0), lattice(3, 4)).shape == (0, 2, 1, 2)


@pytest.mark.parametrize("most", [1, 7, 256])
@pytest.mark.parametrize("points", [1, 3, 128, 129, 1000, 2**17])
def test_split_covers_all_points(points, most):
    split = groups.Split.of(points, most)
    assert split.group == 1 << split.log_group <= groups.THREADS
    assert split.share % split.group == 0
    assert (split.slices - 1) * split.share < points <= split.slices * split.share
    assert split.slices <= most
    assert split.slices == 1 or split.group == groups.THREADS
    for items in (1, 8, 1000):
        threads, used = split.blocks(items) * groups.THREADS, items * split.slices * split.group
        assert threads - groups.THREADS < used <= threads
