r"""
Posteriors from private chains
==============================

Stochastic-gradient MCMC adds noise to gradients anyway, so some privacy comes for free. Here two
samplers draw from the posterior of a linear regression with two coefficients, whose exact form is
known: Langevin dynamics (SGLD) and the Nosé-Hoover thermostat (SGNHT), as in figure 1 of Wang,
Fienberg and Smola (2015). The private chains clip the gradient of every record and take as much
noise as epsilon = 0.4 asks for, if that is more than their own.

SGLD is heated up by noise beyond its own, the privacy noise as well as that of the batches. The
thermostat counts all of it as friction, and stays near the spread of the posterior.
"""

# %%
# Data and the exact posterior
# ----------------------------
import sys

import matplotlib.pyplot as plt
import numpy as np

from skdpbayes import samplers
from skdpbayes.privacy import subsampled_noise_multiplier
from skdpbayes.randomness import gaussian, make_generator, poisson_subset

quick = "--full" not in sys.argv
n_records, batch_size, n_steps = 20_000, 1_000, 2_000 if quick else 4_000
rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (n_records, 2)) @ np.array([[1.0, 0.4], [0.0, 0.8]]) / 1.4
noise_level = 5.0
y = X @ [1.0, -0.5] + noise_level * rng.normal(size=n_records)
precision = X.T @ X / noise_level**2 + np.eye(2)
covariance = np.linalg.inv(precision)
mean = covariance @ X.T @ y / noise_level**2

# %%
# One chain
# ---------
# The potential is the sum of squared errors over twice the noise variance, plus a normal prior.
clip_norm, rate = 0.5, batch_size / n_records


def chain(sampler, epsilon, seed):
    """Return the states of a chain; its noise serves the sampler and privacy at once."""
    generator = make_generator(seed)
    step = 2e-4 if sampler == "sgld" else 5e-3
    friction = 20.0
    own = np.sqrt(2.0 / step) if sampler == "sgld" else np.sqrt(2.0 * friction / step)
    private = 0.0
    if np.isfinite(epsilon):
        multiplier = subsampled_noise_multiplier(
            epsilon, 1e-6, sampling_rate=rate, n_steps=n_steps, adjacency="zero_out"
        )
        private = multiplier * clip_norm / rate
    scale = max(own, private)
    position, states = np.zeros(2), []
    momentum = gaussian(generator, 1.0, 2)
    state = samplers.sgnht_init(position, momentum, 0.5 * step * scale**2)
    for _ in range(n_steps):
        rows = poisson_subset(generator, n_records, rate)
        each = X[rows] * ((X[rows] @ position - y[rows]) / noise_level**2)[:, None]
        if np.isfinite(epsilon):
            norms = np.linalg.norm(each, axis=1, keepdims=True)
            each *= np.minimum(1.0, clip_norm / np.maximum(norms, 1e-12))
        gradient = each.sum(axis=0) / rate + position + gaussian(generator, scale, 2)
        if sampler == "sgld":
            position = samplers.sgld_step(position, gradient, step_size=step)
        else:
            state = samplers.sgnht_step(state, gradient, np.zeros(2), step_size=step, diffusion=0.0)
            position = state.position
        states.append(position)
    return np.array(states[n_steps // 5 :])


# %%
# Two panels
# ----------
angles = np.linspace(0.0, 2.0 * np.pi, 200)
circle = np.column_stack([np.cos(angles), np.sin(angles)]) * np.sqrt(5.99)  # 95% of the mass
ellipse = mean + circle @ np.linalg.cholesky(covariance).T

figure, panels = plt.subplots(
    1, 2, figsize=(10, 4.8), sharex=True, sharey=True, layout="constrained"
)
for panel, (sampler, title) in zip(
    panels, (("sgld", "SGLD"), ("sgnht", "Thermostat")), strict=True
):
    for color, epsilon in (("C0", np.inf), ("C3", 0.4)):
        draws = chain(sampler, epsilon, seed=1)
        spread = np.sqrt(np.trace(np.cov(draws.T)) / np.trace(covariance))
        label = "not private" if np.isinf(epsilon) else "ε = 0.4, δ = 1e-6"
        panel.plot(
            *draws[::8].T,
            ".",
            ms=4,
            alpha=0.5,
            color=color,
            label=f"{label}: spread × {spread:.1f}",
        )
        print(f"{title}, {label}: spread {spread:.2f} of the posterior's")
    panel.plot(*ellipse.T, "k-", lw=2, label="posterior (95%)")
    panel.set(title=title, xlabel="first coefficient")
    panel.legend(loc="lower left", fontsize=8)
panels[0].set_ylabel("second coefficient")
plt.show()
