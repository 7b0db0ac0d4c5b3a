r"""
A clinic's data, end to end
===========================

A clinic wants to publish a risk model for heart disease, and one number for its annual report: how
common the disease is among its patients. Nobody should be able to tell from what is published
whether a given patient's record was in the data, or what it said.

This example goes the whole way with made-up records: a pandas table, preprocessing that learns
nothing from the data, a budget that is kept in a file, hyper-parameters chosen privately,
predictions, intervals for the coefficients, and at the end the statement that goes to the data
protection officer. ``python examples/plot_medical_pipeline.py --full`` uses five times as many
patients.
"""

# %%
# The records
# -----------
# Four measurements and three categories for each patient. The true effects are known here, so that
# we can check what the private model finds. They are per unit of the scaled measurement, which runs
# from -1 to 1 between its bounds.
import sys
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score, roc_curve
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpbayes import BoundsScaler, ObjPertLogisticRegression, PrivacyLedger, PrivacyWarning
from skdpbayes.conjugate import BetaBernoulli
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.model_selection import PrivateGridSearchCV

# Seeds make this page reproducible, which a real release must not be: it leaves random_state out.
warnings.simplefilter("ignore", PrivacyWarning)
n_patients = 200_000 if "--full" in sys.argv else 40_000

BOUNDS = {"age": (18, 98), "bmi": (12, 52), "systolic": (80, 220), "cholesterol": (2.0, 12.0)}
CATEGORIES = {
    "sex": ["female", "male"],
    "smoking": ["never", "former", "current"],
    "activity": ["low", "moderate", "high"],
}
EFFECTS = {
    **{"age": 3.0, "bmi": 1.2, "systolic": 2.0, "cholesterol": 1.5},
    **{"sex_male": 0.5, "smoking_former": 0.4, "smoking_current": 1.0},
    **{"activity_moderate": -0.4, "activity_high": -0.8},
}


