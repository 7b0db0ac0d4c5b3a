"""One claim for a pipeline: every step is private, or learns nothing, or is refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from skdpbayes._validation import check_is_fitted, check_real
from skdpbayes.exceptions import NotPrivateError
from skdpbayes.privacy.composition.composed import compose
from skdpbayes.privacy.guarantee import PrivacyGuarantee

PREPARE = "private_preprocessor(bounds=..., categories=...) learns nothing"


def _given(parameter: str) -> Callable[[Any], str | None]:
    def check(step: Any) -> str | None:
        if isinstance(getattr(step, parameter), str) or getattr(step, parameter) is None:
            return f"it learns {parameter} from the records: pass {parameter}=..., or use {PREPARE}"
        return None

    return check


def _constant_imputer(step: Any) -> str | None:
    if step.strategy != "constant":
        return (
            f'strategy="{step.strategy}" learns a statistic: use strategy="constant" with a public '
            "fill_value, or missing=[...] of private_preprocessor"
        )
    if step.add_indicator:
        return (
            "add_indicator=True learns which columns have missing values: use "
            'MissingIndicator(features="all"), or missing=[...] of private_preprocessor'
        )
    return None


def _all_features(step: Any) -> str | None:
    if step.features != "all":
        return 'it learns which columns have missing values: use features="all"'
    return None


def _nothing(step: Any) -> str | None:
    return None


# Transformers that learn nothing, with the parameters that make it so. An output row of each
# depends on its own input row and on parameters, shapes and names only.
HARMLESS: dict[str, Callable[[Any], str | None]] = {
    "BoundsScaler": _nothing,
    "RowNormClipper": _nothing,
    "PrivatePreprocessor": _nothing,
    "ScatteringTransformer": _nothing,
    "AdditiveChi2Sampler": _nothing,
    "Binarizer": _nothing,
    "FeatureHasher": _nothing,
    "FunctionTransformer": _nothing,
    "HashingVectorizer": _nothing,
    "Normalizer": _nothing,
    "PolynomialFeatures": _nothing,
    "RBFSampler": _nothing,
    "GaussianRandomProjection": _nothing,
    "SparseRandomProjection": _nothing,
    "MissingIndicator": _all_features,
    "OneHotEncoder": _given("categories"),
    "OrdinalEncoder": _given("categories"),
    "SimpleImputer": _constant_imputer,
    "SplineTransformer": _given("knots"),
}
REMEDIES = {
    "StandardScaler": "use BoundsScaler with public bounds",
    "MinMaxScaler": "use BoundsScaler with public bounds",
    "MaxAbsScaler": "use BoundsScaler with public bounds",
    "RobustScaler": "use BoundsScaler with public bounds",
    "QuantileTransformer": "use SplineTransformer with public knots",
    "PowerTransformer": "name the column in skewed=[...] of private_preprocessor",
    "KBinsDiscretizer": 'use private_preprocessor(numeric="spline") with public bounds',
    "PCA": "use GaussianRandomProjection, or leave it out: DPSGLDClassifier whitens under its "
    "own budget",
    "TruncatedSVD": "use GaussianRandomProjection",
    "SelectKBest": "choose columns by what is publicly known about them",
    "KNNImputer": 'use SimpleImputer(strategy="constant")',
    "IterativeImputer": 'use SimpleImputer(strategy="constant")',
    "TargetEncoder": "use OneHotEncoder(categories=...)",
    "LabelEncoder": "pass the labels as they are",
    "CountVectorizer": "use HashingVectorizer, which has no vocabulary",
    "TfidfVectorizer": "use HashingVectorizer, which has no vocabulary",
    "GridSearchCV": "its scores are exact: use skdpbayes.model_selection.PrivateGridSearchCV",
    "RandomizedSearchCV": "its scores are exact: use PrivateRandomizedSearchCV",
    "CalibratedClassifierCV": "its calibrators learn from the records without noise",
    "OneVsOneClassifier": "each of its fits would publish the number of records of two classes: "
    "use OneVsRestClassifier",
    "StackingClassifier": "its inner fits on folds are not kept, so they cannot be counted",
}
# Meta-estimators that fit private estimators and nothing else, and where the fitted ones are.
SEVERAL = {
    "OneVsRestClassifier": "estimators_",
    "OutputCodeClassifier": "estimators_",
    "MultiOutputClassifier": "estimators_",
    "MultiOutputRegressor": "estimators_",
    "VotingClassifier": "estimators_",
    "VotingRegressor": "estimators_",
    "BaggingClassifier": "estimators_",
    "BaggingRegressor": "estimators_",
}


def check_private(pipeline: Any) -> None:
    """Raise an error if a step would learn from records without a claim; no data are needed.

    Parameters
    ----------
    pipeline : estimator
        A pipeline, a private estimator, or a meta-estimator around one; fitted or not.

    Raises
    ------
    NotPrivateError
        With every such step, by name, and what to use in its place.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skdpbayes import ObjPertLogisticRegression, check_private
    >>> check_private(make_pipeline(StandardScaler(), ObjPertLogisticRegression()))
    Traceback (most recent call last):
    ...
    skdpbayes.exceptions.NotPrivateError: these steps learn from the records without a claim:
    - standardscaler (StandardScaler): use BoundsScaler with public bounds
    """
    problems = [
        f"- {name} ({type(step).__name__}): {problem}"
        for name, step, problem in learning_steps(pipeline)
    ]
    if problems:
        raise NotPrivateError(
            "these steps learn from the records without a claim:\n" + "\n".join(problems)
        )


def learning_steps(pipeline: Any) -> list[tuple[str, Any, str]]:
    """Return the steps that would learn from records without a claim: name, step and remedy."""
    found = ((name, step, _problem(step)) for name, step in leaves(pipeline))
    return [(name, step, problem) for name, step, problem in found if problem is not None]


def privacy_of(*fitted: Any) -> PrivacyGuarantee:
    """Return one claim for everything that was fitted: the tight composition of all releases.

    Parameters
    ----------
    *fitted : estimators, guarantees, scores, or lists of them
        Fitted pipelines, private estimators and searches, and what else was released from the
        same records. Steps that learn nothing cost nothing; others are refused.

    Returns
    -------
    PrivacyGuarantee
        At the sum of all deltas. Budgets must have been fixed in advance, not in view of earlier
        releases; where they were not, a ledger keeps the account.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpbayes import BoundsScaler, ObjPertLogisticRegression, privacy_of
    >>> X, y = np.linspace(0, 1, 200)[:, None], np.repeat([0, 1], 100)
    >>> models = [
    ...     make_pipeline(BoundsScaler((0, 1)), ObjPertLogisticRegression(0.5, 1e-6)).fit(X, y)
    ...     for _ in range(2)
    ... ]
    >>> privacy_of(models).epsilon < 1.0
    True
    """
    claims = list(_claims(fitted))
    if not claims:
        raise NotPrivateError("nothing here has a privacy claim: no step is a private estimator")
    if len(claims) == 1:
        return claims[0]
    adjacencies = sorted({claim.adjacency for claim in claims})
    if len(adjacencies) > 1:
        raise ValueError(
            f"the claims protect against different changes ({' and '.join(adjacencies)}), so they "
            "do not add up: fit all of them with one adjacency"
        )
    if len({claim.unit for claim in claims}) > 1:
        raise ValueError(
            "some claims protect one record and others all records of a person, so they do not "
            "add up: fit all of them with units or none, or take of_persons(...) of the former"
        )
    return PrivacyGuarantee.from_event(
        compose(claim.event for claim in claims),
        delta=min(sum(claim.delta for claim in claims), 1.0),
        adjacency=claims[0].adjacency,
        mechanism=f"{len(claims)} releases together",
        seeded=any(claim.seeded for claim in claims),
        conditions=tuple(dict.fromkeys(text for claim in claims for text in claim.conditions)),
        unit=claims[0].unit,
    )


def split_budget(
    pipeline: Any, epsilon: float, delta: float = 0.0, shares: Mapping[str, float] | None = None
) -> Any:
    """Return an unfitted copy of a pipeline whose private steps share one budget.

    Each step gets its share of epsilon and of delta, so that the whole is within both by plain
    addition; :func:`privacy_of` of the fitted pipeline is usually smaller.

    Parameters
    ----------
    pipeline : estimator
        A pipeline with private steps.
    epsilon, delta : float
        The budget of the whole.
    shares : mapping from step to float, default=None
        Positive numbers by step name (``"columntransformer__scaler"`` for nested steps), divided by
        their sum; None splits evenly.

    Returns
    -------
    estimator
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, closed="high")
    delta = check_real("delta", delta, low=0.0, high=1.0, closed="low")
    result = clone(pipeline)
    steps = private_steps(result)
    if not steps:
        raise NotPrivateError("there is no private step to give a budget to")
    given = dict.fromkeys(steps, 1.0) if shares is None else dict(shares)
    if set(given) != set(steps):
        raise ValueError(f"shares must name the private steps {list(steps)}, got {list(given)}")
    total = sum(
        check_real(f"shares[{name!r}]", share, low=0.0, closed="neither")
        for name, share in given.items()
    )
    for name, step in steps.items():
        share = given[name] / total
        parameters = {"epsilon": epsilon * share}
        if "delta" in step.get_params(deep=False):
            parameters["delta"] = delta * share
        step.set_params(**parameters)
    return result


