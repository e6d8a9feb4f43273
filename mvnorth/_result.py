"""Results as users get them: ``OrthantResult``, ``OrthantGradient`` and ``OrthantSample``."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mvnorth._device import on_device
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._problem import Tolerance
from mvnorth._status import Status, derivative_of_probability


@dataclass(frozen=True, repr=False, eq=False)
class OrthantResult:
    """Probabilities with their errors; numbers for one problem, arrays for a batch.

    Attributes
    ----------
    prob : float or ndarray (...)
        The probability (0 where it underflows; ``log_prob`` is right there too).
    log_prob : float or ndarray (...)
        Its logarithm.
    error : float or ndarray (...)
        Bound on the absolute error of ``prob`` at about 99 % confidence; at most 1.
    rel_error : float or ndarray (...)
        Bound on ``abs(P / prob - 1)``, for the true probability P, at the same confidence, rounding
        of the limits and of the covariance included: P is at most ``prob * (1 + rel_error)`` and
        at least ``prob * (1 - rel_error)``, which is no lower bound if it is 1 or more. Infinite if
        nothing is known, or if ``prob`` is above ``exp(log_bound)`` by more than its error.
    log_bound : float or ndarray (...)
        What ``log_prob`` cannot exceed, certainly: the value at the saddle point where tilting was
        used, rounding included, 0 for other methods (None on a GPU with one common factor).
    n : int or ndarray (...)
        Integration points or nodes used (of the largest coordinate of a chain); 0 for a closed
        form.
    method : str or ndarray (...)
        What computed it, such as "tilting"; several for a problem of several blocks.
    status : Status, or ndarray (...) of their numbers
        How it ended.
    tolerance : (float, float), optional
        The ``(rtol, atol)`` asked for, or None.

    Examples
    --------
    >>> import mvnorth
    >>> result = mvnorth.orthant([0.0, 0.0], [[1.0, 0.0], [0.6, 0.8]])
    >>> round(result.prob, 6), result.rel_error < 1e-12, result.n
    (0.352416, True, 0)
    """

    prob: Any
    log_prob: Any
    error: Any
    rel_error: Any
    log_bound: Any
    n: Any
    method: Any
    status: Any
    tolerance: tuple[float, float] | None = None

    @property
    def _arguments(self) -> tuple[str, str, str]:
        """Names of the arguments for points, relative and absolute tolerance."""
        return "n", "rtol", "atol"

    def __repr__(self) -> str:
        if on_device(self.prob):
            count = f"{_by(self.prob.shape)} probabilities" if self.prob.shape else "a probability"
            methods = ", ".join(np.unique(self.method))
            return f"{count} on a device" + (f" by {methods}" if methods else " (an empty batch)")
        if np.ndim(self.prob) > 0:
            return _describe_batch(self)
        lines = [
            f"probability     {self.prob:.10g} +- {self.error:.1e}",
            f"log             {self.log_prob:.10g}",
            f"relative error  {self.rel_error:.1e}",
            f"method          {self.method}" + (f", {self.n} points" if self.n else ""),
            f"status          {_describe_status(self)}",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, repr=False, eq=False)
class OrthantGradient(OrthantResult):
    """Probabilities as in ``OrthantResult``, and derivatives in what was asked for; else None.

    Attributes
    ----------
    log : bool
        Whether the derivatives are those of ``log_prob`` rather than of ``prob``.
    of_cdf : bool
        Whether this is from ``cdf_grad``, whose arguments have scipy's names.
    grad_m, grad_lower, grad_upper, grad_mean, grad_x, grad_lower_limit : ndarray (..., d)
        Derivatives in the arguments of that name.
    grad_L : ndarray (..., d, d)
        In the factor; lower triangular.
    grad_cov : ndarray (..., d, d)
        In the covariance: the symmetric G with d prob = sum_ij G_ij d cov_ij over all i and j, so
        that an entry off the diagonal is half of what the correlation of the pair does; half the
        Hessian in the mean.
    grad_c, grad_V : ndarray (..., d) and (..., d, k)
        In the parameters of ``Factors``.
    grad_v : ndarray (..., d)
        In the loadings of one factor.
    grad_A, grad_b : ndarray (..., r, d) and (..., r)
        In the inequalities of a polytope.
    grad_df, grad_delta : float or ndarray (...), and ndarray (..., d)
        In the degrees of freedom and the noncentrality of Student's t.
    grad_m_error, ... : ndarray
        Bounds on their absolute errors, entry by entry, at about 99 % confidence; infinite where
        nothing is known. Each derivative has one.

    Examples
    --------
    >>> import mvnorth
    >>> result = mvnorth.orthant_grad([0.0, 0.0], [[1.0, 0.0], [0.6, 0.8]], wrt=("m",))
    >>> result.grad_m.round(6)
    array([0.199471, 0.199471])
    >>> bool(result.grad_m_error.max() < 1e-12), result.grad_cov
    (True, None)
    """

    log: bool = False
    of_cdf: bool = False
    grad_m: Any = None
    grad_L: Any = None
    grad_cov: Any = None
    grad_c: Any = None
    grad_v: Any = None
    grad_V: Any = None
    grad_lower: Any = None
    grad_upper: Any = None
    grad_mean: Any = None
    grad_A: Any = None
    grad_b: Any = None
    grad_x: Any = None
    grad_lower_limit: Any = None
    grad_df: Any = None
    grad_delta: Any = None
    grad_m_error: Any = None
    grad_L_error: Any = None
    grad_cov_error: Any = None
    grad_c_error: Any = None
    grad_v_error: Any = None
    grad_V_error: Any = None
    grad_lower_error: Any = None
    grad_upper_error: Any = None
    grad_mean_error: Any = None
    grad_A_error: Any = None
    grad_b_error: Any = None
    grad_x_error: Any = None
    grad_lower_limit_error: Any = None
    grad_df_error: Any = None
    grad_delta_error: Any = None

    @property
    def _arguments(self) -> tuple[str, str, str]:
        return ("maxpts", "releps", "abseps") if self.of_cdf else super()._arguments

    def __repr__(self) -> str:
        of = "log" if self.log else "probability"
        known = [
            name.removeprefix("grad_")
            for name, value in vars(self).items()
            if name.startswith("grad_") and not name.endswith("_error") and value is not None
        ]
        return f"{super().__repr__()}\nderivatives     of {of} in {', '.join(known)}"


@dataclass(frozen=True, repr=False, eq=False)
class OrthantSample:
    """Independent draws between limits; ``numpy.asarray`` of it are the draws.

    Attributes
    ----------
    draws : ndarray (..., size, d)
        The draws.
    acceptance : float or ndarray (...)
        Share of the proposals that was accepted; where coordinates fall apart into independent
        blocks, that of the block with the most proposals.
    proposals : int or ndarray (...)
        Number of proposals, of that block.
    log_bound : float or ndarray (...)
        Upper bound on the logarithm of the probability of the limits; for a single block
        ``acceptance * exp(log_bound)`` is an unbiased estimate of it. 0 for Student's t.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> sample = mvnorth.sample_orthant([0.0, -1.0], np.eye(2), size=100)
    >>> draws = np.asarray(sample)
    >>> draws.shape, bool((draws >= 0).all())
    ((100, 2), True)
    """

    draws: np.ndarray
    acceptance: Any
    proposals: Any
    log_bound: Any

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.draws, dtype=dtype) if copy else np.asarray(self.draws, dtype=dtype)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.draws.shape))
        least = np.min(self.acceptance, initial=1.0)
        return f"OrthantSample of shape {shape}: {least:.3g} of the proposals accepted"


def _asked(result: OrthantResult) -> str:
    rtol, atol = result.tolerance or (0.0, 0.0)
    _, relative, absolute = result._arguments
    terms = [f"{relative}={rtol:g}"] * (rtol > 0 or atol == 0)
    return " or ".join(terms + [f"{absolute}={atol:g}"] * (atol > 0))


def _advice(result: OrthantResult) -> str:
    points, relative, absolute = result._arguments
    return (
        f"tolerance not met ({_asked(result)}): if the method samples, give more points "
        f"with {points}=; else accept a larger {relative}= or {absolute}="
    )


def _describe_status(result: OrthantResult) -> str:
    if result.status == Status.LIMIT:
        return _advice(result)
    if result.status == Status.FIXED:
        return "n points as given"
    return f"converged ({_asked(result)})"


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _describe_batch(result: OrthantResult) -> str:
    shape = _by(np.shape(result.prob))
    if np.size(result.prob) == 0:
        return f"{shape} probabilities (an empty batch)"
    methods = ", ".join(np.unique(result.method))
    lines = [
        f"{shape} probabilities from {np.min(result.prob):.4g} to {np.max(result.prob):.4g}",
        f"largest errors  {np.max(result.error):.1e} absolute, "
        f"{np.max(result.rel_error):.1e} relative",
        f"methods         {methods}; {int(np.sum(result.n))} points in all",
    ]
    short = int(np.sum(result.status == Status.LIMIT))
    lines.append(f"status          {np.size(result.prob) - short} as asked, {short} short")
    if short:
        lines.append(f"                {_advice(result)}")
    return "\n".join(lines)


def _finite(log_prob: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return logarithms in ``dtype``; finite ones stay finite."""
    if dtype == np.float64:
        return log_prob
    lowest = float(np.finfo(dtype).min)
    return np.where(log_prob > -np.inf, np.maximum(log_prob, lowest), log_prob).astype(dtype)


