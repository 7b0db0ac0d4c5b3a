r"""
Naive Bayes that knows its noise
================================

:class:`~skdpbayes.LaplaceNaiveBayes` adds exact integer noise to its count tables once, and treats
the noise as part of the model: the true counts are latent and drawn from their posterior. This
example shows the accuracy over :math:`\varepsilon` on census data, and what taking noisy counts
for true ones does to credible intervals.
"""

# %%
# Accuracy
# --------
# With ``SKDPBAYES_DATA`` set this is the Adult census with public bins, otherwise a made-up one.

import os
import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import CategoricalNB

from skdpbayes import LaplaceNaiveBayes, datasets

QUICK = "--full" not in sys.argv
SEEDS = 1 if QUICK else 3

if os.environ.get("SKDPBAYES_DATA"):
    train = datasets.load_adult(encoding="bins")
    test = datasets.load_adult(split="test", encoding="bins")
    X, X_test, y, y_test = train.data, test.data, train.target, test.target
    sizes = train.n_categories
else:
    census = datasets.make_census(4000 if QUICK else 30_000, encoding="bins", random_state=0)
    X, X_test, y, y_test = train_test_split(census.data, census.target, random_state=0)
    sizes = census.n_categories

epsilons = np.array([0.03, 0.1, 0.3, 1.0, 3.0])
variants = {
    "Laplace, pure": {},
    "Laplace, pure, naive posterior": {"posterior": "naive"},
    "Gaussian, δ = 1e-6": {"delta": 1e-6},
}
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for name, params in variants.items():
    scores = [
        [
            LaplaceNaiveBayes(
                epsilon, distribution="categorical", categories=sizes, random_state=seed, **params
            )
            .fit(X, y)
            .score(X_test, y_test)
            for seed in range(SEEDS)
        ]
        for epsilon in epsilons
    ]
    axes.errorbar(epsilons, np.mean(scores, axis=1), np.std(scores, axis=1), marker="o", label=name)
plain = CategoricalNB(min_categories=sizes).fit(X, y).score(X_test, y_test)
axes.axhline(plain, color="k", linestyle="--", label="CategoricalNB, not private")
axes.axhline(
    max(np.mean(y_test), 1 - np.mean(y_test)), color="gray", linestyle=":", label="majority"
)
axes.set(xscale="log", xlabel="ε", ylabel="test accuracy", title="Accuracy against ε (replace_one)")
axes.legend()

# %%
# Credible intervals
# ------------------
# Coins with known probabilities: how often do 90 % intervals contain the truth? Taking noisy counts
# for true ones ignores most of the uncertainty when :math:`\varepsilon` is small.

rng = np.random.default_rng(0)
repeats = 20 if QUICK else 30
coverage = {"noise_aware": [], "naive": []}
for epsilon in epsilons:
    hits = {name: [] for name in coverage}
    for seed in range(repeats):
        labels = rng.integers(2, size=1000)
        theta = rng.random((2, 4))
        coins = (rng.random((1000, 4)) < theta[labels]).astype(float)
        for name, found in hits.items():
            model = LaplaceNaiveBayes(
                epsilon, binarize=None, posterior=name, random_state=seed, predictive_draws=1
            )
            draws = model.fit(coins, labels).sample_posterior(300, random_state=1)
            low, high = np.quantile(draws["bernoulli_prob"], [0.05, 0.95], axis=0)
            found.append(np.mean((low <= theta) & (theta <= high)))
    for name, found in hits.items():
        coverage[name].append(np.mean(found))

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for name, values in coverage.items():
    axes.plot(epsilons, values, marker="o", label=f'posterior="{name}"')
axes.axhline(0.9, color="k", linestyle="--", label="nominal")
axes.set(
    xscale="log", ylim=(0, 1), xlabel="ε", ylabel="coverage of 90 % intervals", title="Coverage"
)
axes.legend()
for name, values in coverage.items():
    print(f"{name:12s}", " ".join(f"{value:.2f}" for value in values), "at", epsilons)
plt.show()
