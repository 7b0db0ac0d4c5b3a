r"""
A clinic's data, from the file to the report
============================================

A clinic wants to publish a risk model for heart disease, how good that model is, and one number for
its annual report: how common the disease is among its patients. Nobody should be able to tell from
what is published whether a given patient's record was in the data, or what it said.

This example goes the whole way with made-up records: a CSV file, preprocessing that learns nothing
from it, a budget that is kept in a file, a model with error bars, a private score on held-out
patients, one claim for everything, and the page that the data protection officer signs.
``python examples/plot_medical_pipeline.py --full`` uses five times as many patients.
"""

# %%
# The file
# --------
# Four measurements and three categories for each patient. The true effects are known here, so that
# we can check what the private model finds. They are per unit of the scaled measurement, which runs
# from -1 to 1 between its bounds, and against the first answer of each question.
import sys
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.pipeline import make_pipeline

from skdpbayes import (
    ObjPertLogisticRegression,
    PrivacyLedger,
    PrivacyWarning,
    check_private,
    privacy_of,
    private_preprocessor,
    report,
    summary,
)
from skdpbayes.conjugate import BetaBernoulli
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.metrics import private_ranking

# Seeds make this page reproducible, which a real release must not be: it leaves random_state out.
warnings.simplefilter("ignore", PrivacyWarning)
n_patients = 200_000 if "--full" in sys.argv else 40_000
folder = tempfile.TemporaryDirectory()
here = Path(folder.name)

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
    """Return a table of patients; ``ill`` says who was diagnosed within ten years."""
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
    return X.assign(ill=(rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int))


