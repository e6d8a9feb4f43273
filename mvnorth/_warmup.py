"""Compile kernels before they are needed, by tiny problems that reach each of them."""

import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import mvnorth
from mvnorth._docstrings import document
from mvnorth._interface import label_best
from mvnorth.covariance import Factors, OneFactor


def _dense(d: int) -> np.ndarray:
    """Return a covariance (d, d) without any structure."""
    a = np.random.default_rng(d).normal(size=(d, d))
    return np.asarray(a @ a.T / d + np.eye(d))


def _one_factor(d: int) -> OneFactor:
    return OneFactor(np.linspace(0.5, 1.0, d), np.linspace(0.2, 1.0, d))


def _means(d: int) -> Iterator[np.ndarray]:
    """Yield one row, then two, in the middle of the distribution and in its tail."""
    m = np.linspace(-0.5, 0.5, d)
    yield m
    yield np.stack([m, m - 9.0])


def _compile_orthant() -> None:
    for d in (1, 2, 3, 5, 6, 51):  # closed forms, Gauss rules, sparse grids, sampling
        for dtype in (np.float64, np.float32):
            L = np.linalg.cholesky(_dense(d)).astype(dtype)
            for m in _means(d):
                mvnorth.orthant(m, L, rtol=0.1)
                mvnorth.orthant(m, L, 64)
    mvnorth.orthant(np.zeros(3), np.linalg.cholesky(_dense(3)), method="closed_form")
    mvnorth.orthant(np.zeros(256), np.linalg.cholesky(_dense(256)), 64)  # ordered by other kernels


def _compile_box() -> None:
    for d in (1, 2, 3, 5, 6, 51):
        cov = _dense(d)
        for m in _means(d):
            mvnorth.box(m - 1.0, m + 2.0, 0.0, cov, rtol=0.1)
            mvnorth.box(m - 1.0, m + 2.0, 0.0, cov, 64)
            mvnorth.cdf(m, cov=cov, releps=0.1)
    mvnorth.box(-1.0, np.ones(256), 0.0, _dense(256), 64)


def _compile_grad() -> None:
    for d in (1, 2, 3, 5, 51):
        cov = _dense(d)
        for m in _means(d):
            for wrt in ("m", "L", "cov"):
                mvnorth.orthant_grad(m, np.linalg.cholesky(cov), rtol=0.1, wrt=(wrt,))
            for lower in (-np.inf, m - 1.0):
                wanted = ("lower", "upper", "mean", "cov")
                mvnorth.box_grad(lower, m + 2.0, 0.0, cov, rtol=0.1, wrt=wanted)


def _compile_one_factor() -> None:
    for d in (2, 5, 40):
        cov = _one_factor(d)
        for m in _means(d):
            for dtype in (np.float64, np.float32):
                mvnorth.orthant(m.astype(dtype), cov)
                mvnorth.orthant_grad(m.astype(dtype), cov, wrt=("m", "c", "v"))
            for lower in (-np.inf, m - 1.0):
                mvnorth.box(lower, m + 2.0, 0.0, cov)
                mvnorth.box_grad(lower, m + 2.0, 0.0, cov)


def _compile_exact() -> None:
    scores, labels = np.zeros((2, 5), dtype=np.float32), np.zeros(2, dtype=np.int64)
    sigma, grad_sigma = np.ones(1, dtype=np.float32), np.empty(2, dtype=np.float32)
    label_best(scores, labels, sigma, np.inf, np.empty_like(scores), grad_sigma, 1)


def _compile_factors() -> None:
    for k in (2, 3):
        cov = Factors(1.0, np.linspace(-0.5, 1.0, 5 * k).reshape(5, k))
        for m in _means(5):
            for dtype in (np.float64, np.float32):
                mvnorth.orthant(m.astype(dtype), cov)
                mvnorth.orthant_grad(m.astype(dtype), cov, wrt=("m", "c", "V", "cov"))
            mvnorth.box(m - 1.0, m + 2.0, 0.0, cov)
            mvnorth.box_grad(m - 1.0, m + 2.0, 0.0, cov)


