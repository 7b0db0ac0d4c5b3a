r"""Losses of linear models: facts about a loss, and one pointwise kernel for each.

A loss is a function :math:`\ell(z, y)` of the logits :math:`z` of a record (one number, or one per
class) and its target :math:`y`. A new loss is one class and one kernel in this file. Nothing
outside asks which loss it has: kernels call `Loss.pointwise`, and rules of privacy take the
numbers `Loss.slope`, `Loss.range`, `Loss.gap` and so on.

Targets are codes of labels (``int64``) for classes, and floats otherwise: in [-reach, reach] for
`SquaredLoss` and `HuberLoss`, in [0, cap] for `PoissonLoss`. Facts that depend on the size of the
logits take ``largest_logit``, a bound on the Euclidean norm of a record's logits. They are upper
bounds, rounded up where they are not exact; those that need a search are searched for in
`skdpbayes.privacy`.

A kernel treats every record alike, wherever it stands in its block: rows are the outer loop, so
that no vectorized exponential can treat the last rows of a block differently from the others.
"""

# ruff: noqa: D102  what a method returns is said once, in the base class

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy.special import expit, ndtr, softmax

from skdpbayes.privacy import logistic_gradient_gap, softmax_gradient_norm, softmax_range

Array = npt.NDArray[np.float64]

# Stands for derivatives that nobody asked for.
NOTHING = np.empty((0, 0))
# Allowance for rounding, added where a fact is computed rather than exact.
_ROUNDING = 1e-14
# Mean curvature of margin losses per unit of squared length, a guess that only sets step sizes:
# that of the logistic loss where a fifth of the predictions are sure and the rest are not.
_MARGIN_CURVATURE = 0.15


class Loss:
    """What kernels and plans know of a loss."""

    @property
    def n_outputs(self) -> int:
        """Logits per record."""
        return 1

    @property
    def slope(self) -> float:
        """Largest norm of the derivative with respect to the logits; infinite if there is none."""
        return self.slope_within(math.inf)

    @property
    def curvature(self) -> tuple[float, float]:
        """Second derivative with respect to the logits: a typical one and the largest."""
        raise NotImplementedError

    @property
    def at_zero(self) -> float:
        """Largest absolute value of the loss where all logits are 0."""
        raise NotImplementedError

    @property
    def reach(self) -> float:
        """Largest absolute value of a target that is a number."""
        return 1.0

    @property
    def likelihood(self) -> bool:
        """Whether it is the negative logarithm of a density, so that there is a true parameter."""
        return False

    def slope_within(self, largest_logit: float) -> float:
        """Bound the norm of the derivative among logits of bounded norm, quickly: kernels ask."""
        raise NotImplementedError

    def steepest(self, largest_logit: float) -> float:
        """Largest norm of the derivative among logits of bounded norm: prices ask."""
        return self.slope_within(largest_logit)

    def gap(self, largest_logit: float) -> float:
        """Largest distance of two records' gradients, for rows of norm at most 1."""
        return 2.0 * self.steepest(largest_logit)

    def least_curvature(self, largest_logit: float) -> float:
        """Lower bound on the second derivative among logits of bounded norm."""
        return 0.0

    def mean_curvature(self, z: Array, target: np.ndarray, variance: Array) -> Array:
        """Second derivative, averaged over normal logits, shape (n,); of several, the largest.

        Parameters
        ----------
        z : ndarray of shape (n, n_outputs)
            Means of the logits.
        target : ndarray of shape (n,)
            Codes or numbers.
        variance : ndarray of shape (n,)
            Variances of the logits.
        """
        raise NotImplementedError

    def smoothed(self, width: float) -> Loss:
        """Return itself or, of unbounded curvature, one below that by at most ``width / 2``."""
        return self

    def range(self, largest_logit: float) -> float:
        """Largest difference of one record's losses among logits of bounded norm."""
        raise NotImplementedError

    def mean(self, z: Array) -> Array:
        """Expected target (for classes: their probabilities) given the logits, of their shape."""
        raise NotImplementedError

    def pointwise(self, z: Array, target: np.ndarray, value: Array, second: Array) -> None:
        r"""Overwrite logits by derivatives; fill in values and second derivatives.

        Parameters
        ----------
        z : ndarray of shape (n, S * n_outputs)
            Logits of the records at S points; afterwards the derivatives with respect to them.
        target : ndarray of shape (n,)
            Codes or numbers.
        value : ndarray of shape (n, S), or `NOTHING`
            Takes the losses.
        second : ndarray of shape (n, S * n_outputs * (n_outputs + 1) / 2), or `NOTHING`
            Takes :math:`|\partial^2 \ell / \partial z_j \partial z_k|` for :math:`j \ge k`, row by
            row of the lower triangle. Those with :math:`j \ne k` are never positive.
        """
        raise NotImplementedError


