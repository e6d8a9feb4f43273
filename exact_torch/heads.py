"""The last layer of a classifier trained with EXACT: scores s ~ N(mean, sigma**2 I).

The first version of the paper predicts sigma from the features, beside the means, and lets it be
trained; the later version takes it from a schedule.  How the first keeps it above 0 and where it
starts are not published.  Here it is sigma_min + softplus(w x + b), with w = 0 at first and b such
that training starts at one sigma for all examples, whatever the scale of the features.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exact_torch import _arguments
from exact_torch.schedules import SigmaSchedule
from mvnorth._interface import whole_number

__all__ = ["GaussianHead", "GaussianScores"]


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
    >>> print(exact_loss(scores.mean, torch.tensor([0, 3]), scores.sigma))  # log 4
    tensor(1.3863)
    """

    mean: Tensor
    sigma: Tensor | float


class GaussianHead(nn.Module):
    """A linear layer whose scores have a standard deviation, in place of the last ``nn.Linear``.

    In training it returns ``GaussianScores``: with ``mean, sigma = head(x)`` the loss is
    ``exact_loss(mean, labels, sigma)``.  In eval mode it returns the means alone, ``(..., C)``, as
    the layer it replaced: predictions do not depend on sigma.  ``gaussian`` returns both in either
    mode, for the loss on a validation set.  ``weight`` and ``bias`` have the names and shapes of
    those of ``nn.Linear``.

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
        Sigma at the start of training, 1 unless given; not for "scheduled".
    sigma_min : float, optional
        What a predicted sigma stays above, 0.001 unless given; only for "predicted".
    schedule : SigmaSchedule or str, optional
        A schedule or the name of a published one; for "scheduled", and needed there.
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
        schedule: SigmaSchedule | str | None = None,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = whole_number("in_features", in_features, at_least=1)
        self.num_classes = whole_number("num_classes", num_classes, at_least=1)
        self.sigma = _arguments.choice("sigma", sigma, ("predicted", "scheduled", "fixed"))
        _only_for("initial", initial, self.sigma, ("predicted", "fixed"))
        _only_for("sigma_min", sigma_min, self.sigma, ("predicted",))
        _only_for("schedule", schedule, self.sigma, ("scheduled",))
        self.initial = _arguments.number("initial", 1.0 if initial is None else initial, above=0)

        dtype = torch.get_default_dtype() if dtype is None else dtype
        largest = torch.finfo(dtype).max
        place = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(self.num_classes, self.in_features, **place))
        if bias:
            self.bias = nn.Parameter(torch.empty(self.num_classes, **place))
        else:
            self.register_parameter("bias", None)
        if self.sigma == "predicted":
            self.sigma_min = _arguments.number(
                "sigma_min", 1e-3 if sigma_min is None else sigma_min, above=0
            )
            _arguments.number("initial", self.initial, most=largest)
            if self.initial <= self.sigma_min:
                raise ValueError(
                    f"initial must be above sigma_min={self.sigma_min:g}, got {self.initial:g}"
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
        if self.sigma == "predicted":
            nn.init.zeros_(self.sigma_weight)
            nn.init.constant_(self.sigma_bias, _inverse_softplus(self.initial - self.sigma_min))
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

    def forward(self, x: Tensor) -> GaussianScores | Tensor:
        """Scores with sigma in training, scores alone in eval mode; x is (..., in_features)."""
        return self.gaussian(x) if self.training else self._mean(x)

    def gaussian(self, x: Tensor) -> GaussianScores:
        """Scores with sigma in either mode; x is (..., in_features)."""
        mean = self._mean(x)
        if self.sigma == "fixed":
            return GaussianScores(mean, self.initial)
        if self.sigma == "scheduled":
            # A copy: the buffer moves on, and what was returned must not.
            return GaussianScores(mean, self.scheduled_sigma.clone())
        raw = F.linear(x, self.sigma_weight, self.sigma_bias)
        # Half precision would round away sigma_min, or what lies above it.
        raw = raw.to(torch.promote_types(raw.dtype, torch.float32))
        return GaussianScores(mean, self.sigma_min + F.softplus(raw))

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
            "predicted": ("initial", "sigma_min"),
            "scheduled": ("schedule",),
            "fixed": ("initial",),
        }[self.sigma]
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


def _inverse_softplus(y: float) -> float:
    """x with log(1 + exp(x)) = y > 0, written so that neither end overflows or cancels."""
    return y + math.log(-math.expm1(-y))
