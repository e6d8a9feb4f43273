"""The values of EXACT for rows of scores: its options, their checks, and the objective."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from exact_torch import _arguments, _normalize, _transforms
from exact_torch._argmax import every_label
from exact_torch._low_rank import log_accuracy_correlated
from exact_torch._ops import log_accuracy
from exact_torch._rows import Rows


class Options(NamedTuple):
    """How a loss is computed; the arguments of ``exact_loss`` of the same names."""

    objective: str = "nll"
    k: int = 1
    margin: float | None = None
    normalize: bool | str = False
    synchronize: bool = False
    truncate: int | None = None
    method: str = "quadrature"
    n: int = 16
    label_smoothing: float = 0.0

    def check(self, correlated: bool = False) -> None:
        """Raise for an option that does not make sense, alone, with the others or with loadings."""
        _arguments.choice("objective", self.objective, ("nll", "error"))
        if not isinstance(self.normalize, bool) and self.normalize not in _normalize.SCALES:
            raise TypeError(
                f'normalize must be True or False, "std" or "mad", got {self.normalize!r}'
            )
        if not isinstance(self.synchronize, bool):
            raise TypeError(f"synchronize must be True or False, got {self.synchronize!r}")
        _arguments.choice("method", self.method, ("quadrature", "genz"))
        _arguments.number("label_smoothing", self.label_smoothing, least=0, most=1)
        _arguments.whole_number("n", self.n, at_least=1)
        _arguments.whole_number("k", self.k, at_least=1)
        if self.margin is not None:
            _arguments.number("margin", self.margin, least=0)
        if self.truncate is not None:
            _arguments.whole_number("truncate", self.truncate, at_least=1)
        if self.label_smoothing and self.truncate is not None:
            raise ValueError("label_smoothing counts all classes, but truncate leaves some out")
        if correlated and (self.k > 1 or self.truncate is not None or self.method != "quadrature"):
            raise ValueError('loadings need k = 1, truncate=None and method="quadrature"')
        if self.k > 1 and self.method == "genz":
            raise ValueError(f'method="genz" estimates k = 1 only, got k = {self.k}')

    @property
    def scale(self) -> str | None:
        """What scores are divided by: "std", "mad" or nothing."""
        if isinstance(self.normalize, str):
            return self.normalize
        return "std" if self.normalize else None


def of_rows(
    rows: Rows,
    sigma: Tensor,
    in_sigma: bool,
    loadings: Tensor | None,
    options: Options,
    weight: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the loss of each row, (N,), and its share of the mean, (N,).

    Parameters
    ----------
    rows : scores in single or double precision
    sigma : (1 or N, 1 or C)
    in_sigma : whether the derivative in sigma may be wanted
    loadings : (1 or N, C, r) or None
    options : checked ones
    weight : (C,) or None
    """
    scores = rows.scores
    if options.scale is not None:
        scores = _normalize.normalized(scores, rows.counts, options.scale, options.synchronize)
    if weight is not None:
        weight = weight.to(scores.dtype)
    loss = _RowLoss(scores, sigma, in_sigma, loadings, options)
    if rows.targets is not None:
        if options.truncate is not None:
            raise ValueError("class probabilities count all classes, but truncate leaves some out")
        return loss.of_targets(rows.targets, weight), torch.ones_like(scores[:, 0])
    values = loss.of_labels(rows.labels)
    shares = rows.counts.to(scores.dtype)
    if weight is not None:
        shares = weight[rows.labels] * rows.counts
        values = _product(weight[rows.labels], values)
    if smoothing := options.label_smoothing:
        values = (1.0 - smoothing) * values + smoothing * loss.evenly(weight)
    return torch.where(rows.counts, values, 0.0), shares


