"""Logistic regression by objective (or output) perturbation, with noise-aware error bars."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, ndtri

from skdpbayes import randomness
from skdpbayes._validation import (
    check_choice,
    check_flag,
    check_integer,
    check_real,
    check_scale,
    longest_row,
)
from skdpbayes.estimators._classifier import PrivateClassifier
from skdpbayes.estimators.linear.blocks import cut_blocks
from skdpbayes.estimators.linear.normal import NormalPosterior, noise_aware_posterior
from skdpbayes.estimators.linear.posterior import LinearPosterior, split_coefficients
from skdpbayes.estimators.objective.plan import (
    CALIBRATIONS,
    MECHANISMS,
    ObjectivePlan,
    Problem,
    automatic_C,
    automatic_share,
    check_information,
    check_margin,
    check_persons,
    check_published,
    check_reachable,
    make_plan,
    prior_precision,
    worthwhile_share,
)
from skdpbayes.estimators.objective.solver import information, minimize, noise_vector
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.chunks import ChunkedRecords
from skdpbayes.fitting.estimator import NOT_PRIVATE
from skdpbayes.fitting.records import Public, Records
from skdpbayes.fitting.threads import one_blas_thread
from skdpbayes.privacy.budget import Budget
from skdpbayes.release import floats as release

if TYPE_CHECKING:
    from skdpbayes.privacy.guarantee import Adjacency

LARGEST_MARGIN = 20.0  # beyond, hardly a record leaves the linear part of the loss


class ObjPertLogisticRegression(PrivateClassifier):
    r"""Differentially private logistic regression by objective perturbation, with error bars.

    Minimizes the penalized loss of scikit-learn's ``LogisticRegression`` plus a random linear term,

    .. math::

        \hat\theta = \arg\min_\theta \sum_{i=1}^n \log\bigl(1 + e^{-y_i x_i^\top\theta}\bigr)
        + \frac{1}{2C}\|\theta\|^2 + b^\top\theta,

    with softmax in place of the logistic loss for more than two classes. The entries of :math:`b`
    are normal, or its density is proportional to :math:`e^{-\|b\|/s}` if ``delta=0``.

    **Privacy guarantee.** The fit is ``(epsilon, delta)``-differentially private, pure for
    ``delta=0``. The unit is one record (a row of ``X`` with its label): ``adjacency`` says
    whether it is replaced by another or by a null record that contributes nothing; the number of
    records is public in both. With ``fit(X, y, units=ids)`` the unit is a person, all records with
    one id, and the number of persons is public instead. Released are the coefficients and, unless
    ``inference_budget`` is 0, the Fisher information at them; predictions, intervals and posterior
    draws are computed from these alone. Assumed public are all parameters, the number of records
    and features and the label set. No exact minimizer is needed: its gradient norm is driven below
    a public tolerance that bounds rounding as well, and checked, and exact discrete noise on a
    public grid, paid for from the same budget, hides what is left; ``privacy_.conditions`` is
    empty. The linear term itself is drawn in double precision, whose tails end at probabilities
    around 1e-16. With an integer ``random_state`` the claim needs the seed to stay secret and to
    serve one fit only: two fits with one seed share their noise. Every ``fit`` spends the budget
    again: a refit, each fold of a cross-validation and each point of a grid search; a ``ledger``
    adds them up.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, positive; smaller is more private. ``np.inf`` fits without noise.
    delta : float, default=1e-5
        In [0, 1), well below one over the number of records. 0 asks for pure privacy, whose noise
        grows with the number of features instead of its square root.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets; replacing needs twice the noise.
    data_norm : float, default=1.0
        Public bound on a row's L2 norm; longer rows are scaled down to it, in ``fit`` and in every
        prediction alike. At ``epsilon=np.inf`` rows are taken as they are.
    C : float or "auto", default="auto"
        Inverse strength of the penalty, positive, as in scikit-learn (the intercept is penalized
        too). ``"auto"`` is a rule from public numbers: the number of records and features, the
        budget, ``data_norm`` and ``coef_norm_guess``; ``C_`` tells the value. A C so large that the
        budget cannot be met is an error that says which would do.
    fit_intercept : bool, default=True
        Whether to add a constant feature.
    intercept_scaling : float, default=1.0
        The constant feature, positive; one record's norm is then
        ``sqrt(data_norm**2 + intercept_scaling**2)``.
    classes : array-like, default=None
        The public label set. None takes it from ``y``, which makes the label set public.
    mechanism : {"objective", "output"}, default="objective"
        ``"output"`` adds noise to the minimizer of the plain objective instead, for comparison:
        simpler, and worse.
    calibration : {"tight", "chaudhuri2011", "kifer2012", "redberg2023"}, default="tight"
        How noise follows from the budget. ``"tight"`` is the least noise we can prove; the others
        reproduce published formulas for two classes (the first for ``delta=0``, the others for
        ``delta>0``).
    inference_budget : float or "auto", default="auto"
        Share f of the budget that releases the Fisher information for ``sample_posterior`` and
        ``interval``, in [0, 0.99]. With two classes and ``delta > 0`` it is nearly free, because a
        record moves the information least where its gradient is largest; else it raises the
        noise on the coefficients by at most the factor ``1 / sqrt(1 - f)``. Larger gives better
        intervals and slightly worse coefficients; less is spent where public numbers tell that
        noise would hide it. 0: coefficients only. ``"auto"`` is 0.1, and 0 with a margin or with so
        many parameters (more than 3000) that the matrix would be too large.
    margin : float, default=0.0
        In [0, 20]; the loss becomes :math:`\log(1 + e^{m - y x^\top\theta})`. The privacy
        guarantee does not change, but near 0 every record pulls up to twice as hard, so
        that noise matters less: on Adult 3 predicts better at every epsilon. Two classes, no
        Fisher information; probabilities take the margin into account.
    nonnegative : bool, default=False
        Whether features are known to be nonnegative (indicators, numbers scaled to [0, 1]);
        entries below 0 are then set to 0, in predictions too. For ``delta=0``, two classes,
        ``"objective"`` and ``"tight"`` the noise is smaller for the same guarantee, by up to
        :math:`\sqrt2` with many features: its density follows :math:`\|b^+\| + \|b^-\|`, since a
        record moves it by entries of one sign only.
    coef_norm_guess : float, default=10.0
        Public guess of the coefficients' norm, positive; a larger one weakens ``C="auto"``. It is
        the deviation of the prior behind ``sample_posterior`` and ``interval``. Beyond ten times
        it, plus noise, coefficients are scaled back.
    random_state : int, RandomState, Generator or None, default=None
        None draws secure random bits; an integer makes the fit reproducible.
    ledger : PrivacyLedger or None, default=None
        Where ``fit`` reserves its cost before it touches the data.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients (released).
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercept (released), 0 without ``fit_intercept``.
    information_ : ndarray of shape (p, p)
        Fisher information at the coefficients, flattened row by row with the constant feature last
        in each (released); only if the Fisher information is released.
    C_ : float
        The C that was used (public).
    noise_ : Noise
        Law and scale of the random linear term's entries, or of the output noise (public).
    classes_ : ndarray
        The labels (public).
    n_features_in_ : int
        Number of features (public).
    feature_names_in_ : ndarray of str
        Their names, if ``X`` has any (public).
    privacy_ : PrivacyGuarantee
        The claim, with its whole privacy profile (public).

    References
    ----------
    .. [1] K. Chaudhuri, C. Monteleoni, A. Sarwate. Differentially private empirical risk
       minimization. JMLR 12, 2011 (Algorithm 2, Theorem 9).
    .. [2] D. Kifer, A. Smith, A. Thakurta. Private convex empirical risk minimization and
       high-dimensional regression. COLT 2012 (Theorem 2).
    .. [3] R. Redberg, A. Koskela, Y.-X. Wang. Improving the privacy and practicality of objective
       perturbation for differentially private linear learners. NeurIPS 2023 (Theorem 3.1).
    .. [4] J. Dong, A. Roth, W. Su. Gaussian differential privacy.
       JRSS-B 84, 2022 (Theorem 2.14).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes import ObjPertLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 3)) / np.sqrt(3)
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(-6 * X[:, 0]))
    >>> model = ObjPertLogisticRegression(epsilon=1.0, random_state=1).fit(X, y)
    >>> model.privacy_.epsilon, model.privacy_.conditions
    (1.0, ())
    >>> low, high = model.interval(0.9)["coef"][0, 0]
    >>> bool(low < 6 < high)
    True
    """

    _takes_units = True
    _reads_chunks = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: Adjacency = "replace_one",
        data_norm: float = 1.0,
        C: float | str = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        classes: Any = None,
        mechanism: str = "objective",
        calibration: str = "tight",
        inference_budget: float | str = "auto",
        margin: float = 0.0,
        nonnegative: bool = False,
        coef_norm_guess: float = 10.0,
        random_state: Any = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.classes = classes
        self.mechanism = mechanism
        self.calibration = calibration
        self.inference_budget = inference_budget
        self.margin = margin
        self.nonnegative = nonnegative
        self.coef_norm_guess = coef_norm_guess
        self.random_state = random_state
        self.ledger = ledger

    def _bound(self) -> Bound:
        check_scale("data_norm", self.data_norm)
        nonnegative = check_flag("nonnegative", self.nonnegative)
        if np.isinf(self.epsilon):
            return Bound(nonnegative=nonnegative)
        return Bound(float(self.data_norm), nonnegative)

    def _read(self, X: Any, y: Any) -> Records:
        check_real("epsilon", self.epsilon, low=0.0, closed="high", remedy=NOT_PRIVATE)
        rows = super()._read(X, y)
        if np.isinf(self.epsilon):  # nothing is bounded, so rounding follows the rows as they are
            longest = max(rows.survey(longest_row))
            rows = replace(rows, public=replace(rows.public, detail=longest))
        return rows

    def _plan(self, public: Public, budget: Budget) -> ObjectivePlan:
        problem = self._problem(public, budget)
        wanted = self._checked_share(problem)
        share = worthwhile_share(problem, wanted)
        settings = {"mechanism": self.mechanism, "calibration": self.calibration}
        if isinstance(self.C, str):
            C = automatic_C(
                problem, **settings, coef_norm=problem.coef_norm, inference_budget=share
            )
        else:
            C = float(self.C)
            check_reachable(problem, C, **settings, inference_budget=share)
        plan = make_plan(problem, C=C, inference_budget=share, **settings)
        information = None
        if wanted > 0.0:
            information = budget.noise(plan.grid_law, plan.information_scale)
        return replace(
            plan,
            words=self._words(plan, budget, wanted > 0.0),
            release=budget.noise(plan.grid_law, plan.release_scale),
            information=information,
        )

    def _expected(self, public: Public, plan: ObjectivePlan) -> dict[str, float]:
        r"""Excess of the perturbed minimizer, at most.

        The gradient of the penalized loss J at the tilted minimizer is -b, and J is
        :math:`\lambda`-strongly convex: the excess is at most :math:`|b|^2/2\lambda`. Noise u of
        mean 0 on the minimizer adds at most :math:`L|u|^2/2`, *L* the largest curvature of J.
        """
        problem = plan.problem
        curvature = public.n * problem.loss.curvature[1] * problem.record_norm**2 + plan.penalty
        excess = plan.tilt_variance / plan.penalty + plan.blur_variance * curvature
        return {"excess_loss": 0.5 * plan.n_parameters * excess / public.n}

    def _touch(
        self, rows: Any, plan: ObjectivePlan, generator: np.random.Generator
    ) -> ObjectivePosterior:
        chunked = isinstance(rows, ChunkedRecords)
        data = rows.prepared(cut_blocks, plan.problem.grid) if chunked else rows.held()
        tilt = noise_vector(generator, plan.tilt_scale, plan)
        with one_blas_thread():
            minimizer = minimize(data, plan.problem, plan, tilt)
        blurred = minimizer + noise_vector(generator, plan.blur_scale, plan)
        theta = release.floats(generator, blurred, plan.release)
        noisy = None
        if plan.information is not None:
            with one_blas_thread():
                exact = information(theta, data, plan.problem)
            noisy = release.symmetric(generator, exact, plan.information)
        return ObjectivePosterior(theta, noisy, plan, rows.public.n_features, rows.bound)

    def _problem(self, public: Public, budget: Budget) -> Problem:
        check_flag("fit_intercept", self.fit_intercept)
        check_scale("intercept_scaling", self.intercept_scaling)
        longest = float(self.data_norm if public.detail is None else public.detail)
        return Problem(
            n_records=public.n,
            n_features=public.n_features + bool(self.fit_intercept),
            n_classes=public.n_classes,
            data_norm=longest,
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=budget.adjacency,
            margin=check_real("margin", self.margin, low=0.0, high=LARGEST_MARGIN),
            coef_norm=check_scale("coef_norm_guess", self.coef_norm_guess),
            nonnegative=bool(self.nonnegative),
            constant=float(self.intercept_scaling) if self.fit_intercept else 0.0,
            unit=public.unit,
        )

    def _checked_share(self, problem: Problem) -> float:
        """Check the parameters; return the share that may be spent on the Fisher information."""
        check_choice("mechanism", self.mechanism, MECHANISMS)
        check_choice("calibration", self.calibration, CALIBRATIONS)
        if isinstance(self.C, str):
            check_choice("C", self.C, ("auto",))
        else:
            check_scale("C", self.C, 'Or use C="auto".')
        if self.calibration != "tight" and np.isfinite(problem.epsilon):
            check_published(problem, self.mechanism, self.calibration)
        check_persons(problem, self.mechanism, self.calibration)
        if isinstance(self.inference_budget, str):
            check_choice("inference_budget", self.inference_budget, ("auto",))
            share = automatic_share(problem)
        else:
            share = check_real("inference_budget", self.inference_budget, low=0.0, high=0.99)
        check_margin(problem, share)
        check_information(problem, share)
        return share

    def _words(self, plan: ObjectivePlan, budget: Budget, informed: bool) -> str:
        if not budget.private:
            return "logistic regression without noise"
        noise = "gamma" if plan.pure else "Gaussian"
        noise = "two-orthant gamma" if plan.two_orthants else noise
        also = " and a noisy Fisher information" if informed else ""
        return f"{self.mechanism} perturbation with {noise} noise{also}"


@dataclass(frozen=True, eq=False)
class ObjectivePosterior:
    """Released coefficients and Fisher information, with the law of their noise."""

    theta: np.ndarray
    information: np.ndarray | None
    plan: ObjectivePlan
    n_features: int
    bound: Bound

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one row's prediction needs at a time."""
        return self._linear.numbers_per_row

    @property
    def missing(self) -> dict[str, str]:
        """Methods that need the Fisher information, where it was not released."""
        if self.information is not None:
            return {}
        why = (
            "this fit released no Fisher information (inference_budget=0, a margin, or too many "
            "parameters), so there is no posterior; set inference_budget=0.1, say, with margin=0 "
            "and at most 3000 parameters, and fit again."
        )
        return {"interval": why, "sample_posterior": why}

    @property
    def _linear(self) -> LinearPosterior:
        parts = self._split(self.theta[None])
        return LinearPosterior(parts["coef"], parts["intercept"], self.bound)

    def _split(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        table = flat.reshape(*flat.shape[:-1], self.plan.problem.n_outputs, -1)
        return split_coefficients(table, self.n_features, self.plan.problem.constant)

    def attributes(self) -> dict[str, Any]:
        """Return coefficients, intercept and, if released, the Fisher information."""
        shown = self._linear.attributes()
        return shown if self.information is None else {**shown, "information_": self.information}

    def decision(self, X: Any) -> np.ndarray:
        """Linear scores."""
        return self._linear.decision(X)

    def probabilities(self, X: Any) -> np.ndarray:
        """With a margin, the probability at which the expected slope of the loss is 0."""
        margin = self.plan.problem.margin
        if margin == 0.0:
            return self._linear.probabilities(X)
        scores = self.decision(X)
        odds = np.logaddexp(0.0, scores - margin) - np.logaddexp(0.0, -scores - margin)
        return np.column_stack([expit(-odds), expit(odds)])

    def _normal(self) -> NormalPosterior:
        assert self.information is not None
        plan = self.plan
        return noise_aware_posterior(
            self.theta,
            self.information,
            penalty=plan.penalty,
            tilt_variance=plan.tilt_variance,
            blur_variance=plan.blur_variance,
            prior_precision=prior_precision(plan.problem, plan),
            information_deviation=plan.information_deviation,
            tilt_covariance=plan.tilt_covariance,
        )

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Draw from the normal approximation around the release."""
        posterior = self._normal()
        size = 1000 if n_samples is None else check_integer("n_samples", n_samples, low=1)
        # derived: the seed of the fit would repeat the secret noise
        generator = randomness.derived_generator(random_state, 1)
        standard = generator.standard_normal((size, posterior.mean.shape[0]))
        return self._split(posterior.transform(standard))

    def interval(self, level: float) -> dict[str, np.ndarray]:
        """Return the ends of the normal approximation's central intervals."""
        posterior = self._normal()
        half = ndtri(0.5 + 0.5 * level) * posterior.marginal_deviations()
        ends = [self._split(posterior.mean - half), self._split(posterior.mean + half)]
        return {name: np.stack([end[name] for end in ends], axis=-1) for name in ends[0]}
