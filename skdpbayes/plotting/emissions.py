"""What each state emits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skdpbayes.plotting._matplotlib import pyplot, state_colors


class EmissionDisplay:
    """Probabilities of the values of each field, a bar for each state, with posterior intervals.

    Parameters
    ----------
    emission : list of float arrays of shape (n_draws, n_states, n_values)
        Draws of the probabilities of each field.
    field_names : sequence of str, default=None
        Names of the fields.
    value_names : sequence of (sequence of str), default=None
        Names of the values of each field.

    Attributes
    ----------
    axes_, figure_
        Matplotlib's objects, after `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.plotting import EmissionDisplay
    >>> draws = np.full((10, 2, 4), 0.25)  # ten draws of two states' four probabilities
    >>> display = EmissionDisplay(emission=[draws], field_names=["kind"])
    """

    def __init__(
        self,
        *,
        emission: list[np.ndarray],
        field_names: Sequence[str] | None = None,
        value_names: Sequence[Sequence[Any]] | None = None,
    ) -> None:
        self.emission = emission
        self.field_names = field_names
        self.value_names = value_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        fields: Sequence[int] | None = None,
        field_names: Sequence[str] | None = None,
        value_names: Sequence[Sequence[Any]] | None = None,
        state_names: Sequence[str] | None = None,
        max_values: int = 15,
        axes: Any = None,
    ) -> EmissionDisplay:
        """Draw the emissions of a fitted `~skdpbayes.PrivateHMM`.

        Parameters
        ----------
        estimator : PrivateHMM
            Fitted.
        fields : sequence of int, default=None
            Columns to draw; None: all.
        field_names : sequence of str, default=None
            Names of all columns; default: ``feature_names_in_``, or numbers.
        value_names : sequence of (sequence of str), default=None
            Names of the values of all columns.
        state_names : sequence of str, default=None
            Names of the states in the legend.
        max_values : int, default=15
            Of a field with more values the likeliest ones are drawn.
        axes : sequence of matplotlib axes, default=None
            Where to draw, one a field; None makes a figure.

        Returns
        -------
        EmissionDisplay
        """
        draws = estimator.sample_posterior()["emission"]
        tables = np.split(draws, np.cumsum(estimator.categories_)[:-1], axis=2)
        if field_names is None:
            field_names = getattr(estimator, "feature_names_in_", None)
        if field_names is None:
            field_names = [f"field {d}" for d in range(len(tables))]
        chosen = range(len(tables)) if fields is None else fields
        display = cls(
            emission=[tables[d] for d in chosen],
            field_names=[str(field_names[d]) for d in chosen],
            value_names=None if value_names is None else [value_names[d] for d in chosen],
        )
        return display.plot(axes=axes, state_names=state_names, max_values=max_values)

    def plot(
        self,
        *,
        axes: Any = None,
        state_names: Sequence[str] | None = None,
        max_values: int = 15,
    ) -> Any:
        """Draw.

        Parameters
        ----------
        axes : sequence of matplotlib axes, default=None
            Where to draw, one a field; None makes a figure.
        state_names : sequence of str, default=None
            Names of the states in the legend.
        max_values : int, default=15
            Of a field with more values the likeliest ones are drawn.

        Returns
        -------
        EmissionDisplay
            With ``axes_`` and ``figure_``.
        """
        n_states = self.emission[0].shape[1]
        shown = [_likeliest(table, max_values) for table in self.emission]
        if axes is None:
            heights = [0.25 * max(len(values) * n_states, 6) / 2 + 0.6 for values in shown]
            _, axes = pyplot().subplots(
                len(shown),
                1,
                figsize=(7.5, min(sum(heights), 16.0)),
                height_ratios=heights,
                squeeze=False,
                layout="constrained",
            )
        axes = np.asarray(axes, dtype=object).ravel()
        names = state_names or [f"state {k}" for k in range(n_states)]
        colors = state_colors(n_states)
        width = 0.8 / n_states
        for d, (ax, table, values) in enumerate(zip(axes, self.emission, shown, strict=True)):
            low, middle, high = np.quantile(table[:, :, values], [0.05, 0.5, 0.95], axis=0)
            for k in range(n_states):
                place = np.arange(len(values)) - 0.4 + (k + 0.5) * width
                error = [middle[k] - low[k], high[k] - middle[k]]
                ax.barh(
                    place,
                    middle[k],
                    width,
                    xerr=error,
                    color=colors[k],
                    label=names[k],
                    error_kw={"lw": 0.8},
                )
            labels = range(table.shape[2]) if self.value_names is None else self.value_names[d]
            ax.set_yticks(range(len(values)), [str(labels[v]) for v in values])
            ax.invert_yaxis()
            ax.set_xlim(0.0, None)
            ax.set_title("" if self.field_names is None else self.field_names[d], loc="left")
        axes[-1].set_xlabel("probability (bar: posterior median, line: 90% interval)")
        axes[0].legend(frameon=False, loc="lower right")
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


def _likeliest(table: np.ndarray, most: int) -> np.ndarray:
    """Values to draw: all in order, or those that are likeliest in some state, in order."""
    if table.shape[2] <= most:
        return np.arange(table.shape[2])
    best = table.mean(axis=0).max(axis=0)
    return np.sort(np.argsort(best)[::-1][:most])
