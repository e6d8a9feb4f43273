"""Probability to be best: of normal scores, which is the largest, or among the largest."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._device import choose
from mvnorth._problem import Tolerance
from mvnorth._resident import follows_input
from mvnorth._threads import run_items
from mvnorth.covariance import Factors


@follows_input
def prob_argmax(
    mu: ArrayLike,
    sigma: ArrayLike | None = None,
    *,
    cov: ArrayLike | Factors | None = None,
    relative: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    errors: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> Any:
    """Probability that each of several normal scores is the largest.

    The scores are independent with deviations ``sigma``, or correlated with the covariance ``cov``.

    Parameters
    ----------
    mu : array_like (..., C)
        Means. Minus infinity is a class that never wins. In single precision the result is too.
    sigma : float or array_like (C,), (..., 1) or (..., C)
        Standard deviations >= 0: for all, per class, per row, or both; they broadcast with mu.
        A class with deviation zero is a constant: of these only the largest can win, and equal
        ones share their probability evenly. A deviation below 1e-16 of the row's largest counts as
        zero.
    cov : array_like (C, C) or (..., C, C), or Factors of shape (C,) or (..., C)
        Covariance of the scores instead of ``sigma``; a singular one is allowed. Scores that are
        always equal share their probability evenly. ``Factors`` of up to three columns are exact,
        others are sampled.
    rtol, atol : float, optional
        With ``cov``: error asked for, relative to each probability or absolute for any of them; one
        of the two must be met. Default: an absolute error of 1e-4.
    errors : bool
        With ``cov``: return bounds on the absolute errors too, at about 99 % confidence. Where no
        more could be reached they are larger than the tolerance.
    seed : int
        With ``cov``: seed of the random shifts where a covariance is sampled.
    relative : bool
        With ``sigma``. False: all classes at once, O(C) a row, with an absolute accuracy of about
        1e-15, or 1e-14 where deviations differ by orders of magnitude. True: an integral for each
        class, O(C**2) a row, with a relative accuracy of about 1e-12 down to probabilities of
        1e-300; smaller ones are 0. In single precision 1e-6 in either way.
    device : {"cpu", "cuda"}, optional
        Where to compute; ``relative`` is for the CPU. For arrays that live on a GPU it is there,
        and so is the result.

    Returns
    -------
    ndarray (..., C), or two of them with ``errors``
        Rows add up to 1, with ``cov`` up to the errors.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> mvnorth.prob_argmax([1.0, 0.0, 0.0], 1.0).round(6)
    array([0.633702, 0.183149, 0.183149])
    >>> cov = mvnorth.Factors(0.5, [[0.7, 0.1], [0.7, -0.3], [-0.2, 0.6]])
    >>> mvnorth.prob_argmax([1.0, 0.0, 0.0], cov=cov, atol=1e-10).round(6)
    array([0.6401  , 0.139451, 0.220449])
    >>> print(f"{mvnorth.prob_argmax([0.0, 20.0], [1.0, 2.0], relative=True)[0]:.4e}")
    1.8720e-19
    """
    if cov is not None:
        if sigma is not None or relative:
            raise ValueError("give either sigma or cov; relative goes with sigma, rtol with cov")
        return _correlated(mu, cov, rtol, atol, errors, seed, device)
    if sigma is None:
        raise TypeError("prob_argmax needs sigma, for independent scores, or cov")
    if rtol is not None or atol is not None or errors:
        raise ValueError("rtol, atol and errors go with cov; with sigma the result is exact")
    means, deviations, shape, dtype = _checks.scores(mu, sigma)
    chosen = choose(device)
    if chosen is not None and not relative:
        from mvnorth._cuda import argmax as cuda_argmax
        from mvnorth._cuda.launch import Queue

        queue = Queue.of(chosen.stream)
        there = cuda_argmax.argmax(queue, queue.put(means, dtype), queue.put(deviations))
        return queue.get(there).reshape(shape)
    from mvnorth._cpu.argmax import argmax  # numba is imported with the first call
    from mvnorth._cpu.argmax_relative import argmax_relative

    out = np.empty(means.shape)
    size, classes = means.shape
    single = int(dtype == np.float32)
    kernel = partial(argmax_relative if relative else argmax, means, deviations, single, out)
    if relative:
        run_items(kernel, size * classes, size * classes**2 * 1.5e-7)
    else:
        run_items(kernel, size, size * classes * 2e-7)
    return out.reshape(shape).astype(dtype, copy=False)


def _correlated(
    mu: ArrayLike, cov: Any, rtol: Any, atol: Any, errors: bool, seed: Any, device: Any
) -> Any:
    if choose(device) is not None:
        raise ValueError("prob_argmax with cov computes on the CPU: leave device out")
    from mvnorth._correlated_argmax import argmax

    tolerance = _arguments.tolerance(rtol, atol, None)
    if rtol is None and atol is None:
        tolerance = Tolerance(0.0, 1e-4)
    assert tolerance is not None
    start = _arguments.whole_number("seed", seed, at_least=0)
    given = np.asarray(mu).dtype
    dtype = np.float32 if given.kind == "f" and given.itemsize <= 4 else np.float64
    prob, error = (a.astype(dtype, copy=False) for a in argmax(mu, cov, tolerance, start))
    return (prob, error) if errors else prob


def prob_topk(mu: ArrayLike, sigma: ArrayLike, k: int) -> Any:
    """Probability that each of independent scores s_i ~ N(mu_i, sigma_i**2) is among the k largest.

    O(k C) a row, or O((C - k) C) if that is less, with an absolute accuracy of about 1e-15 k.

    Parameters
    ----------
    mu, sigma
        As in ``prob_argmax``. Equal constants share the places that are left to them evenly; so do
        classes at minus infinity, if there are fewer than k others.
    k : int
        Number of places, at least 1; from C on all probabilities are 1.

    Returns
    -------
    ndarray (..., C)
        Rows add up to k.

    Examples
    --------
    >>> import mvnorth
    >>> mvnorth.prob_topk([2.0, 1.0, 0.0, 0.0], 1.0, k=2).round(6)
    array([0.917865, 0.658806, 0.211665, 0.211665])
    """
    means, deviations, shape, dtype = _checks.scores(mu, sigma)
    count = _arguments.whole_number("k", k, at_least=1)
    if count == 1:
        return prob_argmax(mu, sigma)
    size, classes = means.shape
    if count >= classes:
        return np.ones(shape, dtype)
    # Among the k largest is not among the C - k smallest; minus infinity has no mirror image.
    mirrored = 2 * count > classes and bool(np.isfinite(means).all())
    if mirrored:
        means, count = -means, classes - count
    out = np.empty(means.shape)
    from mvnorth._cpu.argmax import argmax, topk  # numba is imported with the first call

    single = int(dtype == np.float32)
    if count == 1:
        kernel = partial(argmax, means, deviations, single, out)
    else:
        kernel = partial(topk, means, deviations, count, single, out)
    run_items(kernel, size, size * classes * count * 2e-7)
    if mirrored:
        out = 1.0 - out
    return out.reshape(shape).astype(dtype, copy=False)