def _compile_hessian() -> None:
    cov = _one_factor(5)
    for m in _means(5):
        mvnorth.orthant_hessian(m, cov)
        mvnorth.orthant_hessian(m, cov, np.ones(5))


def _compile_markov() -> None:
    k = np.arange(6)
    cov = 0.5 ** np.abs(k[:, None] - k)
    for m in _means(6):
        for lower in (-np.inf, m - 1.0):
            mvnorth.box(lower, m + 2.0, 0.0, cov)
            mvnorth.box_grad(lower, m + 2.0, 0.0, cov, wrt=("lower", "upper", "cov"))


def _compile_methods() -> None:
    cov, one_factor = _dense(5), _one_factor(5)
    for m in _means(5):
        mvnorth.orthant_grad(m, one_factor, 64, wrt=("m", "c", "v"), method="pathwise")
        for lower in (-np.inf, m - 1.0):
            mvnorth.box(lower, m + 2.0, 0.0, cov, 64, method="genz")
            for method in ("genz", "tilting"):
                mvnorth.box(lower, m + 2.0, 0.0, one_factor, 64, method=method)
            for method in ("conditional", "pathwise"):
                wanted = ("lower", "upper", "mean", "cov")
                mvnorth.box_grad(lower, m + 2.0, 0.0, cov, 64, method=method, wrt=wanted)
            mvnorth.box_grad(lower, m + 2.0, 0.0, cov, 64, method="pinned")


def _compile_argmax() -> None:
    for mu in _means(5):
        mvnorth.prob_argmax(mu, 1.0)
        mvnorth.prob_argmax(mu.astype(np.float32), np.float32(1.0))
        mvnorth.prob_argmax(mu, 1.0, relative=True)
        mvnorth.prob_topk(mu, 1.0, 2)
        mvnorth.prob_argmax(mu, cov=_one_factor(5))
        mvnorth.expected_loss(mu, 1.0)
        mvnorth.expected_loss(mu, cov=_dense(5))
        mvnorth.expected_max_grad(mu, cov=_one_factor(5), rtol=0.1)


def _compile_sample() -> None:
    for d in (1, 2, 5):
        cov = _dense(d)
        for m in _means(d):
            mvnorth.sample_orthant(m, np.linalg.cholesky(cov), 2)
            mvnorth.sample_box(m - 1.0, m + 2.0, 0.0, cov, 2)
    for m in _means(5):
        mvnorth.sample_orthant(m, _one_factor(5), 2)
        mvnorth.sample_box(m - 1.0, m + 2.0, 0.0, _one_factor(5), 2)
    two_factors = Factors(1.0, np.linspace(-0.5, 1.0, 10).reshape(5, 2))
    mvnorth.sample_orthant(np.zeros(5), two_factors, 2)


def _compile_moments() -> None:
    for d in (1, 2, 5, 6):
        cov = _dense(d)
        for m in _means(d):
            for lower in (-np.inf, m - 1.0):
                mvnorth.box_moments(lower, m + 2.0, 0.0, cov, rtol=0.5)
                mvnorth.box_moments(lower, m + 2.0, 0.0, cov, 64)
    for m in _means(5):
        mvnorth.box_moments(m - 1.0, m + 2.0, 0.0, _one_factor(5))


def _compile_student() -> None:
    for d in (3, 5):
        for m in _means(d):
            for cov in (_dense(d), _one_factor(d)):
                for lower in (-np.inf, m - 1.0):
                    mvnorth.box(lower, m + 2.0, 0.0, cov, df=5.0, rtol=0.1)
                mvnorth.box_grad(-np.inf, m, 0.0, cov, df=5.0, wrt=("upper", "df"), rtol=0.1)
    mvnorth.sample_box(-1.0, 2.0, 0.0, _dense(3), 2, df=5.0)


