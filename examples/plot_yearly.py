r"""
A release every year, one account
=================================

A survey asks the same people every year, and every year a model is published. All releases are
about the same persons, so what they reveal adds up. One ledger keeps the account for the whole
time, and refuses the year that would overrun it. This example shows how fast a budget goes, and why
the counts of the years should be merged instead of fitted anew every January; :doc:`/yearly` says
what is promised. ``python examples/plot_yearly.py --full`` runs more repetitions.
"""

# %%
# The account
# -----------
# A person answers once a year. Over all years together a person is to be protected by
# :math:`\varepsilon = 1` with :math:`\delta = 10^{-5}`, and each year may take
# :math:`\varepsilon = 0.4`. The account counts persons; ``for_records(1)`` says that a person has
# no more than one record in what is fitted.
import os
import sys
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpbayes import LaplaceNaiveBayes, PrivacyLedger, PrivacyWarning
from skdpbayes.datasets import make_census
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.privacy import gdp_epsilon, gdp_mu

# Seeds make this page reproducible, which a real release must not be: it leaves random_state out.
warnings.simplefilter("ignore", PrivacyWarning)
full, quick = "--full" in sys.argv, bool(os.environ.get("SKDPBAYES_QUICK"))
n_repetitions = 100 if full else 4 if quick else 30
n_answers, yearly, delta = 2000, 0.4, 1e-7


def survey(n_years, seed):
    """Return the answers of each year."""
    census = make_census(n_years * n_answers, encoding="bins", random_state=seed)
    return np.split(census.data, n_years), np.split(census.target, n_years)


new = make_census(10_000, encoding="bins", random_state=10_000)


def model(epsilon, seed, ledger=None):
    """Counts under Gaussian noise, of which many cost less than their sum."""
    return LaplaceNaiveBayes(
        epsilon,
        delta=delta,
        mechanism="gaussian",
        distribution="categorical",
        categories=new.n_categories,
        classes=[0, 1],
        ledger=ledger,
        random_state=seed,
    )


folder = tempfile.TemporaryDirectory()
ledger = PrivacyLedger(Path(folder.name) / "panel.ledger", epsilon=1.0, delta=1e-5, unit="person")
X, y = survey(20, seed=0)
spent, released = [], []
try:
    for year in range(20):
        account = ledger.for_records(most_per_person=1)
        released.append(model(yearly, year, account).fit(X[year], y[year]))
        spent.append(ledger.spent().epsilon)
except BudgetExceededError as error:
    print(f"Year {year + 1} is refused.", str(error).replace(str(ledger.path), "panel.ledger"))
n_years = len(released)
print(ledger.spent())
folder.cleanup()

# %%
# Claims of single years sum up in a straight line. What the releases cost together grows with the
# root of their number, because the noise is Gaussian (the first year is below its claim of 0.4,
# because the account reads it at its own, larger :math:`\delta`). Admission is a little stricter
# than that: it holds even if a year is planned in view of the years before.
years = np.arange(1, n_years + 1)
fig, ax = plt.subplots(figsize=(6.8, 3.9), layout="constrained")
ax.plot(years, yearly * years, "s--", color="0.6", label="sum of the yearly claims")
ax.plot(years, spent, "o-", label="spent, composed tightly")
ax.axhline(1.0, color="black", lw=1)
ax.text(n_years + 0.9, 1.04, "budget", ha="right")
ax.axvline(n_years + 1, color="C3", ls=":", label="refused by the account")
ax.set(xlabel="year", ylabel="ε for a person", title="One account for all years")
ax.set_xticks(np.arange(1, n_years + 2))
ax.set_ylim(0, None)
_ = ax.legend(loc="upper left")

# %%
# Merge, do not refit
# -------------------
# Three ways to use the same allowance of each year:
#
# - publish a model of this year's answers only;
# - merge this year's noisy counts with those already published, which costs nothing more;
# - fit all answers so far anew. After *t* years a person has *t* records in that fit, so to take no
#   more from a person than the other two it must have *t* times their noise (group privacy).
mu = gdp_mu(yearly, delta)
shares = [gdp_epsilon(mu / t, delta) for t in years]
print(f"In year {n_years} a refit may use ε = {shares[-1]:.3f} per record.")
ways = ("this year only", "all years, merged", "all years, fitted anew")
scores = {way: np.empty((n_repetitions, n_years)) for way in ways}
for repetition in range(n_repetitions):
    X, y = survey(n_years, repetition)
    so_far = []
    for k, share in enumerate(shares):
        seed = 1000 * repetition + k
        so_far.append(model(yearly, seed).fit(X[k], y[k]))
        merged = so_far[0].merge(*so_far[1:]) if k else so_far[0]
        anew = model(share, seed).fit(np.concatenate(X[: k + 1]), np.concatenate(y[: k + 1]))
        for way, fitted in zip(ways, (so_far[-1], merged, anew), strict=True):
            scores[way][repetition, k] = fitted.score(new.data, new.target)
worth = anew.privacy_.of_persons(n_years)
print(f"To a person with {n_years} records that is ε = {worth.epsilon:.3f}.")

# %%
# Merged noise grows with the root of the years while the counts grow with the years, so the merged
# model gets better. The noise of a refit grows as fast as its counts: all years are worth about as
# much as one. Bands reach from the first to the third quartile. The made-up answers of a year are
# independent of those of other years; where people answer alike every year, merging gains less.
fig, ax = plt.subplots(figsize=(6.8, 3.9), layout="constrained")
for way, color, marker in zip(ways, ("C2", "C0", "C1"), "^os", strict=True):
    low, middle, high = np.quantile(scores[way], [0.25, 0.5, 0.75], axis=0)
    ax.plot(years, middle, color=color, marker=marker, label=way)
    ax.fill_between(years, low, high, color=color, alpha=0.15, lw=0)
    print(f"{way}: accuracy {middle[0]:.3f} in the first year, {middle[-1]:.3f} in the last")
ax.set(
    xlabel="year",
    ylabel="accuracy on new people",
    title=f"{n_answers:,} answers a year, ε = {yearly:g} a year",
    xticks=years,
)
ax.legend(loc="center right")
plt.show()
