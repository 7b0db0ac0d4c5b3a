"""
Hidden states of an event log, private for the single event
===========================================================

An event log lists events with a place, a month and a few categorical fields. Each place runs a
hidden chain; all events of a place and month share its state. The counts of all values in all cells
are released once under discrete noise, and everything below is computed from that release.

By default the log is made up, so that the truth is known. With ``SKDPBAYES_DATA`` pointing to a
folder that holds the FARS table, the example reads four years of fatal crashes on US roads instead:
126,863 events in four regions and 48 months, with five fields, at a budget of 1 for each field.
"""

# %%
# The data, and what is public about them
# ---------------------------------------
# The grid of places and months and the categories come from the code book, never from the events.

import os
import sys

import matplotlib.pyplot as plt
import numpy as np

from skdpbayes import PrivateHMM
from skdpbayes.datasets import load_fars, make_event_log
from skdpbayes.plotting import EmissionDisplay, StateTimelineDisplay

quick = "--full" not in sys.argv
real = bool(os.environ.get("SKDPBAYES_DATA"))
if real:
    log = load_fars(sequences="region")
    truth, epsilon, places = None, 5.0, log.sequence_names
    value_names = list(log.categories.values())
    time_names = log.time_names
else:
    log = make_event_log(20, 60, 50 if quick else 200, random_state=0)
    truth, epsilon, places = log.states, 1.0, [f"place {g}" for g in range(20)]
    value_names, time_names = None, None
print(f"{len(log.data):,} events, {len(places)} places, {log.n_times} times")

# %%
# One private release, then a Bayesian fit
# ----------------------------------------
# ``random_state`` makes this page reproducible; leave it out for a real release.

model = PrivateHMM(
    epsilon=epsilon,
    n_states=3,
    categories=log.n_categories,
    n_times=log.n_times,
    sequence_labels=range(len(places)),
    n_iter=40 if quick else 150,
    burn_in=20 if quick else 75,
    stickiness=2.0,
    random_state=0,
)
model.fit(log.data, times=log.times, sequences=log.sequences)
print(model.privacy_)
print(f"noise of scale {model.noise_.scale:.1f} on each count")

# %%
# States over time
# ----------------
# Pale cells are those whose state the noisy counts leave open.

StateTimelineDisplay.from_estimator(model, sequence_names=places, time_names=time_names)
plt.show()

# %%
# From one posterior draw instead
# -------------------------------
# Figure 7 of Foulds et al. (2016): OPS releases a single draw of the states, so that nothing
# averages its noise, and no cell is pale. Their other panel, the mean of the last 100 draws, would
# cost as much as 100 draws. Names of states are arbitrary. On crash records, where states differ
# little, this one draw puts all cells into one state.

drawn = PrivateHMM(
    epsilon=epsilon,
    n_states=3,
    categories=log.n_categories,
    n_times=log.n_times,
    sequence_labels=range(len(places)),
    mechanism="ops",
    calibration="converged",
    n_iter=1,
    burn_in=50 if quick else 200,
    n_chains=1,
    random_state=0,
)
drawn.fit(log.data, times=log.times, sequences=log.sequences)
print(drawn.privacy_)
StateTimelineDisplay.from_estimator(drawn, sequence_names=places, time_names=time_names)
plt.show()

# %%
# What the states mean
# --------------------

fields = None if not real else [0, 2, 3, 4]
EmissionDisplay.from_estimator(
    model, fields=fields, field_names=log.feature_names, value_names=value_names, max_values=8
)
plt.show()

# %%
# How long they last
# ------------------

print("transition probabilities (posterior mean):")
print(np.array2string(model.transition_, precision=2))

# %%
# Another number of states costs nothing
# --------------------------------------
# ``refit`` and ``select_n_states`` read the released counts.

small = model.refit(n_iter=30 if quick else 60, burn_in=20 if quick else 40, n_chains=1)
choice = small.select_n_states((1, 2, 3, 4), n_splits=1 if quick else 2, random_state=0)
for n_states, value in zip(choice.candidates, choice.log_likelihood, strict=True):
    print(f"{n_states} states: held-out log-likelihood of a cell {value:8.2f}")
print(f"chosen: {choice.n_states}")

# %%
# How well it works at other budgets
# ----------------------------------
# Where the truth is known: the share of cells whose state is found, against epsilon. Each fit is a
# release of its own, so on private data this curve would have a price.

