"""Scores are releases: how good a model is on private records, under a budget.

A score on held-out records tells something about each of them, so it is released under noise as
everything else is. Every function returns the value, an interval that covers sampling *and* noise,
and the claim.
"""

from skdpbayes.metrics.scores import (
    Confusion,
    Ranking,
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

__all__ = [
    "Confusion",
    "Ranking",
    "Score",
    "private_accuracy",
    "private_brier_score",
    "private_confusion_matrix",
    "private_log_loss",
    "private_mean_absolute_error",
    "private_mean_squared_error",
    "private_ranking",
    "private_scorer",
]