def _wrap_one(
    estimate: Estimate, method: str, tolerance: Tolerance | None, shape: tuple[int, ...]
) -> OrthantResult:
    """Return the result of one problem, without operations on arrays."""
    log_prob: Any = estimate.log_prob.item()
    rel_error: Any = estimate.rel_error.item()
    if rel_error > 1.0:
        rel_error = as_ratio(estimate.rel_error).item()
    prob: Any = float(np.exp(log_prob))
    error: Any = 1.0 if rel_error == np.inf else min(prob * rel_error, 1.0)
    status: Any = Status.FIXED
    asked = None
    if tolerance is not None:
        met = tolerance.met(log_prob, rel_error)
        status = Status.CONVERGED if met else Status.LIMIT
        asked = (tolerance.relative, tolerance.absolute)
    bound: Any = estimate.log_bound.item()
    n: Any = estimate.n.item()
    name: Any = method
    if shape:  # a batch of one
        numbers = np.array((prob, log_prob, error, rel_error, bound)).reshape(5, *shape)
        prob, log_prob, error, rel_error, bound = numbers
        n, name = estimate.n.reshape(shape), np.array([method]).reshape(shape)
        status = np.array([int(status)], dtype=np.int8).reshape(shape)
    return OrthantResult(prob, log_prob, error, rel_error, bound, n, name, status, asked)


