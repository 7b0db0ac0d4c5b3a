"""The released statistics keep their claim on worst-case neighbors, and broken noise is caught."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skdpbayes import randomness
from skdpbayes.estimators.naive_bayes.counts import add_noise, plan_noise
from skdpbayes.estimators.naive_bayes.layout import count_block
from skdpbayes.fitting.records import Block
from skdpbayes.models import NaiveBayesLayout
from skdpbayes.privacy.budget import Budget, Noise

N_RUNS = 40_000
BOUNDS = ((100.0, 101.0), (100.0, 101.0))
LAYOUTS = {
    "tables": NaiveBayesLayout(table_columns=(0, 1), n_values=(2, 2), binary=(True, True)),
    "moments": NaiveBayesLayout(moment_columns=(0, 1), bounds=BOUNDS),
    "tokens": NaiveBayesLayout(token_columns=(0, 1), max_total=3),
}


def neighbors(layout):
    """Statistics before and after one label flips; bounds far from zero, extreme values."""
    X = np.full((20, 2), 101.0)
    y = np.array([0, 1] * 10)
    flipped = y.copy()
    flipped[0] = 1
    return [count_block(Block(X, labels), layout, 2, "laplace") for labels in (y, flipped)]


def audit(layout, shrink=1.0):
    """Lower bound on epsilon at 99.9 % confidence, by the likelihood ratio of the noise."""
    noise = plan_noise(layout, "laplace", Budget(1.0, 0.0, "replace_one")).noise
    noise = Noise(noise.law, noise.scale / shrink)
    exact = neighbors(layout)
    spread = noise.scale * layout.units()
    ratios = []
    for seed, statistics in enumerate(exact):
        generator = randomness.make_generator(seed)
        runs = add_noise(generator, np.tile(statistics, (N_RUNS, 1)), layout, noise)
        runs = runs.reshape(N_RUNS, *statistics.shape)
        gaps = [np.abs(runs - center) / spread for center in exact]
        ratios.append((gaps[0] - gaps[1]).sum(axis=(1, 2)))
    half = N_RUNS // 2
    grid = np.quantile(ratios[1][:half], np.linspace(0.02, 0.98, 49))
    # The threshold is chosen on one half of the runs and tested on the other.
    evidence = [
        (ratios[1][:half] >= t).mean() / ((ratios[0][:half] >= t).mean() + 1e-3) for t in grid
    ]
    hits = [(ratio[half:] >= grid[np.argmax(evidence)]).sum() for ratio in ratios]
    low = stats.beta.ppf(0.0005, hits[1], half - hits[1] + 1)
    high = stats.beta.ppf(0.9995, hits[0] + 1, half - hits[0])
    return np.log(low / high)


@pytest.mark.parametrize("name", LAYOUTS)
def test_audit_stays_below_the_claim_and_comes_near(name):
    assert 0.4 < audit(LAYOUTS[name]) < 1.0  # six to twelve coordinates move: few runs see all


@pytest.mark.parametrize("name", LAYOUTS)
def test_half_of_the_noise_is_caught(name):
    assert audit(LAYOUTS[name], shrink=2.0) > 1.0
