"""The loss -log P and its gradient for a batch: mvnorth, the published way, a sketch in torch.

    python -m validation.benchmarks.one_factor [--full] [--json FILE]

About two minutes. Scores of C classes are N(0, 2^2) draws with random labels y; the limits are the
m_j = s_y - s_j of the other classes, and the covariance is I + 11^T (c = v = 1). Everything
computes log P and its gradient in m for all rows, in one thread:

* "published": the algorithm of the EXACT paper (arXiv:2205.09615), written here from its
  description. Genz's integration with the Cholesky factor whose columns are constant below the
  diagonal, so that a sample costs O(d). The gradient by Theorem 4.3: component i is a density
  times an orthant of d - 1 dimensions, and since all these conditional covariances are
  I + 11^T/2, the d + 1 integrals are columns of the same tensors. O(N C^2) for a row. The
  products are kept in logs, and rows are taken in chunks that fit into the cache. Points are a
  scrambled Sobol' sequence made beforehand.
* "torch sketch": the one-dimensional integral in plain torch. Mode by Newton, 32 nodes of the
  trapezoid in a sinh variable, gradient by autograd.
* mvnorth in double and in single precision.
* torch's cross-entropy of the same scores, for scale, and scipy's CDF on a few rows (value only).

Errors are the median and the largest over the first 16 rows of a batch, or over those that were
timed if they are fewer: of log P, and of the gradient in the Euclidean norm relative to its
length. The truth is the trapezoid with 4001 nodes in
float64, checked against 40 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import log_ndtr

import mvnorth
from validation.benchmarks.timing import (
    arguments,
    best_of,
    machine,
    print_table,
    progress,
    record,
)
from validation.oracles import scipy_mvn
from validation.oracles.one_dimension import LOG_SQRT_2PI, FloatArray
from validation.oracles.one_factor import one_factor_derivatives

SIZES = ((256, 10), (256, 100), (64, 1000))
SCALING = (10, 100, 1000, 10_000, 100_000)
JUDGED = 16  # rows on which errors are measured
SCIPY_POINTS = 20_000  # in 999 dimensions, where its default would take hours
CHUNK = 32_768  # numbers in a tensor of torch: what the cache holds
REFRESH = 16  # steps after which its running products go into their logs


Errors = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One program on one batch.

    Attributes
    ----------
    program : str
    rows, classes : int
    seconds : float
        Of a batch; scaled up if fewer rows were timed.
    timed : int
        Rows that were timed.
    log_errors, grad_errors : (float, float) or None
        Median and largest; None where the program does not compute it.
    """

    program: str
    rows: int
    classes: int
    seconds: float
    timed: int
    log_errors: Errors | None = None
    grad_errors: Errors | None = None


class Batch:
    """Random scores and labels, with answers for the first rows.

    Attributes
    ----------
    scores : (rows, classes)
    labels : (rows,)
    m : (rows, classes - 1)
    log_prob : (judged,)
    grad : (judged, classes - 1)
    """

    def __init__(self, rows: int, classes: int, judged: int = JUDGED) -> None:
        rng = np.random.default_rng(classes)
        self.scores = rng.normal(0.0, 2.0, (rows, classes))
        self.labels = rng.integers(classes, size=rows)
        others = np.arange(classes) != self.labels[:, None]
        chosen = np.take_along_axis(self.scores, self.labels[:, None], axis=1)
        self.m = (chosen - self.scores)[others].reshape(rows, classes - 1)
        answers = [truth(m) for m in self.m[:judged]]
        self.log_prob = np.array([log_prob for log_prob, _ in answers])
        self.grad = np.array([grad for _, grad in answers])

    def errors(self, log_prob: FloatArray, grad: FloatArray | None) -> tuple[Errors, Errors | None]:
        """Of log P and of the gradient, over the judged rows or as many as there are results."""
        n = min(len(log_prob), len(self.log_prob))
        log_errors = _median_and_largest(np.abs(log_prob[:n] - self.log_prob[:n]))
        if grad is None:
            return log_errors, None
        change = np.linalg.norm(grad[:n] - self.grad[:n], axis=1)
        return log_errors, _median_and_largest(change / np.linalg.norm(self.grad[:n], axis=1))


