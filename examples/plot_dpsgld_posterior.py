r"""
Posteriors from private chains
==============================

Stochastic-gradient MCMC adds noise to gradients anyway, so some privacy comes for free. This is
figure 1 of Wang, Fienberg and Smola (2015): a linear regression with two coefficients, whose
posterior is known, sampled by Langevin dynamics (SGLD) and by the Nosé-Hoover thermostat (SGNHT).
Three chains each: without privacy, with the noise of Algorithm 2 as printed at epsilon = 10, and
with the least noise that is private at epsilon = 1.

All start away from the posterior and first descend to it. SGLD is heated up by noise beyond its
own, the privacy noise as well as that of the batches. The thermostat counts all of it as friction,
and stays near the spread of the posterior, as the paper says; but with the printed noise its steps
must be so short that it is still on its way.
"""

# %%
# Data and the exact posterior
# ----------------------------
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skdpbayes import DPSGLDRegressor
from skdpbayes.papers import wang2015_langevin
from skdpbayes.sampling import chain

quick = "--full" not in sys.argv
n_records, batch_size, n_steps = 20_000, 2_000, 3_000 if quick else 8_000
rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (n_records, 2)) @ np.array([[1.0, 0.4], [0.0, 0.8]]) / 1.7
noise_level = 5.0
y = X @ [1.0, -0.5] + noise_level * rng.normal(size=n_records)
precision = X.T @ X / noise_level**2 + np.eye(2)
covariance = np.linalg.inv(precision)
mean = covariance @ X.T @ y / noise_level**2


# %%
# The chains
# ----------
# All that they need are the gradients of a record's log-likelihood and of the log-prior.
def gradient(w, records):
    rows, target = records
    return rows * ((target - rows @ w) / noise_level**2)[:, None]


def states(sampler, kind):
    """Return every state of a chain."""
    step, momentum = (3e-4, {}) if sampler == "sgld" else (0.01, {"friction": 10.0})
    functions = gradient, lambda w: -w, [-1.0, 1.0], (X, y)
    if sampler == "sgnht" and kind == "ε = 10, as printed":
        step = 2e-3  # longer ones than a fraction of 1 / noise make the thermostat unstable
    options = {"clip_norm": 0.3, "step_size": step, "batch_size": batch_size, "random_state": 1}
    options |= {"tail": 1.0, "n_kept": n_steps, "delta": 1e-6}
    if kind == "ε = 10, as printed":
        passes = n_steps * batch_size / n_records
        options |= {"epsilon": 10.0, "n_passes": passes, "sampler": sampler, **momentum}
        return wang2015_langevin(*functions, **options).draws
    epsilon = np.inf if kind == "not private" else 1.0
    dynamics = {"kind": sampler, **momentum}
    return chain(*functions, **options, epsilon=epsilon, sampler=dynamics, n_steps=n_steps).draws


# %%
# The way to the posterior, and draws from it
# -------------------------------------------
angles = np.linspace(0.0, 2.0 * np.pi, 200)
circle = np.column_stack([np.cos(angles), np.sin(angles)]) * np.sqrt(5.99)  # 95% of the mass
ellipse = mean + circle @ np.linalg.cholesky(covariance).T
colors = {"ε = 10, as printed": "C1", "ε = 1": "C3", "not private": "C0"}
figure, panels = plt.subplots(
    1, 3, figsize=(13, 4.6), sharex=True, sharey=True, layout="constrained"
)
for panel, (sampler, title) in zip(
    panels[1:], (("sgld", "SGLD"), ("sgnht", "Thermostat (SGNHT)")), strict=True
):
    for kind, color in colors.items():
        path = states(sampler, kind)
        if sampler == "sgld":
            panels[0].plot(*path[: n_steps // 5].T, color=color, lw=0.7, label=kind)
        draws = path[n_steps // 3 :]
        spread = np.sqrt(np.trace(np.cov(draws.T)) / np.trace(covariance))
        label = f"{kind}: spread × {spread:.1f}"
        panel.plot(*draws[::5].T, ".", ms=4, alpha=0.5, color=color, label=label)
        print(f"{title}, {kind}: spread {spread:.2f} of the posterior's")
    panel.set(title=title, xlabel="first coefficient")
for panel in panels:
    panel.plot(*ellipse.T, "k-", lw=2, label="posterior (95%)")
    panel.legend(loc="lower left", fontsize=8)
panels[0].set(title="SGLD, from its start", xlabel="first coefficient")
panels[0].set_ylabel("second coefficient")

# %%
# The same by the regressor
# -------------------------
# `DPSGLDRegressor` chooses its coordinates, steps and batches by itself, learns the variance of the
# errors, and solves the mean of all noisy gradients for the coefficients.
warnings.simplefilter("ignore")
model = DPSGLDRegressor(
    1.0, 1e-6, target_bounds=(-20.0, 20.0), fit_intercept=False, random_state=0
).fit(X, y)
print("regressor at epsilon = 1:", model.coef_.round(2), "posterior mean:", mean.round(2))
low, high = model.interval(0.9)["coef"].T
print("90 % intervals:", low.round(2), high.round(2))
panels[2].errorbar(
    *model.coef_,
    xerr=[[model.coef_[0] - low[0]], [high[0] - model.coef_[0]]],
    yerr=[[model.coef_[1] - low[1]], [high[1] - model.coef_[1]]],
    color="k",
    capsize=3,
    label="regressor at ε = 1, 90 %",
)
panels[2].legend(loc="lower left", fontsize=8)
plt.show()
