"""The contract that every estimator keeps; an estimator joins with one entry in ``CASES``.

``tests/estimators/test_contract.py`` runs each case through scikit-learn's own checks, the front
ends users meet (clone, pickle, pandas, Pipeline, GridSearchCV with a ledger) and the privacy rules
that do not depend on the mechanism (nothing data-dependent is stored, the docstring states the
claim).
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import cauchy
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import BernoulliNB
from sklearn.neural_network import MLPClassifier

from skdpbayes import (
    DPSGLDClassifier,
    DPSGLDNetworkClassifier,
    DPSGLDRegressor,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLinearSVC,
    OPSLogisticRegression,
    PrivateBayesianRidge,
    PrivateHMM,
)


def linear_data(n_samples: int = 400, n_features: int = 3, seed: int = 0) -> tuple[Any, Any]:
    """Two classes with a linear boundary; rows have norm at most 1, so no row is clipped."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_samples, n_features)) / np.sqrt(n_features)
    logits = 6.0 * X[:, 0] - 3.0 * X[:, 1] + 0.5
    y = np.where(rng.random(n_samples) < 1 / (1 + np.exp(-logits)), "yes", "no")
    return X, y


@dataclass(frozen=True)
class Case:
    """How one estimator is put through the contract."""

    make: Callable[..., BaseEstimator]
    """The class; called with keyword parameters."""
    released: frozenset[str]
    """Fitted attributes that are noisy releases: the only ones that may depend on the data."""
    data: Callable[[], tuple[Any, Any]] = linear_data
    parity: Callable[[BaseEstimator, Any, Any], None] | None = None
    """Checks a fit at epsilon=inf against the non-private model: (fitted, X, y)."""
    params: dict[str, Any] = field(default_factory=dict)
    """Parameters of every fit here, e.g. the public label set."""
    required: dict[str, Any] = field(default_factory=dict)
    """Public bounds for scikit-learn's own checks, where no default would be safe."""
    bytes_per_record: int = 0
    """By how much the release grows with a record, where each is a step of a public sequence."""
    others: dict[str, Any] = field(default_factory=dict)
    """Second values of parameters, where `second_value` knows none that suits this estimator."""
    modes: tuple[dict[str, Any], ...] = ()
    """Settings, besides the choices in the docstring, under which other parameters count."""
    quick: dict[str, Any] = field(default_factory=dict)
    """Parameters of fits of which there are many."""
    codes: bool = False
    """Whether rows are codes, which have no length that could be bounded."""

    @property
    def name(self) -> str:
        return self.make.__name__

    def build(self, **params: Any) -> BaseEstimator:
        """Return the estimator with the case's parameters and ``params``."""
        return self.make(**{**self.params, **params})


# Parameters that say how a fit is run, not what it releases; other tests watch what they do.
OF_THE_RUN = frozenset({"random_state", "ledger", "progress"})
SECOND_VALUES: dict[str, Any] = {
    "class_weight": {"yes": 1.0, "no": 0.5},
    "C": 0.1,
    "batch_size": 50,
    "binarize": 0.3,
    "bounds": (-0.3, 0.3),
    "categories": 4,
    "classes": ["maybe", "no", "yes"],
    "clip_norm": 0.2,
    "coef_norm": 2.0,
    "data_norm": 0.7,
    "hidden_layer_sizes": (4,),
    "max_total": 2,
    "n_batches": 2,
    "n_chains": 3,
    "n_kept": 3,
    "n_steps": 40,
    "n_times": 130,
    "preconditioner": None,
    "prior_scale": 0.5,
    "sequence_labels": [0, 1],
    "start": LogisticRegression().fit([[0, 0, 0], [1, 0, 0]], ["no", "yes"]),
    "step_size": 1e-3,
    "tail": 0.7,
    "target_bounds": (-3.0, 3.0),
}


def listed_choices(estimator: Any) -> dict[str, list[str]]:
    """Values that the docstring lists in braces, by parameter."""
    listed = re.findall(r"^(\w+) : \{([^}]*)\}", inspect.getdoc(estimator) or "", re.MULTILINE)
    return {name: re.findall(r'"(\w+)"', values) for name, values in listed}


