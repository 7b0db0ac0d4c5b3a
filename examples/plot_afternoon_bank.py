"""
An afternoon with a bank's marketing table
==========================================

Calls, and whether each ended in a deposit. Ranges and categories are public and declared; the
private model's area under the ROC curve comes within .03 of scikit-learn's.
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

import skdpbayes

rng = np.random.default_rng(0)
n = 20_000
calls = pd.DataFrame({"age": rng.integers(18, 95, n), "balance": rng.gamma(0.5, 3000, n).round()})
calls["duration"] = rng.gamma(1.5, 170, n).round()
calls["job"] = rng.choice(["manager", "worker", "retired", "student"], n, p=[0.3, 0.5, 0.15, 0.05])
logit = -4 + 0.005 * calls["duration"] + 0.8 * calls["job"].isin(["retired", "student"])
deposit = np.where(rng.random(n) < 1 / (1 + np.exp(-logit)), "yes", "no")

prepare = skdpbayes.private_preprocessor(
    bounds={"age": (18, 95), "balance": (0, 50_000), "duration": (0, 3600)},
    categories={"job": ["manager", "worker", "retired", "student"]},
    skewed=["balance", "duration"],
)
train, test = slice(0, 15_000), slice(15_000, None)
auc = {}
for name, last in {
    "private": skdpbayes.ObjPertLogisticRegression(epsilon=1.0, delta=1e-6, classes=["no", "yes"]),
    "scikit-learn": LogisticRegression(C=1e4, max_iter=1000),
}.items():
    model = make_pipeline(prepare, last).fit(calls[train], deposit[train])
    auc[name] = roc_auc_score(deposit[test] == "yes", model.predict_proba(calls[test])[:, 1])
    print(f"{name}: area under the curve {auc[name]:.3f}")
assert auc["private"] > auc["scikit-learn"] - 0.03
