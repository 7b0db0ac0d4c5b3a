r"""
Linear regression with honest intervals
=======================================

:class:`~skdpbayes.PrivateBayesianRidge` releases second moments once, under noise, and knows the
noise: its intervals allow for it. This example draws the coefficients of an earnings equation over
:math:`\varepsilon`, beside what taking noisy moments for true ones would claim, and predictions
with their uncertainty.
"""

# %%
# Data and public bounds
# ----------------------
# Made-up log earnings. Bounds come from a codebook, never from the data.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from skdpbayes import BoundsScaler, PrivateBayesianRidge

rng = np.random.default_rng(0)
n = 10_000
education = rng.choice([9.0, 12.0, 14.0, 16.0, 18.0], n, p=[0.1, 0.35, 0.2, 0.25, 0.1])
experience = np.minimum(rng.gamma(4.0, 5.0, n), 45.0)
X = np.column_stack([education, experience])
y = 1.2 + 0.09 * education + 0.012 * experience + rng.normal(0.0, 0.45, n)

bounds = [(6, 20), (0, 50)]
target_bounds = (0.0, 5.0)
truth = np.array([0.09, 0.012])


def fit(epsilon, posterior="noise_aware"):
    """Fit behind a scaler that maps the bounds into the ball of radius 1."""
    seed = int(100 * epsilon)  # one seed for two budgets would give the same noise, scaled
    model = PrivateBayesianRidge(
        epsilon, 1e-6, target_bounds=target_bounds, posterior=posterior, random_state=seed
    )
    return make_pipeline(BoundsScaler(bounds, norm=1.0), model).fit(X, y)


print(fit(1.0)[-1].privacy_)

# %%
# Intervals for the coefficients
# ------------------------------
# ``coef_in_units`` of the scaler turns coefficients, or draws of them, into those of the columns.

epsilons = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 5.0])
plain = LinearRegression().fit(X, y).coef_
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for posterior, color, shift in (("noise_aware", "C0", 0.95), ("naive", "C3", 1.05)):
    for epsilon in epsilons:
        pipeline = fit(epsilon, posterior)
        draws = pipeline[-1].sample_posterior(2000, random_state=0)
        coef, _ = pipeline[0].coef_in_units(draws["coef"], draws["intercept"])
        for axis, column in zip(axes, coef.T, strict=True):
            low, middle, high = np.quantile(column, [0.05, 0.5, 0.95])
            axis.plot([shift * epsilon] * 2, [low, high], color=color, linewidth=2)
            axis.plot(shift * epsilon, middle, "o", color=color, markersize=4)
for axis, name, value, exact in zip(
    axes, ("year of education", "year of experience"), truth, plain, strict=True
):
    axis.axhline(value, color="k", linestyle="--", linewidth=1)
    axis.axhline(exact, color="0.6", linewidth=1)
    axis.set(xscale="log", xlabel="ε", title=f"log earnings per {name}")
for color, label in (("C0", "noise aware"), ("C3", "naive")):
    axes[1].plot([], [], "o-", color=color, label=label)
axes[1].plot([], [], "k--", label="truth")
axes[1].plot([], [], color="0.6", label="least squares, not private")
axes[1].legend(title="90 % intervals")
plt.show()

# %%
# Predictions
# -----------
# ``return_std`` adds up the errors of the model and what is not known of the coefficients.

grid = np.column_stack([np.linspace(6, 20, 50), np.full(50, 20.0)])
figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
near = np.abs(experience - 20.0) < 5.0
axis.plot(education[near] + rng.uniform(-0.3, 0.3, near.sum()), y[near], ".", color="0.8", ms=2)
for epsilon, color in ((0.1, "C1"), (1.0, "C0")):
    mean, deviation = fit(epsilon).predict(grid, return_std=True)
    axis.plot(grid[:, 0], mean, color=color, label=f"ε = {epsilon:g}")
    axis.fill_between(
        grid[:, 0], mean - 1.645 * deviation, mean + 1.645 * deviation, color=color, alpha=0.2
    )
axis.plot(grid[:, 0], 1.2 + 0.09 * grid[:, 0] + 0.24, "k--", label="truth")
axis.set(xlabel="years of education", ylabel="log earnings (experience 20 years)")
axis.legend()
plt.show()