# Two classes, by the margin t = z for code 1 and -z for code 0


@dataclass(frozen=True)
class LogisticLoss(Loss):
    r""":math:`\log(1 + e^{m - t})`; the negative log likelihood if the margin *m* is 0."""

    margin: float = 0.0

    @property
    def likelihood(self) -> bool:
        return self.margin == 0.0

    @property
    def curvature(self) -> tuple[float, float]:
        return _MARGIN_CURVATURE, 0.25

    @property
    def at_zero(self) -> float:
        return _softplus(self.margin)

    def slope_within(self, largest_logit: float) -> float:
        return min(1.0, float(expit(largest_logit + self.margin)) * (1.0 + _ROUNDING))

    def gap(self, largest_logit: float) -> float:
        if self.margin != 0.0:
            return super().gap(largest_logit)
        return logistic_gradient_gap(largest_logit)

    def least_curvature(self, largest_logit: float) -> float:
        r""":math:`\sigma(v)\sigma(-v)` falls with :math:`|v|`, which is at most *c + m*."""
        farthest = abs(largest_logit) + abs(self.margin)
        return float(expit(farthest) * expit(-farthest)) * (1.0 - _ROUNDING)

    def range(self, largest_logit: float) -> float:
        r""":math:`\log(1+e^{m+c}) - \log(1+e^{m-c})`, which is *c* itself without a margin."""
        if self.margin == 0.0 or math.isinf(largest_logit):
            return largest_logit
        high, low = _softplus(self.margin + largest_logit), _softplus(self.margin - largest_logit)
        return min(2.0 * largest_logit, (high - low) + _ROUNDING * high)

    def mean(self, z: Array) -> Array:
        return np.asarray(expit(z))

    def mean_curvature(self, z: Array, target: np.ndarray, variance: Array) -> Array:
        """MacKay (1992) approximates the mean of a logistic function so; its slope is this."""
        shrink = _mackay(variance)
        likely = expit(shrink * (z[:, 0] + np.where(target == 1, -self.margin, self.margin)))
        return np.asarray(shrink * likely * (1.0 - likely))

    def pointwise(self, z: Array, target: np.ndarray, value: Array, second: Array) -> None:
        _logistic(z, target, float(self.margin), value, second)


@njit(cache=True)
def _logistic(z: Any, target: Any, margin: float, value: Any, second: Any) -> None:
    with_value, with_second = value.shape[0] > 0, second.shape[0] > 0
    for i in range(z.shape[0]):
        one = target[i] == 1
        for k in range(z.shape[1]):
            shifted = z[i, k] - margin if one else z[i, k] + margin
            small = np.exp(-abs(shifted))  # no overflow for any logit
            likely = 1.0 / (1.0 + small)
            # 1 - p of the larger side would cancel: use the smaller side's own formula
            unlikely = small * likely
            below, above = (unlikely, likely) if shifted >= 0.0 else (likely, unlikely)
            z[i, k] = -below if one else above
            if with_value:
                value[i, k] = max(-shifted if one else shifted, 0.0) + np.log(1.0 + small)
            if with_second:
                second[i, k] = likely * unlikely


