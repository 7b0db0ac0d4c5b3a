"""
=================================
Choose hyper-parameters privately
=================================

A private search over a grid costs little more than a few fits, because only the winner is released.
"""

# %%
# How much budget does the search leave to one fit? That depends on the number of candidates, and on
# whether all of them are fitted (composition) or a random number of random ones (repetition).
import sys

import matplotlib.pyplot as plt
import numpy as np

from skdpbayes import LaplaceNaiveBayes, datasets
from skdpbayes.model_selection import PrivateGridSearchCV, plan_search
from skdpbayes.privacy import GaussianDP, gdp_mu

quick = "--full" not in sys.argv


def gaussian(epsilon, delta):
    """A fit that is a Gaussian mechanism at this budget."""
    return (GaussianDP(gdp_mu(epsilon, delta)),)


sizes = [2, 4, 8] if quick else [2, 3, 4, 6, 10, 20, 40]
fig, ax = plt.subplots(layout="constrained")
for strategy, shape, label in (
    ("compose", 1.0, "composition of all fits"),
    ("repeat", 1.0, "geometric number of runs"),
    ("repeat", 0.0, "logarithmic number of runs"),
):
    plans = [
        plan_search(
            gaussian,
            n,
            epsilon=1.0,
            delta=1e-5,
            adjacency="replace_one",
            mean_runs=3.0 * n,
            shape=shape,
            strategy=strategy,
        )
        for n in sizes
    ]
    ax.plot(sizes, [plan.run_epsilon for plan in plans], "o-", label=label)
ax.set(
    xscale="log",
    xlabel="candidates",
    ylabel="epsilon of one fit",
    title="A search that costs (1, 1e-5) in all",
)
ax.set_ylim(bottom=0.0)
ax.set_xticks(sizes, labels=sizes)
ax.set_xticks([], minor=True)
ax.legend()

# %%
# A search is used as ``GridSearchCV``, but holds out a share of the records once instead of making
# folds. Its ``privacy_`` is the price of everything it did.
census = datasets.make_census(2_000 if quick else 20_000, encoding="bins", random_state=0)
search = PrivateGridSearchCV(
    LaplaceNaiveBayes(distribution="categorical", categories=census.n_categories),
    {"alpha": [0.1, 1.0, 10.0, 100.0], "posterior": ["noise_aware", "naive"]},
    epsilon=1.0,
    delta=0.0,
    random_state=0,
).fit(census.data, census.target)
print(search.privacy_)
print("best:", search.best_params_, f"noisy hold-out accuracy {search.best_score_:.3f}")

# %%
# What would the same budget buy without a search? The defaults are good for this table, so the
# search has nothing to gain: with few records its runs and its noisy scores cost several points,
# with ``--full`` next to nothing. It pays where the defaults are far off.
single = LaplaceNaiveBayes(
    epsilon=1.0, distribution="categorical", categories=census.n_categories, random_state=0
).fit(census.data, census.target)
fresh = datasets.make_census(5_000, encoding="bins", random_state=1)
print(f"searched {np.mean(search.predict(fresh.data) == fresh.target):.3f}")
print(f"defaults {np.mean(single.predict(fresh.data) == fresh.target):.3f}")
plt.show()
