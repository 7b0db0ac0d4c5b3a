"""Fits on chunks are the fits in memory, to the last bit."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline

import skdpbayes
from skdpbayes import (
    BoundsScaler,
    DPSGLDClassifier,
    DPSGLDNetworkClassifier,
    DPSGLDRegressor,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLinearSVC,
    OPSLogisticRegression,
    PrivateBayesianRidge,
    PrivateBoundsScaler,
    PrivateHMM,
    RowBlocks,
    RowNormClipper,
)
from skdpbayes.datasets import make_event_log
from skdpbayes.fitting import chunks
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.units import share_out

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


def _with_gaps():
    X, y = _codes()
    X = X.astype(float)
    X[::7, 0] = X[1500:, 1] = np.nan  # a whole chunk, or more, without a value
    return X, y


def _regression(n=N):
    X, _ = _numbers(n)
    return X, X[:, 0] - X[:, 1] + np.random.default_rng(2).normal(size=n)


def _counts(n=N):
    X, _ = _numbers(n)
    return X, np.random.default_rng(2).poisson(np.exp(X[:, 0]))


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
    "naive Bayes, missing values": (_categorical(missing=True), _with_gaps),
    "naive Bayes, categories from the data with missing values": (
        LaplaceNaiveBayes(distribution="categorical", missing=True, random_state=0),
        _with_gaps,
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
    "chain": (DPSGLDClassifier(2.0, n_steps=8, random_state=0), _numbers),
    "chain, compressed, in batches": (
        DPSGLDClassifier(2.0, n_steps=8, batch_size=300, random_state=0, sampler="sghmc"),
        _sparse,
    ),
    "chain, batches of a fixed size": (
        DPSGLDClassifier(
            2.0,
            n_steps=8,
            batch_size=50,
            subsampling="fixed",
            preconditioner=None,
            classes=[0, 1, 2],
            random_state=0,
        ),
        _numbers,
    ),
    "chain of errors": (
        DPSGLDRegressor(2.0, target_bounds=(-3, 3), n_steps=8, random_state=0),
        _regression,
    ),
    "chain of counts": (
        DPSGLDRegressor(2.0, target_bounds=(0, 9), loss="poisson", n_steps=8, random_state=0),
        _counts,
    ),
    "network": (
        DPSGLDNetworkClassifier(2.0, n_steps=5, batch_size=N, n_kept=2, random_state=0),
        _numbers,
    ),
    "network, compressed, in batches": (
        DPSGLDNetworkClassifier(
            2.0, n_steps=5, batch_size=200, hidden_layer_sizes=(5, 3), n_kept=2, random_state=0
        ),
        _sparse,
    ),
    "one draw": (OPSLogisticRegression(2.0, 1e-6, n_batches=1, random_state=0), _numbers),
    "one draw, in batches": (
        OPSLogisticRegression(2.0, 1e-6, n_batches=4, n_steps=40, random_state=0),
        _sparse,
    ),
    "one draw, hinge": (OPSLinearSVC(2.0, 1e-6, n_batches=1, random_state=0), _numbers),
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
    return list(pairwise(borders))


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
        elif isinstance(value, list):  # one array per layer
            assert pickle.dumps(value) == pickle.dumps(others[name]), name
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
def test_dask_arrays_give_the_bits_of_memory(case, n_chunks, empty, monkeypatch):
    da = pytest.importorskip("dask.array", reason="needs skdpbayes[dask]")
    monkeypatch.setattr(chunks, "_cluster", lambda: (1, 1))  # several chunks are held together
    model, X, y, whole = case
    cuts = _cuts(X.shape[0], n_chunks, empty)
    sizes = tuple(b - a for a, b in cuts)
    dense = X.toarray() if sparse.issparse(X) else X
    rows = da.from_array(dense, chunks=(sizes, X.shape[1]))
    if sparse.issparse(X):
        rows = rows.map_blocks(sparse.csr_matrix, dtype=float, meta=np.empty((0, 0)))
    _same(_fit(model, rows, da.from_array(y, chunks=(sizes,))), whole)


@pytest.mark.parametrize(
    "name",
    [
        "objective",
        "objective, previewed",
        "chain",
        "chain, compressed, in batches",
        "chain of errors",
        "network",
        "network, compressed, in batches",
        "one draw, in batches",
    ],
)
def test_rows_that_are_not_held_are_made_anew_with_the_same_bits(name, monkeypatch):
    monkeypatch.setattr(chunks, "HELD_BYTES", 0)
    model, make = CASES[name]
    X, y = make()
    whole = _fit(model, X, y)
    cuts = _cuts(X.shape[0], 7, True)
    opened = []

    def rows():
        opened.append(1)
        yield from (X[a:b] for a, b in cuts)

    _same(_fit(model, RowBlocks(rows), RowBlocks([y[a:b] for a, b in cuts])), whole)
    # reading pass; with chains: moments, steps, errors
    passes = {"chain": 10, "chain of errors": 11, "network": 6}
    if name in passes:
        assert len(opened) == passes[name] + 1  # the type of the first block is looked at
    if sparse.issparse(X):
        return
    da = pytest.importorskip("dask.array", reason="needs skdpbayes[dask]")
    sizes = tuple(b - a for a, b in cuts)
    table = da.from_array(X, chunks=(sizes, -1)), da.from_array(y, chunks=(sizes,))
    _same(_fit(model, *table), whole)


def test_batches_of_all_records_are_the_default_in_chunks():
    X, y = _numbers()
    blocks = RowBlocks([X]), RowBlocks([y])
    settings = {"n_steps": 2, "random_state": 0}
    assert DPSGLDNetworkClassifier(**settings).fit(*blocks).batch_size_ == N
    assert DPSGLDNetworkClassifier(**settings).fit(X, y).batch_size_ == 256
    public = replace(DPSGLDClassifier()._read(*blocks).public, n=10**7)
    budget = DPSGLDClassifier()._budget(public)
    assert DPSGLDClassifier()._plan(public, budget).chain.batch_size == 10**7


# Persons: their records may be in several chunks


def _owners(n=N, kind=int):
    """Persons of a few records, one of hundreds, all of them in several chunks."""
    ids = np.random.default_rng(4).integers(0, 400, n)
    ids[ids < 120] = 7  # about 600 records, of which 256 are used
    return ids if kind is int else np.array([f"p{i}" for i in ids], dtype=object)


PERSONS = [
    "naive Bayes, categories",
    "naive Bayes, moments",
    "ridge",
    "objective",
    "objective, previewed",
    "chain",
    "chain of errors",
    "chain of counts",
    "network",
    "one draw",
]


@pytest.mark.parametrize("name", PERSONS)
def test_persons_may_be_spread_over_chunks(name):
    model, make = CASES[name]
    X, y = make()
    ids = _owners(X.shape[0], int if name == "chain" else str)
    if name == "objective, previewed":  # from 20,000 persons on
        model = ObjPertLogisticRegression(random_state=0)
        X, y = _numbers(45_000, 2)
        ids = np.random.default_rng(4).integers(0, 26_000, 45_000)
    if name == "network":
        model = DPSGLDNetworkClassifier(
            2.0, n_steps=5, n_kept=2, batch_size=len(np.unique(ids)), random_state=0
        )
    whole = _fit(model, X, y, ids)
    assert whole.privacy_.unit == "person"
    for n_chunks, empty in ((1, False), (2, False), (7, True)):
        cuts = _cuts(X.shape[0], n_chunks, empty)
        table = [RowBlocks([part[a:b] for a, b in cuts]) for part in (X, y, ids)]
        _same(_fit(model, *table), whole)
    da = pytest.importorskip("dask.array", reason="needs skdpbayes[dask]")
    sizes = tuple(b - a for a, b in cuts)
    table = [da.from_array(part, chunks=(sizes, -1)[: part.ndim]) for part in (X, y, ids)]
    _same(_fit(model, *table), whole)


def test_weights_of_persons_in_chunks_are_those_in_memory(monkeypatch):
    """By the definition: floor(2^16 / m) / 2^16, and the first of a long one's records evenly."""
    ids = _owners()
    X = np.arange(float(N))[:, None]
    used, weight = share_out(np.unique(ids, return_inverse=True)[1], len(np.unique(ids)))
    expected = np.zeros(N)
    expected[used] = weight
    model = DPSGLDClassifier()
    cuts = _cuts(N, 7, True)
    rows = model._read(
        RowBlocks([X[a:b] for a, b in cuts]), RowBlocks([np.arange(a, b) % 2 for a, b in cuts])
    )
    rows = replace(rows, bound=Bound()).of_units(RowBlocks([ids[a:b] for a, b in cuts]))
    shares = rows.shares
    assert rows.public.n == len(np.unique(ids))
    found = np.zeros(N)

    def note(block):
        found[block.X[:, 0].astype(int)] = block.weight
        return np.zeros(1)

    rows.total(note)
    assert np.array_equal(found, expected)
    # together nobody weighs more than 1, however the chunks are cut
    assert np.bincount(ids, weights=found).max() <= 1.0
    # a mutant that knows of every chunk alone splits persons
    alone = tuple(share._replace(totals=share.counts, before=0 * share.before) for share in shares)
    replace(rows, shares=alone).total(note)
    assert np.bincount(ids, weights=found).max() > 1.0


