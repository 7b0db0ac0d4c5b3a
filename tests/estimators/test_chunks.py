"""Fits on chunks are the fits in memory, to the last bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline

import skdpbayes
from skdpbayes import (
    BoundsScaler,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    PrivateBayesianRidge,
    PrivateBoundsScaler,
    RowNormClipper,
)
from skdpbayes.fitting.chunks import RowBlocks

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

N = 2000


def _numbers(n=N, d=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * 0.4  # some rows are longer than 1
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


def _codes(n=N):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 3, n), rng.integers(0, 5, n)])
    return X, np.array(["no", "yes"])[(X[:, 0] + rng.integers(0, 2, n) > 1).astype(int)]


def _regression(n=N):
    X, _ = _numbers(n)
    return X, X[:, 0] - X[:, 1] + np.random.default_rng(2).normal(size=n)


def _sparse(n=N):
    X, y = _numbers(n)
    return sparse.csr_matrix(np.where(np.abs(X) > 0.3, X, 0.0)), y


def _categorical(**parameters):
    return LaplaceNaiveBayes(
        distribution="categorical", categories=(3, 5), random_state=0, **parameters
    )


CASES = {
    "naive Bayes, categories": (_categorical(), _codes),
    "naive Bayes, categories from the data": (
        LaplaceNaiveBayes(distribution="categorical", random_state=0),
        _codes,
    ),
    "naive Bayes, one draw": (_categorical(mechanism="ops"), _codes),
    "naive Bayes, moments": (
        LaplaceNaiveBayes(2.0, 1e-6, distribution="gaussian", bounds=(-1, 1), random_state=0),
        _numbers,
    ),
    "naive Bayes, compressed": (LaplaceNaiveBayes(binarize=0.0, random_state=0), _sparse),
    "ridge": (PrivateBayesianRidge(target_bounds=(-3, 3), random_state=0), _regression),
    "objective": (ObjPertLogisticRegression(random_state=0), _numbers),
    "objective, pure, compressed": (ObjPertLogisticRegression(2.0, 0.0, random_state=0), _sparse),
    "objective, previewed": (
        ObjPertLogisticRegression(random_state=0, classes=[0, 1, 2]),
        lambda: _numbers(21_000, 2),
    ),
}


def _cuts(n, n_chunks, empty):
    """Uneven borders; with ``empty`` some chunks have no rows."""
    inner = np.sort(np.random.default_rng(n_chunks).integers(1, n, n_chunks - 1))
    borders = [0, *inner.tolist(), n]
    if empty:
        borders = [0, *borders, borders[1], n] if n_chunks == 1 else [0, *borders, n]
        borders = sorted(borders)
    return list(zip(borders[:-1], borders[1:], strict=True))


def _same(fitted, other):
    """Compare everything that a fit leaves behind, bit by bit."""
    state, others = dict(vars(fitted)), dict(vars(other))
    for held in (state, others):
        posterior = held.pop("_posterior")
        held["drawn"] = pickle.dumps(posterior.draws(1, 5)) if hasattr(posterior, "draws") else 0
    assert state.keys() == others.keys()
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            assert value.dtype == others[name].dtype, name
            assert np.array_equal(value, others[name]), name
        else:
            assert value == others[name], name


def _fit(model, *table):
    return pickle.loads(pickle.dumps(model)).fit(*table)


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    model, make = CASES[request.param]
    X, y = make()
    return model, X, y, _fit(model, X, y)


@pytest.mark.parametrize(("n_chunks", "empty"), [(1, False), (2, False), (7, False), (7, True)])
def test_row_blocks_give_the_bits_of_memory(case, n_chunks, empty):
    model, X, y, whole = case
    cuts = _cuts(X.shape[0], n_chunks, empty)
    blocks = RowBlocks([X[a:b] for a, b in cuts]), RowBlocks(lambda: (y[a:b] for a, b in cuts))
    _same(_fit(model, *blocks), whole)


@pytest.mark.parametrize(("n_chunks", "empty"), [(1, False), (2, False), (7, True)])
def test_dask_arrays_give_the_bits_of_memory(case, n_chunks, empty):
    da = pytest.importorskip("dask.array", reason="needs skdpbayes[dask]")
    model, X, y, whole = case
    cuts = _cuts(X.shape[0], n_chunks, empty)
    sizes = tuple(b - a for a, b in cuts)
    dense = X.toarray() if sparse.issparse(X) else X
    rows = da.from_array(dense, chunks=(sizes, X.shape[1]))
    if sparse.issparse(X):
        rows = rows.map_blocks(sparse.csr_matrix, dtype=float, meta=np.empty((0, 0)))
    _same(_fit(model, rows, da.from_array(y, chunks=(sizes,))), whole)
