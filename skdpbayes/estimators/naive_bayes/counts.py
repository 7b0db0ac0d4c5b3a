"""Noise on the statistics of naive Bayes: calibrated from public numbers, added to all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpbayes import randomness
from skdpbayes.exceptions import CalibrationError
from skdpbayes.fitting.records import Public
from skdpbayes.privacy.budget import NO_NOISE, Budget, Noise
from skdpbayes.privacy.calibration import (
    discrete_gaussian_scale,
    discrete_laplace_scale,
    gaussian_noise_multiplier,
    smallest_noise,
)
from skdpbayes.privacy.composition.composed import compose, repeat
from skdpbayes.privacy.events import GaussianDP, NoPrivacy, PrivacyEvent, PureDP
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from skdpbayes.privacy.sensitivity import moved
from skdpbayes.release.counts import counts
from skdpbayes.release.floats import floats

if TYPE_CHECKING:
    from skdpbayes.models.naive_bayes import NaiveBayesLayout

# A discrete Gaussian this wide is a normal law to 1e-8 (Poisson summation: 2 exp(-2 pi^2 scale^2)),
# so moves of equal length cost the same whichever statistics they are made of. Narrower noise on
# whole counts has heavier steps than on the fine grid of the moments.
LEAST_SCALE = 1.0


@dataclass(frozen=True)
class CountsPlan:
    """Noise on the joint statistics, chosen from public numbers, and what it costs."""

    layout: NaiveBayesLayout
    noise: Noise
    event: PrivacyEvent
    conditions: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The mechanism in words."""
        if self.noise.law == "none":
            return "sufficient statistics without noise"
        return (
            f"exact discrete {self.noise.law.capitalize()} noise on the joint sufficient statistics"
        )

    def numbers(self) -> dict[str, Any]:
        """Public fitted attributes."""
        return {"noise_": (self.noise,)}


def plan_noise(
    layout: NaiveBayesLayout, mechanism: str, budget: Budget, public: Public | None = None
) -> CountsPlan:
    """Calibrate the noise of one joint release of all statistics; for persons, of those numbers."""
    if not budget.private:
        return CountsPlan(layout, NO_NOISE, NoPrivacy())
    if mechanism == "gaussian" and budget.delta == 0.0:
        raise CalibrationError(
            "mechanism='gaussian' needs delta > 0; got delta=0. Pass a delta below 1/n_samples, or "
            "use mechanism='laplace', which is private without one."
        )
    plans = []
    if mechanism != "gaussian":
        plans.append(_laplace(layout, budget, public))
    if mechanism != "laplace" and budget.delta > 0.0:
        plans.append(_gaussian(layout, budget, public))
    return min(plans, key=lambda plan: plan.noise.deviation)


def _of_fractions(
    layout: NaiveBayesLayout, public: Public, multiplier: float, moves: float, order: int
) -> float:
    """Return the noise scale of statistics that are fractions, by the norm of their moves.

    A person moves them by an average of what records move them by, which is no longer in any norm.
    They are released as floats on a grid far below the noise; totals of up to the number of
    persons, in units of each statistic, may be rounded when they become floats.
    """
    if layout.max_total * public.n >= 2**46:
        raise ValueError(
            f"max_total={layout.max_total} is too large for {public.n} persons: their fractions "
            "would not fit into 64 bits. Use larger units."
        )
    size = layout.n_statistics * public.n_classes
    rounding = public.n * 2.0**-50 * (1.0 + layout.max_total)
    rounding *= size if order == 1 else np.sqrt(size)
    return float(randomness.release_scale(multiplier, moves + rounding, size, order=order))


def _laplace(layout: NaiveBayesLayout, budget: Budget, public: Public | None) -> CountsPlan:
    epsilon = budget.epsilon
    sensitivity = layout.l1_sensitivity(moved(budget.adjacency))
    event: PrivacyEvent
    if budget.unit == "person":
        assert public is not None
        scale = _of_fractions(layout, public, 1.0 / epsilon, sensitivity, 1)
        event = PureDP(epsilon)
    elif layout.counts_only:
        scale = discrete_laplace_scale(epsilon, budget.delta, int(sensitivity))
        event = repeat(DiscreteLaplace(scale), int(sensitivity))
    else:
        # One coordinate may move by more than one: priced at its pure epsilon, the worst case.
        scale = sensitivity / epsilon
        while sensitivity / scale > epsilon:
            scale = np.nextafter(scale, np.inf)
        event = PureDP(epsilon)
    return CountsPlan(layout, budget.noise("laplace", scale), event)


def _gaussian(layout: NaiveBayesLayout, budget: Budget, public: Public | None) -> CountsPlan:
    epsilon, delta, rows = budget.epsilon, budget.delta, moved(budget.adjacency)
    squared = layout.squared_l2_sensitivity(rows)
    event: PrivacyEvent
    if budget.unit == "person":
        assert public is not None
        multiplier = gaussian_noise_multiplier(epsilon, delta)
        scale = _of_fractions(layout, public, multiplier, float(np.sqrt(squared)), 2)
        event = GaussianDP(1.0 / multiplier)
    elif layout.counts_only:
        scale = discrete_gaussian_scale(epsilon, delta, squared)
        event = repeat(DiscreteGaussian(scale), squared)
    else:

        def event_of(scale: float) -> PrivacyEvent:
            return _gaussian_event(layout, scale, rows)

        guess = np.sqrt(squared) * gaussian_noise_multiplier(epsilon, delta)
        scale = max(smallest_noise(event_of, epsilon, delta, guess=float(guess)), LEAST_SCALE)
        event = event_of(scale)
    return CountsPlan(layout, budget.noise("gaussian", scale), event)


def _gaussian_event(layout: NaiveBayesLayout, scale: float, rows: int) -> PrivacyEvent:
    """Price the longest moves of each block; a normal law depends on a move's length only."""
    n_moments, extra = len(layout.moment_columns), int(layout.has_class_table)
    whole = rows * len(layout.table_columns)
    fine = 0  # moves by one unit on the grid of the moments
    if rows == 1:
        whole, fine = whole + extra, n_moments
    elif 4 * n_moments >= 2 * extra + 2 * n_moments:
        fine = 4 * n_moments
    else:
        whole, fine = whole + 2 * extra, 2 * n_moments
    grid = int(layout.units().max())
    parts = []
    if whole:
        parts.append(repeat(DiscreteGaussian(scale), whole))
    if layout.max_total:
        parts.append(repeat(DiscreteGaussian(scale, layout.max_total), rows))
    if fine:
        parts.append(repeat(DiscreteGaussian(scale * grid, grid), fine))
    return compose(parts)


def add_noise(
    generator: np.random.Generator, exact: np.ndarray, layout: NaiveBayesLayout, noise: Noise
) -> np.ndarray:
    """Release the statistics; the noise of each block has the scale of its unit.

    Fractions, of persons with several records, come as floats. What is released of them is rounded
    to the whole numbers that the posterior reads.
    """
    units = layout.units()
    if exact.dtype.kind == "f":
        noisy = floats(generator, exact / units, noise) * units
        return noisy if noise.law == "none" else np.rint(noisy).astype(np.int64)
    noisy = np.empty_like(exact)
    for unit in np.unique(units):
        block = units == unit
        scaled = Noise(noise.law, noise.scale * float(unit))
        noisy[:, block] = counts(generator, exact[:, block], scaled)
    return noisy
