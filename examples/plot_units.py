r"""
Patients who come again
=======================

Some patients have one visit in the table, others have twelve. A claim for one *record* says little
to the latter. There are two ways to protect all visits of a person together: say whose each record
is (``units``), or fit record by record under so little budget that even twelve records are covered
(group privacy). This example compares them on made-up visits; :doc:`/units` has the guarantee.
``python examples/plot_units.py --full`` runs more repetitions.
"""

# %%
# What a claim for one record is worth
# ------------------------------------
# A pure claim grows in proportion to the number of a person's records; one with
# :math:`\delta > 0` grows faster, because :math:`\delta` is held. ``of_persons`` does the sum.
import os
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from skdpbayes import ObjPertLogisticRegression, PrivacyWarning
from skdpbayes.privacy import GaussianDP, PrivacyGuarantee, PureDP, gdp_mu

# Seeds make this page reproducible, which a real release must not be: it leaves random_state out.
warnings.simplefilter("ignore", PrivacyWarning)
full, quick = "--full" in sys.argv, bool(os.environ.get("SKDPBAYES_QUICK"))
n_repetitions = 200 if full else 10 if quick else 40
MOST = 12  # a public rule: the insurance pays for one visit a month

claims = {
    "pure, δ = 0": (PureDP(0.1), 0.0),
    "Gaussian, δ = 1e-6": (GaussianDP(gdp_mu(0.1, 1e-6)), 1e-6),
}
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for label, (event, delta) in claims.items():
    one = PrivacyGuarantee.from_event(
        event, delta=delta, adjacency="replace_one", mechanism="noise"
    )
    records = np.arange(1, MOST + 1)
    ax.plot(records, [one.of_persons(int(k)).epsilon for k in records], "o-", label=label)
ax.set(
    xlabel="records of a person",
    ylabel="ε of all of them together",
    title="ε = 0.1 for one record, seen by a person",
)
_ = ax.legend()


# %%
# The visits
# ----------
# Four measurements at every visit, which scatter around what is usual for the person, and whether
# the visit led to a prescription. Most people come once or twice.
def visits(n_persons, seed):
    """Return rows of norm at most 1, labels, and whose visit each was."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_persons), np.minimum(rng.geometric(0.35, n_persons), MOST))
    usual = rng.uniform(-0.7, 0.7, (n_persons, 4))
    X = np.clip(usual[person] + rng.normal(0, 0.3, (person.size, 4)), -1, 1) / 2
    logit = X @ [4.0, -3.0, 2.0, 0.0] - 0.5
    return X, (rng.random(person.size) < 1 / (1 + np.exp(-logit))).astype(int), person


def first_visits(person, most):
    """Say which rows are among the first of their person; ids are sorted."""
    return np.arange(person.size) - np.searchsorted(person, person) < most


def fit(epsilon, X, y, seed, units=None):
    """Spend the whole budget on predictions."""
    model = ObjPertLogisticRegression(
        epsilon, 0.0, classes=[0, 1], inference_budget=0, random_state=seed
    )
    return model.fit(X, y, units=units)


X, y, person = visits(2000, seed=0)
print(f"{person.max() + 1} persons, {person.size} visits, up to {np.bincount(person).max()} each")
together = fit(0.3, X, y, 0, units=person)
alone = fit(0.3 / MOST, X, y, 0)
print("units=person:", together.privacy_)
print("record by record:", alone.privacy_.of_persons(MOST))

# %%
# Same promise, two ways
# ----------------------
# Every point is the area under the ROC curve on visits of other people; bars reach from the first
# to the third quartile of the repetitions. On the left, both ways promise the same to a person. The
# person-level fit gives each of *m* visits the weight 1/*m*, so its noise is that of one record;
# the record-level fit has the noise of twelve, although hardly anybody came so often.
#
# On the right, the record-level fit drops visits: it keeps the first few of everybody and is priced
# for that many. One visit each is its best choice, and under this much noise about as good as the
# person-level fit, which averages the others instead of dropping them. But the choice has to be
# made without looking, and every further visit makes it worse; ``units`` needs neither a choice nor
# a public limit on the number of visits.
X_new, y_new, _ = visits(5000, seed=10_000)
ways = {
    "units=person": {"color": "C0", "marker": "o"},
    f"record by record, priced for {MOST}": {"color": "C1", "marker": "s"},
}
epsilons, kept = [0.1, 0.3, 1.0, 3.0], [1, 2, 3, 6, 12]
by_person = np.empty((n_repetitions, len(epsilons)))
by_record = np.empty((n_repetitions, len(epsilons)))
by_kept = np.empty((n_repetitions, len(kept)))
for seed in range(n_repetitions):
    X, y, person = visits(2000, seed)

    def area(model):
        return roc_auc_score(y_new, model.decision_function(X_new))

    for k, epsilon in enumerate(epsilons):
        by_person[seed, k] = area(fit(epsilon, X, y, seed, units=person))
        by_record[seed, k] = area(fit(epsilon / MOST, X, y, seed))
    for k, most in enumerate(kept):
        rows = first_visits(person, most)
        by_kept[seed, k] = area(fit(0.3 / most, X[rows], y[rows], seed))


def draw(ax, x, areas, **style):
    """Draw medians and quartiles."""
    low, middle, high = np.quantile(areas, [0.25, 0.5, 0.75], axis=0)
    ax.errorbar(x, middle, yerr=[middle - low, high - middle], capsize=3, **style)


fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.0), sharey=True, layout="constrained")
for (label, style), areas in zip(ways.items(), (by_person, by_record), strict=True):
    draw(left, epsilons, areas, label=label, **style)
left.set(xscale="log", xlabel="ε for all visits of a person", ylabel="area under the ROC curve")
left.set_xticks(epsilons, epsilons)
left.set_xticks([], minor=True)
left.legend(loc="lower right")
low, middle, high = np.quantile(by_person[:, 1], [0.25, 0.5, 0.75])
right.axhspan(low, high, color="C0", alpha=0.2, lw=0)
right.axhline(middle, color="C0", label="units=person, all visits")
draw(right, kept, by_kept, color="C1", marker="s", label="first visits only, priced for them")
right.set(xlabel="visits kept of a person", title="ε = 0.3", xticks=kept)
right.legend(loc="lower left")
_ = left.set_title("All visits")

# %%
# Medians, and how often the person-level fit was the better one of a pair:
for epsilon, ours, theirs in zip(epsilons, by_person.T, by_record.T, strict=True):
    print(
        f"ε = {epsilon:g}: units {np.median(ours):.3f}, record by record {np.median(theirs):.3f}, "
        f"units better in {np.mean(ours > theirs):.0%}"
    )
wins = np.mean(by_person[:, 1] > by_kept[:, 0])
print(f"ε = 0.3, against one visit each ({np.median(by_kept[:, 0]):.3f}): better in {wins:.0%}")
plt.show()
