r"""Algorithms 1 to 4 of Wang, Fienberg and Smola (2015) as printed, priced by this package.

The noise of the algorithms is theirs; the event that a ledger composes is ours, and the claim is
refused if it does not prove what they print.

**The noise of a sampler as the noise of a mechanism.** The potential is
:math:`U=\sum_i\ell_i+r`, its estimate from a batch *S* of expected size :math:`\tau` out of *N* is
:math:`g=\nabla r+(N/\tau)Q` with *Q* the sum over *S* of gradients clipped to norm *L*, and a
sampler moves by :math:`-\kappa g` plus noise of variance *v* per coordinate. So every step is a
Gaussian mechanism on *Q* with noise multiplier

.. math:: \sigma = \frac{\sqrt v\,\tau}{\kappa N L},

relative to one record's contribution: the convention of
:class:`~skdpbayes.privacy.SubsampledGaussian`, which doubles it for ``"replace_one"``. At
temperature 1 (noise variance :math:`2h` for step *h*), with the discretizations

* SGLD :math:`\theta\leftarrow\theta-hg+\sqrt{2h}\,\xi`,
* SGHMC :math:`p\leftarrow p-hg-hAp+N(0,2(A-\hat B)h)`, :math:`\theta\leftarrow\theta+hp`,
* SGNHT :math:`p\leftarrow p-hg-h\zeta p+N(0,2Ah)`, :math:`\theta\leftarrow\theta+hp`,
  :math:`\zeta\leftarrow\zeta+h(|p|^2/d-1)`,
* SGFS :math:`\theta\leftarrow\theta-2(\gamma NI+4B/h)^{-1}(g+N(0,4B/h))`.

Both Wang et al. (2015) and Li et al. (2019) print SGLD with noise variance equal to the step, whose
stationary density is :math:`e^{-2U}`: temperature 1/2.

References
----------
.. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
   gradient Monte Carlo. ICML 2015, with its supplement.
.. [2] S. Ahn, A. Korattikara and M. Welling. Bayesian posterior sampling via stochastic gradient
   Fisher scoring. ICML 2012.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from skdpbayes import randomness
from skdpbayes._validation import check_integer, check_real, check_scale
from skdpbayes.estimators.chain.plan import ChainPlan
from skdpbayes.estimators.chain.run import Dynamics, run_chain
from skdpbayes.exceptions import CalibrationError
from skdpbayes.fitting.estimator import make_budget, spent
from skdpbayes.models import clipped_integers
from skdpbayes.privacy import SubsampledGaussian, compose, repeat
from skdpbayes.privacy._numeric import (
    check_count,
    check_delta,
    check_nonnegative,
    check_positive,
)
from skdpbayes.privacy.budget import Noise
from skdpbayes.privacy.events import PrivacyEvent
from skdpbayes.sampling.exponential import one_posterior_sample
from skdpbayes.sampling.gradients import Gradients, chain, plan_chain
from skdpbayes.sampling.records import ALONE, PosteriorDraws, as_arrays, count_records, pick

# Sums and covariances of a few thousand rows are off by less than this share of a record's move.
_ROUNDING = 1.0 + 1e-9


def wang2015_power(epsilon: float, bound: float) -> float:
    r"""Power of likelihood and prior in Algorithm 1, :math:`\rho=\min(1,\varepsilon/(4B))`.

    Theorem 4 has the same constant for log-likelihoods that are *L*-Lipschitz in records of norm at
    most *R*: pass :math:`B=LR`. It is tight for log-likelihoods in :math:`[-B, B]` and twice too
    small for those in :math:`[-B, 0]`, which is all that discrete data can have.

    Parameters
    ----------
    epsilon : float
        Budget, > 0.
    bound : float
        The bound *B*, or *L* times *R*, > 0.

    Returns
    -------
    float
        In (0, 1].

    Examples
    --------
    >>> from skdpbayes.papers import wang2015_power
    >>> wang2015_power(1.0, 5.0)
    0.05
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, closed="neither")
    return min(1.0, epsilon / (4.0 * check_real("bound", bound, low=0.0, closed="neither")))


