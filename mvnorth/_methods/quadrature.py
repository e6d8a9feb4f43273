"""Problems with one common factor, by integration over it: exact to rounding."""

from collections.abc import Callable
from functools import partial

import numpy as np

from mvnorth._device import Device
from mvnorth._problem import Estimate, OneFactorProblems, Slopes
from mvnorth._threads import run_items

ROUNDING = {np.dtype(np.float64): 1e-15, np.dtype(np.float32): 2e-7}
_TINY = float(np.finfo(np.float64).tiny)
_SECONDS = 1e-7  # a row and coordinate, roughly


def solve(problems: OneFactorProblems, device: Device | None = None) -> Estimate:
    """Probabilities of ``problems``; rows that cannot happen have been taken out."""

    def one_sided(some: OneFactorProblems) -> Estimate:
        return derivatives(reflected(some), (), device)

    return by_sides(problems, (), one_sided, solve_boxes)


def by_sides(
    problems: OneFactorProblems,
    wanted: tuple[str, ...],
    one_sided: Callable[[OneFactorProblems], Estimate],
    two_sided: Callable[[OneFactorProblems], Estimate],
) -> Estimate:
    """Estimates of rows with a coordinate that has two limits by one way, of others by another."""
    below = np.isfinite(problems.lower)
    if not below.any():
        return one_sided(problems)
    both = (below & np.isfinite(problems.upper)).any(axis=1)
    if not both.any():
        return one_sided(problems)
    if both.all():
        return two_sided(problems)
    estimate = Estimate.unknown(problems, wanted)
    for rows, solve_some in ((~both, one_sided), (both, two_sided)):
        estimate.replace(rows, solve_some(problems.take(rows)))
    return estimate


def derivatives(
    problems: OneFactorProblems, wanted: tuple[str, ...], device: Device | None = None
) -> Estimate:
    """Log probabilities of problems with upper limits alone, which are m, and derivatives of them.

    ``wanted`` names some of "m", "c", "v".
    """
    if device is not None:
        return _derivatives_on_device(problems, wanted, device)
    m = problems.upper
    grad = {name: np.empty(m.shape, dtype=m.dtype) for name in wanted}
    log_prob, rel_error, used, errors = integrate(m, problems.c, problems.v, grad)
    rounding = ROUNDING[m.dtype] * (1.0 + np.abs(log_prob))
    from_input = inherited(problems, log_prob)
    error = {}
    for k, name in enumerate(("m", "c", "v")):
        if name in grad:
            size_of = np.abs(grad[name], dtype=np.float64)
            stored = ROUNDING[m.dtype] * size_of
            bound = errors[:, k] + _TINY
            if from_input.any():
                bound += 10.0 * from_input * np.max(size_of, axis=1, initial=0.0)
            error[name] = np.where(np.isnan(bound), np.inf, bound)[:, None] + stored
    total = rel_error + from_input + rounding
    return Estimate(log_prob, total, used, slopes=Slopes(grad, error) if wanted else None)


def integrate(
    m: np.ndarray,
    c: np.ndarray,
    v: np.ndarray,
    grad: dict[str, np.ndarray],
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """``(log_prob, rel_error, used, errors)`` of rows; derivatives of log_prob are written to grad.

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
    results = (log_prob, rel_error, used, *columns, errors)
    kernel = partial(one_factor, m, 1.0 / np.sqrt(c), v, single, largest, *results)
    run_items(kernel, size, size * d * _SECONDS, threads)
    # Numbers too large for double precision leave nothing but their sign.
    lost = np.isnan(log_prob)
    if lost.any():
        log_prob[lost], rel_error[lost], errors[lost] = np.finfo(np.float64).min, np.inf, np.inf
        for column in grad.values():
            column[lost] = 0.0
    return log_prob, rel_error, used, errors


def _derivatives_on_device(
    problems: OneFactorProblems, wanted: tuple[str, ...], device: Device
) -> Estimate:
    from mvnorth._cuda.launch import Queue
    from mvnorth._cuda.one_factor import one_factor

    queue = Queue.of(device.stream)
    m, c, v = (queue.put(a) for a in (problems.upper, problems.c, problems.v))
    found = {name: queue.get(a) for name, a in one_factor(queue, m, c, v, wanted).items()}
    log_prob = found["log_prob"].astype(np.float64)
    from_input = inherited(problems, log_prob)
    slopes = Slopes({}, {})
    for name in wanted:
        value = slopes.value[name] = found[f"grad_{name}"]
        largest = np.max(np.abs(value, dtype=np.float64), axis=1, initial=0.0)
        slopes.error[name] = found[f"grad_{name}_error"] + (10.0 * from_input * largest)[:, None]
    total = found["rel_error"] + from_input
    return Estimate(log_prob, total, found["n"], slopes=slopes if wanted else None)


def hessian_products(problems: OneFactorProblems, vectors: np.ndarray) -> np.ndarray:
    """Products of the Hessian of log P in m with vectors, (B, d) both, in double precision."""
    from mvnorth._cpu.one_factor import one_factor_hessian

    m = problems.upper
    size, d = m.shape
    log_prob, rel_error = np.empty((2, size))
    used = np.empty(size, dtype=np.int64)
    product = np.empty((size, d))
    scale = 1.0 / np.sqrt(problems.c)
    kernel = partial(
        one_factor_hessian, m, scale, problems.v, vectors, log_prob, rel_error, used, product
    )
    run_items(kernel, size, size * d * _SECONDS)
    return product


def inherited(problems: OneFactorProblems, log_prob: np.ndarray) -> np.ndarray:
    """Relative error of the probability that comes with the problems: of c and v, or the limits.

    log P changes with them at most about as much as with the scale of all coordinates.
    """
    known = problems.rounding > 0.0  # nothing times an infinite logarithm is nothing
    if not known.any():
        return np.zeros(log_prob.shape)
    size = problems.d + 2.0 * np.abs(log_prob)
    return np.multiply(problems.rounding, size, where=known, out=np.zeros(size.shape))


def reflected(problems: OneFactorProblems) -> OneFactorProblems:
    """The same problems with upper limits alone: X_i >= a is -X_i <= -a, and v_i changes sign."""
    below = np.isfinite(problems.lower)
    if not below.any():
        return problems
    upper = np.where(below, -problems.lower, problems.upper)
    v = np.where(below, -problems.v, problems.v)
    c = np.ascontiguousarray(np.broadcast_to(problems.c, v.shape))
    lower = np.broadcast_to(-np.inf, upper.shape)
    return OneFactorProblems(lower, upper, c, v, problems.rounding)


def solve_boxes(problems: OneFactorProblems) -> Estimate:
    """Probabilities of ``problems`` of any kind, one integral each."""
    from mvnorth._cpu.one_factor_box import one_factor_box

    size, d = problems.upper.shape
    log_prob, rel_error = np.empty((2, size))
    lower, upper = (
        np.ascontiguousarray(a, dtype=np.float64) for a in (problems.lower, problems.upper)
    )
    scale = 1.0 / np.sqrt(problems.c)
    kernel = partial(one_factor_box, lower, upper, scale, problems.v, log_prob, rel_error)
    run_items(kernel, size, size * d * 1e-5)
    # The integrator sees Phi to 1e-15 a coordinate, and cuts it off far out.
    rel_error += 1e-15 * d + inherited(problems, log_prob)
    rel_error[log_prob < -1e14] = np.inf
    return Estimate(log_prob, rel_error, np.zeros(size, dtype=np.int64))
