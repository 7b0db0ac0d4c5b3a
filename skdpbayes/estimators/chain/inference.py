r"""What a released chain says about the true coefficients of a logistic regression.

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
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit, ndtr, ndtri

from skdpbayes import randomness
from skdpbayes.estimators.chain.coordinates import Coordinates
from skdpbayes.estimators.chain.potential import CoefficientPrior
from skdpbayes.estimators.chain.run import Score
from skdpbayes.estimators.linear.normal import NormalMixture

__all__ = ["MOST_COLUMNS", "Answers", "ErrorAnswers", "LabelAnswers", "ScoreEquation"]

# A design has this many points, and at least as many for every column; half are reflections.
POINTS, POINTS_PER_COLUMN = 1024, 32
# With more columns a design of so many points takes too long.
MOST_COLUMNS = 200
# Covariances that are drawn from the noise of the released one.
DESIGNS = 64
# A drawn covariance keeps at least this share of the variance that directions have on average.
LEAST_SHARE = 0.15
# Newton steps longer than this (in coordinates in which rows have length 1) are shortened.
LONGEST_STEP = 3.0
MOST_ITERATIONS = 60
# Steps of a chain are taken together in this many runs where errors are normal.
RUNS = 10
# Of a step: deviations are hardly ever below a hundred times that.
TOLERANCE = 1e-4


class Answers(Protocol):
    """How records at given rows answer at the states of a chain, by the model."""

    design_noise: float
    """Share of the noise of released moments that is drawn again.

    All of it is cautious: the released moments hold it once already. The shares were chosen by the
    coverage in the simulations of the user guide.
    """

    def at_states(
        self, rows: np.ndarray, score: Score, clip_norm: float, of_batches: float
    ) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return a function of the true coefficients, all arrays of shape (n_rows,).

        It gives the expectation of the mean clipped residual over all states, minus its
        derivative by the true logit, and its variance; ``of_batches`` times the mean square is what
        the choice of batches adds.
        """


