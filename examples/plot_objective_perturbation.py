"""
Private logistic regression: accuracy against epsilon
=====================================================

Objective perturbation minimizes the penalized logistic loss plus a random linear term. How much
does privacy cost? The first figure draws test accuracy against epsilon, beside the same model
without noise (as in figure 2 of Wang, Fienberg and Smola, 2015). The second shows what the release
says about the coefficients: 90 % intervals that know about the noise.

With a data folder in ``SKDPBAYES_DATA`` the panels are Adult and Abalone; without, a made-up
census and two normal classes stand in.
"""

# %%
# Data: rows of norm at most 1, scaled by public bounds, never by the data.
import os
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from skdpbayes import ObjPertLogisticRegression, datasets
from skdpbayes.exceptions import PrivacyWarning

warnings.simplefilter("ignore", PrivacyWarning)
quick = "--full" not in sys.argv
epsilons = [0.1, 1.0, 5.0] if quick else [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
n_seeds = 2 if quick else 3


def two_sets():
    """Return {name: (X_train, X_test, y_train, y_test)}."""
    if os.environ.get("SKDPBAYES_DATA"):
        parts = [
            datasets.load_adult(split=split, encoding="log", return_X_y=True)
            for split in ("train", "test")
        ]
        adult = (parts[0][0], parts[1][0], parts[0][1], parts[1][1])
        abalone = datasets.load_abalone(target="old", return_X_y=True)
        return {"Adult": adult, "Abalone": train_test_split(*abalone, random_state=0)}
    census = datasets.make_census(10_000, encoding="raw", return_X_y=True, random_state=0)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    X = rng.normal(scale=0.35, size=(4000, 5)) + 0.12 * (2 * y[:, None] - 1)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return {
        "Made-up census": train_test_split(*census, random_state=0),
        "Two normals": train_test_split(X, y, random_state=0),
    }


# %%
# Every fit spends its budget anew; here the curves are about the method, not about one data owner.
# With a margin every record pulls harder at the coefficients, so that the same noise matters less;
# such a fit predicts better but gives no intervals.
METHODS = {
    "objective, zero_out": {"adjacency": "zero_out"},
    "objective, replace_one": {"adjacency": "replace_one"},
    "objective, replace_one, margin 3": {"margin": 3.0, "inference_budget": 0.0},
    "objective, replace_one, pure": {"delta": 0.0},
    "output, replace_one": {"mechanism": "output"},
}


def accuracies(split, params):
    """Mean test accuracy for every epsilon."""
    X_train, X_test, y_train, y_test = split
    return [
        np.mean(
            [
                ObjPertLogisticRegression(epsilon, random_state=seed, **params)
                .fit(X_train, y_train)
                .score(X_test, y_test)
                for seed in range(n_seeds)
            ]
        )
        for epsilon in epsilons
    ]


figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for axis, (name, split) in zip(axes, two_sets().items(), strict=True):
    for label, params in METHODS.items():
        axis.semilogx(epsilons, accuracies(split, params), marker="o", ms=4, label=label)
    plain = ObjPertLogisticRegression(np.inf).fit(split[0], split[2])
    axis.axhline(plain.score(split[1], split[3]), color="black", lw=1, label="not private")
    majority = max(np.mean(split[3] == label) for label in plain.classes_)
    axis.axhline(majority, color="gray", lw=1, ls=":", label="majority class")
    axis.set(title=name, xlabel="epsilon", ylabel="test accuracy")
axes[1].legend(fontsize=8)

# %%
# A tenth of the budget also released the Fisher information, so the intervals hold sampling error
# and privacy noise together; they widen as epsilon shrinks and keep covering the truth.
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
rng = np.random.default_rng(1)
truth = np.array([3.0, -2.0, 1.0, 0.0, 0.5])
X = rng.uniform(-1, 1, (5000, 5)) / np.sqrt(5)
y = rng.random(5000) < 1 / (1 + np.exp(-X @ truth))
for shift, epsilon in zip((-0.2, 0.0, 0.2), (0.5, 2.0, np.inf), strict=True):
    ends = ObjPertLogisticRegression(epsilon, random_state=1).fit(X, y).interval(0.9)["coef"][0]
    middle, half = ends.mean(axis=1), np.diff(ends, axis=1)[:, 0] / 2
    label = "not private" if np.isinf(epsilon) else f"epsilon = {epsilon:g}"
    axes.errorbar(np.arange(5) + shift, middle, half, fmt="o", ms=4, capsize=3, label=label)
axes.plot(np.arange(5), truth, "kx", label="truth")
axes.set(title="90 % intervals, n = 5000", xlabel="coefficient", xticks=range(5))
axes.legend(fontsize=8)
plt.show()
