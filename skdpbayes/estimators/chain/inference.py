r"""What a released chain says about the true coefficients of a linear model.

Step t of a chain releases :math:`G_t = G(\theta_t) + \xi_t`: the sum of the clipped gradients at
its state, with noise of known variance :math:`s_t^2`. The states are not draws from a posterior of
the coefficients, they spread by the temperature that privacy gives the chain. But they are where
the gradient was asked for, and the mean of all answers is what the data said:

.. math:: \bar G = \frac1T \sum_t G(\theta_t) + \bar\xi, \qquad
          \bar\xi \sim N(0, \bar s^2), \quad \bar s^2 = 1 \Big/ \sum_t s_t^{-2}

(means are weighted by :math:`s_t^{-2}`). For a quadratic loss, :math:`G(\theta) = H (\theta -
\hat\theta)`, this is :math:`\bar\theta - H^{-1} \bar G = \hat\theta - H^{-1} \bar\xi` exactly,
whatever the sampler, its step, its burn-in or its convergence.

The gradient of a logistic loss, clipped to L, is :math:`z` times :math:`\min(p_t, k)` for the label
0 and times :math:`-\min(1 - p_t, k)` for the label 1, with :math:`p_t = \sigma(z^\top\theta_t)` and
:math:`k = L / |z|`. Write :math:`a(z)` for the mean of the first over the steps, :math:`-b(z)` for
that of the second and :math:`l = a + b`. A record whose label is 1 with probability
:math:`p = \sigma(z^\top\theta)` contributes :math:`(a - l p) z` on average, so

.. math:: F(\theta) = \bar G - n\,\mathrm{E}\,[(a - l p)\,z]

is normal around 0 at the true :math:`\theta`, with slope :math:`H = n\,\mathrm{E}\,[l\,p (1 - p)
z z^\top]` and covariance :math:`S = n\,\mathrm{E}\,[l^2 p (1 - p) z z^\top] + \bar s^2 I`. What
clipping does to the coefficients is thereby undone. Poisson batches of rate q add
:math:`(1/q - 1)/T` times the mean of the squared gradients (for batches of a fixed size that is a
little too much). The posterior precision is :math:`H S^{-1} H` and that of the prior; a Cauchy
prior is normal with a random precision, which is drawn given a draw of the coefficients.

Other models differ in how records answer (`Answers`). With *K* classes the clipped gradient of the
label *y* is :math:`\min(1, k / |p_t - e_y|)\,(p_t - e_y)` times *z*, *K* numbers whose sum is 0. So
do the coefficients that it tells about: only differences of classes are known, and everything here
is in *K* - 1 contrasts of the classes, onto which the released gradients and states are projected.
Counts answer by :math:`\mathrm{clip}(\lambda_t - y, \pm k)`, averaged over Poisson counts of the
true rate, cut at their largest value as the data are.

With ``units`` a person's part of :math:`\bar G` is an average of her records' parts, the weights of
which add up to at most 1, and the released moments are averages over persons of the same kind: the
expectation above is that of an average row. By convexity :math:`(\sum_j a_j s_j)(\sum_j a_j
s_j)^\top \preceq \sum_j a_j s_j s_j^\top`, however the records of a person depend on each other. So
*S*, the part of the batches included, is at least the covariance, and intervals are cautious; they
need that persons are independent and that the model holds for every record by itself.

The expectations are over a synthetic design: normal rows with the released moments. The noise of
that release is known, too. It is drawn again, the equation solved again, and the solutions are
pooled: a `NormalMixture`.

**Privacy.** The arguments are the public plan, the released moments and the noisy gradients
with the states that follow from them. No record enters, so all of it is post-processing; the
random numbers behind the designs come from a fixed public seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import expit, gammaln, ndtr, ndtri, softmax

from skdpbayes import models, randomness
from skdpbayes.estimators.chain.coordinates import Coordinates
from skdpbayes.estimators.chain.potential import CoefficientPrior
from skdpbayes.estimators.chain.run import Score
from skdpbayes.estimators.linear.normal import NormalMixture

# A design has this many points, and at least as many for every column; half are reflections.
POINTS, POINTS_PER_COLUMN = 1024, 32
# With more columns, times contrasts of classes, a design of so many points takes too long.
MOST_COLUMNS = 200
# Covariances that are drawn from the noise of the released one.
DESIGNS = 64
# A design keeps at least this share of the variance that directions have on average.
LEAST_SHARE = 0.15
# Newton steps longer than this (in coordinates in which rows have length 1) are shortened.
LONGEST_STEP = 3.0
MOST_ITERATIONS = 60
# Steps of a chain are taken together in this many runs where errors are normal.
RUNS = 10
# Rates of a row at all states are sorted and taken together in this many groups.
RATES = 20
# Counts are taken together in this many values at most.
COUNTS = 256
# Precisions of a prior whose scale is learned: its own, twice that, and so on.
PRECISIONS = 15
# Of a step: deviations are hardly ever below a hundred times that.
TOLERANCE = 1e-4


class Answers(Protocol):
    """How records at given rows answer at the states of a chain, by the model."""

    design_noise: float
    """Share of the noise of released moments that is drawn again.

    All of it is cautious: the released moments hold it once already. The shares were chosen by the
    coverage in the simulations of the user guide.
    """
    measured_from: float
    """Rows do not vary in directions whose released variance is below so many deviations of its
    noise, as far as intervals are concerned: of these the prior alone tells.
    """

    @property
    def contrasts(self) -> np.ndarray:
        """Orthonormal columns that span what coefficients of the outputs are known, (K, C)."""

    def at_states(
        self, rows: np.ndarray, score: Score, clip_norm: float, of_batches: float
    ) -> Callable[[np.ndarray], Response]:
        """Return how records at these rows answer, as a function of their true logits (n_rows, C).

        ``of_batches`` times the mean square is what the choice of batches adds to the variance.
        """


class Response(NamedTuple):
    """Mean clipped residual over all states, in contrasts."""

    mean: np.ndarray
    """Expectation, (n_rows, C)."""
    slope: np.ndarray
    """Minus its derivatives by the true logits, (n_rows, C, C), the last axis the logits."""
    variance: np.ndarray
    """Covariance, (n_rows, C, C)."""


class _OneOutput:
    """Models of one logit have nothing to contrast."""

    @property
    def contrasts(self) -> np.ndarray:
        """The logit itself."""
        return np.ones((1, 1))


def _response(mean: np.ndarray, slope: np.ndarray, variance: np.ndarray) -> Response:
    """Of one output."""
    return Response(mean[:, None], slope[:, None, None], variance[:, None, None])


@dataclass(frozen=True)
class LabelAnswers(_OneOutput):
    """Logistic regression of two classes."""

    design_noise = 1.0
    measured_from = 0.0

    def at_states(
        self, rows: np.ndarray, score: Score, clip_norm: float, of_batches: float
    ) -> Callable[[np.ndarray], Response]:
        """Mean clipped residuals for either label, mixed by their probabilities."""
        p = expit(rows @ score.states.T)
        bound = (clip_norm / np.linalg.norm(rows, axis=1))[:, None]
        residuals = np.minimum(p, bound), np.minimum(1.0 - p, bound)
        push, pull = (r @ score.weights for r in residuals)
        lever = push + pull
        # of a batch: the mean squares for either label, times what sampling adds of them
        squares = np.zeros((2, rows.shape[0]))
        if of_batches > 0.0:
            squares = np.array([of_batches * (np.square(r) @ score.weights) for r in residuals])

        def answer(logits: np.ndarray) -> Response:
            p = expit(logits[:, 0])
            told = lever * p * (1.0 - p)
            spread = lever * told + (1.0 - p) * squares[0] + p * squares[1]
            return _response(push - p * lever, told, spread)

        return answer


@dataclass(frozen=True)
class ErrorAnswers(_OneOutput):
    """Linear regression with normal errors, whose residuals are cut at a width and clipped."""

    scale: float
    """Standard deviation of the errors."""
    width: float
    """That of a Huber loss, or infinite."""
    design_noise = 0.5
    measured_from = 1.5

    def at_states(
        self, rows: np.ndarray, score: Score, clip_norm: float, of_batches: float
    ) -> Callable[[np.ndarray], Response]:
        """Mean clipped residuals at every state, averaged over the errors.

        Steps in a row are taken together: predictions at their states are normal around their mean,
        so that their variance adds to that of the errors. An answer is a mean over states, which
        varies less than a residual: by Hermite's expansion of the clipped residual, of which the
        first term keeps the share rho of its variance, the errors', and the others at most rho^3.
        """
        logits = rows @ score.states.T
        around = logits - (logits @ score.weights)[:, None]
        total = np.sqrt(self.scale**2 + np.square(around) @ score.weights)
        bound = np.minimum(self.width, clip_norm / np.linalg.norm(rows, axis=1))
        ratio = bound / total
        within = 2.0 * ndtr(ratio) - 1.0
        square = np.square(total) * (within - 2.0 * ratio * _density(ratio))
        square += 2.0 * np.square(bound) * ndtr(-ratio)
        linear = np.square(total * within)
        rho = np.square(self.scale / total)
        spread = rho * linear + rho**3 * (square - linear) + of_batches * square
        n_states = score.states.shape[0]
        starts = np.linspace(0, n_states, min(n_states, RUNS), endpoint=False).astype(int)
        shares = np.add.reduceat(score.weights, starts)
        mean = np.add.reduceat(logits * score.weights, starts, axis=1) / shares
        squares = np.add.reduceat(np.square(logits) * score.weights, starts, axis=1) / shares
        deviation = np.sqrt(self.scale**2 + np.maximum(squares - np.square(mean), 0.0))
        relative = bound[:, None] / deviation

        def answer(logits: np.ndarray) -> Response:
            gap = (mean - logits) / deviation
            value, slope = _mean_clipped(gap, relative)
            return _response((deviation * value) @ shares, slope @ shares, spread)

        return answer


@dataclass(frozen=True)
class CountAnswers(_OneOutput):
    """Counts with Poisson's distribution, cut at the cap."""

    loss: models.PoissonLoss
    design_noise = 0.5
    measured_from = 0.0

    def at_states(
        self, rows: np.ndarray, score: Score, clip_norm: float, of_batches: float
    ) -> Callable[[np.ndarray], Response]:
        """Mean clipped residuals of every count, mixed by their probabilities."""
        loss, bound = self.loss, clip_norm / np.linalg.norm(rows, axis=1)
        rates, shares = _grouped(loss.mean(rows @ score.states.T), score.weights)
        # counts from 0 to the cap, or ranges of them, of the last of which all above are, too
        width = math.ceil((loss.cap + 1.0) / COUNTS)
        starts = np.arange(0.0, loss.cap + 1.0, width)
        counts = np.minimum(starts + 0.5 * (width - 1.0), loss.cap)
        residuals = np.zeros((rows.shape[0], counts.shape[0]))
        squares = np.zeros_like(residuals)
        for rate, share in zip(rates.T, shares.T, strict=True):
            clipped = np.clip(rate[:, None] - counts, -bound[:, None], bound[:, None])
            residuals += share[:, None] * clipped
            if of_batches > 0.0:
                squares += of_batches * share[:, None] * np.square(clipped)

        def answer(logits: np.ndarray) -> Response:
            rate = loss.mean(logits)
            chance = _poisson_masses(rate, starts, width)
            mean = np.einsum("ij,ij->i", chance, residuals)
            around = chance * (residuals - mean[:, None])
            # derivatives of probabilities by the logarithmic rate; they add up to 0
            change = chance * (counts - rate)
            change[:, -1] = -change[:, :-1].sum(axis=1)
            slope = -np.einsum("ij,ij->i", change, residuals)
            slope = np.where(rate[:, 0] < loss.cap, slope, 0.0)
            variance = np.einsum("ij,ij->i", around, residuals)
            return _response(mean, slope, variance + np.einsum("ij,ij->i", chance, squares))

        return answer