clinic(n_patients, seed=0).to_csv(here / "patients.csv", index=False)
patients = pd.read_csv(here / "patients.csv")
X, y = patients.drop(columns="ill"), patients["ill"]
train, test = slice(0, 3 * n_patients // 4), slice(3 * n_patients // 4, None)
X.head()

# %%
# Preprocessing that costs nothing
# --------------------------------
# Bounds and categories come from the clinic's forms, not from the patients. ``StandardScaler`` or a
# ``OneHotEncoder`` that looks for categories would publish facts about single records;
# :func:`~skdpbayes.private_preprocessor` treats every row by itself. An answer that is not listed
# becomes zeros, so leaving the first one out makes it what the others are compared with; with all
# of them listed, indicators would sum to one and their effects could not be told from the
# intercept. ``norm=2`` is a public bound on the length of a prepared row; beside the intercept,
# columns weigh more than at 1, which makes their intervals narrower.
prepare = private_preprocessor(
    BOUNDS, {name: answers[1:] for name, answers in CATEGORIES.items()}, norm=2.0
)

# %%
# A budget in a file
# ------------------
# The clinic decides how much all publications together may reveal: :math:`\varepsilon = 1.5` with
# :math:`\delta = 10^{-6}`. Every release reserves its cost in the ledger before it looks at a
# record. Rates and scores under Laplace noise are not Gaussian releases, so this ledger adds up
# budgets (``filter="sum"``). The first release is the share of patients with the disease.
ledger = PrivacyLedger(here / "clinic.ledger", epsilon=1.5, delta=1e-6, filter="sum")

prevalence = BetaBernoulli().posterior(y, epsilon=0.1, ledger=ledger, random_state=0)
low, high = prevalence.interval(0.95)
print(f"Share of patients with the disease: {prevalence.mean():.3f}")
print(f"95 % interval, privacy noise included: {low:.3f} to {high:.3f}")

# %%
# The model, and how sure it is
# -----------------------------
# ``inference_budget=0.3`` puts part of the budget into the Fisher information, so that coefficients
# come with intervals. They hold both the sampling error and the noise that was added for privacy.
# :func:`~skdpbayes.summary` gives them in the units of the columns: per year, per mmol/l.
model = make_pipeline(
    prepare,
    ObjPertLogisticRegression(
        epsilon=1.0,
        delta=5e-7,
        data_norm=2.0,
        classes=[0, 1],
        inference_budget=0.3,
        ledger=ledger,
        random_state=1,
    ),
)
check_private(model)  # no step learns without a claim; no record is needed to see that
model.fit(X[train], y[train])
print(summary(model))

# %%
# Effects of measurements are drawn per half of their range, as the true ones were chosen.
found = summary(model).to_frame().drop(index="(intercept)")
half = pd.Series({name: (high - low) / 2 for name, (low, high) in BOUNDS.items()})
found = found.mul(half.reindex(found.index, fill_value=1.0), axis=0).sort_values("coef")
places = np.arange(len(found))

fig, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
middle = (found["low"] + found["high"]) / 2
ax.errorbar(
    middle,
    places,
    xerr=found["high"] - middle,
    fmt="o",
    capsize=3,
    label="private estimate, 90 % interval",
)
ax.plot([EFFECTS[name] for name in found.index], places, "kx", ms=7, label="truth")
ax.axvline(0, color="0.8", lw=1)
ax.set_yticks(places, [name.replace("_", ": ") for name in found.index])
ax.set(xlabel="effect on the log-odds", title="Risk factors under differential privacy")
ax.set_ylim(-0.7, len(found) + 0.6)
_ = ax.legend(loc="upper left", ncol=2, frameon=False)

# %%
# The interval of one patient's risk follows from posterior draws, which cost nothing more.
draws = model[-1].sample_posterior(2000, random_state=0)
patient = X[test].iloc[[4]]
row = model[0].transform(patient)
logits = draws["coef"][:, 0] @ row[0] + draws["intercept"][:, 0]
low, high = np.quantile(1 / (1 + np.exp(-logits)), [0.05, 0.95])
print(patient.to_string(index=False))
print(f"risk {model.predict_proba(patient)[0, 1]:.2f}, 90 % interval {low:.2f} to {high:.2f}")

# %%
# How good is it? A private score
# -------------------------------
# A score on held-out patients is a release about *them*. One noisy table of outcome and predicted
# risk gives the area under the ROC curve, the curve and the calibration for one price. The records
# are made up, so we may compare with what nobody could publish: a model without privacy, scored
# exactly.
ranking = private_ranking(
    y[test], model.predict_proba(X[test])[:, 1], epsilon=0.2, ledger=ledger, random_state=2
)
print(ranking.auc)
plain = make_pipeline(prepare, LogisticRegression(C=100.0)).fit(X[train], y[train])
risk = plain.predict_proba(X[test])[:, 1]
area = roc_auc_score(y[test], risk)

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
left.plot(*roc_curve(y[test], risk)[:2], "--", color="0.55", label=f"no privacy: AUC {area:.3f}")
left.plot(*ranking.curve(), "o-", ms=4, color="C0", label=f"private: AUC {ranking.auc.value:.3f}")
left.plot([0, 1], [0, 1], color="0.8", lw=1)
left.set(xlabel="healthy patients called ill", ylabel="ill patients found", title="Ranking")
left.legend(loc="lower right")

bins = ranking.calibration()
center = (bins["score_low"] + bins["score_high"]) / 2
right.errorbar(
    center,
    bins["share"],
    xerr=(bins["score_high"] - bins["score_low"]) / 2,
    yerr=np.abs(bins["interval"].T - bins["share"]),
    fmt="o",
    ms=4,
    label="bin of risks, 90 % interval",
)
right.plot([0, 1], [0, 1], color="0.8", lw=1, label="calibrated")
right.set(xlabel="predicted risk", ylabel="share that fell ill", title="Calibration")
_ = right.legend(loc="upper left")

# %%
# One claim for everything
# ------------------------
# :func:`~skdpbayes.privacy_of` composes what was released, tightly, if all of it had been planned
# beforehand. The ledger has the same entries and does not need that condition: it refuses what
# would overrun the budget, before a record is seen.
print(privacy_of(prevalence, model, ranking))
for entry in ledger.entries():
    print(f"- {entry.label}: epsilon = {entry.epsilon:g}, delta = {entry.delta:g}")
try:
    BetaBernoulli().posterior(y, epsilon=0.5, ledger=ledger)
except BudgetExceededError as error:
    print("Refused.", str(error).replace(str(ledger.path), "clinic.ledger"))

# %%
# The report
# ----------
# One page that loads nothing and holds no record: the claim in words, how well the best attack can
# do, the steps and their price, coefficients, the score, the account. Here is its beginning as
# text; ``report(model, "report.html", scores=[ranking.auc])`` writes the page.
page = report(model, here / "report.html", scores=[ranking.auc], title="Heart disease risk model")
text = report(model, format="markdown", scores=[ranking.auc], title="Heart disease risk model")
print(text[: text.index("## Steps")])
folder.cleanup()
plt.show()
