from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import sklearn.metrics as exact
from scipy.special import expit
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from skdpbayes import PrivacyLedger
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.metrics import (
    Score,
    private_accuracy,
    private_brier_score,
    private_confusion_matrix,
    private_log_loss,
    private_mean_absolute_error,
    private_mean_squared_error,
    private_ranking,
    private_scorer,
)
from skdpbayes.metrics.scores import STEPS, _area, _half_width
from skdpbayes.privacy.budget import Noise
from skdpbayes.privacy.mechanisms.gdp import gdp_mu

ADJACENCIES = ("replace_one", "zero_out")


def records(n, seed, prevalence=0.3):
    """Labels with calibrated probabilities."""
    rng = np.random.default_rng(seed)
    scores = expit(rng.normal(np.log(prevalence / (1 - prevalence)), 1.2, n))
    return (rng.random(n) < scores).astype(int), scores


def test_without_privacy_the_scores_are_those_of_scikit_learn():
    y, p = records(2000, 0)
    labels, predicted = [0, 1], (p > 0.5).astype(int)
    free = {"epsilon": np.inf}
    assert float(private_accuracy(y, predicted, **free)) == exact.accuracy_score(y, predicted)
    table = private_confusion_matrix(y, predicted, labels=labels, **free)
    assert np.array_equal(table.counts, exact.confusion_matrix(y, predicted))
    assert table.recall(1).value == pytest.approx(exact.recall_score(y, predicted))
    assert table.precision(1).value == pytest.approx(exact.precision_score(y, predicted))
    assert table.accuracy().value == pytest.approx(exact.accuracy_score(y, predicted))
    loss = private_log_loss(y, p, labels=labels, min_probability=1e-6, **free)
    assert loss.value == pytest.approx(exact.log_loss(y, p), abs=1e-5)
    brier = private_brier_score(y, p, labels=labels, **free)
    assert brier.value == pytest.approx(exact.brier_score_loss(y, p), abs=1e-5)
    bounds = {"target_bounds": (0, 1), **free}
    squared = private_mean_squared_error(y, p, **bounds)
    assert squared.value == pytest.approx(exact.mean_squared_error(y, p), abs=1e-5)
    absolute = private_mean_absolute_error(y, p, **bounds)
    assert absolute.value == pytest.approx(exact.mean_absolute_error(y, p), abs=1e-5)
    assert private_ranking(y, p, **free).auc.value == pytest.approx(
        exact.roc_auc_score(y, p), abs=0.005
    )


def test_area_of_a_small_table_by_hand():
    ones, zeros = np.array([1.0, 2, 3, 4]) * 100, np.array([4.0, 3, 2, 1]) * 100
    area, error = _area(ones, zeros, 0.0, 0.5)
    assert area == pytest.approx(0.75)
    # The printed case with ten records has the standard error .1136881700, of which .0438748219 is
    # noise of deviation .5; sampling falls with the root of the size.
    sampling = math.sqrt(0.1136881700**2 - 0.0438748219**2)
    assert error == pytest.approx(sampling / 10.0, rel=1e-8)
    noisy = _area(ones, zeros, 5.0, 0.5)[1]
    assert noisy**2 == pytest.approx(error**2 + (0.0438748219 / 10.0) ** 2, rel=1e-8)


@pytest.mark.parametrize(("weight", "order"), [(2.0, 2), (1.0, 1)])
def test_no_pair_of_losses_is_further_apart_than_the_priced_unit(weight, order):
    losses = np.linspace(0.0, 1.0, 201)
    pairs = np.rint(STEPS * np.column_stack([losses, weight * losses * (1.0 - losses)]))
    apart = np.linalg.norm(pairs[:, None] - pairs[None], ord=order, axis=2)
    assert STEPS - 1 <= apart.max() <= STEPS + 2
    assert np.linalg.norm(pairs, ord=order, axis=1).max() <= STEPS + 2  # a record that goes


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_tables_move_as_little_as_is_priced(adjacency, delta, monkeypatch):
    """Catch the exact integers on the way to the noise and compare neighbors."""
    from skdpbayes import randomness

    caught = []

    def catch(generator, values, scale, noise):
        caught.append((np.array(values), scale, noise))
        return values

    monkeypatch.setattr(randomness, "release_counts", catch)
    budget = {"epsilon": 0.7, "delta": delta, "adjacency": adjacency}
    options = list(itertools.product([0, 1], [0.0, 0.02, 0.5, 0.97, 1.0]))

    def all_sums(rows):
        y, p = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
        caught.clear()
        guess = (p > 0.6).astype(int)
        private_accuracy(y, guess, **budget)
        private_confusion_matrix(y, guess, labels=[0, 1], **budget)
        private_log_loss(y, p, labels=[0, 1], **budget)
        private_brier_score(y, p, labels=[0, 1], **budget)
        private_mean_squared_error(y, p, target_bounds=(0, 1), **budget)
        with pytest.warns(PrivacyWarning):
            private_ranking(y, p, **budget)
        return list(caught)

    rest = [(0, 0.3), (1, 0.8)]
    largest = np.zeros(6)
    tables = [all_sums([option, *rest]) for option in options]
    if adjacency == "replace_one":
        neighbors = list(itertools.combinations(tables, 2))
    else:  # the record adds nothing to any sum
        without = all_sums(rest)
        neighbors = [(table, without) for table in tables]
    for one, other in neighbors:
        for k, ((a, scale, noise), (b, _, _)) in enumerate(zip(one, other, strict=True)):
            order = 1 if noise == "laplace" else 2
            moved = np.linalg.norm(a - b, ord=order)
            # of Laplace noise the loss itself; of Gaussian noise, the separation
            largest[k] = max(largest[k], moved / scale)
    bound = 0.7 if delta == 0.0 else gdp_mu(0.7, 1e-5)
    # exact prices of integer noise differ a little from that of the continuous one
    assert largest == pytest.approx(bound, rel=2e-3 if delta else 1e-5)


