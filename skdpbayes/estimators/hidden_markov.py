"""Hidden Markov models of event logs, from counts released under differential privacy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from skdpbayes import models, randomness
from skdpbayes._validation import validate_data
from skdpbayes.estimators._hmm_base import RELEASED, HiddenMarkovBase
from skdpbayes.estimators._hmm_grid import check_categories, check_codes
from skdpbayes.estimators._hmm_ops import plan_ops, run_ops_chains
from skdpbayes.estimators._hmm_release import check_model, model_prior, plan_noise

if TYPE_CHECKING:
    from sklearn.utils import Bunch

    from skdpbayes.privacy.guarantee import Adjacency
    from skdpbayes.privacy.ledger.ledger import PrivacyLedger

__all__ = ["PrivateHMM"]


class PrivateHMM(HiddenMarkovBase):
    r"""Hidden Markov model of an event log, private for the single event.

    Events lie in groups and times; group g runs a hidden chain, and all events of a cell share its
    state. Given the state their D categorical fields are independent:

    .. math::
        z_{g1} \sim \pi, \quad z_{gt} \mid z_{g,t-1} \sim A_{z_{g,t-1}}, \quad
        x_{ed} \mid z_{gt} = k \sim \theta_{kd} \quad \text{for the events } e \text{ of cell }
        (g, t),

    with :math:`\pi \sim \mathrm{Dir}(\alpha)`, rows of A from
    :math:`\mathrm{Dir}(\alpha + \kappa e_k)`, and :math:`\theta_{kd} \sim \mathrm{Dir}(\beta)`.

    **Privacy guarantee.** With ``mechanism="laplace"`` or ``"gaussian"`` the counts
    :math:`n_{gtdv}` of all values in all cells are released once under exact discrete noise;
    everything else, any number of Gibbs draws, `refit`, `select_n_states` and pictures included,
    is computed from that release and costs nothing more. The fit is (``epsilon``, ``delta``)
    differentially private: an event adds one to one count of each field, so that replacing it
    (``replace_one``; its group and time may change too) moves 2D counts by one, and replacing it
    by a null event (``zero_out``) moves D. The unit is one event (a row of ``X``), not a person
    with several. ``mechanism="ops"`` releases draws of states and parameters themselves, from a
    posterior that is tempered and whose probabilities are bounded below.
    ``ops_accounting="per_update"`` prices every update of the sampler, two a sweep, and rests on
    no condition; ``ops_accounting="converged"`` prices each chain's last draw and supposes that
    the chains have converged, which is then listed in ``privacy_.conditions``. Public: the number
    of events, the numbers of ``categories``, the grid (``n_times``, ``group_labels``, or
    ``lengths`` where each row is a step), all parameters. Parts of the grid that are not given are
    taken from the data, with a `PrivacyWarning` and an entry in ``privacy_.conditions``. Count
    noise is exact in integer arithmetic; draws of ``"ops"`` are computed in double precision. An
    integer ``random_state`` must stay secret. A second ``fit`` on the same events, and each fold
    of a cross-validation, costs its own budget. `predict` and `score` on new events are computed
    from those events without noise: the guarantee covers the events of ``fit``.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0; smaller is more private. ``np.inf``: no noise.
    delta : float, default=0.0
        In [0, 1); ``mechanism="gaussian"`` needs ``delta > 0``, the others gain from it.
    n_states : int, default=3
        Number of hidden states K.
    mechanism : {"laplace", "gaussian", "ops"}, default="laplace"
        What is released; see above. Gaussian noise is smaller from about four fields on.
    categories : int or sequence of int, default=None
        Public number of values of each column; codes are 0, ..., categories - 1.
    n_times : int, default=None
        Public number of times; ``times`` are 0, ..., n_times - 1.
    group_labels : sequence, default=None
        Public list of the groups.
    alpha_transition : float, default=1.0
        Dirichlet parameter :math:`\alpha` of the start and transition probabilities, > 0.
    stickiness : float, default=0.0
        Extra weight :math:`\kappa` of staying in a state, >= 0; larger gives longer spells.
    alpha_emission : float, default=1.0
        Dirichlet parameter :math:`\beta` of the fields' probabilities, > 0.
    emission_posterior : {"noise_aware", "projected"}, default="noise_aware"
        How noisy counts are read: "noise_aware" treats the true counts as unknown and sums over
        them under the known noise; "projected" takes the noisy counts, clipped at zero, for true
        ones, which is faster and biased. Without effect for ``mechanism="ops"``.
    state_sampler : {"ffbs", "collapsed"}, default="ffbs"
        "ffbs" draws all states in one block; "collapsed" one by one, with the transition
        probabilities integrated out.
    n_iter : int, default=200
        Draws kept from each chain.
    burn_in : int, default=100
        Sweeps before that.
    n_chains : int, default=2
        Number of chains.
    ops_accounting : {"per_update", "converged"}, default="per_update"
        How ``mechanism="ops"`` is priced. "per_update" pays for all
        ``n_chains * (burn_in + n_iter)`` sweeps: choose few.
    emission_floor : float, default=0.1
        For ``mechanism="ops"``: the smallest probability of a value, as a share of
        1 / categories, in (0, 1). Larger costs less and bends the model more.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets.
    random_state : int, SeedSequence, RandomState, Generator or None, default=None
        None: cryptographically secure. An int: reproducible.
    ledger : PrivacyLedger, default=None
        Charged before the data are used.
    progress : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    released_counts_ : int array of shape (n_groups, n_times, n_values) or (n_steps, n_values)
        The noisy counts, fields side by side; released. Absent for ``mechanism="ops"``.
    states_ : int array of shape (n_groups, n_times) or (n_steps,)
        Most probable state of each cell; released.
    state_proba_ : float array of shape (n_groups, n_times, n_states) or (n_steps, n_states)
        Posterior probability of each state; released.
    start_, transition_ : float arrays of shape (n_states,) and (n_states, n_states)
        Posterior means; released.
    emission_ : list of float arrays of shape (n_states, categories[d])
        Posterior means, a table for each field; released.
    mechanism_ : str
        The mechanism of the release, whatever ``mechanism`` has become since; public.
    noise_scale_ : float
        Scale of the noise on each count (for "ops" the temperature); public.
    categories_ : int array of shape (n_fields,)
        Number of values of each field; public.
    n_times_ : int or None
        Number of times; None where each row is a step; public.
    group_labels_ : array of shape (n_groups,) or None
        The groups, in the order of the rows of ``states_``; public.
    lengths_ : int array
        Number of steps of each chain; public.
    n_events_ : int
        Number of events; public.
    n_features_in_ : int
        Number of fields; public.
    privacy_ : PrivacyGuarantee
        The claim; public.

    References
    ----------
    .. [1] J. Foulds, J. Geumlek, M. Welling, K. Chaudhuri. On the theory and practice of
       privacy-preserving Bayesian data analysis. UAI 2016 (Theorem 2, Equation 15, section 5).
    .. [2] S. Goldwater, T. L. Griffiths. A fully Bayesian approach to unsupervised part-of-speech
       tagging. ACL 2007.
    .. [3] S. L. Scott. Bayesian methods for hidden Markov models.
       JASA 97, 2002.
    .. [4] G. Bernstein, D. Sheldon. Differentially private Bayesian inference for exponential
       families. NeurIPS 2018.
    .. [5] M. Stephens. Dealing with label switching in mixture models.
       JRSS-B 62, 2000.

    Examples
    --------
    >>> from skdpbayes import PrivateHMM
    >>> from skdpbayes.datasets import make_event_log
    >>> log = make_event_log(4, 12, 300, n_states=2, categories=(4, 2), random_state=1)
    >>> hmm = PrivateHMM(epsilon=1.0, n_states=2, categories=(4, 2), n_times=12,
    ...                  group_labels=range(4), n_iter=50, burn_in=50, random_state=0)
    >>> hmm = hmm.fit(log.data, times=log.times, groups=log.groups)
    >>> hmm.states_.shape, hmm.privacy_.epsilon
    ((4, 12), 1.0)
    >>> hmm.refit(n_states=3).transition_.shape  # from the released counts: free
    (3, 3)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        n_states: int = 3,
        mechanism: str = "laplace",
        categories: int | Sequence[int] | None = None,
        n_times: int | None = None,
        group_labels: Sequence[Any] | None = None,
        alpha_transition: float = 1.0,
        stickiness: float = 0.0,
        alpha_emission: float = 1.0,
        emission_posterior: str = "noise_aware",
        state_sampler: str = "ffbs",
        n_iter: int = 200,
        burn_in: int = 100,
        n_chains: int = 2,
        ops_accounting: str = "per_update",
        emission_floor: float = 0.1,
        adjacency: Adjacency = "replace_one",
        random_state: Any = None,
        ledger: PrivacyLedger | None = None,
        progress: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_states = n_states
        self.mechanism = mechanism
        self.categories = categories
        self.n_times = n_times
        self.group_labels = group_labels
        self.alpha_transition = alpha_transition
        self.stickiness = stickiness
        self.alpha_emission = alpha_emission
        self.emission_posterior = emission_posterior
        self.state_sampler = state_sampler
        self.n_iter = n_iter
        self.burn_in = burn_in
        self.n_chains = n_chains
        self.ops_accounting = ops_accounting
        self.emission_floor = emission_floor
        self.adjacency = adjacency
        self.random_state = random_state
        self.ledger = ledger
        self.progress = progress

    def fit(
        self, X: Any, y: Any = None, *, times: Any = None, groups: Any = None, lengths: Any = None
    ) -> PrivateHMM:
        """Release the event log privately and learn the model from the release.

        Parameters
        ----------
        X : array-like of shape (n_events, n_fields)
            Integer codes 0, 1, ... of the fields of each event.
        y : None
            Ignored.
        times : array-like of int of shape (n_events,), default=None
            The step of each event, 0, 1, ...
        groups : array-like of shape (n_events,), default=None
            The group of each event. Without ``times`` and ``groups`` each row is its own step.
        lengths : sequence of int, default=None
            Where each row is its own step: the numbers of rows of the chains, in order.

        Returns
        -------
        self
        """
        # 1 validate
        check_model(self)
        codes = check_codes(validate_data(self, X, dtype="numeric"))
        self._check_privacy_parameters(codes.shape[0])
        generator = self._generator()
        categories = check_categories(self.categories, codes)
        steps, grid, layout = self._place(codes.shape[0], times, groups, lengths)
        conditions = self._assumed_public(times, groups)
        # 2 bound one record's influence: an event counts once in each field, nothing to clip
        # 3 calibrate
        ops = plan_ops(self, categories) if self.mechanism == "ops" else None
        noise = plan_noise(self, categories.shape[0]) if ops is None else None
        plan = ops or noise
        assert plan is not None
        extra = ops.conditions if ops is not None else ()
        guarantee = self._guarantee(plan.event, plan.words, conditions=(*conditions, *extra))
        # 4 reserve
        self._reserve(guarantee)
        # 5 touch the data, under noise
        counts = models.count_events(codes, steps, grid.n_steps, categories)
        # The claim is about this fit: nothing that an earlier one released is part of it, even if
        # this one is interrupted.
        for name in RELEASED:
            self.__dict__.pop(name, None)
        self.privacy_, self.mechanism_ = guarantee, str(self.mechanism)
        self.categories_, self.lengths_ = categories, grid.lengths
        self.n_times_, self.group_labels_ = layout
        self.n_events_ = codes.shape[0]
        if ops is not None:
            self.noise_scale_ = 1.0 / ops.inverse_temperature
            prior = model_prior(self, categories)
            self._store(run_ops_chains(self, counts, grid, prior, ops, generator))
            return self
        assert noise is not None
        self.noise_scale_ = noise.scale
        if noise.scale > 0.0:
            counts = randomness.release_counts(generator, counts, noise.scale, noise=noise.noise)
        self.released_counts_ = self._on_grid(counts)
        self._learn(generator)
        return self

    def refit(self, **params: Any) -> PrivateHMM:
        """Learn another model from the same release, at no cost in privacy.

        Parameters
        ----------
        **params
            Parameters of the model and its sampler to change: ``n_states``, ``alpha_transition``,
            ``stickiness``, ``alpha_emission``, ``emission_posterior``, ``state_sampler``,
            ``n_iter``, ``burn_in``, ``n_chains``, ``random_state``, ``progress``.

        Returns
        -------
        PrivateHMM
            A new estimator with the same ``privacy_``; this one is unchanged.
        """
        self._check_release("refit")
        free = {"n_states", "alpha_transition", "stickiness", "alpha_emission", "random_state"}
        free |= {"emission_posterior", "state_sampler", "n_iter", "burn_in", "n_chains", "progress"}
        if not set(params) <= free:
            raise ValueError(
                f"refit can change {sorted(free)}; got {sorted(set(params) - free)}. Other changes "
                "need a new release: use fit."
            )
        other = clone(self).set_params(**params)
        check_model(other)
        for name, value in vars(self).items():
            if name.endswith("_") and (name == "released_counts_" or name not in RELEASED):
                setattr(other, name, value)
        other._learn(other._generator())
        return other

    def select_n_states(
        self,
        candidates: Sequence[int] = (1, 2, 3, 4, 5, 6),
        *,
        held_out: float = 0.2,
        n_splits: int = 3,
        random_state: Any = None,
    ) -> Bunch:
        """Compare numbers of states by held-out cells of the release, at no cost in privacy.

        Cells of the released tensor are hidden from the sampler in turn and predicted from the
        rest of their chains.

        Parameters
        ----------
        candidates : sequence of int, default=(1, ..., 6)
            Numbers of states to compare.
        held_out : float, default=0.2
            Share of the steps that a split hides, in (0, 1).
        n_splits : int, default=3
            Number of random splits.
        random_state : int, SeedSequence, RandomState, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        :class:`~sklearn.utils.Bunch`
            ``n_states``: the smallest candidate within two standard errors of the best;
            ``candidates``; ``log_likelihood``: mean held-out log-likelihood of a noisy step, up to
            a constant; ``standard_error`` of its difference to the best.
        """
        from skdpbayes.estimators._hmm_selection import select_n_states

        self._check_release("select_n_states")
        return select_n_states(self, candidates, held_out, n_splits, random_state)
