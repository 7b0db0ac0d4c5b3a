"""Public numbers of a private logistic regression: penalty, noise scales, tolerance, price."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from skdpbayes import models, privacy, randomness
from skdpbayes.estimators.linear.problem import UNIT_ROUNDOFF, LinearProblem
from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy.budget import NO_NOISE, Law, Noise
from skdpbayes.privacy.events import NoPrivacy, PrivacyEvent
from skdpbayes.privacy.guarantee import Unit
from skdpbayes.privacy.sensitivity import moved

CALIBRATIONS = ("tight", "chaudhuri2011", "kifer2012", "redberg2023")
MECHANISMS = ("objective", "output")
# Share of the squared budget (see `parts_of_epsilon`) that hides the optimizer's last digits
OUTPUT_SHARE = 0.001
# Part of that which hides the rounding of the information matrix, and its part of the noise there
ROUNDING_SHARE, HIDING_NOISE = 0.25, 0.01
# Measured on public data at a record norm of sqrt(2) and coef_norm 10; see `automatic_C`
NOISE_POWER, TILT_PENALTY, OUTPUT_PENALTY = 1.4, 0.44, 2.0
NORM_GUESS = 10.0 * math.sqrt(2.0)


# Part of the inference budget that is spent even where the information will be hidden by its noise
LEAST_SHARE = 0.05
# Share of the budget for the information matrix where nobody says otherwise
INFORMATION_SHARE = 0.1
# Per entry and epsilon, the pure share that keeps the noise within reach of the release grid
GRID_ROOM = 2.0**-25
# Room between the threshold of a person's Gaussian profile and epsilon; see `_room_for_curvature`
SIDE_DEVIATIONS = 6.0
RADIUS = 10.0  # times the guess of the coefficients' norm: as long as a release may be


@dataclass(frozen=True)
class Problem(LinearProblem):
    """What may be known before looking at a record."""

    n_records: int
    n_features: int
    n_classes: int
    data_norm: float
    epsilon: float
    delta: float
    adjacency: str
    margin: float = 0.0  # of the logistic loss
    coef_norm: float = 10.0  # a guess
    nonnegative: bool = False  # all features are
    constant: float = 0.0
    unit: Unit = "record"

    @property
    def loss(self) -> models.Loss:
        """The loss of one record."""
        if self.n_classes == 2:
            return models.LogisticLoss(self.margin)
        return models.SoftmaxLoss(self.n_classes)

    @property
    def n_outputs(self) -> int:
        """Rows of the coefficient matrix."""
        return self.loss.n_outputs

    @property
    def n_parameters(self) -> int:
        """Entries of the coefficient matrix."""
        return self.n_outputs * self.n_features

    @property
    def gradient_norm(self) -> float:
        """Bound on the gradient of one record's loss."""
        return self.record_norm * self.loss.slope

    @property
    def one_signed(self) -> bool:
        """Whether the entries of any record's gradient all have one sign."""
        return self.nonnegative and self.n_classes == 2

    @property
    def shift(self) -> float:
        """How many gradients a neighbor may differ by."""
        return float(moved(self.adjacency))

    @property
    def information_norm(self) -> float:
        r"""Bound on the Frobenius distance of neighbors' Fisher information.

        One record adds :math:`w\,xx^\top`, :math:`w \le 1/4`, or
        :math:`(\mathrm{diag}\,p-pp^\top)\otimes xx^\top`, whose first factor has norm at most 1/2:
        its square is :math:`S_2-2S_3+S_2^2\le S_2-S_2^2\le 1/4` with :math:`S_j=\sum p^j` and
        Cauchy's :math:`S_2^2\le S_3`. Two positive semidefinite matrices have a nonnegative inner
        product, so replacing one by another moves by :math:`\sqrt2` of that, not 2. Sums are exact;
        what the cuts of softmax add is added for both records, and the two roundings of the total
        (read as floats, weighted by :math:`\sqrt2` off the diagonal) for both sums.
        """
        apart = math.sqrt(moved(self.adjacency))
        return self.single_information * apart + self.information_rounding

    @property
    def single_information(self) -> float:
        """Bound on the Frobenius norm of one record's Fisher information."""
        return self.record_norm**2 * self.loss.curvature[1]

    @property
    def information_rounding(self) -> float:
        """Bound on what rounding adds to the distance of neighbors' Fisher information."""
        cuts = 0.0
        if self.grid is not None:
            # a cut row of weight a is off by the root of a: together at most sqrt(rows_per_unit)
            cuts = 2.0 * self.grid.hessian_error(self.loss, self.n_columns, self.constant)
            cuts *= math.sqrt(self.rows_per_unit)
        if self.unit == "person":  # roots of weights are rounded
            cuts += 16.0 * UNIT_ROUNDOFF * self.single_information
        return 4.0 * UNIT_ROUNDOFF * self.n_records * self.single_information + cuts

    @property
    def information_cuts(self) -> float:
        r"""Bound how far from :math:`s(1-s)uu^\top` two records add to the information, together.

        A record adds :math:`\frac14vv^\top`, where :math:`v` is :math:`2\sqrt{s(1-s)}\,u` with
        every entry cut by less than a unit: no more, but not quite along :math:`uu^\top`.
        """
        if self.grid is None:
            return 0.0
        last = abs(self.constant) * 2.0**-self.grid.bits
        cut = math.hypot(math.sqrt(self.n_columns) * self.grid.row_unit, last)
        return 4.0 * self.loss.curvature[1] * self.record_norm * cut


