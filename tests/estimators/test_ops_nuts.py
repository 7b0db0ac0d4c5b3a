"""Hamiltonian chains against an independent No-U-Turn sampler, where one is installed."""

from __future__ import annotations

import numpy as np
import pytest

from skdpbayes import models, randomness, samplers
from skdpbayes.estimators.ops.sampling import hmc_chains
from skdpbayes.estimators.ops.target import Target
from skdpbayes.fitting.records import Block


def silent(iterable, **_):
    return iterable


def nuts_chains(X, y, beta, C):
    """States (4, 1000, p) of numpyro's sampler on the same potential, written independently."""
    numpyro = pytest.importorskip("numpyro")
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    rows = np.where(y == 1, 1.0, -1.0)[:, None] * X

    def potential(theta):
        losses = jax.numpy.logaddexp(0.0, -rows @ theta)
        return beta * (losses.sum() + theta @ theta / (2.0 * C))

    kernel = numpyro.infer.NUTS(potential_fn=potential)
    run = numpyro.infer.MCMC(
        kernel,
        num_warmup=500,
        num_samples=1000,
        num_chains=4,
        chain_method="sequential",
        progress_bar=False,
    )
    run.run(jax.random.PRNGKey(0), init_params=np.zeros((4, X.shape[1])))
    return np.asarray(run.get_samples(group_by_chain=True))


@pytest.mark.slow
@pytest.mark.parametrize(("beta", "C"), [(1.0, 5.0), (0.05, 1.0)])
def test_moments_agree_with_an_independent_sampler(beta, C):
    """Means, variances and correlations within 4.5 standard errors of two independent runs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) @ np.diag([1.0, 0.5, 0.3, 0.2, 0.1])
    y = (rng.random(300) < 1 / (1 + np.exp(-X @ [2.0, -2.0, 1.0, 0.0, 3.0]))).astype(np.intp)
    theirs = nuts_chains(X, y, beta, C)
    target = Target(
        blocks=(Block(X, y.astype(np.int64)),),
        constant=0.0,
        loss=models.LogisticLoss(),
        width=1.0,
        C=C,
        inverse_temperature=beta,
        radius=np.inf,
        grid=None,
    )
    generator = randomness.make_generator(0)
    ours, _, _ = hmc_chains(target, generator, silent, n_chains=4, n_iterations=1000)
    center, deviation = theirs.mean(axis=(0, 1)), theirs.std(axis=(0, 1))
    standard = [(chains - center) / deviation for chains in (ours, theirs)]
    pairs = [np.einsum("cni,cnj->cnij", chains, chains).reshape(4, 1000, -1) for chains in standard]
    for first, second in (standard, pairs):
        error = np.sqrt(
            sum(
                chains.var(axis=(0, 1)) / samplers.effective_sample_size(chains)
                for chains in (first, second)
            )
        )
        gap = np.abs(first.mean(axis=(0, 1)) - second.mean(axis=(0, 1)))
        assert np.all(gap < 4.5 * error)
        assert np.all(error < 0.07)  # so that a scale off by 3/2 is 4.5 errors away
