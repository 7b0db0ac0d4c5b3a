r"""What the release says about a step: three ways to read (noisy) counts.

Each has ``log_likelihood(emission)``, the log-probability of every step in every state with the
true counts summed out, and ``counts(states, emission, generator)``, true counts drawn (or taken)
given the states. Drawing states by the first and counts by the second is one joint draw of both.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from skdpbayes import models, samplers

# Levels that vary more than an exponential variable by a factor of two are not believed.
_SMALLEST_SHAPE = 0.5
# Where the variance of the noise is more than ten times a mean count every sweep moves the
# emissions with the counts summed out; elsewhere only rare values need it, and every fourth does.
_WIDE_NOISE, _SELDOM = 10.0, 4


class Evidence:
    """What a chain needs to know of the data."""

    def fresh(self) -> Evidence:
        """Return an object that shares nothing that changes while a chain runs."""
        return self

    def log_likelihood(self, emission: np.ndarray) -> np.ndarray:
        """Log-probability of each step in each state."""
        raise NotImplementedError

    def move(
        self,
        states: np.ndarray,
        emission: np.ndarray,
        alpha: float,
        generator: np.random.Generator,
    ) -> np.ndarray:
        """Move the emissions given the states, true counts summed out; ``alpha`` is the prior's.

        Only where draws from the counts would creep.
        """
        return emission

    def counts(
        self, states: np.ndarray, emission: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """Counts of each step, to update the emissions with."""
        raise NotImplementedError


class CountEvidence(Evidence):
    """Counts taken as they are: without noise, or noisy ones clipped at zero, or tempered ones."""

    def __init__(self, counts: np.ndarray) -> None:
        self._counts = np.ascontiguousarray(counts, dtype=np.float64)

    def log_likelihood(self, emission: np.ndarray) -> np.ndarray:
        """Log-probability of each step in each state."""
        return models.count_log_likelihood(self._counts, emission)

    def counts(
        self, states: np.ndarray, emission: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """Counts of each step."""
        return self._counts


class NoisyCellEvidence(Evidence):
    r"""Cells of an unknown number of events: Poisson counts under discrete noise.

    :math:`n_{sv} \sim \mathrm{Poisson}(\lambda_s \theta_{z_s v})`, :math:`y = n + Z`, where the
    expected number of events :math:`\lambda_s \sim \mathrm{Gamma}(r, r / m_g)` has its chain's mean
    and a common spread, both estimated from the released totals. Given the counts of all D fields
    it is Gamma distributed.
    """

    def __init__(
        self,
        noisy: np.ndarray,
        begin: np.ndarray,
        starts: np.ndarray,
        mean_events: float,
        noise: str,
        scale: float,
    ) -> None:
        self._noisy = noisy
        self._n_fields = n_fields = begin.shape[0] - 1
        self._noise, self._scale = noise, scale
        self._begin, self._noise_variance = begin, _noise_variance(noise, scale)
        level, shape = level_prior(noisy, begin, starts, mean_events, self._noise_variance)
        self._shape, self._prior_rate = shape, shape / level
        mean_count = mean_events * n_fields / noisy.shape[1]
        self._every = 1 if self._noise_variance > _WIDE_NOISE * mean_count else _SELDOM
        self._sweeps = 0
        totals = np.maximum(noisy.sum(axis=1) / n_fields, 0.5)
        self.level = (shape + n_fields * totals) / (self._prior_rate + n_fields)
        largest = max(float(noisy.max(initial=0)) + 8.0 * scale, 1.0)
        self._likelihood = samplers.NoisyPoissonLikelihood(noisy, noise, scale, 1.5 * largest)

    def fresh(self) -> NoisyCellEvidence:
        """Return a copy with levels of its own; the tables are shared."""
        other = copy(self)  # levels are replaced, never written into
        other._sweeps = 0
        return other

    def log_likelihood(self, emission: np.ndarray) -> np.ndarray:
        """Log-probability of each step in each state."""
        return self._likelihood(self.level, emission)

    def move(
        self,
        states: np.ndarray,
        emission: np.ndarray,
        alpha: float,
        generator: np.random.Generator,
    ) -> np.ndarray:
        """Let pairs of values trade probability: draws from the counts alone would creep."""
        self._sweeps += 1
        if self._sweeps % self._every:
            return emission
        pairs = samplers.pair_values(self._begin, generator.random(emission.shape))
        normals = generator.standard_normal(pairs[0].shape)
        uniforms = generator.random(pairs[0].shape)
        return samplers.move_emissions(
            self._likelihood,
            self.level,
            states,
            emission,
            pairs,
            alpha,
            self._noise_variance,
            normals,
            uniforms,
        )

    def counts(
        self, states: np.ndarray, emission: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """True counts given the states; then the expected numbers of events given the counts."""
        rate = self.level[:, None] * emission[states]
        uniforms = generator.random(self._noisy.shape)
        counts = samplers.reject_poisson_counts(
            self._noisy, rate, self._noise, self._scale, uniforms
        )
        shape = self._shape + counts.sum(axis=1)
        self.level = generator.standard_gamma(shape) / (self._prior_rate + self._n_fields)
        return counts


def _noise_variance(noise: str, scale: float) -> float:
    if noise == "gaussian":
        return scale**2
    ratio = np.exp(-1.0 / scale)
    return float(2.0 * ratio / (1.0 - ratio) ** 2)


def level_prior(
    noisy: np.ndarray,
    begin: np.ndarray,
    starts: np.ndarray,
    mean_events: float,
    noise_variance: float,
) -> tuple[np.ndarray, float]:
    r"""Mean of each step's level, and the shape of its Gamma law, by moments of noisy totals.

    The total of a field of V values has noise of variance V times that of a count; the fields'
    totals of a step are averaged with inverse weights. The chains' means are shrunk to the public
    mean of all steps as far as noise explains their differences (Efron and Morris 1975). Within
    chain g totals vary by :math:`m_g + m_g^2 / r` and the noise; r is pooled over the chains.
    """
    sizes = np.diff(begin)
    weight = (1.0 / sizes) / (1.0 / sizes).sum()
    total = np.add.reduceat(noisy, begin[:-1], axis=1) @ weight
    lengths = np.diff(starts)
    chain = np.repeat(np.arange(lengths.shape[0]), lengths)
    of_total = noise_variance / (1.0 / sizes).sum()
    observed = np.bincount(chain, weights=total) / np.maximum(lengths, 1)
    error = (mean_events + of_total) / np.maximum(lengths, 1)
    between = max(float(np.mean(np.square(observed - mean_events) - error)), 0.0)
    mean = mean_events + between / (between + error) * (observed - mean_events)
    mean = np.maximum(mean, 0.02 * mean_events + 1e-3)
    spread = np.square(total - mean[chain]).sum()
    expected = (mean[chain] + of_total).sum()
    excess = max(spread - expected, 1e-4 * np.square(mean[chain]).sum())
    shape = float(np.clip(np.square(mean[chain]).sum() / excess, _SMALLEST_SHAPE, 1e4))
    return mean[chain], shape


class NoisyRowEvidence(Evidence):
    """Steps of exactly one event each: noisy indicators of the value of every field."""

    def __init__(self, noisy: np.ndarray, begin: np.ndarray, noise: str, scale: float) -> None:
        gap = noisy.astype(np.float64)
        # log p_Z(y - 1) - log p_Z(y), then in each field relative to its best value.
        if noise == "laplace":
            log_ratio = (np.abs(gap) - np.abs(gap - 1.0)) / scale
        else:
            log_ratio = (gap - 0.5) / scale**2
        best = np.maximum.reduceat(log_ratio, begin[:-1], axis=1)
        self._evidence = np.exp(log_ratio - np.repeat(best, np.diff(begin), axis=1))
        self._begin = begin

    def log_likelihood(self, emission: np.ndarray) -> np.ndarray:
        """Log-probability of each step in each state."""
        return models.single_event_log_likelihood(self._evidence, emission, self._begin)

    def counts(
        self, states: np.ndarray, emission: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """Draw the value of every field of the step's event, as indicators."""
        counts = np.zeros(self._evidence.shape, dtype=np.int64)
        rows = np.arange(counts.shape[0])
        for low, high in zip(self._begin[:-1], self._begin[1:], strict=True):
            weights = np.cumsum(self._evidence[:, low:high] * emission[states, low:high], axis=1)
            target = generator.random(counts.shape[0]) * weights[:, -1]
            chosen = (weights[:, :-1] <= target[:, None]).sum(axis=1)
            counts[rows, low + chosen] = 1
        return counts


