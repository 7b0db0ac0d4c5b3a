"""
An afternoon with a hospital's table
====================================

Will a patient come back within a month? One budget pays for the model and its score. The private
accuracy comes within .03 of scikit-learn's; the model leaves as a file that runs nothing.
"""

from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import skdpbayes
from skdpbayes.metrics import private_accuracy

rng, n = np.random.default_rng(0), 20_000
stays = pd.DataFrame({"age": rng.integers(0, 100, n), "days": rng.geometric(0.2, n)})
stays["earlier"], stays["ward"] = rng.poisson(0.8, n), rng.choice(["surgery", "medicine"], n)
logit = -3 + 0.9 * stays["earlier"] + 0.02 * stays["age"] + 0.5 * (stays["ward"] == "medicine")
back = rng.random(n) < 1 / (1 + np.exp(-logit))

folder = Path(mkdtemp())
ledger = skdpbayes.PrivacyLedger(folder / "budget.sqlite", epsilon=1.2, delta=1e-5, filter="sum")
prepare = skdpbayes.private_preprocessor(
    bounds={"age": (0, 100), "days": (1, 60), "earlier": (0, 5)},
    categories={"ward": ["surgery", "medicine"]},
)
last = skdpbayes.ObjPertLogisticRegression(epsilon=1.0, delta=1e-6, ledger=ledger)
model = make_pipeline(prepare, last).fit(stays[:15_000], back[:15_000])
skdpbayes.to_json(model, folder / "model.json")
new, truth = stays[15_000:], back[15_000:]
score = private_accuracy(truth, model.predict(new), epsilon=0.1, ledger=ledger)
plain = make_pipeline(prepare, LogisticRegression(C=1e4)).fit(stays[:15_000], back[:15_000])
print(score, f"scikit-learn {plain.score(new, truth):.3f}", ledger.spent(), sep="\n")
assert score.value > plain.score(new, truth) - 0.03
