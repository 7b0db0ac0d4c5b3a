"""
============================
Try to break a privacy claim
============================

An audit fits an estimator on two data sets that differ in one record and tries to tell the fits
apart. Here an honest estimator and one that forgets to clip its rows make the same claim.
"""

# %%
# The data set is small and mean: ten records, one of them five times longer than the public bound
# ``data_norm`` allows. In the neighbor it points the other way.
import sys

import matplotlib.pyplot as plt

from skdpbayes import ObjPertLogisticRegression
from skdpbayes.auditing import audit, neighbors

n_trials = 1000 if "--full" in sys.argv else 150
pair = neighbors.long_row(10, 2, factor=5.0)


class Forgetful(ObjPertLogisticRegression):
    """Does not scale long rows down."""

    def _bound_rows(self, X):
        return X


# %%
# Both claim epsilon 3 at delta 0.01.
settings = {"epsilon": 3.0, "delta": 1e-2, "C": 1.0, "fit_intercept": False, "classes": [0, 1]}
fig, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
for estimator, ax in zip((ObjPertLogisticRegression, Forgetful), axes, strict=True):
    result = audit(
        estimator(**settings), pair.X, pair.y, neighbor=pair, n_trials=n_trials, random_state=0
    )
    print(estimator.__name__)
    print(result, end="\n\n")
    result.plot(ax=ax)
    ax.set_title(f"{estimator.__name__}: {result.verdict}")

# %%
# The claim rules out the shaded region. The blue lines bound the error rates of the test from
# above; if their corner lies in the shaded region, the claim is refuted. The honest estimator stays
# out of it, the forgetful one does not.
plt.show()