def second_value(case: Case, name: str, first: Any) -> Any:
    """Return a proper value of a parameter that differs from ``first``."""
    if name in case.others:
        return case.others[name]
    for value in listed_choices(case.make).get(name, ()):
        if value not in (first, "auto"):
            return value
    if name in SECOND_VALUES:
        return SECOND_VALUES[name]
    if isinstance(first, bool):
        return not first
    if isinstance(first, int):
        return first + 1
    if isinstance(first, float):
        return 0.5 * first if first else 1e-6 if name == "delta" else 0.5
    raise KeyError(f"give a second value of {case.name}({name}=...) in its entry of CASES")


def fitted_state(estimator: Any) -> dict[str, Any]:
    """Return everything a fit added to the object, private names and the posterior's fields too."""
    params = set(estimator.get_params())
    state = {name: value for name, value in vars(estimator).items() if name not in params}
    return state | _fields("_posterior", state.pop("_posterior", None))


def _fields(name: str, value: Any) -> dict[str, Any]:
    """Return the fields of nested dataclasses under dotted names."""
    if not dataclasses.is_dataclass(value):
        return {} if value is None else {name: value}
    fields = {}
    for part in dataclasses.fields(value):
        fields |= _fields(f"{name}.{part.name}", getattr(value, part.name))
    return fields


def same(a: Any, b: Any) -> bool:
    """Compare values of fitted states to the last bit."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return bool(a == b)


def same_state(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Compare two states name by name."""
    return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)


PREDICTIONS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


def observed(fitted: Any, X: Any) -> dict[str, Any]:
    """Return all that a caller sees of a fit: its state, predictions, draws and intervals."""
    seen = fitted_state(fitted)
    seen |= {name: getattr(fitted, name)(X) for name in PREDICTIONS if hasattr(fitted, name)}
    for name, call in (
        ("draws", lambda: fitted.sample_posterior(3, random_state=0)),
        ("interval", lambda: fitted.interval(0.8)),
    ):
        try:
            seen |= {f"{name}.{part}": value for part, value in call().items()}
        except (AttributeError, ValueError) as error:  # not what this fit released
            seen[name] = str(error)
    return seen


def same_as_bernoulli_nb(fitted: BaseEstimator, X: Any, y: Any) -> None:
    """Counts without noise give scikit-learn's naive Bayes."""
    expected = BernoulliNB().fit(X, y)
    np.testing.assert_allclose(fitted.predict_proba(X), expected.predict_proba(X), rtol=1e-9)


def mode_and_draws_near_it(fitted: BaseEstimator, X: Any, y: Any) -> None:
    """The mode has the least penalized loss; draws exceed it by Gamma(p / 2), p coefficients."""
    signs = np.where(y == fitted.classes_[1], 1.0, -1.0)
    rows = np.column_stack([X, np.ones(len(X))])
    logistic = hasattr(fitted, "predict_proba")

    def objective(theta: np.ndarray) -> float:
        margins = signs * (rows @ theta)
        losses = np.logaddexp(0.0, -margins) if logistic else np.maximum(0.0, 1.0 - margins)
        return float(losses.sum() + theta @ theta / (2.0 * fitted.C_))

    mode = np.append(fitted.coef_, fitted.intercept_)
    start = minimize(objective, mode, method="BFGS").x if logistic else mode
    best = minimize(objective, start, method="Nelder-Mead", options={"maxiter": 4000}).fun
    assert objective(mode) - best < (1e-6 if logistic else 1e-2)
    draws = fitted.sample_posterior(400, random_state=0)
    thetas = np.concatenate([draws["coef"][:, 0], draws["intercept"]], axis=1)
    excess = np.mean([objective(theta) for theta in thetas]) - best
    assert 0.8 < excess / (thetas.shape[1] / 2) < 1.25, excess


