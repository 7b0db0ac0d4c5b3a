"""Scores of predicted probabilities; the peers' scripts import this, so numpy and sklearn only."""

from __future__ import annotations

import time

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

METRICS = ("accuracy", "auc", "log_loss", "calibration_error", "seconds")


def calibration_error(y_test, probability, n_bins=15):
    """Return the mean distance of frequency and probability over bins of equally many rows."""
    order = np.argsort(probability, kind="stable")
    distances = [
        len(rows) * abs(np.mean(y_test[rows] == 1) - np.mean(probability[rows]))
        for rows in np.array_split(order, n_bins)
    ]
    return float(sum(distances) / len(order))


def scores(y_test, probability):
    """Return accuracy, AUC, log loss and calibration error of the probabilities of class 1."""
    probability = np.clip(np.asarray(probability, dtype=np.float64), 1e-12, 1 - 1e-12)
    return {
        "accuracy": float(np.mean((probability > 0.5) == (y_test == 1))),
        "auc": float(roc_auc_score(y_test, probability)),
        "log_loss": float(log_loss(y_test, probability)),
        "calibration_error": calibration_error(y_test, probability),
    }


def summarize(runs):
    """Return mean, deviation and number of runs of every score; the median of the seconds."""
    table = {name: np.array([run[name] for run in runs]) for name in METRICS}
    row = {name: round(float(values.mean()), 5) for name, values in table.items()}
    row["seconds"] = round(float(np.median(table["seconds"])), 4)
    row["accuracy_sd"] = round(float(table["accuracy"].std(ddof=1)) if len(runs) > 1 else 0.0, 5)
    row["n_seeds"] = len(runs)
    return row


def timed(function, *arguments):
    """Return what the function returns and the processor seconds that it took."""
    start = time.process_time()
    value = function(*arguments)
    return value, time.process_time() - start


def tuning_split(n_rows, seed=0):
    """Return the rows to fit and the rows to score while tuning: 80/20, another for each seed."""
    order = np.random.default_rng(seed).permutation(n_rows)
    cut = int(0.8 * n_rows)
    return order[:cut], order[cut:]
