"""Bound what the points of a lattice may have missed at the faces of a box.

The derivative in a limit is the density of its coordinate there, given all limits.  It shows in
points within about a unit of the face, the coordinate's deviation given those before.  Where so
few are to be expected there that they may have been none, two things bound it.  It is at most the
density without the other limits over P, certainly.  And the density given all limits is
log-concave: if it is f at the face, a share of at least 1 - exp(-f) of the probability lies within
a unit of it, which points that carry P evenly would hardly have missed, however small the unit.
"""

from dataclasses import dataclass

import numpy as np

from mvnorth._cpu.lattice_sums import add_rounding
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._methods import genz
from mvnorth._methods.lattice_rule import Tilt

_NEAR = 4.0  # points near a face that are enough to have seen it
MISSED = 10.0  # points' worth of P that all of them may have missed at a face
_STEEP = 5.0  # entries of T: a limit that moves another coordinate's by so much hides it
_CARRIED = 0.1  # share unseen below which all points carry a mean together
_LOG_SQRT_2_PI = 0.5 * float(np.log(2.0 * np.pi))
_LOG_LARGEST = 300.0  # so that products of bounds are numbers


def exponents_rounding(system: genz.System) -> np.ndarray:
    """Return the relative error (B,) of densities at limits of rows of T far out in their tails."""
    farthest = np.max(np.maximum(-system.upper, system.lower), axis=1, initial=0.0)
    return np.asarray(8.0 * float(np.finfo(np.float64).eps) * farthest**2)


def relative_rounding(
    base: genz.System, tilt: Tilt | None, singular: float, estimate: Estimate
) -> np.ndarray:
    """Return the relative error (B,) of P from rounding of the covariance, limits and weights.

    Derivatives, which are quotients of such probabilities, have about the same.
    """
    if tilt is None:
        rounding, of_problem = base.rounding(singular)
    else:
        rounding, of_problem = tilt.rounding, tilt.of_problem
    rel_error = np.zeros(rounding.shape)
    problems, most = base.problems, base.problems.d * singular
    limits = (problems.lower, problems.upper, problems.covariance.factor)
    add_rounding(estimate.log_prob, rel_error, rounding, of_problem, most, *limits)
    return rel_error


def limit_derivatives(system: genz.System, value: np.ndarray, error: np.ndarray) -> Derivatives:
    """Return derivatives in limits and mean of the problems from those in the limits of T.

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
    return Derivatives.of_columns(("lower", "upper", "mean"), values, errors)


def with_both(of_limits: np.ndarray) -> np.ndarray:
    """Return (B, 3, d) for lower, upper and both limits, from (B, 2, d)."""
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

    def edges(
        self, base: genz.System, seen: np.ndarray, cov: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds (B, d, d) on derivatives in "cov", one for ``most`` and one for ``hidden``.

        Off the diagonal the derivative is half the density at two faces: that at one times the
        other's given it, which is taken to be at most about one over its deviation, or as much
        more as its faces show.  The diagonal follows by the scale identity.

        Parameters
        ----------
        seen : (B, 2, d) sizes of the derivatives in lower and upper limits of the rows of T
        """
        d = seen.shape[2]
        unit = np.abs(base.unit)
        limits = np.maximum(
            *(np.where(np.isfinite(a), np.abs(a), 0.0) for a in (base.lower, base.upper))
        )
        back = np.argsort(base.order, axis=1)
        at_face = np.stack([seen.sum(axis=1) + self.most[:, 2], self.hidden[:, 2]], axis=1)
        given = (1.0 + seen.sum(axis=1)) / unit
        place = back[:, None]
        at_face, limits, given = (
            np.take_along_axis(a, place, axis=2)
            for a in (at_face / unit[:, None], (limits * unit)[:, None], given[:, None])
        )
        one = 0.5 * at_face[..., None] * given[:, :, None]
        other = np.swapaxes(one, 2, 3)
        bound = np.stack([np.minimum(one, other)[:, 0], (one + other)[:, 1]], axis=1)
        index = np.arange(d)
        bound[..., index, index] = 0.0
        own = np.sum(bound * np.abs(cov)[:, None], axis=3) + 0.5 * limits * at_face
        bound[..., index, index] = own / cov[:, None, index, index]
        return bound[:, 0], bound[:, 1]

    @classmethod
    def of(
        cls,
        base: genz.System,
        value: np.ndarray,
        size: np.ndarray,
        unseen: np.ndarray,
        elsewhere: np.ndarray,
        estimate: Estimate,
    ) -> "Faces":
        """Make bounds from derivatives, means of their absolute values, and unseen shares.

        Where all points carry a face together, from afar, what they do not see is how it changes
        the probability of the others; that is at most about all of it.

        Parameters
        ----------
        value : (B, 3, d) derivatives in lower, upper and both limits of the rows of T
        size, unseen : (B, 2 or 3, d) means of absolute values, the share of these that all points
            may have missed
        elsewhere : (B,) share of the probability that may be where no point was
        """
        d = base.lower.shape[1]
        T = base.T[:, :d, :d] + np.eye(d)
        deviation = np.sqrt(np.sum(T * T, axis=2))[:, None]
        limits = np.stack([base.lower, base.upper], axis=1)
        finite = np.isfinite(limits)
        limits = np.where(finite, limits, 0.0)
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            density = -0.5 * (limits / deviation) ** 2 - np.log(deviation) - _LOG_SQRT_2_PI
            least = estimate.log_prob + np.log1p(-np.minimum(estimate.rel_error, 1.0))
            most = np.exp(np.minimum(density - least[:, None, None], _LOG_LARGEST))
            nearby = -np.log1p(-np.minimum(elsewhere, 1.0))[:, None, None]
        most = np.where(finite, most, 0.0)
        few = estimate.n[:, None, None] * size[:, :2] < _NEAR
        most = np.where(few, np.minimum(most, nearby), most)
        together = (unseen[:, :2] < _CARRIED) & (size[:, :2] > 0.0)
        alone = np.where(few & ~together, most, 0.0)
        hidden = alone + np.where(few & together, np.minimum(size[:, :2], most), 0.0)
        below = np.tril(np.abs(base.T[:, :d, :d]), -1)
        moved = hidden.sum(axis=1, keepdims=True) @ (below * np.minimum(1.0, below / _STEEP))
        hidden = np.minimum(hidden + moved, most)
        # The density is positive: a derivative of the other sign is wrong by itself plus that.
        wrong = np.maximum(value[:, :2] * np.array([[1.0], [-1.0]]), 0.0)
        alone, hidden = (a + np.where(a > 0.0, wrong, 0.0) for a in (alone, hidden))
        return cls(with_both(most), with_both(alone), with_both(hidden))
