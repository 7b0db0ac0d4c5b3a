r"""
From a CSV of dated events to hidden states
===========================================

Made up, as it comes out of a database: a date, a region and two categories per event; regions of
unequal size, months without events, missing entries, a bad season that moves with the region.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.preprocessing import OrdinalEncoder

from skdpbayes import PrivateHMM
from skdpbayes.plotting import StateTimelineDisplay

rng = np.random.default_rng(0)
SIZES = {"north": 6000, "south": 3000, "islands": 1000}  # events per region, two years
name = rng.permutation(np.repeat(list(SIZES), list(SIZES.values())))
day = pd.to_datetime("2023-01-01") + pd.to_timedelta(rng.integers(730, size=name.size), unit="D")
shift = pd.Series(name).map({"north": 0, "south": 2, "islands": 4}).to_numpy()
bad = (day.month.to_numpy() - 1 + shift) % 12 >= 8
cause = np.where(rng.random(name.size) < np.where(bad, 0.6, 0.2), "ice", "traffic")
cause = np.where(rng.random(name.size) < 0.05, "", cause)  # not recorded
dark = np.where(rng.random(name.size) < np.where(bad, 0.7, 0.3), "yes", "no")
table = pd.DataFrame({"date": day, "region": name, "cause": cause, "dark": dark})
path = Path(tempfile.mkdtemp()) / "events.csv"
table[(name != "islands") | (day.month != 3)].to_csv(path, index=False)  # nothing there in March

# %%
# Read it. What a code book knows is public and is written down: categories (a missing entry is one
# of them), regions, months. A month without events needs no row: its cell is empty.
events = pd.read_csv(path, parse_dates=["date"], keep_default_na=False)
encoder = OrdinalEncoder(categories=[["", "ice", "traffic"], ["no", "yes"]])

public = {"n_states": 2, "categories": [3, 2], "n_times": 24}
month = (12 * (events.date.dt.year - 2023) + events.date.dt.month - 1).to_numpy()
hmm = PrivateHMM(epsilon=1.0, sequence_labels=list(SIZES), **public)
print(hmm.plan(n_samples=len(events), n_features=2))
X = encoder.fit_transform(events[["cause", "dark"]])
hmm.fit(X, times=month, sequences=events.region)
print(hmm.to_dataframe().head(), hmm.emission_[0].round(2), sep="\n")
StateTimelineDisplay.from_estimator(hmm)
plt.show()

# %%
# New events, of a region that was not there and of later months, get the states of their own cells.
# A file of one region needs no ``sequences``. Its number of events is public then, and events that
# were in the first fit are paid for twice.
new = pd.DataFrame({"cause": ["ice"] * 3, "dark": "yes"})
print(hmm.predict_proba(encoder.transform(new), times=[24, 24, 25]).round(2))  # 2025
at = (events.region == "north").to_numpy()
print(PrivateHMM(epsilon=1.0, **public).fit(X[at], times=month[at]).states_)
