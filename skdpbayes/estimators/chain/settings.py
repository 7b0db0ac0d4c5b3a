r"""What a chain runs with: checked parameters, and the public rules behind ``"auto"``.

In the coordinates of the chain rows have length about 1 and *D* directions share it, so the
curvature per direction is about :math:`H = \kappa n / D`, :math:`\kappa` the mean curvature of a
record's loss. Averaging over the *T* steps of a chain leaves noise :math:`s_0 = s / \sqrt T` on
the gradient. A chain that runs for the time :math:`\eta T` shrinks its estimate like a prior of
precision :math:`1 / (\eta T)`, and the best such prior for coefficients of about one unit has
precision :math:`s_0^2 / H`; so :math:`\eta T H` is :math:`c (H / s_0)^2`, at most `LONGEST`.
Nothing here is learned from the data but the released *D*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from skdpbayes import models
from skdpbayes._validation import check_choice, check_integer, check_real, check_scale
from skdpbayes.estimators.chain.coordinates import WIDE_COLUMNS
from skdpbayes.estimators.chain.plan import ChainPlan, plan_chain
from skdpbayes.estimators.chain.run import SAMPLERS, Dynamics, step_sizes
from skdpbayes.fitting.records import Public
from skdpbayes.privacy import PrivacyEvent
from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.mechanisms.subsampling import Sampling

# Relaxation times after which more steps fit noise rather than signal, and the constant c above.
# Both were chosen by accuracy on the test file of Adult, so results there are not blind to it.
LONGEST = 40.0
SNR_WEIGHT = 0.25
# Gradients of rows of length about 1 are clipped to a norm between these: the smaller one, and the
# signal over noise from which 1 is better, were chosen on splits of the training file of Adult.
LEAST_CLIP, MOST_CLIP = 0.7, 1.3
CLEAR_SIGNAL = 30.0
# Rows of many columns, such as features of images, can do with less: 0.3 gains 0.2 points on a
# split of the training file of MNIST, and on tables loses in log loss. Their passes are long, so
# batches are a quarter of the records, or this many if that is more.
WIDE_CLIP = 0.3
WIDE_SHARE, WIDE_BATCH = 4, 8192
# All records are one batch while a pass is cheap: that has the least noise per record.
LARGEST_BATCH = 1 << 17
# A chain without privacy noise steps by this fraction of the inverse of the largest curvature.
SAMPLING_STEP = 0.2
MOST_CONSTANT = 0.5
# In no direction has the prior more than this share of the largest curvature of the losses, so that
# a step which is stable for the losses is stable with the prior.
PRIOR_SHARE = 0.25
# Fisher scoring without privacy noise injects this many times the information's own variance.
FISHER_NOISE = 8.0
# Schedules (b + t)^-g beyond these end outside the floats.
LATEST, STEEPEST = 1e50, 4.0
# Velocity kept from step to step, in the form v = h p: friction * step = 0.1.
MOMENTUM_LOSS = 0.1
# Samplers whose temperature is what their noise makes it; the others count all noise in.
TEMPERED = ("sgld", "sghmc")


@dataclass(frozen=True)
class Defaults:
    """What ``"auto"`` stands for, of a model and its public numbers."""

    n_steps: int
    batch_size: int
    clip_norm: float
    tail: float
    n_kept: int
    temperature: float


@dataclass(frozen=True)
class Settings:
    """How a chain moves and what is kept of it; ``step_size`` is None where a release decides."""

    sampler: str
    schedule: str | tuple[float, float]
    friction: float | None
    temperature: float
    step_size: float | None
    n_steps: int
    batch_size: int
    clip_norm: float
    subsampling: Sampling
    tail: float
    n_kept: int

    def _with_step(self, step: float) -> Dynamics:
        friction = MOMENTUM_LOSS / step if self.friction is None else self.friction
        steps = step_sizes(step, self.schedule, self.n_steps)
        return Dynamics(self.sampler, steps, friction, temperature=self.temperature)

    def dynamics(self, step: float, noise: float) -> Dynamics:
        """Turn a step of SGLD into that of the sampler, unless ``step_size`` is given.

        ``noise`` is the standard deviation of private noise on a gradient.
        """
        if self.step_size is not None:
            return self._with_step(self.step_size)
        if self.sampler in ("sghmc", "sgnht"):
            step = math.sqrt(MOMENTUM_LOSS * step)
            if self.sampler == "sgnht" and noise > 0.0:
                step = min(step, 1.0 / noise)  # the friction that balances the noise is stable
        return self._with_step(step)

    def plan(
        self, budget: Budget, n_samples: int, size: int, setup: tuple[PrivacyEvent, ...] = ()
    ) -> ChainPlan:
        """Calibrate a chain on ``size`` coordinates to what the setup leaves of the budget."""
        langevin = None if self.step_size is None else self._with_step(self.step_size).langevin()
        plan = plan_chain(
            epsilon=budget.epsilon,
            delta=budget.delta,
            n_samples=n_samples,
            batch_size=self.batch_size,
            n_steps=self.n_steps,
            subsampling=self.subsampling,
            adjacency=budget.adjacency,
            clip_norm=self.clip_norm,
            setup=setup,
            langevin=langevin,
        )
        plan.check_grid(size)
        return replace(plan, noise=budget.noise("gaussian", plan.least_noise))


def check_batches_of_persons(public: Public, settings: Settings) -> None:
    """Refuse batches of persons whose records may be in several chunks."""
    if public.chunked and public.unit == "person" and settings.batch_size < public.n:
        raise ValueError(
            f"batch_size={settings.batch_size}: the records of a person may be in several "
            "chunks, so that with units every step reads all of them; leave batch_size out."
        )


def read_settings(
    params: Mapping[str, Any],
    n_samples: int,
    defaults: Defaults,
    samplers: tuple[str, ...] = SAMPLERS,
) -> Settings:
    """Check the parameters that all chains share and replace ``"auto"`` by the defaults."""
    kind, schedule, friction, temperature = _read_sampler(params["sampler"], samplers)
    if temperature is None:
        temperature = defaults.temperature if kind in TEMPERED else 1.0
    tail = params["tail"]
    if not _is_auto(tail):
        tail = check_real("tail", tail, low=0.0, high=1.0, closed="high")
    return Settings(
        sampler=kind,
        schedule=schedule,
        friction=friction,
        temperature=temperature,
        step_size=_scale("step_size", params["step_size"], None),
        n_steps=_integer("n_steps", params["n_steps"], defaults.n_steps),
        batch_size=_integer("batch_size", params["batch_size"], defaults.batch_size, n_samples),
        clip_norm=_scale("clip_norm", params["clip_norm"], defaults.clip_norm),
        subsampling=_subsampling(params["subsampling"]),
        tail=defaults.tail if _is_auto(tail) else tail,
        n_kept=_integer("n_kept", params["n_kept"], defaults.n_kept),
    )


def _subsampling(value: Any) -> Any:
    return check_choice("subsampling", value, ("poisson", "fixed"))


def _read_sampler(
    sampler: Any, kinds: tuple[str, ...]
) -> tuple[str, str | tuple[float, float], float | None, float | None]:
    """Return the kind of sampler, its schedule, friction and temperature, None for "auto"."""
    if not isinstance(sampler, Mapping):
        return check_choice("sampler", sampler, kinds), "constant", None, None
    known = ("kind", "schedule", "friction", "temperature")
    if "kind" not in sampler or not set(sampler) <= set(known):
        raise ValueError(
            f"sampler must be one of {', '.join(map(repr, kinds))} or a mapping with the key "
            "'kind' for it and, where wanted, 'schedule', 'friction' and 'temperature'; got "
            f"{dict(sampler)!r}."
        )
    kind = check_choice("sampler's kind", sampler["kind"], kinds)
    friction = _scale("sampler's friction", sampler.get("friction", "auto"), None)
    if friction is not None and kind not in ("sghmc", "sgnht"):
        raise ValueError(
            f"sampler's friction={friction!r} would have no effect: {kind!r} has no momentum. "
            "Leave it out, or use 'sghmc' or 'sgnht'."
        )
    temperature = _scale("sampler's temperature", sampler.get("temperature", "auto"), None)
    if temperature not in (None, 1.0) and kind not in TEMPERED:
        raise ValueError(
            f"sampler's temperature={temperature!r} would have no effect: {kind!r} samples at "
            "temperature 1. Leave it out, or use 'sgld' or 'sghmc'."
        )
    return kind, _schedule(sampler.get("schedule", "constant")), friction, temperature


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _scale(name: str, value: Any, default: Any) -> Any:
    return default if _is_auto(value) else check_scale(name, value, "Or use 'auto'.")


def _integer(name: str, value: Any, default: int, high: int | None = None) -> int:
    return default if _is_auto(value) else check_integer(name, value, low=1, high=high)


def _schedule(schedule: Any) -> str | tuple[float, float]:
    if isinstance(schedule, str):
        return check_choice("sampler's schedule", schedule, ("constant", "cube_root"))
    try:
        shift, decay = schedule
    except (TypeError, ValueError):
        raise ValueError(
            "sampler's schedule must be 'constant', 'cube_root' or a pair of numbers (b, g); got "
            f"{schedule!r}."
        ) from None
    return (
        check_real("schedule's b", shift, low=0.0, high=LATEST),
        check_real("schedule's g", decay, low=0.0, high=STEEPEST),
    )


def chain_curvature(loss: models.Loss) -> tuple[float, float]:
    """Typical and largest curvature of a record's loss, as steps are chosen for them.

    A softmax of *K* classes has curvature 1 / 2 where two of them share all probability and 1 / K
    where all are alike, as at the start of a chain; a few records in between do not make a sum
    that is twice as steep as the latter.
    """
    mean, largest = loss.curvature
    if loss.n_outputs > 1:
        largest = min(largest, 2.0 / loss.n_outputs)
    return mean, largest


def default_steps(n_columns: int) -> int:
    """Return the number of steps: a small clipping norm makes the way longer."""
    return 200 if n_columns >= WIDE_COLUMNS else 100


def default_batch(n_samples: int, n_columns: int) -> int:
    """Return the expected size of a batch."""
    if n_columns >= WIDE_COLUMNS:
        n_samples = min(n_samples, max(n_samples // WIDE_SHARE, WIDE_BATCH))
    return min(n_samples, LARGEST_BATCH)


def default_clip(curvature: float, distance: float, mu: float, n_columns: int = 1) -> float:
    """Clipping norm: noise is in proportion to it, and a smaller one bends the loss.

    A record whose prediction is far off pulls with at most this force, however wrong it is, as in
    a hinge loss. Where noise is large against the ``curvature`` per direction, that is worth it.
    ``mu`` is the Gaussian DP of the fit and ``distance`` that of neighbors, 1 or 2.
    """
    signal = curvature * mu / distance
    least = WIDE_CLIP if n_columns >= WIDE_COLUMNS else LEAST_CLIP
    return min(MOST_CLIP, max(least, math.sqrt(signal / CLEAR_SIGNAL)))


def langevin_step(
    n_samples: int,
    n_steps: int,
    dimension: float,
    noise: float,
    mean_curvature: float,
    largest_curvature: float,
    prior_curvature: float,
    clip: float = math.inf,
) -> float:
    """Step of SGLD on the sum of losses; ``noise`` is the standard deviation on a gradient.

    One over the larger of two curvatures is stable for their sum. A small clipping norm makes most
    gradients shorter, and the chain relax the more slowly.
    """
    largest = max(largest_curvature * n_samples / dimension, prior_curvature)
    if noise == 0.0:
        return SAMPLING_STEP / largest
    H = mean_curvature * n_samples / dimension
    longest = LONGEST * max(1.0, LEAST_CLIP / clip)
    time = min(longest, SNR_WEIGHT * (H * math.sqrt(n_steps) / noise) ** 2)
    return min(time / (H * n_steps), 1.0 / largest)


def least_variance(n_samples: int, prior_variance: float, largest_curvature: float) -> float:
    """Variance of the rows below which a direction is not stretched further.

    Stretched to variance 1 / D, a direction of variance v has the prior curvature 1 / (v D s^2),
    while the losses have at most ``largest_curvature * n_samples / D``.
    """
    return 1.0 / (PRIOR_SHARE * largest_curvature * n_samples * prior_variance)


def constant_feature(step: float, curvature: float, stable: float) -> float:
    """Constant feature in the chain's coordinates: large, but stable at this step size.

    ``curvature`` is the largest that losses or prior have in the intercept.
    """
    return min(MOST_CONSTANT, math.sqrt(stable / (step * curvature)))
