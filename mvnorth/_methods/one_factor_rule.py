"""Integrals over the common factor of diag(c) + v v^T, exact to rounding."""

from collections.abc import Callable
from functools import partial

import numpy as np

from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._device import Device
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._problem import Problems
from mvnorth._rounding import ROUNDING
from mvnorth._threads import run_items

_TINY = float(np.finfo(np.float64).tiny)
_SECONDS = 1e-7  # a row and coordinate, roughly


def solve(problems: Problems, device: Device | None = None) -> Estimate:
    """Return estimates; rows that cannot happen have been taken out."""

    def one_sided(some: Problems) -> Estimate:
        return derivatives(reflect(some), (), device)

    return by_sides(problems, (), one_sided, solve_boxes)


def by_sides(
    problems: Problems,
    wrt: tuple[str, ...],
    one_sided: Callable[[Problems], Estimate],
    two_sided: Callable[[Problems], Estimate],
) -> Estimate:
    """Estimate rows with a coordinate that has two limits by one function, others by another."""
    if problems.sides in (0, 1):
        return one_sided(problems)
    both = problems.two_sided
    if not both.any():
        return one_sided(problems)
    if both.all():
        return two_sided(problems)
    estimate = Estimate.unknown(problems, wrt)
    for rows, solve_some in ((~both, one_sided), (both, two_sided)):
        estimate.replace(rows, solve_some(problems.take(rows)))
    return estimate


def derivatives(problems: Problems, wrt: tuple[str, ...], device: Device | None = None) -> Estimate:
    """Return estimates of problems with upper limits alone, which are m, and derivatives.

    ``wrt`` names some of "m", "c", "v".
    """
    if device is not None:
        return _derivatives_on_device(problems, wrt, device)
    m, covariance = problems.upper, problems.covariance
    grad = {name: np.empty(m.shape, dtype=m.dtype) for name in wrt}
    log_prob, rel_error, used, errors = integrate(m, covariance.c, covariance.v, grad)
    rounding = ROUNDING[m.dtype] * (1.0 + np.abs(log_prob))
    from_input = inherited(problems, log_prob)
    error = {}
    for k, name in enumerate(("m", "c", "v")):
        if name in grad:
            size_of = np.abs(grad[name], dtype=np.float64)
            stored = ROUNDING[m.dtype] * size_of
            bound = errors[:, k] + _TINY
            if from_input.any():
                with np.errstate(over="ignore", invalid="ignore"):
                    bound += 10.0 * from_input * np.max(size_of, axis=1, initial=0.0)
            error[name] = np.where(np.isnan(bound), np.inf, bound)[:, None] + stored
    total = rel_error + from_input + rounding
    return Estimate.exact(log_prob, total, used, Derivatives(grad, error) if wrt else None)


