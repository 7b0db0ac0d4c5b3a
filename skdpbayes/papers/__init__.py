"""Formulas and algorithms as the papers print them, beside the tight ones of the package."""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "foulds2016": "barker_epsilon foulds2016_temperature random_scan_epsilon",
        "li2019": (
            "large_noise_mu li2019_moments_epsilon li2019_noise_multiplier li2019_step_range "
            "step_size_bound"
        ),
        "minami2016": (
            "LangevinSchedule hinge_hoeffding lmc_schedule lmc_total_variation minami2016_delta "
            "minami2016_hinge_power minami2016_mean_power pac_bayes_bound"
        ),
        "wang2015": (
            "HybridDraws LangevinNoise approximation_delta covariance_sensitivity "
            "free_step_size private_langevin_noise sgfs_noise_multiplier sghmc_noise_multiplier "
            "sgld_noise_multiplier update_noise_multiplier wald_test wang2015_fisher_scoring "
            "wang2015_hybrid wang2015_langevin wang2015_noise_multiplier "
            "wang2015_noise_variance wang2015_phase_steps wang2015_power"
        ),
    },
)