def _mackay(variance: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(1.0 + math.pi * variance / 8.0))


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


@dataclass(frozen=True)
class SmoothHingeLoss(Loss):
    r""":math:`h(1 - t)`: *h(v)* is 0 below 0, :math:`v^2/(2s)` up to the width *s*, then linear."""

    width: float

    @property
    def curvature(self) -> tuple[float, float]:
        return _MARGIN_CURVATURE, 1.0 / self.width if self.width > 0.0 else math.inf

    @property
    def at_zero(self) -> float:
        return self._of_gap(1.0)

    def _of_gap(self, gap: float) -> float:
        if gap <= 0.0:
            return 0.0
        return gap - 0.5 * self.width if gap >= self.width else gap * gap / (2.0 * self.width)

    def slope_within(self, largest_logit: float) -> float:
        gap = 1.0 + largest_logit
        return 1.0 if gap >= self.width else gap / self.width

    def range(self, largest_logit: float) -> float:
        if math.isinf(largest_logit):
            return math.inf
        return self._of_gap(1.0 + largest_logit) - self._of_gap(1.0 - largest_logit)

    def mean(self, z: Array) -> Array:
        """Return the logits: this loss is not a likelihood."""
        return z

    def pointwise(self, z: Array, target: np.ndarray, value: Array, second: Array) -> None:
        _hinge(z, target, float(self.width), value, second)


@dataclass(frozen=True)
class HingeLoss(Loss):
    r""":math:`\max(0, 1 - t)`, with the derivative 0 at the kink."""

    @property
    def curvature(self) -> tuple[float, float]:
        return _MARGIN_CURVATURE, math.inf

    @property
    def at_zero(self) -> float:
        return 1.0

    def slope_within(self, largest_logit: float) -> float:
        return 1.0

    def range(self, largest_logit: float) -> float:
        return min(2.0 * largest_logit, 1.0 + largest_logit)

    def smoothed(self, width: float) -> Loss:
        return SmoothHingeLoss(width)

    def mean(self, z: Array) -> Array:
        """Return the logits: this loss is not a likelihood."""
        return z

    def pointwise(self, z: Array, target: np.ndarray, value: Array, second: Array) -> None:
        _hinge(z, target, 0.0, value, second)


@njit(cache=True)
def _hinge(z: Any, target: Any, width: float, value: Any, second: Any) -> None:
    with_value, with_second = value.shape[0] > 0, second.shape[0] > 0
    for i in range(z.shape[0]):
        sign = 1.0 if target[i] == 1 else -1.0
        for k in range(z.shape[1]):
            gap = 1.0 - sign * z[i, k]
            # no branches: which side of the kink a record is on cannot be predicted
            if width > 0.0:
                steep = min(max(gap, 0.0), width) / width
            else:
                steep = 1.0 if gap > 0.0 else 0.0
            z[i, k] = -sign * steep
            if with_value:
                bent = 0.0 < gap < width
                value[i, k] = gap * gap / (2.0 * width) if bent else max(gap - 0.5 * width, 0.0)
            if with_second:
                second[i, k] = 1.0 / width if 0.0 < gap < width else 0.0


# Several classes


@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    r"""Cross entropy :math:`\log\sum_k e^{z_k} - z_y` of *K* classes."""

    n_classes: int

    @property
    def n_outputs(self) -> int:
        return self.n_classes

    @property
    def likelihood(self) -> bool:
        return True

    @property
    def curvature(self) -> tuple[float, float]:
        """The largest is attained at probabilities 1/2, 1/2, 0, ..."""
        return (self.n_classes - 1.0) / self.n_classes**2, 0.5

    @property
    def at_zero(self) -> float:
        return math.log(self.n_classes)

    def slope_within(self, largest_logit: float) -> float:
        return math.sqrt(2.0)

    def steepest(self, largest_logit: float) -> float:
        return softmax_gradient_norm(largest_logit, self.n_classes)

    def range(self, largest_logit: float) -> float:
        return softmax_range(largest_logit, self.n_classes)

    def mean(self, z: Array) -> Array:
        return np.asarray(softmax(z, axis=-1))

    def mean_curvature(self, z: Array, target: np.ndarray, variance: Array) -> Array:
        """A softmax has at most twice the curvature of its class with the most."""
        shrink = _mackay(variance)
        probability = softmax(shrink[:, None] * z, axis=1)
        return np.asarray(2.0 * shrink * (probability * (1.0 - probability)).max(axis=1))

    def pointwise(self, z: Array, target: np.ndarray, value: Array, second: Array) -> None:
        _softmax(z, target, self.n_classes, value, second)