@pytest.mark.parametrize(("epsilon", "n"), [(0.1, 4000), (1.0, 500)])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_intervals_cover(epsilon, n, delta):
    y, p = records(400_000, 1)
    truth = {
        "accuracy": exact.accuracy_score(y, p > 0.5),
        "recall": exact.recall_score(y, p > 0.5),
        "log loss": exact.log_loss(y, p),
        "brier": exact.brier_score_loss(y, p),
        "auc": exact.roc_auc_score(y, p),
    }
    hits = dict.fromkeys(truth, 0)
    repetitions = 200
    rng = np.random.default_rng(7)
    for seed in range(repetitions):
        rows = rng.integers(0, y.shape[0], n)
        budget = {"epsilon": epsilon, "delta": delta, "random_state": seed}
        table = private_confusion_matrix(y[rows], p[rows] > 0.5, labels=[0, 1], **budget)
        found = {
            "accuracy": private_accuracy(y[rows], p[rows] > 0.5, **budget),
            "recall": table.recall(1),
            "log loss": private_log_loss(y[rows], p[rows], labels=[0, 1], **budget),
            "brier": private_brier_score(y[rows], p[rows], labels=[0, 1], **budget),
            "auc": private_ranking(y[rows], p[rows], **budget).auc,
        }
        for name, score in found.items():
            low, high = score.interval
            hits[name] += low <= truth[name] <= high
    for name, hit in hits.items():  # 90 % promised; a binomial has a deviation of 2.1 %
        assert 0.83 <= hit / repetitions <= 0.985, (name, hit / repetitions)


def test_width_of_normal_plus_laplace_by_simulation():
    rng = np.random.default_rng(0)
    draws = rng.normal(0, 0.3, 10**6) + rng.laplace(0, 0.5, 10**6)
    for level in (0.5, 0.9, 0.99):
        half = _half_width(level, 0.09, Noise("laplace", 5.0), 0.1)
        assert np.mean(np.abs(draws) <= half) == pytest.approx(level, abs=0.002)


def test_calibration_and_curve_follow_from_the_table():
    y, p = records(50_000, 3)
    ranking = private_ranking(y, p, epsilon=1.0, random_state=0)
    false, true = ranking.curve()
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert np.all(np.diff(false) >= 0)
    assert np.trapezoid(true, false) == pytest.approx(ranking.auc.value, abs=0.02)
    bins = ranking.calibration()
    inside = (p >= bins["score_low"][3]) & (p < bins["score_high"][3])
    assert bins["share"][3] == pytest.approx(y[inside].mean(), abs=0.02)
    assert np.all(bins["interval"][:, 0] <= bins["share"])
    np.testing.assert_array_equal(bins["score_low"][1:], bins["score_high"][:-1])


def test_ledger_is_charged_once_and_not_for_bad_input(tmp_path):
    ledger = PrivacyLedger(tmp_path / "l.sqlite", epsilon=1.0, delta=0.0)
    with pytest.raises(ValueError, match="labels"):
        private_confusion_matrix([0, 2], [0, 1], labels=[0, 1], epsilon=0.4, ledger=ledger)
    with pytest.raises(ValueError, match="epsilon"):
        private_accuracy([0], [0], epsilon=0.0, ledger=ledger)
    assert ledger.spent().epsilon == 0.0
    private_accuracy([0, 1], [0, 0], epsilon=0.4, ledger=ledger)
    assert ledger.spent().epsilon == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: private_accuracy([], []), "empty"),
        (lambda: private_log_loss([0], [0.1, 0.2, 0.7], labels=[0, 1, 2]), "one column per label"),
        (lambda: private_log_loss([0], [1.4], labels=[0, 1]), "between 0 and 1"),
        (lambda: private_log_loss([0], [0.4], labels=[0]), "at least two"),
        (lambda: private_ranking([0, 1], [-3.0, 2.0]), "expit"),
        (lambda: private_mean_squared_error([0], [1], target_bounds=(1, 0)), "target_bounds"),
        # a width that overflows would make losses no numbers, and sums of them huge integers
        (lambda: private_mean_absolute_error([0], [1], target_bounds=(-1e308, 1e308)), "1e50"),
        (lambda: private_mean_squared_error([0], [1], target_bounds=(0, 1e160)), "1e50"),
        (lambda: private_accuracy([0, 1], [0]), "inconsistent"),
        (lambda: private_accuracy([0], [0], adjacency="none"), "adjacency"),
        (lambda: private_accuracy([0], [0], level=1.0), "level"),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_scorers_work_in_a_search():
    X, y = make_classification(n_samples=600, random_state=0)
    grid = {"C": [1e-4, 1.0]}
    for metric, extra in [
        (private_accuracy, {}),
        (private_ranking, {"response": "predict_proba"}),
        (private_log_loss, {"response": "predict_proba", "labels": [0, 1]}),
    ]:
        scorer = private_scorer(metric, epsilon=50.0, random_state=0, **extra)
        search = GridSearchCV(LogisticRegression(), grid, scoring=scorer, cv=3).fit(X, y)
        assert search.best_params_ == {"C": 1.0}


def test_a_score_prints_itself():
    score = private_accuracy([0, 1] * 50, [0, 1] * 50, epsilon=np.inf)
    assert isinstance(score, Score)
    assert str(score).startswith("accuracy 1 (90% interval")