def wald_test(
    draw: Any, value: Any, information: Any, *, n_samples: int, temperature: float
) -> tuple[float, float]:
    r"""Test of Proposition 9: does one posterior sample contradict a value of the parameters?

    A draw at temperature *T* has the asymptotic law :math:`N(\theta_0,(1+T)I^{-1}/n)`, so that
    :math:`n(\theta-\theta_0)^\top I(\theta-\theta_0)/(1+T)` is chi-square with as many degrees of
    freedom as there are parameters. Post-processing, if the information is known at the tested
    value or computed at the draw.

    Parameters
    ----------
    draw : float or array-like of shape (p,)
        The released sample.
    value : float or array-like of shape (p,)
        The parameters under the hypothesis.
    information : float or array-like of shape (p, p)
        Fisher information of one record at `value`.
    n_samples : int
        Number of records.
    temperature : float
        One over the power of the likelihood: :math:`4B/\varepsilon` as printed, ``temperature``
        of what `skdpbayes.sampling.one_posterior_sample` returns.

    Returns
    -------
    statistic, pvalue : float

    Examples
    --------
    >>> from skdpbayes.papers import wald_test
    >>> statistic, pvalue = wald_test(0.36, 0.3, 1 / 0.21, n_samples=5000, temperature=20.0)
    >>> round(statistic, 2), round(pvalue, 3)
    (4.08, 0.043)
    """
    gap = np.atleast_1d(np.asarray(draw, dtype=float) - np.asarray(value, dtype=float))
    matrix = np.asarray(information, dtype=float).reshape(gap.size, gap.size)
    n_samples = check_count("n_samples", n_samples)
    spread = 1.0 + check_positive("temperature", temperature)
    statistic = float(n_samples * gap @ matrix @ gap / spread)
    return statistic, float(chi2.sf(statistic, gap.size))


def approximation_delta(epsilon: float, total_variation: float) -> float:
    r"""Delta that a sampler adds when it is only close to its private target.

    If the target is (epsilon, delta)-DP and the sampler is within `total_variation` of it for
    every data set, the sampler is :math:`(\varepsilon, \delta + (1+e^\varepsilon)\,tv)`-DP, with
    *tv* that distance: both sides of the definition move by one distance each, one of them
    multiplied by :math:`e^\varepsilon`.

    Parameters
    ----------
    epsilon : float
        Of the target.
    total_variation : float
        In [0, 1]; must hold for every data set, which no diagnostic of a chain can show.

    Returns
    -------
    float
        At most 1.
    """
    epsilon = check_nonnegative("epsilon", epsilon)
    total_variation = check_nonnegative("total_variation", total_variation)
    if total_variation == 0.0:
        return 0.0
    return min(1.0, (1.0 + math.exp(min(epsilon, 700.0))) * total_variation)


def gradient_unit(batch_size: float, n_samples: int, clip_norm: float) -> float:
    """Largest contribution of one record to the estimated gradient, N L / tau."""
    batch_size = check_positive("batch_size", batch_size)
    n_samples = check_count("n_samples", n_samples)
    if batch_size > n_samples:
        raise ValueError(f"batch_size must be <= n_samples={n_samples}, got {batch_size!r}")
    return n_samples * check_positive("clip_norm", clip_norm) / batch_size


def update_noise_multiplier(
    coefficient: float, variance: float, *, batch_size: float, n_samples: int, clip_norm: float
) -> float:
    """Noise multiplier of any update that subtracts a multiple of the gradient and adds noise.

    Parameters
    ----------
    coefficient : float
        The factor on the estimated gradient of the whole potential.
    variance : float
        Variance of the injected noise, per coordinate.
    batch_size : float
        Expected batch size, by which the sum is divided (never the size drawn).
    n_samples : int
        Number of records.
    clip_norm : float
        Bound on the norm of one record's gradient.

    Returns
    -------
    float
        Standard deviation of the noise on the sum of clipped gradients, over `clip_norm`.
    """
    unit = gradient_unit(batch_size, n_samples, clip_norm)
    return math.sqrt(check_nonnegative("variance", variance)) / (
        check_positive("coefficient", coefficient) * unit
    )


def sgld_noise_multiplier(
    step_size: float, *, batch_size: float, n_samples: int, clip_norm: float
) -> float:
    r"""Noise multiplier of SGLD at temperature 1, :math:`(\tau/(NL))\sqrt{2/h}`.

    Parameters
    ----------
    step_size : float
        The step *h*.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    float
        Relative to one record's contribution.

    Examples
    --------
    >>> from skdpbayes.papers import sgld_noise_multiplier
    >>> public = {"batch_size": 128, "n_samples": 60_000, "clip_norm": 1.0}
    >>> round(sgld_noise_multiplier(1e-6, **public), 8)
    3.01698893
    """
    return sghmc_noise_multiplier(
        step_size, 1.0, batch_size=batch_size, n_samples=n_samples, clip_norm=clip_norm
    )


