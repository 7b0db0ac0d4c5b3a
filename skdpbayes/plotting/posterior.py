"""Coefficients with posterior intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skdpbayes._validation import check_is_fitted, check_real
from skdpbayes.plotting._matplotlib import pyplot


class PosteriorDisplay:
    """Posterior medians and intervals of coefficients, largest effects first.

    The draws come from ``sample_posterior``, so they cost no privacy.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n_coefficients)
        Posterior draws.
    names : sequence of str
        Names of the coefficients.
    level : float, default=0.9
        Probability of the intervals.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.plotting import PosteriorDisplay
    >>> display = PosteriorDisplay(draws=np.random.default_rng(0).normal(size=(50, 2)),
    ...                            names=["age", "hours"])
    """

    def __init__(self, *, draws: np.ndarray, names: Sequence[str], level: float = 0.9) -> None:
        self.draws = draws
        self.names = names
        self.level = level

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        parameter: str = "coef",
        n_samples: int | None = None,
        level: float = 0.9,
        max_features: int = 20,
        feature_names: Sequence[str] | None = None,
        random_state: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> PosteriorDisplay:
        """Draw the posterior of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``sample_posterior``.
        parameter : str, default="coef"
            Which entry of ``sample_posterior`` to draw.
        n_samples : int, default=None
            Number of draws; the estimator's default.
        level : float, default=0.9
            Probability of the intervals, in (0, 1).
        max_features : int, default=20
            At most so many coefficients, those farthest from zero.
        feature_names : sequence of str, default=None
            Names of the features; ``feature_names_in_`` by default.
        random_state : int, Generator or None, default=None
            Of the draws.
        ax : matplotlib Axes, default=None
            Where to draw.
        **kwargs
            For the intervals.

        Returns
        -------
        PosteriorDisplay
        """
        check_is_fitted(estimator)
        check_real("level", level, low=0.0, high=1.0, closed="neither")
        posterior = estimator.sample_posterior(n_samples, random_state=random_state)
        if parameter not in posterior:
            raise ValueError(
                f"parameter must be one of {', '.join(map(repr, posterior))}; got {parameter!r}."
            )
        values = np.asarray(posterior[parameter])
        flat = values.reshape(values.shape[0], -1)
        if flat.shape[0] < 2:
            raise ValueError(
                "an interval needs several draws; the estimator released one. Fit with a larger "
                "n_draws."
            )
        names = _names(estimator, values.shape[1:], feature_names)
        effect = np.abs(np.median(flat, axis=0))
        chosen = np.argsort(-effect, kind="stable")[:max_features]
        display = cls(draws=flat[:, chosen], names=[names[i] for i in chosen], level=level)
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> PosteriorDisplay:
        """Draw medians and intervals.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **kwargs
            For ``ax.errorbar``.
        """
        if ax is None:
            height = 1.5 + 0.28 * self.draws.shape[1]
            ax = pyplot().subplots(figsize=(6.0, height), layout="constrained")[1]
        tail = 0.5 * (1.0 - self.level)
        low, middle, high = np.quantile(self.draws, [tail, 0.5, 1.0 - tail], axis=0)
        rows = np.arange(middle.size)[::-1]
        style = {"fmt": "o", "capsize": 2.0, **kwargs}
        ax.errorbar(middle, rows, xerr=[middle - low, high - middle], **style)
        ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        ax.set_yticks(rows, labels=list(self.names))
        ax.set_xlabel(f"posterior median and {100 * self.level:g}% interval")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _names(
    estimator: Any, shape: tuple[int, ...], feature_names: Sequence[str] | None
) -> list[str]:
    """Name the entries of one draw; the last axis is that of the features where it fits."""
    features = feature_names
    if features is None:
        features = getattr(estimator, "feature_names_in_", None)
    if features is None or len(features) != (shape[-1] if shape else 1):
        features = [f"x{j}" for j in range(shape[-1])] if shape else [""]
    leading = list(np.ndindex(shape[:-1])) if shape else [()]
    if len(leading) == 1:
        return [str(feature) for feature in features]
    classes = getattr(estimator, "classes_", None)
    labels = [
        str(classes[index[0]])
        if classes is not None and len(index) == 1 and len(classes) == len(leading)
        else ", ".join(map(str, index))
        for index in leading
    ]
    return [f"{feature} ({label})" for label in labels for feature in features]
