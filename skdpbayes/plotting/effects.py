"""What one column does to the prediction, with a band."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skdpbayes._validation import check_is_fitted, check_real
from skdpbayes.plotting._matplotlib import pyplot
from skdpbayes.preprocessing.public import PrivatePreprocessor


class EffectDisplay:
    """Effect of one column on the linear predictor: a curve, or one mark per category.

    In a linear model of prepared columns this is the partial dependence. It is computed from
    public values of the column and posterior draws, without any record, so it costs no privacy.
    Effects are relative to their mean over the values shown.

    Parameters
    ----------
    values : ndarray of shape (n_values,)
        Public values of the column: numbers from bound to bound, or categories.
    draws : ndarray of shape (n_draws, n_values)
        Posterior draws of the effect.
    column : str
        Name of the column.
    level : float, default=0.9
        Probability of the band, at each value.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.plotting import EffectDisplay
    >>> ages = np.linspace(18, 90, 101)
    >>> slopes = np.random.default_rng(0).normal(0.05, 0.01, (50, 1))
    >>> display = EffectDisplay(values=ages, draws=slopes * (ages - ages.mean()), column="age")
    """

    def __init__(
        self, *, values: np.ndarray, draws: np.ndarray, column: str, level: float = 0.9
    ) -> None:
        self.values = values
        self.draws = draws
        self.column = column
        self.level = level

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        column: Any,
        *,
        target: Any = None,
        level: float = 0.9,
        n_samples: int | None = 1000,
        random_state: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> EffectDisplay:
        """Draw the effect of a column of a fitted pipeline.

        Parameters
        ----------
        estimator : Pipeline
            Fitted, of :func:`skdpbayes.private_preprocessor` and a linear estimator with
            ``sample_posterior``.
        column : str or int
            An input column of the pipeline.
        target : object, default=None
            The class whose predictor is meant, where there are more than two.
        level : float, default=0.9
            Probability of the band, in (0, 1).
        n_samples : int or None, default=1000
            Number of posterior draws; None for the estimator's default.
        random_state : int, Generator or None, default=None
            Of the draws.
        ax : matplotlib Axes, default=None
            Where to draw.
        **kwargs
            For the line or the marks.

        Returns
        -------
        EffectDisplay
        """
        check_is_fitted(estimator)
        check_real("level", level, low=0.0, high=1.0, closed="neither")
        steps = estimator.steps if isinstance(estimator, Pipeline) else []
        if len(steps) != 2 or not isinstance(steps[0][1], PrivatePreprocessor):
            raise TypeError(
                "estimator must be a pipeline of private_preprocessor and a linear estimator; got "
                f"{estimator!r}."
            )
        places, values, rows = steps[0][1].block_of(column)
        final = steps[1][1]
        drawn = final.sample_posterior(n_samples, random_state=random_state)
        if "coef" not in drawn:
            raise TypeError(f"{type(final).__name__} has no coefficients.")
        coef = np.asarray(drawn["coef"])
        coef = coef.reshape(coef.shape[0], -1, coef.shape[-1])
        output = 0
        if coef.shape[1] > 1:
            classes = final.classes_.tolist()
            if target not in classes:
                raise ValueError(f"target must be one of {classes}; got {target!r}.")
            output = classes.index(target)
        draws = coef[:, output, places] @ (rows - rows.mean(axis=0)).T
        display = cls(values=values, draws=draws, column=str(column), level=level)
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> EffectDisplay:
        """Draw medians and the band.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **kwargs
            For ``ax.plot`` or, of categories, ``ax.errorbar``.
        """
        if ax is None:
            ax = pyplot().subplots(figsize=(5.0, 3.5), layout="constrained")[1]
        tail = 0.5 * (1.0 - self.level)
        low, middle, high = np.quantile(self.draws, [tail, 0.5, 1.0 - tail], axis=0)
        if self.values.dtype == object:
            marks = np.arange(len(self.values))
            style = {"fmt": "o", "capsize": 2.0, **kwargs}
            ax.errorbar(marks, middle, yerr=[middle - low, high - middle], **style)
            ax.set_xticks(marks, labels=[str(value) for value in self.values])
        else:
            (line,) = ax.plot(self.values, middle, **kwargs)
            ax.fill_between(self.values, low, high, color=line.get_color(), alpha=0.25, lw=0)
        ax.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
        ax.set_xlabel(self.column)
        ax.set_ylabel(f"effect, with {100 * self.level:g}% band")
        self.ax_, self.figure_ = ax, ax.figure
        return self