class _RowLoss(NamedTuple):
    """-log P or 1 - P of rows, for one label, for some, or for all classes as the label."""

    scores: Tensor
    sigma: Tensor
    in_sigma: bool
    loadings: Tensor | None
    options: Options

    def of_labels(self, labels: Tensor) -> Tensor:
        """Return the loss of each row's label, (N,)."""
        scores, sigma, count = self.scores, self.sigma, self.options.truncate
        if count is not None and count < scores.shape[1] - 1:
            scores, sigma = _hardest(scores, sigma, labels, count)
            labels = torch.zeros_like(labels)
        return self._values(scores, labels, sigma, self.loadings)

    def of_every_label(self) -> Tensor:
        """Return the losses with each class in the label's place, (N, C)."""
        scores, classes, sigma = every_label(self.scores, self.sigma)
        loadings = self.loadings
        if loadings is not None and loadings.shape[0] > 1:
            loadings = loadings.repeat_interleave(self.scores.shape[1], 0)
        return self._values(scores, classes, sigma, loadings).view(self.scores.shape)

    def of_targets(self, targets: Tensor, weight: Tensor | None) -> Tensor:
        """Return the mean loss over classes with these probabilities, (N,)."""
        classes = self.scores.shape[1]
        smoothing = self.options.label_smoothing
        targets = targets.to(self.scores.dtype)
        if smoothing:
            targets = (1.0 - smoothing) * targets + smoothing / classes
        if weight is not None:
            targets = targets * weight
        if targets.requires_grad or smoothing or not _may_select():
            return _product(targets, self.of_every_label()).sum(1)
        # Of mixup's targets only two a row are not zero.
        row, label = targets.nonzero(as_tuple=True)
        sigma = self.sigma[row] if self.sigma.shape[0] > 1 else self.sigma
        loadings = self.loadings
        if loadings is not None and loadings.shape[0] > 1:
            loadings = loadings[row]
        values = self._values(self.scores[row], label, sigma, loadings) * targets[row, label]
        return values.new_zeros(len(targets)).index_add(0, row, values)

    def evenly(self, weight: Tensor | None) -> Tensor:
        """Return the mean of the loss over all classes in the label's place, (N,), weighted."""
        rows, classes = self.scores.shape
        if self.options.objective == "error" and weight is None and self.options.margin is None:
            # The probabilities add up to k.
            return self.scores.new_full((rows,), 1.0 - min(self.options.k, classes) / classes)
        values = self.of_every_label()
        return (values if weight is None else _product(weight, values)).mean(1)

    def _values(
        self, scores: Tensor, labels: Tensor, sigma: Tensor, loadings: Tensor | None
    ) -> Tensor:
        margin = self.options.margin
        if loadings is not None:
            order = int(torch.is_grad_enabled())
            log_prob = log_accuracy_correlated(
                scores, labels, sigma, loadings, margin_limit(margin, scores), order
            )[0]
        else:
            points = self.options.n if self.options.method == "genz" else 0
            log_prob = log_accuracy_of(
                scores, labels, sigma, self.in_sigma, margin, self.options.k, points
            )
        if self.options.objective == "nll":
            return -log_prob
        # The derivative of expm1 is computed as expm1 + 1, without the digits of a small P.
        return torch.where(log_prob < -1.0, 1.0 - torch.exp(log_prob), -torch.expm1(log_prob))


def log_accuracy_of(
    scores: Tensor,
    labels: Tensor,
    sigma: Tensor,
    in_sigma: bool,
    margin: float | None,
    k: int,
    points: int = 0,
) -> Tensor:
    """Return the logarithm of the probability that the label is among the k largest, (N,)."""
    order = (2 if in_sigma else 1) if torch.is_grad_enabled() else 0
    seed = torch.randint(2**31, ()) if points else None
    return log_accuracy(
        scores, labels, sigma, margin_limit(margin, scores), k, points, seed, order
    )[0]


def margin_limit(margin: float | None, scores: Tensor) -> float:
    """Return the margin, or infinity if there is none within the precision of scores."""
    limit = math.inf if margin is None else float(margin)
    return math.inf if limit > torch.finfo(scores.dtype).max else limit


def _hardest(scores: Tensor, sigma: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Scores and deviations of the label, then of its ``count`` strongest competitors."""
    own = labels[:, None]
    floor = torch.finfo(scores.dtype).min  # masked competitors still come before the label itself
    ranked = scores.detach().clamp(min=floor).scatter(1, own, -math.inf)
    others = ranked.topk(count, dim=1).indices
    kept = torch.cat([own, others], dim=1)
    if sigma.shape[1] > 1:
        sigma = sigma.expand(scores.shape).gather(1, kept)
    return scores.gather(1, kept), sigma


def _product(shares: Tensor, values: Tensor) -> Tensor:
    """Return shares times values; a value without a share may be infinite."""
    return shares * torch.where((shares == 0.0) & values.isinf(), 0.0, values)


def _may_select() -> bool:
    """Whether shapes may depend on values: not in compiled graphs and function transforms."""
    return not (torch.compiler.is_compiling() or _transforms.is_active())