def sghmc_noise_multiplier(
    step_size: float,
    friction: float,
    noise_estimate: float = 0.0,
    *,
    batch_size: float,
    n_samples: int,
    clip_norm: float,
) -> float:
    r"""Noise multiplier of SGHMC and SGNHT, :math:`(\tau/(NL))\sqrt{2(A-\hat B)/h}`.

    In the form with velocities :math:`v=hp`, :math:`\eta=h^2`, :math:`a=hA`, :math:`b=h\hat B` it
    is the same number, :math:`(\tau/(NL))\sqrt{2(a-b)/\eta}`. Without a guess it is that of SGNHT,
    whose diffusion is *A*: the thermostat sets the friction by itself, from released momenta.

    Parameters
    ----------
    step_size : float
        The step *h*.
    friction : float
        The friction *A* of SGHMC, the diffusion of SGNHT.
    noise_estimate : float, default=0.0
        The guess :math:`\hat B` of half the step times the variance of the gradient noise; it is
        subtracted from the injected noise, so 0 is the private choice. Must be below `friction`
        and must not be estimated from the data.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    float
        Relative to one record's contribution.
    """
    h = check_positive("step_size", step_size)
    injected = friction - check_nonnegative("noise_estimate", noise_estimate)
    if not injected > 0.0:
        raise ValueError(
            f"friction must be > noise_estimate={noise_estimate!r} so that noise is injected, "
            f"got {friction!r}"
        )
    return math.sqrt(2.0 * injected / h) / gradient_unit(batch_size, n_samples, clip_norm)


def sgfs_noise_multiplier(
    step_size: float, noise_scale: float, *, batch_size: float, n_samples: int, clip_norm: float
) -> float:
    r"""Noise multiplier of Fisher scoring with B = bI, :math:`(\tau/(NL))\sqrt{4b/h}`.

    The noise is added to the gradient before the preconditioner, which must be public or released
    at a cost of its own. Wang et al. (2015), Algorithm 4, misses the factor 4 of Ahn et al. (2012).

    Parameters
    ----------
    step_size : float
        The step *h*.
    noise_scale : float
        The factor *b*.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    float
        Relative to one record's contribution.
    """
    variance = 4.0 * check_positive("noise_scale", noise_scale)
    return update_noise_multiplier(
        1.0,
        variance / check_positive("step_size", step_size),
        batch_size=batch_size,
        n_samples=n_samples,
        clip_norm=clip_norm,
    )


class LangevinNoise(NamedTuple):
    """Noise of one step that serves the sampler and privacy.

    Attributes
    ----------
    variance : float
        Variance of the noise, per coordinate.
    temperature : float
        Temperature that the sampler then has.
    """

    variance: float
    temperature: float


def private_langevin_noise(
    step_size: float,
    noise_multiplier: float,
    *,
    batch_size: float,
    n_samples: int,
    clip_norm: float,
) -> LangevinNoise:
    r"""Noise of an SGLD step that serves both the sampler and privacy.

    :math:`v=\max(2h, (\sigma hNL/\tau)^2)`; the effective temperature is :math:`v/(2h)`, 1 as long
    as the step is at most :func:`free_step_size`.

    Parameters
    ----------
    step_size : float
        The step *h*.
    noise_multiplier : float
        The multiplier :math:`\sigma` that privacy asks for.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    LangevinNoise
        Variance and effective temperature.
    """
    h = check_positive("step_size", step_size)
    unit = gradient_unit(batch_size, n_samples, clip_norm)
    private = (check_nonnegative("noise_multiplier", noise_multiplier) * h * unit) ** 2
    variance = max(2.0 * h, private)
    return LangevinNoise(variance, variance / (2.0 * h))


def free_step_size(
    noise_multiplier: float, *, batch_size: float, n_samples: int, clip_norm: float
) -> float:
    r"""Largest SGLD step whose own noise is enough for privacy, :math:`2\tau^2/(NL\sigma)^2`.

    Parameters
    ----------
    noise_multiplier : float
        The multiplier :math:`\sigma` that privacy asks for.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    float
        Rounded to the private side: :func:`sgld_noise_multiplier` there is at least
        `noise_multiplier`.
    """
    sigma = check_nonnegative("noise_multiplier", noise_multiplier)
    unit = gradient_unit(batch_size, n_samples, clip_norm)
    if sigma == 0.0:
        return math.inf
    step = 2.0 / (unit * sigma) ** 2
    while math.sqrt(2.0 / step) / unit < sigma:
        step = math.nextafter(step, 0.0)
    return step


