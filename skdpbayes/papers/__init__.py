"""Formulas and algorithms as the papers print them, beside the tight ones of the package."""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "LangevinNoise": "sgmcmc",
        "LangevinSchedule": "approximate_sampling",
        "approximation_delta": "approximate_sampling",
        "barker_epsilon": "foulds2016",
        "covariance_sensitivity": "wang2015",
        "foulds2016_temperature": "foulds2016",
        "free_step_size": "sgmcmc",
        "hinge_hoeffding": "minami2016",
        "large_noise_mu": "sgmcmc",
        "li2019_moments_epsilon": "sgmcmc_published",
        "li2019_noise_multiplier": "sgmcmc_published",
        "li2019_step_range": "sgmcmc_published",
        "lmc_schedule": "approximate_sampling",
        "lmc_total_variation": "approximate_sampling",
        "minami2016_delta": "minami2016",
        "minami2016_hinge_power": "minami2016",
        "minami2016_mean_power": "minami2016",
        "pac_bayes_bound": "minami2016",
        "private_langevin_noise": "sgmcmc",
        "random_scan_epsilon": "foulds2016",
        "sgfs_noise_multiplier": "sgmcmc",
        "sghmc_noise_multiplier": "sgmcmc",
        "sgld_noise_multiplier": "sgmcmc",
        "sgnht_noise_multiplier": "sgmcmc",
        "step_size_bound": "step_sizes",
        "update_noise_multiplier": "sgmcmc",
        "wang2015_fisher_scoring": "wang2015",
        "wang2015_langevin": "wang2015",
        "wang2015_noise_multiplier": "sgmcmc_published",
        "wang2015_noise_variance": "sgmcmc_published",
        "wang2015_phase_steps": "wang2015",
        "wang2015_power": "wang2015",
    },
)
