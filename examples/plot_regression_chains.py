r"""
Private chains around an exact posterior
========================================

Figure 1 of Wang, Fienberg and Smola (2015) shows stochastic-gradient chains on a random linear
regression with two coefficients, with and without privacy, around the posterior, which is known
exactly. This example draws it again with :class:`~skdpbayes.DPSGLDRegressor` at
:math:`\varepsilon = 10`: stochastic-gradient Langevin dynamics (SGLD) and the Nosé-Hoover
thermostat (SGNHT), which counts the private noise as its own.
"""

# %%
# A random regression
# -------------------
# Two columns, 2,000 records, errors of deviation 1. The prior is normal; given the variance of the
# errors the posterior is normal, too.

import matplotlib.pyplot as plt
import numpy as np

from skdpbayes import DPSGLDRegressor

rng = np.random.default_rng(0)
n = 2_000
X = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
X *= np.minimum(1.0, 4.0 / np.linalg.norm(X, axis=1))[:, None]
truth = np.array([0.5, -0.8])
y = X @ truth + rng.normal(size=n)

public = {"data_norm": 4.0, "target_bounds": (-5.0, 5.0), "fit_intercept": False}
half_range, prior_deviation = 5.0, 5.0 / 4.0

precision = X.T @ X + np.eye(2) / prior_deviation**2
covariance = np.linalg.inv(precision)
center = covariance @ (X.T @ y)

# %%
# Four chains
# -----------
# A chain without privacy starts at the mode and stays at the posterior. The steps of a private one
# are paid for, all of them: its states spread by the noise that privacy needs. SGLD moves as far as
# its noise pushes it; the thermostat raises its friction until the noise is balanced, and takes
# small steps.

kept = {"n_kept": 400, "tail": 0.8}
chains = {
    "SGLD": DPSGLDRegressor(np.inf, sampler="sgld", n_steps=2_000, **kept, **public),
    "SGNHT": DPSGLDRegressor(np.inf, sampler="sgnht", n_steps=2_000, **kept, **public),
    "private SGLD, ε = 10": DPSGLDRegressor(10.0, sampler="sgld", n_steps=500, **kept, **public),
    "private SGNHT, ε = 10": DPSGLDRegressor(10.0, sampler="sgnht", n_steps=500, **kept, **public),
}
angle = np.linspace(0.0, 2.0 * np.pi, 200)
root = np.linalg.cholesky(covariance)
figure, axes = plt.subplots(2, 2, figsize=(8.5, 8), sharex=True, sharey=True, layout="constrained")
for seed, (axis, (name, model)) in enumerate(zip(axes.flat, chains.items(), strict=True)):
    fitted = model.set_params(random_state=seed).fit(X, y)
    states = fitted.sample_posterior(posterior="chain")["coef"]
    axis.plot(*states.T, ".-", color="C0", markersize=3, linewidth=0.2, alpha=0.6, label="chain")
    for level in (0.5, 0.9, 0.99):
        circle = np.sqrt(-2.0 * np.log(1.0 - level)) * np.stack([np.cos(angle), np.sin(angle)])
        axis.plot(*(center[:, None] + root @ circle), color="k", linewidth=1)
    axis.plot(*fitted.coef_, "P", color="C3", markersize=9, label="coef_")
    axis.plot(*truth, "*", color="C2", markersize=12, label="truth")
    axis.set_title(name)
axes[0, 0].plot([], [], color="k", label="exact posterior: 50, 90, 99 %")
axes[0, 0].legend(fontsize=8)
figure.supxlabel("first coefficient")
figure.supylabel("second coefficient")
plt.show()

# %%
# What the private chains say
# ---------------------------
# The states of a private chain are not a posterior of the coefficients. But they are where the
# gradient was asked for, and the mean of all noisy answers tells the coefficients nearly as well as
# the data do, with an uncertainty that is known: ``interval`` and, by default,
# ``sample_posterior`` of a private fit.

figure, axis = plt.subplots(figsize=(6, 5), layout="constrained")
for color, epsilon in (("C1", 1.0), ("C0", 10.0)):
    model = DPSGLDRegressor(epsilon, random_state=int(epsilon), **public).fit(X, y)
    draws = model.sample_posterior(2_000, random_state=0)["coef"]
    axis.plot(*draws.T, ".", color=color, markersize=2, alpha=0.4, label=f"draws, ε = {epsilon:g}")
    print(f"ε = {epsilon:g}: 90 % intervals {np.round(model.interval(0.9)['coef'], 3).tolist()}")
for level in (0.5, 0.9, 0.99):
    circle = np.sqrt(-2.0 * np.log(1.0 - level)) * np.stack([np.cos(angle), np.sin(angle)])
    axis.plot(*(center[:, None] + root @ circle), color="k", linewidth=1)
axis.plot([], [], color="k", label="exact posterior: 50, 90, 99 %")
axis.plot(*truth, "*", color="C2", markersize=12, label="truth")
axis.set(xlabel="first coefficient", ylabel="second coefficient")
axis.legend()
plt.show()
