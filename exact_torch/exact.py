"""EXACT: the expected accuracy of a classifier with Gaussian scores, as a loss.

The scores of an example are s ~ N(mu, diag(sigma**2)), and it is classified rightly if the label's
score is the largest.  The probability of that is differentiable in mu and sigma (Karpukhin, Dereka
and Kolesnikov, EXACT: How to train your accuracy, arXiv:2205.09615).  It is computed here as the
integral over the label's score, to rounding accuracy and in O(C), where the paper samples.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from exact_torch import _arguments, _checks
from exact_torch._argmax import argmax_probabilities, every_label
from exact_torch._ops import log_accuracy


def exact_loss(
    scores: Tensor,
    labels: Tensor,
    sigma: float | Tensor = 1.0,
    *,
    objective: str = "nll",
    margin: float | None = None,
    normalize: bool = False,
    truncate: int | None = None,
    method: str = "quadrature",
    n: int = 16,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """Minus the logarithm of the expected accuracy, or one minus it.

    Takes the place of ``torch.nn.functional.cross_entropy``. Differentiable in scores and sigma,
    twice with ``method="quadrature"``.

    Parameters
    ----------
    scores : Tensor (B, C)
        Means of the scores. Minus infinity is a class that cannot win. Half precision, also under
        autocast, is computed in single.
    labels : Tensor (B,) of int
        Right classes.
    sigma : float or Tensor (), (B,), (B, 1), (C,), (1, C) or (B, C)
        Standard deviations of the scores: of all, of an example, of a class. If B = C, one
        dimension could mean either: give two. One below 1e-15 of the label's counts as that much,
        which changes log P by less than rounding.
    objective : {"nll", "error"}
        -log of the expected accuracy (first version of the paper), or 1 - it (second version).
    margin : float, optional
        Differences between the label's score and others count up to this only, >= 0; before
        division by sigma.
    normalize : bool
        Take the mean of all scores of the batch off, and divide by their standard deviation.
    truncate : int, optional
        Compare the label with so many of its strongest competitors only.
    method : {"quadrature", "genz"}
        The exact integral, or Genz's randomised estimate of it with ``n`` points, as the paper has
        it, whose randomness comes from torch's generator.
    n : int
        Points of "genz".
    weight : Tensor (C,), optional
        Of classes, >= 0; the mean is a weighted one.
    ignore_index : int
        Label of examples that do not count. Without any that does the mean is 0.
    label_smoothing : float
        Share of the target that is spread evenly over all classes, in [0, 1], as in cross-entropy.
        With "nll" this takes an integral for each class: C times the time.
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    Tensor () or (B,)

    Examples
    --------
    >>> import torch
    >>> from exact_torch import exact_loss
    >>> scores = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    >>> loss = exact_loss(scores, torch.tensor([0, 2]), reduction="none")
    >>> print(torch.exp(-loss).detach())
    tensor([0.8658, 0.3333])
    >>> loss.sum().backward()
    >>> print(scores.grad)
    tensor([[-0.1901,  0.0950,  0.0950],
            [ 0.4231,  0.4231, -0.8463]])
    """
    _check_options(
        objective, margin, normalize, truncate, method, n, ignore_index, label_smoothing, reduction
    )
    _checks.scores_and_labels(scores, labels, ignore_index)
    _checks.class_weights(weight, scores)
    scores, deviations = _prepared(scores, sigma)
    labels = labels.long()
    counts = labels != ignore_index
    own = torch.where(counts, labels, 0)
    if normalize:
        scores = _normalized(scores, counts)
    each = own  # of the classes that are compared, the label
    if truncate is not None and truncate < scores.shape[1] - 1:
        scores, deviations = _hardest(scores, deviations, own, truncate)
        each = torch.zeros_like(own)
    points = n if method == "genz" else 0
    differentiable = isinstance(sigma, Tensor)
    log_prob = _log_accuracy(scores, each, deviations, differentiable, margin, 1, points)
    values = -log_prob if objective == "nll" else -torch.expm1(log_prob)
    own_weight = None if weight is None else weight.to(scores.dtype)[own]
    if own_weight is not None:
        values = _weighted(values, own_weight)
    if label_smoothing:
        rest = _evenly(objective, scores, deviations, differentiable, margin, points, weight)
        values = (1.0 - label_smoothing) * values + label_smoothing * rest
    values = torch.where(counts, values, 0.0)
    if reduction == "mean":
        share = counts.to(values.dtype) if own_weight is None else own_weight * counts
        return values.sum() / share.sum().clamp(min=torch.finfo(values.dtype).tiny)
    return values.sum() if reduction == "sum" else values


def expected_accuracy(
    scores: Tensor, labels: Tensor, sigma: float | Tensor = 1.0, *, reduction: str = "mean"
) -> Tensor:
    """Probability that the label's score is the largest; differentiable.

    Parameters
    ----------
    scores, labels, sigma
        As in ``exact_loss``.
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    Tensor () or (B,)

    Examples
    --------
    >>> import torch
    >>> from exact_torch import expected_accuracy
    >>> print(expected_accuracy(torch.tensor([[1.0, 0.0]]), torch.tensor([0])))
    tensor(0.7602)
    """
    return expected_topk_accuracy(scores, labels, 1, sigma, reduction=reduction)


def expected_topk_accuracy(
    scores: Tensor, labels: Tensor, k: int, sigma: float | Tensor = 1.0, *, reduction: str = "mean"
) -> Tensor:
    """Probability that the label's score is among the k largest; differentiable.

    O(Ck) an example. For k > 1 with an absolute accuracy of 1e-12 (single precision 1e-7) where no
    deviation is below a tenth of the label's, growing to 1e-3 where one is below a thousandth.

    Parameters
    ----------
    scores, labels, sigma
        As in ``exact_loss``.
    k : int
        Number of places; from C on the result is 1.
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    Tensor () or (B,)

    Examples
    --------
    >>> import torch
    >>> from exact_torch import expected_topk_accuracy
    >>> print(expected_topk_accuracy(torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([0]), 2))
    tensor(0.5566)
    """
    _arguments.whole_number("k", k, at_least=1)
    _arguments.reduction(reduction)
    _checks.scores_and_labels(scores, labels)
    scores, deviations = _prepared(scores, sigma)
    prob = torch.exp(_log_accuracy(scores, labels, deviations, isinstance(sigma, Tensor), None, k))
    if reduction == "mean":
        return prob.mean()
    return prob.sum() if reduction == "sum" else prob


def argmax_probs(scores: Tensor, sigma: float | Tensor = 1.0) -> Tensor:
    """Probabilities that each class's score is the largest; differentiable.

    Parameters
    ----------
    scores : Tensor (B, C)
        Below infinity, and in no row minus infinity alone.
    sigma : as in ``exact_loss``
        O(C) a row, or O(C**2) where one deviation of a row is below 1e-15 of another. Unlike
        ``mvnorth.prob_argmax``, which takes deviations below 1e-16 of the largest for 0.

    Returns
    -------
    Tensor (B, C)
        Rows add up to 1, to an accuracy of 1e-14, in single precision 1e-6.

    Examples
    --------
    >>> import torch
    >>> from exact_torch import argmax_probs
    >>> print(argmax_probs(torch.tensor([[1.0, 0.0, 0.0]])))
    tensor([[0.6337, 0.1831, 0.1831]])
    """
    _checks.scores_only(scores)
    _checks.someone_wins(scores)
    scores, deviations = _prepared(scores, sigma)
    return argmax_probabilities(scores, deviations)


class ExactLoss(nn.Module):
    """``exact_loss`` as a module.

    Parameters
    ----------
    sigma, margin
        As in ``exact_loss``, or schedules: functions of the training's progress in [0, 1]
        (``exact_torch.schedules``), which ``set_progress`` follows; progress is in the state.
    objective, normalize, truncate, method, n, weight, ignore_index, label_smoothing, reduction
        As in ``exact_loss``.

    Examples
    --------
    >>> import torch
    >>> from exact_torch import ExactLoss, SigmaSchedule
    >>> loss = ExactLoss(SigmaSchedule(10.0, 0.1), margin=5.0)
    >>> loss.set_progress(0.5)
    >>> print(loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0])))
    tensor(0.0819)
    """

    weight: Tensor | None

    def __init__(
        self,
        sigma: float | Tensor | Callable[[float], float] = 1.0,
        *,
        objective: str = "nll",
        margin: float | Callable[[float], float | None] | None = None,
        normalize: bool = False,
        truncate: int | None = None,
        method: str = "quadrature",
        n: int = 16,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.sigma, self.margin = sigma, margin
        self._sigma_now = torch.ones((), dtype=torch.float64, device="cpu")
        self.options: dict[str, Any] = {
            "objective": objective,
            "normalize": normalize,
            "truncate": truncate,
            "method": method,
            "n": n,
            "ignore_index": ignore_index,
            "label_smoothing": label_smoothing,
            "reduction": reduction,
        }
        self.set_progress(0.0)
        if not isinstance(sigma, Tensor):
            _arguments.number("sigma", self._now(sigma), above=0)
        _check_options(
            objective,
            self._margin_now,
            normalize,
            truncate,
            method,
            n,
            ignore_index,
            label_smoothing,
            reduction,
        )

    def set_progress(self, progress: float) -> None:
        """Say how much of training is done, from 0 to 1, for schedules."""
        self.progress = _arguments.progress(progress)
        # A compiled graph cannot follow a number without being compiled for each of its values.
        self._margin_now = self._now(self.margin)
        if _is_schedule(self.sigma):
            self._sigma_now.fill_(self._now(self.sigma))

    def get_extra_state(self) -> float:
        return self.progress

    def set_extra_state(self, state: float) -> None:
        self.set_progress(state)

    @property
    def phases(self) -> tuple[nn.Module, ...]:
        """The losses a trainer steps on with each batch, here this one alone."""
        return (self,)

    @property
    def current_sigma(self) -> float | Tensor:
        """The standard deviation that is used now, where the model does not predict one."""
        return self._now(self.sigma)

    def forward(
        self, scores: Tensor, labels: Tensor, sigma: float | Tensor | None = None
    ) -> Tensor:
        """The loss; ``sigma``, where the model predicts it, in place of the module's."""
        compiled = torch.compiler.is_compiling()
        if sigma is None:
            steady = compiled and _is_schedule(self.sigma)
            sigma = self._sigma_now if steady else self.current_sigma
        margin = self._margin_now if compiled else self._now(self.margin)
        return exact_loss(scores, labels, sigma, margin=margin, weight=self.weight, **self.options)

    def _now(self, value: Any) -> Any:
        return value(self.progress) if _is_schedule(value) else value

    def extra_repr(self) -> str:
        shown = {"sigma": self.sigma, "margin": self.margin} | self.options
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def _is_schedule(value: Any) -> bool:
    return callable(value) and not isinstance(value, Tensor)