def integrate(
    m: np.ndarray,
    c: np.ndarray,
    v: np.ndarray,
    grad: dict[str, np.ndarray],
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (log_prob, rel_error, used, errors) of rows; write derivatives of log_prob to grad.

    Parameters
    ----------
    m : (B, d) means > -inf; their precision is that of the result
    c, v : (1 or B, d)
    grad : arrays (B, d) for derivatives in some of "m", "c", "v"
    threads : at most; None for as many as there are

    Errors are those of the rule, relative of the probability, and (B, 3) of derivatives.
    """
    from mvnorth._cpu.one_factor import one_factor

    size, d = m.shape
    log_prob, rel_error = np.empty((2, size))
    used = np.empty(size, dtype=np.int64)
    absent = np.empty((0, 0), dtype=m.dtype)
    columns = [grad.get(name, absent) for name in ("m", "c", "v")]
    single = int(m.dtype == np.float32)
    largest = float(np.finfo(m.dtype).max)
    errors = np.empty((size, 3))
    results = (log_prob, rel_error, used, *columns, errors if grad else None)
    state = np.empty(size, dtype=np.int64)
    kernel = partial(one_factor, m, 1.0 / np.sqrt(c), v, single, largest, *results, state)
    run_items(partial(kernel, None), size, size * d * _SECONDS, threads)
    if state.any():
        run_items(partial(kernel, True), size, np.count_nonzero(state) * d * _SECONDS, threads)
    # Numbers too large for double precision leave nothing but their sign.
    lost = np.isnan(log_prob)
    if lost.any():
        log_prob[lost], rel_error[lost], errors[lost] = np.finfo(np.float64).min, np.inf, np.inf
        for column in grad.values():
            column[lost] = 0.0
    return log_prob, rel_error, used, errors


def _derivatives_on_device(problems: Problems, wrt: tuple[str, ...], device: Device) -> Estimate:
    from mvnorth._cuda.launch import Queue
    from mvnorth._cuda.one_factor import one_factor

    queue = Queue.of(device.stream)
    covariance = problems.covariance
    m, c, v = (queue.put(a) for a in (problems.upper, covariance.c, covariance.v))
    found = {name: queue.get(a) for name, a in one_factor(queue, m, c, v, wrt).items()}
    log_prob = found["log_prob"].astype(np.float64)
    from_input = inherited(problems, log_prob)
    value = {name: found[f"grad_{name}"] for name in wrt}
    error = {}
    for name in wrt:
        largest = np.max(np.abs(value[name], dtype=np.float64), axis=1, initial=0.0)
        error[name] = found[f"grad_{name}_error"] + (10.0 * from_input * largest)[:, None]
    ratio = found["rel_error"]
    total = np.where(ratio > 1.0, np.log1p(ratio), ratio) + from_input  # as on the CPU
    return Estimate.exact(log_prob, total, found["n"], Derivatives(value, error) if wrt else None)


def hessian_products(problems: Problems, vectors: np.ndarray) -> np.ndarray:
    """Return products (B, d) of the Hessian of log P in m with vectors, in double precision."""
    from mvnorth._cpu.one_factor import one_factor_hessian

    m = problems.upper
    size, d = m.shape
    log_prob, rel_error = np.empty((2, size))
    used = np.empty(size, dtype=np.int64)
    product = np.empty((size, d))
    scale, v = 1.0 / np.sqrt(problems.covariance.c), problems.covariance.v
    kernel = partial(one_factor_hessian, m, scale, v, vectors, log_prob, rel_error, used, product)
    run_items(kernel, size, size * d * _SECONDS)
    return product


def inherited(problems: Problems, log_prob: np.ndarray) -> np.ndarray:
    """Return the relative error of P that comes with the problems: of c and v, or the limits.

    log P changes with them at most about as much as with the scale of all coordinates.
    """
    known = problems.rounding > 0.0  # nothing times an infinite logarithm is nothing
    if not known.any():
        return np.zeros(log_prob.shape)
    size = problems.d + 2.0 * np.abs(log_prob)
    return np.multiply(problems.rounding, size, where=known, out=np.zeros(size.shape))


def reflect(problems: Problems) -> Problems:
    """Return problems with upper limits alone: X_i >= a is -X_i <= -a, and v_i changes sign."""
    if not problems.has_lower():
        return problems
    below = np.isfinite(problems.lower)
    upper = np.where(below, -problems.lower, problems.upper)
    v = np.where(below, -problems.covariance.v, problems.covariance.v)
    c = np.ascontiguousarray(np.broadcast_to(problems.covariance.c, v.shape))
    lower = np.broadcast_to(-np.inf, upper.shape)
    return Problems(lower, upper, OneFactorRows(c, v), problems.rounding, sides=0)


def solve_boxes(problems: Problems) -> Estimate:
    """Return estimates of problems of any kind, one integral each."""
    from mvnorth._cpu.one_factor_box import one_factor_box

    size, d = problems.upper.shape
    log_prob, rel_error = np.empty((2, size))
    lower, upper = (
        np.ascontiguousarray(a, dtype=np.float64) for a in (problems.lower, problems.upper)
    )
    scale, v = 1.0 / np.sqrt(problems.covariance.c), problems.covariance.v
    used = np.empty(size, dtype=np.int64)
    kernel = partial(one_factor_box, lower, upper, scale, v, log_prob, rel_error, used)
    run_items(kernel, size, size * d * 1e-5)
    # The integrator sees Phi to 1e-15 a coordinate, and cuts it off far out.
    rel_error += 1e-15 * d + inherited(problems, log_prob)
    rel_error[log_prob < -1e14] = np.inf
    return Estimate.exact(log_prob, rel_error, used)
