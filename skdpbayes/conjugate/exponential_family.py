"""Any exponential family: a user's statistic, released once, and a user's posterior from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from skdpbayes import models
from skdpbayes._validation import check_integer, check_scale
from skdpbayes.conjugate.model import (
    AnyValues,
    ConjugateModel,
    Draw,
    Release,
    draw_from_log_weights,
    release_sums,
)
from skdpbayes.privacy.budget import Budget, Noise

# Steps of the public grid per unit of a standardized statistic.
STEPS = 1 << 20
# Sweeps of the sampler of latent sums before its first draw; each costs two small solves.
BURN_IN = 200


class ExponentialFamily(ConjugateModel):
    r"""Sum of a statistic of your own under noise, and any posterior that follows from it.

    The posterior of an exponential family depends on the data through
    :math:`S = \sum_i S(x_i)` and the number of records alone. ``statistic`` computes :math:`S(x)`;
    ``draw`` samples the parameters given the sum. Released are the noisy sum and what is drawn
    from it.

    **Privacy guarantee.** The statistics of each record are clamped before they are added, to
    `bounds` entry by entry or to a length of at most `norm`, and cut toward zero to a public grid;
    one that is not a number becomes the middle of its bounds, or zero. So a wrong bound costs
    accuracy, not privacy. With k entries in bounds of half-width :math:`h_j` the entries
    :math:`(S_j - c_j)/h_j` in [-1, 1] have L1 sensitivity k and squared L2 sensitivity k for
    ``zero_out``, 2k and 4k for ``replace_one``; with `norm` r the L1 (``"laplace"``) or L2
    (``"gaussian"``) sensitivity of S is r and 2r. The claim rests on one condition: each row of the
    statistics comes from its own record alone, see
    :func:`~skdpbayes.sampling.check_per_record`.

    ``posterior="naive"`` projects the noisy sum to the possible values and takes it for the true
    one (Foulds et al. 2016, Equation 16). ``posterior="noise_aware"`` alternates between the
    parameters given a latent sum and the latent sum given the parameters and the release
    (Bernstein and Sheldon 2018): it needs ``moments``, takes the sum for normal, and its draws are
    those of a Markov chain. Both are post-processing.

    Parameters
    ----------
    statistic : callable
        Takes the data, as they were given, and returns one row per record, shape (n, size) or (n,).
    draw : callable, default=None
        Takes (total, n_records, generator, n_draws), total of shape (size,), and returns draws,
        first axis n_draws. Exactly one of `draw` and `log_density` is given.
    size : int, default=1
        Number of statistics k.
    bounds : (low, high), default=None
        Public bounds of the statistics, numbers or arrays of shape (size,). Exactly one of `bounds`
        and `norm` is given.
    norm : float, default=None
        Public bound on the length of the statistics of one record: of the sum of their absolute
        values for Laplace noise, Euclidean for Gaussian noise. For indicators of categories it is
        1, where bounds would cost half their number.
    moments : callable, default=None
        Takes one draw of the parameters and returns mean, shape (size,), and covariance, shape
        (size, size), of the statistics of one record; for ``posterior="noise_aware"``.
    log_density : callable, default=None
        Takes (points, total, n_records) and returns the log-posterior of each point, up to a
        constant: for families without a sampler.
    points : array-like of shape (n_points,) or (n_points, p), default=None
        Where `log_density` is drawn from.

    References
    ----------
    .. [1] J. Foulds, J. Geumlek, M. Welling and K. Chaudhuri. On the theory and practice of
       privacy-preserving Bayesian data analysis. UAI 2016.
    .. [2] G. Bernstein and D. Sheldon. Differentially private Bayesian inference for exponential
       families. NeurIPS 2018.

    Examples
    --------
    The shape of a Pareto distribution that starts at 1, with a gamma prior: S(x) = log x.

    >>> import numpy as np
    >>> from skdpbayes.conjugate import ExponentialFamily
    >>> model = ExponentialFamily(
    ...     statistic=np.log, bounds=(0.0, 5.0),
    ...     draw=lambda total, n, rng, n_draws: rng.gamma(1 + n, 1 / (1 + total[0]), n_draws),
    ...     moments=lambda shape: (np.array([1 / shape]), np.array([[1 / shape**2]])))
    >>> x = 1.0 + np.random.default_rng(0).pareto(2.0, size=3000)
    >>> posterior = model.posterior(x, epsilon=1.0, random_state=0)
    >>> bool(abs(posterior.mean(random_state=0) - 2.0) < 0.15)
    True
    """

    def __init__(
        self,
        statistic: Callable[[Any], Any],
        draw: Callable[..., Any] | None = None,
        *,
        size: int = 1,
        bounds: Any = None,
        norm: float | None = None,
        moments: Callable[[Any], Any] | None = None,
        log_density: Callable[..., Any] | None = None,
        points: Any = None,
    ) -> None:
        self.statistic = statistic
        self.draw = draw
        self.log_density = log_density
        self.points = points
        self.size = size
        self.bounds = bounds
        self.norm = norm
        self.moments = moments

    def _check(self) -> None:
        check_integer("size", self.size, low=1)
        if (self.draw is None) == (self.log_density is None):
            raise ValueError("Give exactly one of draw and log_density: the posterior of the sum.")
        if (self.log_density is None) != (self.points is None) or np.size(self.points) == 0:
            raise ValueError("points belong to log_density, which needs them; at least one.")
        if (self.bounds is None) == (self.norm is None):
            raise ValueError("Give exactly one of bounds and norm: how long a statistic may be.")
        if self.norm is not None:
            check_scale("norm", self.norm)
            return
        low, high = self._ends()
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (high > low).all()):
            raise ValueError(f"bounds must be finite with low < high; got {self.bounds!r}.")

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = (np.asarray(end, dtype=np.float64) for end in self.bounds)
        return np.broadcast_to(low, (self.size,)), np.broadcast_to(high, (self.size,))

    def _place(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the middle of the statistics and the unit in which they are released."""
        if self.norm is not None:
            return np.zeros(self.size), np.full(self.size, float(self.norm))
        low, high = self._ends()
        return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low

    def _read(self, data: Any) -> Any:
        if len(data) == 0:
            raise ValueError("data must have at least one record.")
        return data

    def _moves(self, records: int) -> tuple[float, float, int]:
        entries = 1 if self.norm is not None else self.size
        return float(records * entries), float(records**2 * entries), STEPS

    def _check_release(self, naive: bool) -> None:
        if not naive and self.moments is None:
            raise ValueError(
                "posterior='noise_aware' needs moments, mean and covariance of the statistics "
                "given the parameters. Pass them, or use posterior='naive'."
            )

    def _conditions(self) -> tuple[str, ...]:
        return ("statistic computes each row of its result from that row's record alone",)

    def _release(
        self, values: AnyValues, noise: Noise, generator: np.random.Generator
    ) -> np.ndarray:
        exact = values.total(partial(self._total, noise.law))
        center, unit = self._place()
        total = center * values.size + unit * (
            release_sums(generator, values, exact, noise) / STEPS
        )
        return np.asarray(total)

    def _given(self, parts: Sequence[Release], naive: bool) -> tuple[dict[str, Any], Draw]:
        n, total = sum(part.n for part in parts), np.sum([p.statistic for p in parts], axis=0)
        if naive:
            return {"total": total}, partial(_draw_given, self._projected(total, n), n, self._draw)
        return {"total": total}, _Latent(self, parts).draws

    def _scale(self, noise: Noise) -> np.ndarray:
        return np.asarray(self._place()[1] * noise.scale / STEPS)

    @property
    def _draw(self) -> Callable[..., Any]:
        """Sampler of the parameters given the sum."""
        if self.draw is not None:
            return self.draw
        assert self.log_density is not None
        return partial(_draw_points, self.log_density, np.asarray(self.points))

    def _total(self, law: str, values: Any) -> np.ndarray:
        return np.asarray(self._integers(values, len(values), law).sum(axis=0))

    def _integers(self, values: Any, n: int, law: str) -> np.ndarray:
        """Return clamped statistics in steps of the grid, cut toward zero."""
        rows = np.asarray(self.statistic(values), dtype=np.float64)
        if rows.shape not in ((n, self.size), (n,) if self.size == 1 else (n, self.size)):
            raise ValueError(
                f"statistic must return one row per record, shape {(n, self.size)}; got "
                f"{rows.shape}."
            )
        center, unit = self._place()
        with np.errstate(over="ignore", invalid="ignore"):
            rows = (rows.reshape(n, self.size) - center) / unit
        if self.norm is not None:
            return models.clipped_integers(rows, 1.0, 1.0 / STEPS, order=1 + (law != "laplace"))
        rows = np.clip(np.where(np.isnan(rows), 0.0, rows), -1.0, 1.0)
        return np.trunc(rows * STEPS).astype(np.int64)

    def _projected(self, total: np.ndarray, n: int) -> np.ndarray:
        """Return the nearest sum that bounds allow, entry by entry."""
        center, unit = self._place()
        return np.clip(total, n * (center - unit), n * (center + unit))

    def _temper(self, n: int, budget: Budget) -> tuple[Any, ...]:
        raise ValueError(
            "mechanism='ops' needs a likelihood; use skdpbayes.sampling.one_posterior_sample."
        )