def _check_options(
    objective: str,
    margin: float | None,
    normalize: bool,
    truncate: int | None,
    method: str,
    n: int,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
) -> None:
    _arguments.choice("objective", objective, ("nll", "error"))
    if not isinstance(normalize, bool):
        raise TypeError(f"normalize must be True or False, got {normalize!r}")
    _arguments.choice("method", method, ("quadrature", "genz"))
    _arguments.reduction(reduction)
    _arguments.whole_number("ignore_index", ignore_index, at_least=-(2**63))
    _arguments.number("label_smoothing", label_smoothing, least=0, most=1)
    _arguments.whole_number("n", n, at_least=1)
    if margin is not None:
        _arguments.number("margin", margin, least=0)
    if truncate is not None:
        _arguments.whole_number("truncate", truncate, at_least=1)
    if label_smoothing and truncate is not None:
        raise ValueError("label_smoothing counts all classes, but truncate leaves some out")


def _prepared(scores: Tensor, sigma: float | Tensor) -> tuple[Tensor, Tensor]:
    """Scores in single or double precision, and deviations (1 or B, 1 or C) in the same."""
    if scores.dtype not in (torch.float32, torch.float64):
        scores = scores.float()
    return scores, _checks.deviations_of(sigma, scores)


def _log_accuracy(
    scores: Tensor,
    labels: Tensor,
    sigma: Tensor,
    in_sigma: bool,
    margin: float | None,
    k: int,
    points: int = 0,
) -> Tensor:
    order = (2 if in_sigma else 1) if torch.is_grad_enabled() else 0
    seed = torch.randint(2**31, ()) if points else None
    limit = math.inf if margin is None else float(margin)
    if limit > torch.finfo(scores.dtype).max:
        limit = math.inf
    return log_accuracy(scores, labels, sigma, limit, k, points, seed, order)[0]


