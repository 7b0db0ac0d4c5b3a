"""Posterior draws for ArviZ."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdpbayes._validation import check_is_fitted


def to_arviz(estimator: Any, *, n_samples: int | None = None, random_state: Any = None) -> Any:
    """Return the posterior draws of a fitted estimator as ArviZ's InferenceData.

    The draws are those of ``sample_posterior`` and cost no privacy. They are independent, or the
    released states of a chain, so they come as a single chain; the privacy claim is kept in the
    attribute ``privacy`` of the posterior group.

    Parameters
    ----------
    estimator : estimator
        Fitted, with ``sample_posterior``.
    n_samples : int, default=None
        Number of draws; the estimator's default.
    random_state : int, Generator or None, default=None
        Of the draws.

    Returns
    -------
    arviz.InferenceData
        Or, from ArviZ 1.0 on, a DataTree with a group ``posterior``.
    """
    try:
        import arviz
    except ImportError as error:
        raise ImportError("to_arviz needs ArviZ: pip install 'skdpbayes[arviz]'") from error
    check_is_fitted(estimator)
    draws = estimator.sample_posterior(n_samples, random_state=random_state)
    posterior = {name: np.asarray(value)[None] for name, value in _arrays(draws).items()}
    data = arviz.from_dict({"posterior": posterior}) if _is_new(arviz) else _old(arviz, posterior)
    data["posterior"].attrs["privacy"] = str(estimator.privacy_)
    return data


def _is_new(arviz: Any) -> bool:
    """From version 1 on ``from_dict`` takes a dict of groups."""
    return int(str(arviz.__version__).split(".")[0]) >= 1


def _old(arviz: Any, posterior: dict[str, np.ndarray]) -> Any:
    return arviz.from_dict(posterior=posterior)


def _arrays(draws: dict[str, Any]) -> dict[str, Any]:
    """Turn lists of tables (one a field) into one entry each."""
    arrays: dict[str, Any] = {}
    for name, value in draws.items():
        if isinstance(value, (list, tuple)):
            arrays.update({f"{name}_{i}": part for i, part in enumerate(value)})
        else:
            arrays[name] = value
    return arrays