def test_wrong_ids_are_refused_before_the_charge_and_not_quoted():
    X, y = _numbers(100)
    blocks = RowBlocks([X[:50], X[50:]]), RowBlocks([y[:50], y[50:]])
    model = ObjPertLogisticRegression(classes=[0, 1], ledger=_Refusing())
    ids = np.arange(100.0)
    gap = np.where(ids == 77, np.nan, ids)
    for units, message in [
        (ids, "both must be in chunks"),
        (RowBlocks([ids[:50]]), "one id per record"),
        (RowBlocks([ids[:40], ids[40:]]), "one id per record"),
        (RowBlocks([gap[:50], gap[50:]]), "without an id"),
        (RowBlocks([["secret"] * 50, [["secret"]] * 50]), "no number and no word"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message) as caught:
            model.fit(*blocks, units=units)
        assert "secret" not in str(caught.value)
    chain = DPSGLDClassifier(batch_size=10, ledger=_Refusing())
    with pytest.raises(ValueError, match="several chunks"):
        chain.fit(*blocks, units=RowBlocks([ids[:50], ids[50:]]))


def test_persons_who_change_between_passes_are_refused():
    X, y = _numbers(100)
    asked = []

    def ids():
        asked.append(1)
        return [np.arange(100) if len(asked) == 1 else np.zeros(100)]

    with pytest.raises(RuntimeError, match="other records"):
        ObjPertLogisticRegression().fit(RowBlocks([X]), RowBlocks([y]), units=RowBlocks(ids))


# Hidden Markov models


def _hmm(**parameters):
    return PrivateHMM(
        2.0, n_states=2, n_iter=4, burn_in=2, n_chains=1, random_state=0, **parameters
    )


def _log():
    log = make_event_log(4, 6, 40, n_states=2, categories=(4, 2), random_state=1)
    order = np.random.default_rng(0).permutation(len(log.data))
    return log.data[order], log.times[order], log.sequences[order]


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("mechanism", ["laplace", "ops"])
def test_event_logs_in_chunks_give_the_bits_of_memory(given, mechanism):
    X, times, sequences = _log()
    public = {"categories": (4, 2), "n_times": 7, "sequence_labels": [3, 2, 1, 0, 9]}
    model = _hmm(mechanism=mechanism, **(public if given else {}))
    for columns in (
        {"times": times, "sequences": sequences},
        {"times": times} if not given else {"sequences": np.array(list("abcd"))[sequences]},
    ):
        if given and len(columns) == 1:
            model = _hmm(mechanism=mechanism)
        whole = pickle.loads(pickle.dumps(model)).fit(X, **columns)
        for n_chunks, empty in ((1, False), (2, False), (7, True)):
            cuts = _cuts(len(X), n_chunks, empty)
            parts = {k: RowBlocks([v[a:b] for a, b in cuts]) for k, v in columns.items()}
            fitted = pickle.loads(pickle.dumps(model)).fit(
                RowBlocks([X[a:b] for a, b in cuts]), **parts
            )
            _same_hmm(fitted, whole)
        da = pytest.importorskip("dask.array", reason="needs skdpbayes[dask]")
        sizes = tuple(b - a for a, b in cuts)
        parts = {k: da.from_array(v, chunks=(sizes,)) for k, v in columns.items()}
        fitted = pickle.loads(pickle.dumps(model)).fit(
            da.from_array(X, chunks=(sizes, -1)), **parts
        )
        _same_hmm(fitted, whole)


def test_persons_of_event_logs_may_be_spread_over_chunks():
    X, times, sequences = _log()
    ids = np.random.default_rng(0).integers(0, 300, len(X))
    model = _hmm(categories=(4, 2), n_times=6, sequence_labels=range(4))
    whole = pickle.loads(pickle.dumps(model)).fit(X, times=times, sequences=sequences, units=ids)
    cuts = _cuts(len(X), 7, True)
    table = [RowBlocks([v[a:b] for a, b in cuts]) for v in (X, times, sequences, ids)]
    names = ("times", "sequences", "units")
    _same_hmm(model.fit(table[0], **dict(zip(names, table[1:], strict=True))), whole)
    assert model.privacy_.unit == "person"


def _same_hmm(fitted, whole):
    assert fitted.privacy_ == whole.privacy_
    assert np.array_equal(fitted.states_, whole.states_)
    assert np.array_equal(fitted.transition_, whole.transition_)
    assert all(np.array_equal(a, b) for a, b in zip(fitted.emission_, whole.emission_, strict=True))
    assert pickle.dumps(fitted._posterior.draws(2, 1)) == pickle.dumps(whole._posterior.draws(2, 1))


def test_wrong_events_are_refused_before_the_charge_and_not_quoted():
    X, times, sequences = _log()
    names = np.array(["a", "b", "c", "secret"])[sequences]
    model = _hmm(categories=(4, 2), n_times=6, sequence_labels=["a", "b", "c"], ledger=_Refusing())

    def halves(values):
        return RowBlocks([values[:50], values[50:]])

    late = np.where(np.arange(len(X)) == 60, 987654, times)
    known = np.where(names == "secret", "a", names)
    for table, columns, message in [
        (X, {"times": times, "sequences": names}, "not among the sequence_labels"),
        (X, {"times": late, "sequences": known}, "times must lie in 0..5"),
        (X + 3, {"times": times, "sequences": known}, "beyond its categories"),
        (X - 1, {"times": times, "sequences": known}, "Negative"),
        (X, {"times": times[:-1], "sequences": known}, "different lengths"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            model.fit(halves(table), **{k: halves(v) for k, v in columns.items()})
        assert "secret" not in str(caught.value)
        assert "987654" not in str(caught.value)
    with pytest.raises(TypeError, match="in chunks"):
        model.fit(halves(X), times=times, sequences=halves(known))
    with pytest.raises(TypeError, match="X is not"):
        model.fit(X, times=halves(times), sequences=halves(known))
    with pytest.raises(ValueError, match="pass times"):
        _hmm(ledger=_Refusing()).fit(halves(X))


def _arrays(X, y, n_chunks=4):
    da = pytest.importorskip("dask.array", reason="needs skdpbayes[dask]")
    size = -(-X.shape[0] // n_chunks)
    return da.from_array(X, chunks=(size, -1)), da.from_array(y, chunks=size)


def _frames(X, y, n_chunks=3):
    dd = pytest.importorskip("dask.dataframe", reason="needs skdpbayes[dask]")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]).assign(y=y)
    chunked = dd.from_pandas(frame, npartitions=n_chunks, sort=False)
    return chunked.drop(columns="y"), chunked["y"], frame.drop(columns="y"), frame["y"]


@pytest.mark.parametrize(
    "name",
    [
        "naive Bayes, categories",
        "ridge",
        "objective",
        "chain of errors",
        "chain, batches of a fixed size",
    ],
)
def test_dask_frames_give_the_bits_of_memory_and_their_names(name, monkeypatch):
    monkeypatch.setattr(chunks, "HELD_BYTES", 0)  # rows of a batch are taken from frames
    model, make = CASES[name]
    X, y = make()
    rows, labels, frame, y = _frames(X, y)
    fitted = _fit(model, rows, labels)
    _same(fitted, _fit(model, frame, y))
    predicted = fitted.predict(rows)
    assert predicted.dtype == fitted.predict(frame).dtype
    assert np.array_equal(predicted.compute(), fitted.predict(frame))


def test_neither_the_order_of_chunks_nor_of_their_completion_matters(case):
    """Chunks are reversed, and a scheduler finishes the tasks in an order drawn at random."""
    dask = pytest.importorskip("dask", reason="needs skdpbayes[dask]")
    from concurrent.futures import ThreadPoolExecutor
    from time import sleep

    model, X, y, whole = case
    if sparse.issparse(X):
        pytest.skip("the order of dense rows says it all")
    rows, labels = _arrays(X, y, 7)
    wait = np.random.default_rng(3).permutation(7)

    def late(block, block_info=None):
        sleep(0.002 * wait[block_info[0]["chunk-location"][0]])
        return block

    rows = rows.map_blocks(late, dtype=rows.dtype, meta=X[:0])
    if getattr(model, "batch_size", None) in (None, "auto", N):  # batches are of numbered rows
        rows, labels = rows[::-1], labels[::-1]
    with ThreadPoolExecutor(4) as pool, dask.config.set(pool=pool):
        _same(_fit(model, rows, labels), whole)


def test_conjugate_models_read_chunks():
    from skdpbayes import conjugate

    rng = np.random.default_rng(0)
    normal = rng.normal(size=500)
    for model, data in [
        (conjugate.BetaBernoulli(), (normal > 0).astype(int)),
        (conjugate.DirichletCategorical(4), rng.integers(0, 4, 500)),
        (conjugate.GammaPoisson(10), rng.poisson(3, 500)),
        (conjugate.NormalMean((-3, 3), 1.0), normal),
        (conjugate.NormalMeanVariance((-3, 3)), normal),
    ]:
        blocks = RowBlocks([data[:1], data[1:1], data[1:333], data[333:]])
        whole = model.posterior(data, 1.0, random_state=0)
        part = model.posterior(blocks, 1.0, random_state=0)
        assert pickle.dumps(part.released_) == pickle.dumps(whole.released_)
        assert part.privacy_ == whole.privacy_
        with pytest.raises(ValueError, match="need noise"):
            model.posterior(blocks, 1.0, mechanism="ops")
    with pytest.raises(ValueError, match="zeros and ones"):
        conjugate.BetaBernoulli().posterior(RowBlocks([[0, 1], [0, 7]]))
    with pytest.raises(ValueError, match="at least 2 records"):
        conjugate.NormalMeanVariance((-3, 3)).posterior(RowBlocks([[0.5]]))
    da = pytest.importorskip("dask.array", reason="needs skdpbayes[dask]")
    model, flips = conjugate.BetaBernoulli(), (normal > 0).astype(int)
    chunked = model.posterior(da.from_array(flips, chunks=70), 1.0, random_state=0)
    assert chunked.released_ == model.posterior(flips, 1.0, random_state=0).released_


def test_predictions_are_lazy_and_know_their_type():
    da = pytest.importorskip("dask.array", reason="needs skdpbayes[dask]")
    X, y = _numbers()
    rows, labels = _arrays(X, y)
    model = ObjPertLogisticRegression(random_state=0).fit(rows, labels)
    for method, width in [("predict", ()), ("decision_function", ()), ("predict_proba", (2,))]:
        made = getattr(model, method)(rows)
        assert isinstance(made, da.Array)
        assert made.shape == (N, *width)
        expected = getattr(model, method)(X)
        assert made.dtype == expected.dtype
        np.testing.assert_allclose(made.compute(), expected, rtol=1e-12)
        blocks = getattr(model, method)(RowBlocks([X[:900], X[900:900], X[900:]]))
        parts = [part for part in blocks if part.shape[0]]
        np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-12)
    assert model.score(rows, labels) == model.score(X, y)
    for model in (CASES["chain"][0], CASES["network"][0], CASES["one draw"][0]):
        fitted = _fit(model, rows, labels)
        made = fitted.predict_proba(rows)
        assert (made.shape, made.dtype) == ((N, 2), fitted.predict_proba(X[:5]).dtype)
        np.testing.assert_allclose(made.compute(), fitted.predict_proba(X), rtol=1e-5)
    X, y = _regression()
    rows, labels = _arrays(X, y)
    for model in (CASES["ridge"][0], CASES["chain of errors"][0]):
        fitted = _fit(model, rows, labels)
        for made, expected in zip(
            fitted.predict(rows, return_std=True), fitted.predict(X, return_std=True), strict=True
        ):
            assert made.dtype == expected.dtype
            np.testing.assert_allclose(made.compute(), expected, rtol=1e-12)


def test_pipelines_of_our_transformers_read_chunks():
    X, y = _numbers()
    rows, labels = _arrays(X, y)
    blocks = RowBlocks([X[:300], X[300:300], X[300:]]), RowBlocks([y[:300], y[300:300], y[300:]])
    for first in (
        BoundsScaler((-2, 2), norm=1.0),
        PrivateBoundsScaler(1.0, range=(-3, 3), random_state=1),
        RowNormClipper(0.7),
    ):
        pipeline = make_pipeline(first, ObjPertLogisticRegression(random_state=0))
        whole = _fit(pipeline, X, y)[-1].coef_
        assert np.array_equal(_fit(pipeline, rows, labels)[-1].coef_, whole)
        assert np.array_equal(_fit(pipeline, *blocks)[-1].coef_, whole)
        fitted = _fit(pipeline, rows, labels)
        assert fitted[0].transform(rows).dtype == float
        np.testing.assert_allclose(
            fitted.predict_proba(rows).compute(), fitted.predict_proba(X), rtol=1e-12
        )


def test_the_preprocessor_of_frames_with_words_reads_chunks():
    dd = pytest.importorskip("dask.dataframe", reason="needs skdpbayes[dask]")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.uniform(0, 90, 400), "sex": np.where(rng.random(400) < 0.5, "f", "m")}
    )
    y = (frame["age"] > 40).astype(int)
    pipeline = make_pipeline(
        skdpbayes.private_preprocessor(bounds={"age": (0, 100)}, categories={"sex": ["f", "m"]}),
        ObjPertLogisticRegression(random_state=0),
    )
    chunked = dd.from_pandas(frame.assign(y=y), npartitions=3, sort=False)
    fitted = _fit(pipeline, chunked.drop(columns="y"), chunked["y"])
    assert np.array_equal(fitted[-1].coef_, _fit(pipeline, frame, y)[-1].coef_)