def wang2015_noise_variance(
    epsilon: float,
    delta: float,
    *,
    n_passes: float,
    batch_size: float,
    n_samples: int,
    clip_norm: float,
    constant: float = 128.0,
) -> float:
    r"""Variance of the noise on the estimated gradient in Algorithm 2 of Wang et al. (2015).

    :math:`V=\frac{128NTL^2}{\tau\varepsilon^2}\log\frac{2.5NT}{\tau\delta}\log\frac2\delta` for
    *T* passes; the algorithm injects :math:`\max(\eta^2V,\eta)`, so the private noise takes over
    from the sampler's where :math:`\eta>1/V`. The algorithm is private by a wide margin, although
    its proof needs 256 in place of 128. For reproduction only.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    n_passes : float
        Passes *T* over the data; at least :math:`\varepsilon^2N/(32\tau\log(2/\delta))`, the
        condition of their theorem.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.
    constant : float, default=128.0
        As printed; 256.0 is what the proof supports.

    Returns
    -------
    float
        The variance *V*.
    """
    epsilon = check_positive("epsilon", epsilon)
    delta = check_delta(delta)
    if delta == 0.0:
        raise CalibrationError("Wang et al. (2015) need delta > 0, got 0.0")
    unit = gradient_unit(batch_size, n_samples, clip_norm)  # checks the three numbers
    passes = check_positive("n_passes", n_passes)
    least = epsilon**2 * n_samples / (32.0 * batch_size * math.log(2.0 / delta))
    if passes < least:
        raise CalibrationError(
            f"Wang et al. (2015) need n_passes >= {least:.6g} at this epsilon and batch size, "
            f"got {n_passes!r}; lower epsilon or take more passes"
        )
    n_steps = n_samples * passes / batch_size
    logs = math.log(2.5 * n_steps / delta) * math.log(2.0 / delta)
    norm = unit * batch_size / n_samples
    return constant * n_steps * norm**2 / epsilon**2 * logs


def wang2015_noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    n_passes: float,
    batch_size: float,
    n_samples: int,
    constant: float = 128.0,
) -> float:
    """Noise multiplier of Algorithm 2 of Wang et al. (2015) where its private noise rules.

    Parameters
    ----------
    epsilon, delta, n_passes, batch_size, n_samples, constant : float
        As for :func:`wang2015_noise_variance`; the clipping norm cancels.

    Returns
    -------
    float
        Standard deviation of the noise on the sum of gradients, over the clipping norm.
    """
    variance = wang2015_noise_variance(
        epsilon,
        delta,
        n_passes=n_passes,
        batch_size=batch_size,
        n_samples=n_samples,
        clip_norm=1.0,
        constant=constant,
    )
    return math.sqrt(variance) * batch_size / n_samples


def wang2015_phase_steps(
    epsilon: float,
    delta: float,
    *,
    alpha: float,
    n_passes: float,
    batch_size: int,
    n_samples: int,
    clip_norm: float,
) -> tuple[np.ndarray, int]:
    r"""Steps of the "alpha phase transition", and the first of them whose state is a draw.

    :math:`\eta_t=\alpha\varepsilon^2/(128L^2\log(2.5NT/(\tau\delta))\log(2/\delta)\,t)`; for
    :math:`t>\alpha NT/\tau` the noise of Algorithm 2 is the sampler's own.

    Parameters
    ----------
    epsilon, delta, n_passes, batch_size, n_samples, clip_norm : float
        As for :func:`wang2015_noise_variance`.
    alpha : float
        In (0, 1).

    Returns
    -------
    steps : ndarray of shape (n_steps,)
        One per iteration.
    first : int
        Number of steps before the first draw.
    """
    alpha = check_real("alpha", alpha, low=0.0, high=1.0, closed="neither")
    variance = wang2015_noise_variance(
        epsilon,
        delta,
        n_passes=n_passes,
        batch_size=batch_size,
        n_samples=n_samples,
        clip_norm=clip_norm,
    )
    n_steps = int(n_samples * n_passes / batch_size)
    times = np.arange(1.0, n_steps + 1.0)
    return alpha * (n_samples * n_passes / batch_size) / (variance * times), math.floor(
        alpha * n_samples * n_passes / batch_size
    )


@dataclass(frozen=True)
class _Printed:
    """A plan whose noise is a paper's and whose event is ours."""

    event: PrivacyEvent
    words: str
    noise: Noise
    n_steps: int
    conditions: tuple[str, ...] = (ALONE.format("per_record_gradient"),)