def coefficient_bound(problem: Problem, penalty: float, tilt_norm: float) -> float:
    """Bound the norm of the minimizer, whatever the data.

    There the objective is at most what it is at 0, and the gradient is 0.
    """
    start = problem.n_records * problem.loss.at_zero
    by_value = (tilt_norm + math.sqrt(tilt_norm**2 + 2.0 * penalty * start)) / penalty
    by_slope = (problem.n_records * problem.gradient_norm + tilt_norm) / penalty
    return min(by_value, by_slope)


def tolerance_of(
    problem: Problem, penalty: float, tilt_norm: float, *, free: bool = False
) -> tuple[float, float]:
    r"""Return a gradient norm that rounding cannot keep the optimizer from, and a radius.

    Half of the tolerance :math:`\tau` is for the optimizer to reach, :math:`e(r) = 0.2\tau` bounds
    rounding at coefficients of norm r, the radius: a Newton step ends where the exact gradient is
    as wrong as the computed one was before, so that the next one may be off by twice as much.
    Longer minimizers are scaled back to the radius, which keeps their direction. The released point
    is within :math:`\tau/\lambda` of the projection of the exact minimizer: at norm :math:`t > r`
    the computed one is off by at most :math:`\eta = (\tau/2 + e(r))\,(t/r)/\lambda`, since both
    parts may grow so, and the projection shrinks that by :math:`r/(t-\eta)`; together at most
    :math:`0.7\,\tau/\lambda` divided by :math:`1 - \eta/t \ge 0.9`. Where the last bound fails, and
    for `free`, the radius is one that no minimizer can reach.
    """
    bound = 1.001 * coefficient_bound(problem, penalty, tilt_norm)
    radius = min(bound, RADIUS * problem.coef_norm + tilt_norm / penalty)
    tolerance = 5.0 * _gradient_rounding(problem, penalty, tilt_norm, radius)
    if free or tolerance > 0.1 * penalty * radius:
        radius = bound
        tolerance = 5.0 * _gradient_rounding(problem, penalty, tilt_norm, radius)
    return tolerance, radius


def _gradient_rounding(
    problem: Problem, penalty: float, tilt_norm: float, coef_norm: float
) -> float:
    """Bound the rounding error of the objective's gradient at coefficients of norm `coef_norm`.

    That of the sum over records, whatever their order, and that of the penalty and the tilt.
    """
    n, d, loss, grid = problem.n_records, problem.n_features, problem.loss, problem.grid
    if grid is None:  # plain sums: a goal for the optimizer, no part of a guarantee
        longest = models.PLAIN_SUM + n / models.PLAIN_SUM + d + 16.0 * loss.n_outputs
        logit = (d + 2.0) * problem.record_norm * coef_norm + 2.0 * problem.margin
        slopes = longest * loss.slope + loss.curvature[1] * logit
        per_record = UNIT_ROUNDOFF * problem.record_norm * slopes
    else:
        per_record = grid.gradient_error(loss, problem.n_columns, problem.constant, coef_norm)
    rows = n * problem.rows_per_unit * per_record
    return rows + 4.0 * UNIT_ROUNDOFF * (penalty * coef_norm + tilt_norm)


