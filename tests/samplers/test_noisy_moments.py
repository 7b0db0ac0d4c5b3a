from __future__ import annotations

import numpy as np
import pytest

from skdpbayes.samplers import noise_log_pmf, sample_noisy_moments


def noise_table(kind, scale):
    return noise_log_pmf([(kind, 64.0)]), scale / 64.0


def draw(rng, noisy, n, offset, kind, scale, n_draws=1000):
    log_noise, step = noise_table(kind, scale)
    shape = (n_draws, *noisy.shape[:2], 4)
    counts = np.full((n_draws, noisy.shape[0]), n)
    return sample_noisy_moments(noisy, counts, offset, log_noise, step, rng.random(shape))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [2.0, 60.0])
def test_moments_match_a_fine_grid(kind, scale):
    rng = np.random.default_rng(0)
    n, offset, y1, y2 = 100, 0.875, 30.0, 70.0
    draws = draw(rng, np.array([[[y1, y2]]]), n, offset, kind, scale, 20_000)[:, 0, 0]
    m, r = np.meshgrid(np.linspace(-1, 1, 801), np.linspace(0, 1, 801), indexing="ij")
    gaps = (y1 - n * m, y2 - n * (offset - r**2 - m**2))
    logp = sum(-np.abs(g) / scale if kind == "laplace" else -(g**2) / (2 * scale**2) for g in gaps)
    p = np.where(m**2 + r**2 <= 1, np.exp(logp - logp.max()), 0.0)
    p /= p.sum()
    for found, value in ((draws[:, 0], m), (np.sqrt(draws[:, 1]), r)):
        mean, deviation = (p * value).sum(), np.sqrt((p * value**2).sum() - (p * value).sum() ** 2)
        assert found.mean() == pytest.approx(mean, abs=0.04 * deviation)
        assert found.std() == pytest.approx(deviation, rel=0.04)


def test_intervals_cover_the_latent_moments():
    rng = np.random.default_rng(1)
    n, scale, offset = 400, 20.0, 0.875
    hits = []
    for _ in range(120):
        center, spread = rng.uniform(-0.5, 0.5), rng.uniform(0.1, 0.4)
        t = np.clip(rng.normal(center, spread, n), -1, 1)
        noisy = np.array([[[t.sum(), (offset - t**2).sum()]]]) + rng.laplace(0, scale, (1, 1, 2))
        draws = draw(rng, noisy, n, offset, "laplace", scale, 300)[:, 0, 0]
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        truth = np.array([t.mean(), t.var()])
        hits.append((low <= truth) & (truth <= high))
    assert 0.83 < np.mean(hits) < 0.96  # 240 intervals


def test_impossible_releases_give_possible_moments():
    rng = np.random.default_rng(0)
    noisy = np.array([[[1e6, -1e6], [-1e6, 1e6]]])
    draws = draw(rng, noisy, 50, 0.875, "laplace", 5.0, 200)
    assert np.isfinite(draws).all()
    assert (np.abs(draws[..., 0]) <= 1).all()
    assert (draws[..., 1] >= 0).all()
