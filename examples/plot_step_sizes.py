r"""
How large a step is private for free?
=====================================

Langevin dynamics adds noise of its own, which hides a record if the step is small enough. Wang,
Fienberg and Smola (2015) bounded that step, and Li, Chen, Liu and Carin (2019) raised the bound by
orders of magnitude with a moments accountant. This example redraws figures 1 and 2 of the latter
(50,000 records, batches of 500, 10,000 steps, gradients of norm at most 1, delta = 1e-5): dashed
what their Lemma 2 and Theorem 1 prove, solid what is true, in closed form (Gaussian differential
privacy in the limit of large noise), with dots by privacy loss distributions. Steps are in their
convention, eta = h n, with noise of variance eta / n.

Corrections to the printed figures: the largest first step of the decreasing schedule at
epsilon = 0.1 is 0.075, of which the moments accountant proves 0.016; the printed 0.103 costs 0.12.
Noise of variance eta / n samples at temperature 1/2; temperature 1 takes twice the noise and allows
twice the step. And all these are for a record that is zeroed out. For one that is replaced the step
is a quarter.
"""

# %%
# Bounds against epsilon
# ----------------------
import sys

import matplotlib.pyplot as plt
import numpy as np

from skdpbayes.papers import li2019_noise_multiplier, step_size_bound
from skdpbayes.privacy import chain_event

quick = "--full" not in sys.argv
n_records, n_steps = 50_000, 10_000
setting = {"n_steps": n_steps, "batch_size": 500, "n_samples": n_records, "clip_norm": 1.0}


def bound(epsilon, **options):
    """Largest first step in the convention of Li et al."""
    return n_records * step_size_bound(epsilon, 1e-5, **setting, **options)


epsilons = np.geomspace(0.02, 1.7, 25)
as_printed = {"adjacency": "zero_out", "noise_per_step": 1.0}
curves = {
    "decreasing": {"decay": 1 / 3, "method": "limit", **as_printed},
    "decreasing, moments accountant": {"decay": 1 / 3, "method": "li2019"},
    "fixed": {"method": "limit", **as_printed},
    "fixed, moments accountant": {"method": "li2019"},
    "Wang et al. 2015": {"method": "wang2015"},
}
values = {name: [bound(e, **options) for e in epsilons] for name, options in curves.items()}

# %%
# Exact numbers at epsilon = 0.1
# ------------------------------
print("largest first step at epsilon = 0.1:")
points = {}
for name, decay in (("decreasing", 1 / 3), ("fixed", 0.0)):
    for adjacency in ("zero_out",) if quick else ("zero_out", "replace_one"):
        step = bound(0.1, decay=decay, adjacency=adjacency, noise_per_step=1.0)
        points[name, adjacency] = step
        print(f"  {name:10s} {adjacency:12s} {step:.5f}")
steps = 0.103 * np.arange(1.0, n_steps + 1) ** (-1 / 3)
noise = np.array(
    [li2019_noise_multiplier(s, batch_size=500, n_samples=n_records, clip_norm=1.0) for s in steps]
)
for adjacency in ("zero_out",) if quick else ("zero_out", "replace_one"):
    spent = chain_event(noise, 500 / n_records, "poisson", adjacency).epsilon_at(1e-5)
    print(f"a first step of 0.103 costs epsilon = {spent:.3f} ({adjacency})")

# %%
# Figure 1, and schedules
# -----------------------
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for color, (name, steps_of) in enumerate(values.items()):
    style = "--" if "moments" in name else "-"
    left.loglog(epsilons, steps_of, style, color=f"C{color // 2}", label=name)
left.loglog([0.1] * len(points), list(points.values()), "k.", label="exact at ε = 0.1")
left.set(xlabel="ε", ylabel="largest first step η", title="Steps that are private for free")
left.set_ylim(top=1e4)
left.legend(fontsize=8, loc="upper left")

times = np.arange(1.0, n_steps + 1)
right.loglog(times, 0.103 * times ** (-1 / 3), "C3:", label="claimed: 0.103, costs ε = 0.12")
right.loglog(times, points["decreasing", "zero_out"] * times ** (-1 / 3), "C0", label="decreasing")
right.loglog(times, np.full(n_steps, points["fixed", "zero_out"]), "C1", label="fixed")
right.loglog(times, np.full(n_steps, bound(0.1, method="wang2015")), "C2", label="Wang et al. 2015")
right.set(xlabel="iteration", ylabel="step η", title="Schedules at ε = 0.1")
right.legend(fontsize=8)

# %%
# Figure 2: bounds against the number of records and the norm
# -----------------------------------------------------------
# Steps as many as records and delta = 1 / N, as printed. To first order a chain costs
# :math:`\mu^2 = L^2 \sum_t \eta_t / N`, so that the bound is in proportion to :math:`1/L^2` and to
# the cube root of N; the paper reads 1/L and "stable in N" off its picture.


def of_setting(epsilon, n, norm, method="limit"):
    """Largest first step of the decreasing schedule in the convention of Li et al."""
    public = {"n_steps": n, "batch_size": max(1, n // 100), "n_samples": n, "clip_norm": norm}
    options = {"decay": 1 / 3, "method": method, **as_printed}
    return n * step_size_bound(epsilon, 1.0 / n, **public, **options)


figure, (top, bottom) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
by_records = {n: [of_setting(e, n, 1.0) for e in epsilons] for n in (10**3, 10**4, 10**5, 10**6)}
by_norm = {norm: [of_setting(e, 10**4, norm) for e in epsilons] for norm in (0.1, 0.5, 1.0, 10.0)}
for axis, curves_of, name in ((top, by_records, "N"), (bottom, by_norm, "L")):
    for color, (value, steps_of) in enumerate(curves_of.items()):
        axis.loglog(epsilons, steps_of, f"C{color}", label=f"{name} = {value:,}")
        n, norm = (value, 1.0) if name == "N" else (10**4, value)
        moments = [of_setting(e, n, norm, "li2019") for e in epsilons]
        axis.loglog(epsilons, moments, f"C{color}--", lw=1)
    axis.set(xlabel="ε", ylabel="largest first step η")
exact = of_setting(0.5, 10**4, 1.0, method="pld")
for axis in (top, bottom):
    axis.loglog([0.5], [exact], "k.", label="exact")
    axis.legend(fontsize=8)
top.set_title("L = 1, T = N, δ = 1/N")
bottom.set_title("N = 10,000")
print(
    f"N = 10,000, L = 1, epsilon = 0.5: {exact:.4f} exact, {of_setting(0.5, 10**4, 1.0):.4f} limit"
)
plt.show()