@dataclass(frozen=True)
class ObjectivePlan:
    """Everything ``fit`` needs to know, from public numbers only; a scale of 0 means no noise."""

    problem: Problem
    penalty: float
    tolerance: float  # gradient norm of the computed minimizer
    radius: float  # longer minimizers are scaled back
    event: PrivacyEvent
    pure: bool = False  # densities exp(-|b|/s) and exp(-|x|/s) instead of Gaussian ones
    tilt_scale: float = 0.0  # of the random linear term b
    blur_scale: float = 0.0  # of the noise on the minimizer in output perturbation
    release_scale: float = 0.0  # of the grid noise that ends the release of the minimizer
    information_scale: float = 0.0  # of the grid noise on the Fisher information
    tilt_norm: float = 0.0  # no larger tilt is expected, ever: 12 standard deviations
    two_orthants: bool = False  # the density of a pure b is that of `two_orthant_noise`
    release: Noise = NO_NOISE
    information: Noise | None = None  # None: the information is not released
    words: str = ""
    conditions: tuple[str, ...] = ()

    @property
    def n_parameters(self) -> int:
        """Entries of the coefficient matrix."""
        return self.problem.n_parameters

    @property
    def noise(self) -> Noise:
        """The noise that makes the coefficients private."""
        scale = self.tilt_scale or self.blur_scale or self.release_scale
        if scale == 0.0:
            return NO_NOISE
        law: Law = "gaussian" if not self.pure else "gamma"
        return Noise("two_orthant_gamma" if self.two_orthants else law, scale)

    @property
    def grid_law(self) -> Law:
        """Law of the noise that ends a release on its grid."""
        return "laplace" if self.pure else "gaussian"

    def numbers(self) -> dict[str, Any]:
        """Return what a fit shows of its plan."""
        return {"C_": 1.0 / self.penalty, "noise_": self.noise}

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


def automatic_C(
    problem: Problem,
    mechanism: str,
    calibration: str,
    coef_norm: float,
    inference_budget: float = 0.0,
) -> float:
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
    free_noise = _free_noise(problem, _has_two_orthants(problem, mechanism, calibration))
    guess = NORM_GUESS / (problem.record_norm * coef_norm) * 2.0 ** (-0.5 * problem.margin)
    if mechanism == "output":
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
        return size * noise**NOISE_POWER * problem.n_records ** (1.0 - NOISE_POWER)

    low, high = 1e-9, 1e12
    if calibration in ("kifer2012", "redberg2023"):
        low = 1.5 * problem.record_norm**2 / curvature_limit(problem, calibration, 0.0)
    if problem.unit == "person":
        low = problem.record_norm**2 / _room_for_curvature(problem, inference_budget)
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if wanted(middle) > middle else (low, middle)
    return 1.0 / high


def _room_for_curvature(problem: Problem, inference_budget: float) -> float:
    """Return the curvature up to which a person costs hardly more than the noise alone.

    From the threshold of the Gaussian profile to epsilon there must be room for the loss of the
    releases around the minimizer, about six of their deviations.
    """
    limit = curvature_limit(problem, "tight", inference_budget)
    if problem.delta == 0.0:
        return 0.5 * limit
    mu = privacy.gdp_mu(min(problem.epsilon, 100.0), problem.delta)
    room = SIDE_DEVIATIONS * mu * math.sqrt(OUTPUT_SHARE + inference_budget) / problem.shift
    return max(0.95 * limit - room - 0.5 * (mu / problem.shift) ** 2, 0.1 * limit)


def curvature_limit(problem: Problem, calibration: str, inference_budget: float) -> float:
    """Return the curvature R^2 C that the calibration must stay below."""
    epsilon = problem.epsilon
    if calibration == "kifer2012":
        return 2.0 * epsilon * (1.0 + 1e-12)
    if calibration == "redberg2023":
        return -4.0 * math.expm1(-epsilon)
    if problem.delta == 0.0:
        epsilon -= sum(parts_of_epsilon(epsilon, inference_budget))
    elif problem.unit == "person":
        return min(epsilon, 100.0) / problem.shift
    return privacy.largest_curvature(min(epsilon, 100.0), problem.n_classes, problem.unit)


def _has_two_orthants(problem: Problem, mechanism: str, calibration: str) -> bool:
    """Whether the density of a pure tilt follows the signs of the gradients.

    Minimizers, which output perturbation blurs, move in any direction, and published calibrations
    come with their own noise.
    """
    tight = mechanism == "objective" and calibration == "tight"
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
    problem: Problem, *, C: float, mechanism: str, calibration: str, inference_budget: float
) -> ObjectivePlan:
    """Turn a budget into noise scales; raise `CalibrationError` where no noise is enough."""
    penalty = 1.0 / C
    if math.isinf(problem.epsilon):
        exact = tolerance_of(problem, penalty, 0.0, free=True)
        return ObjectivePlan(problem, penalty, *exact, NoPrivacy())
    if problem.delta == 0.0:
        return _pure_plan(problem, penalty, mechanism, calibration, inference_budget)
    return _gaussian_plan(problem, penalty, mechanism, calibration, inference_budget)


