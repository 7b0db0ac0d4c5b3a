"""Classifiers whose coefficients are a private stochastic-gradient Markov chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skdpbayes.estimators._sgmcmc_base import PrivateChainClassifier
from skdpbayes.privacy import Adjacency

__all__ = ["DPSGLDClassifier"]


class DPSGLDClassifier(PrivateChainClassifier):
    r"""Bayesian classifier by differentially private stochastic-gradient MCMC.

    A Markov chain samples, at the temperature that its noise gives it, the posterior

    .. math::

        p(\theta \mid X, y) \propto \pi(\theta) \exp\Big(-\sum_i \ell(\theta; x_i, y_i)\Big)

    of logistic (two classes) or softmax regression with independent Cauchy priors or, for a given
    ``C``, :math:`\pi(\theta) \propto e^{-\|\theta\|^2 / (2C)}`; or of a multilayer perceptron whose
    weights and biases have N(0, ``prior_scale``:sup:`2`) priors. Every step adds noise to a sum of
    gradients that are clipped, record by record, to ``clip_norm``:

    .. math::

        \tilde g = \nabla r(\theta) + \frac{n}{\tau} \Big(\sum_{i \in S}
        \mathrm{clip}(\nabla \ell_i; L) + N(0, \sigma^2 L^2)\Big), \qquad
        \theta \leftarrow \theta - h \tilde g ,

    with batches *S* of expected size :math:`\tau`, :math:`r = -\log \pi`, and :math:`\sigma`
    the larger of what the sampler needs for temperature 1 and what privacy needs.

    **Privacy guarantee.** ``fit`` is (epsilon, delta)-differentially private for the adjacency
    chosen: one record replaced by another, or (``"zero_out"``) by a null record that contributes
    nothing. The number of records is public, as are all parameters and the label set. Released: the
    whole chain, so its average ``coef_``, every draw of ``sample_posterior`` and the predictions
    cost nothing more, and the moments of the rows from which the coordinates of the chain are made
    (``preconditioner="auto"``) or the first state (``init="ops"``) under their own shares of the
    budget. The claim is unconditional: it does not matter whether the chain has converged. Batches
    are Poisson samples (or uniform of fixed size) with exactly the inclusion probability that is
    accounted for, an empty batch is a noise-only step, and the sum is divided by the expected size.
    Arithmetic: each record's clipped gradient is rounded to multiples of a power of two that make
    sums exact, whatever the order of the records; the sum is mapped to the grid of :math:`2^{-28}`
    noise standard deviations and exact discrete Gaussian noise is added there. What rounding adds
    to the sensitivity is in the noise. ``release="last"`` releases the last state of a full-batch
    chain alone under the bound of [5]_. With an int ``random_state`` the guarantee needs the seed
    to stay secret. Every refit is a new release, and cross-validation pays once per fold.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0; smaller is more private. ``np.inf`` samples the posterior without
        private noise and, unless ``clip_norm`` is given, without clipping (a network is clipped
        all the same, to keep its steps stable).
    delta : float, default=1e-5
        In (0, 1). Probability mass on which epsilon may fail.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets.
    data_norm : float, default=1.0
        Public bound on the L2 norm of a row; longer rows are scaled down to it.
    C : float or "auto", default="auto"
        Variance of the normal prior of a coefficient: scikit-learn's inverse strength of the
        penalty. "auto" takes Cauchy priors with the scales of [6]_, 2.5 / ``data_norm`` for
        coefficients and 10 for the intercept: they shrink small effects, but hardly large ones.
        (``release="last"`` needs a log-concave posterior: its "auto" is the normal prior of
        `~skdpbayes.OPSLogisticRegression`.)
    hidden_layer_sizes : sequence of int, default=()
        Sizes of the hidden layers of a multilayer perceptron; none for a linear classifier. A
        network has no preconditioner and makes sparse rows dense.
    activation : {"tanh", "relu"}, default="tanh"
        Of the hidden layers.
    prior_scale : float, default=1.0
        Standard deviation of the prior of a network's weights and biases, on rows scaled to
        length 20. (``C`` is that of a linear classifier.)
    classes : array-like or None, default=None
        The public label set; None takes it from y, which treats the labels that occur as public.
    fit_intercept : bool, default=True
        Whether to add an intercept.
    intercept_scaling : float, default=1.0
        The prior of the intercept is wider by this factor: it has standard deviation
        ``intercept_scaling * sqrt(C)``, or Cauchy scale ``10 * intercept_scaling``.
    sampler : {"sgld", "sghmc", "sgnht", "sgfs"}, default="sgld"
        Langevin dynamics, Hamiltonian dynamics with friction, the Nosé-Hoover thermostat or Fisher
        scoring. The last two count private noise as noise of the sampler: they stay at temperature
        1 and move less where privacy asks for much noise.
    clip_norm : float or "auto", default="auto"
        Bound on the norm of one record's gradient in the coordinates of the chain, where rows have
        length about 1. Smaller means less noise and more bias: "auto" is 0.7 where public numbers
        tell that noise is large and rises to 1.3 where it is not (none for ``epsilon=np.inf``);
        0.3 for networks.
    batch_size : int or "auto", default="auto"
        Expected size of a batch. "auto" takes all records up to 131,072: large batches have the
        least noise per record. For networks it takes a twelfth of the records.
    n_steps : int or "auto", default="auto"
        Number of steps; "auto" is 100 (1000 for ``epsilon=np.inf``), and 400 for networks.
    step_size : float or "auto", default="auto"
        The step h on the sum of losses, in the coordinates of the chain. "auto" follows from n,
        the noise and the released coordinates.
    schedule : {"constant", "cube_root"} or pair (b, g), default="constant"
        Step t is ``step_size`` times 1, :math:`t^{-1/3}` or :math:`(b + t)^{-g}`.
    friction : float or "auto", default="auto"
        Friction of "sghmc" and diffusion of "sgnht"; "auto" is 0.1 / step.
    temperature : float or "auto", default="auto"
        Lowest temperature that the chain is to sample at; private noise may raise it to
        ``temperature_``. "auto" is 1, the posterior itself, and 0.01 for networks (with "sgld" and
        "sghmc"), which predict better when their posteriors are cold.
    subsampling : {"poisson", "fixed"}, default="poisson"
        Every record independently with the same probability, or batches of fixed size.
    accountant : {"pld", "rdp", "wang2015"}, default="pld"
        How the noise is calibrated: privacy loss distributions, Rényi accounting or Algorithm 2 of
        [1]_ with its constant 128 and its condition on the number of passes. ``privacy_`` holds the
        tight price under all of them.
    preconditioner : "auto", None or ndarray of shape (n_features, n_features), default="auto"
        Coordinates of the chain: made from released moments of the rows where there are enough
        records for it, none, or made from a public covariance matrix of the rows.
    preconditioner_share : float, default=0.2
        Share of the (Gaussian) budget that the moments get, in (0, 1).
    init : {"public", "ops"}, default="public"
        Start at zero, or at one posterior sample under half of the budget (the hybrid algorithm).
    release : {"chain", "last"}, default="chain"
        What is released; "last" needs full batches and ``sampler="sgld"``.
    burn_in : float or "auto", default="auto"
        Fraction of the chain that ``coef_`` and the draws leave out, in [0, 1). "auto" is 0.5, and
        0.75 for networks, which take longer to arrive.
    n_draws : int or "auto", default="auto"
        Number of draws of the chain that are kept; "auto" is 50, and 10 for networks.
    warm_start : bool, default=False
        Refused: a chain that continues would be a release beyond the one that was paid for.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        None: a cryptographically secure generator. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Account that ``fit`` charges before it looks at the data.
    progress : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Released: average of the tail of the chain.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Released with it.
    coefs_, intercepts_ : list of ndarray
        Released: the average of the tail for a network, an array per layer, in place of ``coef_``
        and ``intercept_``.
    classes_ : ndarray of shape (n_classes,)
        Public: the label set.
    temperature_ : float
        Released: mean temperature of the tail; 1 where privacy is free.
    noise_multiplier_ : float
        Public: noise that privacy asks for, over ``clip_norm``.
    step_size_ : float
        Released: the first step.
    n_steps_ : int
        Public: number of steps.
    batch_size_ : int
        Public: expected batch size.
    privacy_ : PrivacyGuarantee
        Public: the claim, with its privacy profile.

    See Also
    --------
    skdpbayes.OPSLogisticRegression : One draw, from a chain whose other states stay secret.

    References
    ----------
    .. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo. ICML 2015. Algorithms 2 and 4, Theorems 13 to 16.
    .. [2] B. Li, C. Chen, H. Liu and L. Carin. On connecting stochastic gradient MCMC and
       differential privacy. AISTATS 2019. Theorem 3.
    .. [3] M. Abadi et al. Deep learning with differential privacy.
       CCS 2016.
    .. [4] S. Ahn, A. Korattikara and M. Welling. Bayesian posterior sampling via stochastic
       gradient Fisher scoring. ICML 2012.
    .. [5] J. Bok, W. Su and J. Altschuler. Shifted interpolation for differential privacy.
       ICML 2024. Theorem 4.3.
    .. [6] A. Gelman, A. Jakulin, M. G. Pittau and Y.-S. Su. A weakly informative default prior
       distribution for logistic and other regression models. Annals of Applied Statistics 2, 2008.

    Examples
    --------
    >>> from skdpbayes import DPSGLDClassifier
    >>> from skdpbayes.datasets import make_census
    >>> X, y = make_census(5000, encoding="raw", return_X_y=True, random_state=0)
    >>> model = DPSGLDClassifier(epsilon=1.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.7
    True
    >>> model.sample_posterior()["coef"].shape[0]
    50
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: Adjacency = "replace_one",
        data_norm: float = 1.0,
        C: float | str = "auto",
        hidden_layer_sizes: Sequence[int] = (),
        activation: str = "tanh",
        prior_scale: float = 1.0,
        classes: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        sampler: str = "sgld",
        clip_norm: float | str = "auto",
        batch_size: int | str = "auto",
        n_steps: int | str = "auto",
        step_size: float | str = "auto",
        schedule: Any = "constant",
        friction: float | str = "auto",
        temperature: float | str = "auto",
        subsampling: str = "poisson",
        accountant: str = "pld",
        preconditioner: Any = "auto",
        preconditioner_share: float = 0.2,
        init: str = "public",
        release: str = "chain",
        burn_in: float | str = "auto",
        n_draws: int | str = "auto",
        warm_start: bool = False,
        random_state: Any = None,
        ledger: Any = None,
        progress: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.C = C
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.prior_scale = prior_scale
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.sampler = sampler
        self.clip_norm = clip_norm
        self.batch_size = batch_size
        self.n_steps = n_steps
        self.step_size = step_size
        self.schedule = schedule
        self.friction = friction
        self.temperature = temperature
        self.subsampling = subsampling
        self.accountant = accountant
        self.preconditioner = preconditioner
        self.preconditioner_share = preconditioner_share
        self.init = init
        self.release = release
        self.burn_in = burn_in
        self.n_draws = n_draws
        self.warm_start = warm_start
        self.random_state = random_state
        self.ledger = ledger
        self.progress = progress
