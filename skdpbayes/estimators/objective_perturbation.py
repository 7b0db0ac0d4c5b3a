"""Logistic regression by objective (or output) perturbation, with noise-aware error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from skdpbayes._validation import (
    check_choice,
    check_flag,
    check_is_fitted,
    check_real,
    check_scale,
    clip_negative,
)
from skdpbayes.estimators._objective_checks import (
    check_information,
    check_margin,
    check_published,
    check_reachable,
)
from skdpbayes.estimators._objective_inference import (
    Fitted,
    pack_symmetric,
    prior_precision,
    unpack_symmetric,
    worthwhile_share,
)
from skdpbayes.estimators._objective_intervals import NoiseAwareClassifier
from skdpbayes.estimators._objective_plan import CALIBRATIONS, METHODS, Plan, automatic_C, make_plan
from skdpbayes.estimators._objective_problem import Problem
from skdpbayes.estimators._objective_solver import (
    information,
    minimize,
    noise_vector,
    one_blas_thread,
    release_values,
)

if TYPE_CHECKING:
    from skdpbayes.privacy.guarantee import Adjacency

__all__ = ["ObjPertLogisticRegression"]

LARGEST_MARGIN = 20.0  # beyond, hardly a record leaves the linear part of the loss
RELEASED = {"coef_", "intercept_", "information_", "C_", "noise_scale_", "privacy_"}
RELEASED |= {"_coef_draws", "_intercept_draws", "_fitted"}


class ObjPertLogisticRegression(NoiseAwareClassifier):
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
    records is public in both. Released are the coefficients and, if ``inference_budget > 0``, the
    Fisher information at them; predictions, intervals and posterior draws are computed from these
    alone. Assumed public are all parameters, the number of records and features and the label
    set. No exact minimizer is needed: its gradient norm is driven below a public tolerance that
    bounds rounding as well, and checked, and exact discrete noise on a public grid, paid for from
    the same budget, hides what is left; ``privacy_.conditions`` is empty. The linear term itself
    is drawn in double precision, whose tails end at probabilities around 1e-16. With an integer
    ``random_state`` the claim needs the seed to stay secret and to serve one fit only: two fits
    with one seed share their noise. Every ``fit`` spends the budget again: a refit, each fold of a
    cross-validation and each point of a grid search; a ``ledger`` adds them up.

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
        Public bound on a row's L2 norm; longer rows are scaled down to it.
    C : float or "auto", default="auto"
        Inverse strength of the penalty, positive, as in scikit-learn (the intercept is penalized
        too). ``"auto"`` is a rule from public numbers: the number of records and features, the
        budget, ``data_norm`` and ``coef_norm``; ``C_`` tells the value. A C so large that the
        budget cannot be met is an error that says which would do.
    fit_intercept : bool, default=True
        Whether to add a constant feature.
    intercept_scaling : float, default=1.0
        The constant feature, positive; one record's norm is then
        ``sqrt(data_norm**2 + intercept_scaling**2)``.
    classes : array-like, default=None
        The public label set. None takes it from ``y``, which makes the label set public.
    method : {"objective", "output"}, default="objective"
        ``"output"`` adds noise to the minimizer of the plain objective instead, for comparison:
        simpler, and worse.
    calibration : {"tight", "chaudhuri2011", "kifer2012", "redberg2023"}, default="tight"
        How noise follows from the budget. ``"tight"`` is the least noise we can prove; the others
        reproduce published formulas for two classes (the first for ``delta=0``, the others for
        ``delta>0``).
    inference_budget : float, default=0.1
        Share f of the budget that releases the Fisher information for ``sample_posterior`` and
        ``conf_int``, in [0, 0.99]; it raises the noise on the coefficients by at most the factor
        ``1 / sqrt(1 - f)``. Larger gives better intervals and slightly worse coefficients; less
        is spent where public numbers tell that noise would hide it. 0: coefficients only.
    margin : float, default=0.0
        In [0, 20]; the loss becomes :math:`\log(1 + e^{m - y x^\top\theta})`. The privacy
        guarantee does not change, but near 0 every record pulls up to twice as hard, so
        that noise matters less: on Adult 3 predicts better at every epsilon. Two classes and
        ``inference_budget=0`` only; probabilities take the margin into account.
    nonnegative : bool, default=False
        Whether features are known to be nonnegative (indicators, numbers scaled to [0, 1]);
        ``fit`` then sets entries below 0 to 0. For ``delta=0``, two classes, ``"objective"`` and
        ``"tight"`` the noise is smaller for the same guarantee, by up to :math:`\sqrt2` with many
        features: its density follows :math:`\|b^+\| + \|b^-\|`, since a record moves it by
        entries of one sign only.
    coef_norm : float, default=10.0
        Public guess of the coefficients' norm, positive; a larger one weakens ``C="auto"`` and
        the prior of ``sample_posterior``. Beyond ten times it, plus noise, they are scaled back.
    random_state : int, RandomState, Generator or None, default=None
        None draws secure random bits; an integer makes the fit reproducible.
    ledger : PrivacyLedger or None, default=None
        Where ``fit`` reserves its cost before it touches the data.
    progress : bool, default=False
        Accepted for symmetry; a fit takes a fraction of a second per 100,000 records.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients (released).
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercept (released), 0 without ``fit_intercept``.
    information_ : ndarray of shape (p, p)
        Fisher information at the coefficients, flattened row by row with the constant feature last
        in each (released); only if ``inference_budget > 0``.
    C_ : float
        The C that was used (public).
    noise_scale_ : float
        Scale of the random linear term's entries, or of the output noise (public).
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
    >>> low, high = model.conf_int(0.9)["coef"][0, 0]
    >>> bool(low < 6 < high)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        adjacency: Adjacency = "replace_one",
        *,
        data_norm: float = 1.0,
        C: float | str = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        classes: Any = None,
        method: str = "objective",
        calibration: str = "tight",
        inference_budget: float = 0.1,
        margin: float = 0.0,
        nonnegative: bool = False,
        coef_norm: float = 10.0,
        random_state: Any = None,
        ledger: Any = None,
        progress: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.classes = classes
        self.method = method
        self.calibration = calibration
        self.inference_budget = inference_budget
        self.margin = margin
        self.nonnegative = nonnegative
        self.coef_norm = coef_norm
        self.random_state = random_state
        self.ledger = ledger
        self.progress = progress

    def fit(self, X: Any, y: Any) -> ObjPertLogisticRegression:
        """Fit the model and spend the budget.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        ObjPertLogisticRegression
            The fitted estimator.
        """
        # 1 validate shapes, types and parameters; a refused fit leaves nothing of an earlier one
        self._forget()
        X, codes = self._validate_training(X, y)
        problem = self._problem(X.shape[0])
        self._check_parameters(problem)
        # 2 bound one record's influence
        X = self._bound_rows(X)
        # 3 calibrate from public numbers
        plan = self._plan(problem)
        # 4 reserve the budget
        guarantee = self._guarantee(plan.event, self._mechanism(plan))
        self._reserve(guarantee)
        # 5 touch the data, under noise
        generator, constant = self._generator(), self._constant_feature
        tilt = noise_vector(generator, plan.tilt_scale, plan)
        with one_blas_thread():
            minimizer = minimize(X, codes, constant, problem, plan, tilt)
        blurred = minimizer + noise_vector(generator, plan.blur_scale, plan)
        release = release_values(generator, blurred, plan.release_scale, plan)
        if self.inference_budget > 0.0:
            with one_blas_thread():
                packed = pack_symmetric(information(release, X, codes, constant, problem))
            noisy = release_values(generator, packed, plan.information_scale, plan)
            self.information_ = unpack_symmetric(noisy, problem.n_parameters)
        self._store_draws(release.reshape(1, problem.n_outputs, problem.n_features))
        self._fitted = Fitted(plan, prior_precision(problem, plan), problem.margin, constant)
        self.C_, self.noise_scale_ = 1.0 / plan.penalty, plan.main_scale
        self.privacy_ = guarantee
        return self

    def _forget(self) -> None:
        """Drop what an earlier fit released: its guarantee is not this one's."""
        for name in RELEASED.intersection(vars(self)):
            delattr(self, name)

    def _problem(self, n_samples: int) -> Problem:
        return Problem(
            n_samples=n_samples,
            n_features=self.n_features_in_ + bool(self.fit_intercept),
            n_classes=len(self.classes_),
            # a row whose computed norm is within data_norm may be longer by rounding
            record_norm=self._record_norm * (1.0 + (self.n_features_in_ + 8.0) * 2.0**-52),
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            adjacency=self.adjacency,
            margin=check_real("margin", self.margin, low=0.0, high=LARGEST_MARGIN),
            coef_norm=check_scale("coef_norm", self.coef_norm),
            nonnegative=check_flag("nonnegative", self.nonnegative),
        )

    def _bound_rows(self, X: Any) -> Any:
        return super()._bound_rows(clip_negative(X) if self.nonnegative else X)

    def _check_parameters(self, problem: Problem) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("calibration", self.calibration, CALIBRATIONS)
        check_real("inference_budget", self.inference_budget, low=0.0, high=0.99)
        if isinstance(self.C, str):
            check_choice("C", self.C, ("auto",))
        else:
            check_scale("C", self.C, 'Or use C="auto".')
        if self.calibration != "tight" and not self._non_private:
            check_published(problem, self.method, self.calibration)
        check_margin(problem, self.inference_budget)
        check_information(problem, self.inference_budget)

    def _plan(self, problem: Problem) -> Plan:
        share = worthwhile_share(problem, float(self.inference_budget))
        if isinstance(self.C, str):
            C = automatic_C(problem, self.method, self.calibration, float(self.coef_norm))
        else:
            C = float(self.C)
            check_reachable(problem, C, self.method, self.calibration, share)
        settings = {"method": self.method, "calibration": self.calibration}
        return make_plan(problem, C=C, inference_budget=share, **settings)

    def _mechanism(self, plan: Plan) -> str:
        if self._non_private:
            return "logistic regression without noise"
        noise = "gamma" if plan.pure else "Gaussian"
        noise = "two-orthant gamma" if plan.two_orthants else noise
        also = " and a noisy Fisher information" if self.inference_budget > 0.0 else ""
        return f"{self.method} perturbation with {noise} noise{also}"

    def _mean_probability(self, X: Any) -> np.ndarray:
        """With a margin, the probability at which the expected slope of the loss is 0."""
        check_is_fitted(self)
        margin = self._fitted.margin
        if margin == 0.0:
            return super()._mean_probability(X)
        scores = self.decision_function(X)
        odds = np.logaddexp(0.0, scores - margin) - np.logaddexp(0.0, -scores - margin)
        return np.column_stack([expit(-odds), expit(odds)])