def clinic(n, seed):
    """Return a table of patients and whether each was diagnosed within ten years."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(52, 17, n), 18, 98)
    X = pd.DataFrame(
        {
            "age": age.round(),
            "bmi": np.clip(rng.normal(26.5, 4.8, n), 12, 52).round(1),
            "systolic": np.clip(rng.normal(112 + 0.35 * age, 16), 80, 220).round(),
            "cholesterol": np.clip(rng.normal(5.4, 1.1, n), 2, 12).round(1),
            "sex": rng.choice(CATEGORIES["sex"], n),
            "smoking": rng.choice(CATEGORIES["smoking"], n, p=[0.5, 0.28, 0.22]),
            "activity": rng.choice(CATEGORIES["activity"], n, p=[0.35, 0.45, 0.2]),
        }
    )
    logit = np.full(n, -1.0)
    for name, effect in EFFECTS.items():
        if name in BOUNDS:
            low, high = BOUNDS[name]
            logit += effect * (2 * (X[name].to_numpy() - low) / (high - low) - 1)
        else:
            column, value = name.split("_")
            logit += effect * (X[column] == value).to_numpy()
    return X, (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)


X, y = clinic(n_patients, seed=0)
X_new, y_new = clinic(10_000, seed=1)  # next year's patients
X.head()

# %%
# Preprocessing that costs nothing
# --------------------------------
# Bounds and categories come from the clinic's forms, not from the patients. ``StandardScaler`` or a
# ``OneHotEncoder`` that looks for categories would publish facts about single records; these two
# steps treat every row by itself, so the guarantee of the last step holds for the whole pipeline.
# ``data_norm=2`` is a public bound on the length of an encoded row; longer rows are scaled down.
encode = ColumnTransformer(
    [
        ("measured", BoundsScaler(BOUNDS), list(BOUNDS)),
        (
            "stated",
            OneHotEncoder(
                categories=list(CATEGORIES.values()),
                drop="first",
                handle_unknown="ignore",
                sparse_output=False,
            ),
            list(CATEGORIES),
        ),
    ],
    verbose_feature_names_out=False,
)
model = Pipeline(
    [
        ("encode", encode),
        (
            "classify",
            ObjPertLogisticRegression(data_norm=2.0, classes=[0, 1], inference_budget=0.3),
        ),
    ]
)

# %%
# A budget in a file
# ------------------
# The clinic decides how much all publications together may reveal: :math:`\varepsilon = 2` with
# :math:`\delta = 10^{-6}`. Every release reserves its cost in the ledger before it looks at a
# record. A rate under Laplace noise and a private search are not Gaussian releases, so this ledger
# adds up budgets (``filter="sum"``). The first release is the share of patients with the disease.
folder = tempfile.TemporaryDirectory()
ledger = PrivacyLedger(Path(folder.name) / "clinic.ledger", epsilon=2.0, delta=1e-6, filter="sum")

prevalence = BetaBernoulli().posterior(y, epsilon=0.1, ledger=ledger, random_state=0)
low, high = prevalence.interval(0.95)
print(f"Share of patients with the disease: {prevalence.mean():.3f}")
print(f"95 % interval, privacy noise included: {low:.3f} to {high:.3f}")

# %%
# Hyper-parameters, chosen privately
# ----------------------------------
# Trying four penalties and keeping the best is four looks at the data. A private search charges for
# the choice as a whole and releases the winner only. Its budget is stated once, and the budget of a
# single fit follows from it.
search = PrivateGridSearchCV(
    model,
    {"classify__C": ["auto", 0.003, 0.01, 0.03]},
    epsilon=1.5,
    delta=5e-7,
    scoring="neg_log_loss",
    ledger=ledger,
    random_state=1,
).fit(X, y)
print("chosen:", search.best_params_)
print(f"a single fit had epsilon = {search.plan_.run_epsilon:.2f} of {search.epsilon:g}")

# %%
# Predictions
# -----------
# The winner is an ordinary fitted pipeline. How far is it from a model that nobody may publish?
plain = Pipeline([("encode", encode), ("classify", LogisticRegression(C=100.0))]).fit(X, y)
risks = {
    "private": search.predict_proba(X_new)[:, 1],
    "not private": plain.predict_proba(X_new)[:, 1],
}

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
for (name, risk), color in zip(risks.items(), ("C0", "0.55"), strict=True):
    wrong, right_ones, _ = roc_curve(y_new, risk)
    style = {"color": color, "ls": "-" if name == "private" else "--"}
    left.plot(wrong, right_ones, label=f"{name}: AUC {roc_auc_score(y_new, risk):.3f}", **style)
    print(f"{name:12s} AUC {roc_auc_score(y_new, risk):.4f}  log loss {log_loss(y_new, risk):.4f}")
left.plot([0, 1], [0, 1], color="0.8", lw=1)
left.set(
    xlabel="healthy patients called ill", ylabel="ill patients found", title="Next year's patients"
)
left.legend(loc="lower right")
right.hist(
    [risks["private"][y_new == 0], risks["private"][y_new == 1]],
    bins=np.linspace(0, 1, 21),
    stacked=True,
    color=["C0", "C1"],
    label=["stayed healthy", "fell ill"],
)
right.set(xlabel="risk predicted by the private model", ylabel="patients", title="Predicted risks")
_ = right.legend()

# %%
# What the model says, and how sure it is
# ---------------------------------------
# ``inference_budget=0.3`` put part of the budget into the Fisher information, so that coefficients
# come with intervals. They hold both the sampling error and the noise that was added for privacy;
# drawing from this posterior costs nothing more. Crosses are the true effects.
classify = search.best_estimator_.named_steps["classify"]
names = search.best_estimator_.named_steps["encode"].get_feature_names_out()
intervals = classify.interval(0.9)["coef"][0]
order = np.argsort(classify.coef_[0])

fig, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
middle = intervals.mean(axis=1)
ax.errorbar(
    middle[order],
    np.arange(len(order)),
    xerr=(intervals[order, 1] - intervals[order, 0]) / 2,
    fmt="o",
    capsize=3,
    label="private estimate, 90 % interval",
)
ax.plot([EFFECTS[names[k]] for k in order], np.arange(len(order)), "kx", ms=7, label="truth")
ax.axvline(0, color="0.8", lw=1)
ax.set_yticks(np.arange(len(order)), [names[k].replace("_", ": ") for k in order])
ax.set(xlabel="effect on the log-odds", title="Risk factors under differential privacy")
ax.set_ylim(-0.7, len(order) + 0.6)
_ = ax.legend(loc="upper left", ncol=2, frameon=False)

# %%
# The interval of one patient's risk follows from the same draws.
draws = classify.sample_posterior(2000, random_state=0)
patient = X_new.iloc[[0]]
row = search.best_estimator_.named_steps["encode"].transform(patient)
logits = draws["coef"][:, 0] @ row[0] + draws["intercept"][:, 0]
low, high = np.quantile(1 / (1 + np.exp(-logits)), [0.05, 0.95])
print(patient.to_string(index=False))
print(f"risk {risks['private'][0]:.2f}, 90 % interval {low:.2f} to {high:.2f}")

# %%
# The statement
# -------------
# What has been spent, in a sentence, and entry by entry. The total is less than the sum of the
# entries, because the ledger composes privacy profiles instead of adding up epsilons.
print(ledger.spent())
for entry in ledger.entries():
    print(
        f"- {entry.label}: epsilon = {entry.epsilon:g}, delta = {entry.delta:g}; {entry.mechanism}"
    )

# %%
# A further model that would overrun the budget is refused before it sees a record.
try:
    model.set_params(classify__epsilon=1.0, classify__delta=5e-7, classify__ledger=ledger).fit(X, y)
except BudgetExceededError as error:
    print("Refused.", str(error).replace(str(ledger.path), "clinic.ledger"))

spent = ledger.spent().epsilon
fig, ax = plt.subplots(figsize=(7.5, 2.0), layout="constrained")
start = 0.0
for entry, label, color in zip(
    ledger.entries(), ("prevalence", "risk model, search included"), ("C2", "C0"), strict=True
):
    ax.barh("claimed", entry.epsilon, left=start, color=color, label=f"{label}: {entry.epsilon:g}")
    start += entry.epsilon
ax.barh("together", spent, color="C4", label=f"spent: {spent:.2f}")
ax.barh("together", ledger.epsilon - spent, left=spent, color="0.88", label="left")
ax.axvline(ledger.epsilon, color="black", lw=1)
ax.set(xlim=(0, 1.02 * ledger.epsilon), xlabel="ε", title="The clinic's budget")
ax.invert_yaxis()
fig.legend(ncol=4, loc="outside lower center", frameon=False, fontsize=9)
folder.cleanup()
plt.show()
