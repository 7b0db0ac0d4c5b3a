r"""
A table that comes in pieces
============================

A table too large for memory is read piece by piece, by one process or by many, and the fit is the
one in memory to the last bit: sums over records are exact, and noise is drawn once, where ``fit``
is called. This example cuts one table in several ways and fits it on each; with ``dask`` and
``distributed`` installed it also starts a cluster of two workers. :doc:`/scale` counts the passes
and says what workers may see. ``python examples/plot_scale.py --full`` takes more records.
"""

# %%
# Pieces
# ------
# Every piece is made from its number, as it would be read from a file: nothing else is held. One
# function gives the rows, another the labels, with pieces of equal lengths.
import importlib.util
import os
import sys
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skdpbayes import DPSGLDClassifier, PrivacyWarning, RowBlocks

# Seeds make this page reproducible, which a real release must not be: it leaves random_state out.
warnings.simplefilter("ignore", PrivacyWarning)
full, quick = "--full" in sys.argv, bool(os.environ.get("SKDPBAYES_QUICK"))
n_pieces, size = (80, 25_000) if full else (8, 2_500) if quick else (16, 10_000)


def piece(number):
    """Return rows of norm at most 1 and labels."""
    rng = np.random.default_rng(number)
    X = rng.uniform(-1, 1, (size, 4)) / 2
    return X, (X @ [3, -2, 1, 0] + rng.logistic(size=size) > 0).astype(int)


def in_pieces(n):
    """Return the first pieces as rows and labels that are read anew in every pass."""
    return (
        RowBlocks(lambda: (piece(i)[0] for i in range(n))),
        RowBlocks(lambda: (piece(i)[1] for i in range(n))),
    )


# %%
# The same bits
# -------------
# In memory, in equal pieces and in uneven ones: the coefficients are equal, not close. A
# chain reads all records in every step; in memory a batch of all of them is asked for.
n = n_pieces * size
X, y = (np.concatenate(parts) for parts in zip(*map(piece, range(n_pieces)), strict=True))


def model(**parameters):
    """A private chain; labels are public."""
    return DPSGLDClassifier(
        epsilon=1.0, delta=1e-6, classes=[0, 1], n_steps=40, random_state=0, **parameters
    )


whole = model(batch_size=n).fit(X, y)
pieces = model().fit(*in_pieces(n_pieces))
cuts = np.sort(np.random.default_rng(0).integers(0, n, 5))  # of any lengths, also empty ones
uneven = model().fit(RowBlocks(np.split(X, cuts)), RowBlocks(np.split(y, cuts)))
same = {
    "pieces": np.array_equal(pieces.coef_, whole.coef_),
    "uneven pieces": np.array_equal(uneven.coef_, whole.coef_),
}

# %%
# On a cluster the same call takes Dask's arrays. The scheduler is yours. Here it is a local one, of
# threads; without ``processes=False`` its workers would be processes, and their script would start
# below ``if __name__ == "__main__":``.
has_dask = all(importlib.util.find_spec(name) for name in ("dask", "distributed"))
if has_dask and not quick:
    import dask.array as da
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, processes=False, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        rows, labels = da.from_array(X, chunks=(size, -1)), da.from_array(y, chunks=size)
        far = model().fit(rows, labels)
        share = far.predict_proba(rows)[:, 1].mean().compute()  # predictions are lazy
    same["two workers"] = np.array_equal(far.coef_, whole.coef_)
for name, equal in same.items():
    print(f"{name}: {'the same bits' if equal else 'other bits'}")
print("claims:", whole.privacy_.epsilon, pieces.privacy_.epsilon)

# %%
# Persons in several pieces
# -------------------------
# ``units`` come in pieces, too, and a person's records may lie in several of them: the ids are
# counted in one pass before the budget is charged.
ids = np.random.default_rng(1).integers(0, n // 3, n)
together = model(batch_size=len(np.unique(ids))).fit(X, y, units=ids)
spread = model().fit(
    *in_pieces(n_pieces), units=RowBlocks([ids[i * size : (i + 1) * size] for i in range(n_pieces)])
)
same["persons"] = np.array_equal(spread.coef_, together.coef_)
print("persons:", "the same bits" if same["persons"] else "other bits", spread.privacy_.unit)

# %%
# What a fit costs
# ----------------
# Time grows in proportion to the records, and memory does not: one piece is held at a time, and
# what a chain reads again in every step while it is small (:doc:`/scale`).
counts = [max(1, n_pieces // 2**k) for k in range(3, -1, -1)]
seconds = []
for count in counts:
    start = time.perf_counter()
    model().fit(*in_pieces(count))
    seconds.append(time.perf_counter() - start)
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
ax.loglog([count * size for count in counts], seconds, "o-", label="40 steps, in pieces")
ax.set(xlabel="records", ylabel="seconds", title="Time of a fit on pieces")
_ = ax.legend()