def chain_around_the_mode(fitted: BaseEstimator, X: Any, y: Any) -> None:
    """Draws exceed the smallest penalized loss by p / 2 on average, their mean by little."""
    signs = np.where(y == fitted.classes_[1], 1.0, -1.0)
    rows = signs[:, None] * np.column_stack([X, np.ones(len(X))])

    def prior(theta: np.ndarray) -> float:
        if fitted.prior == "normal":
            return float(theta @ theta / (2.0 * fitted.prior_scale**2))
        scales = np.append(np.full(X.shape[1], 2.5), 10.0)
        return -float(cauchy(scale=scales).logpdf(theta).sum())

    def objective(theta: np.ndarray) -> float:
        return float(np.logaddexp(0.0, -rows @ theta).sum()) + prior(theta)

    draws = fitted.sample_posterior()
    thetas = np.concatenate([draws["coef"][:, 0], draws["intercept"]], axis=1)
    best = minimize(objective, thetas.mean(axis=0), method="BFGS").fun
    excess = np.mean([objective(theta) for theta in thetas]) - best
    assert 0.6 < excess / (thetas.shape[1] / 2) < 1.6, excess
    assert objective(np.append(fitted.coef_, fitted.intercept_)) - best < 0.3 * excess
    assert fitted.temperature_ == 1.0


def probabilities_of_a_network(fitted: BaseEstimator, X: Any, y: Any) -> None:
    """Without noise: close to the same network trained by scikit-learn, and to the truth."""
    plain = MLPClassifier((8,), activation="tanh", alpha=1.0, max_iter=2000, random_state=0)
    gap = fitted.predict_proba(X) - plain.fit(20.0 * X, y).predict_proba(20.0 * X)
    assert np.abs(gap).mean() < 0.1
    truth = 1.0 / (1.0 + np.exp(-(6.0 * X[:, 0] - 3.0 * X[:, 1] + 0.5)))
    assert np.abs(fitted.predict_proba(X)[:, 1] - truth).mean() < 0.15


def same_as_logistic_regression(fitted: BaseEstimator, X: Any, y: Any) -> None:
    """Without noise the minimizer is scikit-learn's, the intercept being a penalized feature."""
    rows = np.column_stack([X, np.ones(len(X))])
    plain = LogisticRegression(
        C=fitted.C_, fit_intercept=False, solver="newton-cholesky", tol=1e-10
    )
    expected = plain.fit(rows, y).coef_
    np.testing.assert_allclose(np.column_stack([fitted.coef_, fitted.intercept_]), expected, 1e-6)


def noisy_line(n_samples: int = 400, seed: int = 0) -> tuple[Any, Any]:
    """Rows of `linear_data` and a target on a line, with errors; some lie outside (-4, 4)."""
    X = linear_data(n_samples, seed=seed)[0]
    errors = np.random.default_rng(seed + 1).normal(size=n_samples)
    return X, 2.0 + 3.0 * X[:, 0] - 2.0 * X[:, 1] + errors


def same_as_ridge(fitted: BaseEstimator, X: Any, y: Any) -> None:
    """Without noise: scikit-learn's Ridge, targets outside their bounds included."""
    half_range = 4.0
    plain = Ridge(fitted.noise_variance_ / half_range**2, solver="cholesky").fit(X, y)
    np.testing.assert_allclose(fitted.coef_, plain.coef_, rtol=1e-9)
    np.testing.assert_allclose(fitted.intercept_, plain.intercept_, rtol=1e-9)
    residual = np.mean((y - plain.predict(X)) ** 2)
    assert 0.95 < fitted.noise_variance_ / residual < 1.05
    draws = fitted.sample_posterior(4000, random_state=0)
    precision = (X - X.mean(axis=0)).T @ (X - X.mean(axis=0)) / residual + np.eye(3) / half_range**2
    expected = np.sqrt(np.diag(np.linalg.inv(precision)))
    np.testing.assert_allclose(draws["coef"].std(axis=0), expected, rtol=0.06)