if truth is not None:
    from skdpbayes.samplers import match_states

    epsilons = [0.1, 0.5, 2.0, 10.0] if quick else [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
    sparse = make_event_log(20, 60, 50, random_state=0)
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for reading, style in (("noise_aware", "o-"), ("naive", "s--")):
        found = []
        for e in epsilons:
            fitted = PrivateHMM(
                epsilon=e,
                categories=sparse.n_categories,
                n_times=60,
                sequence_labels=range(20),
                posterior=reading,
                n_iter=30 if quick else 60,
                burn_in=20 if quick else 60,
                n_chains=1,
                random_state=1,
            ).fit(sparse.data, times=sparse.times, sequences=sparse.sequences)
            names = match_states(fitted.states_, sparse.states, 3)
            found.append(np.mean(names[fitted.states_] == sparse.states))
        ax.plot(epsilons, found, style, label=reading.replace("_", " "))
    ax.set(xscale="log", xlabel="ε", ylabel="share of states found")
    ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    ax.minorticks_off()
    ax.set_title("50 events per cell, three fields, 20 × 60 cells")
    ax.legend(frameon=False)
    plt.show()

# %%
# Prediction of cells that were held out
# --------------------------------------
# A tenth of the cells is left out of the fit, and their events are scored under the states that the
# rest of their chains implies. One state is naive Bayes: the same distribution everywhere. OPS
# releases posterior draws instead of counts; its "converged" price supposes that the chain has
# converged, the price "per update" supposes nothing.

scored = log if real else make_event_log(6, 40, 100, categories=(8, 4, 2), random_state=0)
n_sequences = scored.sequences.max() + 1
n_splits = 1 if quick else 3
length = {"n_iter": 40, "burn_in": 40, "n_chains": 1}
ops = {"mechanism": "ops", "n_chains": 1}
methods = {
    "Laplace": length,
    "Laplace, 1 state": {**length, "n_states": 1},
    "OPS, converged": {**ops, "calibration": "converged", "n_iter": 1, "burn_in": 200},
    "OPS, per update": {**ops, "delta": 1e-6, "n_iter": 10, "burn_in": 10},
}


def held_out_score(split, epsilon, **params):
    """Mean log-probability of the events of a tenth of the cells."""
    hidden = np.random.default_rng(split).random((n_sequences, scored.n_times)) < 0.1
    out = hidden[scored.sequences, scored.times]
    fitted = PrivateHMM(
        epsilon,
        categories=scored.n_categories,
        n_times=scored.n_times,
        sequence_labels=range(n_sequences),
        random_state=split,
        **params,
    ).fit(scored.data[~out], times=scored.times[~out], sequences=scored.sequences[~out])
    logs = np.log(fitted.sample_posterior()["emission"])
    first = np.concatenate([[0], np.cumsum(scored.n_categories)[:-1]])
    total = 0.0
    for place, time in np.argwhere(hidden):
        cell = (scored.sequences == place) & (scored.times == time)
        counts = np.bincount((scored.data[cell] + first).ravel(), minlength=logs.shape[2])
        weight = np.log(np.maximum(fitted.state_proba_[place, time], 1e-4))
        weight -= np.logaddexp.reduce(weight)
        # The states have the same names in all draws, so that each draw mixes its own tables.
        by_draw = np.logaddexp.reduce(logs @ counts + weight, axis=1)
        total += np.logaddexp.reduce(by_draw) - np.log(len(by_draw))
    return total / out.sum()


epsilons = [0.1, 1.0, 10.0] if quick else [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for (name, params), marker in zip(methods.items(), "osv^", strict=True):
    scores = [
        np.mean([held_out_score(split, e, **params) for split in range(n_splits)]) for e in epsilons
    ]
    ax.plot(epsilons, scores, marker=marker, label=name)
for n_states, style in ((3, "-"), (1, "--")):
    best = np.mean(
        [held_out_score(s, np.inf, **{**length, "n_states": n_states}) for s in range(n_splits)]
    )
    name = "no privacy" if n_states == 3 else "no privacy, 1 state"
    ax.axhline(best, color="0.4", linestyle=style, label=name)
ax.set(xscale="log", xlabel="ε", ylabel="log-likelihood per held-out event")
ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
ax.minorticks_off()
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0))
plt.show()
