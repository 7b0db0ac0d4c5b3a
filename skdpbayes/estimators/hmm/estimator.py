"""Hidden Markov models of event logs, from counts released under differential privacy."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils import Bunch
from sklearn.utils.metaestimators import available_if

from skdpbayes import models, randomness
from skdpbayes._validation import (
    check_choice,
    check_codes,
    check_integer,
    check_is_fitted,
    check_real,
    probe,
    validate_data,
)
from skdpbayes.estimators.hmm.chain import Prior, Schedule
from skdpbayes.estimators.hmm.gibbs import run_on_events
from skdpbayes.estimators.hmm.grid import (
    Grid,
    Layout,
    Seen,
    check_categories,
    check_grid_is_used,
    check_within,
    count_block,
    look_at_events,
    place_on,
    step_of,
)
from skdpbayes.estimators.hmm.plan import (
    CALIBRATIONS,
    MECHANISMS,
    CountsPlan,
    GibbsPlan,
    plan_counts,
    plan_gibbs,
)
from skdpbayes.estimators.hmm.posterior import StatesPosterior, learn
from skdpbayes.estimators.hmm.selection import select_n_states
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.chunks import ChunkedRecords, is_chunked, read_chunks
from skdpbayes.fitting.estimator import FitPlan, PrivateEstimator, offers, refuse_arguments
from skdpbayes.fitting.records import Block, Public, Records
from skdpbayes.fitting.units import WHOLE
from skdpbayes.privacy.budget import Budget, Law
from skdpbayes.release import counts as release
from skdpbayes.release.fractions import fractions

if TYPE_CHECKING:
    import pandas as pd

    from skdpbayes.privacy.guarantee import Adjacency, Unit
    from skdpbayes.privacy.ledger.ledger import PrivacyLedger

POSTERIORS = ("noise_aware", "naive")
STATE_SAMPLERS = ("ffbs", "collapsed")
MIN_PROBABILITY = 0.1
ENCODE = "Encode the columns first, for example with OrdinalEncoder and public categories."
# Parameters of the model and its sampler; the others describe the release.
FREE = (
    "alpha_emission",
    "alpha_transition",
    "burn_in",
    "n_chains",
    "n_iter",
    "n_states",
    "posterior",
    "progress",
    "random_state",
    "state_sampler",
    "stickiness",
)


class PrivateHMM(PrivateEstimator):
    r"""Hidden Markov model of an event log, private for single events or whole persons.

    Events lie in sequences (regions, machines) and times; sequence g runs a hidden chain, and all
    events of a cell share its state. Given the state their D categorical fields are independent:

    .. math::
        z_{g1} \sim \pi, \quad z_{gt} \mid z_{g,t-1} \sim A_{z_{g,t-1}}, \quad
        x_{ed} \mid z_{gt} = k \sim \theta_{kd} \quad \text{for the events } e \text{ of cell }
        (g, t),

    with :math:`\pi \sim \mathrm{Dir}(\alpha)`, rows of A from
    :math:`\mathrm{Dir}(\alpha + \kappa e_k)`, and :math:`\theta_{kd} \sim \mathrm{Dir}(\beta)`.

    **Privacy guarantee.** With ``mechanism="laplace"`` or ``"gaussian"`` the counts
    :math:`n_{gtdv}` of all values in all cells are released once under exact discrete noise;
    everything else, any number of Gibbs draws, `refit`, `select_n_states`, `sample` and pictures
    included, is computed from that release and costs nothing more. The fit is (``epsilon``,
    ``delta``) differentially private: an event adds one to one count of each field, so that
    replacing it (``replace_one``; its sequence and time may change too) moves 2D counts by one, and
    replacing it by a null event (``zero_out``) moves D. The unit is one event (a row of ``X``);
    with ``fit(..., units=ids)`` it is a person, each of whose m events counts 1/m, so that all of
    them together move the counts by no more in any norm. The number of persons is then public in
    place of that of events, and the released counts are rounded to the whole numbers that the
    sampler reads. ``mechanism="ops"`` releases draws of states and parameters themselves, from a
    posterior that is tempered and whose probabilities are bounded below.
    ``calibration="per_update"`` prices every update of the sampler, two per sweep, and rests on no
    condition; ``calibration="converged"`` prices each chain's last draw and supposes that the
    chains have converged, which is then listed in ``privacy_.conditions``. Public: the number of
    events, the numbers of ``categories``, the grid (``n_times``, ``sequence_labels``, or
    ``lengths`` where each row is a step), all parameters. Parts of the grid that are not given are
    taken from the data, with a `PrivacyWarning` and an entry in ``privacy_.conditions``. Count
    noise is exact in integer arithmetic; draws of ``"ops"`` are computed in double precision. An
    integer ``random_state`` must stay secret. A second ``fit`` on the same events, and each fold of
    a cross-validation, costs its own budget. `predict` and `score` on new events are computed from
    those events without noise: the guarantee covers the events of ``fit``.

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
    sequence_labels : sequence, default=None
        Public list of the sequences.
    alpha_transition : float, default=1.0
        Dirichlet parameter :math:`\alpha` of the start and transition probabilities, > 0.
    stickiness : float, default=0.0
        Extra weight :math:`\kappa` of staying in a state, >= 0; larger gives longer spells.
    alpha_emission : float, default=1.0
        Dirichlet parameter :math:`\beta` of the fields' probabilities, > 0.
    posterior : {"noise_aware", "naive"}, default="noise_aware"
        How noisy counts are read: "noise_aware" treats the true counts as unknown and sums over
        them under the known noise; "naive" takes the noisy counts, clipped at zero, for true
        ones, which is faster and biased. Not for ``mechanism="ops"``.
    state_sampler : {"ffbs", "collapsed"}, default="ffbs"
        "ffbs" draws all states in one block; "collapsed" one by one, with the transition
        probabilities integrated out.
    n_iter : int, default=200
        Draws kept from each chain.
    burn_in : int, default=100
        Sweeps before that.
    n_chains : int, default=2
        Number of chains.
    calibration : {"per_update", "converged"}, default="per_update"
        How ``mechanism="ops"`` is priced. "per_update" pays for all
        ``n_chains * (burn_in + n_iter)`` sweeps: choose few. Other mechanisms have one price.
    min_probability : float, default=0.1
        The smallest probability of a value under ``mechanism="ops"``, as a share of
        1 / categories, in (0, 1). Larger costs less and bends the model more. Other mechanisms
        need none.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets.
    random_state : int, SeedSequence, RandomState, Generator or None, default=None
        None: cryptographically secure. An int: reproducible.
    ledger : PrivacyLedger, default=None
        Charged before the data are used.
    progress : bool, default=False
        Show a progress bar while chains run in `fit`, `refit` and `select_n_states`.

    Attributes
    ----------
    released_counts_ : int array of shape (n_sequences, n_times, n_values) or (n_steps, n_values)
        The noisy counts, fields side by side; released. Absent for ``mechanism="ops"``.
    states_ : int array of shape (n_sequences, n_times) or (n_steps,)
        Most probable state of each cell; released.
    state_proba_ : float array of shape (n_sequences, n_times, n_states) or (n_steps, n_states)
        Posterior probability of each state; released.
    start_, transition_ : float arrays of shape (n_states,) and (n_states, n_states)
        Posterior means; released.
    emission_ : list of float arrays of shape (n_states, categories[d])
        Posterior means, one table per field; released.
    noise_ : Noise
        Law and scale of the noise on each count; public. Absent for ``mechanism="ops"``.
    temperature_ : float
        Temperature of the posterior that ``mechanism="ops"`` draws from, at least 1; public.
    categories_ : int array of shape (n_fields,)
        Number of values of each field; public.
    n_times_ : int or None
        Number of times; None where each row is a step; public.
    sequence_labels_ : array of shape (n_sequences,) or None
        The sequences, in the order of the rows of ``states_``; public.
    lengths_ : int array
        Number of steps of each sequence; public.
    n_events_ : int
        Number of events, or of persons with ``units``; public.
    n_features_in_ : int
        Number of fields; public.
    feature_names_in_ : ndarray of str
        Their names, if ``X`` has any; public.
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
    ...                  sequence_labels=range(4), n_iter=50, burn_in=50, random_state=0)
    >>> hmm = hmm.fit(log.data, times=log.times, sequences=log.sequences)
    >>> hmm.states_.shape, hmm.privacy_.epsilon
    ((4, 12), 1.0)
    >>> hmm.refit(n_states=3).transition_.shape  # from the released counts: free
    (3, 3)
    """

    _reads_chunks = True
    _takes_units = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        n_states: int = 3,
        mechanism: str = "laplace",
        categories: int | Sequence[int] | None = None,
        n_times: int | None = None,
        sequence_labels: Sequence[Any] | None = None,
        alpha_transition: float = 1.0,
        stickiness: float = 0.0,
        alpha_emission: float = 1.0,
        posterior: str = "noise_aware",
        state_sampler: str = "ffbs",
        n_iter: int = 200,
        burn_in: int = 100,
        n_chains: int = 2,
        calibration: str = "per_update",
        min_probability: float = MIN_PROBABILITY,
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
        self.sequence_labels = sequence_labels
        self.alpha_transition = alpha_transition
        self.stickiness = stickiness
        self.alpha_emission = alpha_emission
        self.posterior = posterior
        self.state_sampler = state_sampler
        self.n_iter = n_iter
        self.burn_in = burn_in
        self.n_chains = n_chains
        self.calibration = calibration
        self.min_probability = min_probability
        self.adjacency = adjacency
        self.random_state = random_state
        self.ledger = ledger
        self.progress = progress

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        sequences: Any = None,
        lengths: Any = None,
        units: Any = None,
        **unknown: Any,
    ) -> Self:
        """Release the event log privately and learn the model from the release.

        Parameters
        ----------
        X : array-like of shape (n_events, n_fields)
            Integer codes 0, 1, ... of the fields of each event.
        y : None
            Ignored.
        times : array-like of int of shape (n_events,), default=None
            The step of each event, 0, 1, ...
        sequences : array-like of shape (n_events,), default=None
            The sequence of each event. Without ``times`` and ``sequences`` each row is its own
            step.
        lengths : sequence of int, default=None
            Where each row is its own step: the numbers of rows of the sequences, in order.
        units : array-like of shape (n_events,), default=None
            Whose event each row is: any hashable ids. All events of one person are then protected
            together, each of her m events counts 1/m, and the number of persons is public while
            the number of events is not. It needs ``times`` or ``sequences``: where each row is a
            step, the number of rows is the shape of the release. None: every event is a unit.
        **unknown
            Refused; for ``sample_weight`` the error says what to do instead.

        Returns
        -------
        self
            The fitted estimator.
        """
        refuse_arguments(self, unknown)
        if units is not None and times is None and sequences is None:
            raise TypeError(
                "units need times or sequences: without them each row is a step, so that what is "
                "released has a row per record and tells how many records a person has."
            )
        return self._fit(X, times, sequences, lengths, units=units)

    def plan(
        self,
        n_samples: int,
        n_features: int,
        *,
        categories: Any = None,
        unit: Unit = "record",
    ) -> FitPlan:
        """Say what a fit of this size would claim and add, without data.

        Neither depends on the numbers of times and sequences; the claim supposes that they are
        given, as ``n_times`` and ``sequence_labels``, or that each row is a step.

        Parameters
        ----------
        n_samples : int
            Number of events.
        n_features : int
            Number of fields.
        categories : int or sequence of int, default=None
            Number of values of each field; None takes the parameter ``categories``.
        unit : {"record", "person"}, default="record"
            "person" for a fit with ``units``; ``n_samples`` is then the number of persons.

        Returns
        -------
        FitPlan
            The claim and the public numbers of the fit; ``print`` it.
        """
        n_samples = check_integer("n_samples", n_samples, low=1)
        n_features = check_integer("n_features", n_features, low=1)
        categories = self.categories if categories is None else categories
        if categories is None:
            raise ValueError("plan sees no data: pass categories, the number of values per field.")
        sizes = check_categories(categories, n_features)
        check_choice("unit", unit, ("record", "person"))
        _, grid, _ = place_on(n_samples, None, None, None)
        return self._planned(Public(n_samples, n_features, detail=Layout(sizes, grid), unit=unit))

    def _expected(self, public: Public, plan: Any) -> dict[str, float]:
        counts = isinstance(plan, CountsPlan) and public.unit == "record"
        return {"count_error": plan.noise.deviation / public.n} if counts else {}

    def _read(self, X: Any, times: Any, sequences: Any, lengths: Any) -> Any:
        if any(map(is_chunked, (X, times, sequences))):
            return self._read_chunks(X, times, sequences, lengths)
        reader = probe(self)
        codes = check_codes("X", validate_data(reader, X, dtype="numeric"), ENCODE)
        n_events, n_fields = codes.shape
        if self.n_times is not None:
            check_integer("n_times", self.n_times, low=1)
        check_grid_is_used(self.n_times, self.sequence_labels, times, sequences)
        if self.categories is None:
            sizes = codes.max(axis=0) + 1
        else:
            sizes = check_categories(self.categories, n_fields)
            check_within(codes, sizes)
        steps, grid, labels = place_on(
            n_events,
            times,
            sequences,
            lengths,
            n_times=self.n_times,
            labels=self.sequence_labels,
        )
        public = Public(
            n=n_events,
            n_features=n_fields,
            names=getattr(reader, "feature_names_in_", None),
            detail=Layout(sizes, grid, labels),
            conditions=self._learned(times, sequences),
        )
        return Records(public, codes, steps)

    def _learned(self, times: Any, sequences: Any) -> tuple[str, ...]:
        """Say what of the grid is taken from the data."""
        learned = [
            name
            for name, given in (
                ("categories", self.categories is not None),
                ("n_times", times is None or self.n_times is not None),
                ("sequence_labels", sequences is None or self.sequence_labels is not None),
            )
            if not given
        ]
        return (f"{', '.join(learned)} as they occur in the data are public",) if learned else ()

    def _read_chunks(self, X: Any, times: Any, sequences: Any, lengths: Any) -> ChunkedRecords:
        """Read events in chunks: the grid is known after one pass."""
        if not is_chunked(X):
            raise TypeError("times and sequences are in chunks and X is not; chunk it alike.")
        if lengths is not None or (times is None and sequences is None):
            raise ValueError(
                "Events in chunks are placed on a grid: pass times, sequences or both, in chunks. "
                "Where each row is a step of its own, the release is as large as the table; load "
                "it."
            )
        if self.n_times is not None:
            check_integer("n_times", self.n_times, low=1)
        check_grid_is_used(self.n_times, self.sequence_labels, times, sequences)

        def look(n_fields: int, names: Any) -> Any:
            given = self.categories
            sizes = None if given is None else check_categories(given, n_fields)
            return partial(look_at_events, sizes, self.n_times, self.sequence_labels, ENCODE)

        also = {"times": times, "sequences": sequences}
        rows = read_chunks(self, X, bound=Bound(), also=also, look=look, dtype="numeric")
        seen: tuple[Seen, ...] = rows.seen
        largest = np.max([one.largest for one in seen], axis=0)
        sizes = largest + 1
        if self.categories is not None:
            sizes = check_categories(self.categories, rows.public.n_features)
        n_times = self.n_times or max(one.last for one in seen) + 1
        labels: Any = self.sequence_labels
        if labels is None and sequences is not None:
            labels = np.unique(np.concatenate([one.sequences for one in seen]))
        nothing = np.empty(0, dtype=np.int64)
        no_labels = None if sequences is None else np.asarray(labels)[:0]
        _, grid, known = place_on(0, nothing, no_labels, None, n_times=n_times, labels=labels)
        public = replace(
            rows.public,
            detail=Layout(sizes, grid, known),
            conditions=self._learned(times, sequences),
        )
        encode = partial(step_of, n_times, labels)
        return replace(rows, public=public, reader=replace(rows.reader, encode=encode))

    def _plan(self, public: Public, budget: Budget) -> CountsPlan | GibbsPlan:
        prior, schedule = self._model(public.detail.categories)
        self._check_release()
        if budget.private:
            for condition in public.conditions:
                warnings.warn(
                    f"The claim supposes that {condition}; pass what the code book says.",
                    PrivacyWarning,
                    stacklevel=4,
                )
        if self.mechanism == "ops":
            return plan_gibbs(
                budget,
                prior,
                schedule,
                min_probability=float(self.min_probability),
                calibration=self.calibration,
                conditions=public.conditions,
            )
        return plan_counts(
            budget,
            prior,
            schedule,
            law=cast(Law, self.mechanism),
            noise_aware=self.posterior == "noise_aware",
            conditions=public.conditions,
        )

    def _touch(
        self, rows: Records, plan: CountsPlan | GibbsPlan, generator: np.random.Generator
    ) -> StatesPosterior:
        layout, n_events = rows.public.detail, rows.public.n
        exact = rows.total(count_block, layout)
        if isinstance(plan, GibbsPlan):
            draws = run_on_events(exact, layout.grid, plan, generator, self._watch)
            return StatesPosterior.of_draws(draws, None, plan, layout, n_events)
        if rows.public.unit == "record":
            noisy = release.counts(generator, exact, plan.noise)
        else:  # what is released of fractions is read as the nearest whole counts of persons
            noisy = np.rint(fractions(generator, exact, plan.noise, WHOLE)).astype(np.int64)
        return learn(noisy, plan, layout, n_events, generator, self._watch)

    def _watch(self, n_sweeps: int, label: str) -> Iterable[int]:
        return self._progress(range(n_sweeps), total=n_sweeps, label=label)

    def _model(self, categories: np.ndarray) -> tuple[Prior, Schedule]:
        """Check the parameters that describe the model and its sampler, and collect them."""
        check_choice("posterior", self.posterior, POSTERIORS)
        prior = Prior(
            n_states=check_integer("n_states", self.n_states, low=1),
            begin=models.field_starts(categories),
            alpha_emission=self._positive("alpha_emission"),
            alpha_transition=self._positive("alpha_transition"),
            stickiness=check_real("stickiness", self.stickiness, low=0.0, high=1e9),
            state_sampler=check_choice("state_sampler", self.state_sampler, STATE_SAMPLERS),
        )
        schedule = Schedule(
            n_iter=check_integer("n_iter", self.n_iter, low=1),
            burn_in=check_integer("burn_in", self.burn_in, low=0),
            n_chains=check_integer("n_chains", self.n_chains, low=1),
        )
        return prior, schedule

    def _positive(self, name: str) -> float:
        return check_real(name, getattr(self, name), low=0.0, high=1e9, closed="high")

    def _check_release(self) -> None:
        """Check the parameters that describe the release; refuse those without effect."""
        check_choice("mechanism", self.mechanism, MECHANISMS)
        check_choice("calibration", self.calibration, CALIBRATIONS)
        check_real("min_probability", self.min_probability, low=0.0, high=1.0, closed="neither")
        if self.mechanism == "ops":
            unused = {"posterior": self.posterior != "noise_aware"}
            why = "it says how noisy counts are read, and mechanism='ops' releases none"
        else:
            unused = {
                "calibration": self.calibration != "per_update",
                "min_probability": self.min_probability != MIN_PROBABILITY,
            }
            why = f"it is for mechanism='ops'; got mechanism={self.mechanism!r}"
        for name in (name for name, given in unused.items() if given):
            raise ValueError(f"{name}={getattr(self, name)!r} would have no effect: {why}.")

    def predict_proba(
        self, X: Any, *, times: Any = None, sequences: Any = None, lengths: Any = None
    ) -> np.ndarray:
        """Posterior state probabilities of the cell of each event of a new table.

        The new events form sequences of their own, smoothed under the draws of the parameters and
        averaged over them. The result is not private for the new events.

        Parameters
        ----------
        X : array-like of shape (n_events, n_fields)
            Integer codes.
        times, sequences, lengths
            As for `fit`; sequences may be new, times may go beyond those of `fit`.

        Returns
        -------
        float array of shape (n_events, n_states)
        """
        counts, grid, steps = self._new_counts(X, times, sequences, lengths)
        return self._posterior.probabilities(counts, grid)[steps]

    def predict(
        self, X: Any, *, times: Any = None, sequences: Any = None, lengths: Any = None
    ) -> np.ndarray:
        """Most probable state of the cell of each event of a new table.

        Parameters
        ----------
        X, times, sequences, lengths
            As for `predict_proba`.

        Returns
        -------
        int array of shape (n_events,)
        """
        proba = self.predict_proba(X, times=times, sequences=sequences, lengths=lengths)
        return proba.argmax(axis=1)

    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        sequences: Any = None,
        lengths: Any = None,
    ) -> float:
        """Log-likelihood per event of a new table, averaged over the posterior.

        Parameters
        ----------
        X, times, sequences, lengths
            As for `predict_proba`.
        y : None
            Ignored.

        Returns
        -------
        float
            :math:`n^{-1} \\log` of the mean over draws of the probability of all new events.
        """
        counts, grid, steps = self._new_counts(X, times, sequences, lengths)
        return self._posterior.log_likelihood(counts, grid) / max(steps.shape[0], 1)

    def _new_counts(
        self, X: Any, times: Any, sequences: Any, lengths: Any
    ) -> tuple[np.ndarray, Grid, np.ndarray]:
        """Count a new table: counts of its steps, its grid, the step of each row."""
        check_is_fitted(self)
        sizes = self._posterior.layout.categories
        codes = check_codes("X", validate_data(self, X, dtype="numeric", reset=False), ENCODE)
        check_within(codes, sizes)
        steps, grid, labels = place_on(codes.shape[0], times, sequences, lengths)
        exact = count_block(Block(codes, steps), Layout(sizes, grid, labels))
        return exact.astype(np.float64), grid, steps

    @available_if(offers("refit"))
    def refit(self, **params: Any) -> PrivateHMM:
        """Learn another model from the same release, at no cost in privacy.

        Parameters
        ----------
        **params
            Parameters of the model and its sampler to change: ``n_states``, ``alpha_transition``,
            ``stickiness``, ``alpha_emission``, ``posterior``, ``state_sampler``, ``n_iter``,
            ``burn_in``, ``n_chains``, ``random_state``, ``progress``.

        Returns
        -------
        PrivateHMM
            A new estimator with the same ``privacy_``; this one is unchanged.
        """
        check_is_fitted(self)
        if not set(params) <= set(FREE):
            raise ValueError(
                f"refit can change {list(FREE)}; got {sorted(set(params) - set(FREE))}. Other "
                "changes need a new release: use fit."
            )
        other = clone(self).set_params(**params)
        fitted: StatesPosterior = self._posterior
        noisy, plan = fitted.released()
        prior, schedule = other._model(fitted.layout.categories)
        plan = replace(
            plan,
            prior=prior,
            schedule=schedule,
            noise_aware=other.posterior == "noise_aware",
        )
        generator = randomness.make_generator(other.random_state)
        learned = learn(noisy, plan, fitted.layout, fitted.n_events, generator, other._watch)
        public = Public(
            fitted.n_events, self.n_features_in_, names=getattr(self, "feature_names_in_", None)
        )
        return other._keep(public, plan, self.privacy_, learned)

    @available_if(offers("select_n_states"))
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
        rest of their sequences.

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
        check_is_fitted(self)
        return select_n_states(
            self._posterior, candidates, held_out, n_splits, random_state, self._watch
        )

    @available_if(offers("sample"))
    def sample(self, random_state: Any = None) -> Bunch:
        """Draw a synthetic event log from the posterior predictive, at no cost in privacy.

        One posterior draw of the parameters, states and sizes of the cells given the release, then
        events: a log of the same sequences and times, with about as many events. Every call is
        another log. Fields are independent given the state, in the model and so in the log.

        Parameters
        ----------
        random_state : int, SeedSequence, RandomState, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        :class:`~sklearn.utils.Bunch`
            ``data`` of shape (n_events, n_fields), ``times`` (the steps of a sequence, where each
            row is one) and ``sequences`` of its events, and ``states``, shaped as ``states_``.
        """
        check_is_fitted(self)
        layout: Layout = self._posterior.layout
        codes, steps, states = self._posterior.synthetic(random_state)
        starts = layout.grid.starts
        sequence = np.searchsorted(starts, steps, side="right") - 1
        return Bunch(
            data=codes,
            times=steps - starts[sequence],
            sequences=sequence if layout.labels is None else layout.labels[sequence],
            states=layout.shaped(states),
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return the states of all cells as a table (needs pandas).

        Returns
        -------
        pandas.DataFrame
            Columns ``sequence`` and ``time`` (``step`` where each row is one), ``state`` and
            ``proba_0``, ``proba_1``, ...
        """
        check_is_fitted(self)
        import pandas as pd

        layout: Layout = self._posterior.layout
        lengths, labels = layout.grid.lengths, layout.labels
        sequence = np.repeat(np.arange(lengths.shape[0]), lengths)
        proba = layout.flat(self._posterior.state_proba)
        columns: dict[str, Any] = {
            "sequence": sequence if labels is None else labels[sequence],
            "step" if labels is None else "time": np.concatenate([np.arange(n) for n in lengths]),
            "state": proba.argmax(axis=1),
        }
        columns |= {f"proba_{k}": proba[:, k] for k in range(proba.shape[1])}
        return pd.DataFrame(columns)

    @property
    def start_(self) -> np.ndarray:
        """Posterior mean of the first state's probabilities."""
        check_is_fitted(self)
        return np.asarray(self._posterior.start.mean(axis=0))

    @property
    def transition_(self) -> np.ndarray:
        """Posterior mean of the transition probabilities."""
        check_is_fitted(self)
        return np.asarray(self._posterior.transition.mean(axis=0))

    @property
    def emission_(self) -> list[np.ndarray]:
        """Posterior means of the fields' probabilities, one table per field."""
        check_is_fitted(self)
        mean = self._posterior.emission.mean(axis=0)
        return np.split(mean, np.cumsum(self._posterior.layout.categories)[:-1], axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.target_tags.required = False
        # A row's state depends on the rows around it, so that permuting or dropping rows changes
        # predictions; this is the tag that tells scikit-learn so.
        tags.non_deterministic = True
        return tags