def chain_around_the_ridge(fitted: BaseEstimator, X: Any, y: Any) -> None:
    """Draws have mean and covariance of the closed form, given the variance of the errors."""
    rows = np.column_stack([X, np.ones(len(X))])
    half_range = 4.0
    precision = rows.T @ rows / fitted.noise_variance_ + np.eye(4) / half_range**2
    covariance = np.linalg.inv(precision)
    mean = covariance @ (rows.T @ y) / fitted.noise_variance_
    assert 0.98 < fitted.noise_variance_ / np.mean((y - rows @ mean) ** 2) < 1.02
    deviations = np.sqrt(np.diag(covariance))
    found = np.append(fitted.coef_, fitted.intercept_)
    assert np.all(np.abs(found - mean) < 0.3 * deviations)
    draws = fitted.sample_posterior()
    thetas = np.column_stack([draws["coef"], draws["intercept"]]) - mean
    assert 0.6 < np.einsum("ij,jk,ik->i", thetas, precision, thetas).mean() / 4 < 1.6
    low, high = fitted.interval(0.9)["coef"].T
    np.testing.assert_allclose(high - low, 3.29 * deviations[:3], rtol=0.02)
    assert fitted.temperature_ == 1.0


def event_rows(n_samples: int = 120, seed: int = 0) -> tuple[Any, Any]:
    """Integer codes of a hidden chain of two states, a row a step; the labels are not used."""
    rng = np.random.default_rng(seed)
    state = np.cumsum(rng.random(n_samples) < 0.1) % 2
    first = np.where(rng.random(n_samples) < 0.9, state, 2)
    second = np.where(rng.random(n_samples) < 0.8, state, 1 - state)
    return np.column_stack([first, second]), first


def states_of_exact_counts(fitted: BaseEstimator, X: Any, y: Any) -> None:
    """Without noise: the exact counts, and the smoothing recursion run in plain NumPy."""
    one_hot = np.concatenate([X[:, :1] == np.arange(3), X[:, 1:] == np.arange(2)], axis=1)
    np.testing.assert_array_equal(fitted.released_counts_, one_hot)
    draws = fitted.sample_posterior()
    total = np.zeros((len(X), 2))
    chosen = np.linspace(0, len(draws["start"]) - 1, 100).round().astype(int)
    for start, transition, emission in zip(*(draws[k][chosen] for k in draws), strict=True):
        like = np.exp(one_hot @ np.log(emission).T)
        forward, backward = [start * like[0]], [np.ones(2)]
        for row in like[1:]:
            forward.append(forward[-1] @ transition * row)
            forward[-1] /= forward[-1].sum()
        for row in like[:0:-1]:
            backward.append(transition @ (row * backward[-1]))
            backward[-1] /= backward[-1].sum()
        smooth = np.array(forward) * np.array(backward[::-1])
        total += smooth / smooth.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(X), total / 100, atol=1e-9)
    # Draws of the states and their exact smoothing under the same draws agree.
    np.testing.assert_allclose(fitted.state_proba_, total / 100, atol=0.25)
    assert abs(fitted.state_proba_ - total / 100).mean() < 0.05


DRAWS = frozenset({"coef_", "intercept_", "_coef_draws", "_intercept_draws"})
SAMPLE = frozenset({"coef_", "intercept_", "_posterior.coef", "_posterior.intercept"})

