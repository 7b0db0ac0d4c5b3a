"""Audits on mechanisms whose privacy is known exactly: right claims stand, wrong ones fall."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier

from skdpbayes.auditing import (
    AuditResult,
    audit,
    audit_one_run,
    audit_scores,
    changed_rows,
    neighbors,
)
from skdpbayes.privacy import GaussianDP, PrivacyGuarantee, PureDP
from skdpbayes.randomness import make_generator

CLAIMS = {
    noise: PrivacyGuarantee.from_event(
        event, delta=delta, adjacency="replace_one", mechanism="noise on a sum"
    )
    for noise, event, delta in (
        ("gaussian", GaussianDP(1.0), 1e-3),
        ("laplace", PureDP(1.0), 0.0),
    )
}


class NoisySum(ClassifierMixin, BaseEstimator):
    """Releases the noisy sum of clipped rows; ``cheat`` divides the noise."""

    def __init__(self, noise="gaussian", cheat=1.0, random_state=None, ledger=None):
        self.noise = noise
        self.cheat = cheat
        self.random_state = random_state
        self.ledger = ledger

    def fit(self, X, y=None):
        rng = make_generator(self.random_state)
        total = np.asarray(X).sum(axis=0)
        sensitivity = 2.0  # rows have norm 1
        if self.noise == "gaussian":
            noise = rng.normal(scale=sensitivity / self.cheat, size=total.shape)
        else:
            noise = rng.laplace(scale=sensitivity / self.cheat, size=total.shape)
        self.total_ = total + noise
        self.classes_ = np.array([0, 1])
        self.privacy_ = CLAIMS[self.noise]
        return self

    def decision_function(self, X):
        return np.asarray(X) @ self.total_


def rows(n=3, d=1, first=1.0):
    X = np.zeros((n, d))
    X[0, 0] = first
    return X


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_a_right_claim_stands_and_is_nearly_attained(noise):
    result = audit(
        NoisySum(noise),
        rows(first=1.0),
        neighbor=rows(first=-1.0),
        n_trials=3000,
        random_state=1,
        confidence=0.999,
    )
    assert not result.refuted
    assert result.verdict == "not refuted"
    if noise == "gaussian":
        assert 0.75 * result.claim.epsilon < result.epsilon_if_gaussian <= result.claim.epsilon
    else:
        assert 0.75 < result.epsilon_lower <= 1.0
        assert math.isnan(result.epsilon_if_gaussian)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("cheat", [1.5, 2.0])
def test_too_little_noise_is_caught(noise, cheat):
    result = audit(
        NoisySum(noise, cheat=cheat),
        rows(first=1.0),
        neighbor=rows(first=-1.0),
        n_trials=2000,
        random_state=0,
    )
    assert result.refuted
    assert result.verdict == "refuted"
    assert result.excess > 0.0
    assert "exceeds the claimed profile" in repr(result)


def test_a_vector_score_learns_its_direction_on_other_trials():
    """Ten coordinates of noise around one that tells; a raw sum of them would not."""
    result = audit(
        NoisySum(cheat=2.0),
        rows(d=10, first=1.0),
        neighbor=rows(d=10, first=-1.0),
        score=lambda fitted: fitted.total_,
        n_trials=1500,
        random_state=1,
    )
    assert result.refuted


def test_false_alarms_are_as_rare_as_claimed():
    """300 audits of a mechanism that attains its claim, at confidence 90%: at most 10% alarms."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(300):
        noise = rng.laplace(size=(2, 500))
        aside = rng.laplace(size=(2, 100))
        result = audit_scores(
            noise[0],
            noise[1] + 1.0,
            claim=1.0,
            threshold_scores=(aside[0], aside[1] + 1.0),
            confidence=0.9,
        )
        alarms += result.refuted
    assert alarms <= 45  # mean at most 30, three and a half standard deviations


