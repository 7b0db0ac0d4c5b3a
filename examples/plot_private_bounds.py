"""
What guessing bounds wrong costs
================================

A private linear model needs bounded columns. Public bounds that are a little too wide cost
little; a hundred times too wide, and the noise of the model drowns the columns. Where nobody knows
the bounds, :class:`~skdpbayes.PrivateBoundsScaler` learns them for a part of the budget. Both
pipelines here have the same budget, (1, 1e-6): with public bounds the model has all of it, with
private ones three quarters.
"""

# %%
# Five columns of very different size
# -----------------------------------

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline

from skdpbayes import (
    BoundsScaler,
    ObjPertLogisticRegression,
    PrivateBoundsScaler,
    privacy_of,
    split_budget,
)

CENTERS = np.array([0.0, 100.0, -500.0, 20_000.0, 1.0])
SCALES = np.array([1.0, 20.0, 300.0, 5_000.0, 0.05])


def table(seed, n=20_000):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 5))
    odds = Z @ [1.5, -1.0, 1.0, 0.5, -1.0]
    return CENTERS + SCALES * Z, (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)


def guess(factor):
    """Bounds that hold 98 % of every column, wrong by a factor."""
    half = 2.33 * factor * SCALES
    return np.column_stack([CENTERS - half, CENTERS + half])


# %%
# A pipeline with two private steps
# ---------------------------------
#
# :func:`~skdpbayes.split_budget` shares one budget between the steps, and
# :func:`~skdpbayes.privacy_of` states the claim of the whole.


def public(factor):
    return make_pipeline(
        BoundsScaler(guess(factor), norm=1.0), ObjPertLogisticRegression(1.0, 1e-6)
    )


def private(ranges):
    steps = make_pipeline(PrivateBoundsScaler(range=ranges, norm=1.0), ObjPertLogisticRegression())
    shares = {"privateboundsscaler": 1, "objpertlogisticregression": 3}
    return split_budget(steps, 1.0, 1e-6, shares)


X, y = table(0)
fitted = private(None).fit(X[:10_000], y[:10_000])
print(fitted[0].bounds_.round(2))
print(privacy_of(fitted))

# %%
# Accuracy on new records
# -----------------------

factors = np.array([0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
ranges = np.array([1.0, 10.0, 100.0, 1000.0])


def accuracy(make, seeds=range(4)):
    scores = []
    for seed in seeds:
        X, y = table(seed)
        model = make().set_params(objpertlogisticregression__random_state=seed)
        scores.append(model.fit(X[:10_000], y[:10_000]).score(X[10_000:], y[10_000:]))
    return np.mean(scores)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    guessed = [accuracy(lambda f=f: public(f)) for f in factors]
    learned = [accuracy(lambda f=f: private(guess(f))) for f in ranges]
    anywhere = accuracy(lambda: private(None))

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(factors, guessed, "o-", label="BoundsScaler: public bounds")
axes.plot(ranges, learned, "s-", label="PrivateBoundsScaler: public range")
axes.axhline(anywhere, color="tab:green", ls="--", label="PrivateBoundsScaler: nothing known")
axes.set(
    xscale="log",
    xlabel="width of the bounds or the range, relative to the 98 % range of a column",
    ylabel="accuracy on new records",
    title="Both kinds of pipeline are (1, 1e-6)-private",
)
axes.legend()
plt.show()