def wang2015_langevin(
    per_record_gradient: Callable[[Any, Any], Any],
    prior_gradient: Callable[[Any], Any] | None,
    start: Any,
    data: Any,
    *,
    clip_norm: float,
    step_size: Any,
    epsilon: float,
    delta: float,
    n_passes: float,
    batch_size: int,
    sampler: str = "sgld",
    friction: float | None = None,
    noise_estimate: float = 0.0,
    tail: float = 0.5,
    n_kept: int = 100,
    random_state: Any = None,
    ledger: Any = None,
) -> PosteriorDraws:
    r"""Algorithm 2 (DP-SGLD), or equations 2 and 3 (SGHMC, SGNHT), with the noise as printed.

    Each of the :math:`NT/\tau` steps takes :math:`\tau` records without replacement and adds noise
    of variance :math:`\max(\eta_t^2V,\eta_t)` with *V* of :func:`wang2015_noise_variance`. With
    momentum, the noise is :math:`\max(h_t^2V,2(A-\hat B)h_t)`: the paper asks for
    :math:`2(A-\hat B)/h_t\ge V`, and its own noise is raised where that does not hold. Gradients
    are clipped, which the paper assumes away.

    **Privacy guarantee.** (epsilon, delta), replace one, by the composition of the steps' exact
    profiles, which is refused if it does not prove the claim. ``privacy_.epsilon_at(delta)`` is
    what the noise is really worth.

    Parameters
    ----------
    per_record_gradient, prior_gradient, start, data, clip_norm
        As for `skdpbayes.sampling.chain`.
    step_size : float or array-like of shape (n_steps,)
        The steps :math:`\eta_t`; :func:`wang2015_phase_steps` has the paper's.
    epsilon, delta : float
        As printed; both positive.
    n_passes : float
        Passes *T*, which must meet the condition of their Theorem 16.
    batch_size : int
        The batch size :math:`\tau`.
    sampler : {"sgld", "sghmc", "sgnht"}, default="sgld"
        Which update; the step is :math:`\eta_t` of the first and :math:`h_t` of the others.
    friction : float, default=None
        The constant *A* of ``"sghmc"`` and ``"sgnht"``, > 0.
    noise_estimate : float, default=0.0
        The guess :math:`\hat B` of ``"sghmc"``, below `friction`: half the step times the variance
        that batches give to the gradient. Public, so not an estimate from the data. It is taken
        off the injected noise and off nothing that privacy needs.
    tail, n_kept, random_state, ledger
        As for `skdpbayes.sampling.chain`.

    Returns
    -------
    PosteriorDraws
        Of ``"sgld"``, at temperature 1/2 where the sampler's own noise is the larger one; of
        ``"sghmc"``, at :math:`1-\hat B/A`, to which the batches add.
    """
    if sampler not in ("sgld", "sghmc", "sgnht"):
        raise ValueError(f"sampler must be 'sgld', 'sghmc' or 'sgnht'; got {sampler!r}.")
    if (friction is None) != (sampler == "sgld"):
        raise ValueError("friction belongs to 'sghmc' and 'sgnht', which need it.")
    estimate = check_real("noise_estimate", noise_estimate, low=0.0, closed="low")
    if estimate and sampler != "sghmc":
        raise ValueError(f"noise_estimate would have no effect on {sampler!r}.")
    temperature = 0.5
    if friction is not None:
        temperature = 1.0 - estimate / check_scale("friction", friction)
        if not temperature > 0.0:
            raise ValueError(f"noise_estimate must be below friction={friction!r}.")
    n = count_records(data)
    clip_norm = check_scale("clip_norm", clip_norm)
    batch_size = check_integer("batch_size", batch_size, low=1, high=n)
    budget = make_budget(epsilon, delta, "replace_one", ledger, random_state, n, stacklevel=3)
    multiplier = wang2015_noise_multiplier(
        epsilon, delta, n_passes=n_passes, batch_size=batch_size, n_samples=n
    )
    n_steps = int(n * n_passes / batch_size)
    steps = np.atleast_1d(np.asarray(step_size, dtype=np.float64))
    if steps.shape not in ((1,), (n_steps,)) or not (np.isfinite(steps) & (steps > 0.0)).all():
        raise ValueError(f"step_size must be one positive number or {n_steps} of them.")
    dynamics = Dynamics(sampler, steps, friction or 0.0, temperature=temperature)
    position = np.array(start, dtype=np.float64, ndmin=1)
    plan = ChainPlan(
        n,
        batch_size,
        n_steps,
        "fixed",
        "replace_one",
        clip_norm,
        multiplier,
        langevin=dynamics.langevin(),
        noise=budget.noise("gaussian", multiplier * clip_norm),
    )
    plan.check_grid(position.size)
    words = f"Algorithm 2 of Wang et al. (2015) with {sampler}"
    printed = _Printed(plan.event, words, plan.noise, n_steps)
    generator = randomness.make_generator(random_state)
    claim = budget.reserve(printed, "wang2015_langevin")
    with spent(ledger):
        potential = Gradients(
            per_record_gradient, prior_gradient, as_arrays(data), n, position.shape, clip_norm
        )
        result = run_chain(potential, plan, dynamics, position, generator, tail=tail, n_kept=n_kept)
    return PosteriorDraws(result.draws, result.mean, result.temperature, claim, printed)


