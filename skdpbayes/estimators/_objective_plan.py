"""Public numbers of a private logistic regression: penalty, noise scales, tolerance, price."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skdpbayes import privacy, randomness
from skdpbayes.estimators._objective_problem import (
    UNIT_ROUNDOFF,
    Problem,
    coefficient_bound,
    tolerance_of,
)
from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy.events import NoPrivacy, PrivacyEvent

__all__ = [
    "CALIBRATIONS",
    "METHODS",
    "Plan",
    "automatic_C",
    "curvature_limit",
    "make_plan",
    "parts_of_epsilon",
]

CALIBRATIONS = ("tight", "chaudhuri2011", "kifer2012", "redberg2023")
METHODS = ("objective", "output")
# Share of the squared budget (see `parts_of_epsilon`) that hides the optimizer's last digits
OUTPUT_SHARE = 0.001
# Measured on public data at a record norm of sqrt(2) and coef_norm 10; see `automatic_C`
NOISE_POWER, TILT_PENALTY, OUTPUT_PENALTY = 1.4, 0.44, 2.0
NORM_GUESS = 10.0 * math.sqrt(2.0)


@dataclass(frozen=True)
class Plan:
    """Everything ``fit`` needs to know, from public numbers only; a scale of 0 means no noise."""

    penalty: float
    pure: bool  # densities exp(-|b|/s) and exp(-|x|/s) instead of Gaussian ones
    tilt_scale: float  # of the random linear term b
    blur_scale: float  # of the noise on the minimizer in output perturbation
    release_scale: float  # of the grid noise that ends the release of the minimizer
    information_scale: float  # of the grid noise on the Fisher information
    tolerance: float  # gradient norm of the computed minimizer
    radius: float  # longer minimizers are scaled back
    tilt_norm: float  # no larger tilt is expected, ever: 12 standard deviations
    event: PrivacyEvent
    n_parameters: int
    two_orthants: bool = False  # the density of a pure b is that of `two_orthant_noise`

    @property
    def main_scale(self) -> float:
        """Scale of the noise that makes the coefficients private."""
        return self.tilt_scale or self.blur_scale or self.release_scale

    @property
    def tilt_variance(self) -> float:
        """Variance of one entry of b."""
        if self.two_orthants:
            return self.tilt_scale**2 * randomness.two_orthant_moments(self.n_parameters)[0]
        return self._variance(self.tilt_scale)

    @property
    def tilt_covariance(self) -> float:
        """Covariance of two entries of b."""
        if self.two_orthants:
            return self.tilt_scale**2 * randomness.two_orthant_moments(self.n_parameters)[1]
        return 0.0

    @property
    def blur_variance(self) -> float:
        """Variance of one entry of all noise added to the minimizer."""
        grid = (2.0 if self.pure else 1.0) * self.release_scale**2
        return self._variance(self.blur_scale) + grid

    @property
    def information_deviation(self) -> float:
        """Standard deviation of the noise on the information's diagonal."""
        return (math.sqrt(2.0) if self.pure else 1.0) * self.information_scale

    def _variance(self, scale: float) -> float:
        # |b| ~ Gamma(d, s) has E|b|^2 = d (d + 1) s^2, spread evenly over d entries
        return scale**2 * (self.n_parameters + 1.0 if self.pure else 1.0)


def automatic_C(problem: Problem, method: str, calibration: str, coef_norm: float) -> float:
    r"""Return the default C, from public numbers only.

    Noise of scale :math:`\sigma` in each of :math:`p` coefficients is held down by a penalty of

    .. math:: \lambda = 6.2\,(R/B)\,\sqrt p\,(\sigma/R)^{1.4}\, n^{-0.4},

    B being a guess of the coefficients' norm. The power 1.4 and the constant are measured on public
    data (see the user guide); that of n follows, because only :math:`\lambda/n` and
    :math:`\sigma/n` matter. Noise itself grows when the penalty shrinks, by the determinant's share
    of the budget, so the answer is the penalty that agrees with its own noise. Output perturbation
    needs a penalty in proportion to its noise instead. A margin m makes coefficients larger, which
    :math:`2^{-m/2}` times the penalty allows (measured too, for m up to 4).
    """
    if math.isinf(problem.epsilon):
        return coef_norm**2 / problem.n_parameters
    free_noise = _free_noise(problem, _has_two_orthants(problem, method, calibration))
    guess = NORM_GUESS / (problem.record_norm * coef_norm) * 2.0 ** (-0.5 * problem.margin)
    if method == "output":
        return 1.0 / (OUTPUT_PENALTY * free_noise * problem.record_norm * guess)
    rank = problem.n_classes - 1
    share = 0.25 if problem.n_classes == 2 else 1.0 / problem.n_classes

    def wanted(penalty: float) -> float:
        determinant = rank * math.log1p(share * problem.record_norm**2 / penalty)
        left = 1.0 - determinant / problem.epsilon
        if left <= 0.0:
            return math.inf
        noise = free_noise / left / problem.record_norm
        size = TILT_PENALTY * problem.record_norm**2 * math.sqrt(problem.n_parameters) * guess
        return size * noise**NOISE_POWER * problem.n_samples ** (1.0 - NOISE_POWER)

    low, high = 1e-9, 1e12
    if calibration in ("kifer2012", "redberg2023"):
        low = 1.5 * problem.record_norm**2 / curvature_limit(problem, calibration, 0.0)
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if wanted(middle) > middle else (low, middle)
    return 1.0 / high