def test_the_profile_refutes_where_the_headline_cannot():
    """Small delta hides a Gaussian at twice its mu from (epsilon, delta); its profile does not."""
    rng = np.random.default_rng(1)
    claim = PrivacyGuarantee.from_event(
        GaussianDP(0.3), delta=1e-5, adjacency="replace_one", mechanism="test"
    )
    normal = rng.normal(size=(2, 4000))
    result = audit_scores(normal[0], normal[1] + 0.6, claim=claim, threshold=0.3)
    assert result.refuted
    assert result.epsilon_lower < claim.epsilon < result.epsilon_if_gaussian
    honest = audit_scores(normal[0], normal[1] + 0.3, claim=claim, threshold=0.15)
    assert not honest.refuted


def test_parallel_and_progress_give_the_same_result(capsys):
    def run(**how):
        return audit(
            NoisySum(),
            rows(first=1.0),
            neighbor=rows(first=-1.0),
            n_trials=64,
            random_state=4,
            **how,
        )

    first, second = run(), run(progress=True)
    assert first == second
    assert "audit" in capsys.readouterr().err


def test_workers_fit_with_secure_randomness_of_their_own():
    result = audit(
        NoisySum("laplace", random_state=7),  # a fixed seed would make every fit the same
        rows(first=1.0),
        neighbor=rows(first=-1.0),
        n_trials=200,
        n_jobs=2,
    )
    assert not result.refuted
    assert 0 < result.false_positives < 200


def test_an_estimator_of_another_library_is_audited_against_a_claim_by_hand():
    pair = neighbors.tiny()
    with pytest.raises(ValueError, match="claim=epsilon"):
        audit(DummyClassifier(), pair.X, pair.y, neighbor=pair)
    result = audit(DummyClassifier(), pair.X, pair.y, neighbor=pair, claim=3.0, n_trials=200)
    assert result.refuted  # it releases the label outright
    result = audit(
        DummyClassifier(), pair.X, pair.y, neighbor=pair, claim=(1.0, 1e-3), n_trials=200
    )
    assert result.refuted
    assert result.claim.delta == 1e-3


def test_too_few_trials_say_how_many_would_do():
    with pytest.raises(ValueError, match=r"n_trials >= (\d+)") as caught:
        audit(NoisySum("laplace"), rows(), neighbor=rows(first=-1.0), n_trials=5)
    enough = int(str(caught.value).split("n_trials >= ")[1].split()[0])
    assert enough > 5
    audit(NoisySum("laplace"), rows(), neighbor=rows(first=-1.0), n_trials=enough)


def test_a_threshold_chosen_on_the_counted_trials_is_refused():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 400))
    with pytest.raises(ValueError, match="same trials"):
        audit_scores(a, b, claim=1.0, threshold_scores=(a, b))
    with pytest.raises(ValueError, match="same trials"):
        audit_scores(a, b, claim=1.0, threshold_scores=(a[:100].copy(), b[:100].copy()))
    with pytest.raises(ValueError, match="either threshold"):
        audit_scores(a, b, claim=1.0)
    with pytest.raises(ValueError, match="n_threshold_trials"):
        audit(NoisySum(), rows(), neighbor=rows(first=-1.0), threshold=0.0, n_threshold_trials=5)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"neighbor": rows(first=1.0)}, "nothing to tell apart"),
        ({"n_trials": 0}, "n_trials"),
        ({"confidence": 1.0}, "confidence"),
        ({"score": lambda fitted: np.nan}, "NaN"),
        ({"claim": math.inf}, "epsilon=inf"),
        ({"threshold": 0.0, "score": lambda fitted: [1.0, 2.0]}, "scalar"),
    ],
)
def test_bad_input_is_named(change, match):
    arguments = {"neighbor": rows(first=-1.0), "n_trials": 100, **change}
    with pytest.raises(ValueError, match=match):
        audit(NoisySum(), rows(first=1.0), **arguments)


def test_labels_need_a_pair_as_neighbor():
    with pytest.raises(ValueError, match="pair"):
        audit(NoisySum(), rows(), [0, 1, 1], neighbor=rows())


def test_result_reads_pickles_and_compares():
    rng = np.random.default_rng(0)
    result = audit_scores(*rng.normal(size=(2, 100)), claim=1.0, threshold=0.0)
    assert pickle.loads(pickle.dumps(result)) == result
    assert isinstance(result, AuditResult)
    assert "not refuted" in repr(result)
    assert "claimed epsilon=1" in repr(result)


