r"""
Do the intervals cover?
=======================

A 90 % interval should contain the truth in nine of ten studies. An analyst who treats a private
release as if it were ordinary data forgets one of the two sources of error: the records are a
sample, *and* noise was added. This example counts how often intervals cover, for three models and
over a range of :math:`\varepsilon`:

- a proportion (:class:`~skdpbayes.conjugate.BetaBernoulli`),
- the tables of naive Bayes (:class:`~skdpbayes.LaplaceNaiveBayes`),
- the coefficients of logistic regression (:class:`~skdpbayes.ObjPertLogisticRegression`).

The last part cuts rows, and asks what the intervals are then for.

``python examples/plot_interval_coverage.py --full`` runs enough repetitions for two digits.
"""

# %%
# One proportion, forty studies
# -----------------------------
# Each study asks 500 people a yes-or-no question and releases the number of yes under
# :math:`\varepsilon = 0.1`. Both columns read the *same* releases: the naive reading believes the
# noisy count, the noise-aware one asks which true counts could have led to it.
import os
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from skdpbayes import LaplaceNaiveBayes, ObjPertLogisticRegression, PrivacyWarning
from skdpbayes.conjugate import BetaBernoulli

warnings.simplefilter("ignore", PrivacyWarning)
full, quick = "--full" in sys.argv, bool(os.environ.get("SKDPBAYES_QUICK"))
COLORS = {"naive": "C3", "noise_aware": "C0"}
LABELS = {"naive": "naive", "noise_aware": "noise-aware"}
LEVEL, N_ASKED = 0.9, 500


def proportion(epsilon, seed, posterior):
    """Return the truth and the interval of one study."""
    rng = np.random.default_rng(seed)
    truth = rng.random()
    answers = (rng.random(N_ASKED) < truth).astype(int)
    release = BetaBernoulli().posterior(answers, epsilon, posterior=posterior, random_state=seed)
    return truth, *release.interval(LEVEL)


fig, axes = plt.subplots(1, 2, figsize=(9.5, 5.4), sharey=True, layout="constrained")
for ax, posterior in zip(axes, COLORS, strict=True):
    studies = np.array([proportion(0.1, seed, posterior) for seed in range(40)])
    studies = studies[np.argsort(studies[:, 0])]
    truth, low, high = studies.T
    inside = (low <= truth) & (truth <= high)
    for mask, color, label in ((inside, "C0", "covers"), (~inside, "C3", "misses")):
        rows = np.flatnonzero(mask)
        ax.hlines(rows, low[mask], high[mask], color=color, lw=2.5, alpha=0.75, label=label)
    ax.plot(truth, np.arange(40), "k.", ms=5, label="truth")
    ax.set(
        title=f"{LABELS[posterior]}: {inside.sum()} of 40 cover", xlabel="proportion", xlim=(0, 1)
    )
axes[0].set(ylabel="study, sorted by its truth", yticks=[])
_ = axes[0].legend(loc="upper left")

# %%
# Three models over a range of ε
# ------------------------------
# For naive Bayes the parameters are eight probabilities, for logistic regression five coefficients.
# Its naive interval is the one that any statistics package would print around the private
# coefficients: their inverse Fisher information and nothing else.


