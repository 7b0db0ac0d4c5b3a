"""Markov chains, exact draws and minimizers: functions that are told the gradient and the noise.

A submodule loads at first use.
"""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "SGHMCState": "sghmc",
        "sgfs_preconditioner": "sgfs",
        "sgfs_step": "sgfs",
        "sghmc_step": "sghmc",
        "sgld_step": "sgld",
        "NoisyPoissonLikelihood": "noisy_likelihood",
        "count_transitions": "hmm_gibbs",
        "match_states": "label_switching",
        "move_emissions": "noisy_emissions",
        "pair_values": "noisy_emissions",
        "normalize_gammas": "hmm_gibbs",
        "pair_log_odds": "truncated_pairs",
        "propose_log_odds": "truncated_pairs",
        "reject_poisson_counts": "noisy_rejection",
        "relabel_draws": "label_switching",
        "sample_states_ffbs": "hmm_gibbs",
        "state_frequencies": "label_switching",
        "sweep_states_collapsed": "hmm_gibbs",
        "HMCState": "hmc",
        "SGNHTState": "sgnht",
        "StepSizeState": "hmc",
        "drift_in_ball": "hmc",
        "effective_sample_size": "diagnostics",
        "envelope_gap": "rejection",
        "hmc_init": "hmc",
        "hmc_step": "hmc",
        "keep_proposals": "rejection",
        "langevin_chain": "langevin",
        "langevin_step": "langevin",
        "log_expected_tries": "rejection",
        "project_to_ball": "langevin",
        "sgnht_init": "sgnht",
        "sgnht_step": "sgnht",
        "split_r_hat": "diagnostics",
        "tune_step_size": "hmc",
        "minimize_lbfgs": "newton",
        "minimize_newton": "newton",
        "noise_log_pmf": "noisy_tables",
        "sample_noisy_tables": "noisy_tables",
        "sample_log_concave": "log_concave",
        "noisy_regression_log_density": "noisy_regression",
        "sample_noisy_rates": "noisy_rates",
        "sample_noisy_regression": "noisy_regression",
        "sample_noisy_moments": "noisy_moments",
        "MAX_GRID_VALUES": "truncated_dirichlet",
        "sample_dirichlet_on_grid": "truncated_dirichlet",
        "sample_truncated_dirichlet": "truncated_dirichlet",
    },
)
