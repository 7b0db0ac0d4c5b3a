"""Coefficients with intervals in the units of the user's own columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skdpbayes._validation import check_is_fitted, check_real

HARDLY_MEASURED = (
    "A coefficient outside its interval was hardly measured, and its interval is the prior's:\n"
    "columns that together are nearly a constant (leave one category unlisted), or much noise."
)


@dataclass(frozen=True)
class Summary:
    """A table of coefficients that prints itself.

    Attributes
    ----------
    title : str
        Estimator and claim.
    terms : list of str
        Names of the columns, the intercept last.
    outputs : list of str
        The class that each column of coefficients speaks for.
    coef : ndarray of shape (n_outputs, n_terms)
        Estimates in the units of the columns.
    interval : ndarray of shape (n_outputs, n_terms, 2) or None
        Their intervals, if the estimator offers them.
    level : float
        Of the intervals.
    cut_at : float or None
        Longer rows were scaled down to this length (``data_norm``), so that the coefficients are
        those of the model on bounded rows. None where no row can be longer.
    """

    title: str
    terms: list[str]
    outputs: list[str]
    coef: np.ndarray
    interval: np.ndarray | None
    level: float
    cut_at: float | None = None

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per coefficient."""
        rows = []
        for place, output in enumerate(self.outputs):
            for k, term in enumerate(self.terms):
                row: dict[str, Any] = {"output": output, "term": term}
                row["coef"] = float(self.coef[place, k])
                if self.interval is not None:
                    row["low"], row["high"] = (float(end) for end in self.interval[place, k])
                rows.append(row)
        return rows

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame."""
        import pandas as pd

        frame = pd.DataFrame(self.rows()).set_index(["output", "term"])
        return frame.droplevel("output") if len(self.outputs) == 1 else frame

    def __str__(self) -> str:
        width = max(len(term) for term in self.terms)
        ends = f"  [{self.level:.0%} interval]" if self.interval is not None else ""
        lines = [self.title]
        for output in self.outputs:
            lines += ["", f"{output:<{width}}  {'coef':>12}{ends}"]
            for row in self.rows():
                if row["output"] == output:
                    line = f"{row['term']:<{width}}  {row['coef']:>12.5g}"
                    if "low" in row:
                        line += f"  [{row['low']:.5g}, {row['high']:.5g}]"
                    lines.append(line)
        if self.cut_at is not None:
            lines += [
                "",
                f"Of the model on bounded rows: those longer than {self.cut_at:g} were cut. If "
                "they are many, the coefficients of the rows as they are differ, and the intervals "
                "are not for them.",
            ]
        if any(not row["low"] <= row["coef"] <= row["high"] for row in self.rows() if "low" in row):
            lines += ["", HARDLY_MEASURED]
        return "\n".join(lines)


def summary(model: Any, level: float = 0.9) -> Summary:
    """Return the coefficients of a fitted linear model per unit of the user's columns.

    The public scaling of a pipeline (:class:`~skdpbayes.BoundsScaler`,
    :func:`~skdpbayes.private_preprocessor`) is undone. It costs no privacy.

    Parameters
    ----------
    model : estimator
        A fitted private estimator with ``coef_``, or a pipeline that ends in one.
    level : float, default=0.9
        Probability that the intervals should cover.

    Returns
    -------
    Summary
        Printable; ``to_frame()`` is a pandas DataFrame.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpbayes import BoundsScaler, ObjPertLogisticRegression, summary
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 80, (20_000, 1))
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(-0.1 * (age[:, 0] - 50)))
    >>> model = make_pipeline(
    ...     BoundsScaler((20, 80), norm=1.0),
    ...     ObjPertLogisticRegression(epsilon=1.0, delta=1e-6, random_state=0),
    ... ).fit(age, y)
    >>> bool(abs(summary(model).coef[0, 0] - 0.1) < 0.02)  # per year of age
    True
    """
    level = check_real("level", level, low=0.0, high=1.0, closed="neither")
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    final = steps[-1]
    check_is_fitted(final)
    if not hasattr(final, "coef_"):
        raise TypeError(f"{type(final).__name__} has no coefficients to summarize")
    coef, intercept = np.atleast_2d(final.coef_), np.atleast_1d(final.intercept_)
    terms = _names(steps)
    draws = _deviations(final, level)
    scalers = [step for step in steps[:-1] if step is not None and not isinstance(step, str)]
    convertible = [step for step in scalers if hasattr(step, "coef_in_units")]
    if scalers and (len(scalers) > 1 or not convertible):
        raise TypeError(
            "coefficients can be given in the units of the columns if one BoundsScaler or "
            "private_preprocessor stands before the estimator; here are "
            f"{[type(step).__name__ for step in scalers]}. Call summary(pipeline[-1]) for the "
            "coefficients of the columns that the estimator saw."
        )
    if convertible:
        scaler = convertible[0]
        coef, intercept = scaler.coef_in_units(coef, intercept)
        if draws is not None:
            draws = scaler.coef_in_units(*draws)
    table = np.column_stack([coef, intercept])
    interval = None
    if draws is not None:
        both = np.concatenate([draws[0], draws[1][..., None]], axis=-1)
        tail = 0.5 * (1.0 - level)
        interval = np.moveaxis(np.quantile(both, [tail, 1.0 - tail], axis=0), 0, -1)
    classes = [str(label) for label in getattr(final, "classes_", ["target"])]
    outputs = classes if table.shape[0] > 1 else classes[-1:]
    title = f"{type(final).__name__}: {final.privacy_}"
    cut_at = _cut_at(final, convertible)
    return Summary(title, [*terms, "(intercept)"], outputs, table, interval, level, cut_at)


def _cut_at(final: Any, scalers: list[Any]) -> float | None:
    """Return the length that rows may have been cut to, by public numbers."""
    norm = getattr(final, "data_norm", None)
    if norm is None or not np.isfinite(final.privacy_.epsilon):
        return None
    promised = [step.norm for step in scalers if getattr(step, "norm", None) is not None]
    return None if promised and promised[-1] <= norm else float(norm)


def _deviations(final: Any, level: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Return draws of coefficients and intercepts from the law that intervals are made of."""
    if not hasattr(final, "interval"):
        return None
    try:
        drawn = final.sample_posterior(4000, random_state=0)
    except (AttributeError, ValueError):
        return None
    coef = np.asarray(drawn["coef"])
    coef = coef.reshape(coef.shape[0], -1, coef.shape[-1])  # a regression has no axis of classes
    return coef, np.asarray(drawn["intercept"]).reshape(coef.shape[:2])


def _names(steps: list[Any]) -> list[str]:
    final = steps[-1]
    names = getattr(final, "feature_names_in_", None)
    for step in reversed(steps[:-1]):
        if names is None and hasattr(step, "get_feature_names_out"):
            names = step.get_feature_names_out()
    if names is None:
        names = [f"x{k}" for k in range(final.n_features_in_)]
    return [str(name) for name in names]
