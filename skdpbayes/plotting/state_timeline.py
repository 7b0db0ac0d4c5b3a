"""The states of every sequence over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skdpbayes.plotting._matplotlib import pyplot, state_colors


class StateTimelineDisplay:
    """States of sequences over times, a row for each sequence and a color for each state.

    Parameters
    ----------
    states : int array of shape (n_sequences, n_times)
        The state of each cell.
    state_proba : float array of shape (n_sequences, n_times, n_states)
        Probability of each state; a cell is the paler the less certain its state is.
    sequence_names : sequence of str, default=None
        Names of the rows.
    time_names : sequence of str, default=None
        Names of the columns; a few of them are written.

    Attributes
    ----------
    ax_, figure_, image_
        Matplotlib's objects, after `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.plotting import StateTimelineDisplay
    >>> proba = np.eye(2)[[[0, 0, 1], [1, 1, 0]]]
    >>> display = StateTimelineDisplay(states=proba.argmax(axis=2), state_proba=proba)
    """

    def __init__(
        self,
        *,
        states: np.ndarray,
        state_proba: np.ndarray,
        sequence_names: Sequence[Any] | None = None,
        time_names: Sequence[Any] | None = None,
    ) -> None:
        self.states = states
        self.state_proba = state_proba
        self.sequence_names = sequence_names
        self.time_names = time_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        sequence_names: Sequence[Any] | None = None,
        time_names: Sequence[Any] | None = None,
        state_names: Sequence[str] | None = None,
        ax: Any = None,
    ) -> StateTimelineDisplay:
        """Draw the states of a fitted `~skdpbayes.PrivateHMM`.

        Parameters
        ----------
        estimator : PrivateHMM
            Fitted.
        sequence_names, time_names : sequence of str, default=None
            Names of the rows and columns; default: the labels of the sequences, and numbers.
        state_names : sequence of str, default=None
            Names of the states in the legend.
        ax : matplotlib axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        StateTimelineDisplay
        """
        states, proba = np.asarray(estimator.states_), np.asarray(estimator.state_proba_)
        if states.ndim == 1:  # rows as steps: one chain under the other, as long as the longest
            states, proba = _stack_chains(states, proba, np.asarray(estimator.lengths_))
        if sequence_names is None and estimator.sequence_labels_ is not None:
            sequence_names = list(estimator.sequence_labels_)
        display = cls(
            states=states, state_proba=proba, sequence_names=sequence_names, time_names=time_names
        )
        return display.plot(ax=ax, state_names=state_names)

    def plot(self, *, ax: Any = None, state_names: Sequence[str] | None = None) -> Any:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a figure.
        state_names : sequence of str, default=None
            Names of the states in the legend.

        Returns
        -------
        StateTimelineDisplay
            With ``ax_``, ``figure_`` and ``image_``.
        """
        from matplotlib.colors import to_rgb
        from matplotlib.patches import Patch

        n_sequences, n_times = self.states.shape
        n_states = self.state_proba.shape[2]
        colors = state_colors(n_states)
        if ax is None:
            size = (min(3.0 + 0.16 * n_times, 12.0), min(1.2 + 0.2 * n_sequences, 10.0))
            _, ax = pyplot().subplots(figsize=size, layout="constrained")
        certainty = np.take_along_axis(self.state_proba, np.maximum(self.states, 0)[..., None], 2)
        # Certainty runs from 1 / K (a guess) to 1; a guess keeps a fifth of its color.
        strength = 0.2 + 0.8 * (certainty - 1 / n_states) / max(1 - 1 / n_states, 1e-9)
        picture = np.array([to_rgb(color) for color in colors])[np.maximum(self.states, 0)]
        picture = np.clip(1.0 + np.clip(strength, 0.2, 1.0) * (picture - 1.0), 0.0, 1.0)
        picture[self.states < 0] = 1.0
        self.image_ = ax.imshow(picture, aspect="auto", interpolation="nearest")
        _name_ticks(ax.set_yticks, self.sequence_names, n_sequences, 60)
        _name_ticks(ax.set_xticks, self.time_names, n_times, 8)
        ax.set_xlabel("time")
        names = state_names or [f"state {k}" for k in range(n_states)]
        handles = [
            Patch(color=color, label=name) for color, name in zip(colors, names, strict=True)
        ]
        ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _stack_chains(
    states: np.ndarray, proba: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lay chains under each other; cells beyond a chain's end are -1."""
    table = np.full((lengths.shape[0], lengths.max()), -1)
    weight = np.full((*table.shape, proba.shape[1]), 1.0 / proba.shape[1])
    inside = np.arange(lengths.max()) < lengths[:, None]
    table[inside], weight[inside] = states, proba
    return table, weight


def _name_ticks(set_ticks: Any, names: Sequence[Any] | None, size: int, most: int) -> None:
    """Write at most ``most`` names, evenly spaced."""
    every = max(1, -(-size // most))
    places = list(range(0, size, every))
    labels = [str(p if names is None else names[p]) for p in places]
    set_ticks(places, labels)