@njit(cache=True)
def _softmax(z: Any, target: Any, n_classes: int, value: Any, second: Any) -> None:
    with_value, with_second = value.shape[0] > 0, second.shape[0] > 0
    n_pairs = n_classes * (n_classes + 1) // 2
    for i in range(z.shape[0]):
        for s in range(z.shape[1] // n_classes):
            first = s * n_classes
            top = z[i, first]
            for k in range(first + 1, first + n_classes):
                top = max(top, z[i, k])
            own = z[i, first + target[i]]
            mass = 0.0
            for k in range(first, first + n_classes):
                z[i, k] = np.exp(z[i, k] - top)
                mass += z[i, k]
            for k in range(first, first + n_classes):
                z[i, k] /= mass
            if with_value:
                value[i, s] = np.log(mass) + (top - own)
            if with_second:
                pair = s * n_pairs
                for j in range(first, first + n_classes):
                    for k in range(first, j):
                        second[i, pair] = z[i, j] * z[i, k]
                        pair += 1
                    second[i, pair] = z[i, j] * (1.0 - z[i, j])
                    pair += 1
            z[i, first + target[i]] -= 1.0


# Numbers


@dataclass(frozen=True)
class HuberLoss(Loss):
    r""":math:`(z - y)^2 / 2` up to the distance *w*, then linear; targets in [-reach, reach]."""

    width: float
    reach: float = 1.0

    @property
    def curvature(self) -> tuple[float, float]:
        """A typical one of 0.8: some residuals are on the linear part, or clipped."""
        return 0.8, 1.0

    @property
    def at_zero(self) -> float:
        return self._of_gap(self.reach)

    def _of_gap(self, gap: float) -> float:
        if gap <= self.width:
            return 0.5 * gap * gap
        return self.width * (gap - 0.5 * self.width)

    def slope_within(self, largest_logit: float) -> float:
        return min(self.width, self.reach + largest_logit)

    def range(self, largest_logit: float) -> float:
        """Attained by a target at the end: as far away as possible, and as close."""
        if math.isinf(largest_logit):
            return math.inf
        near = max(0.0, self.reach - largest_logit)
        return self._of_gap(self.reach + largest_logit) - self._of_gap(near)

    def mean(self, z: Array) -> Array:
        return z

    def mean_curvature(self, z: Array, target: np.ndarray, variance: Array) -> Array:
        """Probability that the residual is on the quadratic part."""
        gap, deviation = z[:, 0] - target, np.sqrt(np.maximum(variance, 1e-300))
        return np.asarray(
            ndtr((self.width - gap) / deviation) - ndtr((-self.width - gap) / deviation)
        )

    def pointwise(self, z: Array, target: np.ndarray, value: Array, second: Array) -> None:
        _huber(z, target, float(self.width), value, second)


@dataclass(frozen=True)
class SquaredLoss(Loss):
    r""":math:`(z - y)^2 / 2`; targets in [-reach, reach]."""

    reach: float = 1.0

    @property
    def likelihood(self) -> bool:
        return True

    @property
    def curvature(self) -> tuple[float, float]:
        """A typical one of 0.8: chains clip some gradients."""
        return 0.8, 1.0

    @property
    def at_zero(self) -> float:
        return 0.5 * self.reach**2

    def slope_within(self, largest_logit: float) -> float:
        return self.reach + largest_logit

    def range(self, largest_logit: float) -> float:
        """Attained by a target at the end: as far away as possible, and as close."""
        near = max(0.0, self.reach - largest_logit)
        return 0.5 * (self.reach + largest_logit) ** 2 - 0.5 * near**2

    def mean(self, z: Array) -> Array:
        return z

    def mean_curvature(self, z: Array, target: np.ndarray, variance: Array) -> Array:
        return np.ones(z.shape[0])

    def pointwise(self, z: Array, target: np.ndarray, value: Array, second: Array) -> None:
        _huber(z, target, math.inf, value, second)


@njit(cache=True)
def _huber(z: Any, target: Any, width: float, value: Any, second: Any) -> None:
    with_value, with_second = value.shape[0] > 0, second.shape[0] > 0
    for i in range(z.shape[0]):
        for k in range(z.shape[1]):
            gap = z[i, k] - target[i]
            far = abs(gap) > width
            z[i, k] = (width if gap > 0.0 else -width) if far else gap
            if with_value:
                value[i, k] = width * (abs(gap) - 0.5 * width) if far else 0.5 * gap * gap
            if with_second:
                second[i, k] = 0.0 if far else 1.0


@dataclass(frozen=True)
class PoissonLoss(Loss):
    r""":math:`\lambda - y z` of counts *y* in [0, cap] with the rate :math:`\lambda = m e^z`.

    The base *m* is the rate at the logit 0. Above the cap the rate stays there and the loss goes on
    in a straight line, so that its slope is bounded by the cap.
    """

    cap: float
    base: float = 1.0

    @property
    def reach(self) -> float:
        return self.cap

    @property
    def curvature(self) -> tuple[float, float]:
        """A typical one at the base."""
        return min(self.base, self.cap), self.cap

    @property
    def at_zero(self) -> float:
        return self._of_none(0.0)

    @property
    def _top(self) -> float:
        """Logit of the cap."""
        return math.log(self.cap / self.base)

    def _of_none(self, z: float) -> float:
        """Loss of the count 0, which grows with the logit."""
        top = self._top
        return self.base * math.exp(z) if z <= top else self.cap * (1.0 + (z - top))

    def slope_within(self, largest_logit: float) -> float:
        most, least = (
            self.base * math.exp(min(z, self._top)) for z in (largest_logit, -largest_logit)
        )
        return min(self.cap, max(most, self.cap - least) * (1.0 + _ROUNDING))

    def range(self, largest_logit: float) -> float:
        """A range is convex in the count, as a supremum of affine functions: 0 or cap has it."""
        if math.isinf(largest_logit):
            return math.inf
        high, low = self._of_none(largest_logit), self._of_none(-largest_logit)
        fall = 2.0 * self.cap * largest_logit  # of -y z for the count cap
        return max(high - low, low + fall - high) + _ROUNDING * (high + fall)

    def mean(self, z: Array) -> Array:
        return np.asarray(self.base * np.exp(np.minimum(z, self._top)))

    def mean_curvature(self, z: Array, target: np.ndarray, variance: Array) -> Array:
        """Mean of a lognormal rate, the cap aside."""
        return self.mean(z[:, 0] + 0.5 * variance)

    def pointwise(self, z: Array, target: np.ndarray, value: Array, second: Array) -> None:
        _poisson(z, target, float(self.cap), math.log(self.base), value, second)


@njit(cache=True)
def _poisson(z: Any, target: Any, cap: float, shift: float, value: Any, second: Any) -> None:
    with_value, with_second = value.shape[0] > 0, second.shape[0] > 0
    top = np.log(cap)
    for i in range(z.shape[0]):
        for k in range(z.shape[1]):
            logit = z[i, k] + shift
            below = logit <= top
            rate = min(np.exp(logit), cap) if below else cap
            if with_value:
                line = rate if below else cap * (1.0 + (logit - top))
                value[i, k] = line - target[i] * z[i, k]
            if with_second:
                second[i, k] = rate if below else 0.0
            z[i, k] = rate - target[i]
