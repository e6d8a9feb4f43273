"""No kernel lets threads meet at memory that one of them writes, or wait at different barriers."""

import numpy as np
import pytest
from numba import cuda, float64
from simulator.test_structured import boxes
from simulator.test_structured_pathwise import lattice, orthants
from support import systems
from support.races import watch  # noqa: F401

from mvnorth._cuda import (
    argmax,
    factor_memory,
    factor_trapezoid,
    gauss,
    genz,
    sparse_grid,
    structured_pathwise,
)
from mvnorth._cuda.genz import GenzSums
from mvnorth._cuda.one_factor import one_factor
from mvnorth._cuda.pathwise import PathwiseSums
from mvnorth._cuda.structured import StructuredSums
from mvnorth._cuda.structured_pathwise import StructuredPathwiseSums
from mvnorth._methods.gauss import _tables
from mvnorth._methods.structured import System

pytestmark = pytest.mark.slow


@cuda.jit
def _neighbours(first, second, apart, out):
    """What the next thread wrote; with barriers, if asked for them."""
    shared = cuda.shared.array(4, float64)
    t = cuda.threadIdx.x
    for k in range(2):
        shared[t] = t + k
        if first:
            cuda.syncthreads()
        out[cuda.blockIdx.x if apart else 0, t] = shared[(t + 1) % 4]
        if second:
            cuda.syncthreads()


@cuda.jit
def _alone(out):
    if cuda.threadIdx.x == 0:
        cuda.syncthreads()


@pytest.mark.parametrize(
    ("barriers", "apart", "wrong"),
    [
        ((True, True), True, set()),
        ((False, True), True, {"two threads"}),
        ((True, False), True, {"two threads"}),
        ((True, True), False, {"two blocks"}),
    ],
)
def test_the_judge(queue, watch, barriers, apart, wrong):  # noqa: F811
    queue.run(_neighbours, 2, 4, *barriers, apart, queue.empty((2, 4)))
    assert {what for what, _ in watch.wrong} == wrong


def test_the_judge_of_barriers(queue, watch):  # noqa: F811
    queue.run(_alone, 1, 4, queue.empty((1, 1)))
    assert {what for what, _ in watch.wrong} == {"different barriers"}


@pytest.fixture
def judged(watch, monkeypatch):  # noqa: F811
    """Functions of the CPU that take a block's arrays are watched too; then nothing was found."""
    names = ("hides_wall", "note_edge", "proceed", "claimed_error", "points_suffice")
    for module in (factor_trapezoid, argmax, gauss, sparse_grid):
        for name in (*names, "set_counts", "set_fewer", "between"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(module, name).py_func)
    yield watch
    assert watch.accesses > 1000
    assert watch.wrong == set()


def test_genz(queue, judged, monkeypatch):
    """Two panels of the 18 variables that are drawn; three items for two blocks."""
    monkeypatch.setattr(genz, "RESIDENT", 1)
    sums = GenzSums(queue, np.float64, *systems.system(24, "tied"))
    assert np.isfinite(sums(np.array([1]), systems.points(24, 3, replicates=3))).all()


@pytest.mark.usefixtures("quick_turns")
def test_gauss(queue, judged, monkeypatch):
    """Three rows for two blocks, orthants and boxes; variables that alone have another node."""
    monkeypatch.setattr(gauss, "RESIDENT", 1)
    monkeypatch.setattr(gauss, "THREADS", gauss.FEW_THREADS)
    T, lower, upper, _, _, slope, curve = systems.system(5, "between", size=3)
    lower[0] = -np.inf
    arrays = (T, lower, upper, slope, curve, np.zeros(3), *_tables())
    log_prob, _, used = gauss.integrate(queue, *arrays, 1e-2, 0.0, 2e3)
    assert np.isfinite(log_prob).all()
    assert (used > 50).all()


@pytest.mark.usefixtures("quick_turns")
def test_sparse_grids(queue, judged, monkeypatch):
    """Three rows for two blocks, of which one has two limits and goes on with products."""
    monkeypatch.setattr(gauss, "RESIDENT", 1)
    T, lower, upper, _, _, slope, curve = systems.system(6, "between", size=3)
    lower[::2] = -np.inf
    arrays = (0.3 * T, lower, upper, slope, curve, np.zeros(3), *_tables())
    log_prob, rel_error, used = gauss.integrate(queue, *arrays, 1e-1, 0.0, 200.0)
    assert np.isfinite(log_prob).all()
    assert np.isfinite(rel_error[::2]).all()
    assert (used > 10).all()


def test_pathwise(queue, judged):
    """Two panels of the 18 variables that are drawn."""
    sums = PathwiseSums(queue, np.float64, *systems.system(24, "tied"), products=True)
    for found in sums(np.array([1]), systems.points(24, 3, replicates=1)):
        assert np.isfinite(found).all()


@pytest.mark.parametrize("total", [5, 300])
def test_structured(queue, judged, monkeypatch, total):
    """Several items a block, and several blocks an item, of which each draws twice."""
    monkeypatch.setattr(structured_pathwise, "SLICES", 2)
    where = lattice(6, total, replicates=1)
    found = StructuredSums(queue, np.float64, *System.of(boxes(2, 6)).kernel_arguments)
    assert np.isfinite(found(np.arange(2), where)).all()
    *given, recursion = orthants(2, 6)
    sums = StructuredPathwiseSums(queue, np.float64, *given, recursion=recursion)
    for found in sums(np.arange(2), where):
        assert np.isfinite(found).all()


@pytest.mark.usefixtures("quick_turns")
@pytest.mark.parametrize("d", [3, 37])
def test_one_factor_and_who_wins(queue, judged, monkeypatch, d):
    """Rows in turn, ordinary ones beside those that the first kernel gives up at once."""
    monkeypatch.setattr(factor_memory, "_MEMORY", 0)
    rng = np.random.default_rng(d)
    size = 5 if d < 33 else 3  # for two blocks
    m = rng.normal(size=(size, d))
    m[1, 0], c, sigma = np.nan, np.ones((size, d)), np.ones((size, d))
    c[2, 0], sigma[2, 0] = 1e-10, 1e-6
    m, c, v, sigma = (queue.put(a) for a in (m, c, np.ones((1, d)), sigma))
    found = one_factor(queue, m, c, v, ("m", "c", "v"))
    found = {name: queue.get(a) for name, a in found.items()}
    found["best"] = queue.get(argmax.argmax(queue, m, sigma))
    for name, a in found.items():
        assert np.isfinite(np.delete(a, 1, axis=0)).all(), name