def curvature_limit(problem: Problem, calibration: str, inference_budget: float) -> float:
    """Return the curvature R^2 C that the calibration must stay below."""
    epsilon = problem.epsilon
    if calibration == "kifer2012":
        return 2.0 * epsilon * (1.0 + 1e-12)
    if calibration == "redberg2023":
        return -4.0 * math.expm1(-epsilon)
    if problem.delta == 0.0:
        epsilon -= sum(parts_of_epsilon(epsilon, inference_budget))
    return privacy.largest_curvature(min(epsilon, 100.0), problem.n_classes)


def _has_two_orthants(problem: Problem, method: str, calibration: str) -> bool:
    """Whether the density of a pure tilt follows the signs of the gradients.

    Minimizers, which output perturbation blurs, move in any direction, and published calibrations
    come with their own noise.
    """
    tight = method == "objective" and calibration == "tight"
    return tight and problem.delta == 0.0 and problem.one_signed


def _free_noise(problem: Problem, two_orthants: bool) -> float:
    """Standard deviation of one entry of the tilt if the determinant cost nothing."""
    distance = problem.shift * problem.gradient_norm
    if two_orthants:
        variance = randomness.two_orthant_moments(problem.n_parameters)[0]
        return distance * math.sqrt(variance) / problem.epsilon
    if problem.delta == 0.0:
        return distance * math.sqrt(problem.n_parameters + 1.0) / problem.epsilon
    return distance / privacy.gdp_mu(min(problem.epsilon, 100.0), problem.delta)


def make_plan(
    problem: Problem, *, C: float, method: str, calibration: str, inference_budget: float
) -> Plan:
    """Turn a budget into noise scales; raise `CalibrationError` where no noise is enough."""
    penalty = 1.0 / C
    if math.isinf(problem.epsilon):
        exact = tolerance_of(problem, penalty, 0.0, free=True)
        return Plan(
            penalty, False, 0.0, 0.0, 0.0, 0.0, *exact, 0.0, NoPrivacy(), problem.n_parameters
        )
    if problem.delta == 0.0:
        return _pure_plan(problem, penalty, method, calibration, inference_budget)
    return _gaussian_plan(problem, penalty, method, calibration, inference_budget)


def _gaussian_plan(
    problem: Problem, penalty: float, method: str, calibration: str, inference_budget: float
) -> Plan:
    if method == "output":
        mu = privacy.gdp_mu(problem.epsilon, problem.delta)
        tolerance, radius = tolerance_of(problem, penalty, 0.0)
        sensitivity = (problem.shift * problem.gradient_norm + 2.0 * tolerance) / penalty
        return Plan(
            penalty=penalty,
            pure=False,
            tilt_scale=0.0,
            blur_scale=0.0,
            release_scale=_gaussian_scale(
                mu * math.sqrt(1.0 - inference_budget), sensitivity, problem.n_parameters
            ),
            information_scale=_information_scale(problem, mu * math.sqrt(inference_budget)),
            tolerance=tolerance,
            radius=radius,
            tilt_norm=0.0,
            event=privacy.GaussianDP(mu),
            n_parameters=problem.n_parameters,
        )
    event = _objective_event(problem, penalty, calibration, OUTPUT_SHARE + inference_budget)
    tilt_scale = event.noise_multiplier * problem.gradient_norm
    tilt_norm = tilt_scale * (math.sqrt(problem.n_parameters) + 12.0)
    tolerance, radius = tolerance_of(problem, penalty, tilt_norm)
    total = OUTPUT_SHARE + inference_budget
    return Plan(
        penalty=penalty,
        pure=False,
        tilt_scale=tilt_scale,
        blur_scale=0.0,
        release_scale=_gaussian_scale(
            event.side_mu * math.sqrt(OUTPUT_SHARE / total),
            2.0 * tolerance / penalty,
            problem.n_parameters,
        ),
        information_scale=_information_scale(
            problem, event.side_mu * math.sqrt(inference_budget / total)
        ),
        tolerance=tolerance,
        radius=radius,
        tilt_norm=tilt_norm,
        event=event,
        n_parameters=problem.n_parameters,
    )


