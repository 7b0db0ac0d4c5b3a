"""What privacy costs: a score against epsilon."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import train_test_split

from skdpbayes._validation import check_integer
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.plotting._matplotlib import pyplot

_LABELS = {"accuracy": "accuracy", "neg_log_loss": "log loss"}


class PrivacyUtilityDisplay:
    """A test score against epsilon, with a band over seeds and the non-private line.

    It is a study of the trade-off, on data that may be looked at: it fits the estimator
    ``len(epsilons) * n_repeats`` times, and its curve is not private. With a ledger on the
    estimator every one of these fits is charged.

    Parameters
    ----------
    epsilons : ndarray of shape (n_epsilons,)
        Where the estimator was fitted.
    scores : ndarray of shape (n_epsilons, n_repeats)
        Test scores.
    reference : float or None, default=None
        Score without privacy.
    score_name : str, default="accuracy"
        Label of the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.plotting import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay(
    ...     epsilons=np.array([0.1, 1.0]), scores=np.array([[0.6, 0.7], [0.8, 0.82]]))
    """

    def __init__(
        self,
        *,
        epsilons: np.ndarray,
        scores: np.ndarray,
        reference: float | None = None,
        score_name: str = "accuracy",
    ) -> None:
        self.epsilons = epsilons
        self.scores = scores
        self.reference = reference
        self.score_name = score_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        epsilons: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0),
        scoring: str = "accuracy",
        n_repeats: int = 5,
        test_size: float = 0.25,
        test_data: tuple[Any, Any] | None = None,
        reference: bool = True,
        random_state: int | None = None,
        n_jobs: int | None = None,
        ax: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> PrivacyUtilityDisplay:
        """Fit at every epsilon with several seeds and draw the scores.

        Parameters
        ----------
        estimator : estimator
            With a parameter ``epsilon``.
        X, y : array-like
            Data that may be looked at.
        epsilons : sequence of float, default=(0.1, 0.3, 1, 3, 10)
            Where to fit.
        scoring : str, default="accuracy"
            A scikit-learn scorer; ``"neg_log_loss"`` is drawn as log loss.
        n_repeats : int, default=5
            Fits at each epsilon.
        test_size : float, default=0.25
            Share of the records that are held out.
        test_data : (X, y), default=None
            Test records to use instead.
        reference : bool, default=True
            Whether to fit once with ``epsilon=np.inf``.
        random_state : int or None, default=None
            Of the split and the fits; None fits with secure randomness.
        n_jobs : int, default=None
            Number of joblib workers.
        ax : matplotlib Axes, default=None
            Where to draw.
        name : str, default=None
            Label of the curve; the class of the estimator by default.
        **kwargs
            For the curve.

        Returns
        -------
        PrivacyUtilityDisplay
        """
        check_integer("n_repeats", n_repeats, low=1)
        if test_data is None:
            X, X_test, y, y_test = train_test_split(
                X, y, test_size=test_size, random_state=random_state
            )
            test_data = (X_test, y_test)
        seeds = [None if random_state is None else random_state + i for i in range(n_repeats)]
        points = [(epsilon, seed) for epsilon in epsilons for seed in seeds]
        if reference:
            points.append((np.inf, seeds[0]))
        found = Parallel(n_jobs=n_jobs)(
            delayed(_score)(estimator, epsilon, seed, (X, y), test_data, scoring)
            for epsilon, seed in points
        )
        sign = -1.0 if scoring == "neg_log_loss" else 1.0
        scores = sign * np.array(found)
        display = cls(
            epsilons=np.asarray(epsilons, dtype=np.float64),
            scores=scores[: len(epsilons) * n_repeats].reshape(len(epsilons), n_repeats),
            reference=float(scores[-1]) if reference else None,
            score_name=_LABELS.get(scoring, scoring),
        )
        return display.plot(ax=ax, name=name or type(estimator).__name__, **kwargs)

    def plot(
        self, ax: Any = None, *, name: str | None = None, **kwargs: Any
    ) -> PrivacyUtilityDisplay:
        """Draw the mean over seeds, a band from the worst to the best, and the reference.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        name : str, default=None
            Label of the curve.
        **kwargs
            For the curve.
        """
        if ax is None:
            ax = pyplot().subplots()[1]
        mean = self.scores.mean(axis=1)
        (line,) = ax.plot(self.epsilons, mean, **{"marker": "o", "label": name, **kwargs})
        low, high = self.scores.min(axis=1), self.scores.max(axis=1)
        ax.fill_between(self.epsilons, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
        if self.reference is not None:
            ax.axhline(
                self.reference,
                color=line.get_color(),
                linestyle="--",
                label="not private" if name is None else f"{name}, not private",
            )
        ax.set(xscale="log", xlabel="epsilon", ylabel=self.score_name)
        ax.legend()
        self.ax_, self.figure_, self.line_ = ax, ax.figure, line
        return self


def _score(
    estimator: Any, epsilon: float, seed: int | None, train: Any, test: Any, scoring: str
) -> float:
    model = clone(estimator)
    names = [n for n in model.get_params(deep=True) if n.rsplit("__", 1)[-1] == "epsilon"]
    seeds = [n for n in model.get_params(deep=True) if n.rsplit("__", 1)[-1] == "random_state"]
    if len(names) != 1:
        raise TypeError(f"estimator must have one parameter named epsilon; got {estimator!r}.")
    model.set_params(**{names[0]: epsilon}, **dict.fromkeys(seeds, seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model.fit(*train)
    return float(get_scorer(scoring)(model, *test))