def leaves(step: Any, name: str = "", *, fitted: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield every step that does something, by its name within the whole.

    Parameters
    ----------
    step : estimator
        A pipeline, a column transformer, a meta-estimator, or a step by itself.
    name : str, default=""
        The name of ``step`` within something larger.
    fitted : bool, default=False
        Whether to go through what was fitted, which some keep apart from what they were given.
    """
    prefix = f"{name}__" if name else ""
    if step is None or isinstance(step, str):
        return
    if isinstance(step, Pipeline):
        inner = step.steps
    elif isinstance(step, FeatureUnion):
        inner = step.transformer_list
    elif isinstance(step, ColumnTransformer):
        if fitted:
            check_is_fitted(step)
        listed = step.transformers_ if fitted else step.transformers
        inner = [(part, transformer) for part, transformer, _ in listed]
        if not fitted and isinstance(step.remainder, BaseEstimator):
            inner.append(("remainder", step.remainder))
    elif type(step).__name__ in SEVERAL and fitted:
        check_is_fitted(step)
        several = np.ravel(np.asarray(getattr(step, SEVERAL[type(step).__name__]), dtype=object))
        inner = [(str(place), part) for place, part in enumerate(several)]
    elif type(step).__name__ in SEVERAL:
        if getattr(step, "bootstrap", False):
            yield name or type(step).__name__.lower(), step
        parts = getattr(step, "estimators", None)
        inner = [("estimator", step.estimator)] if parts is None else parts
    else:
        yield name or type(step).__name__.lower(), step
        return
    for part, transformer in inner:
        yield from leaves(transformer, f"{prefix}{part}", fitted=fitted)


def private_steps(model: Any, *, fitted: bool = False) -> dict[str, Any]:
    """Return the steps that have a claim, or will have one, by name; see :func:`leaves`."""
    return {name: step for name, step in leaves(model, fitted=fitted) if is_private(step)}


def is_private(step: Any) -> bool:
    """Tell whether a step has a budget of this package; classes derived from ours have."""
    ours = any(base.__module__.split(".")[0] == "skdpbayes" for base in type(step).__mro__)
    return ours and "epsilon" in inspect.signature(type(step).__init__).parameters


def _problem(step: Any) -> str | None:
    """Return what is wrong with a step, None if nothing is."""
    if is_private(step):
        return None
    name = type(step).__name__
    if name in SEVERAL:
        return (
            "bootstrap=True repeats records, and a claim protects one of each: use bootstrap=False"
        )
    if name in HARMLESS:
        return HARMLESS[name](step)
    return REMEDIES.get(name, f"it is not known to learn nothing; {PREPARE}")


def _claims(fitted: Any) -> Iterator[PrivacyGuarantee]:
    if isinstance(fitted, PrivacyGuarantee):
        yield fitted
    elif isinstance(fitted, (list, tuple)):
        for part in fitted:
            yield from _claims(part)
    elif isinstance(getattr(fitted, "privacy", None), PrivacyGuarantee):  # a score
        yield fitted.privacy
    elif not isinstance(fitted, BaseEstimator) and isinstance(
        getattr(fitted, "privacy_", None), PrivacyGuarantee
    ):  # draws or a posterior
        yield fitted.privacy_
    else:
        check_private(fitted)
        yield from _fitted_claims(fitted)


def _fitted_claims(model: Any) -> Iterator[PrivacyGuarantee]:
    """Yield the claims of a fitted whole; steps that a search chose together share one."""
    seen: list[PrivacyGuarantee] = []
    for step in private_steps(model, fitted=True).values():
        check_is_fitted(step)
        if not any(step.privacy_ is claim for claim in seen):
            seen.append(step.privacy_)
            yield step.privacy_