def as_ratio(rel_error: np.ndarray) -> np.ndarray:
    """Return bounds on abs(P / estimate - 1) from sums of such bounds and of errors of log P.

    Both are the same while they are small.  A logarithm that is off by 3 is a ratio of 20.
    """
    if not (rel_error > 1.0).any():
        return rel_error
    with np.errstate(over="ignore"):
        return np.where(rel_error > 1.0, np.expm1(rel_error), rel_error)


def wrap(
    estimate: Estimate,
    methods: np.ndarray,
    tolerance: Tolerance | None,
    shape: tuple[int, ...],
    dtype: np.dtype,
) -> OrthantResult:
    """Return an ``OrthantResult`` of the batch shape, or of numbers where that is ``()``.

    ``dtype`` is that of ``prob`` and ``log_prob``.
    """
    if estimate.log_prob.size == 1 and dtype == np.float64:
        return _wrap_one(estimate, methods.item(), tolerance, shape)
    estimate = replace(estimate, rel_error=as_ratio(estimate.rel_error))
    prob = np.exp(estimate.log_prob)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.minimum(prob * estimate.rel_error, 1.0)
    error[estimate.rel_error == np.inf] = 1.0
    if tolerance is None:
        status = np.full(prob.shape, Status.FIXED, dtype=np.int8)
    else:
        met = tolerance.met(estimate.log_prob, estimate.rel_error)
        status = np.where(met, Status.CONVERGED, Status.LIMIT).astype(np.int8)
    asked = None if tolerance is None else (tolerance.relative, tolerance.absolute)

    def shaped(column: np.ndarray) -> Any:
        return column.reshape(shape) if shape else column[0].item()

    return OrthantResult(
        prob=shaped(prob.astype(dtype)),
        log_prob=shaped(_finite(estimate.log_prob, dtype)),
        error=shaped(error),
        rel_error=shaped(estimate.rel_error),
        log_bound=shaped(estimate.log_bound),
        n=shaped(estimate.n),
        method=shaped(methods),
        status=shaped(status) if shape else Status(int(status[0])),
        tolerance=asked,
    )


def wrap_gradient(result: OrthantResult, derivatives: Derivatives, log: bool) -> OrthantGradient:
    """Return ``result`` with derivatives of log P, or of P without ``log``, by the user's names."""
    shape = np.shape(result.prob)
    prob, relative = np.asarray(result.prob, dtype=np.float64), np.asarray(result.rel_error)
    arrays: dict[str, Any] = {}
    for name, value in derivatives.value.items():
        error = derivatives.error[name]
        if not log:
            core = (1,) * (value.ndim - 1)
            p, rel = prob.reshape(-1, *core), relative.reshape(-1, *core)
            with np.errstate(invalid="ignore"):
                derivative, bound = derivative_of_probability(value, error, p, rel)
            value = derivative.astype(value.dtype)
            stored = np.finfo(value.dtype)
            bound += stored.eps * np.abs(value, dtype=np.float64)
            bound += np.where(error > 0.0, stored.tiny, 0.0)  # for what underflows
            error = np.where(np.isnan(bound), np.inf, bound)
        core = () if name == "df" else value.shape[1:]
        for key, array in ((f"grad_{name}", value), (f"grad_{name}_error", error)):
            arrays[key] = array.reshape((*shape, *core))
            if arrays[key].ndim == 0:
                arrays[key] = arrays[key].item()
    return OrthantGradient(**{**vars(result), **arrays, "log": log})


def wrap_sample(
    draws: np.ndarray,
    acceptance: np.ndarray,
    proposals: np.ndarray,
    log_bound: np.ndarray,
    shape: tuple[int, ...],
) -> OrthantSample:
    """Return an ``OrthantSample`` of the batch shape, from rows."""

    def shaped(column: np.ndarray) -> Any:
        return column.reshape(shape) if shape else column[0].item()

    return OrthantSample(
        draws.reshape(*shape, *draws.shape[1:]),
        shaped(acceptance),
        shaped(proposals),
        shaped(log_bound),
    )