class _Refusing:
    """A ledger that nobody may charge."""

    def reserve(self, guarantee, label=""):
        raise AssertionError("the ledger was charged for a table that is not valid")


SECRET = 987654.25


def _bad_tables():
    da = pytest.importorskip("dask.array", reason="needs skdpbayes[dask]")
    dd = pytest.importorskip("dask.dataframe", reason="needs skdpbayes[dask]")
    pd = pytest.importorskip("pandas")
    X, y = _numbers(100)
    X[0, 0] = SECRET
    rows, labels = _arrays(X, y)
    missing = X.copy()
    missing[70, 1] = np.nan
    words = pd.DataFrame({"a": ["987654.25", "x"] * 50, "b": np.arange(100.0)})
    words = dd.from_pandas(words, npartitions=2, sort=False)
    return {
        "column chunks": (rows.rechunk({1: 2}), labels, r"rechunk\(\{1: -1\}\)"),
        "other chunks": (rows, labels.rechunk(10), "y.rechunk"),
        "other lengths": (rows, da.from_array(y, chunks=((10, 40, 25, 25),)), "y.rechunk"),
        "no chunks of y": (rows, y, "from_array"),
        "objects": (rows.astype(object), labels, "plain numbers|numbers are needed"),
        "words": (words, labels.rechunk(50), "a"),
        "text": (RowBlocks([np.array([["987654.25x", "1"]] * 2)]), RowBlocks([[0, 1]]), "numbers"),
        "no rows": (rows[:0], labels[:0], r"0 sample"),
        "no blocks": (RowBlocks([]), RowBlocks([]), "0 sample|no blocks"),
        "NaN": (_arrays(missing, y)[0], labels, "A chunk of X contains NaN"),
        "another label": (rows, da.where(labels == 1, 5, labels), r"outside classes=\[0, 1\]"),
        "blocks": (RowBlocks([X]), RowBlocks([y[:50], y[50:]]), "different numbers|lengths"),
        "columns": (RowBlocks([X[:50], X[50:, :2]]), RowBlocks([y[:50], y[50:]]), "columns"),
    }