def _normalized(scores: Tensor, counts: Tensor) -> Tensor:
    """Scores without their mean and in units of their deviation, of those that are finite."""
    if scores.shape[0] == 0:
        return scores
    counts = counts[:, None] & torch.isfinite(scores)
    size = counts.sum()
    # In units of the largest, so that squares neither overflow nor vanish.  The result does not
    # depend on the unit, so its derivative is right with the unit held.
    given = scores.detach()
    high = torch.where(counts, given, -math.inf).amax()
    low = torch.where(counts, given, math.inf).amin()
    unit = _power_of_two_below(torch.maximum(high.abs(), low.abs()))
    scaled = torch.where(counts, scores, 0.0) / unit
    mean = scaled.sum() / size.clamp(min=1)
    centred = torch.where(counts, scaled - mean, 0.0)
    variance = centred.square().sum() / (size - 1).clamp(min=1)
    varies = (high > low) & (variance > 0.0)  # the mean of equal scores may be rounded
    scale = torch.where(varies, torch.where(varies, variance, 1.0).rsqrt(), unit)
    # Scores left out have no gradient; as a product, infinity times 0, it would be NaN.
    return torch.where(counts, centred * scale, given)


def _power_of_two_below(value: Tensor) -> Tensor:
    """The largest power of two up to a value > 0, else 1; division by it does not round."""
    usable = (value > 0.0) & (value < math.inf)
    power = torch.floor(torch.log2(torch.where(usable, value, 1.0)))
    # 2**-126 is the smallest in single precision whose inverse, in a derivative, is finite.
    return torch.exp2(power.clamp(min=-126.0 if value.dtype == torch.float32 else -1022.0))


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


def _evenly(
    objective: str,
    scores: Tensor,
    sigma: Tensor,
    in_sigma: bool,
    margin: float | None,
    points: int,
    weight: Tensor | None,
) -> Tensor:
    """The mean of the loss over all classes in the label's place, (B,), weighted by class."""
    rows, classes = scores.shape
    if objective == "error" and weight is None and margin is None:
        return scores.new_full((rows,), 1.0 - 1.0 / classes)  # the probabilities add up to 1
    log_prob = _log_accuracy(*every_label(scores, sigma), in_sigma, margin, 1, points)
    log_prob = log_prob.view(rows, classes)
    values = -log_prob if objective == "nll" else -torch.expm1(log_prob)
    return (values if weight is None else _weighted(values, weight.to(values.dtype))).mean(1)


def _weighted(values: Tensor, weight: Tensor) -> Tensor:
    """Values times weights; what has no weight may be infinite."""
    return torch.where(weight > 0.0, values * weight, 0.0)
