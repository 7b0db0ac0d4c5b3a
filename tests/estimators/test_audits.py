"""All claims audited: true ones stand, and deliberate mistakes are caught.

Over the whole matrix the probability of a false alarm is at most 1e-6.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from skdpbayes import (
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLinearSVC,
    OPSLogisticRegression,
)
from skdpbayes.auditing import audit, neighbors
from skdpbayes.estimators import (
    _chain_plan,
    _ops_base,
    hidden_markov,
    naive_bayes,
)
from skdpbayes.estimators import objective_perturbation as objpert
from skdpbayes.privacy import PrivacyGuarantee, SubsampledGaussian, repeat
from skdpbayes.randomness import make_generator
from tests.audit_cases import CASES, Case

FALSE_ALARMS = 1e-6
CONFIDENCE = 1.0 - FALSE_ALARMS / len(CASES)
N_TRIALS = 500
SLOW = ("rejection", "draws")  # tens of milliseconds a fit: half as many


def run(case: Case, n_trials: int = N_TRIALS, **params):
    return audit(
        case.build(**params),
        *case.data if len(case.data) == 2 else (*case.data, None),
        neighbor=case.neighbor,
        score=case.score,
        n_trials=n_trials,
        confidence=CONFIDENCE,
        random_state=0,
    )


def find(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_claim_stands(case):
    result = run(case, n_trials=N_TRIALS // 2 if case.label in SLOW else N_TRIALS)
    assert not result.refuted, result


def test_every_estimator_is_in_the_matrix_under_both_adjacencies():
    from tests.contract import CASES as CONTRACT

    audited = {}
    for case in CASES:
        name = case.name.split()[0]
        audited.setdefault(name, set()).add(case.params.get("adjacency", "replace_one"))
    expected = {case.name: {"replace_one", "zero_out"} for case in CONTRACT}
    assert audited == expected


def scaled(function, **factors):
    """Wrap a planning function: multiply fields of the plan that it returns."""

    def broken(*args, **kwargs):
        plan = function(*args, **kwargs)
        changed = {name: getattr(plan, name) * factor for name, factor in factors.items()}
        return dataclasses.replace(plan, **changed)

    return broken


# Factors on the noise (on the inverse temperature: 4 halves it). Output perturbation on these data
# moves about half as far as its bound allows, so that only a quarter of its noise is refutable.
TOO_LITTLE = [
    ("LaplaceNaiveBayes Laplace, Bernoulli", naive_bayes.release_tools, "plan_noise", "scale", 0.5),
    ("LaplaceNaiveBayes Gaussian, bounds", naive_bayes.release_tools, "plan_noise", "scale", 0.5),
    ("PrivateHMM Laplace", hidden_markov, "plan_noise", "scale", 0.5),
    ("PrivateHMM Gaussian", hidden_markov, "plan_noise", "scale", 0.5),
    ("ObjPertLogisticRegression objective", objpert, "make_plan", "tilt_scale", 0.5),
    ("ObjPertLogisticRegression output", objpert, "make_plan", "release_scale", 0.25),
    ("OPSLogisticRegression Langevin", _ops_base, "plan_langevin", "inverse_temperature", 4.0),
    ("OPSLinearSVC Langevin", _ops_base, "plan_langevin", "inverse_temperature", 4.0),
]


@pytest.mark.parametrize(("name", "module", "planner", "name_of_field", "factor"), TOO_LITTLE)
def test_too_little_noise_is_caught(name, module, planner, name_of_field, factor, monkeypatch):
    honest = getattr(module, planner)
    monkeypatch.setattr(module, planner, scaled(honest, **{name_of_field: factor}))
    assert run(find(f"{name} zero_out"), n_trials=700).refuted


def test_half_the_noise_of_a_chain_is_caught(monkeypatch):
    honest = _chain_plan.ChainPlan.noise_scales

    def halved(self, *args):
        return 0.5 * honest(self, *args)

    monkeypatch.setattr(_chain_plan.ChainPlan, "noise_scales", halved)
    # Full batches hold the record for certain; all others are null rows, so that the chain stays
    # where the record's gradient is clipped; the step is long enough for privacy to set the noise.
    alone = neighbors.empty_batch(10, 2).reversed()
    case = dataclasses.replace(
        find("DPSGLDClassifier fixed batches replace_one"),
        pair=dataclasses.replace(alone, neighbor=(alone.X, np.zeros_like(alone.y))),
    )
    assert run(case, n_trials=700, batch_size=10, step_size=1.2).refuted


@pytest.mark.parametrize("estimator", [ObjPertLogisticRegression, OPSLogisticRegression])
def test_a_forgotten_clip_is_caught(estimator, monkeypatch):
    case = Case(
        estimator,
        "long row",
        {"fit_intercept": False, "C": 0.1, "epsilon": 3.0, "delta": 1e-2},
        neighbors.long_row(10, 2, factor=50.0),
    )
    assert not run(case).refuted
    monkeypatch.setattr(estimator, "_bound_rows", lambda self, X: X)
    assert run(case).refuted


class OneGradient(OPSLinearSVC):
    """Takes the sensitivity L of a deletion for a replacement, which moves 2L."""

    def fit(self, X, y):
        claimed = self.adjacency
        self.adjacency = "zero_out"
        super().fit(X, y)
        self.privacy_ = dataclasses.replace(self.privacy_, adjacency=claimed)
        self.adjacency = claimed
        return self


def test_sensitivity_L_in_place_of_2L_is_caught():
    honest = find("OPSLinearSVC Langevin replace_one")
    assert not run(honest).refuted
    assert run(dataclasses.replace(honest, estimator=OneGradient)).refuted


class ShuffledBatches(BaseEstimator):
    """Noisy sums over the batches of one shuffled epoch, priced as Poisson batches."""

    def __init__(self, batch_size=2, noise_multiplier=0.3, shuffle=True, random_state=None):
        self.batch_size = batch_size
        self.noise_multiplier = noise_multiplier
        self.shuffle = shuffle
        self.random_state = random_state

    def fit(self, X, y=None):
        rng = make_generator(self.random_state)
        n_steps = len(X) // self.batch_size
        rate = self.batch_size / len(X)
        if self.shuffle:
            batches = np.array_split(rng.permutation(len(X)), n_steps)
        else:
            batches = [np.flatnonzero(rng.random(len(X)) < rate) for _ in range(n_steps)]
        sums = np.array([X[batch].sum() for batch in batches])
        self.sums_ = sums + rng.normal(scale=self.noise_multiplier, size=n_steps)
        self.privacy_ = shuffled_claim(self.noise_multiplier, rate, n_steps)
        return self


def shuffled_claim(noise_multiplier, rate, n_steps):
    key = (noise_multiplier, rate, n_steps)
    if key not in _CLAIMS:
        step = SubsampledGaussian(noise_multiplier, rate, "poisson", "replace_one")
        _CLAIMS[key] = PrivacyGuarantee.from_event(
            repeat(step, n_steps), delta=1e-3, adjacency="replace_one", mechanism="Poisson batches"
        )
    return _CLAIMS[key]


_CLAIMS: dict = {}


def tilt_of_sums(fitted):
    """The likelihood ratio of +1 in one of the batches against -1."""
    scaled_sums = fitted.sums_ / fitted.noise_multiplier**2
    return float(logsumexp(scaled_sums) - logsumexp(-scaled_sums))


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_poisson_accountant_on_shuffled_batches_is_caught(shuffle):
    X = np.zeros((10, 1))
    X[0] = 1.0
    result = audit(
        ShuffledBatches(shuffle=shuffle),
        X,
        neighbor=-X,
        score=tilt_of_sums,
        n_trials=2000,
        confidence=CONFIDENCE,
        random_state=0,
    )
    assert result.refuted == shuffle


class CountsIterations(ObjPertLogisticRegression):
    """Publishes how long a solver without noise took, as many libraries do."""

    def fit(self, X, y):
        super().fit(X, y)
        self.n_iter_ = LogisticRegression(C=1.0, fit_intercept=False).fit(X, y).n_iter_
        return self


def test_a_leaked_iteration_count_is_caught():
    X = np.zeros((8, 2))
    y = np.array([0, 1] * 4)
    other = X.copy()
    other[0, 0] = 1.0
    honest = ObjPertLogisticRegression(3.0, 1e-2, C=1.0, fit_intercept=False)
    data = {"neighbor": (other, y), "n_trials": 300, "confidence": CONFIDENCE, "random_state": 0}
    assert not audit(honest, X, y, **data).refuted
    leaky = CountsIterations(3.0, 1e-2, C=1.0, fit_intercept=False)
    assert audit(leaky, X, y, score=lambda fitted: fitted.n_iter_, **data).refuted


class NoiseOnce(LaplaceNaiveBayes):
    """Uses one noise array for both classes."""

    def fit(self, X, y):
        super().fit(X, y)
        exact = LaplaceNaiveBayes(np.inf, classes=self.classes, posterior="naive", n_draws=1).fit(
            X, y
        )
        noise = self.statistics_[:1] - exact.statistics_[:1]
        self.statistics_ = exact.statistics_ + noise
        return self


def test_a_noise_array_used_twice_is_caught():
    case = find("LaplaceNaiveBayes Laplace, Bernoulli replace_one")
    assert run(dataclasses.replace(case, estimator=NoiseOnce)).refuted