@pytest.mark.parametrize("wrong", list(range(13)))
def test_what_is_wrong_is_said_before_the_charge_and_quotes_no_value(wrong):
    X, y, message = list(_bad_tables().values())[wrong]
    model = ObjPertLogisticRegression(classes=[0, 1], random_state=0, ledger=_Refusing())
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        model.fit(X, y)
    assert "987654" not in str(caught.value)
    assert not hasattr(model, "n_features_in_")


def test_missing_values_are_found_in_the_reading_pass():
    X, y = _numbers(100)
    X[77, 0] = np.nan
    model = LaplaceNaiveBayes(
        distribution="gaussian", bounds=(-2, 2), classes=[0, 1], ledger=_Refusing()
    )
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(RowBlocks([X[:50], X[50:]]), RowBlocks([y[:50], y[50:]]))


def test_wrong_codes_are_found_in_the_reading_pass():
    X, y = _codes(100)
    X[77, 0] = 3
    model = _categorical(ledger=_Refusing())
    with pytest.raises(ValueError, match="column 0"):
        model.fit(RowBlocks([X[:50], X[50:]]), RowBlocks([y[:50], y[50:]]))


def test_estimators_that_need_memory_say_so():
    X, y = _numbers(100)
    blocks = RowBlocks([X]), RowBlocks([y])
    for model in (
        OPSLogisticRegression(delta=0.0, coef_norm=1.0, ledger=_Refusing()),
        OPSLogisticRegression(delta=1e-6, sampler="hmc", ledger=_Refusing()),
        OPSLinearSVC(delta=1e-6, coef_norm=1.0, sampler="rejection", ledger=_Refusing()),
        OPSLogisticRegression(np.inf),
    ):
        with pytest.raises(ValueError, match="sampler='langevin'"):
            model.fit(*blocks)
    for model in (
        DPSGLDClassifier(np.inf),
        DPSGLDNetworkClassifier(np.inf),
        DPSGLDRegressor(np.inf, target_bounds=(0, 1)),
    ):
        with pytest.raises(ValueError, match="in memory only"):
            model.fit(*blocks)
    with pytest.raises(ValueError, match="in memory only"):
        PrivateBayesianRidge(np.inf, target_bounds=(-1, 1)).fit(*blocks)
    with pytest.raises(ValueError, match="in memory"):
        LaplaceNaiveBayes(np.inf, distribution="gaussian").fit(*blocks)


