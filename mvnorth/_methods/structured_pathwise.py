"""Derivatives for Sigma = diag(c) + v v^T by differentiating the Genz estimate itself.

The gradient is the exact one of the estimate, whatever its error: for given points log P is a
smooth function of m, c and v as long as their order does not change, and with the weights
p_k = prod_i Phi(b_ik)

    grad log P = sum_k p_k grad log p_k / sum_k p_k.

All of m, c and v cost one reverse sweep, O(d) a point.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from mvnorth._cpu.lattice_sums import CORNER
from mvnorth._cpu.structured_pathwise import structured_pathwise_sums
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._linalg.one_factor import running_sums
from mvnorth._methods import structured
from mvnorth._methods.lattice_means import LatticeMeans, Sums, of_size, quotients
from mvnorth._methods.lattice_rule import REPLICATES
from mvnorth._methods.one_factor_rule import by_sides
from mvnorth._methods.quadrature import differentiate_reflected
from mvnorth._points import Points
from mvnorth._problem import Problems, Request, in_chunks

_NAMES = ("m", "c", "v")
_CHUNK = 2**22  # entries of the kernel's statistics at a time: 32 MB
_PARTS = 4  # parts of the points at a time
_LARGE = 1024  # coordinates from which on derivatives are not taken through a d x d matrix

WithFactor = Callable[[Problems, Request, bool], Estimate]


def differentiate(
    problems: Problems, request: Request, tilted: bool, with_factor: WithFactor
) -> Estimate:
    """Return the estimates of ``structured.integrate`` with derivatives.

    They are those of the structured recursion where no coordinate has two limits, and without a
    tilt; else, and in the covariance, those of ``with_factor``, for which the problems get a
    factor as a matrix.
    """

    def dense(some: Problems, names: tuple[str, ...] = request.wrt) -> Estimate:
        parameters = some.covariance.parameters
        needed = tuple(dict.fromkeys("cov" if name in parameters else name for name in names))
        derivatives = with_factor(some.dense(), replace(request, wrt=needed), tilted).derivatives
        assert derivatives is not None
        if "cov" in needed:
            some.covariance.add_parameters(derivatives, names)
        estimate = structured.integrate(some, request, tilted)
        return replace(estimate, derivatives=derivatives.only(names))

    def direct(some: Problems) -> Estimate:
        names = tuple(name for name in request.wrt if name != "cov")
        estimate = recursion_derivatives(some, replace(request, wrt=names))
        derivatives = estimate.derivatives
        assert derivatives is not None
        if "cov" in request.wrt:
            in_covariance = dense(some, ("cov",)).derivatives
            assert in_covariance is not None
            derivatives.value.update(in_covariance.value)
            derivatives.error.update(in_covariance.error)
        if tilted:
            estimate = structured.integrate(some, request, tilted)
        return replace(estimate, derivatives=derivatives)

    recursion = (not tilted or problems.d >= _LARGE) and request.wrt != ("cov",)
    return by_sides(problems, request.wrt, direct if recursion else dense, dense)


def recursion_derivatives(problems: Problems, request: Request) -> Estimate:
    """Return estimates without a tilt, with derivatives of the recursion.

    No coordinate has two limits, and ``wrt`` are some of "lower", "upper", "mean", "c", "v".
    """
    chunk = max(1, _CHUNK // (9 * _PARTS * REPLICATES * problems.d))

    def upper_alone(reflected: Problems, names: tuple[str, ...]) -> Estimate:
        return in_chunks(reflected, chunk, lambda some: _solve(some, replace(request, wrt=names)))

    return differentiate_reflected(problems, request.wrt, upper_alone)


def _solve(problems: Problems, request: Request) -> Estimate:
    system = structured.System.of(problems)
    c, v = system.c, system.v
    s, before = running_sums(c, v)
    root = np.sqrt(c) * np.sqrt(s) * np.sqrt(before)
    recursion = np.stack([1 / s, v * v / c, 1 / system.diag, 1 / root, 2 * v / c], axis=1)
    means, parts, there = LatticeMeans(), _PARTS, None
    if request.device is not None:
        from mvnorth._cuda.launch import Queue
        from mvnorth._cuda.structured_pathwise import StructuredPathwiseSums

        queue, parts = Queue.of(request.device.stream), request.most
        given = system.kernel_arguments
        there = StructuredPathwiseSums(queue, request.device.dtype, *given, recursion=recursion)

    def weigh(rows: np.ndarray, points: Points) -> np.ndarray:
        def sums(some: Points) -> tuple[np.ndarray, Sums]:
            if there is not None:
                logs, stats = there(rows, some)
                return logs, Sums.of_parts(logs, stats)
            items = rows.size * len(some.shifts) * some.start.size
            stats = np.empty((items, 3, 3, problems.d))
            arguments = (*system.kernel_arguments, recursion, stats)
            kernel = partial(structured_pathwise_sums, *arguments)
            logs = some.log_sums(kernel, rows, problems.d * 2e-8)
            return logs, Sums.of_parts(logs, stats)

        return means.collect(sums, rows, points, parts)

    estimate = structured.estimate(problems, system, weigh, request)
    value, spread = quotients(means.sums, means.share)
    missed = of_size(*means.unseen(estimate.n, np.full(problems.size, CORNER)))
    scale = np.stack([1 / system.diag, 1 / c, np.ones_like(c)], axis=1)
    value = value * scale
    error = (spread + missed) * scale + _missed_by_all(system, missed[:, 0])
    error += np.finfo(float).tiny  # for what underflows
    error[np.isinf(estimate.rel_error)] = np.inf
    back = np.argsort(system.order, axis=1)[:, None]
    value, error = (np.take_along_axis(a, back, axis=2) for a in (value, error))
    derivatives = Derivatives.of_columns(_NAMES, value, error).only(request.wrt)
    return replace(estimate, derivatives=derivatives)


def _missed_by_all(system: structured.System, missed: np.ndarray) -> np.ndarray:
    """Return a bound (B, 3 names, d) on what all points may have missed of the derivatives.

    All derivatives in coordinate i are integrals over the face t_i = 0, where those in c_i and
    v_i are about m_i / (2 Sigma_ii) and v_i m_i / Sigma_ii times the one in m_i.  Only the latter
    is not overlaid with what other coordinates contribute, so it tells whether the face was seen.

    Parameters
    ----------
    missed : (B, d) of the derivative in m_i L_ii
    """
    m_bar = missed / system.diag
    m = np.where(np.isinf(system.upper), 0.0, np.abs(system.upper) * system.diag)
    multiple = m / (system.c + system.v**2)
    times = (np.zeros_like(m), 0.5 * multiple, np.abs(system.v) * multiple)
    return np.stack([of_size(m_bar, each) for each in times], axis=1)