class HybridDraws(NamedTuple):
    """What Algorithm 3 releases.

    Attributes
    ----------
    first : PosteriorDraws
        The posterior sample that the chain starts from.
    chain : PosteriorDraws
        The chain.
    """

    first: PosteriorDraws
    chain: PosteriorDraws

    @property
    def event(self) -> PrivacyEvent:
        """Both together, as accountants see them: cheaper than the sum of their prices."""
        events = (self.first.privacy_.event, self.chain.privacy_.event)
        return compose([event for event in events if event is not None])


def wang2015_hybrid(
    log_likelihood: Callable[[Any, Any], Any],
    per_record_gradient: Callable[[Any, Any], Any],
    prior: Any,
    prior_gradient: Callable[[Any], Any] | None,
    data: Any,
    *,
    bound: Any,
    clip_norm: float,
    step_size: float,
    epsilon: float,
    delta: float,
    first: dict[str, Any],
    sampler: str = "sgnht",
    friction: float | None = None,
    printed: bool = True,
    n_kept: int = 100,
    random_state: Any = None,
    ledger: Any = None,
) -> HybridDraws:
    r"""Algorithm 3: a posterior sample with half of epsilon, then a chain that starts there.

    Batches have :math:`\sqrt N` records and the chain makes :math:`\sqrt N` passes, hence about *N*
    steps, as in their experiments ("Hybrid + DP-SGNHT").

    **Privacy guarantee.** (epsilon, delta), replace one: the sample costs epsilon / 2 and the chain
    (epsilon / 2, delta), two entries of the ledger. ``event`` prices both together.

    Parameters
    ----------
    log_likelihood, prior, bound
        As for `skdpbayes.sampling.one_posterior_sample`.
    per_record_gradient, prior_gradient, data, clip_norm, step_size
        As for `skdpbayes.sampling.chain`.
    epsilon, delta : float
        The budget of both together; both positive.
    first : dict
        What else the first sample needs: ``points``, or ``start``, ``proposal_scale`` and
        ``n_steps``.
    sampler, friction
        As for :func:`wang2015_langevin`; the friction of ``"sghmc"`` and ``"sgnht"`` is 0.1 over
        the step if None.
    printed : bool, default=True
        Whether power and noise are those of the paper; otherwise the smallest that are private.
    n_kept, random_state, ledger
        As for `skdpbayes.sampling.chain`.

    Returns
    -------
    HybridDraws
    """
    n = count_records(data)
    root, half = math.isqrt(n), epsilon / 2.0
    if sampler != "sgld" and friction is None:
        friction = 0.1 / check_scale("step_size", step_size)
    options: dict[str, Any] = {
        "clip_norm": clip_norm,
        "step_size": step_size,
        "epsilon": half,
        "delta": delta,
        "batch_size": root,
        "n_kept": n_kept,
    }
    # what is wrong with the chain is found before the first sample is paid for
    if printed:
        options |= {"n_passes": root, "sampler": sampler, "friction": friction}
        wang2015_noise_multiplier(half, delta, n_passes=root, batch_size=root, n_samples=n)
    else:
        kind = {"kind": sampler} if friction is None else {"kind": sampler, "friction": friction}
        options |= {"n_steps": n, "sampler": kind, "subsampling": "fixed"}
        plan_chain(n, 1, **options)
    generator = randomness.make_generator(random_state)
    sample = one_posterior_sample(
        log_likelihood,
        prior,
        data,
        bound=bound,
        epsilon=half,
        calibration="wang2015" if printed else "bounded_range",
        temper_prior=printed,
        random_state=generator,
        ledger=ledger,
        **first,
    )
    states = (wang2015_langevin if printed else chain)(
        per_record_gradient,
        prior_gradient,
        sample.draws[0],
        data,
        **options,
        random_state=generator,
        ledger=ledger,
    )
    return HybridDraws(sample, states)


