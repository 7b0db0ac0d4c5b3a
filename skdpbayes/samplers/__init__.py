"""Markov chains, exact draws and minimizers: functions that are told the gradient and the noise.

A submodule loads at first use.
"""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "diagnostics": "effective_sample_size split_r_hat",
        "hmc": "HMCState StepSizeState drift_in_ball hmc_init hmc_step tune_step_size",
        "hmm_gibbs": "count_transitions normalize_gammas sample_states_ffbs sweep_states_collapsed",
        "label_switching": "match_states relabel_draws state_frequencies",
        "langevin": "langevin_chain langevin_step project_to_ball",
        "log_concave": "sample_log_concave",
        "newton": "minimize_lbfgs minimize_newton",
        "noisy_emissions": "move_emissions pair_values",
        "noisy_likelihood": "NoisyPoissonLikelihood",
        "noisy_moments": "sample_noisy_moments",
        "noisy_rates": "sample_noisy_rates",
        "noisy_regression": "noisy_regression_log_density sample_noisy_regression",
        "noisy_rejection": "reject_poisson_counts",
        "noisy_tables": "noise_log_pmf sample_noisy_tables",
        "rejection": "envelope_gap keep_proposals log_expected_tries",
        "sgfs": "sgfs_preconditioner sgfs_step",
        "sghmc": "SGHMCState sghmc_step",
        "sgld": "sgld_step",
        "sgnht": "SGNHTState sgnht_init sgnht_step",
        "truncated_dirichlet": (
            "MAX_GRID_VALUES sample_dirichlet_on_grid sample_truncated_dirichlet"
        ),
        "truncated_pairs": "pair_log_odds propose_log_odds",
    },
)
