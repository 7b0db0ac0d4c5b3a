r"""
Probabilities you can believe
=============================

A classifier that says "90 %" should be right nine times out of ten. Privacy noise endangers this
more than it endangers accuracy: a model that takes its noisy counts for true ones finds strong
patterns in the noise, and is sure of them.

:class:`~skdpbayes.LaplaceNaiveBayes` knows how its noise was made. Its default,
``posterior="noise_aware"``, draws the true counts from their posterior and averages the predictions
over them (the *posterior predictive*). ``posterior="naive"`` is the point estimate from the same
noisy counts: both spend the same budget, only the reading differs.
``python examples/plot_calibration.py --full`` repeats everything more often.
"""

# %%
# The task
# --------
# Eight yes-or-no findings, an illness that three in ten people have, 2000 training records. The
# findings are independent given the illness, so the model itself is right, and whatever goes wrong
# is the noise's doing. Every repetition draws a new truth, new records and new noise; predictions
# for fresh records are pooled.
import os
import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import brier_score_loss, log_loss

from skdpbayes import LaplaceNaiveBayes

full, quick = "--full" in sys.argv, bool(os.environ.get("SKDPBAYES_QUICK"))
repeats = 100 if full else 12 if quick else 30
epsilons = np.array([0.05, 0.1, 0.3, 1.0, 3.0])
readings = {
    "naive: noisy counts taken for true": ("naive", "C3", "s"),
    "noise-aware posterior predictive": ("noise_aware", "C0", "o"),
}


def records(rng, probabilities, n):
    """Return findings and the illness of n people."""
    ill = (rng.random(n) < 0.3).astype(int)
    return (rng.random((n, 8)) < probabilities[ill]).astype(float), ill


def predictions(epsilon, posterior):
    """Return pooled probabilities of the illness and what was true."""
    found, truth = [], []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        probabilities = rng.random((2, 8))
        X, y = records(rng, probabilities, 2000)
        X_new, y_new = records(rng, probabilities, 1000)
        model = LaplaceNaiveBayes(
            epsilon, binarize=None, posterior=posterior, predictive_draws=200, random_state=seed
        )
        found.append(model.fit(X, y).predict_proba(X_new)[:, 1])
        truth.append(y_new)
    return np.concatenate(found), np.concatenate(truth)


results = {
    (name, epsilon): predictions(epsilon, posterior)
    for name, (posterior, *_) in readings.items()
    for epsilon in epsilons
}
plain = predictions(np.inf, "naive")

# %%
# Reliability
# -----------
# Sort the predictions into ten bins and compare what was said with what happened. On the diagonal
# the two agree. At small ε the naive reading is nearly always sure, as the histograms show, and
# often wrong: its curve is flat. The noise-aware predictive hesitates where the counts could have
# come from several truths. It averages what each of them would say, which errs on the cautious
# side: what happens is more extreme than what it said. At ε = 1 nothing is left to correct.


def reliability(probability, truth):
    """Return mean prediction and observed frequency of the bins that hold enough records."""
    bins = np.minimum((10 * probability).astype(int), 9)
    kept = [k for k in range(10) if np.sum(bins == k) >= 100]
    said = [probability[bins == k].mean() for k in kept]
    return said, [truth[bins == k].mean() for k in kept]


fig, axes = plt.subplots(
    2, 3, figsize=(10.5, 5.6), sharex=True, sharey="row", height_ratios=[3, 1], layout="constrained"
)
for column, epsilon in enumerate((0.05, 0.1, 1.0)):
    top, bottom = axes[:, column]
    top.plot([0, 1], [0, 1], color="0.75", lw=1)
    for name, (_, color, marker) in readings.items():
        probability, truth = results[name, epsilon]
        top.plot(*reliability(probability, truth), marker=marker, color=color, label=name)
        bottom.hist(
            probability,
            bins=np.linspace(0, 1, 11),
            histtype="step",
            color=color,
            density=True,
            lw=1.6,
        )
    top.plot(*reliability(*plain), ls="--", color="0.35", label="not private")
    top.set(title=f"ε = {epsilon:g}", xlim=(0, 1), ylim=(0, 1))
    bottom.set(xlabel="predicted probability")
axes[0, 0].set_ylabel("how often it happened")
axes[1, 0].set_ylabel("density")
handles, labels = axes[0, 0].get_legend_handles_labels()
_ = fig.legend(handles, labels, loc="outside upper center", ncol=3, frameon=False)

# %%
# Proper scores
# -------------
# Log loss and Brier score reward honest probabilities: both are smallest, on average, for the
# truth. Knowing the noise also helps accuracy, since tables drowned in noise then count for less.
fig, axes = plt.subplots(1, 3, figsize=(10.5, 3.8), layout="constrained")
scores = {
    "log loss (lower is better)": lambda p, t: log_loss(t, np.clip(p, 1e-9, 1 - 1e-9)),
    "Brier score (lower is better)": lambda p, t: brier_score_loss(t, p),
    "accuracy (higher is better)": lambda p, t: np.mean((p > 0.5) == t),
}
for ax, (title, score) in zip(axes, scores.items(), strict=True):
    for name, (_, color, marker) in readings.items():
        values = [score(*results[name, epsilon]) for epsilon in epsilons]
        ax.plot(epsilons, values, marker=marker, color=color, label=name)
        print(f"{title:30s} {name:36s}", " ".join(f"{value:.3f}" for value in values))
    ax.axhline(score(*plain), ls="--", color="0.35", label="not private")
    ax.set(xscale="log", xlabel="ε", title=title)
    ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    ax.set_xticks([], minor=True)
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles, labels, loc="outside upper center", ncol=3, frameon=False)
plt.show()

# %%
# The budget buys the same noisy counts in both cases. Reading them honestly is free.