@dataclass(frozen=True)
class ClassAnswers:
    """Softmax regression."""

    n_classes: int
    design_noise = 1.0
    measured_from = 0.0

    @property
    def contrasts(self) -> np.ndarray:
        """Helmert's contrasts: columns that add up to 0."""
        k = np.arange(1.0, self.n_classes)
        table = np.triu(np.ones((self.n_classes, self.n_classes - 1)))
        table[np.arange(1, self.n_classes), np.arange(self.n_classes - 1)] = -k
        return np.asarray(table / np.sqrt(k * (k + 1.0)))

    def at_states(
        self, rows: np.ndarray, score: Score, clip_norm: float, of_batches: float
    ) -> Callable[[np.ndarray], Response]:
        """Mean clipped residuals for every label, mixed by their probabilities."""
        turn, n_rows = self.contrasts, rows.shape[0]
        states = score.states.reshape(-1, self.n_classes - 1, rows.shape[1])
        # (n_rows, n_states, n_classes)
        p = softmax(np.einsum("tcp,kc->tkp", states, turn) @ rows.T, axis=1).transpose(2, 0, 1)
        # |p - e_y|^2 = |p|^2 - 2 p_y + 1
        lengths = np.sqrt(np.square(p).sum(axis=2, keepdims=True) - 2.0 * p + 1.0)
        bound = (clip_norm / np.linalg.norm(rows, axis=1))[:, None, None]
        factor = np.minimum(1.0, bound / np.maximum(lengths, 1e-300))
        shares = factor * score.weights[:, None]
        residuals = shares.transpose(0, 2, 1) @ p  # (n_rows, label, class)
        residuals[:, range(self.n_classes), range(self.n_classes)] -= shares.sum(axis=1)
        residuals = residuals @ turn
        squares = np.zeros((n_rows, self.n_classes, turn.shape[1], turn.shape[1]))
        if of_batches > 0.0:
            for label in range(self.n_classes):
                each = (p - np.eye(self.n_classes)[label]) @ turn
                each *= (factor[:, :, label] * np.sqrt(of_batches * score.weights))[:, :, None]
                squares[:, label] = each.transpose(0, 2, 1) @ each

        def answer(logits: np.ndarray) -> Response:
            chance = softmax(logits @ turn.T, axis=1)
            mean = np.einsum("iy,iyc->ic", chance, residuals)
            around = chance[:, :, None] * (residuals - mean[:, None])
            slope = -np.einsum("iyc,ye->ice", around, turn)
            variance = np.einsum("iyc,iye->ice", around, residuals)
            return Response(mean, slope, variance + np.einsum("iy,iyce->ice", chance, squares))

        return answer


