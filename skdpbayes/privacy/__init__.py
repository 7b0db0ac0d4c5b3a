"""Privacy arithmetic: numbers in, numbers out; no data array is ever seen here."""

from skdpbayes.privacy.calibration import (
    discrete_gaussian_scale,
    discrete_laplace_scale,
    gaussian_noise_multiplier,
    smallest_noise,
    subsampled_noise_multiplier,
)
from skdpbayes.privacy.composition.composed import Composed, Repeated, compose, repeat
from skdpbayes.privacy.events import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    GaussianMixture,
    NoPrivacy,
    PrivacyEvent,
    PureDP,
    event_from_dict,
)
from skdpbayes.privacy.group import GroupOf, group
from skdpbayes.privacy.guarantee import Adjacency, PrivacyGuarantee
from skdpbayes.privacy.ledger.ledger import LedgerEntry, PrivacyLedger
from skdpbayes.privacy.mechanisms.bounded_range import (
    bounded_range_delta,
    bounded_range_epsilon,
    bounded_range_eta,
    bounded_range_rho,
    zcdp_delta,
)
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from skdpbayes.privacy.mechanisms.exponential_mechanism import (
    exponential_mechanism_epsilon,
    exponential_mechanism_inverse_temperature,
    logistic_range,
    minami2016_mu,
    softmax_range,
    truncated_dirichlet_range,
    wang2015_inverse_temperature,
)
from skdpbayes.privacy.mechanisms.gdp import gdp_delta, gdp_epsilon, gdp_log_delta, gdp_mu
from skdpbayes.privacy.mechanisms.langevin import (
    langevin_mu,
    largest_langevin_step,
    ops_inverse_temperature,
    ops_mu,
)
from skdpbayes.privacy.mechanisms.langevin_minibatch import (
    langevin_mu_cyclic,
)
from skdpbayes.privacy.mechanisms.laplace import LaplaceNoise
from skdpbayes.privacy.mechanisms.loss_bounds import (
    gradient_sensitivity,
    logistic_gradient_gap,
    softmax_gradient_norm,
)
from skdpbayes.privacy.mechanisms.objective_calibration import (
    calibrate_objective,
    chaudhuri2011_scale,
    kifer2012_noise_multiplier,
    pure_objective_epsilon,
    pure_objective_scale,
    redberg2023_delta,
    redberg2023_noise_multiplier,
)
from skdpbayes.privacy.mechanisms.objective_persons import (
    PersonsObjectivePerturbation,
    calibrate_objective_of_persons,
)
from skdpbayes.privacy.mechanisms.objective_perturbation import (
    ObjectivePerturbation,
    largest_curvature,
)
from skdpbayes.privacy.mechanisms.repetition import (
    negative_binomial_gamma,
    negative_binomial_mean,
    papernot_steinke_rdp,
    selection_coverage,
)
from skdpbayes.privacy.mechanisms.selection import AnyOf, BestOfRandomRuns, any_of
from skdpbayes.privacy.mechanisms.subsampling import SubsampledGaussian, chain_event

__all__ = [
    "Adjacency",
    "AnyOf",
    "ApproximateDP",
    "BestOfRandomRuns",
    "BoundedRange",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "GaussianDP",
    "GaussianMixture",
    "GroupOf",
    "LaplaceNoise",
    "LedgerEntry",
    "NoPrivacy",
    "ObjectivePerturbation",
    "PersonsObjectivePerturbation",
    "PrivacyEvent",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "PureDP",
    "Repeated",
    "SubsampledGaussian",
    "any_of",
    "bounded_range_delta",
    "bounded_range_epsilon",
    "bounded_range_eta",
    "bounded_range_rho",
    "calibrate_objective",
    "calibrate_objective_of_persons",
    "chain_event",
    "chaudhuri2011_scale",
    "compose",
    "discrete_gaussian_scale",
    "discrete_laplace_scale",
    "event_from_dict",
    "exponential_mechanism_epsilon",
    "exponential_mechanism_inverse_temperature",
    "gaussian_noise_multiplier",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_log_delta",
    "gdp_mu",
    "gradient_sensitivity",
    "group",
    "kifer2012_noise_multiplier",
    "langevin_mu",
    "langevin_mu_cyclic",
    "largest_curvature",
    "largest_langevin_step",
    "logistic_gradient_gap",
    "logistic_range",
    "minami2016_mu",
    "negative_binomial_gamma",
    "negative_binomial_mean",
    "ops_inverse_temperature",
    "ops_mu",
    "papernot_steinke_rdp",
    "pure_objective_epsilon",
    "pure_objective_scale",
    "redberg2023_delta",
    "redberg2023_noise_multiplier",
    "repeat",
    "selection_coverage",
    "smallest_noise",
    "softmax_gradient_norm",
    "softmax_range",
    "subsampled_noise_multiplier",
    "truncated_dirichlet_range",
    "wang2015_inverse_temperature",
    "zcdp_delta",
]