def covariance_sensitivity(n_samples: int, norm: float, *, printed: bool = False) -> float:
    r"""Frobenius sensitivity of the sample covariance of vectors of norm at most *L*.

    Lemma 19 has :math:`7L^2/(n-1)`. It is not tight: with *m* the mean of the other records, the
    covariances of two neighbors differ by :math:`\frac1n(aa^\top-bb^\top)`, :math:`a=x-m` and
    :math:`b=x'-m`, which is at most :math:`4L^2/n` long, attained by :math:`x=-m`, :math:`x'=m`.

    *Proof.* With :math:`u=x-x'` and :math:`v=x+x'-2m` the squared norm of
    :math:`aa^\top-bb^\top` is :math:`\frac12(|u|^2|v|^2+(u^\top v)^2)`, convex in *m*, hence
    largest on the sphere. Along the ray from *m* through *x* it is a convex function of
    :math:`|a|^2`, hence largest at :math:`a=0`, where it is :math:`|b|^4\le(2L)^4`, or on the
    sphere; likewise for :math:`x'`. Three points on the sphere lie on a circle of radius
    :math:`R\le L`, and with the angle :math:`\alpha` at *m* and the difference
    :math:`\kappa` of the other two the squared norm, :math:`(|a|^2-|b|^2)^2` plus 8 times the
    squared area, is :math:`16R^4\sin^2\alpha\,(1-\frac12\cos^2\kappa+\cos\kappa\cos\alpha+
    \frac12\cos^2\alpha)\le16R^4\sin^2\alpha\,(1+\cos^2\alpha)\le16R^4`.

    Parameters
    ----------
    n_samples : int
        Number of vectors, at least 2 (the lemma: more than 4).
    norm : float
        The bound *L*.
    printed : bool, default=False
        Return the lemma's value.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdpbayes.papers import covariance_sensitivity
    >>> covariance_sensitivity(100, 1.0), round(covariance_sensitivity(100, 1.0, printed=True), 4)
    (0.04, 0.0707)
    """
    n_samples = check_integer("n_samples", n_samples, low=2)
    square = check_scale("norm", norm) ** 2
    return 7.0 * square / (n_samples - 1) if printed else 4.0 * square / n_samples


