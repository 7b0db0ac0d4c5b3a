"""A multilayer perceptron whose weights are a private stochastic-gradient Markov chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpbayes import models, randomness
from skdpbayes._validation import check_choice, check_integer, check_real, check_scale
from skdpbayes.estimators._classifier import PrivateClassifier
from skdpbayes.estimators.chain.plan import ChainPlan
from skdpbayes.estimators.chain.run import run_chain
from skdpbayes.estimators.chain.settings import (
    Defaults,
    Settings,
    check_batches_of_persons,
    read_settings,
)
from skdpbayes.estimators.network.posterior import NetworkPosterior
from skdpbayes.estimators.network.potential import NetworkPotential, held_inputs, network_step
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.chunks import ChunkedRecords, check_noise
from skdpbayes.fitting.estimator import NOT_PRIVATE
from skdpbayes.fitting.records import Public, Records
from skdpbayes.fitting.threads import one_blas_thread
from skdpbayes.privacy.budget import Budget

if TYPE_CHECKING:
    from skdpbayes.privacy.events import PrivacyEvent
    from skdpbayes.privacy.guarantee import Adjacency

# A record's gradient has many more coordinates in a network, and most of it is small.
CLIP_NORM = 0.3
# Posteriors of networks predict better when they are cold.
TEMPERATURE = 0.01
# A twelfth of the records: the noise of such a batch is already large enough for the amplification
# by sampling to be complete.
BATCHES, SMALLEST_BATCH = 12, 256
# Fisher scoring needs a Fisher information, which a network has none of that could be inverted.
SAMPLERS = ("sgld", "sghmc", "sgnht")


class DPSGLDNetworkClassifier(PrivateClassifier):
    r"""Bayesian neural network by differentially private stochastic-gradient MCMC.

    A Markov chain samples, at the temperature that its noise gives it, the posterior

    .. math::

        p(\theta \mid X, y) \propto e^{-\|\theta\|^2 / (2 s^2)}
        \exp\Big(-\sum_i \ell(\theta; x_i, y_i)\Big)

    of a multilayer perceptron whose weights and biases have N(0, :math:`s^2`) priors, with the
    logistic (two classes) or softmax loss. Every step adds noise to a sum of gradients that are
    clipped, record by record, to ``clip_norm``, as in `~skdpbayes.DPSGLDClassifier`. Rows are
    scaled to length 20 first, so that a hidden unit sees inputs of about unit variance.

    **Privacy guarantee.** ``fit`` is (epsilon, delta)-differentially private for the adjacency
    chosen: one record replaced by another, or (``"zero_out"``) by a null record that contributes
    nothing. With ``fit(X, y, units=ids)`` it is all records of one person, weighted to one after
    they are clipped, and batches are samples of persons. The number of records (with ``units``: of
    persons) is public, as are all parameters and the label set. Released: the whole chain, so its
    average ``coefs_``, every draw of ``sample_posterior`` and the predictions cost nothing more.
    The claim is unconditional: it does not matter whether the chain has converged. Batches are
    Poisson samples (or uniform of fixed size) with exactly the inclusion probability that is
    accounted for, an empty batch is a noise-only step, and the sum is divided by the expected size.
    Arithmetic: each record's clipped gradient is rounded to multiples of a power of two that make
    sums exact, whatever the order of the records; the sum is mapped to the grid of :math:`2^{-28}`
    noise standard deviations and exact discrete Gaussian noise is added there. What rounding adds
    to the sensitivity is in the noise. With an int ``random_state`` the guarantee needs the seed to
    stay secret. Every refit is a new release, and cross-validation pays once per fold.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0; smaller is more private. ``np.inf`` samples without private noise and
        takes rows as they are; gradients are clipped all the same, to keep the steps stable.
    delta : float, default=1e-5
        In (0, 1). Probability mass on which epsilon may fail.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets.
    data_norm : float, default=1.0
        Public bound on the L2 norm of a row; longer rows are scaled down to it, in ``fit`` and in
        every prediction alike.
    hidden_layer_sizes : sequence of int, default=(32,)
        Sizes of the hidden layers, at least one. Sparse rows are made dense.
    activation : {"tanh", "relu"}, default="tanh"
        Nonlinearity of the hidden layers.
    prior_scale : float, default=1.0
        Standard deviation s of the prior of weights and biases.
    classes : array-like or None, default=None
        The public label set; None takes it from y, which treats the labels that occur as public.
    sampler : {"sgld", "sghmc", "sgnht"} or mapping, default="sgld"
        Langevin dynamics, Hamiltonian dynamics with friction or the Nosé-Hoover thermostat. A
        mapping has the name as its ``"kind"`` and may have ``"schedule"``, ``"friction"`` and
        ``"temperature"``, as in `~skdpbayes.DPSGLDClassifier`. The temperature is 0.01 unless given
        (1 with "sgnht"): networks predict better when their posteriors are cold.
    clip_norm : float or "auto", default="auto"
        Bound on the norm of one record's gradient; "auto" is 0.3.
    batch_size : int or "auto", default="auto"
        Expected size of a batch; "auto" is a twelfth of the records, or 256 if that is more.
    n_steps : int or "auto", default="auto"
        Number of steps; "auto" is 400.
    step_size : float or "auto", default="auto"
        The step on the sum of losses. "auto" follows from the number of records and the noise.
    subsampling : {"poisson", "fixed"}, default="poisson"
        Every record independently with the same probability, or batches of fixed size.
    tail : float or "auto", default="auto"
        Fraction of the chain, at its end, that ``coefs_`` averages and the draws are taken from, in
        (0, 1]; "auto" is 0.25.
    n_kept : int or "auto", default="auto"
        Number of states of the tail that are kept as draws, or all if it has fewer; "auto" is 10.
        The whole chain is paid for, so this is about memory and time alone.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        None: a cryptographically secure generator. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Account that ``fit`` charges before it looks at the data.
    progress : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    coefs_ : list of ndarray
        Average of the weights over the tail of the chain, an array per layer (released).
    intercepts_ : list of ndarray
        Average of the biases, an array per layer (released).
    classes_ : ndarray of shape (n_classes,)
        The label set (public).
    temperature_ : float
        Mean temperature of the tail (public); "sgld" and "sghmc" only.
    noise_ : Noise
        Least noise that a step adds to its sum of clipped gradients (public).
    clip_norm_ : float
        The clipping norm that was used (public).
    step_size_ : float
        The first step (public).
    n_steps_ : int
        Number of steps (public).
    batch_size_ : int
        Expected batch size (public).
    privacy_ : PrivacyGuarantee
        The claim, with its privacy profile (public).

    See Also
    --------
    skdpbayes.DPSGLDClassifier : The linear model; with few records it is more accurate.

    References
    ----------
    .. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo. ICML 2015. Algorithms 2 and 4, Theorems 13 to 16.
    .. [2] B. Li, C. Chen, H. Liu and L. Carin. On connecting stochastic gradient MCMC and
       differential privacy. AISTATS 2019. Theorem 3.
    .. [3] M. Abadi et al. Deep learning with differential privacy.
       CCS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes import DPSGLDNetworkClassifier
    >>> X = np.random.default_rng(0).uniform(-0.7, 0.7, (4000, 2))
    >>> y = X[:, 0] * X[:, 1] > 0  # no line separates these
    >>> model = DPSGLDNetworkClassifier(epsilon=3.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.75
    True
    >>> model.sample_posterior()["coef_0"].shape
    (10, 2, 32)
    """

    _reads_chunks = True
    _takes_units = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: Adjacency = "replace_one",
        data_norm: float = 1.0,
        hidden_layer_sizes: Sequence[int] = (32,),
        activation: str = "tanh",
        prior_scale: float = 1.0,
        classes: Any = None,
        sampler: Any = "sgld",
        clip_norm: float | str = "auto",
        batch_size: int | str = "auto",
        n_steps: int | str = "auto",
        step_size: float | str = "auto",
        subsampling: str = "poisson",
        tail: float | str = "auto",
        n_kept: int | str = "auto",
        random_state: Any = None,
        ledger: Any = None,
        progress: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.prior_scale = prior_scale
        self.classes = classes
        self.sampler = sampler
        self.clip_norm = clip_norm
        self.batch_size = batch_size
        self.n_steps = n_steps
        self.step_size = step_size
        self.subsampling = subsampling
        self.tail = tail
        self.n_kept = n_kept
        self.random_state = random_state
        self.ledger = ledger
        self.progress = progress

    def _bound(self) -> Bound:
        check_scale("data_norm", self.data_norm)
        return Bound() if np.isinf(self.epsilon) else Bound(float(self.data_norm))

    def _read(self, X: Any, y: Any) -> Records:
        check_real("epsilon", self.epsilon, low=0.0, closed="high", remedy=NOT_PRIVATE)
        check_noise(self, X)
        return super()._read(X, y)

    def _plan(self, public: Public, budget: Budget) -> NetworkPlan:
        settings = read_settings(
            self.get_params(deep=False),
            public.n,
            Defaults(
                n_steps=400,
                batch_size=public.n if public.chunked else _batch_size(public.n),
                clip_norm=CLIP_NORM,
                tail=0.25,
                n_kept=10,
                temperature=TEMPERATURE,
            ),
            SAMPLERS,
        )
        check_batches_of_persons(public, settings)
        n_outputs = 1 if public.n_classes == 2 else public.n_classes
        sizes = (public.n_features, *self._hidden(), n_outputs)
        return NetworkPlan(
            chain=settings.plan(budget, public.n, models.network_size(sizes)),
            settings=settings,
            sizes=sizes,
            activation=check_choice("activation", self.activation, ("tanh", "relu")),
            prior_scale=check_scale("prior_scale", self.prior_scale),
            data_norm=check_scale("data_norm", self.data_norm),
        )

    def _hidden(self) -> tuple[int, ...]:
        sizes = self.hidden_layer_sizes
        if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray) or not len(sizes):
            raise ValueError(
                "hidden_layer_sizes must list the size of at least one hidden layer, such as "
                f"(32,); got {sizes!r}. DPSGLDClassifier is the model without hidden layers."
            )
        return tuple(check_integer("hidden_layer_sizes", size, low=1) for size in sizes)

    def _touch(
        self, rows: Records, plan: NetworkPlan, generator: np.random.Generator
    ) -> NetworkPosterior:
        chain, settings = plan.chain, plan.settings
        X: Any
        codes, weight, members = None, None, None
        if isinstance(rows, ChunkedRecords):
            X = rows.prepared(held_inputs, plan.data_norm)
        else:
            X, codes, _, weight = held_inputs(rows, plan.data_norm)
            members = rows.members()
        potential = NetworkPotential(
            X,
            codes,
            plan.sizes,
            plan.activation,
            plan.prior_scale,
            chain.clip_norm,
            rows.public.n,
            weight,
            members,
            rows.public.unit == "person",
        )
        noise = chain.gradient_noise
        step = network_step(
            chain.n_samples,
            chain.n_steps,
            potential.shape[0],
            noise,
            chain.clip_norm,
            plan.prior_scale,
        )
        dynamics = settings.dynamics(step, noise)
        start = potential.start(randomness.spawn(generator, 1)[0])
        with one_blas_thread():
            result = run_chain(
                potential,
                chain,
                dynamics,
                start,
                generator,
                tail=settings.tail,
                n_kept=settings.n_kept,
                progress=self._progress,
            )
        return NetworkPosterior(
            result.mean,
            result.draws.astype(np.float32),
            plan.sizes,
            plan.activation,
            plan.data_norm,
            rows.bound,
            result.temperature,
            float(dynamics.steps[0]),
        )


def _batch_size(n: int) -> int:
    return min(n, max(SMALLEST_BATCH, n // BATCHES))


@dataclass(frozen=True)
class NetworkPlan:
    """A chain on the weights and biases of a network."""

    chain: ChainPlan
    settings: Settings
    sizes: tuple[int, ...]
    """Layer sizes, input to output."""
    activation: str
    prior_scale: float
    data_norm: float
    conditions: tuple[str, ...] = ()

    @property
    def event(self) -> PrivacyEvent:
        """The chain."""
        return self.chain.event

    @property
    def words(self) -> str:
        """The mechanism in words."""
        return f"stochastic-gradient MCMC ({self.settings.sampler})"

    def numbers(self) -> dict[str, Any]:
        """Return what a fit shows of its plan."""
        return self.chain.numbers()
