"""A released model as a text file: JSON that is read without running anything it contains.

A pickle is a program, and whoever loads one trusts its author. Here a file holds numbers, text,
arrays as bytes, and names of classes; a name that is not in ``CLASSES`` is refused. What is written
is what a fit released and the public parameters, never the seed and never the ledger, so a file
costs no privacy beyond the claim that it carries.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import importlib
import json
import math
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.pipeline import Pipeline

import skdpbayes
from skdpbayes._validation import check_is_fitted
from skdpbayes.fitting.pipelines import privacy_of
from skdpbayes.privacy import PrivacyEvent, PrivacyGuarantee, event_from_dict

FORMAT = "skdpbayes model"
FORMAT_VERSION = 1
PACKAGES = ("skdpbayes", "numpy", "scipy", "scikit-learn", "numba", "randomgen")

# Every class that a file may name, and the module of this package that defines it. A prefix tells
# classes of one name apart.
ESTIMATORS = {
    "DPSGLDClassifier": "estimators.chain.classifier",
    "DPSGLDNetworkClassifier": "estimators.network.estimator",
    "DPSGLDRegressor": "estimators.chain.regressor",
    "LaplaceNaiveBayes": "estimators.naive_bayes.estimator",
    "OPSLinearSVC": "estimators.ops.svc",
    "OPSLogisticRegression": "estimators.ops.logistic",
    "ObjPertLogisticRegression": "estimators.objective.estimator",
    "PrivateBayesianRidge": "estimators.ridge.estimator",
    "PrivateBoundsScaler": "preprocessing.private_bounds",
    "PrivateHMM": "estimators.hmm.estimator",
}
TRANSFORMERS = {
    "BoundsScaler": "preprocessing.public",
    "PrivateBoundsScaler": "preprocessing.private_bounds",
    "PrivatePreprocessor": "preprocessing.public",
    "RowNormClipper": "preprocessing.public",
    "ScatteringTransformer": "preprocessing.scattering",
}
CLASSES = {
    "Bound": "fitting.bounds",
    "CenteredMoments": "estimators.ridge.posterior",
    "ChainPosterior": "estimators.chain.linear",
    "ClassAnswers": "estimators.chain.inference",
    "ClippedLink": "estimators.chain.linear",
    "CoefficientPrior": "estimators.chain.potential",
    "Coordinates": "estimators.chain.coordinates",
    "CountAnswers": "estimators.chain.inference",
    "CountsPlan": "estimators.hmm.plan",
    "DensityPlan": "estimators.ops.plan",
    "ErrorAnswers": "estimators.chain.inference",
    "GibbsPlan": "estimators.hmm.plan",
    "Grid": "estimators.hmm.grid",
    "HingeLoss": "models.losses",
    "LabelAnswers": "estimators.chain.inference",
    "LangevinPlan": "estimators.ops.plan",
    "LaplacePosterior": "estimators.ops.posterior",
    "Layout": "estimators.hmm.grid",
    "Learned": "preprocessing.private_bounds",
    "LinearPosterior": "estimators.linear.posterior",
    "LogisticLoss": "models.losses",
    "ModePlan": "estimators.ops.plan",
    "Moments": "estimators.chain.coordinates",
    "NaiveBayesLayout": "models.naive_bayes",
    "NetworkPosterior": "estimators.network.posterior",
    "Noise": "privacy.budget",
    "NoisyRegression": "estimators.ridge.posterior",
    "NormalMixture": "estimators.linear.normal",
    "ObjectivePlan": "estimators.objective.plan",
    "ObjectivePosterior": "estimators.objective.estimator",
    "OrdinaryRegression": "estimators.ridge.posterior",
    "Parameters": "estimators.ridge.posterior",
    "PoissonLoss": "models.losses",
    "Prior": "estimators.hmm.chain",
    "Reading": "estimators.naive_bayes.posterior",
    "RegressionPosterior": "estimators.chain.regressor",
    "Release": "estimators.naive_bayes.posterior",
    "RidgePosterior": "estimators.ridge.posterior",
    "SamplePosterior": "estimators.ops.posterior",
    "Schedule": "estimators.hmm.chain",
    "Score": "estimators.chain.run",
    "ScoreEquation": "estimators.chain.inference",
    "ScoreTables": "estimators.naive_bayes.posterior",
    "SmoothHingeLoss": "models.losses",
    "SoftmaxLoss": "models.losses",
    "SpikedMatrix": "models.exact_sums",
    "StatesPosterior": "estimators.hmm.posterior",
    "TablesPosterior": "estimators.naive_bayes.posterior",
    "TargetScale": "estimators._regressor",
    "_Category": "preprocessing.public",
    "_Number": "preprocessing.public",
    "objective.Problem": "estimators.objective.plan",
    "ops.Problem": "estimators.ops.plan",
}
# Fitted attributes that do not end in an underscore.
PRIVATE_STATE = {"_posterior", "_sklearn_output_config", "_sparse", "_constant", "_blocks"}
NEVER_WRITTEN = ("random_state", "ledger")
BYTE_KINDS = "biufUM"  # of arrays that are stored as bytes


def to_json(model: Any, path: Any = None) -> str:
    """Write a fitted model as JSON: what was released, its claim and the versions.

    Predictions, draws, intervals and the claim are the same after :func:`load_json`, to the last
    bit on a machine that computes alike. The seed, the ledger and diagnostics, which are not
    private, are not written.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator of this package, or a pipeline that ends in one and whose other steps
        are transformers of this package.
    path : str, path or None, default=None
        The file to write; None only returns the text.

    Returns
    -------
    str
        The text of the file.

    See Also
    --------
    load_json : Read the model back.
    """
    check_is_fitted(model)
    steps = model.steps if isinstance(model, Pipeline) else [(None, model)]
    final = steps[-1][1]
    if _name_of(final, ESTIMATORS) is None:
        raise TypeError(
            f"{type(final).__name__} cannot be written: a file holds an estimator of skdpbayes, "
            "or a Pipeline that ends in one; of a search, write its best_estimator_. Estimators "
            f"are {', '.join(ESTIMATORS)}."
        )
    described = [{"name": name, **_step_as_json(step, name)} for name, step in steps]
    whole = privacy_of(model)
    content: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "claim_in_words": str(whole),
        "claim": json.loads(whole.to_json()),
        "versions": versions(),
        "steps": described,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def load_json(source: Any) -> Any:
    """Read a model that ``to_json`` wrote; nothing in the file is run.

    A file says what its author wrote, and nothing proves that the claim in it is true: check where
    it came from as for any other document.

    Parameters
    ----------
    source : str or path
        A file, or the text itself, which begins with ``{``.

    Returns
    -------
    estimator or Pipeline
        Fitted, with ``random_state=None`` and ``ledger=None``.

    Examples
    --------
    >>> import numpy as np
    >>> import skdpbayes
    >>> X, y = np.linspace(-1, 1, 200)[:, None], np.arange(200) > 90
    >>> model = skdpbayes.ObjPertLogisticRegression(epsilon=2.0).fit(X, y)
    >>> loaded = skdpbayes.load_json(model.to_json())
    >>> bool((loaded.predict_proba(X) == model.predict_proba(X)).all())
    True
    >>> loaded.privacy_ == model.privacy_
    True
    """
    if isinstance(source, str) and source.lstrip().startswith("{"):
        text = source
    else:
        text = Path(source).read_text(encoding="utf-8")
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError("it lacks the mark of a model")
        if content.get("format_version") != FORMAT_VERSION:
            raise ValueError(
                f"its format is {content.get('format_version')!r}, and this version of skdpbayes "
                f"({skdpbayes.__version__}) reads {FORMAT_VERSION}"
            )
        return _model_from(content)
    except RecursionError as error:
        raise ValueError("not a model that can be loaded: it is nested too deeply") from error
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        # parts that are no JSON of ours, or that do not fit together, end in any of these
        raise ValueError(f"not a model that can be loaded: {error}") from error


def is_model_file(path: Any) -> bool:
    """Tell whether a file begins as those of ``to_json`` do."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(64).replace(b" ", b"").startswith(b'{\n"format":"skdpbayesmodel"')


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that made a release."""
    known = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            continue
    return known


def _step_as_json(step: Any, name: str | None = None) -> dict[str, Any]:
    kind = _name_of(step, ESTIMATORS) or _name_of(step, TRANSFORMERS)
    if kind is None:
        raise TypeError(
            f"the step {name!r} ({type(step).__name__}) cannot be written: only transformers of "
            f"skdpbayes ({', '.join(TRANSFORMERS)}) are known to be numbers and names alone. "
            "Write the last step by itself, and prepare rows as before where it is loaded."
        )
    state = step.__getstate__()
    parameters = step.get_params(deep=False)
    fitted = {key: value for key, value in state.items() if key not in parameters}
    claim = fitted.pop("privacy_", None)
    for key in ("_metadata_request", "diagnostics_"):
        fitted.pop(key, None)  # settings of scikit-learn; what is not released
    if getattr(fitted.get("_posterior"), "diagnostics", None) is not None:
        fitted["_posterior"] = dataclasses.replace(fitted["_posterior"], diagnostics=None)
    return {
        "class": kind,
        "claim": None if claim is None else json.loads(claim.to_json()),
        "parameters": {
            key: _encoded(value, f"{kind}({key}=...)")
            for key, value in parameters.items()
            if key not in NEVER_WRITTEN
        },
        "fitted": {key: _encoded(value, f"{kind}.{key}") for key, value in fitted.items()},
    }


def _model_from(content: dict[str, Any]) -> Any:
    PrivacyGuarantee.from_json(json.dumps(content["claim"]))  # of the whole; steps have their own
    described = content["steps"]
    steps = [(step["name"], _step_from(step, TRANSFORMERS)) for step in described[:-1]]
    name, model = described[-1]["name"], _step_from(described[-1], ESTIMATORS)
    return model if name is None and not steps else Pipeline([*steps, (name, model)])


def _step_from(described: dict[str, Any], known: Mapping[str, str]) -> Any:
    step = _class_named(described["class"], known)(**_parameters_from(described))
    for name, value in described["fitted"].items():
        if not (name.endswith("_") or name in PRIVATE_STATE) or hasattr(step, name):
            raise ValueError(f"{name!r} is no fitted attribute of {described['class']}")
        vars(step)[name] = _decoded(value)
    if described["class"] in ESTIMATORS:
        step.privacy_ = PrivacyGuarantee.from_json(json.dumps(described["claim"]))
        _check_parts_fit(step)
    return step


def _parameters_from(described: dict[str, Any]) -> dict[str, Any]:
    stored = {name: _decoded(value) for name, value in described["parameters"].items()}
    if any(name in stored for name in NEVER_WRITTEN):
        raise ValueError("it holds a seed or a ledger")
    return stored


def _check_parts_fit(model: Any) -> None:
    """Refuse a file whose arrays disagree: with the attributes, with one row, with the labels."""
    for name, value in model._posterior.attributes().items():
        stored = getattr(model, name)
        if type(stored) is not type(value) or _shapes(stored) != _shapes(value):
            raise ValueError(f"{name} does not have the shape that the posterior says")
    if hasattr(model, "classes_"):
        scores = model._posterior.decision(np.zeros((1, model.n_features_in_)))
        n_classes = len(model.classes_)
        if scores.shape != ((1,) if n_classes == 2 else (1, n_classes)):
            raise ValueError(f"its scores do not belong to {n_classes} classes")


def _shapes(value: Any) -> Any:
    """Return the shape of an array, or those of the arrays of a list."""
    return [np.shape(item) for item in value] if isinstance(value, list) else np.shape(value)


def _class_named(name: Any, known: Mapping[str, str]) -> Any:
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{name!r} is not a class that a model may hold here")
    return getattr(importlib.import_module(f"skdpbayes.{known[name]}"), name.rpartition(".")[2])


def _name_of(value: Any, known: Mapping[str, str]) -> str | None:
    """Return the name under which the class of ``value`` is written."""
    own = type(value)
    for name, module in known.items():
        if name.rpartition(".")[2] == own.__qualname__ and own.__module__ == f"skdpbayes.{module}":
            return name
    return None


def _field_names(cls: Any) -> list[str]:
    """Fields that a class is made from; others follow from them."""
    return [field.name for field in dataclasses.fields(cls) if field.init]


def _encoded(value: Any, where: str) -> Any:
    """Turn a value into JSON that ``_decoded`` turns back into an equal one of the same type."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is list:
        return [_encoded(item, where) for item in value]
    if type(value) is tuple:
        return {"tuple": [_encoded(item, where) for item in value]}
    if type(value) is dict:
        pairs = [[_encoded(key, where), _encoded(item, where)] for key, item in value.items()]
        return {"dict": pairs}
    if isinstance(value, np.generic) and value.dtype.kind in BYTE_KINDS:
        return {"scalar": _array_as_json(np.asarray(value), where)}
    if type(value) is np.ndarray:
        return {"array": _array_as_json(value, where)}
    if isinstance(value, PrivacyEvent) and type(value).__module__.startswith("skdpbayes."):
        return {"event": value.to_dict()}
    if _name_of(value, TRANSFORMERS) is not None:
        return {"step": _step_as_json(value)}
    name = _name_of(value, CLASSES)
    if name is None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise TypeError(
            f"{where} holds a {kind}, which cannot be written as JSON; pass plain numbers, text, "
            "lists, dicts or NumPy arrays."
        )
    fields = _field_names(type(value))
    described = {field: _encoded(getattr(value, field), f"{where}.{field}") for field in fields}
    return {"class": name, "fields": described}


def _decoded(value: Any) -> Any:
    """Invert `_encoded`; refuse everything that it does not write."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if set(value) == {"class", "fields"}:
        cls = _class_named(value["class"], CLASSES)
        names = _field_names(cls)
        if set(value["fields"]) != set(names):
            raise ValueError(
                f"{value['class']} has the fields {names} in this version of skdpbayes "
                f"({skdpbayes.__version__}), and others in the file"
            )
        return cls(**{name: _decoded(item) for name, item in value["fields"].items()})
    if len(value) != 1:
        raise ValueError(f"unknown content {sorted(value)}")
    ((kind, content),) = value.items()
    if kind == "float":
        if content not in ("inf", "-inf", "nan"):
            raise ValueError(f"unknown number {content!r}")
        return float(content)
    if kind == "tuple":
        return tuple(_decoded(item) for item in content)
    if kind == "dict":
        return {_decoded(key): _decoded(item) for key, item in content}
    if kind == "array":
        return _array_from(content)
    if kind == "scalar":
        return _array_from(content)[()]
    if kind == "step":
        return _step_from(content, TRANSFORMERS)
    if kind == "event":
        event = event_from_dict(content)
        if not type(event).__module__.startswith("skdpbayes."):
            raise ValueError(f"{content['kind']!r} is not an event of skdpbayes")
        return event
    raise ValueError(f"unknown content {kind!r}")


def _array_as_json(array: np.ndarray, where: str) -> dict[str, Any]:
    # The order of the axes in memory decides how matrix products round.
    order: Literal["C", "F"] = (
        "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    )
    described: dict[str, Any] = {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "order": order,
    }
    if array.dtype.kind in BYTE_KINDS:
        content = base64.b64encode(array.tobytes(order)).decode("ascii")
        return {**described, "bytes": content}
    if array.dtype.kind == "O":  # names of columns, labels
        return {**described, "items": [_encoded(item, where) for item in array.ravel(order)]}
    raise TypeError(f"{where} holds an array of {array.dtype}, which cannot be written as JSON.")


def _array_from(described: dict[str, Any]) -> np.ndarray:
    shape, order = described["shape"], described["order"]
    if not all(type(size) is int and size >= 0 for size in shape) or order not in ("C", "F"):
        raise ValueError("an array has no proper shape")
    if not isinstance(described["dtype"], str):
        raise ValueError("an array has no type")
    dtype = np.dtype(described["dtype"])
    if "items" in described:
        items = [_decoded(item) for item in described["items"]]
        if dtype.kind != "O" or len(items) != math.prod(shape):
            raise ValueError(f"an array of shape {shape} does not hold {len(items)} items")
        flat = np.empty(len(items), dtype=object)
        flat[:] = items
        return flat.reshape(shape, order=order)
    if dtype.kind not in BYTE_KINDS:
        raise ValueError(f"arrays of {dtype} are not read")
    try:
        content = base64.b64decode(described["bytes"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"the bytes of an array are damaged: {error}") from error
    if dtype.itemsize == 0 or len(content) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"an array of shape {shape} and type {dtype} has {len(content)} bytes")
    flat = np.frombuffer(content, dtype=dtype) if content else np.empty(0, dtype=dtype)
    return flat.reshape(shape, order=order).copy(order="K")  # of one's own, and writeable


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
