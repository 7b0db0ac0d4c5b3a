r"""
Accuracy of private chains against epsilon
==========================================

Logistic regression on census rows, by four Bayesian routes: one posterior sample (OPS), the hybrid
that starts a chain at such a sample with half of the budget, the plain private chain, and the chain
in coordinates made from released moments of the rows, which is the default. This is the comparison
of figure 3 of Li et al. (2019). With ``--full``, Adult is used where the environment variable
``SKDPBAYES_DATA`` names a folder that has it; a made-up census otherwise.
"""

import os
import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from skdpbayes import DPSGLDClassifier, OPSLogisticRegression, datasets

quick = "--full" not in sys.argv
if os.environ.get("SKDPBAYES_DATA") and not quick:
    name = "Adult"
    X, y = datasets.load_adult(return_X_y=True)
    X_test, y_test = datasets.load_adult(split="test", return_X_y=True)
else:
    name = "made-up census"
    n = 3_000 if quick else 20_000
    X, y = datasets.make_census(n, encoding="raw", return_X_y=True, random_state=0)
    cut = 3 * n // 4
    X, X_test, y, y_test = X[:cut], X[cut:], y[:cut], y[cut:]


class Hybrid:
    """Half of the budget buys a posterior sample, half a chain that starts there."""

    def __init__(self, epsilon, seed):
        budget = {"epsilon": epsilon / 2, "delta": 5e-6, "adjacency": "zero_out"}
        self.first = OPSLogisticRegression(**budget, random_state=seed)
        self.chain = DPSGLDClassifier(**budget, preconditioner=None, random_state=seed + 1000)

    def fit(self, X, y):
        return self.chain.set_params(start=self.first.fit(X, y)).fit(X, y)


# %%
# Four routes
# -----------
routes = {
    "one posterior sample": lambda e, s: OPSLogisticRegression(
        e, adjacency="zero_out", random_state=s
    ),
    "hybrid": Hybrid,
    "chain": lambda e, s: DPSGLDClassifier(
        e, adjacency="zero_out", preconditioner=None, random_state=s
    ),
    "chain, released coordinates": lambda e, s: DPSGLDClassifier(
        e, adjacency="zero_out", random_state=s
    ),
}
epsilons = (0.2, 2.0) if quick else (0.05, 0.2, 1.0, 5.0)
n_seeds = 1 if quick else 2
scores = {
    route: [
        np.mean([make(e, s).fit(X, y).score(X_test, y_test) for s in range(n_seeds)])
        for e in epsilons
    ]
    for route, make in routes.items()
}
plain = LogisticRegression(C=100.0, max_iter=300).fit(X, y).score(X_test, y_test)

# %%
# The picture
# -----------
figure, axes = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
for route, values in scores.items():
    axes.plot(epsilons, values, "o-", label=route)
    print(f"{route:28s}", " ".join(f"{value:.4f}" for value in values))
axes.axhline(plain, ls="--", color="k", lw=1, label="not private")
axes.axhline(
    max(np.mean(y_test), 1 - np.mean(y_test)), ls=":", color="k", lw=1, label="majority class"
)
axes.set(xscale="log", xlabel="ε (δ = 1e-5, zero_out)", ylabel="test accuracy", title=name)
axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
axes.minorticks_off()
figure.legend(loc="outside right upper", fontsize=8)
plt.show()