def test_a_table_that_changes_between_passes_is_refused():
    X, y = _numbers(100)
    passes = []

    def rows():
        passes.append(len(passes))
        yield X
        if len(passes) > 2:  # after the reading pass
            yield X

    model = ObjPertLogisticRegression(random_state=0, classes=[0, 1])
    with pytest.raises((RuntimeError, ValueError), match="number"):
        model.fit(RowBlocks(rows), RowBlocks(lambda: iter([y] * (2 if len(passes) > 2 else 1))))
    with pytest.raises(TypeError, match="read once only"):
        RowBlocks(iter([X]))


def test_passes_are_as_many_as_the_documentation_says():
    X, y = _codes()
    opened = []

    def rows():
        opened.append(1)
        yield from (X[:900], X[900:])

    _categorical().fit(RowBlocks(rows), RowBlocks([y[:900], y[900:]]))
    # the type of the first block is looked at; one pass reads, one counts
    assert len(opened) == 1 + 2


def test_without_noise_chunks_agree_up_to_rounding():
    X, y = _numbers()
    blocks = RowBlocks([X[:900], X[900:]]), RowBlocks([y[:900], y[900:]])
    model = ObjPertLogisticRegression(np.inf, C=1.0)
    np.testing.assert_allclose(model.fit(*blocks).coef_, model.fit(X, y).coef_, rtol=1e-6)


def test_dask_is_imported_by_its_users_alone():
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, skdpbayes; from skdpbayes import RowBlocks;"
        "X = np.eye(4).repeat(50, 0);"
        "y = np.arange(200) % 2;"
        "skdpbayes.ObjPertLogisticRegression().fit(X, y).predict(X);"
        "skdpbayes.ObjPertLogisticRegression().fit(RowBlocks([X]), RowBlocks([y]));"
        "assert 'dask' not in sys.modules and 'psycopg' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