def _median_and_largest(errors: FloatArray) -> Errors:
    return float(np.median(errors)), float(np.max(errors))


def truth(m: FloatArray) -> tuple[float, FloatArray]:
    """log P and its gradient, (d,), for one row m, (d,), with c = v = 1.

    The integrand's curvature is at least that of phi(z): 13 on both sides of the mode hold all
    of it, and steps of 0.0065 resolve it up to some 10,000 equal scores.
    """
    mode = 0.0
    for _ in range(60):
        x = m + mode
        h = np.exp(-(x**2) / 2 - LOG_SQRT_2PI - log_ndtr(x))
        mode += (h.sum() - mode) / (1 + np.sum(h * (x + h)))
    z, step = np.linspace(mode - 13, mode + 13, 4001, retstep=True)
    blocks = np.array_split(m, 1 + m.size // 500)  # of coordinates: memory
    log_f = -(z**2) / 2 - LOG_SQRT_2PI
    for block in blocks:
        log_f += log_ndtr(block + z[:, None]).sum(axis=1)
    weights = np.exp(log_f - log_f.max())
    log_prob = float(log_f.max() + np.log(step * weights.sum()))
    weights /= weights.sum()

    def gradient(block: FloatArray) -> FloatArray:
        x = block + z[:, None]
        mean: FloatArray = weights @ np.exp(-(x**2) / 2 - LOG_SQRT_2PI - log_ndtr(x))
        return mean

    return log_prob, np.concatenate([gradient(block) for block in blocks])


def check_truth(batch: Batch, rows: int) -> float:
    """The largest error of the answers against 40 digits, in log P or in the gradient."""
    ones = np.ones(batch.m.shape[1])
    found = [one_factor_derivatives(m, ones, ones) for m in batch.m[:rows]]
    log_prob = np.array([float(result.log_prob) for result in found])
    grad = np.array([[float(g) for g in result.m] for result in found])
    log_errors, grad_errors = batch.errors(log_prob, grad)
    return max(log_errors + (grad_errors or ()))


class Published:
    """The published algorithm for C classes and N samples; call it with m, (rows, d), a tensor.

    Returns log P, (rows,), and its gradient, (rows, d). ``m`` lives on ``device``, as all does.
    """

    def __init__(self, classes: int, samples: int, dtype: Any, device: Any = "cpu") -> None:
        import torch

        self.torch, self.dtype, self.d, self.samples = torch, dtype, classes - 1, samples
        d = self.d
        # s_j = 1 + j v^2 with v = 1 for the probability and v^2 = 1/2 for its derivatives.
        s = 1 + torch.tensor([[1.0]] + [[0.5]] * d) * torch.arange(d + 1.0, dtype=torch.float64)
        v = torch.tensor([[1.0]] + [[0.5**0.5]] * d, dtype=torch.float64)
        diag = (s[:, 1:] / s[:, :-1]).sqrt()
        # Columns divided by the diagonal of the next row: b = m / L_ii - S / L_ii.
        self.inverse = (1 / diag).T[:, None, :, None].to(device, dtype).contiguous()
        w = v * v / (s[:, 1:] * s[:, :-1]).sqrt()
        self.w = w.T[:, None, :, None].to(device, dtype).contiguous()
        points = torch.quasirandom.SobolEngine(max(d - 1, 1), scramble=True, seed=1)
        u = points.draw(samples, dtype=torch.float64).T.to(device, dtype)
        self.u = u[:, None, None, :].contiguous()  # (d - 1, 1, 1, N)
        # Column 0 takes the coordinates as they are, column i all but the i-th.
        order = torch.arange(d)
        skipped = torch.arange(d - 1)[:, None]
        self.index = (skipped + (skipped >= order).long()).to(device)  # (d - 1, d)
        numbers = (d + 1) * samples  # of a row in a tensor
        self.chunk = max(1, CHUNK // numbers)
        if u.is_cuda:  # all at once, as far as memory goes: six such tensors, and three of limits
            free, _ = torch.cuda.mem_get_info(u.device)
            row = (6 * numbers + 3 * (d + 1) * d) * u.element_size()
            self.chunk = max(1, int(0.8 * free) // row)

    def __call__(self, m: Any) -> tuple[Any, Any]:
        torch = self.torch
        with torch.no_grad():
            parts = [self.rows(rows) for rows in m.split(self.chunk)]
            log_prob = torch.cat([part[:, 0] for part in parts])
            conditional = torch.cat([part[:, 1:] for part in parts])
            # N(m_i; 0, 2) times the conditional orthant, over the probability.
            density = -m * m / 4 - 0.5 * float(np.log(4 * np.pi))
            return log_prob, (density + conditional - log_prob[:, None]).exp()

    def rows(self, m: Any) -> Any:
        """The logs of the d + 1 integrals, (rows, d + 1)."""
        torch, d = self.torch, self.d
        tiny = torch.finfo(self.dtype).tiny
        limits = m.new_empty(d - 1, len(m), d + 1, 1)
        limits[:, :, 0, 0] = m.T[:-1]
        limits[:, :, 1:, 0] = m[:, self.index].permute(1, 0, 2) - m / 2
        shape = (len(m), d + 1, self.samples)
        logs, product, total = m.new_zeros(shape), m.new_ones(shape), m.new_zeros(shape)
        b = torch.empty_like(total)
        for k in range(d - 1):
            torch.sub(limits[k], total, out=b)
            b.mul_(self.inverse[k])
            torch.special.ndtr(b, out=b)
            product.mul_(b)
            if k % REFRESH == REFRESH - 1:
                logs.add_(product.clamp_(min=tiny).log_())
                product.fill_(1.0)
            b.mul_(self.u[k]).clamp_(min=tiny)
            torch.special.ndtri(b, out=b)
            total.addcmul_(b, self.w[k])
        # The probability has one coordinate more than the others.
        last = (m[:, -1:] - total[:, 0]) * self.inverse[d - 1, :, 0]
        product[:, 0] *= torch.special.ndtr(last)
        logs.add_(product.clamp_(min=tiny).log_())
        return torch.logsumexp(logs, dim=2) - float(np.log(self.samples))


def torch_sketch(m: Any, nodes: int = 32, drop: float = 37.0) -> tuple[Any, Any]:
    """log P, (rows,), and its gradient, (rows, d), by one trapezoid a row and autograd."""
    import torch

    def hazard(z: Any) -> tuple[Any, Any, Any]:
        x = m + z[:, None]
        log_phi = torch.special.log_ndtr(x)
        return x, log_phi, torch.exp(-x * x / 2 - LOG_SQRT_2PI - log_phi)

    with torch.no_grad():
        mode = torch.zeros_like(m[:, 0])
        for _ in range(8):
            x, log_phi, h = hazard(mode)
            mode = mode + (h.sum(1) - mode) / (1 + (h * (x + h)).sum(1))
        x, log_phi, h = hazard(mode)
        peak = log_phi.sum(1) - mode**2 / 2
        first = -h * (x + h)
        scale = (1 - first.sum(1)).rsqrt()
        skew = (-first * (x + h) - h * (1 + first)).sum(1) * scale**3 / 3
        a = (1.3 * skew.abs()).clamp(min=1e-3)
        eps = torch.atanh(skew / a)
        ends = []
        for sign in (-1, 1):
            z = mode + sign * (2 * drop) ** 0.5 * scale
            for _ in range(5):
                _, log_phi, h = hazard(z)
                z = z - (log_phi.sum(1) - z**2 / 2 - peak + drop) / (h.sum(1) - z)
            stretched = (z - mode) / scale * a * eps.cosh() + eps.sinh()
            ends.append((stretched.asinh() - eps) / a)
        step = (ends[1] - ends[0]) / (nodes - 1)
        t = ends[0][:, None] + step[:, None] * torch.arange(nodes, dtype=m.dtype)
        bent = eps[:, None] + a[:, None] * t
        unit = (scale / eps.cosh())[:, None]
        z = mode[:, None] + unit * (bent.sinh() - eps.sinh()[:, None]) / a[:, None]
        log_weight = (step[:, None] * unit * bent.cosh()).log() - z**2 / 2 - LOG_SQRT_2PI
    log_probs, grads = [], []
    rows = max(1, CHUNK // (nodes * m.shape[1]))
    parts = (tensor.split(rows) for tensor in (m, z, log_weight))
    for limits, points, weights in zip(*parts, strict=True):
        leaf = limits.detach().requires_grad_()
        logs = torch.special.log_ndtr(leaf[:, None, :] + points[:, :, None]).sum(2)
        log_prob = torch.logsumexp(logs + weights, dim=1)
        log_prob.sum().backward()
        log_probs.append(log_prob.detach())
        grads.append(leaf.grad)
    return torch.cat(log_probs), torch.cat(grads)


def torch_lines(batch: Batch, full: bool) -> list[Line]:
    """The torch programs on one batch."""
    import torch

    torch.set_num_threads(1)
    rows, classes = batch.scores.shape
    lines = []

    def measure(name: str, call: Callable[[Any], tuple[Any, Any]], dtype: Any, few: int) -> None:
        progress(f"{rows} x {classes}, {name} ...")
        m = torch.as_tensor(batch.m[:few]).to(dtype)
        _, seconds = best_of(lambda: call(m[:1]), 1)  # also warms up
        repeats = 10 if seconds * few < 0.5 else 3 if seconds * few < 4 else 1
        (log_prob, grad), seconds = best_of(lambda: call(m), repeats)
        errors = batch.errors(log_prob.double().numpy(), grad.double().numpy())
        lines.append(Line(name, rows, classes, seconds * rows / few, few, *errors))

    for dtype, name in ((torch.float64, "float64"), (torch.float32, "float32")):
        for samples in (16, 64):
            work = rows * classes**2 * samples
            few = rows if full and samples == 16 else min(rows, max(6, int(rows * 1e8 / work)))
            call = Published(classes, samples, dtype)
            measure(f"published, N={samples}, {name}", call, dtype, few)
    measure("torch sketch, 32 nodes, float64", torch_sketch, torch.float64, rows)

    logits = torch.as_tensor(batch.scores)
    labels = torch.as_tensor(batch.labels)

    def cross_entropy() -> Any:
        leaf = logits.detach().requires_grad_()
        torch.nn.functional.cross_entropy(leaf, labels, reduction="sum").backward()
        return leaf.grad

    _, seconds = best_of(cross_entropy, 100)
    lines.append(Line("torch cross-entropy", rows, classes, seconds, rows))
    return lines


def mvnorth_call(m: np.ndarray) -> Any:
    library: Any = mvnorth
    cov = library.OneFactor.exact(m.shape[1] + 1)
    return library.orthant_grad(m, cov, wrt=("m",), log=True)


def mvnorth_lines(batch: Batch) -> list[Line]:
    rows, classes = batch.scores.shape
    lines = []
    for dtype in (np.float64, np.float32):
        m = batch.m.astype(dtype)
        mvnorth_call(m)  # compiles
        found, seconds = best_of(lambda m=m: mvnorth_call(m), 100)  # type: ignore[misc]
        errors = batch.errors(found.log_prob.astype(np.float64), found.grad_m.astype(np.float64))
        lines.append(Line(f"mvnorth, {m.dtype}", rows, classes, seconds, rows, *errors))
    return lines


def scipy_line(batch: Batch) -> Line:
    """The value alone, on a few rows one after the other."""
    rows, classes = batch.scores.shape
    progress(f"{rows} x {classes}, scipy ...")
    lower, cov = np.full(classes - 1, -np.inf), np.eye(classes - 1) + 1
    number, settings = (1, {"maxpts": SCIPY_POINTS}) if classes > 500 else (3, {})
    few = [scipy_mvn.cdf(lower, m, cov, seed=1, **settings) for m in batch.m[:number]]
    log_prob = np.log(np.maximum([result.value for result in few], 1e-300))
    seconds = float(np.mean([result.seconds for result in few])) * rows
    return Line(
        "scipy, value only", rows, classes, seconds, len(few), *batch.errors(log_prob, None)
    )


def scaling(full: bool, sizes: Sequence[int] = SCALING) -> list[Line]:
    """mvnorth for ever more classes, about as many numbers in every batch."""
    lines = []
    for classes in sizes:
        rows = max(1, (2_000_000 if full else 400_000) // classes)
        batch = Batch(rows, classes, judged=1 if classes <= 10_000 else 0)
        mvnorth_call(batch.m)
        found, seconds = best_of(lambda m=batch.m: mvnorth_call(m), 5)  # type: ignore[misc]
        errors = batch.errors(found.log_prob, found.grad_m) if len(batch.log_prob) else ()
        lines.append(Line("mvnorth, float64", rows, classes, seconds, rows, *errors))
    return lines


def show(line: Line, own: Line | None) -> list[object]:
    times = f"{line.seconds / own.seconds:.3g}" if own else "-"
    note = "" if line.timed == line.rows else f"{line.timed} rows, scaled"
    return [
        line.program,
        f"{1e3 * line.seconds:.4g}",
        f"{1e6 * line.seconds / line.rows:.4g}",
        f"{1e9 * line.seconds / line.rows / line.classes:.4g}",
        times,
        *(f"{e[0]:.0e}, {e[1]:.0e}" if e else "-" for e in (line.log_errors, line.grad_errors)),
        note,
    ]


def main() -> None:
    options = arguments(__doc__).parse_args()
    has_torch = find_spec("torch") is not None
    has_grad = hasattr(mvnorth, "orthant_grad")
    mvnorth.set_num_threads(1)
    print(machine(), end="\n\n")
    header = ["", "ms a batch", "us a row", "ns a row and class", "/ mvnorth"]
    header += ["error of log P", "of the gradient", ""]
    results: list[Line] = []
    summary = []
    for rows, classes in SIZES:
        progress(f"{rows} x {classes}, answers ...")
        batch = Batch(rows, classes)
        lines = mvnorth_lines(batch) if has_grad else []
        own = lines[0] if lines else None
        if has_torch:
            lines += torch_lines(batch, options.full)
        lines.append(scipy_line(batch))
        print(f"{rows} x {classes} classes, -log P and its gradient")
        if classes == 10 or (options.full and classes == 100):
            print(f"answers differ from 40 digits by {check_truth(batch, 2):.0e}")
        print_table(header, [show(line, own) for line in lines])
        if not has_grad:
            print("missing: mvnorth.orthant_grad\n")
        if not has_torch:
            print("missing: torch (published algorithm, torch sketch, cross-entropy)\n")
        if has_torch and own:
            published = next(line for line in lines if line.program.startswith("published"))
            summary.append(f"{rows} x {classes}: {published.seconds / own.seconds:.3g}")
        results += lines
    if has_grad:
        more = scaling(options.full)
        print("mvnorth and the number of classes")
        columns = ["classes", "rows", "ms a batch", "ns a row and class", "error of log P"]
        print_table(
            columns,
            [
                [
                    line.classes,
                    line.rows,
                    f"{1e3 * line.seconds:.4g}",
                    f"{1e9 * line.seconds / line.rows / line.classes:.4g}",
                    f"{line.log_errors[0]:.0e}" if line.log_errors else "-",
                ]
                for line in more
            ],
        )
        results += more
    if summary:
        print("time of the published algorithm (N=16, float64) / mvnorth: " + ", ".join(summary))
    record(options.json, "one_factor", [asdict(line) for line in results])


if __name__ == "__main__":
    main()