def _gaussian_plan(
    problem: Problem, penalty: float, mechanism: str, calibration: str, inference_budget: float
) -> ObjectivePlan:
    if mechanism == "output":
        mu = privacy.gdp_mu(problem.epsilon, problem.delta)
        tolerance, radius = tolerance_of(problem, penalty, 0.0)
        sensitivity = (problem.shift * problem.gradient_norm + 2.0 * tolerance) / penalty
        return ObjectivePlan(
            problem,
            penalty,
            tolerance,
            radius,
            privacy.GaussianDP(mu),
            release_scale=_gaussian_scale(
                mu * math.sqrt(1.0 - inference_budget), sensitivity, problem.n_parameters
            ),
            information_scale=_information_scale(problem, mu * math.sqrt(inference_budget)),
        )
    event = _objective_event(problem, penalty, calibration, inference_budget)
    tilt_scale = event.noise_multiplier * problem.gradient_norm
    tilt_norm = tilt_scale * (math.sqrt(problem.n_parameters) + 12.0)
    by_residual = isinstance(event, privacy.ObjectivePerturbation) and event.information_mu > 0.0
    # a minimizer that is scaled back says nothing about the record's residual there
    tolerance, radius = tolerance_of(problem, penalty, tilt_norm, free=by_residual)
    if by_residual:
        release_mu = math.sqrt(1.0 - ROUNDING_SHARE) * event.side_mu
    else:
        total = OUTPUT_SHARE + inference_budget
        release_mu = event.side_mu * math.sqrt(OUTPUT_SHARE / total)
    release_scale = _gaussian_scale(release_mu, 2.0 * tolerance / penalty, problem.n_parameters)
    if by_residual:
        assert isinstance(event, privacy.ObjectivePerturbation)
        information_scale = _residual_information_scale(
            problem, event, penalty, tolerance, radius, release_scale
        )
    else:
        information_scale = _information_scale(
            problem, event.side_mu * math.sqrt(inference_budget / total)
        )
    return ObjectivePlan(
        problem,
        penalty,
        tolerance,
        radius,
        event,
        tilt_scale=tilt_scale,
        release_scale=release_scale,
        information_scale=information_scale,
        tilt_norm=tilt_norm,
    )


def _objective_event(
    problem: Problem, penalty: float, calibration: str, inference_budget: float
) -> privacy.ObjectivePerturbation | privacy.PersonsObjectivePerturbation:
    """Noise of the chosen calibration, with as much for the other releases as it leaves room for.

    The information matrix of two classes is charged by the record's residual, unless so little is
    left to hide its rounding that snapping it to the release grid would cost more. For persons it
    is charged by what any of them can move it.
    """
    if problem.unit == "person":
        return privacy.calibrate_objective_of_persons(
            problem.epsilon,
            problem.delta,
            curvature=problem.record_norm**2 / penalty,
            adjacency=problem.adjacency,
            side_share=OUTPUT_SHARE + inference_budget,
        )
    if problem.n_classes == 2 and inference_budget > 0.0:
        event = _shared_event(problem, penalty, calibration, OUTPUT_SHARE, inference_budget)
        if _rounding_mu(event) >= 2.0 * _grid_offset(problem):
            return event
    return _shared_event(problem, penalty, calibration, OUTPUT_SHARE + inference_budget, 0.0)


def _rounding_mu(event: privacy.ObjectivePerturbation) -> float:
    """Return how far roundings may move the information, over its noise."""
    return math.sqrt(ROUNDING_SHARE) * event.side_mu * HIDING_NOISE


