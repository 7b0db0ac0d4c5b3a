"""Private chains: order, blocks, storage and threads do not change a bit of the release."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from skdpbayes import DPSGLDClassifier, models
from skdpbayes.estimators.chain.coordinates import plain_coordinates
from skdpbayes.estimators.chain.potential import CoefficientPrior, LinearPotential, chain_blocks
from skdpbayes.fitting import records

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

N, D = 1400, 5
FITS = [
    (2, {}),
    (2, {"fit_intercept": False, "sampler": "sgnht"}),
    (2, {"preconditioner": None, "adjacency": "zero_out"}),
    (3, {"sampler": "sghmc"}),
    (2, {"batch_size": 100}),
    (3, {"batch_size": 100, "subsampling": "fixed"}),
]


def table(n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (N, D)) * (rng.random((N, D)) < 0.5)
    X *= 1.2 / np.linalg.norm(X, axis=1).max()  # some rows are longer than data_norm
    scores = 6.0 * X[:, :n_classes] + rng.gumbel(size=(N, n_classes))
    return X.astype(np.float32).astype(np.float64), np.argmax(scores, axis=1)


def check_equal_bits(make, X, y, monkeypatch, whole):
    """Fit the same records in several forms; in another order only if every batch is ``whole``."""
    order = np.random.default_rng(1).permutation(N)
    compressed = sparse.csr_matrix(X)

    def fit(X, y, threads=1, blocks=1):
        size = 8 * D * -(-N // blocks)
        if sparse.issparse(X):
            size = 8 * -(-X.nnz // N) * -(-N // blocks)
        with monkeypatch.context() as patch, threadpool_limits(threads):
            patch.setattr(records, "BLOCK_BYTES", size)
            return make().fit(X, y)

    first = fit(X, y)
    others = [
        fit(X, y, threads=2),
        fit(X, y, blocks=2),
        fit(X, y, blocks=7, threads=2),
        fit(compressed, y, blocks=2),
        fit(np.asfortranarray(X), y),
    ]
    if whole:  # batches are chosen by position
        others += [fit(X[order], y[order]), fit(compressed[order], y[order], blocks=7)]
    for other in others:
        assert np.array_equal(other.coef_, first.coef_)
        assert np.array_equal(other.intercept_, first.intercept_)
        for name, draws in first.sample_posterior(random_state=0).items():
            assert np.array_equal(other.sample_posterior(random_state=0)[name], draws)


@pytest.mark.parametrize(("n_classes", "params"), FITS)
def test_the_release_has_the_same_bits_for_any_order_blocks_storage_and_threads(
    n_classes, params, monkeypatch
):
    params = {"n_steps": 30, "random_state": 0, **params}
    X, y = table(n_classes)
    whole = "batch_size" not in params
    check_equal_bits(lambda: DPSGLDClassifier(1.0, **params), X, y, monkeypatch, whole)


@pytest.mark.parametrize("exact", [True, False])
def test_sums_are_exact_and_plain_floats_would_not_be(exact):
    """The grid of the noise hides most roundings from a release; here they are seen."""
    X, y = table(2)
    grid = models.Grid(N, 1.2) if exact else None
    coordinates = plain_coordinates(D, 1.2, True).with_constant(0.3)
    prior = CoefficientPrior.normal(1.0, 1.0)
    order = np.random.default_rng(1).permutation(N)
    sums = []
    for rows in (np.arange(N), order):
        table_ = records.Records(records.Public(N, D), X[rows], y[rows])
        potential = LinearPotential(
            chain_blocks(table_, grid), coordinates, models.LogisticLoss(), prior, 0.2, grid
        )
        sums.append(potential.gradients(np.full((1, D + 1), 0.7), None)[0])
    assert np.array_equal(*sums) == exact
    np.testing.assert_allclose(*sums, rtol=1e-9)
