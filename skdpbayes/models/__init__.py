"""Likelihoods, gradients and counts: functions of arrays that know nothing of privacy.

A submodule loads at first use.
"""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "add_clipped_records": "record_gradients",
        "Grid": "exact_sums",
        "PLAIN_SUM": "exact_sums",
        "SpikedMatrix": "exact_sums",
        "row_keys": "exact_sums",
        "absolute_errors": "exact_sums",
        "clipped_gradient": "exact_sums",
        "clipped_integers": "clipped_rows",
        "cut_rows": "exact_sums",
        "derivatives": "exact_sums",
        "moments": "exact_sums",
        "read_derivatives": "exact_sums",
        "read_errors": "exact_sums",
        "read_gradient": "exact_sums",
        "read_moments": "exact_sums",
        "row_lengths": "exact_sums",
        "HingeLoss": "losses",
        "HuberLoss": "losses",
        "LogisticLoss": "losses",
        "Loss": "losses",
        "PoissonLoss": "losses",
        "SmoothHingeLoss": "losses",
        "SoftmaxLoss": "losses",
        "SquaredLoss": "losses",
        "clipped_network_gradient": "mlp",
        "network_layers": "mlp",
        "network_logits": "mlp",
        "network_size": "mlp",
        "squared_row_lengths": "mlp",
        "sum_unit": "mlp",
        "chain_log_likelihood": "hmm",
        "count_emissions": "hmm",
        "count_events": "hmm",
        "count_log_likelihood": "hmm",
        "field_starts": "hmm",
        "log_emissions": "hmm",
        "single_event_log_likelihood": "hmm",
        "smooth_states": "hmm",
        "GRID": "counts",
        "NaiveBayesLayout": "naive_bayes",
        "add_table_scores": "naive_bayes",
        "average_probability": "naive_bayes",
        "clip_tokens": "counts",
        "count_categories": "counts",
        "count_ones": "counts",
        "count_tokens": "counts",
        "moment_offset": "naive_bayes",
        "sum_moments": "counts",
        "wrong_code": "naive_bayes",
    },
)