CASES: list[Case] = [
    Case(
        DPSGLDClassifier,
        frozenset(
            {
                "coef_",
                "intercept_",
                "step_size_",
                "temperature_",
                "_posterior.coef",
                "_posterior.intercept",
                "_posterior.states.coef",
                "_posterior.states.intercept",
                "_posterior.step_size",
                "_posterior.temperature",
                # released moments, states and noisy gradients; the rest follows from them
                "_posterior.inference.coordinates.center",
                "_posterior.inference.coordinates.moments.covariance",
                "_posterior.inference.coordinates.moments.mean",
                "_posterior.inference.coordinates.transform",
                "_posterior.inference.score.batch_share",
                "_posterior.inference.score.gradient",
                "_posterior.inference.score.noise_variance",
                "_posterior.inference.score.states",
                "_posterior.inference.score.weights",
            }
        ),
        parity=chain_around_the_mode,
        quick={"n_steps": 30},
    ),
    Case(
        DPSGLDNetworkClassifier,
        frozenset({"coefs_", "intercepts_", "_posterior.mean", "_posterior.states"}),
        parity=probabilities_of_a_network,
        params={"hidden_layer_sizes": (8,)},
        quick={"n_steps": 30},
    ),
    Case(
        DPSGLDRegressor,
        frozenset(
            {
                "coef_",
                "intercept_",
                "noise_variance_",
                "step_size_",
                "temperature_",
                "_posterior.coef",
                "_posterior.intercept",
                "_posterior.noise_variance",
                "_posterior.chain.coef",
                "_posterior.chain.intercept",
                "_posterior.chain.states.coef",
                "_posterior.chain.states.intercept",
                "_posterior.chain.step_size",
                "_posterior.chain.temperature",
                # released moments, scale, states and noisy gradients
                "_posterior.chain.inference.answers.scale",
                "_posterior.chain.inference.coordinates.center",
                "_posterior.chain.inference.coordinates.constant",
                "_posterior.chain.inference.coordinates.dimension",
                "_posterior.chain.inference.coordinates.moments.covariance",
                "_posterior.chain.inference.coordinates.moments.mean",
                "_posterior.chain.inference.coordinates.transform",
                "_posterior.chain.inference.score.batch_share",
                "_posterior.chain.inference.score.gradient",
                "_posterior.chain.inference.score.noise_variance",
                "_posterior.chain.inference.score.states",
                "_posterior.chain.inference.score.weights",
            }
        ),
        data=noisy_line,
        parity=chain_around_the_ridge,
        quick={"n_steps": 30},
        params={"target_bounds": (-4.0, 4.0)},
        required={"target_bounds": (-10.0, 10.0)},
    ),
    Case(
        ObjPertLogisticRegression,
        frozenset(
            {"coef_", "intercept_", "information_", "_posterior.theta", "_posterior.information"}
        ),
        parity=same_as_logistic_regression,
        others={"inference_budget": 0.05},
    ),
    Case(OPSLinearSVC, SAMPLE, parity=mode_and_draws_near_it),
    Case(OPSLogisticRegression, SAMPLE, parity=mode_and_draws_near_it),
    Case(
        LaplaceNaiveBayes,
        frozenset(
            {
                "statistics_",
                "class_count_",
                "class_log_prior_",
                "_posterior.class_count",
                "_posterior.release.statistics",
                "_posterior.scores.classes",
                "_posterior.scores.cells",
                "_posterior.scores.tokens",
                "_posterior.scores.means",
                "_posterior.scores.variances",
            }
        ),
        parity=same_as_bernoulli_nb,
        others={"distribution": "gaussian"},
        modes=(
            {"distribution": "gaussian", "bounds": (-1.0, 1.0)},
            {"distribution": "gaussian", "bounds": (-1.0, 1.0), "mechanism": "gaussian"},
            {"distribution": "categorical", "categories": 3},
            {"distribution": "multinomial", "max_total": 5},
        ),
    ),
    Case(
        PrivateBayesianRidge,
        frozenset(
            {
                "coef_",
                "intercept_",
                "noise_variance_",
                "moments_",
                "_posterior.sums",
                "_posterior.drawn.coef",
                "_posterior.drawn.intercept",
                "_posterior.drawn.noise_variance",
                "_posterior.center.coef",
                "_posterior.center.intercept",
                "_posterior.center.noise_variance",
                "_posterior.regression.moments.mean",
                "_posterior.regression.moments.target_mean",
                "_posterior.regression.moments.square",
                "_posterior.regression.moments.cross",
                "_posterior.regression.moments.target_square",
            }
        ),
        data=noisy_line,
        parity=same_as_ridge,
        params={"target_bounds": (-4.0, 4.0)},
        required={"target_bounds": (-10.0, 10.0)},
    ),
    Case(
        PrivateHMM,
        frozenset(
            {
                "released_counts_",
                "states_",
                "state_proba_",
                "_posterior.counts",
                "_posterior.state_proba",
                "_posterior.start",
                "_posterior.transition",
                "_posterior.emission",
            }
        ),
        data=event_rows,
        parity=states_of_exact_counts,
        params={"n_states": 2, "categories": (3, 2), "n_iter": 60, "burn_in": 30},
        bytes_per_record=8 * (5 + 1 + 2),  # released counts, state and its probabilities
        others={"categories": (4, 3)},
        quick={"n_iter": 10, "burn_in": 5},
        codes=True,
    ),
]