def _compile_polytope() -> None:
    angle = np.arange(5.0)
    plane = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for A in (plane, np.concatenate([np.eye(3), -np.ones((1, 3))])):
        cov = np.eye(A.shape[1])
        mvnorth.polytope(A, 1.0, 0.0, cov, rtol=0.1)
        mvnorth.polytope_grad(A, 1.0, 0.0, cov, rtol=0.1, wrt=("A", "b", "mean", "cov"))
        mvnorth.sample_polytope(A, 1.0, 0.0, cov, 2)


def _compile_special() -> None:
    for name in mvnorth.special.__all__:
        getattr(mvnorth.special, name)(np.array([0.25, 0.5]))


GROUPS: dict[str, tuple[Callable[[], None], str]] = {
    "orthant": (_compile_orthant, "orthants with any covariance"),
    "box": (_compile_box, "boxes and distribution functions with any covariance"),
    "grad": (_compile_grad, "derivatives with any covariance"),
    "one_factor": (_compile_one_factor, "one common factor, with derivatives"),
    "exact": (_compile_exact, "the loss of EXACT in single precision"),
    "factors": (_compile_factors, "several common factors, with derivatives"),
    "hessian": (_compile_hessian, "second derivatives"),
    "markov": (_compile_markov, "Markov chains, with derivatives"),
    "methods": (_compile_methods, "methods that are used only if you name them"),
    "argmax": (
        _compile_argmax,
        "`prob_argmax`, `prob_topk`, and expected maxima, losses and improvements",
    ),
    "sample": (_compile_sample, "`sample_orthant` and `sample_box`"),
    "moments": (_compile_moments, "`box_moments` and `orthant_moments`"),
    "student": (_compile_student, "Student t"),
    "polytope": (_compile_polytope, "polytopes, with derivatives and draws"),
    "special": (_compile_special, "the normal distribution in one dimension"),
}
_LIST = "; ".join(f'"{name}" ({text})' for name, (_, text) in GROUPS.items())


@document(f"*groups : str\n        Of {_LIST}.  Without any: all of them.")
def warmup(*groups: str, verbose: bool = False) -> None:
    """Compile the kernels of groups of functions, or of all, so that no later call has to.

    Kernels are cached on disk, so that this is needed once after an installation.  Use it where the
    first call must not wait, as when you build a container or before you measure times.  All groups
    take some minutes; what has been compiled earlier takes seconds.  Kernels for CUDA devices are
    not included: they are compiled when they are first launched.

    Parameters
    ----------
    {parameters}
    verbose : bool
        Print a line for each group to standard error, and on a terminal what is being compiled.

    Examples
    --------
    >>> import mvnorth
    >>> mvnorth.warmup("special")
    """
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise ValueError(f"groups must be among {', '.join(GROUPS)}; got {unknown[0]!r}")
    from mvnorth._compile import watch  # numba is imported with the first call

    for group in GROUPS:
        if groups and group not in groups:
            continue
        progress = _Progress(group) if verbose else None
        with np.errstate(all="ignore"), watch(progress.show if progress else None):
            GROUPS[group][0]()
        if progress:
            progress.end()


class _Progress:
    """A line about a group on standard error, which on a terminal shows what is compiled."""

    def __init__(self, group: str) -> None:
        self._group, self._start, self._compiled = group, time.perf_counter(), 0
        self._rewrite = sys.stderr.isatty()
        if self._rewrite:
            self._print("...", "")

    def show(self, function: str) -> None:
        self._compiled += 1
        if self._rewrite:
            self._print(f"compiling {function}", "")

    def end(self) -> None:
        seconds = time.perf_counter() - self._start
        self._print(f"{self._compiled} functions compiled in {seconds:.0f} s", "\n")

    def _print(self, text: str, end: str) -> None:
        start, fill = ("\r", "\033[K") if self._rewrite else ("", "")
        line = f"{self._group:<10}  {text}"[:79]
        print(f"{start}{line}{fill}", end=end, file=sys.stderr, flush=True)
