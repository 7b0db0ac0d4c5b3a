"""Pictures of what an audit proved beside what was claimed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skdpbayes.plotting._matplotlib import pyplot


def trade_off(false_positive: np.ndarray, epsilons: np.ndarray, deltas: np.ndarray) -> np.ndarray:
    r"""Return the smallest false negative rate that a privacy profile allows.

    :math:`f(\alpha) = \max_\varepsilon \max\{0, 1 - \delta - e^\varepsilon \alpha,
    e^{-\varepsilon}(1 - \delta - \alpha)\}` (Dong, Roth and Su 2022, Proposition 2.13).

    Parameters
    ----------
    false_positive : ndarray
        Rates alpha.
    epsilons, deltas : ndarray
        Points of the profile.
    """
    alpha = np.asarray(false_positive)[:, None]
    steep = 1.0 - deltas - np.exp(epsilons) * alpha
    flat = np.exp(-epsilons) * (1.0 - deltas - alpha)
    return np.maximum(0.0, np.maximum(steep, flat).max(axis=1))


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    return pyplot().subplots()[1]


class PrivacyRegionDisplay:
    """Error rates of the best test between two neighbors: allowed by the claim, and found.

    A point in the shaded region contradicts the claim; the audit's confidence box must reach out
    of it unless the claim is refuted.

    Parameters
    ----------
    result : AuditResult
        Outcome of :func:`skdpbayes.auditing.audit`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    """

    def __init__(self, result: Any) -> None:
        self.result = result

    @classmethod
    def from_result(cls, result: Any, *, ax: Any = None, **kwargs: Any) -> PrivacyRegionDisplay:
        """Draw the result of an audit.

        Parameters
        ----------
        result : AuditResult
            What to draw.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **kwargs
            For the line of the claim.
        """
        return cls(result).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> PrivacyRegionDisplay:
        """Draw the claimed trade-off curve and the rates that were found.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **kwargs
            For the line of the claim.
        """
        from skdpbayes.auditing.claims import Profile

        ax = _axes(ax)
        result = self.result
        profile = Profile(result.claim, min(result.n_trials, result.n_neighbor_trials))
        alpha = np.concatenate([np.geomspace(1e-5, 1e-2, 100), np.linspace(0.01, 1.0, 300)])
        curve = trade_off(alpha, profile.epsilons, profile.deltas)
        label = f"claim: epsilon = {result.claim.epsilon:.3g}"
        label += f", delta = {result.claim.delta:.3g}" if result.claim.delta else ""
        ax.fill_between(alpha, 0.0, curve, alpha=0.15, color="C3", label="ruled out by the claim")
        ax.plot(alpha, curve, **{"color": "C3", "label": label, **kwargs})
        ax.plot([0.0, 1.0], [1.0, 0.0], color="0.6", linestyle=":", label="guessing")
        self._draw_found(ax)
        ax.set(
            xlabel="false positive rate",
            ylabel="false negative rate",
            xlim=(0.0, 1.0),
            ylim=(0.0, 1.0),
            title=f"Claim {result.verdict}: epsilon >= {result.epsilon_lower:.3g} proven",
        )
        ax.set_aspect("equal")
        ax.legend(loc="upper right")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_found(self, ax: Any) -> None:
        result = self.result
        found = (
            result.false_positives / result.n_trials,
            result.false_negatives / result.n_neighbor_trials,
        )
        bounds = (result.false_positive_bound, result.false_negative_bound)
        ax.plot([found[0], bounds[0], bounds[0]], [bounds[1], bounds[1], found[1]], color="C0")
        ax.plot(
            *found,
            marker="o",
            linestyle="none",
            color="C0",
            label=f"found; lines bound it at {100 * result.confidence:.7g}%",
        )


class OneRunDisplay:
    """The p-value of every epsilon, given the guesses of one run.

    Parameters
    ----------
    result : OneRunResult
        Outcome of :func:`skdpbayes.auditing.audit_one_run`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    """

    def __init__(self, result: Any) -> None:
        self.result = result

    @classmethod
    def from_result(cls, result: Any, *, ax: Any = None, **kwargs: Any) -> OneRunDisplay:
        """Draw the result of an audit in one run.

        Parameters
        ----------
        result : OneRunResult
            What to draw.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **kwargs
            For the curve.
        """
        return cls(result).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> OneRunDisplay:
        """Draw p-values against epsilon with the claim and the level.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **kwargs
            For the curve.
        """
        from skdpbayes.auditing.bounds import one_run_p_value

        ax = _axes(ax)
        result = self.result
        finite = [result.epsilon_lower, 1.0]
        if math.isfinite(result.claim.epsilon):
            finite.append(result.claim.epsilon)
        epsilons = np.linspace(0.0, 1.6 * max(finite), 200)
        counts = (result.n_canaries, result.n_guesses, result.n_correct)
        p_values = [one_run_p_value(*counts, e, result.claim.delta) for e in epsilons]
        guesses = f"{result.n_correct} of {result.n_guesses} guesses right"
        ax.plot(epsilons, p_values, **{"color": "C0", "label": guesses, **kwargs})
        ax.axhline(1.0 - result.confidence, color="0.6", linestyle=":", label="level")
        ax.axvline(result.claim.epsilon, color="C3", label=f"claim {result.claim.epsilon:.3g}")
        ax.set(
            xlabel="epsilon",
            ylabel="p-value",
            yscale="log",
            ylim=(1e-12, 2.0),
            title=f"Claim {result.verdict}: epsilon >= {result.epsilon_lower:.3g} proven",
        )
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self
