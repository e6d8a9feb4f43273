"""The last layer of a classifier trained with EXACT: scores s ~ N(mean, sigma**2 I).

The first version of the paper predicts sigma from the features, beside the means, and lets it be
trained; the later version takes it from a schedule.  How the first keeps it above 0 and where it
starts are not published.  Here a predicted sigma is

    sigma_min + (sigma_max - sigma_min) sigmoid(w x/sqrt(F) + b),    F features,

with w = 0 at first and b such that training starts at one sigma for all examples.  Two things make
it train.  The division by sqrt(F): a step of size eta moves w x by eta |x|**2, F times as much as
b, and without the division sigma grows by orders of magnitude within a few steps.  And the upper
limit: a large sigma makes all classes equally probable, which is better than being wrong, and
leaves the means a gradient of 1/sigma, so that nothing brings it down again.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exact_torch import _arguments
from exact_torch.equivalent_sigma import equivalent_sigma
from exact_torch.schedules import SigmaSchedule
from mvnorth._interface import whole_number

__all__ = ["CorrelatedScores", "GaussianHead", "GaussianScores"]


class GaussianScores(NamedTuple):
    """Independent normal scores with one standard deviation an example.

    Attributes
    ----------
    mean : Tensor (..., C)
        The scores that predictions are made from.
    sigma : Tensor or float
        A standard deviation, > 0: (..., 1) predicted, () scheduled, or a number.

    Examples
    --------
    >>> import torch
    >>> from exact_torch import GaussianScores, exact_loss
    >>> scores = GaussianScores(torch.zeros(2, 4), 0.5)
    >>> print(exact_loss(scores, torch.tensor([0, 3])))  # log 4
    tensor(1.3863)
    """

    mean: Tensor
    sigma: Tensor | float


class CorrelatedScores(NamedTuple):
    """Normal scores with independent noise and noise that classes share.

    Attributes
    ----------
    mean : Tensor (..., C)
        The scores that predictions are made from.
    sigma : Tensor or float
        Standard deviation of the independent noise, as of ``GaussianScores``.
    loadings : Tensor (C, r) or (..., C, r)
        V of the shared noise V z, see ``exact_loss``.

    Examples
    --------
    >>> import torch
    >>> from exact_torch import CorrelatedScores, exact_loss
    >>> loadings = torch.tensor([[1.0], [1.0], [-1.0]])
    >>> scores = CorrelatedScores(torch.zeros(1, 3), 1.0, loadings)
    >>> print(torch.exp(-exact_loss(scores, torch.tensor([2]))))
    tensor(0.4068)
    """

    mean: Tensor
    sigma: Tensor | float
    loadings: Tensor


class GaussianHead(nn.Module):
    """A linear layer whose scores have a standard deviation, in place of the last ``nn.Linear``.

    In training it returns ``GaussianScores``, which ``exact_loss`` and ``ExactLoss`` take in place
    of scores: ``exact_loss(head(x), labels)``.  In eval mode it returns the means alone,
    ``(..., C)``, as the layer it replaced: predictions do not depend on sigma.  ``gaussian``
    returns both in either mode, for the loss on a validation set.  ``weight`` and ``bias`` have the
    names and shapes of those of ``nn.Linear``.

    Parameters
    ----------
    in_features : int
        Number of features.
    num_classes : int
        Number of scores C: as many as classes, or one less where class 0 is a reference with
        score 0, as in ``models.get("linear", ..., reference=True)``.
    sigma : {"predicted", "scheduled", "fixed"}
        Where sigma comes from: a second, trained output of the features; ``schedule``, moved by
        ``set_progress``; or ``initial`` for ever.
    initial : float, optional
        Sigma at the start of training, ``equivalent_sigma(num_classes)`` unless given, with which
        training starts as with cross-entropy; not for "scheduled".
    sigma_min, sigma_max : float, optional
        Limits of a predicted sigma, 0.001 and 4 times ``initial`` unless given; only for
        "predicted".
    schedule : SigmaSchedule or str, optional
        A schedule or the name of a published one; for "scheduled", and needed there.
    loadings : int
        Columns r of noise that classes share, 0 to 3. With r > 0 loadings (..., C, r) are
        predicted, and ``CorrelatedScores`` are returned. They start at random, a tenth of
        ``initial``: without any there is no gradient that would make some.
    bias : bool
        Whether the means have a bias.  A predicted sigma always has one.
    device, dtype : optional
        As for ``nn.Linear``.

    Examples
    --------
    >>> import torch
    >>> from exact_torch.heads import GaussianHead
    >>> head = GaussianHead(64, 10, initial=2.0)
    >>> mean, sigma = head(torch.ones(3, 64))
    >>> mean.shape, sigma.tolist()
    (torch.Size([3, 10]), [[2.0], [2.0], [2.0]])
    >>> head.eval()(torch.ones(3, 64)).shape
    torch.Size([3, 10])
    >>> head.export()
    Linear(in_features=64, out_features=10, bias=True)
    """

    scheduled_sigma: Tensor

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        sigma: str = "predicted",
        *,
        initial: float | None = None,
        sigma_min: float | None = None,
        sigma_max: float | None = None,
        schedule: SigmaSchedule | str | None = None,
        loadings: int = 0,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = whole_number("in_features", in_features, at_least=1)
        self.num_classes = whole_number("num_classes", num_classes, at_least=1)
        self.loadings = _arguments.whole_number("loadings", loadings, at_least=0, at_most=3)
        self.sigma = _arguments.choice("sigma", sigma, ("predicted", "scheduled", "fixed"))
        _only_for("initial", initial, self.sigma, ("predicted", "fixed"))
        _only_for("sigma_min", sigma_min, self.sigma, ("predicted",))
        _only_for("sigma_max", sigma_max, self.sigma, ("predicted",))
        _only_for("schedule", schedule, self.sigma, ("scheduled",))
        if initial is None:
            initial = equivalent_sigma(max(self.num_classes, 2))
        self.initial = _arguments.number("initial", initial, above=0)

        dtype = torch.get_default_dtype() if dtype is None else dtype
        largest = torch.finfo(dtype).max
        place = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(self.num_classes, self.in_features, **place))
        if bias:
            self.bias = nn.Parameter(torch.empty(self.num_classes, **place))
        else:
            self.register_parameter("bias", None)
        if self.loadings:
            size = self.num_classes * self.loadings
            self.loading_weight = nn.Parameter(torch.empty(size, self.in_features, **place))
            self.loading_bias = nn.Parameter(torch.empty(size, **place))
        if self.sigma == "predicted":
            self.sigma_min = _arguments.number(
                "sigma_min", 1e-3 if sigma_min is None else sigma_min, above=0
            )
            self.sigma_max = _arguments.number(
                "sigma_max", 4.0 * self.initial if sigma_max is None else sigma_max, most=largest
            )
            if not self.sigma_min < self.initial < self.sigma_max:
                raise ValueError(
                    f"initial must be above sigma_min={self.sigma_min:g} and below "
                    f"sigma_max={self.sigma_max:g}, got {self.initial:g}"
                )
            self.sigma_weight = nn.Parameter(torch.empty(1, self.in_features, **place))
            self.sigma_bias = nn.Parameter(torch.empty(1, **place))
        elif self.sigma == "scheduled":
            self.schedule = _schedule(schedule)
            for progress in (0.0, 1.0):
                _arguments.number("sigma of schedule", self.schedule(progress), most=largest)
            # A buffer, so that a checkpoint holds it and a compiled graph reads it anew.
            self.register_buffer("scheduled_sigma", torch.empty((), **place))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights and bias as ``nn.Linear`` draws them; sigma as at the start of training."""
        bound = 1.0 / math.sqrt(self.in_features)
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)
        if self.loadings:
            nn.init.zeros_(self.loading_weight)
            nn.init.normal_(self.loading_bias, std=0.1 * self.initial)
        if self.sigma == "predicted":
            nn.init.zeros_(self.sigma_weight)
            below, above = self.initial - self.sigma_min, self.sigma_max - self.initial
            nn.init.constant_(self.sigma_bias, math.log(below / above))
        elif self.sigma == "scheduled":
            self.set_progress(0.0)

    @torch.no_grad()
    def set_progress(self, progress: float) -> None:
        """Move a scheduled sigma to where ``progress``, in [0, 1], of training is done.

        Call it before the forward pass; it does not wait for a GPU.

        Examples
        --------
        >>> from exact_torch.heads import GaussianHead
        >>> head = GaussianHead(64, 10, sigma="scheduled", schedule="cifar10")
        >>> head.set_progress(1.0)
        >>> head.scheduled_sigma
        tensor(1.)
        """
        if self.sigma != "scheduled":
            raise ValueError(f'set_progress needs sigma="scheduled", this head has "{self.sigma}"')
        self.scheduled_sigma.fill_(self.schedule(progress))

    def forward(self, x: Tensor) -> GaussianScores | CorrelatedScores | Tensor:
        """Scores with sigma in training, scores alone in eval mode; x is (..., in_features)."""
        return self.gaussian(x) if self.training else self._mean(x)

    def gaussian(self, x: Tensor) -> GaussianScores | CorrelatedScores:
        """Scores with sigma, and loadings if any, in either mode; x is (..., in_features)."""
        mean, sigma = self._mean(x), self._sigma(x)
        if not self.loadings:
            return GaussianScores(mean, sigma)
        raw = F.linear(x, self.loading_weight / math.sqrt(self.in_features), self.loading_bias)
        return CorrelatedScores(mean, sigma, raw.unflatten(-1, (self.num_classes, self.loadings)))

    def _sigma(self, x: Tensor) -> Tensor | float:
        if self.sigma == "fixed":
            return self.initial
        if self.sigma == "scheduled":
            # A copy: the buffer moves on, and what was returned must not.
            return self.scheduled_sigma.clone()
        raw = F.linear(x, self.sigma_weight / math.sqrt(self.in_features), self.sigma_bias)
        # Half precision would round away sigma_min, or what lies above it.
        share = torch.sigmoid(raw.to(torch.promote_types(raw.dtype, torch.float32)))
        return self.sigma_min + (self.sigma_max - self.sigma_min) * share

    def export(self) -> nn.Linear:
        """The means as a plain ``nn.Linear`` with copies of the weights: all that predicting needs.

        Examples
        --------
        >>> import torch
        >>> from exact_torch.heads import GaussianHead
        >>> head, x = GaussianHead(8, 3).eval(), torch.rand(5, 8)
        >>> torch.equal(head.export()(x), head(x))
        True
        """
        # Not initialised, which would draw random numbers that a run in progress counts on.
        linear: nn.Linear = nn.utils.skip_init(
            nn.Linear,
            self.in_features,
            self.num_classes,
            bias=self.bias is not None,
            device=self.weight.device,
            dtype=self.weight.dtype,
        )
        own = {"weight": self.weight} | ({} if self.bias is None else {"bias": self.bias})
        linear.load_state_dict(own)
        return linear.train(self.training)

    def extra_repr(self) -> str:
        names = {
            "predicted": ("initial", "sigma_min", "sigma_max"),
            "scheduled": ("schedule",),
            "fixed": ("initial",),
        }[self.sigma]
        names += ("loadings",) if self.loadings else ()
        own = "".join(f", {name}={getattr(self, name)}" for name in names)
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, "
            f"sigma={self.sigma!r}{own}, bias={self.bias is not None}"
        )

    def _mean(self, x: Tensor) -> Tensor:
        if x.ndim == 0 or x.shape[-1] != self.in_features:
            raise ValueError(f"x must be (..., {self.in_features}), got {tuple(x.shape)}")
        return F.linear(x, self.weight, self.bias)


def _only_for(name: str, value: Any, mode: str, modes: tuple[str, ...]) -> None:
    if value is not None and mode not in modes:
        takes = " or ".join(f'sigma="{each}"' for each in modes)
        raise ValueError(f'{name} is for {takes}, got {value!r} with sigma="{mode}"')


def _schedule(schedule: Any) -> SigmaSchedule:
    if isinstance(schedule, str):
        return SigmaSchedule.named(schedule)
    if not isinstance(schedule, SigmaSchedule):
        raise ValueError(
            f'schedule must be a SigmaSchedule or the name of one for sigma="scheduled", '
            f"got {schedule!r}"
        )
    return schedule
