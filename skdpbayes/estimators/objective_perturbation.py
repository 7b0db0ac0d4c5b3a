"""Logistic regression by objective (or output) perturbation, with noise-aware error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from skdpbayes import randomness
from skdpbayes._validation import check_choice, check_integer, check_is_fitted, check_real
from skdpbayes.estimators._linear import ProbabilisticLinearClassifier
from skdpbayes.estimators._objective_inference import (
    NormalPosterior,
    noise_aware_posterior,
    pack_symmetric,
    unpack_symmetric,
)
from skdpbayes.estimators._objective_plan import (
    CALIBRATIONS,
    METHODS,
    Plan,
    Problem,
    automatic_C,
    check_reachable,
    make_plan,
)
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

# The released information matrix is squared memory too, and its noise drowns it long before
LARGEST_INFORMATION = 3000


class ObjPertLogisticRegression(ProbabilisticLinearClassifier):
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
    is drawn in double precision. With an integer ``random_state`` the claim needs the seed to
    stay secret. Every ``fit`` spends the budget again: a refit, each fold of a cross-validation
    and each point of a grid search; a ``ledger`` adds them up.

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
        ``conf_int``, in [0, 0.99]; it raises the noise on the coefficients by the factor
        ``1 / sqrt(1 - f)``. Larger gives better intervals and slightly worse coefficients;
        0 releases the coefficients only.
    coef_norm : float, default=10.0
        Public guess of the norm of the coefficients, positive; a larger guess makes ``C="auto"``
        and the prior of ``sample_posterior`` weaker.
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
    .. [4] J. Dong, A. Roth, W. Su. Gaussian differential privacy. JRSS-B 84, 2022 (Theorem 2.14).

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
        # 1 validate shapes, types and parameters
        X, codes = self._validate_training(X, y)
        problem = self._problem(X.shape[0])
        self._check_parameters(problem)
        # 2 bound one record's influence
        X = self._bound_rows(X)
        # 3 calibrate from public numbers
        plan = self._plan(problem)
        # 4 reserve the budget
        self.privacy_ = self._guarantee(plan.event, self._mechanism(plan))
        self._reserve(self.privacy_)
        # 5 touch the data, under noise
        generator = self._generator()
        constant = self._constant_feature
        tilt = noise_vector(generator, plan.tilt_scale, plan)
        with one_blas_thread():
            minimizer = minimize(X, codes, constant, problem, plan, tilt)
        blurred = minimizer + noise_vector(generator, plan.blur_scale, plan)
        release = release_values(generator, blurred, plan.release_scale, plan)
        self._store_draws(release.reshape(1, problem.n_outputs, problem.n_features))
        self._plan_ = plan
        if self.inference_budget > 0.0:
            with one_blas_thread():
                packed = pack_symmetric(information(release, X, codes, constant, problem))
            noisy = release_values(generator, packed, plan.information_scale, plan)
            self.information_ = unpack_symmetric(noisy, problem.n_parameters)
        elif hasattr(self, "information_"):
            del self.information_  # of an earlier fit
        return self

    def _problem(self, n_samples: int) -> Problem:
        return Problem(
            n_samples=n_samples,
            n_features=self.n_features_in_ + bool(self.fit_intercept),
            n_classes=len(self.classes_),
            record_norm=self._record_norm,
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            adjacency=self.adjacency,
        )

    def _check_parameters(self, problem: Problem) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("calibration", self.calibration, CALIBRATIONS)
        check_real("inference_budget", self.inference_budget, low=0.0, high=0.99)
        check_real("coef_norm", self.coef_norm, low=0.0, closed="neither")
        if isinstance(self.C, str):
            check_choice("C", self.C, ("auto",))
        else:
            check_real("C", self.C, low=0.0, closed="neither", remedy='Or use C="auto".')
        if self.calibration != "tight" and not self._non_private:
            self._check_published(problem)
        if self.inference_budget > 0.0 and problem.n_parameters > LARGEST_INFORMATION:
            raise ValueError(
                f"inference_budget={self.inference_budget:g} would release the information matrix "
                f"of {problem.n_parameters} parameters, more than {LARGEST_INFORMATION}; set "
                "inference_budget=0, or reduce the number of features."
            )

    def _check_published(self, problem: Problem) -> None:
        if problem.n_classes > 2:
            raise ValueError(
                f"calibration={self.calibration!r} is published for two classes; the label set "
                f'has {problem.n_classes}. Use calibration="tight".'
            )
        if self.method == "output":
            raise ValueError(
                f'calibration={self.calibration!r} does not apply to method="output"; use '
                'calibration="tight".'
            )
        pure = self.calibration == "chaudhuri2011"
        if pure and self.delta > 0.0:
            raise ValueError(
                f'calibration="chaudhuri2011" is pure: set delta=0, or use "tight"; got delta='
                f"{self.delta!r}."
            )
        if not pure and self.delta == 0.0:
            raise ValueError(
                f"calibration={self.calibration!r} needs delta > 0; got delta=0. Use "
                'calibration="tight" or "chaudhuri2011" for pure privacy.'
            )

    def _plan(self, problem: Problem) -> Plan:
        if isinstance(self.C, str):
            self.C_ = automatic_C(problem, self.method, self.calibration, float(self.coef_norm))
        else:
            self.C_ = float(self.C)
            check_reachable(
                problem, self.C_, self.method, self.calibration, float(self.inference_budget)
            )
        plan = make_plan(
            problem,
            C=self.C_,
            method=self.method,
            calibration=self.calibration,
            inference_budget=float(self.inference_budget),
        )
        self.C_ = 1.0 / plan.penalty
        self.noise_scale_ = plan.main_scale
        return plan

    def _mechanism(self, plan: Plan) -> str:
        noise = "gamma" if plan.pure else "Gaussian"
        also = " and a noisy Fisher information" if self.inference_budget > 0.0 else ""
        return f"{self.method} perturbation with {noise} noise{also}"

    def _posterior(self) -> NormalPosterior:
        check_is_fitted(self)
        if not hasattr(self, "information_"):
            raise ValueError(
                "this fit released no Fisher information (inference_budget=0), so there is no "
                "posterior; set inference_budget=0.1, say, and fit again."
            )
        plan = self._plan_
        parts = [self._coef_draws[0]]
        if self.fit_intercept:
            parts.append(self._intercept_draws[0][:, None] / self.intercept_scaling)
        prior = 1.0 / self.C_
        if isinstance(self.C, str):
            prior = min(prior, plan.n_parameters / self.coef_norm**2)
        return noise_aware_posterior(
            np.hstack(parts).ravel(),
            self.information_,
            penalty=plan.penalty,
            tilt_variance=plan.tilt_variance,
            blur_variance=plan.blur_variance,
            prior_precision=prior,
            information_deviation=plan.information_deviation,
        )

    def _split(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Turn (..., p) into coefficients (..., K, d) and intercepts (..., K)."""
        outputs = self.coef_.shape[0]
        table = flat.reshape(*flat.shape[:-1], outputs, -1)
        coef = table[..., : self.n_features_in_]
        if not self.fit_intercept:
            return {"coef": coef, "intercept": np.zeros(table.shape[:-1])}
        return {"coef": coef, "intercept": self.intercept_scaling * table[..., -1]}

    def sample_posterior(
        self, n_samples: int | None = None, random_state: Any = None
    ) -> dict[str, np.ndarray]:
        """Draw coefficients from the noise-aware normal approximation around the release.

        The approximation holds both sampling error and the known noise of the mechanism (see the
        user guide). The prior is normal with variance ``C`` a coefficient; with ``C="auto"``,
        where the penalty fights noise, it is ``coef_norm**2 / p`` for p coefficients if that is
        wider. Draws cost no privacy.

        Parameters
        ----------
        n_samples : int or None, default=None
            Number of draws; None for 1000.
        random_state : int, RandomState, Generator or None, default=None
            Of the draws.

        Returns
        -------
        dict
            ``"coef"`` of shape (n_samples, K, n_features) and ``"intercept"`` of shape
            (n_samples, K), with K = 1 for two classes.
        """
        posterior = self._posterior()
        size = 1000 if n_samples is None else check_integer("n_samples", n_samples, low=1)
        generator = randomness.make_generator(random_state)
        standard = generator.standard_normal((size, posterior.mean.shape[0]))
        return self._split(posterior.transform(standard))

    def conf_int(self, level: float = 0.95) -> dict[str, np.ndarray]:
        """Intervals for coefficients and intercept, noise of the mechanism included.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval should cover, in (0, 1).

        Returns
        -------
        dict
            ``"coef"`` of shape (K, n_features, 2) and ``"intercept"`` of shape (K, 2): lower and
            upper ends, from the posterior of ``sample_posterior``.
        """
        level = check_real("level", level, low=0.0, high=1.0, closed="neither")
        posterior = self._posterior()
        half = ndtri(0.5 + 0.5 * level) * posterior.marginal_deviations()
        ends = [self._split(posterior.mean - half), self._split(posterior.mean + half)]
        return {name: np.stack([end[name] for end in ends], axis=-1) for name in ends[0]}
