"""Privacy arithmetic: numbers in, numbers out; no data array is ever seen here."""

from skdpbayes.privacy.approximate_sampling import (
    LangevinSchedule,
    approximation_delta,
    lmc_schedule,
    lmc_total_variation,
)
from skdpbayes.privacy.bounded_range import (
    bounded_range_delta,
    bounded_range_epsilon,
    bounded_range_eta,
    bounded_range_rho,
    zcdp_delta,
    zcdp_rho,
)
from skdpbayes.privacy.calibration import (
    discrete_gaussian_scale,
    discrete_laplace_scale,
    gaussian_noise_multiplier,
    laplace_scale,
    smallest_noise,
    subsampled_noise_multiplier,
)
from skdpbayes.privacy.composition import Composed, Repeated, compose, repeat
from skdpbayes.privacy.discrete import DiscreteGaussian, DiscreteLaplace
from skdpbayes.privacy.events import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    NoPrivacy,
    PrivacyEvent,
    PureDP,
    event_from_dict,
)
from skdpbayes.privacy.exponential_mechanism import (
    exponential_mechanism_epsilon,
    exponential_mechanism_inverse_temperature,
    hinge_range,
    logistic_range,
    logit_bound,
    minami2016_mu,
    softmax_range,
    truncated_dirichlet_range,
    wang2015_inverse_temperature,
)
from skdpbayes.privacy.gdp import gdp_delta, gdp_epsilon, gdp_log_delta, gdp_mu
from skdpbayes.privacy.group import GroupOf, group
from skdpbayes.privacy.guarantee import Adjacency, PrivacyGuarantee
from skdpbayes.privacy.langevin import (
    langevin_inverse_temperature,
    langevin_mu,
    langevin_mu_samples,
    langevin_mu_varying,
    largest_langevin_step,
    ops_inverse_temperature,
)
from skdpbayes.privacy.langevin_minibatch import (
    FixedBatchParts,
    langevin_fixed_batch_epsilon,
    langevin_fixed_batch_parts,
    langevin_mu_cyclic,
)
from skdpbayes.privacy.laplace import LaplaceNoise
from skdpbayes.privacy.ledger import LedgerEntry, PrivacyLedger
from skdpbayes.privacy.loss_bounds import (
    gradient_sensitivity,
    logistic_gradient_gap,
    loss_curvature,
)
from skdpbayes.privacy.objective_calibration import (
    calibrate_objective,
    chaudhuri2011_scale,
    kifer2012_noise_multiplier,
    pure_objective_epsilon,
    pure_objective_scale,
    redberg2023_delta,
    redberg2023_noise_multiplier,
)
from skdpbayes.privacy.objective_perturbation import ObjectivePerturbation, largest_curvature
from skdpbayes.privacy.repetition import (
    negative_binomial_gamma,
    negative_binomial_mean,
    papernot_steinke_rdp,
    selection_coverage,
)
from skdpbayes.privacy.selection import AnyOf, BestOfRandomRuns, any_of
from skdpbayes.privacy.sgmcmc import (
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
from skdpbayes.privacy.sgmcmc_published import (
    li2019_noise_multiplier,
    li2019_step_range,
    wang2015_noise_multiplier,
    wang2015_noise_variance,
)
from skdpbayes.privacy.step_sizes import step_size_bound
from skdpbayes.privacy.subsampling import SubsampledGaussian, chain_event

__all__ = [
    "Adjacency",
    "AnyOf",
    "ApproximateDP",
    "BestOfRandomRuns",
    "BoundedRange",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "FixedBatchParts",
    "GaussianDP",
    "GroupOf",
    "LangevinNoise",
    "LangevinSchedule",
    "LaplaceNoise",
    "LedgerEntry",
    "NoPrivacy",
    "ObjectivePerturbation",
    "PrivacyEvent",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "PureDP",
    "Repeated",
    "SubsampledGaussian",
    "any_of",
    "approximation_delta",
    "bounded_range_delta",
    "bounded_range_epsilon",
    "bounded_range_eta",
    "bounded_range_rho",
    "calibrate_objective",
    "chain_event",
    "chaudhuri2011_scale",
    "compose",
    "discrete_gaussian_scale",
    "discrete_laplace_scale",
    "event_from_dict",
    "exponential_mechanism_epsilon",
    "exponential_mechanism_inverse_temperature",
    "free_step_size",
    "gaussian_noise_multiplier",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_log_delta",
    "gdp_mu",
    "gradient_sensitivity",
    "group",
    "hinge_range",
    "kifer2012_noise_multiplier",
    "langevin_fixed_batch_epsilon",
    "langevin_fixed_batch_parts",
    "langevin_inverse_temperature",
    "langevin_mu",
    "langevin_mu_cyclic",
    "langevin_mu_samples",
    "langevin_mu_varying",
    "laplace_scale",
    "large_noise_mu",
    "largest_curvature",
    "largest_langevin_step",
    "li2019_noise_multiplier",
    "li2019_step_range",
    "lmc_schedule",
    "lmc_total_variation",
    "logistic_gradient_gap",
    "logistic_range",
    "logit_bound",
    "loss_curvature",
    "minami2016_mu",
    "negative_binomial_gamma",
    "negative_binomial_mean",
    "ops_inverse_temperature",
    "papernot_steinke_rdp",
    "private_langevin_noise",
    "pure_objective_epsilon",
    "pure_objective_scale",
    "redberg2023_delta",
    "redberg2023_noise_multiplier",
    "repeat",
    "selection_coverage",
    "sgfs_noise_multiplier",
    "sghmc_noise_multiplier",
    "sgld_noise_multiplier",
    "sgnht_noise_multiplier",
    "smallest_noise",
    "softmax_range",
    "step_size_bound",
    "subsampled_noise_multiplier",
    "truncated_dirichlet_range",
    "update_noise_multiplier",
    "wang2015_inverse_temperature",
    "wang2015_noise_multiplier",
    "wang2015_noise_variance",
    "zcdp_delta",
    "zcdp_rho",
]
