"""The internal interface for ``exact_torch``: what it needs beyond the public functions.

Kernels are imported, with numba, when they are first used.
"""

from functools import partial

import numpy as np

from mvnorth._arguments import whole_number
from mvnorth._threads import run_items

__all__ = [
    "argmax_pull",
    "integrate_factors",
    "integrate_one_factor",
    "label_best",
    "label_topk",
    "whole_number",
]


def integrate_one_factor(
    m: np.ndarray, c: np.ndarray, v: np.ndarray, grad: dict[str, np.ndarray], threads: int
) -> np.ndarray:
    """Return log P (B,) of orthants with diag(c) + v v^T, and fill ``grad``.

    Parameters
    ----------
    m : (B, d); its precision is that of the result
    c, v : (1 or B, d)
    grad : arrays (B, d) for derivatives of log P in some of "m", "c", "v"
    """
    from mvnorth._methods import one_factor_rule

    return one_factor_rule.integrate(m, c, v, grad, threads)[0]


def integrate_factors(
    m: np.ndarray,
    c: np.ndarray,
    V: np.ndarray,
    rtol: float,
    derivatives: bool,
    threads: int,
) -> tuple[np.ndarray, ...]:
    """Return log P and its relative error (B,) of orthants with diag(c) + V V^T.

    And, if they are wanted, the derivatives of log P in m, c and V.

    Parameters
    ----------
    m : (B, d); its precision is that of the result
    c, V : (1 or B, d) and (1 or B, d, k), k = 2, 3, 4
    """
    from mvnorth._methods import factors
    from mvnorth._problem import Tolerance

    grad = factors.make_results(m, 0, V.shape[2], False) if derivatives else None
    limits = (m, np.empty((0, m.shape[1])))
    log_prob, rel_error, _ = factors.run(
        *limits, c, V, Tolerance(rtol, 0.0), factors.most_points(m.shape[1]), grad, threads
    )
    if grad is None:
        return log_prob, rel_error
    in_m, _, in_c, in_V, _, _ = grad
    return log_prob, rel_error, in_m, in_c, in_V


def argmax_pull(
    scores: np.ndarray, sigma: np.ndarray, towards: np.ndarray, single: bool, threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return derivatives of sum(towards * prob_argmax) in scores and sigma, (B, C).

    The third array (B,) says which rows were resolved.
    """
    from mvnorth._cpu import argmax_pull as kernels

    size, classes = scores.shape
    in_scores, in_sigma = np.empty((2, size, classes))
    resolved = np.empty(size, dtype=np.bool_)
    outputs = (in_scores, in_sigma, resolved)
    kernel = partial(kernels.argmax_pull, scores, sigma, towards, int(single), *outputs)
    run_items(kernel, size, size * classes * 4e-7, threads)
    return outputs


def label_best(
    scores: np.ndarray,
    labels: np.ndarray,
    sigma: np.ndarray,
    margin: float,
    grad_scores: np.ndarray,
    grad_sigma: np.ndarray,
    threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return log Pr(the label's score is the largest), (B,), and what became of rows, (B,).

    The latter is 0 for a result, 1 for a row that ``integrate_one_factor`` must compute, and 2 for
    a label that is no class.

    Parameters
    ----------
    scores, labels : (B, C) means in single precision, C > 1; and (B,)
    sigma : (1 or B,) deviations in single precision
    margin : upper limit of differences between the label's mean and others
    grad_scores, grad_sigma : (B, C) and (B,) for derivatives, or empty if not wanted
    """
    from mvnorth._cpu import label_best as kernels

    size, classes = scores.shape
    log_prob, state = np.empty(size, np.float32), np.empty(size, np.int64)
    outputs = (log_prob, grad_scores, grad_sigma, state)
    kernel = partial(kernels.label_best, scores, labels, sigma, np.float32(margin), *outputs)
    run_items(kernel, size, size * (1e-6 + classes * 2e-8), threads)
    return log_prob, state


def label_topk(
    a: np.ndarray, b: np.ndarray, k: int, threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the probability (B,) that the label is among the k largest, and its derivatives.

    ``a`` is (B, C), ``b`` (1 or B, C), and so are the derivatives in them, (B, C) both.
    """
    from mvnorth._cpu import label_topk as kernels

    size, classes = a.shape
    prob = np.empty(size)
    in_a, in_b = np.empty((2, size, classes))
    kernel = partial(kernels.label_topk, a, b, k, prob, in_a, in_b)
    run_items(kernel, size, size * classes * k * 1e-6, threads)
    return prob, in_a, in_b