def _shared_event(
    problem: Problem,
    penalty: float,
    calibration: str,
    side_share: float,
    information_share: float,
) -> privacy.ObjectivePerturbation:
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
            information_share=information_share,
        )
    published = {
        "kifer2012": privacy.kifer2012_noise_multiplier,
        "redberg2023": privacy.redberg2023_noise_multiplier,
    }[calibration]
    noise = published(epsilon, delta, curvature=curvature, adjacency=problem.adjacency)
    mu = privacy.gdp_mu(epsilon, delta)
    for _ in range(60):  # published noise is larger than needed: what is left pays for the rest
        event = privacy.ObjectivePerturbation(
            noise,
            curvature,
            problem.adjacency,
            side_mu=math.sqrt(side_share) * mu,
            information_mu=math.sqrt(information_share / problem.shift) * mu,
        )
        if event.delta_at(epsilon) <= delta:
            return event
        mu *= 0.8
    raise CalibrationError(f"{calibration} leaves no budget for releasing its minimizer")


def _grid_offset(problem: Problem) -> float:
    """Bound by how much snapping neighbors' information to its grid moves it, over its noise.

    The part of the difference that is charged by the residual is counted in whole steps of the
    grid, too, rounded toward 0: together at most two steps per entry.
    """
    size = problem.n_parameters * (problem.n_parameters + 1) // 2
    from skdpbayes.randomness.release import GRID_BITS  # loads the compiler

    return math.ldexp(2.0 * math.sqrt(size), -GRID_BITS)


def _residual_information_scale(
    problem: Problem,
    event: privacy.ObjectivePerturbation,
    penalty: float,
    tolerance: float,
    radius: float,
    release_scale: float,
) -> float:
    r"""Noise scale of an information matrix that is charged by the record's residual s.

    At the exact minimizer a record moves the matrix by at most :math:`s(1-s)R^2`. It is evaluated
    at the released point, where the logit differs by at most R times the distance, and
    :math:`s(1-s)` by the exponential of that; noise of more than 40 standard deviations beyond its
    norm does not occur (the probability is below :math:`10^{-347}`). What cuts and rounding add has
    nothing to do with s: a hundredth of the noise, split off, hides it at the price of a part of
    the event's `side_mu`.
    """
    norm, deviations = problem.record_norm, math.sqrt(problem.n_parameters) + 40.0
    distance = tolerance / penalty + release_scale * deviations
    logit = norm * distance + UNIT_ROUNDOFF * ((problem.n_features + 2.0) * norm * radius + 64.0)
    rounding = problem.information_rounding + problem.information_cuts
    rounding /= _rounding_mu(event) - _grid_offset(problem)
    main = problem.single_information * math.exp(min(logit, 700.0))
    return max(main / (event.information_mu * math.sqrt(1.0 - HIDING_NOISE**2)), rounding)


