"""EXACT: the expected accuracy of a classifier with Gaussian scores, as a loss.

The scores of an example are s ~ N(mu, diag(sigma**2)), and it is classified rightly if the label's
score is the largest.  The probability of that is differentiable in mu and sigma (Karpukhin, Dereka
and Kolesnikov, EXACT: How to train your accuracy, arXiv:2205.09615).  It is computed here as the
integral over the label's score, to rounding accuracy and in O(C), where the paper samples.
"""

from typing import Any

import torch
from torch import Tensor

from exact_torch import _arguments, _checks, _direct, _rows, _values
from exact_torch._argmax import argmax_probabilities
from exact_torch.equivalent_sigma import equivalent_sigma
from exact_torch.heads import CorrelatedScores, GaussianScores


def exact_loss(
    scores: Tensor | GaussianScores | CorrelatedScores,
    labels: Tensor,
    weight: Tensor | None = None,
    *,
    sigma: float | Tensor | str = "auto",
    loadings: Tensor | None = None,
    objective: str = "nll",
    k: int = 1,
    margin: float | None = None,
    normalize: bool | str = False,
    synchronize: bool = False,
    truncate: int | None = None,
    method: str = "quadrature",
    n: int = 16,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """Return minus the logarithm of the expected accuracy, or one minus it.

    Takes the place of ``torch.nn.functional.cross_entropy``: the same inputs, and with the default
    sigma the same learning rate.  Differentiable in scores, sigma and class probabilities, in
    scores and sigma twice with ``method="quadrature"``.

    Parameters
    ----------
    scores : Tensor (B, C), (B, C, d1, ...) or (C,), or GaussianScores or CorrelatedScores
        Means of the scores. Minus infinity is a class that cannot win. Half precision, also under
        autocast, is computed in single. What a ``GaussianHead`` returns, (..., C) with classes
        last, brings its own sigma.
    labels : Tensor of int (B,), (B, d1, ...) or (), or of float in the shape of scores
        Right classes, or probabilities of all classes, as of mixup or distillation. With
        probabilities an integral is computed for every class that has one.
    weight : Tensor (C,), optional
        Of classes, >= 0; with class numbers the mean is a weighted one.
    sigma : "auto", float, or Tensor (), (B,), (B, 1), (C,), (1, C) or (B, C)
        Standard deviations of the scores: of all, of an example, of a class. "auto" is
        ``equivalent_sigma(C)``, with which the first gradient is that of cross-entropy. If B = C,
        one dimension could mean either: give two. With further dimensions of scores, (C,) or what
        broadcasts to them. One below 1e-15 of the label's counts as that much, which changes log P
        by less than rounding.
    loadings : Tensor (C, r) or (B, C, r), optional
        V of noise that classes share, r = 1, 2 or 3: scores are mu + sigma e + V z with standard
        normal e and z. The differences between classes with unlike rows of V vary more, so these
        are confused more often. Differentiable once; computed on the CPU.
    objective : {"nll", "error"}
        -log of the expected accuracy (first version of the paper), or 1 - it (second version).
    k : int
        Train the expected top-k accuracy; for k > 1 see ``expected_topk_accuracy``.
    margin : float, optional
        Differences between the label's score and others count up to this only, >= 0; before
        division by sigma.
    normalize : bool or {"std", "mad"}
        Divide scores by their standard deviation over the batch (True or "std"), or by their median
        absolute deviation in units of a normal distribution's standard deviation ("mad"), which
        outliers do not inflate.
    synchronize : bool
        Normalise over the batches of all processes of ``torch.distributed``, as one needs it under
        ``DistributedDataParallel``. All processes have to call the loss.
    truncate : int, optional
        Compare the label with so many of its strongest competitors only.
    method : {"quadrature", "genz"}
        The exact integral, or Genz's randomised estimate of it with ``n`` points, as the paper has
        it, whose randomness comes from torch's generator.
    n : int
        Points of "genz".
    ignore_index : int
        Label of examples that do not count. Without any that does the mean is NaN, as that of
        cross-entropy.
    label_smoothing : float
        Share of the target that is spread evenly over all classes, in [0, 1], as in cross-entropy.
        With "nll" this takes an integral for each class: C times the time.
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    Tensor (), or of the shape of class numbers
        As precise as scores; in single precision under autocast.

    Examples
    --------
    >>> import torch
    >>> from exact_torch import exact_loss
    >>> scores = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    >>> loss = exact_loss(scores, torch.tensor([0, 2]), sigma=1.0, reduction="none")
    >>> print(torch.exp(-loss).detach())
    tensor([0.8658, 0.3333])
    >>> loss.sum().backward()
    >>> print(scores.grad)
    tensor([[-0.1901,  0.0950,  0.0950],
            [ 0.4231,  0.4231, -0.8463]])
    """
    options = _values.Options(
        objective, k, margin, normalize, synchronize, truncate, method, n, label_smoothing
    )
    if isinstance(scores, CorrelatedScores):
        loadings = _one_of(loadings, scores.loadings)
    options.check(loadings is not None)
    _arguments.whole_number("ignore_index", ignore_index, at_least=-(2**63))
    _arguments.reduction(reduction)
    if isinstance(scores, Tensor) and scores.ndim > 1 and scores.shape[1] > 1:
        sigma = _number_for_auto(sigma, scores.shape[1], k)
    if _direct.applies(scores, labels, weight, sigma, loadings, options, ignore_index):
        return _direct.loss(scores, labels, sigma, margin, objective, reduction, ignore_index)
    scores, sigma, classes_last = _unpacked(scores, sigma)
    rows = _rows.from_inputs(scores, labels, ignore_index, classes_last)
    _checks.class_weights(weight, rows.scores)
    sigma = _number_for_auto(sigma, rows.scores.shape[1], k)
    sigma = _rows.deviations(sigma, scores, classes_last)
    wide, deviations = _prepared(rows.scores, sigma)
    result_type = _result_type(scores)
    rows = rows._replace(scores=wide)
    spread = None if loadings is None else _checks.loadings_of(loadings, wide, rows.shape)
    in_sigma = isinstance(sigma, Tensor)
    values, shares = _values.of_rows(rows, deviations, in_sigma, spread, options, weight)
    if reduction == "mean":
        return (values.sum() / shares.sum()).to(result_type)
    return (values.sum() if reduction == "sum" else values.view(rows.shape)).to(result_type)


def expected_accuracy(
    scores: Tensor | GaussianScores | CorrelatedScores,
    labels: Tensor,
    sigma: float | Tensor | str = "auto",
    *,
    reduction: str = "mean",
) -> Tensor:
    """Return the probability that the label's score is the largest; differentiable.

    Parameters
    ----------
    scores, labels, sigma
        As in ``exact_loss``; scores are (B, C) and labels class numbers (B,).
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    Tensor () or (B,)

    Examples
    --------
    >>> import torch
    >>> from exact_torch import expected_accuracy
    >>> print(expected_accuracy(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), sigma=1.0))
    tensor(0.7602)
    """
    return expected_topk_accuracy(scores, labels, 1, sigma, reduction=reduction)


def expected_topk_accuracy(
    scores: Tensor | GaussianScores | CorrelatedScores,
    labels: Tensor,
    k: int,
    sigma: float | Tensor | str = "auto",
    *,
    reduction: str = "mean",
) -> Tensor:
    """Return the probability that the label's score is among the k largest; differentiable.

    O(Ck) an example. For k > 1 with an absolute accuracy of 1e-12 (single precision 1e-7) where no
    deviation is below a tenth of the label's, growing to 1e-3 where one is below a thousandth.

    Parameters
    ----------
    scores, labels, sigma
        As in ``exact_loss``; scores are (B, C) and labels class numbers (B,).
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
    >>> scores = torch.tensor([[0.0, 0.0, 1.0]])
    >>> print(expected_topk_accuracy(scores, torch.tensor([0]), k=2, sigma=1.0))
    tensor(0.5566)
    """
    _arguments.whole_number("k", k, at_least=1)
    _arguments.reduction(reduction)
    if isinstance(scores, CorrelatedScores):
        prob = torch.exp(-exact_loss(scores, labels, sigma=sigma, k=k, reduction="none"))
    else:
        scores, sigma, _ = _unpacked(scores, sigma)
        _checks.scores_and_labels(scores, labels)
        scores, deviations = _prepared(scores, _number_for_auto(sigma, scores.shape[1], k))
        in_sigma = isinstance(sigma, Tensor)
        prob = torch.exp(_values.log_accuracy_of(scores, labels, deviations, in_sigma, None, k))
    if reduction == "mean":
        return prob.mean()
    return prob.sum() if reduction == "sum" else prob


def argmax_probs(scores: Tensor | GaussianScores, sigma: float | Tensor | str = "auto") -> Tensor:
    """Return the probabilities that each class's score is the largest; differentiable.

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
    >>> print(argmax_probs(torch.tensor([[1.0, 0.0, 0.0]]), sigma=1.0))
    tensor([[0.6337, 0.1831, 0.1831]])
    """
    if isinstance(scores, CorrelatedScores):
        raise TypeError(
            "argmax_probs takes independent scores; mvnorth.prob_argmax(mu, cov=Factors(c, V)) "
            "takes correlated ones"
        )
    scores, sigma, _ = _unpacked(scores, sigma)
    _checks.scores_only(scores)
    _checks.someone_wins(scores)
    scores, deviations = _prepared(scores, _number_for_auto(sigma, scores.shape[1]))
    return argmax_probabilities(scores, deviations)


def _unpacked(scores: Any, sigma: Any) -> tuple[Any, Any, bool]:
    """Return means, sigma and whether classes are in the last dimension of the means."""
    if not isinstance(scores, (GaussianScores, CorrelatedScores)):
        return scores, sigma, False
    if not (isinstance(sigma, str) and sigma == "auto"):
        kind = type(scores).__name__
        raise ValueError(f"sigma is that of the {kind}, got another one: {sigma!r}")
    return scores.mean, scores.sigma, True


def _one_of(loadings: Tensor | None, own: Tensor) -> Tensor:
    if loadings is not None:
        raise ValueError("loadings are those of the CorrelatedScores, got others")
    return own


def _number_for_auto(sigma: Any, classes: int, k: int = 1) -> Any:
    if not isinstance(sigma, str):
        return sigma
    _arguments.choice("sigma", sigma, ("auto",))
    return equivalent_sigma(classes, k)


def _prepared(scores: Tensor, sigma: float | Tensor) -> tuple[Tensor, Tensor]:
    """Scores in single or double precision, and deviations (1 or B, 1 or C) in the same."""
    if scores.dtype not in (torch.float32, torch.float64):
        scores = scores.float()
    return scores, _checks.deviations_of(sigma, scores)


def _result_type(scores: Tensor) -> torch.dtype:
    """The dtype that ``F.cross_entropy`` would return."""
    if torch.is_autocast_enabled(scores.device.type):
        return torch.promote_types(scores.dtype, torch.float32)
    return scores.dtype
