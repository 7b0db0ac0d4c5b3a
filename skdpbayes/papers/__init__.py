"""Formulas as the papers print them, beside the tight ones of ``skdpbayes.privacy``."""

from skdpbayes.papers.approximate_sampling import (
    LangevinSchedule,
    approximation_delta,
    lmc_schedule,
    lmc_total_variation,
)
from skdpbayes.papers.sgmcmc import (
    LangevinNoise,
    free_step_size,
    large_noise_mu,
    private_langevin_noise,
    sgfs_noise_multiplier,
    sghmc_noise_multiplier,
    sgld_noise_multiplier,
    sgnht_noise_multiplier,
    update_noise_multiplier,
)
from skdpbayes.papers.sgmcmc_published import (
    li2019_noise_multiplier,
    li2019_step_range,
    wang2015_noise_multiplier,
    wang2015_noise_variance,
)
from skdpbayes.papers.step_sizes import step_size_bound

__all__ = [
    "LangevinNoise",
    "LangevinSchedule",
    "approximation_delta",
    "free_step_size",
    "large_noise_mu",
    "li2019_noise_multiplier",
    "li2019_step_range",
    "lmc_schedule",
    "lmc_total_variation",
    "private_langevin_noise",
    "sgfs_noise_multiplier",
    "sghmc_noise_multiplier",
    "sgld_noise_multiplier",
    "sgnht_noise_multiplier",
    "step_size_bound",
    "update_noise_multiplier",
    "wang2015_noise_multiplier",
    "wang2015_noise_variance",
]
