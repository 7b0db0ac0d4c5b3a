"""Likelihoods, gradients and counts: functions of arrays that know nothing of privacy.

A submodule loads at first use.
"""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "clipped_rows": "clipped_integers",
        "counts": "GRID clip_tokens count_categories count_ones count_tokens sum_moments",
        "exact_sums": (
            "Grid PLAIN_SUM SpikedMatrix absolute_errors clipped_gradient cut_rows derivatives "
            "moments read_derivatives read_errors read_gradient read_moments row_keys "
            "row_lengths"
        ),
        "hmm": (
            "chain_log_likelihood count_emissions count_events count_log_likelihood "
            "field_starts log_emissions single_event_log_likelihood smooth_states"
        ),
        "losses": (
            "HingeLoss HuberLoss LogisticLoss Loss PoissonLoss SmoothHingeLoss SoftmaxLoss "
            "SquaredLoss"
        ),
        "mlp": (
            "clipped_network_gradient network_layers network_logits network_size "
            "squared_row_lengths sum_unit"
        ),
        "naive_bayes": (
            "NaiveBayesLayout add_table_scores average_probability moment_offset wrong_code"
        ),
        "record_gradients": "add_clipped_records",
    },
)
