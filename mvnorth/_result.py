"""What a user gets back: ``OrthantResult``, and the ``Status`` of each probability."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from mvnorth._problem import Derivatives, Estimate, Tolerance


class Status(IntEnum):
    """How the computation of a probability ended."""

    CONVERGED = 0
    """The error is within the tolerance."""
    FIXED = 1
    """A number of points was given and no tolerance; the error is what they reached."""
    LIMIT = 2
    """The error is still above the tolerance; the error that is reported holds."""


@dataclass(frozen=True, repr=False, eq=False)
class OrthantResult:
    """Probabilities with their errors; numbers for one problem, arrays for a batch.

    Attributes
    ----------
    prob : the probability (0 where it underflows; ``log_prob`` is right there too)
    log_prob : its logarithm
    error : bound on the absolute error of ``prob`` at about 99 % confidence; at most 1
    rel_error : bound on the relative error at the same confidence; infinite if nothing is known
    log_bound : what ``log_prob`` cannot exceed, certainly: the value at the saddle point where
        tilting was used, 0 for other methods
    n : integration points or nodes used (of the largest coordinate of a chain); 0 for a closed form
    method : what computed it, such as "tilting"; several for a problem of several blocks
    status : a ``Status``
    tolerance : the ``(rtol, atol)`` asked for, or None
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

    def __repr__(self) -> str:
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


@dataclass(frozen=True, eq=False)
class OrthantGradient:
    """A probability and its derivatives; arrays of the batch shape, and one axis more for vectors.

    Attributes
    ----------
    prob, log_prob : the probability and its logarithm, ``(...)``
    rel_error : bound on the relative error of the probability at about 99 % confidence
    log : whether the derivatives are those of ``log_prob`` rather than of ``prob``
    grad_m, grad_c, grad_v : derivatives ``(..., d)``, None where not asked for
    grad_m_error, grad_c_error, grad_v_error : bounds on their absolute errors, entry by entry, at
        the same confidence
    n : integration points or nodes used
    method : what computed it
    """

    prob: Any
    log_prob: Any
    rel_error: Any
    log: bool
    n: Any
    method: str
    grad_m: Any = None
    grad_c: Any = None
    grad_v: Any = None
    grad_m_error: Any = None
    grad_c_error: Any = None
    grad_v_error: Any = None


@dataclass(frozen=True, repr=False, eq=False)
class OrthantSample:
    """Independent draws between limits; ``numpy.asarray`` of it are the draws.

    Attributes
    ----------
    draws : ``(..., size, d)``
    acceptance : share of the proposals that was accepted, ``(...)``; where coordinates fall apart
        into independent blocks, that of the block with the most proposals
    proposals : number of proposals, of that block
    log_bound : upper bound on the logarithm of the probability of the limits; for a single block
        acceptance * exp(log_bound) is an unbiased estimate of it
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


class AcceptanceError(RuntimeError):
    """Too few proposals are accepted for the draws asked for; ``acceptance`` is the share."""

    def __init__(self, message: str, acceptance: float = 0.0) -> None:
        super().__init__(message)
        self.acceptance = acceptance


def _asked(tolerance: tuple[float, float] | None) -> str:
    rtol, atol = tolerance or (0.0, 0.0)
    terms = [f"rtol={rtol:g}"] * (rtol > 0 or atol == 0) + [f"atol={atol:g}"] * (atol > 0)
    return " or ".join(terms)


def _advice(result: OrthantResult) -> str:
    return (
        f"tolerance not met ({_asked(result.tolerance)}): if the method samples, give more points "
        "with n=; else accept a larger rtol= or atol="
    )


def _describe_status(result: OrthantResult) -> str:
    if result.status == Status.LIMIT:
        return _advice(result)
    if result.status == Status.FIXED:
        return "n points as given"
    return f"converged ({_asked(result.tolerance)})"


def _describe_batch(result: OrthantResult) -> str:
    shape = "x".join(map(str, np.shape(result.prob)))
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
    """Logarithms in ``dtype``; what is finite stays so."""
    if dtype == np.float64:
        return log_prob
    lowest = float(np.finfo(dtype).min)
    return np.where(log_prob > -np.inf, np.maximum(log_prob, lowest), log_prob).astype(dtype)


def wrap_gradient(
    found: Derivatives, log: bool, method: str, shape: tuple[int, ...], dtype: np.dtype
) -> OrthantGradient:
    """An ``OrthantGradient`` of the batch shape."""
    estimate = found.estimate

    def shaped(column: np.ndarray) -> Any:
        return column.reshape(shape) if shape else column[0].item()

    arrays = {f"grad_{name}": a.reshape(*shape, a.shape[1]) for name, a in found.grad.items()}
    for name, a in found.error.items():
        arrays[f"grad_{name}_error"] = a.reshape(*shape, a.shape[1])
    return OrthantGradient(
        prob=shaped(np.exp(estimate.log_prob).astype(dtype)),
        log_prob=shaped(_finite(estimate.log_prob, dtype)),
        rel_error=shaped(estimate.rel_error),
        log=log,
        n=shaped(estimate.n),
        method=method,
        **arrays,
    )


def wrap(
    estimate: Estimate,
    methods: np.ndarray,
    tolerance: Tolerance | None,
    shape: tuple[int, ...],
    dtype: np.dtype,
) -> OrthantResult:
    """An ``OrthantResult`` of the batch shape, or of numbers where that is ``()``.

    ``dtype`` is that of ``prob`` and ``log_prob``.
    """
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


def wrap_sample(
    draws: np.ndarray,
    acceptance: np.ndarray,
    proposals: np.ndarray,
    log_bound: np.ndarray,
    shape: tuple[int, ...],
) -> OrthantSample:
    """An ``OrthantSample`` of the batch shape, from rows."""

    def shaped(column: np.ndarray) -> Any:
        return column.reshape(shape) if shape else column[0].item()

    return OrthantSample(
        draws.reshape(*shape, *draws.shape[1:]),
        shaped(acceptance),
        shaped(proposals),
        shaped(log_bound),
    )