def _pure_plan(
    problem: Problem, penalty: float, mechanism: str, calibration: str, inference_budget: float
) -> ObjectivePlan:
    epsilon = problem.epsilon
    shares = parts_of_epsilon(epsilon, inference_budget)
    tilt_scale = blur_scale = 0.0
    if mechanism == "output":
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
    return ObjectivePlan(
        problem,
        penalty,
        tolerance,
        radius,
        privacy.PureDP(epsilon),
        pure=True,
        tilt_scale=tilt_scale,
        blur_scale=blur_scale,
        release_scale=_laplace_scale(shares[0], 2.0 * error, size),
        information_scale=_information_scale(problem, shares[1], pure=True),
        tilt_norm=tilt_norm,
        two_orthants=_has_two_orthants(problem, mechanism, calibration),
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
            unit=problem.unit,
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


def automatic_share(problem: Problem) -> float:
    """Return the share of the budget that buys the Fisher information, 0 where there is none."""
    if problem.margin > 0.0 or problem.n_parameters > LARGEST_INFORMATION:
        return 0.0
    return INFORMATION_SHARE


def worthwhile_share(problem: Problem, inference_budget: float) -> float:
    r"""Return how much of `inference_budget` to spend, from public numbers only.

    Symmetric noise of deviation :math:`\tau` on the diagonal hides eigenvalues below its own
    spectral norm, about :math:`\tau\sqrt{2p}`, while the mean of the information's p eigenvalues is
    at most n times a record's largest trace, over p. Where even that is hidden, intervals are the
    prior's anyway: the share falls with the square of the ratio (not below what the release grid
    has room for).
    """
    if inference_budget == 0.0 or math.isinf(problem.epsilon):
        return inference_budget
    size, least = problem.n_parameters, LEAST_SHARE * inference_budget
    entries = size * (size + 1) / 2
    trace = 0.25 if problem.n_classes == 2 else 1.0 - 1.0 / problem.n_classes
    mean_eigenvalue = problem.n_records * trace * problem.record_norm**2 / size
    if problem.delta == 0.0:
        budget = parts_of_epsilon(problem.epsilon, inference_budget)[1]
        deviation = math.sqrt(2.0 * entries) * problem.information_norm
        least = max(least, GRID_ROOM * entries / problem.epsilon)
    else:
        budget = privacy.gdp_mu(min(problem.epsilon, 100.0), problem.delta)
        budget *= math.sqrt(inference_budget)
        deviation = problem.information_norm
    ratio = mean_eigenvalue * budget / (deviation * math.sqrt(2.0 * size))
    return min(inference_budget, max(ratio * ratio * inference_budget, least))


def prior_precision(problem: Problem, plan: ObjectivePlan) -> float:
    """Return the penalty, unless it is there for the noise: intervals must not believe it then.

    Any single coefficient may be as large as the guess of their norm. Directions that noise hides
    have this prior for an interval, and columns that vary little, which noise hides first, have the
    largest coefficients: a prior that shared the norm among all would not cover them.
    """
    if math.isinf(problem.epsilon):
        return plan.penalty
    return min(plan.penalty, 1.0 / problem.coef_norm**2)


# The released information matrix is squared memory too, and its noise drowns it long before
LARGEST_INFORMATION = 3000


def check_reachable(
    problem: Problem, C: float, mechanism: str, calibration: str, inference_budget: float
) -> None:
    """Raise if no noise makes this C private, and say which C would do."""
    if mechanism == "output" or math.isinf(problem.epsilon) or calibration == "chaudhuri2011":
        return
    limit = curvature_limit(problem, calibration, inference_budget)
    if problem.record_norm**2 * C >= limit:
        raise CalibrationError(
            f"C={C:g} cannot meet epsilon={problem.epsilon:g} with calibration={calibration!r}: "
            f"the curvature of one record alone costs more. Use C <= "
            f"{0.5 * limit / problem.record_norm**2:.4g} (half the limit), a larger epsilon, or "
            'C="auto".'
        )


def check_published(problem: Problem, mechanism: str, calibration: str) -> None:
    """Raise if a published calibration does not cover what is asked of it."""
    if problem.n_classes > 2:
        raise ValueError(
            f"calibration={calibration!r} is published for two classes; the label set "
            f'has {problem.n_classes}. Use calibration="tight".'
        )
    if mechanism == "output":
        raise ValueError(
            f'calibration={calibration!r} does not apply to mechanism="output"; use '
            'calibration="tight".'
        )
    pure = calibration == "chaudhuri2011"
    if pure and problem.delta > 0.0:
        raise ValueError(
            f'calibration="chaudhuri2011" is pure: set delta=0, or use "tight"; got delta='
            f"{problem.delta!r}."
        )
    if not pure and problem.delta == 0.0:
        raise ValueError(
            f"calibration={calibration!r} needs delta > 0; got delta=0. Use "
            'calibration="tight" or "chaudhuri2011" for pure privacy.'
        )


def check_persons(problem: Problem, mechanism: str, calibration: str) -> None:
    """Raise if there is no proof for persons."""
    if problem.unit != "person" or math.isinf(problem.epsilon):
        return
    if calibration != "tight":
        raise ValueError(
            f"calibration={calibration!r} is published for records; with units use "
            'calibration="tight".'
        )
    if mechanism == "objective" and problem.n_classes > 2 and problem.delta > 0.0:
        raise ValueError(
            f"objective perturbation of {problem.n_classes} classes has no proof for persons with "
            'delta > 0. Use mechanism="output" or delta=0, or fit without units.'
        )


def check_margin(problem: Problem, inference_budget: float) -> None:
    """Raise if a margin meets what only the likelihood serves."""
    if problem.margin == 0.0:
        return
    if problem.n_classes > 2:
        raise ValueError(
            f"margin={problem.margin:g} is for two classes; the label set has "
            f"{problem.n_classes}. Use margin=0."
        )
    if inference_budget > 0.0:
        raise ValueError(
            f"margin={problem.margin:g} replaces the likelihood, which intervals rest on: set "
            f"inference_budget=0, or margin=0; got inference_budget={inference_budget:g}."
        )


def check_information(problem: Problem, inference_budget: float) -> None:
    """Raise if the information matrix would be too large to release."""
    if inference_budget > 0.0 and problem.n_parameters > LARGEST_INFORMATION:
        raise ValueError(
            f"inference_budget={inference_budget:g} would release the information matrix "
            f"of {problem.n_parameters} parameters, more than {LARGEST_INFORMATION}; set "
            "inference_budget=0, or reduce the number of features."
        )