def test_one_run_catches_memory_and_spares_noise():
    rng = np.random.default_rng(0)
    X = np.eye(200)
    y = rng.integers(2, size=200)

    class Remembers(ClassifierMixin, BaseEstimator):
        """Votes per column, as a linear model on one-hot rows; noise of a given scale."""

        def __init__(self, scale=1e-3, random_state=None):
            self.scale = scale
            self.random_state = random_state

        def fit(self, X, y):
            noise = make_generator(self.random_state).laplace(scale=self.scale, size=X.shape[1])
            self.classes_ = np.array([0, 1])
            self.votes_ = (2 * y - 1) @ X + noise
            return self

        def decision_function(self, X):
            return X @ self.votes_

    def run(scale, claim, **how):
        return audit_one_run(
            Remembers(scale),
            X[:0],
            y[:0],
            canaries=(X, y),
            claim=claim,
            n_guesses=100,
            random_state=5,
            **how,
        )

    assert run(1e-3, 2.0).refuted
    assert run(1e-3, 2.0).epsilon_lower > 3.0
    assert not run(1.0, 1.0).refuted  # one vote and Laplace noise of scale 1
    flipped = {"alternatives": (X, 1 - y)}
    assert run(1e-3, (2.0, 1e-6), **flipped).refuted
    assert not run(2.0, 1.0, **flipped).refuted
    assert "guesses right" in repr(run(1.0, 1.0))
    with pytest.raises(ValueError, match="at least"):
        run(1.0, 8.0)
    with pytest.raises(ValueError, match="alternatives"):
        run(1.0, 1.0, alternatives=(X[:3], y[:3]))


def test_changed_rows_of_sparse_and_shortened_data():
    X = np.arange(8.0).reshape(4, 2)
    other = X.copy()
    other[2] = -1.0
    expected = [[-1.0, -1.0], [4.0, 5.0]]
    assert changed_rows(X, (), other, ()).tolist() == expected
    assert changed_rows(sparse.csr_array(X), (), sparse.csr_array(other), ()).tolist() == expected
    assert changed_rows(X, (), np.delete(X, 1, axis=0), ()).tolist() == [[2.0, 3.0]]
    assert changed_rows(X, ([0, 0, 0, 0],), X, ([0, 0, 1, 0],)).tolist() == [[4.0, 5.0]]


@pytest.mark.parametrize("name", neighbors.CLASSIFICATION_PAIRS)
def test_shipped_pairs_differ_in_one_record(name):
    pair = neighbors.CLASSIFICATION_PAIRS[name](7, 3)
    differ = np.any(pair.neighbor[0] != pair.X, axis=1) | (pair.y != pair.neighbor[1])
    assert differ.sum() == 1
    assert pair.params["classes"] == [0, 1]
    assert pair.reversed().neighbor[0] is pair.X


@pytest.mark.parametrize(
    "make",
    [
        neighbors.tiny,
        neighbors.far_bounds,
        neighbors.moved_event,
        neighbors.large_norm,
        neighbors.zeroed_record,
    ],
)
def test_special_pairs_differ_in_one_record(make):
    pair = make()
    differ = np.any(pair.neighbor[0] != pair.X, axis=1) | (pair.y != pair.neighbor[1])
    assert differ.sum() == 1


def test_antipodal_needs_a_second_axis():
    with pytest.raises(ValueError, match="n_features"):
        neighbors.antipodal(5, 1)


def test_a_curve_without_a_pure_epsilon_is_a_claim():
    rng = np.random.default_rng(0)
    result = audit_scores(
        rng.normal(size=4000), rng.normal(loc=3.0, size=4000), claim=GaussianDP(0.5), threshold=1.5
    )
    assert result.claim.delta == 1e-5
    assert result.claim.epsilon == pytest.approx(GaussianDP(0.5).epsilon_at(1e-5))
    assert "inf" not in str(result)
    assert result.refuted
