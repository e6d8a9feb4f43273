"""Smooth versions of the error, summed over competitors: functions of delta_j = z_y - z_j.

The baselines of the later version of EXACT (arXiv:2205.09615v5), as its code has them: each takes
a step of the sign of delta for a smooth one, and the sum bounds or replaces the multiclass error.
``scale`` multiplies delta; theirs is 1 unless the logits were normalised.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from exact_torch._arguments import number
from exact_torch.losses._logits import checked, lead
from exact_torch.losses._module import Loss


def sigmoid(logits: Tensor, labels: Tensor, scale: float = 1.0) -> Tensor:
    """Sigmoid relaxation, sum_{j != y} 1 / (1 + exp(scale delta_j)).

    The smooth 0-1 loss of Nguyen and Sanner (2013) for each competitor.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    scale : float
        Positive; the larger, the closer to the number of competitors ahead.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> sigmoid(torch.zeros(1, 3), torch.tensor([0]))
    tensor([1.])
    """
    number("scale", scale, above=0)
    delta = lead(checked(logits, labels), labels)
    return torch.exp(logsigmoid(-scale * delta)).sum(1)


def polynomial(logits: Tensor, labels: Tensor, scale: float = 1.0) -> Tensor:
    """Polynomial relaxation, sum_{j != y} d^3/4 - 3d/4 + 1/2, d = scale delta_j cut to [-1, 1].

    Flat outside that interval, at 1 and 0, with a continuous slope.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    scale : float
        Positive.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> polynomial(torch.tensor([[0.0, -0.5, 5.0]]), torch.tensor([0]))  # 0.15625 + 1
    tensor([1.1562])
    """
    number("scale", scale, above=0)
    d = torch.clamp(scale * lead(checked(logits, labels), labels), -1.0, 1.0)
    return (0.25 * d**3 - 0.75 * d + 0.5).sum(1)


def beta_bernoulli(
    logits: Tensor,
    labels: Tensor,
    prior_weight: float | Tensor = 0.5,
    theta: float | Tensor = 0.5,
    scale: float = 1.0,
) -> Tensor:
    """Beta-Bernoulli relaxation, -sum_{j != y} log(w theta + (1 - w) sigmoid(delta_j)).

    Hasan and Pal (2015): the posterior mean of a Bernoulli probability whose prior has the weight w
    and the mean theta.  A competitor costs at most -log(w theta).

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    prior_weight : float or 0-d Tensor
        Of the prior, in [0, 1); at 0 the loss is the logistic one.
    theta : float or 0-d Tensor
        In (0, 1].
    scale : float
        Positive.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> beta_bernoulli(torch.zeros(1, 2), torch.tensor([0]))
    tensor([0.6931])
    """
    logits = checked(logits, labels)
    number("scale", scale, above=0)
    if not isinstance(prior_weight, Tensor):
        prior_weight = logits.new_tensor(number("prior_weight", prior_weight, least=0, below=1))
    if not isinstance(theta, Tensor):
        theta = logits.new_tensor(number("theta", theta, above=0, most=1))
    prior = torch.log(prior_weight) + torch.log(theta)
    model = torch.log1p(-prior_weight) + logsigmoid(scale * lead(logits, labels))
    return -torch.logaddexp(prior, model).sum(1)


class BetaBernoulli(Loss):
    """Beta-Bernoulli relaxation whose prior may be learned with the model.

    Parameters
    ----------
    prior_weight, theta : float
        See ``beta_bernoulli``; where they start if they are learned, and then in (0, 1).
    scale : float
    learned : bool
        Make parameters of prior_weight and theta, through sigmoids, as the baseline of EXACT does:
        give ``loss.parameters()`` to the optimiser.  Nothing stops them from going to 1, where the
        loss is 0 whatever the logits are, but the end of training.
    reduction, weight, ignore_index
        See ``Loss``.

    Examples
    --------
    >>> from exact_torch import losses
    >>> len(list(losses.get("beta_bernoulli", learned=True).parameters()))
    2
    """

    def __init__(
        self,
        prior_weight: float = 0.5,
        theta: float = 0.5,
        scale: float = 1.0,
        learned: bool = False,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int = -100,
    ) -> None:
        number("prior_weight", prior_weight, least=0, below=1)
        number("theta", theta, above=0, most=1)
        number("scale", scale, above=0)
        options = {"prior_weight": prior_weight, "theta": theta, "scale": scale}
        super().__init__(beta_bernoulli, options, reduction, weight, ignore_index)
        self.prior = nn.ParameterDict()
        if learned:
            for name, start in (("prior_weight", prior_weight), ("theta", theta)):
                number(name, start, above=0, below=1)
                self.prior[name] = nn.Parameter(torch.tensor(math.log(start / (1 - start))))

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the reduced loss, see ``Loss.forward``."""
        learned = {name: torch.sigmoid(value) for name, value in self.prior.items()}
        return self.reduced(logits, labels, self.options | learned)
