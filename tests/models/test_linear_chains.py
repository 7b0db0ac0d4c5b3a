from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import log_softmax, softmax

from skdpbayes.models.linear_chains import chain_gradient, chain_loss

RNG = np.random.default_rng(0)
N, D = 57, 11
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.6)
CODES = RNG.integers(0, 2, N)
CODES3 = RNG.integers(0, 3, N)


def reference(loss, theta, X, codes, constant, width):
    """Loss of one chain in a few lines of NumPy."""
    rows = np.column_stack([X, np.full(len(X), constant)]) if constant else X
    z = rows @ theta.T
    if loss == "softmax":
        return -log_softmax(z, axis=1)[np.arange(len(X)), codes].sum()
    t = np.where(codes == 1, z[:, 0], -z[:, 0])
    if loss == "logistic":
        return np.logaddexp(0, -t).sum()
    gap = np.maximum(0, 1 - t)
    if loss == "hinge":
        return gap.sum()
    return np.where(gap < width, gap**2 / (2 * width), gap - width / 2).sum()


@pytest.mark.parametrize("constant", [0.0, 0.7])
@pytest.mark.parametrize("loss", ["logistic", "softmax", "smooth_hinge", "hinge"])
@pytest.mark.parametrize("n_chains", [1, 4])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_values_and_gradients_of_every_chain(loss, constant, n_chains, kind):
    n_outputs = 3 if loss == "softmax" else 1
    codes = CODES3 if loss == "softmax" else CODES
    thetas = RNG.normal(size=(n_chains, n_outputs, D + (constant > 0)))
    args = (loss, thetas, kind(X), codes, constant)
    values, gradients = chain_gradient(*args, width=0.4, with_value=True)
    _, gradients_alone = chain_gradient(*args, width=0.4)
    np.testing.assert_allclose(chain_loss(*args, width=0.4), values, rtol=1e-13)
    np.testing.assert_allclose(gradients_alone, gradients, rtol=1e-10, atol=1e-12)
    for chain in range(n_chains):
        expected = reference(loss, thetas[chain], X, codes, constant, 0.4)
        assert values[chain] == pytest.approx(expected, rel=1e-12)
        direction = RNG.normal(size=thetas[chain].shape)
        step = 1e-6
        up = reference(loss, thetas[chain] + step * direction, X, codes, constant, 0.4)
        down = reference(loss, thetas[chain] - step * direction, X, codes, constant, 0.4)
        slope = (up - down) / (2 * step)
        assert np.sum(gradients[chain] * direction) == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_extreme_logits_neither_overflow_nor_lose_the_loss():
    thetas = np.array([[[1e5]], [[-1e5]]])
    rows, codes = np.array([[1.0], [-1.0]]), np.array([1, 1])
    values, gradients = chain_gradient("logistic", thetas, rows, codes, with_value=True)
    np.testing.assert_allclose(values, [1e5, 1e5])
    np.testing.assert_allclose(gradients[:, 0, 0], [1.0, -1.0])
    np.testing.assert_allclose(chain_gradient("logistic", thetas[:1], rows, codes)[1][0, 0], [1.0])


def test_many_blocks_add_up_to_one():
    rows = RNG.normal(size=(5000, 40))
    codes = RNG.integers(0, 2, 5000)
    theta = RNG.normal(size=(1, 1, 40))
    expected = (
        (softmax(np.column_stack([np.zeros(5000), rows @ theta[0, 0]]), axis=1)[:, 1]) - codes
    )
    np.testing.assert_allclose(
        chain_gradient("logistic", theta, rows, codes)[1][0, 0], expected @ rows, rtol=1e-11
    )


def test_unknown_loss_is_named():
    with pytest.raises(ValueError, match="loss must be one of"):
        chain_loss("probit", np.zeros((1, 1, D)), X, CODES)
