r"""
Noise on statistics against posterior sampling
==============================================

Two ways to a private posterior of a coin's probability (Foulds, Geumlek, Welling and Chaudhuri,
UAI 2016): add Laplace noise to the number of heads, or draw once from a tempered posterior on a
truncated range (OPS). This example redraws their figures 1 and 2 and measures how efficient each
is for large ``N``: the noise on the statistics does not grow with the data, so it is forgotten,
while the temperature stays.

The count of heads is released, not heads and tails: with ``N`` public one number of sensitivity 1
is enough, so that noise on it is the better way at N = 10 already, where OPS still wins in print.
"""

# %%
# Densities
# ---------
# Figure 1: :math:`\varepsilon = 1`, true :math:`p = 0.3`, :math:`N = 20`, floor
# :math:`a_0 = 0.2`. The densities of the private methods are averages over the data's noise.

import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from skdpbayes.conjugate import BetaBernoulli

QUICK = "--full" not in sys.argv
REPEATS = 150 if QUICK else 1000

rng = np.random.default_rng(0)
n_total, n_heads = 20, 6
flips = np.repeat([1, 0], [n_heads, n_total - n_heads])
model = BetaBernoulli(min_probability=0.2)
laplace = np.concatenate(
    [
        model.posterior(flips, 1.0, posterior="naive", random_state=rng).sample(20, rng)
        for _ in range(REPEATS)
    ]
)
ops = np.concatenate(
    [
        model.posterior(flips, 1.0, mechanism="ops", random_state=rng).sample(1)
        for _ in range(REPEATS)
    ]
)
grid = np.linspace(0, 1, 301)
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.plot(grid, stats.beta(1 + n_heads, 1 + n_total - n_heads).pdf(grid), "k", label="not private")
axes.hist(laplace, 50, range=(0, 1), density=True, alpha=0.5, label="Laplace noise on the count")
axes.hist(ops, 20, range=(0, 1), density=True, alpha=0.5, label="one posterior sample")
axes.set(xlabel="probability of heads", ylabel="density", title="ε = 1, N = 20, 6 heads")
axes.legend()

# %%
# Error against the number of flips
# ---------------------------------
# Figure 2: L1 error of an estimate of :math:`p = 0.1` at :math:`\varepsilon = 0.1`, floor
# :math:`a_0 = 0.05`. "Mean" is the posterior mean, "sample" a single draw.

sizes = np.array([10, 100, 1000, 10_000] if QUICK else [10, 60, 350, 2000, 10_000, 100_000])
p, epsilon = 0.1, 0.1
model = BetaBernoulli(min_probability=0.05)


def errors(n_total):
    """Squared and absolute errors of every method on one data set."""
    flips = np.zeros(n_total, dtype=int)
    heads = rng.binomial(n_total, p)
    flips[:heads] = 1
    released = model.posterior(flips, epsilon, posterior="naive", random_state=rng)
    count = min(max(released.released_["n_ones"], 0), n_total)
    draw = model.posterior(flips, epsilon, mechanism="ops", random_state=rng).sample(1)[0]
    found = {
        "not private, mean": (1 + heads) / (2 + n_total),
        "Laplace, mean": (1 + count) / (2 + n_total),
        "Laplace, sample": released.sample(1, rng)[0],
        "one posterior sample": draw,
    }
    return {name: value - p for name, value in found.items()}


curves: dict[str, list[float]] = {}
squares: dict[str, list[float]] = {}
for n_total in sizes:
    runs = [errors(int(n_total)) for _ in range(REPEATS)]
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        curves.setdefault(name, []).append(np.abs(values).mean())
        squares.setdefault(name, []).append((values**2).mean() * n_total / (p * (1 - p)))

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for name, values in curves.items():
    axes.loglog(sizes, values, marker="o", label=name)
axes.set(xlabel="N", ylabel="mean absolute error", title="ε = 0.1, p = 0.1")
axes.legend()

# %%
# Efficiency
# ----------
# The variance times :math:`N`, over the best possible :math:`p(1-p)`: 1 for the mean and 2 for a
# sample under noise on the statistic, :math:`1 + T` for a draw at temperature :math:`T` (here
# :math:`T = 2 \log(19) / 0.1 = 58.9`).

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for name, values in squares.items():
    axes.loglog(sizes, values, marker="o", label=name)
temperature = 2 * np.log(0.95 / 0.05) / epsilon
for level in (1.0, 2.0, 1.0 + temperature):
    axes.axhline(level, color="gray", linestyle=":")
axes.set(xlabel="N", ylabel="variance / best possible", title="Relative efficiency")
figure.legend(loc="outside lower center", ncol=2)
for name, values in squares.items():
    print(f"{name:24s} {values[-1]:8.2f} at N = {sizes[-1]:,}")
print(f"1 + T = {1 + temperature:.1f}")
plt.show()
