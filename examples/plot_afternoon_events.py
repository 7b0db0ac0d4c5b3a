"""
An afternoon with an event log
==============================

Incidents in five regions over two years. Each month of each region has a hidden state; the private
model finds at least .9 of those that the model without noise finds.
"""

import numpy as np
import pandas as pd

import skdpbayes
from skdpbayes.samplers import match_states

rng = np.random.default_rng(0)
REGIONS = ["north", "south", "east", "west", "center"]
state = (rng.random((5, 24)).cumsum(axis=1) // 4).astype(int) % 2  # calm and tense spells
kinds = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])
events = [
    (month, region, rng.choice(3, p=kinds[state[place, month]]))
    for place, region in enumerate(REGIONS)
    for month in range(24)
    for _ in range(rng.poisson(40))
]
log = pd.DataFrame(events, columns=["month", "region", "kind"])

found = {}
for epsilon in (1.0, np.inf):
    model = skdpbayes.PrivateHMM(
        epsilon=epsilon, n_states=2, categories=[3], n_times=24, sequence_labels=REGIONS
    )
    model.fit(log[["kind"]], times=log["month"], sequences=log["region"])
    names = match_states(model.states_, state, 2)
    found[epsilon] = float(np.mean(names[model.states_] == state))
    print(f"epsilon {epsilon}: {found[epsilon]:.0%} of the states found")
assert found[1.0] > 0.9 * found[np.inf]
