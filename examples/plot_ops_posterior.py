r"""
A posterior draw against epsilon
================================

One posterior sample releases a draw of the tempered posterior. The smaller epsilon is, the hotter
the posterior and the wider the draws scatter; with a large epsilon the inverse temperature is
capped at 1 and the release is a draw of the Bayesian posterior itself. The left panel shows draws
of two coefficients from many runs, which only made-up data permit: each is a release of its own.

The right panel compares how cold the posterior may be, for one exact draw within (epsilon, 1e-5):
the tight Gaussian bound that this library uses, and the Corollary 8 of Minami et al. (2016).
"""

# %%
# Two coefficients, many releases
# -------------------------------
import sys

import matplotlib.pyplot as plt
import numpy as np

from skdpbayes import OPSLogisticRegression
from skdpbayes.privacy import gdp_mu, gradient_sensitivity, minami2016_mu, ops_inverse_temperature

quick = "--full" not in sys.argv
rng = np.random.default_rng(0)
n_records, n_runs = (1_000, 20) if quick else (4_000, 150)
X = rng.uniform(-0.7, 0.7, (n_records, 2))
y = rng.random(n_records) < 1 / (1 + np.exp(-(3 * X[:, 0] - 2 * X[:, 1])))

epsilons = (0.3, 1.0, 10.0)
draws = {
    epsilon: np.array(
        [
            OPSLogisticRegression(
                epsilon=epsilon, delta=1e-5, fit_intercept=False, random_state=run
            )
            .fit(X, y)
            .coef_[0]
            for run in range(n_runs)
        ]
    )
    for epsilon in epsilons
}
for epsilon, coefficients in draws.items():
    mean, deviation = coefficients.mean(axis=0), coefficients.std(axis=0)
    print(f"epsilon {epsilon:4g}: mean {mean.round(2)}, standard deviation {deviation.round(2)}")

# %%
# How cold may the posterior be?
# ------------------------------
budget = np.geomspace(0.05, 5, 60)
sensitivity = gradient_sensitivity("logistic", 1.0, "replace_one")
tight = [ops_inverse_temperature(gdp_mu(e, 1e-5), 1.0, sensitivity) for e in budget]
published = [
    ops_inverse_temperature(minami2016_mu(e, 1e-5), 1.0, sensitivity) for e in budget[budget <= 1]
]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for color, (epsilon, coefficients) in enumerate(draws.items()):
    left.scatter(*coefficients.T, s=10, alpha=0.6, color=f"C{color}", label=f"ε = {epsilon:g}")
left.plot(3, -2, "k*", ms=14, label="truth")
left.set(xlabel="first coefficient", ylabel="second coefficient", title="Released draws, δ = 1e-5")
left.legend()
right.loglog(budget, tight, label="tight (Gaussian DP)")
right.loglog(budget[budget <= 1], published, "--", label="Minami et al. 2016, Corollary 8")
right.set(xlabel="ε", ylabel="inverse temperature β", title="One exact draw, C = 1, rows of norm 1")
right.legend()
plt.show()