def _grouped(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of neighbors in every sorted row, and their shares of the weights."""
    order = np.argsort(values, axis=1)
    shares = weights[order]
    starts = np.unique(np.linspace(0, values.shape[1], RATES, endpoint=False).astype(int))
    total = np.add.reduceat(shares * np.take_along_axis(values, order, axis=1), starts, axis=1)
    mass = np.add.reduceat(shares, starts, axis=1)
    return total / mass, mass


def _poisson_masses(rate: np.ndarray, starts: np.ndarray, width: int) -> np.ndarray:
    """Probabilities of ranges of counts for rates of shape (n, 1); the last is open above."""
    masses = np.zeros((rate.shape[0], starts.shape[0]))
    for k in range(width):
        counts = starts + k
        masses += np.exp(counts * np.log(rate) - rate - gammaln(counts + 1.0))
    masses[:, -1] = np.maximum(1.0 - masses[:, :-1].sum(axis=1), 0.0)
    return masses


def _density(x: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * np.square(x)) / math.sqrt(2.0 * math.pi)


def _mean_clipped(gap: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Mean of :math:`\mathrm{clip}(g + e, -b, b)` over standard normal *e*, and its slope in *g*.

    It is :math:`s(g + b) - s(g - b) - b` with :math:`s(x) = x \Phi(x) + \varphi(x)`.
    """
    high, low = gap + bound, gap - bound
    above, below = ndtr(high), ndtr(low)
    value = high * above - low * below + _density(high) - _density(low) - bound
    return value, above - below


@dataclass(frozen=True, eq=False)
class ScoreEquation:
    """The released numbers of a chain from which the posterior of its coefficients follows."""

    score: Score
    coordinates: Coordinates
    """With the moments that they were made from."""
    answers: Answers
    prior: CoefficientPrior
    n_samples: int
    sampling_rate: float
    clip_norm: float
    learned_prior: bool = False
    """Whether the prior of the coefficients may be narrower, as the release makes it likely."""

    def posterior(self) -> NormalMixture:
        """Coefficients of x and, last, the intercept, output by output; without one it is 0."""
        # public: nothing secret is made from this seed
        generator = randomness.make_generator(0)
        points = _normal_points(self.coordinates.center.shape[0])
        lift, score = self._lift(), self._contrasted()
        theta = score.weights @ score.states
        drawn = theta @ lift
        means, roots = [], []
        for _ in range(DESIGNS):
            # a Cauchy prior is a normal one whose precision is exponential given the coefficient
            belief = self._precision() / (1.0 + np.square(drawn / self._tails()))
            if math.isfinite(self.prior.scale):
                belief = belief * generator.exponential(size=belief.shape)
            theta, covariance = self._solve(self._design(points, generator), score, theta, belief)
            mean = theta
            if self.learned_prior:
                found, spreads, chance = self._narrowed(theta, covariance, belief)
                k = generator.choice(chance.shape[0], p=chance)
                mean, covariance = found[k], spreads[k]
            means.append(mean @ lift)
            roots.append(lift.T @ np.linalg.cholesky(covariance))
            drawn = means[-1] + roots[-1] @ generator.standard_normal(theta.shape[0])
        return NormalMixture(np.array(means), np.array(roots))

    def center(self) -> np.ndarray:
        """Coefficients of x and, last, the intercept, by the released moments as they are."""
        lift, score = self._lift(), self._contrasted()
        theta = score.weights @ score.states
        belief = self._precision() / (1.0 + np.square(theta @ lift / self._tails()))
        rows = self._design(_normal_points(self.coordinates.center.shape[0]), None)
        theta, covariance = self._solve(rows, score, theta, belief)
        if self.learned_prior:
            means, _, chance = self._narrowed(theta, covariance, belief)
            theta = chance @ means
        return np.asarray(theta @ lift)

    def _narrowed(
        self, theta: np.ndarray, covariance: np.ndarray, belief: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means and covariances for narrower priors of the coefficients, and their probabilities.

        ``theta`` and ``covariance`` are those for the prior precisions ``belief``, of one output.
        Of each multiple the density of what was released tells the probability.
        """
        lift, precision = self._lift()[:, :-1], np.linalg.inv(covariance)
        prior, pull = (lift * belief[:-1]) @ lift.T, precision @ theta
        covariances = np.linalg.inv(precision + (self._multiples - 1.0)[:, None, None] * prior)
        means = covariances @ pull
        logs = means @ pull + lift.shape[1] * np.log(self._multiples)
        logs += np.linalg.slogdet(covariances)[1]
        return means, covariances, softmax(0.5 * logs)

    @property
    def _multiples(self) -> np.ndarray:
        """Of the precision of the coefficients' prior."""
        return 2.0 ** np.arange(PRECISIONS if self.learned_prior else 1)

    def _contrasted(self) -> Score:
        """Project states and gradients of all outputs: noise stays as it is."""
        turn = self.answers.contrasts
        n_outputs, n_contrasts = turn.shape
        states = self.score.states.reshape(-1, n_outputs, self.score.states.shape[1] // n_outputs)
        gradient = self.score.gradient.reshape(n_outputs, -1)
        return replace(
            self.score,
            states=np.einsum("tkp,kc->tcp", states, turn).reshape(states.shape[0], -1),
            gradient=(turn.T @ gradient).reshape(n_contrasts * gradient.shape[1]),
        )

    def _design(self, points: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
        """Rows in the coordinates of the chain whose moments agree with the released ones."""
        coordinates, known = self.coordinates, self.coordinates.moments
        assert known is not None
        mean, covariance = known.mean, known.covariance
        if generator is not None:
            mean, covariance = known.redrawn(generator, self.answers.design_noise)
            drowned = self._drowned()
            covariance = covariance - drowned @ (drowned.T @ covariance)
            covariance = covariance - (covariance @ drowned) @ drowned.T
        middle = coordinates.apply(mean - coordinates.center)
        matrix = coordinates.apply(coordinates.apply(covariance).T)
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        least = LEAST_SHARE / coordinates.dimension
        values = np.where(np.abs(values) < 1e-9 * least, 0.0, np.maximum(values, least))
        rows = middle + (points * np.sqrt(values)) @ vectors.T
        if not coordinates.constant:
            return rows
        return np.column_stack([rows, np.full(rows.shape[0], coordinates.constant)])

    def _drowned(self) -> np.ndarray:
        """Directions in which rows may not vary at all, by what was released; columns.

        Directions that do not rise above the noise share one released variance, which is the
        better known the more of them there are.
        """
        known = self.coordinates.moments
        assert known is not None
        values, vectors = np.linalg.eigh(known.covariance)
        alike = int(np.count_nonzero(values <= 1.001 * max(values[0], 0.0)))
        deviation = known.covariance_noise / math.sqrt(max(alike, 1))
        drowned = values[0] < self.answers.measured_from * deviation
        return np.asarray(vectors[:, : max(alike, 1) if drowned else 0])

    def _solve(
        self, rows: np.ndarray, score: Score, theta: np.ndarray, belief: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance given the design and the prior precisions, by Gauss-Newton."""
        each = self.n_samples / rows.shape[0]
        of_batches = (1.0 / self.sampling_rate - 1.0) * score.batch_share
        answer = self.answers.at_states(rows, score, self.clip_norm, of_batches)
        lift, damping, last = self._lift(), 1.0, np.zeros_like(theta)
        for _ in range(MOST_ITERATIONS):
            expected, told, spread = answer(rows @ theta.reshape(-1, rows.shape[1]).T)
            slope, noise = each * _outer(rows, told), each * _outer(rows, spread)
            noise[np.diag_indices_from(noise)] += score.noise_variance
            gap = score.gradient - each * (expected.T @ rows).ravel()
            coefficients = theta @ lift
            ratio = np.linalg.solve(noise, np.column_stack([slope, gap]))
            precision = slope.T @ ratio[:, :-1] + (lift * belief) @ lift.T
            covariance = np.linalg.inv(0.5 * (precision + precision.T))
            step = covariance @ (slope.T @ ratio[:, -1] + lift @ (belief * coefficients))
            length = float(np.linalg.norm(step))
            if step @ last < -0.25 * (last @ last):  # there and back again: rates that are cut
                damping *= 0.5
            last = step
            theta = theta - step * min(damping, LONGEST_STEP / max(length, 1e-300))
            if length < TOLERANCE:
                break
        return theta, covariance

    def _lift(self) -> np.ndarray:
        """Coefficients of x and intercepts per unit of the contrasts' coefficients of z."""
        size = self.coordinates.center.shape[0] + bool(self.coordinates.constant)
        coef, intercept = self.coordinates.coefficients(np.eye(size))
        return np.kron(self.answers.contrasts.T, np.column_stack([coef, intercept]))

    def _precision(self) -> np.ndarray:
        d = self.coordinates.center.shape[0]
        of_output = np.append(np.full(d, self.prior.precision), self.prior.of_intercept)
        return np.tile(of_output, self.answers.contrasts.shape[0])

    def _tails(self) -> np.ndarray:
        d = self.coordinates.center.shape[0]
        of_output = np.append(np.full(d, self.prior.scale), self.prior.intercept_scale)
        return np.tile(of_output, self.answers.contrasts.shape[0])


def _outer(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum of weights (n, C, C) times squares of rows (n, p), as a matrix of C p columns."""
    n, p = rows.shape
    size = weights.shape[1]
    left = (rows[:, None, :, None] * weights[:, :, None, :]).reshape(n, -1)  # (n, C p C)
    blocks = (left.T @ rows).reshape(size, p, size, p)
    return np.asarray(blocks.reshape(size * p, size * p))


def _normal_points(d: int) -> np.ndarray:
    """Symmetric points with the mean and the covariance of a standard normal distribution."""
    from scipy.stats import qmc  # slow to import

    half = 1 << math.ceil(math.log2(max(POINTS, POINTS_PER_COLUMN * d) / 2))
    uniform = qmc.Sobol(d, seed=randomness.make_generator(0)).random(half)
    points = ndtri(np.clip(uniform, 1e-9, 1.0 - 1e-9))
    root = np.linalg.cholesky(points.T @ points / half)
    points = np.linalg.solve(root, points.T).T
    return np.concatenate([points, -points])