def wang2015_fisher_scoring(
    per_record_gradient: Callable[[Any, Any], Any],
    prior_gradient: Callable[[Any], Any] | None,
    start: Any,
    data: Any,
    *,
    lipschitz: Any,
    step_size: float,
    epsilon: float,
    delta: float,
    n_passes: float,
    batch_size: int,
    averaging: Callable[[int], float] = lambda t: 1.0 / t,
    random_state: Any = None,
    ledger: Any = None,
) -> PosteriorDraws:
    r"""Algorithm 4 (DP-SGFS) as printed.

    With the public Lipschitz matrix *F* and :math:`\sigma^2=32T\log(2.5NT/(\tau\delta))
    \log(2/\delta)/(N\tau\varepsilon^2)`, each step releases a mean gradient under noise
    :math:`F\,N(0,\max(\sigma^2,1/(N^2\eta)))` and the batch's covariance of gradients under noise
    of deviation :math:`7\|F\|^2\sigma` per entry, projects it on the positive cone, averages it
    into the information by :math:`\kappa_t`, and moves by
    :math:`2(\frac{(\tau+N)N}{\tau}\hat I_t+4FF^\top/\eta)^{-1}` times the estimated gradient of the
    log-posterior. Gradients are scaled into the ellipsoid of *F*, which the paper assumes. The
    noise on the covariance is drawn for the upper triangle and mirrored, which the paper leaves
    open. The noise misses a factor 4 of the sampler's (Ahn et al. 2012), so the chain is too cold.

    **Privacy guarantee.** (2 epsilon, 2 delta), replace one, as printed. A step is one Gaussian
    mechanism on gradient and covariance together, whose sensitivity is
    :func:`covariance_sensitivity`, on a batch without replacement;
    ``privacy_.epsilon_at(2 * delta)`` is what it is really worth.

    Parameters
    ----------
    per_record_gradient, prior_gradient, start, data
        As for `skdpbayes.sampling.chain`; one flat array of parameters.
    lipschitz : float or array-like of shape (p, p)
        The matrix *F*, invertible; a number stands for a multiple of the identity.
    step_size : float
        The step :math:`\eta`.
    epsilon, delta, n_passes, batch_size
        As for :func:`wang2015_langevin`; batch_size at least 5.
    averaging : callable, default=lambda t: 1 / t
        The weights :math:`\kappa_t`, t = 1, 2, ...
    random_state, ledger
        As for `skdpbayes.sampling.chain`.

    Returns
    -------
    PosteriorDraws
        All states; the mean is that of the second half.
    """
    n = count_records(data)
    position = np.array(start, dtype=np.float64, ndmin=1)
    size = position.size
    batch_size = check_integer("batch_size", batch_size, low=5, high=n)
    step = check_scale("step_size", step_size)
    matrix = np.asarray(lipschitz, dtype=np.float64)
    matrix = matrix * np.eye(size) if matrix.ndim == 0 else matrix
    if matrix.shape != (size, size) or not np.isfinite(position).all():
        raise ValueError(
            f"start must be finite, and lipschitz a number or of shape {(size, size)}; got "
            f"{position!r} and shape {matrix.shape}."
        )
    inverse = np.linalg.inv(matrix)
    budget = make_budget(2 * epsilon, 2 * delta, "replace_one", ledger, random_state, n)
    n_steps = int(n * n_passes / batch_size)
    # sigma^2 = V / (4 N^2 L^2) with V of Algorithm 2, whose condition is the same
    variance = wang2015_noise_variance(
        epsilon, delta, n_passes=n_passes, batch_size=batch_size, n_samples=n, clip_norm=1.0
    )
    own = math.sqrt(variance / 4.0) / n
    of_gradient = max(own, 1.0 / (n * math.sqrt(step)))
    norm = float(np.linalg.norm(matrix, 2))
    of_covariance = 7.0 * norm**2 * own
    # distance of neighbors in units of the noise, of both releases together
    of_mean, of_spread = 2.0 / batch_size, covariance_sensitivity(batch_size, norm)
    moves = math.hypot(of_mean / of_gradient, of_spread / of_covariance)
    # the same noise over sensitivities that count rounding in
    upper = np.triu_indices(size)
    scales = [
        randomness.release_scale(scale / move, move * _ROUNDING, n_entries)
        for scale, move, n_entries in (
            (of_gradient, of_mean, size),
            (of_covariance, of_spread, len(upper[0])),
        )
    ]
    rate = batch_size / n
    mechanism = SubsampledGaussian(2.0 / moves, rate, "fixed", "replace_one")
    noise = budget.noise("gaussian", of_gradient)
    plan = _Printed(repeat(mechanism, n_steps), "Algorithm 4 of Wang et al. (2015)", noise, n_steps)
    generator = randomness.make_generator(random_state)
    claim = budget.reserve(plan, "wang2015_fisher_scoring")
    with spent(ledger):
        records, states = as_arrays(data), []
        functions = Gradients(per_record_gradient, prior_gradient, records, n, (size,), 1.0)
        information = np.zeros((size, size))
        for t in range(1, n_steps + 1):
            rows = randomness.fixed_subset(generator, n, batch_size)
            gradients = functions.rows(position, pick(records, rows), batch_size)
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = gradients @ inverse.T
            # in the unit ball
            inside = clipped_integers(scaled, 1.0, functions.unit) * functions.unit
            mean = inside.sum(axis=0) / batch_size
            released = randomness.release_gaussian(generator, mean, scales[0])
            own_gradients = inside @ matrix.T
            covariance = np.cov(own_gradients, rowvar=False).reshape(size, size)
            noisy = np.zeros((size, size))
            noisy[upper] = randomness.release_gaussian(generator, covariance[upper], scales[1])
            noisy = np.triu(noisy) + np.triu(noisy, 1).T
            values, vectors = np.linalg.eigh(noisy)
            projected = (vectors * np.maximum(values, 0.0)) @ vectors.T
            weight = averaging(t)
            information = (1.0 - weight) * information + weight * projected
            slope = n * (matrix @ released) + functions.of_prior(position)
            curvature = (batch_size + n) * n / batch_size * information
            curvature = curvature + 4.0 * matrix @ matrix.T / step
            position = position + 2.0 * np.linalg.solve(curvature, slope)
            states.append(position)
    draws = np.array(states)
    return PosteriorDraws(draws, draws[n_steps // 2 :].mean(axis=0), None, claim, plan)