@dataclass(frozen=True)
class LabelAnswers:
    """Logistic regression of two classes."""

    design_noise = 1.0

    def at_states(
        self, rows: np.ndarray, score: Score, clip_norm: float, of_batches: float
    ) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]:
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

        def answer(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            p = expit(rows @ theta)
            told = lever * p * (1.0 - p)
            spread = lever * told + (1.0 - p) * squares[0] + p * squares[1]
            return push - p * lever, told, spread

        return answer


@dataclass(frozen=True)
class ErrorAnswers:
    """Linear regression with normal errors, whose residuals are cut at a width and clipped."""

    scale: float
    """Standard deviation of the errors."""
    width: float
    """That of a Huber loss, or infinite."""
    design_noise = 0.5

    def at_states(
        self, rows: np.ndarray, score: Score, clip_norm: float, of_batches: float
    ) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]:
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

        def answer(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            gap = (mean - (rows @ theta)[:, None]) / deviation
            value, slope = _mean_clipped(gap, relative)
            return (deviation * value) @ shares, slope @ shares, spread

        return answer


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

    def posterior(self) -> NormalMixture:
        """Coefficients of x and, last, the intercept; without one it is 0."""
        # public: nothing secret is made from this seed
        generator = randomness.make_generator(0)
        points = _normal_points(self.coordinates.center.shape[0])
        lift = self._lift()
        theta = self.score.weights @ self.score.states
        drawn = theta @ lift
        means, roots = [], []
        for _ in range(DESIGNS):
            # a Cauchy prior is a normal one whose precision is exponential given the coefficient
            belief = self._precision() / (1.0 + np.square(drawn / self._tails()))
            if math.isfinite(self.prior.scale):
                belief = belief * generator.exponential(size=belief.shape)
            theta, covariance = self._solve(self._design(points, generator), theta, belief)
            means.append(theta @ lift)
            roots.append(lift.T @ np.linalg.cholesky(covariance))
            drawn = means[-1] + roots[-1] @ generator.standard_normal(theta.shape[0])
        return NormalMixture(np.array(means), np.array(roots))

    def center(self) -> np.ndarray:
        """Coefficients of x and, last, the intercept, by the released moments as they are."""
        lift = self._lift()
        theta = self.score.weights @ self.score.states
        belief = self._precision() / (1.0 + np.square(theta @ lift / self._tails()))
        rows = self._design(_normal_points(self.coordinates.center.shape[0]), None)
        return np.asarray(self._solve(rows, theta, belief)[0] @ lift)

    def _design(self, points: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
        """Rows in the coordinates of the chain whose moments agree with the released ones."""
        coordinates, known = self.coordinates, self.coordinates.moments
        assert known is not None
        mean, covariance = known.mean, known.covariance
        if generator is not None:
            mean, covariance = known.redrawn(generator, self.answers.design_noise)
        middle = coordinates.apply(mean - coordinates.center)
        matrix = coordinates.apply(coordinates.apply(covariance).T)
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        values = np.maximum(values, LEAST_SHARE / coordinates.dimension)
        rows = middle + (points * np.sqrt(values)) @ vectors.T
        if not coordinates.constant:
            return rows
        return np.column_stack([rows, np.full(rows.shape[0], coordinates.constant)])

    def _solve(
        self, rows: np.ndarray, theta: np.ndarray, belief: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance given the design and the prior precisions, by Gauss-Newton."""
        score = self.score
        each = self.n_samples / rows.shape[0]
        of_batches = (1.0 / self.sampling_rate - 1.0) * score.batch_share
        answer = self.answers.at_states(rows, score, self.clip_norm, of_batches)
        lift = self._lift()
        for _ in range(MOST_ITERATIONS):
            expected, told, spread = answer(theta)
            slope = each * (rows * told[:, None]).T @ rows
            noise = each * (rows * spread[:, None]).T @ rows
            noise[np.diag_indices_from(noise)] += score.noise_variance
            gap = score.gradient - each * expected @ rows
            coefficients = theta @ lift
            ratio = np.linalg.solve(noise, np.column_stack([slope, gap]))
            precision = slope.T @ ratio[:, :-1] + (lift * belief) @ lift.T
            covariance = np.linalg.inv(0.5 * (precision + precision.T))
            step = covariance @ (slope.T @ ratio[:, -1] + lift @ (belief * coefficients))
            length = float(np.linalg.norm(step))
            theta = theta - step * min(1.0, LONGEST_STEP / max(length, 1e-300))
            if length < TOLERANCE:
                break
        return theta, covariance

    def _lift(self) -> np.ndarray:
        """Coefficients of x and intercept per unit of the coefficients of z, (p, d + 1)."""
        size = self.coordinates.center.shape[0] + bool(self.coordinates.constant)
        coef, intercept = self.coordinates.coefficients(np.eye(size))
        return np.column_stack([coef, intercept])

    def _precision(self) -> np.ndarray:
        d = self.coordinates.center.shape[0]
        return np.append(np.full(d, self.prior.precision), self.prior.of_intercept)

    def _tails(self) -> np.ndarray:
        d = self.coordinates.center.shape[0]
        return np.append(np.full(d, self.prior.scale), self.prior.intercept_scale)


def _normal_points(d: int) -> np.ndarray:
    """Symmetric points with the mean and the covariance of a standard normal distribution."""
    from scipy.stats import qmc  # slow to import

    half = 1 << math.ceil(math.log2(max(POINTS, POINTS_PER_COLUMN * d) / 2))
    uniform = qmc.Sobol(d, seed=randomness.make_generator(0)).random(half)
    points = ndtri(np.clip(uniform, 1e-9, 1.0 - 1e-9))
    root = np.linalg.cholesky(points.T @ points / half)
    points = np.linalg.solve(root, points.T).T
    return np.concatenate([points, -points])