class HeldOutEvidence(Evidence):
    """Evidence that hides some steps from the chain."""

    def __init__(self, evidence: Evidence, hidden: np.ndarray) -> None:
        self.inner, self.hidden = evidence, hidden

    def fresh(self) -> HeldOutEvidence:
        """Return a copy with a fresh inner object."""
        return HeldOutEvidence(self.inner.fresh(), self.hidden)

    def log_likelihood(self, emission: np.ndarray) -> np.ndarray:
        """Log-probability of each step in each state; hidden steps say nothing."""
        return np.where(self.hidden[:, None], 0.0, self.inner.log_likelihood(emission))

    def move(
        self,
        states: np.ndarray,
        emission: np.ndarray,
        alpha: float,
        generator: np.random.Generator,
    ) -> np.ndarray:
        """Move the emissions given the visible steps."""
        return self.inner.move(np.where(self.hidden, -1, states), emission, alpha, generator)

    def counts(
        self, states: np.ndarray, emission: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """Counts of each step; none of the hidden ones."""
        return np.where(self.hidden[:, None], 0, self.inner.counts(states, emission, generator))


def fractions(noisy: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Noisy counts as positive fractions of each field's total, to choose starting states by."""
    positive = np.maximum(noisy, 0.0) + 0.5
    totals = np.add.reduceat(positive, begin[:-1], axis=1)
    return positive / np.repeat(totals, np.diff(begin), axis=1)
