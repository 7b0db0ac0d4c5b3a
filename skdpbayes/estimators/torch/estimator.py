"""Any torch module whose parameters are a private stochastic-gradient Markov chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skdpbayes._validation import check_real, check_scale
from skdpbayes.estimators._classifier import PrivateClassifier
from skdpbayes.estimators.chain.plan import ChainPlan
from skdpbayes.estimators.chain.run import run_chain
from skdpbayes.estimators.chain.settings import Defaults, Settings, read_settings
from skdpbayes.estimators.network.potential import network_step
from skdpbayes.estimators.torch.function import ModuleFunction, make_function, one_torch_thread
from skdpbayes.estimators.torch.posterior import ModulePosterior
from skdpbayes.estimators.torch.potential import ModulePotential
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.estimator import NOT_PRIVATE
from skdpbayes.fitting.records import Public, Records, read_table
from skdpbayes.privacy.budget import Budget

if TYPE_CHECKING:
    from skdpbayes.privacy.events import PrivacyEvent
    from skdpbayes.privacy.guarantee import Adjacency

# As for the multilayer perceptron: most of a record's gradient is small, and posteriors of networks
# predict better when they are cold.
CLIP_NORM = 0.3
TEMPERATURE = 1e-4
# No step is longer than this if all gradients are clipped and agree. On a split of MNIST's training
# file, epsilon 3, a network of 26,010 parameters is right in 92.4 % after 100 steps of length 1.5
# and in 96.2 % after steps of length 5; steps of length 13 go astray.
LONGEST_STEP = 5.0
BATCHES, SMALLEST_BATCH = 12, 256
# Fisher scoring needs a Fisher information, which a network has none of that could be inverted.
SAMPLERS = ("sgld", "sghmc", "sgnht")
PUBLIC_WEIGHTS = "the weights that the module came with are public"


class DPSGLDTorchClassifier(PrivateClassifier):
    r"""Bayesian classifier made of any torch module, by private stochastic-gradient MCMC.

    A Markov chain samples, at the temperature that its noise gives it, the posterior

    .. math::

        p(\theta \mid X, y) \propto e^{-\|\theta\|^2 / (2 s^2)}
        \exp\Big(-\sum_i \ell(f_\theta(x_i), y_i)\Big)

    of the parameters of a ``torch.nn.Module`` *f* that maps a record to logits, with N(0,
    :math:`s^2`) priors and the softmax (or, for one logit, logistic) loss. Every step adds noise
    to a sum of gradients that are clipped, record by record, to ``clip_norm``, as in
    `~skdpbayes.DPSGLDClassifier`. Needs PyTorch: ``pip install 'skdpbayes[torch]'``.

    **Privacy guarantee.** ``fit`` is (epsilon, delta)-differentially private for the adjacency
    chosen: one record replaced by another, or (``"zero_out"``) by a null record that contributes
    nothing. With ``fit(X, y, units=ids)`` it is all records of one person, weighted to one after
    they are clipped, and batches are samples of persons. The number of records (with ``units``: of
    persons) is public, as are all parameters, the module's code and the label set. The first
    weights and the parameters that do not require gradients are taken as they are: if ``module`` is
    an object and not a function, ``privacy_.conditions`` says that they are public. Released: the
    whole chain, so its average ``module_``, every draw of ``sample_posterior`` and the predictions
    cost nothing more. The claim is unconditional otherwise: it does not matter whether the chain
    has converged. Batches are Poisson samples (or uniform of fixed size) with exactly the inclusion
    probability that is accounted for, an empty batch is a noise-only step, and the sum is divided
    by the expected size. Every record is a batch of its own to the module (``torch.func.vmap``), so
    that its gradient does not depend on other records (its last bits, which depend on its place in
    a block, do not depend on how many records other persons have); layers that mix records or
    remember them are refused. Arithmetic: torch computes gradients in single precision; each one is
    clipped and rounded to multiples of a power of two that make sums exact, whatever the order of
    the records; the sum is mapped to the grid of :math:`2^{-28}` noise standard deviations and
    exact discrete Gaussian noise of this library's own generator is added there. What rounding adds
    to the sensitivity is in the noise. A record whose gradient is not finite contributes nothing; a
    module that raises an error for some records would tell of them, so it must accept every row.
    With an int ``random_state`` the guarantee needs the seed to stay secret. Every refit is a new
    release, and cross-validation pays once per fold.

    Parameters
    ----------
    module : torch.nn.Module, or function
        The model. An object is copied, and its weights are the first state of the chain; they must
        be public (new, or learned from public data). A function of the numbers of features and of
        classes, such as ``torch.nn.Linear``, is called under torch's seed 0 to make one. The output
        for a batch of m records has shape (m, n_classes), or (m, 1) for two classes. Parameters
        with ``requires_grad=False`` stay as they are.
    epsilon : float, default=1.0
        Privacy budget, > 0; smaller is more private. ``np.inf`` samples without private noise;
        gradients are clipped all the same, to keep the steps stable.
    delta : float, default=1e-5
        In (0, 1). Probability mass on which epsilon may fail.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets.
    input_shape : sequence of int or None, default=None
        Shape of one record as the module takes it, such as (1, 28, 28); None for a row of features.
    prior_scale : float, default=1.0
        Standard deviation s of the prior of all parameters.
    classes : array-like or None, default=None
        The public label set; None takes it from y, which treats the labels that occur as public.
    sampler : {"sgld", "sghmc", "sgnht"} or mapping, default="sgld"
        As in `~skdpbayes.DPSGLDNetworkClassifier`, but the temperature is 0.0001 unless given.
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
        Fraction of the chain, at its end, that ``module_`` averages and the draws are taken from,
        in (0, 1]; "auto" is 0.25.
    n_kept : int or "auto", default="auto"
        Number of states of the tail that are kept as draws, or all if it has fewer; "auto" is 10.
        The whole chain is paid for, so this is about memory and time alone.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Of batches and noise. None: a cryptographically secure generator. An int: reproducible, on a
        machine on which torch computes alike.
    ledger : PrivacyLedger or None, default=None
        Account that ``fit`` charges before it looks at the data.
    progress : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    module_ : torch.nn.Module
        A copy of the module with the average of the tail of the chain as its weights (released).
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
    skdpbayes.DPSGLDNetworkClassifier : A multilayer perceptron, without torch.
    skdpbayes.ScatteringTransformer : Fixed features of images; a linear model on them is more
        accurate than a network that is trained from scratch.

    References
    ----------
    .. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo. ICML 2015. Algorithms 2 and 4, Theorems 13 to 16.
    .. [2] B. Li, C. Chen, H. Liu and L. Carin. On connecting stochastic gradient MCMC and
       differential privacy. AISTATS 2019. Theorem 3.
    .. [3] M. Abadi et al. Deep learning with differential privacy. CCS 2016.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> import numpy as np
    >>> from skdpbayes import DPSGLDTorchClassifier
    >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (4000, 2))
    >>> y = X[:, 0] > X[:, 1]
    >>> model = DPSGLDTorchClassifier(torch.nn.Linear, epsilon=3.0, n_steps=50, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    >>> model.sample_posterior()["weight"].shape
    (10, 2, 2)
    """

    _takes_units = True
    _table_checks: ClassVar[dict[str, Any]] = {
        "accept_sparse": False,
        "dtype": [np.float32, np.float64],
        "order": "C",
    }

    def __init__(
        self,
        module: Any,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: Adjacency = "replace_one",
        input_shape: Sequence[int] | None = None,
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
        self.module = module
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.input_shape = input_shape
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

    def _read(self, X: Any, y: Any) -> Records:
        check_real("epsilon", self.epsilon, low=0.0, closed="high", remedy=NOT_PRIVATE)
        checks = self._table_checks | {"dtype": np.float32}
        # clipping bounds what a record can do, so rows need no bound
        return read_table(self, X, y, bound=Bound(), classes=self.classes, **checks)

    def _plan(self, public: Public, budget: Budget) -> ModulePlan:
        settings = read_settings(
            self.get_params(deep=False),
            public.n,
            Defaults(
                n_steps=400,
                batch_size=min(public.n, max(SMALLEST_BATCH, public.n // BATCHES)),
                clip_norm=CLIP_NORM,
                tail=0.25,
                n_kept=10,
                temperature=TEMPERATURE,
            ),
            SAMPLERS,
        )
        function = make_function(self.module, self.input_shape, public.n_features, public.n_classes)
        came_with_weights = hasattr(self.module, "state_dict") and not isinstance(self.module, type)
        return ModulePlan(
            chain=settings.plan(budget, public.n, function.size),
            settings=settings,
            function=function,
            prior_scale=check_scale("prior_scale", self.prior_scale),
            conditions=(PUBLIC_WEIGHTS,) if came_with_weights else (),
        )

    def _touch(
        self, rows: Records, plan: ModulePlan, generator: np.random.Generator
    ) -> ModulePosterior:
        X, codes, weight = rows.held()
        assert codes is not None
        chain, settings = plan.chain, plan.settings
        noise = chain.gradient_noise
        step = network_step(
            chain.n_samples,
            chain.n_steps,
            plan.function.size,
            noise,
            chain.clip_norm,
            plan.prior_scale,
        )
        step = min(step, LONGEST_STEP / (chain.n_samples * chain.clip_norm))
        dynamics = settings.dynamics(step, noise)
        with one_torch_thread() as n_threads:
            potential = ModulePotential(
                X,
                codes,
                plan.function,
                plan.prior_scale,
                chain.clip_norm,
                n_threads,
                weight,
                rows.members(),
            )
            result = run_chain(
                potential,
                chain,
                dynamics,
                plan.function.start(),
                generator,
                tail=settings.tail,
                n_kept=settings.n_kept,
                progress=self._progress,
            )
        return ModulePosterior(
            result.mean,
            result.draws.astype(np.float32),
            plan.function,
            result.temperature,
            float(dynamics.steps[0]),
        )


@dataclass(frozen=True, eq=False)
class ModulePlan:
    """A chain on the parameters of a module."""

    chain: ChainPlan
    settings: Settings
    function: ModuleFunction
    prior_scale: float
    conditions: tuple[str, ...]

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
