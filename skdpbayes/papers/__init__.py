"""Formulas and algorithms as the papers print them, beside the tight ones of the package."""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "HybridDraws": "wang2015",
        "LangevinNoise": "wang2015",
        "LangevinSchedule": "minami2016",
        "approximation_delta": "wang2015",
        "barker_epsilon": "foulds2016",
        "covariance_sensitivity": "wang2015",
        "foulds2016_temperature": "foulds2016",
        "free_step_size": "wang2015",
        "hinge_hoeffding": "minami2016",
        "large_noise_mu": "li2019",
        "li2019_moments_epsilon": "li2019",
        "li2019_noise_multiplier": "li2019",
        "li2019_step_range": "li2019",
        "lmc_schedule": "minami2016",
        "lmc_total_variation": "minami2016",
        "minami2016_delta": "minami2016",
        "minami2016_hinge_power": "minami2016",
        "minami2016_mean_power": "minami2016",
        "pac_bayes_bound": "minami2016",
        "private_langevin_noise": "wang2015",
        "random_scan_epsilon": "foulds2016",
        "sgfs_noise_multiplier": "wang2015",
        "sghmc_noise_multiplier": "wang2015",
        "sgld_noise_multiplier": "wang2015",
        "step_size_bound": "li2019",
        "update_noise_multiplier": "wang2015",
        "wald_test": "wang2015",
        "wang2015_fisher_scoring": "wang2015",
        "wang2015_hybrid": "wang2015",
        "wang2015_langevin": "wang2015",
        "wang2015_noise_multiplier": "wang2015",
        "wang2015_noise_variance": "wang2015",
        "wang2015_phase_steps": "wang2015",
        "wang2015_power": "wang2015",
    },
)
