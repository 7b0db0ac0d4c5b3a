"""Likelihoods, gradients and counts: functions of arrays that know nothing of privacy.

A submodule loads at first use.
"""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "clipped_network_gradient": "mlp",
        "network_layers": "mlp",
        "network_logits": "mlp",
        "network_size": "mlp",
        "squared_row_lengths": "mlp",
        "clipped_linear_gradient": "minibatch",
        "BatchSteps": "minibatch_chain",
        "langevin_batch_steps": "minibatch_chain",
        "compact_rows": "rows",
        "quadratic_row_lengths": "rows",
        "second_moments": "rows",
        "sum_unit": "minibatch",
        "chain_log_likelihood": "hmm",
        "count_emissions": "hmm",
        "count_events": "hmm",
        "count_log_likelihood": "hmm",
        "field_starts": "hmm",
        "log_emissions": "hmm",
        "single_event_log_likelihood": "hmm",
        "smooth_states": "hmm",
        "chain_gradient": "linear_chains",
        "chain_loss": "linear_chains",
        "GRID": "counts",
        "NaiveBayesLayout": "naive_bayes",
        "add_table_scores": "naive_bayes",
        "average_probability": "naive_bayes",
        "clip_tokens": "counts",
        "count_categories": "counts",
        "count_ones": "counts",
        "count_tokens": "counts",
        "linear_logits": "linear",
        "logistic_gradient": "linear",
        "logistic_hessian": "linear",
        "logistic_loss": "linear",
        "moment_offset": "naive_bayes",
        "smooth_hinge_gradient": "linear",
        "smooth_hinge_hessian": "linear",
        "smooth_hinge_loss": "linear",
        "softmax_gradient": "linear",
        "softmax_hessian": "linear",
        "softmax_loss": "linear",
        "sum_moments": "counts",
        "summation_length": "linear",
        "wrong_code": "naive_bayes",
    },
)
