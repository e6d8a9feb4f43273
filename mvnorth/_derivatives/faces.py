"""What the points of a lattice may have missed of the faces of a box.

The derivative in a limit is the density of its coordinate there, given all limits.  It shows in
points within about a unit of the face, the coordinate's deviation given those before.  Where so
few are to be expected there that they may have been none, the derivative may be anything up to
what is certain: the density without the other limits over P, or a Gaussian's decay from the mean,
since the density given all limits is more concave than the one without.
"""

from dataclasses import dataclass

import numpy as np

from mvnorth._methods import genz
from mvnorth._problem import Estimate, Slopes

_NEAR = 4.0  # points near a face that are enough to have seen it
_STEEP = 5.0  # entries of T: a limit that moves another coordinate's by so much hides it
_CARRIED = 0.1  # share unseen below which all points carry a mean together
_LOG_SQRT_2_PI = 0.5 * float(np.log(2.0 * np.pi))
_LOG_LARGEST = 700.0


def exponents_rounding(system: genz.System) -> np.ndarray:
    """Relative error of densities at the limits of rows of T far out in their tails, (B,)."""
    farthest = np.max(np.maximum(-system.upper, system.lower), axis=1, initial=0.0)
    return np.asarray(8.0 * float(np.finfo(np.float64).eps) * farthest**2)


def limit_slopes(system: genz.System, value: np.ndarray, error: np.ndarray) -> Slopes:
    """Slopes in limits and mean of the problems from those in the limits of the rows of T.

    value, error : (B, 3, d) of lower, upper and both limits
    """
    scale = system.stretch / system.unit
    turned = (scale < 0.0)[:, None]
    back = np.argsort(system.order, axis=1)[:, None]

    def mapped(a: np.ndarray, scale: np.ndarray) -> np.ndarray:
        a = np.where(turned, a[:, [1, 0, 2]], a) * scale[:, None]
        return np.take_along_axis(a, back, axis=2)

    values, errors = mapped(value, scale), mapped(error, np.abs(scale))
    values[:, 2] *= -1.0
    return Slopes.of_columns(("lower", "upper", "mean"), values, errors)


def with_both(of_limits: np.ndarray) -> np.ndarray:
    """(B, 3, d) of lower, upper and both limits, from (B, 2, d)."""
    return np.concatenate([of_limits, of_limits.sum(axis=1, keepdims=True)], axis=1)


@dataclass(frozen=True)
class Faces:
    """Bounds for each limit, in units of the rows of T, (B, 3, d).

    Attributes
    ----------
    most : upper bounds on the derivatives in lower, upper and both limits
    alone : these where too few points are near, and few see the face from afar
    hidden : the same, and what may be hidden of faces that all points see from afar only, and of
        earlier rows whose limits move a steep one
    """

    most: np.ndarray
    alone: np.ndarray
    hidden: np.ndarray

    def edges(self, system: genz.System, size: np.ndarray, cov: np.ndarray) -> np.ndarray:
        """From bounds on slopes in both limits of rows (B, d) those on slopes in "cov", (B, d, d).

        On a face, densities of others are at most about one over their deviations, and the slope
        of its own about its distance times the density.  What is off the diagonal counts on it
        through the scale identity.

        Parameters
        ----------
        system : without a tilt
        cov : (1 or B, d, d)
        """
        d = size.shape[1]
        unit = np.abs(system.unit)
        limits = np.maximum(
            *(np.where(np.isfinite(a), np.abs(a), 0.0) for a in (system.lower, system.upper))
        )
        deviation2 = 1.0 + np.sum(system.T[:, :d, :d] ** 2, axis=2)
        size = size / unit * (1.0 + limits / deviation2)
        back = np.argsort(system.order, axis=1)
        size, unit = (np.take_along_axis(a, back, axis=1) for a in (size, unit))
        bound = size[:, :, None] / unit[:, None]
        bound = 0.5 * (bound + np.swapaxes(bound, 1, 2))
        index = np.arange(d)
        variance = cov[:, index, index]
        bound[:, index, index] += np.sum(bound * np.abs(cov), axis=2) / variance
        return bound

    @classmethod
    def of(
        cls,
        system: genz.System,
        value: np.ndarray,
        size: np.ndarray,
        unseen: np.ndarray,
        estimate: Estimate,
    ) -> "Faces":
        """From slopes, means of their absolute values, and the share of these that may be unseen.

        Where all points carry a face together, from afar, what they do not see is how it changes
        the probability of the others; that is at most about all of it.

        Parameters
        ----------
        system : without a tilt
        value : (B, 3, d) of lower, upper and both limits of its rows
        size, unseen : (B, 2 or 3, d) likewise, the last not used
        """
        d = system.lower.shape[1]
        T = system.T[:, :d, :d] + np.eye(d)
        deviation = np.sqrt(np.sum(T * T, axis=2))[:, None]
        mean = -(T @ (np.swapaxes(T, 1, 2) @ value[:, 2, :, None]))[:, None, :, 0]
        limits = np.stack([system.lower, system.upper], axis=1)
        finite = np.isfinite(limits)
        limits = np.where(finite, limits, 0.0)
        with np.errstate(over="ignore", under="ignore"):
            density = -0.5 * (limits / deviation) ** 2 - np.log(deviation) - _LOG_SQRT_2_PI
            density -= estimate.log_prob[:, None, None]
            away = np.maximum(np.abs(limits - mean) / deviation - 1.0, 0.0)
            most = np.exp(np.minimum(np.minimum(density, -0.5 * away**2), _LOG_LARGEST))
        most = np.where(finite, most, 0.0)
        few = estimate.n[:, None, None] * size[:, :2] < _NEAR
        together = (unseen[:, :2] < _CARRIED) & (size[:, :2] > 0.0)
        alone = np.where(few & ~together, most, 0.0)
        hidden = alone + np.where(few & together, np.minimum(size[:, :2], most), 0.0)
        below = np.tril(np.abs(system.T[:, :d, :d]), -1)
        moved = hidden.sum(axis=1, keepdims=True) @ (below * np.minimum(1.0, below / _STEEP))
        hidden = np.minimum(hidden + moved, most)
        return cls(with_both(most), with_both(alone), with_both(hidden))