def naive_bayes(epsilon, seed, posterior):
    """Return coverage of the probabilities of eight findings, 1000 records."""
    rng = np.random.default_rng(seed)
    truth, labels = rng.random((2, 4)), rng.integers(2, size=1000)
    X = (rng.random((1000, 4)) < truth[labels]).astype(float)
    model = LaplaceNaiveBayes(
        epsilon, binarize=None, posterior=posterior, random_state=seed, predictive_draws=1
    )
    draws = model.fit(X, labels).sample_posterior(300, random_state=1)["bernoulli_prob"]
    low, high = np.quantile(draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
    return np.mean((low <= truth) & (truth <= high))


def logistic(epsilon, seed, posterior):
    """Return coverage of five coefficients, 5000 records."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 2, 5)
    X = rng.uniform(-1, 1, (5000, 5)) / np.sqrt(5)
    y = (rng.random(5000) < expit(X @ truth)).astype(int)
    model = ObjPertLogisticRegression(
        epsilon, fit_intercept=False, inference_budget=0.3, random_state=seed
    ).fit(X, y)
    if posterior == "noise_aware":
        low, high = model.interval(LEVEL)["coef"][0].T
    else:
        p = model.predict_proba(X)[:, 1]
        information = (X * (p * (1 - p))[:, None]).T @ X
        half = 1.645 * np.sqrt(np.diag(np.linalg.inv(information)))
        low, high = model.coef_[0] - half, model.coef_[0] + half
    return np.mean((low <= truth) & (truth <= high))


def one_proportion(epsilon, seed, posterior):
    """Return whether the interval of one study covers."""
    truth, low, high = proportion(epsilon, seed, posterior)
    return low <= truth <= high


repeats = 400 if full else 25 if quick else 60
epsilons = np.array([0.1, 0.3, 1.0, 3.0, 10.0])
cases = {
    "a proportion, 500 records": (one_proportion, 8 * repeats),
    "naive Bayes, 1000 records": (naive_bayes, repeats),
    "logistic regression, 5000 records": (logistic, 2 * repeats),
}
fig, axes = plt.subplots(1, 3, figsize=(10.5, 4.0), sharey=True, layout="constrained")
for ax, (title, (study, n_studies)) in zip(axes, cases.items(), strict=True):
    for posterior, color in COLORS.items():
        found = np.array(
            [[study(e, seed, posterior) for seed in range(n_studies)] for e in epsilons],
            dtype=float,
        )
        means, errors = found.mean(axis=1), found.std(axis=1) / np.sqrt(n_studies)
        ax.errorbar(
            epsilons, means, 2 * errors, marker="o", capsize=2, color=color, label=LABELS[posterior]
        )
        print(f"{title:34s} {LABELS[posterior]:12s}", " ".join(f"{mean:.2f}" for mean in means))
    ax.axhline(LEVEL, color="black", ls="--", lw=1, label="what 90 % promises")
    ax.set(xscale="log", ylim=(0, 1.03), xlabel="ε", title=title)
    ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    ax.set_xticks([], minor=True)
axes[0].set_ylabel("share of intervals that cover")
axes[0].legend(loc="lower right")
plt.show()

# %%
# Where rows are cut
# ------------------
# ``data_norm`` bounds the influence of a record by scaling longer rows down. The model is then one
# of the bounded rows, in ``fit`` and in predictions alike, and its coefficients are not those of
# the rows as they are: intervals cover the former. A public scale, by bounds that hold, cuts
# nothing, and the user's own coefficients are back, at the price of more noise: rows are
# shorter beside the bound.
#
# Three normal columns; a norm of 1.5 cuts half of the rows, the public scale none.
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpbayes import BoundsScaler, DPSGLDClassifier
from skdpbayes.preprocessing import RowNormClipper

OWN = np.array([1.5, -1.0, 0.5])
SCALE = BoundsScaler((-4.0, 4.0), norm=1.0)


def people(n, seed):
    """Return rows and labels of a logistic model on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).clip(-4.0, 4.0)
    return X, rng.random(n) < expit(X @ OWN)


X, y = people(200_000, 1)
bounded = LogisticRegression(C=np.inf).fit(RowNormClipper(1.5).fit_transform(X), y).coef_[0]
shares = {"rows cut at 1.5": np.zeros((2, 3)), "public scale": np.zeros((2, 3))}
last, n_tables = {}, 60 if full else 10 if quick else 20
for seed in range(n_tables):
    X, y = people(5000, 100 + seed)
    cut = DPSGLDClassifier(1.0, data_norm=1.5, random_state=seed).fit(X, y)
    scaled = make_pipeline(SCALE, DPSGLDClassifier(1.0, random_state=seed)).fit(X, y)
    last["rows cut at 1.5"] = cut.interval(LEVEL)["coef"][0]
    low, high = scaled[-1].interval(LEVEL)["coef"][0].T
    low, high = (SCALE.fit(X).coef_in_units(end)[0] for end in (low, high))
    last["public scale"] = np.column_stack([low, high])
    for name, ends in last.items():
        for place, truth in enumerate((bounded, OWN)):
            inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
            shares[name][place] += inside / n_tables
for name, table in shares.items():
    print(f"{name:16s} of bounded rows {table[0].mean():.2f}, of the rows as they are", end=" ")
    print(f"{table[1].mean():.2f}")

fig, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
for shift, (name, ends) in zip((0.12, -0.12), last.items(), strict=True):
    ax.hlines(
        np.arange(3) + shift, *ends.T, lw=4, alpha=0.7, color=f"C{int(shift < 0)}", label=name
    )
ax.plot(bounded, np.arange(3), "kx", label="true, bounded rows")
ax.plot(OWN, np.arange(3), "ko", label="true, rows as they are")
ax.set(yticks=np.arange(3), yticklabels=["a", "b", "c"], xlabel="coefficient", ylim=(2.6, -0.6))
ax.legend(fontsize=8)
plt.show()

# %%
# The naive intervals are narrow where privacy is strong, which is exactly where they should be
# wide. As ε grows the noise fades and both readings meet. The noise-aware intervals keep their
# promise throughout; the price is that they are honest about how little a very private release
# says.
