"""Private chains on worst-case neighbors: the claim holds, broken chains are caught."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from skdpbayes import DPSGLDClassifier, models, privacy, randomness
from tests.audit_tools import gaussian_mu_lower_bound

RUNS = 600
PARAMS = {
    "epsilon": 4.0,
    "delta": 1e-5,
    "adjacency": "zero_out",
    "classes": [0, 1],
    "fit_intercept": False,
    "preconditioner": None,
    "n_steps": 1,
    "step_size": 1e3,  # so large that private noise exceeds the sampler's own
    "tail": 1.0,
    "clip_norm": 0.25,
}


def first_states(record, seeds):
    """First states of chains on two rows, of which the second is ``record`` (or blank)."""
    X = np.zeros((2, 2))
    X[1] = record
    states = []
    for seed in seeds:
        model = DPSGLDClassifier(**PARAMS, random_state=seed).fit(X, [0, 1])
        states.append(model.coef_[0, 0] / PARAMS["step_size"])
    return np.array(states)


def audit():
    """Lower bound on the mu of one noisy step whose claim is (4, 1e-5)."""
    without = first_states([0.0, 0.0], range(RUNS))
    present = first_states([1.0, 0.0], range(RUNS, 2 * RUNS))
    # half of the clipped contribution that moves the first state, known beforehand
    return gaussian_mu_lower_bound(without, present, 0.5 * PARAMS["clip_norm"])


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
def test_one_step_is_as_private_as_claimed_and_not_much_more():
    claimed = privacy.gdp_mu(4.0, 1e-5)
    found = audit()
    assert 0.5 * claimed < found <= claimed


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
def test_half_the_noise_is_caught(monkeypatch):
    exact = randomness.discrete_gaussian
    monkeypatch.setattr(randomness, "discrete_gaussian", lambda *arguments: exact(*arguments) // 2)
    assert audit() > privacy.gdp_mu(4.0, 1e-5)


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
def test_a_missing_clip_is_caught(monkeypatch):
    exact, read = models.clipped_gradient, models.read_gradient

    def unclipped(block, theta, loss, lengths, clip, grid, *, rows=None):
        return exact(block, theta, loss, lengths, math.inf, replace(grid, residual=1.0))

    monkeypatch.setattr(models, "clipped_gradient", unclipped)
    monkeypatch.setattr(
        models, "read_gradient", lambda total, grid: read(total, replace(grid, residual=1.0))
    )
    assert audit() > privacy.gdp_mu(4.0, 1e-5)


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
@pytest.mark.parametrize("factor", [2 / 3, 1.0, 3 / 2])
def test_noise_of_a_step_is_what_is_accounted(factor):
    """On blank rows a state is noise alone; two thirds or three halves of it are refused."""
    d = 3000
    model = DPSGLDClassifier(**PARAMS, prior_scale=1e6, random_state=0).fit(
        np.zeros((50, d)), [0, 1] * 25
    )
    expected = factor * model.noise_.scale * PARAMS["step_size"]
    right = abs(model.coef_.std() / expected - 1.0) < 4 / math.sqrt(2 * d)
    assert right == (factor == 1.0)


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
def test_an_empty_batch_is_a_step_of_noise_only():
    params = PARAMS | {"batch_size": 1, "n_steps": 30, "step_size": 1e-3, "n_kept": 30}
    model = DPSGLDClassifier(**params, random_state=0).fit(np.eye(2), [0, 1])
    states = model.sample_posterior()["coef"][:, 0]
    assert np.all(np.diff(states, axis=0) != 0.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_record_decides_what_is_finite_when_a_chain_diverges(n_classes):
    """Coefficients overflow by public parameters; a zero entry must not become 0 * inf."""
    X = np.ones((6, 2)) / 2
    blank = X.copy()
    blank[0] = 0.0
    y = np.arange(6) % n_classes
    params = {"prior": "normal", "prior_scale": (1e-3, 1.0), "step_size": 1.0, "n_steps": 80}
    params |= {"tail": 0.02, "n_kept": 1, "preconditioner": None, "random_state": 0, "delta": 0.01}
    finite = []
    for rows in (X, blank, sparse.csr_matrix(blank)):
        model = DPSGLDClassifier(epsilon=1.0, **params).fit(rows, y)
        assert not np.all(np.isfinite(model.coef_))
        finite.append(np.append(np.isfinite(model.coef_), np.isfinite(model.intercept_)))
    np.testing.assert_array_equal(finite[0], finite[1])
    np.testing.assert_array_equal(finite[0], finite[2])
    assert np.any(finite[0])  # the intercept, whose prior is weak


@pytest.mark.filterwarnings("error")
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
def test_a_cell_stored_twice_that_overflows_is_no_more_than_a_record():
    """Finite parts of a sparse cell add up to infinity; the rest of the fit must not become NaN."""
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(rng.uniform(-0.5, 0.5, (20, 2)))
    data = np.append(X.data, [1.5e308, 1.5e308, 0.25])
    indices = np.append(X.indices, [0, 0, 1])
    rows = sparse.csr_matrix((data, indices, np.append(X.indptr, 43)), shape=(21, 2))
    model = DPSGLDClassifier(n_steps=5, random_state=0).fit(rows, [0, 1, 1] * 7)
    assert np.all(np.isfinite(model.coef_))