def _draw_given(
    total: np.ndarray,
    n: int,
    draw: Callable[..., Any],
    generator: np.random.Generator,
    n_draws: int,
) -> np.ndarray:
    return np.asarray(draw(total, n, generator, n_draws))


def _draw_points(
    log_density: Callable[..., Any],
    points: np.ndarray,
    total: np.ndarray,
    n: int,
    generator: np.random.Generator,
    n_draws: int,
) -> np.ndarray:
    """Draw points by their log-density; one that is not a number has none."""
    values = np.asarray(log_density(points, total, n), dtype=np.float64)
    values = np.where(np.isnan(values), -np.inf, values)
    if values.shape != points.shape[:1] or not np.isfinite(values.max()):
        raise ValueError(
            f"log_density must return one number per point, shape {points.shape[:1]}, not all "
            f"minus infinity; got shape {values.shape}."
        )
    return np.asarray(points[draw_from_log_weights(generator, values, n_draws)])


class _Latent:
    """Gibbs sampler of parameters and the latent sums given their noisy releases."""

    def __init__(self, model: ExponentialFamily, parts: Sequence[Release]) -> None:
        self.model, self.parts = model, parts
        self.n = sum(part.n for part in parts)
        self.draw = model._draw

    def draws(self, generator: np.random.Generator, n_draws: int) -> np.ndarray:
        """Draw parameters; Laplace noise is a scale mixture of normal noise."""
        latent, kept = [part.statistic for part in self.parts], []
        for sweep in range(BURN_IN + n_draws):
            sums = self.model._projected(np.sum(latent, axis=0), self.n)
            theta = np.asarray(self.draw(sums, self.n, generator, 1))[0]
            latent = [
                self._latent(theta, part, held, generator)
                for part, held in zip(self.parts, latent, strict=True)
            ]
            if sweep >= BURN_IN:
                kept.append(theta)
        return np.asarray(kept)

    def _latent(
        self, theta: Any, part: Release, latent: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        assert self.model.moments is not None
        mean, covariance = (
            np.asarray(moment, dtype=np.float64) for moment in self.model.moments(theta)
        )
        variance = part.unit**2
        if part.noise.law == "laplace":
            gaps = np.maximum(np.abs(part.statistic - latent), 1e-9 * part.unit)
            variance = 1.0 / generator.wald(1.0 / (part.unit * gaps), 1.0 / part.unit**2)
        # normal prior times normal noise, in the form that a singular covariance allows
        prior = part.n * covariance
        gain = np.linalg.solve((prior + np.diag(variance)).T, prior.T).T
        center = part.n * mean + gain @ (part.statistic - part.n * mean)
        left = prior - gain @ prior
        values, vectors = np.linalg.eigh(0.5 * (left + left.T))
        roots = np.sqrt(np.maximum(values, 0.0))
        return center + vectors @ (roots * generator.standard_normal(center.size))