def _objective_event(
    problem: Problem, penalty: float, calibration: str, side_share: float
) -> privacy.ObjectivePerturbation:
    """Noise of the chosen calibration, with as much of `side_share` as it leaves room for."""
    epsilon, delta = problem.epsilon, problem.delta
    curvature = problem.record_norm**2 / penalty
    if calibration == "tight":
        return privacy.calibrate_objective(
            epsilon,
            delta,
            curvature=curvature,
            adjacency=problem.adjacency,
            n_classes=problem.n_classes,
            side_share=side_share,
        )
    published = {
        "kifer2012": privacy.kifer2012_noise_multiplier,
        "redberg2023": privacy.redberg2023_noise_multiplier,
    }[calibration]
    noise = published(epsilon, delta, curvature=curvature, adjacency=problem.adjacency)
    side_mu = math.sqrt(side_share) * privacy.gdp_mu(epsilon, delta)
    for _ in range(60):  # published noise is larger than needed: what is left pays for the rest
        event = privacy.ObjectivePerturbation(noise, curvature, problem.adjacency, side_mu)
        if event.delta_at(epsilon) <= delta:
            return event
        side_mu *= 0.8
    raise CalibrationError(f"{calibration} leaves no budget for releasing its minimizer")


def _pure_plan(
    problem: Problem, penalty: float, method: str, calibration: str, inference_budget: float
) -> Plan:
    epsilon = problem.epsilon
    shares = parts_of_epsilon(epsilon, inference_budget)
    tilt_scale = blur_scale = 0.0
    if method == "output":
        main = epsilon - sum(shares)
        blur_scale = problem.shift * problem.gradient_norm / (penalty * main)
    else:
        multiplier, penalty, left = _pure_objective(problem, penalty, calibration, sum(shares))
        tilt_scale = multiplier * problem.gradient_norm
        shares = [share * left / sum(shares) for share in shares]
    size = problem.n_parameters
    # of a noise vector's norm over its scale: Gamma(size) for both densities
    largest = size + 12.0 * math.sqrt(size) + 80.0
    tilt_norm = tilt_scale * largest
    tolerance, radius = tolerance_of(problem, penalty, tilt_norm)
    error = tolerance / penalty
    if blur_scale > 0.0:  # minimizer and noise are added in double precision
        error += UNIT_ROUNDOFF * (coefficient_bound(problem, penalty, 0.0) + blur_scale * largest)
    return Plan(
        penalty=penalty,
        pure=True,
        tilt_scale=tilt_scale,
        blur_scale=blur_scale,
        release_scale=_laplace_scale(shares[0], 2.0 * error, size),
        information_scale=_information_scale(problem, shares[1], pure=True),
        tolerance=tolerance,
        radius=radius,
        tilt_norm=tilt_norm,
        event=privacy.PureDP(epsilon),
        n_parameters=size,
        two_orthants=_has_two_orthants(problem, method, calibration),
    )


def parts_of_epsilon(epsilon: float, inference_budget: float) -> list[float]:
    """Split a pure epsilon so that shares weigh as they do on squared mu.

    Whether pure or Gaussian, a share f then raises the noise on the coefficients by the factor
    ``1 / sqrt(1 - f)``.
    """
    side = 1.0 - math.sqrt(1.0 - OUTPUT_SHARE - inference_budget)
    part = epsilon * side / (OUTPUT_SHARE + inference_budget)
    return [part * OUTPUT_SHARE, part * inference_budget]


def _pure_objective(
    problem: Problem, penalty: float, calibration: str, side_epsilon: float
) -> tuple[float, float, float]:
    """Return noise multiplier, penalty and what is left of epsilon for the other releases."""
    curvature = problem.record_norm**2 / penalty
    if calibration == "tight":
        multiplier = privacy.pure_objective_scale(
            problem.epsilon - side_epsilon,
            curvature=curvature,
            adjacency=problem.adjacency,
            n_classes=problem.n_classes,
        )
        return multiplier, penalty, side_epsilon
    multiplier, curvature = privacy.chaudhuri2011_scale(
        problem.epsilon, curvature=curvature, adjacency=problem.adjacency
    )
    cost = privacy.pure_objective_epsilon(
        multiplier, curvature=curvature, adjacency=problem.adjacency
    )
    left = min(side_epsilon, problem.epsilon - cost)
    if not left > 1e-9 * problem.epsilon:
        raise CalibrationError(f"{calibration} leaves no budget for releasing its minimizer")
    return multiplier, problem.record_norm**2 / curvature, left


def _gaussian_scale(mu: float, sensitivity: float, size: int) -> float:
    return float(randomness.release_scale(1.0 / mu, sensitivity, size))


def _laplace_scale(epsilon: float, l2_sensitivity: float, size: int) -> float:
    sensitivity = math.sqrt(size) * l2_sensitivity
    return float(randomness.release_scale(1.0 / epsilon, sensitivity, size, order=1))


def _information_scale(problem: Problem, budget: float, *, pure: bool = False) -> float:
    """Noise scale of the Fisher information's upper triangle for a GDP or pure budget; 0: none.

    The triangle's off-diagonal entries are scaled by sqrt(2), so that its Euclidean norm is the
    matrix's Frobenius norm; its L1 norm is at most sqrt(size) times that.
    """
    if budget == 0.0:
        return 0.0
    size = problem.n_parameters * (problem.n_parameters + 1) // 2
    if not pure:
        return _gaussian_scale(budget, problem.information_norm, size)
    return _laplace_scale(budget, problem.information_norm, size)
