"""Linear support vector machine whose coefficients are a draw of the tempered Gibbs posterior."""

from __future__ import annotations

from typing import Any

from skdpbayes import models
from skdpbayes._validation import check_scale
from skdpbayes.estimators.ops.base import OnePosteriorSample
from skdpbayes.fitting.records import Public
from skdpbayes.privacy import Adjacency


class OPSLinearSVC(OnePosteriorSample):
    r"""Linear support vector classifier by one posterior sample.

    The coefficients of two classes are drawn from the Gibbs posterior

    .. math::

        p(\theta \mid X, y) \propto
        \exp\Big(-\beta \Big(\sum_i \max(0, 1 - y_i \theta^\top x_i)
        + \frac{\|\theta\|^2}{2C}\Big)\Big), \qquad y_i = \pm 1,

    whose mode is ``LinearSVC(C, loss="hinge")`` with the intercept penalized as a constant feature.
    The Langevin chain, which needs a smooth loss, replaces the kink by a parabola of width
    ``smoothing``; the other samplers use the exact hinge loss, which objective perturbation cannot.

    **Privacy guarantee.** ``fit`` is (epsilon, delta)-differentially private for the adjacency
    chosen: one record replaced by another, or (``"zero_out"``) by a null record that contributes
    nothing. The number of records, all parameters, the label set and the schedule are public. With
    ``fit(X, y, units=ids)`` all records with one id change together, and the number of persons is
    public instead.
    Released: the ``n_draws`` draws behind ``coef_``, ``intercept_`` and ``sample_posterior``. With
    ``sampler="langevin"`` (delta > 0) and ``"rejection"`` the claim is unconditional; ``"hmc"``
    rests on convergence, and ``privacy_.conditions`` says so. For ``delta=0`` the range
    of the hinge loss on the ball sets :math:`\beta`: it is :math:`\min(2Rr, 1+Rr)`, twice that for
    ``"replace_one"``, with *R* the norm of a record with its constant feature and *r* the radius.
    Arithmetic, run time, seeds, refits and cross-validation are as in
    `skdpbayes.OPSLogisticRegression`: the rounding of gradients is in the sensitivity, draws are
    snapped to a public grid, a seed must stay secret, run time is not hidden, and every fit pays
    again.

    **Without privacy** (``epsilon=np.inf``) this is the ordinary model on the rows as they are:
    ``coef_`` is the mode at :math:`\beta = 1`, that is, ``LinearSVC(C=C_, loss="hinge")``, on the
    whole space, and ``sample_posterior`` draws as many as wanted from a normal approximation: the
    mode is its mean, and its precision is the curvature of the losses averaged over itself.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0; smaller is more private. ``np.inf`` is the ordinary model: the mode of
        the posterior, with a normal approximation around it.
    delta : float, default=1e-5
        In [0, 1). Probability mass on which epsilon may fail; 0 selects the pure mechanism.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets.
    data_norm : float, default=1.0
        Public bound on the L2 norm of a row; longer rows are scaled down to it, in ``fit`` and in
        every prediction alike. At ``epsilon=np.inf`` rows are taken as they are.
    C : float or "auto", default="auto"
        Inverse strength of the penalty; ``"auto"`` as in `OPSLogisticRegression`.
    coef_norm : float or None, default=None
        A constraint: radius of the ball that holds the coefficients; see `OPSLogisticRegression`.
    smoothing : float, default=1.0
        Width of the parabola that replaces the kink in the Langevin chain (and in the search for
        the mode). Smaller is closer to the hinge loss and needs more steps.
    classes : array-like or None, default=None
        The public label set; None takes it from y, which treats the labels that occur as public.
    fit_intercept : bool, default=True
        Whether to add a constant feature.
    intercept_scaling : float, default=1.0
        The constant feature. It counts in the norm of a record.
    sampler : {"auto", "langevin", "rejection", "hmc"}, default="auto"
        As in `OPSLogisticRegression`.
    n_draws : int, default=1
        Number of draws released within the budget; more draws are noisier ones.
    calibration : {"tight", "minami2016"}, default="tight"
        How beta follows from the budget.
    cap_at_posterior : bool, default=True
        Whether beta stays at most 1.
    n_steps : int or "auto", default="auto"
        Gradient steps of the Langevin chain (rounded up to whole epochs), or transitions of the
        Hamiltonian chains after tuning (200).
    step_size : float or "auto", default="auto"
        Langevin step on the sum of losses and penalty, at most :math:`2/(M+1/C)` with
        :math:`M=nR^2/s` and *s* the smoothing.
    n_batches : int or "auto", default="auto"
        Into how many batches the Langevin chain splits the rows; each step reads one, in turn.
    n_chains : int or "auto", default="auto"
        Number of Hamiltonian chains that are run side by side; ``"auto"`` is 4.
    diagnostics : bool, default=False
        Keep ``diagnostics_`` of Hamiltonian chains; they are not private.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        None: a cryptographically secure generator. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Account that ``fit`` charges before it looks at the data.
    progress : bool, default=False
        Show a progress bar of the chain.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Released: the draw, or the mean of several; without privacy the mode.
    intercept_ : ndarray of shape (1,)
        Released with it.
    classes_ : ndarray of shape (2,)
        Public: the label set.
    inverse_temperature_ : float
        Public: beta.
    C_ : float
        Public: the C that was used.
    step_size_ : float or None
        Public: the Langevin step.
    n_steps_ : int or None
        Public: the Langevin steps before the first draw.
    noise_ : Noise or None
        Public: law and scale of the noise of a Langevin step; None where the draw itself is all
        the noise there is.
    n_records_ : int
        Public: the number of training records.
    privacy_ : PrivacyGuarantee
        Public: the claim, with its privacy profile.
    diagnostics_ : dict
        Not released and not private; only with ``diagnostics=True`` and Hamiltonian chains.

    See Also
    --------
    skdpbayes.OPSLogisticRegression : The same with the logistic loss, and probabilities.

    References
    ----------
    .. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo. ICML 2015. Theorem 1.
    .. [2] K. Minami, H. Arai, I. Sato and H. Nakagawa. Differential privacy without sensitivity.
       NeurIPS 2016. Theorem 7.
    .. [3] S. Gopi, Y. T. Lee and D. Liu. Private convex optimization via exponential mechanism.
       COLT 2022. Theorem 4.1.
    .. [4] J. Bok, W. Su and J. Altschuler. Shifted interpolation for differential privacy.
       ICML 2024. Theorems 4.3 and 4.5.

    Examples
    --------
    >>> from skdpbayes import OPSLinearSVC
    >>> from skdpbayes.datasets import make_census
    >>> X, y = make_census(5000, encoding="raw", return_X_y=True, random_state=0)
    >>> model = OPSLinearSVC(epsilon=1.0, random_state=0).fit(X, y)
    >>> model.predict(X[:2]).shape
    (2,)
    """

    _likelihood = False

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: Adjacency = "replace_one",
        data_norm: float = 1.0,
        C: float | str = "auto",
        coef_norm: float | None = None,
        smoothing: float = 1.0,
        classes: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        sampler: str = "auto",
        n_draws: int = 1,
        calibration: str = "tight",
        cap_at_posterior: bool = True,
        n_steps: int | str = "auto",
        step_size: float | str = "auto",
        n_batches: int | str = "auto",
        n_chains: int | str = "auto",
        diagnostics: bool = False,
        random_state: Any = None,
        ledger: Any = None,
        progress: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.C = C
        self.coef_norm = coef_norm
        self.smoothing = smoothing
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.sampler = sampler
        self.n_draws = n_draws
        self.calibration = calibration
        self.cap_at_posterior = cap_at_posterior
        self.n_steps = n_steps
        self.step_size = step_size
        self.n_batches = n_batches
        self.n_chains = n_chains
        self.diagnostics = diagnostics
        self.random_state = random_state
        self.ledger = ledger
        self.progress = progress

    def _loss(self, public: Public) -> models.Loss:
        if public.n_classes != 2:
            raise ValueError(
                "Only binary classification is supported. OPSLinearSVC has no multiclass hinge "
                f"loss; got {public.n_classes} classes. Use OPSLogisticRegression."
            )
        return models.HingeLoss()

    def _width(self) -> float:
        return check_scale("smoothing", self.smoothing)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
