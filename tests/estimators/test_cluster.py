"""Fits on a cluster of processes: the bits of memory, also when a worker is killed."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path

import numpy as np
import pytest

from skdpbayes import (
    DPSGLDClassifier,
    DPSGLDNetworkClassifier,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLogisticRegression,
    PrivacyLedger,
    PrivateBayesianRidge,
)

distributed = pytest.importorskip("distributed", reason="needs skdpbayes[dask]")
da = pytest.importorskip("dask.array", reason="needs skdpbayes[dask]")

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

N, CHUNK = 1200, 300


def _table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)) * 0.4
    return X, (X[:, 0] + 0.3 * rng.normal(size=N) > 0).astype(int)


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def _load(block, folder, at, block_info=None):
    """Give a block back; kill the process at the ``at``-th reading of the second one, once."""
    if block_info and block_info[0]["chunk-location"][0] == 1:
        marks = Path(folder)
        seen = len(list(marks.iterdir()))
        (marks / str(seen)).touch()
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.parametrize(
    ("model", "at"),
    [
        (PrivateBayesianRidge(target_bounds=(-1, 2), random_state=0), 0),  # the reading pass
        (LaplaceNaiveBayes(binarize=0.0, random_state=0), 1),  # the pass that is paid for
        (ObjPertLogisticRegression(random_state=0), 1),  # rows are made ready for the minimizer
        (DPSGLDClassifier(n_steps=4, random_state=0), 2),  # rows are made ready for the chain
    ],
    ids=["ridge", "naive Bayes", "objective", "chain"],
)
def test_a_killed_worker_changes_nothing_and_the_ledger_is_charged_once(
    client, tmp_path, model, at
):
    X, y = _table()
    marks = tmp_path / "marks"
    marks.mkdir()
    rows = da.from_array(X, chunks=(CHUNK, -1)).map_blocks(
        _load, str(marks), at, dtype=float, meta=X[:0]
    )
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=10.0, delta=1e-3)
    whole = pickle.loads(pickle.dumps(model)).fit(X, y)
    fitted = pickle.loads(pickle.dumps(model)).set_params(ledger=ledger)
    fitted.fit(rows, da.from_array(y, chunks=CHUNK))
    name = "statistics_" if hasattr(whole, "statistics_") else "coef_"
    assert np.array_equal(getattr(fitted, name), getattr(whole, name))
    assert len(ledger.entries()) == 1
    assert len(list(marks.iterdir())) > max(2, at + 1)  # read once more: somebody was killed


@pytest.mark.parametrize(
    "model",
    [
        DPSGLDClassifier(n_steps=6, random_state=0),
        ObjPertLogisticRegression(random_state=0),
        pytest.param(
            DPSGLDNetworkClassifier(n_steps=6, batch_size=100, random_state=0),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            OPSLogisticRegression(delta=1e-6, n_batches=1, n_steps=6, random_state=0),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["chain", "objective", "network in batches", "one draw"],
)
def test_a_worker_killed_in_the_middle_of_a_chain_changes_nothing(
    client, tmp_path, monkeypatch, model
):
    """Rows that it held ready are made again elsewhere."""
    from skdpbayes.fitting.chunks import Prepared

    X, y = _table()
    total, steps, killed = Prepared.total, [], []

    def deadly(self, *args, **kwargs):
        steps.append(1)
        if len(steps) == 3:
            assert self.held is not None
            pids = client.run(os.getpid)
            killed.append(pids.popitem()[1])
            os.kill(killed[0], signal.SIGKILL)
        return total(self, *args, **kwargs)

    monkeypatch.setattr(Prepared, "total", deadly)
    whole = pickle.loads(pickle.dumps(model)).fit(X, y)
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=10.0, delta=1e-3)
    fitted = pickle.loads(pickle.dumps(model)).set_params(ledger=ledger)
    fitted.fit(da.from_array(X, chunks=(CHUNK, -1)), da.from_array(y, chunks=CHUNK))
    assert killed
    assert len(steps) >= 6
    name = "coef_" if hasattr(whole, "coef_") else "coefs_"
    assert pickle.dumps(getattr(fitted, name)) == pickle.dumps(getattr(whole, name))
    assert len(ledger.entries()) == 1


def _spoiled(block, folder, block_info=None):
    """Another table from the second reading on: text in place of numbers."""
    marks = Path(folder)
    if block_info and block_info[0]["chunk-location"][0] == 1:
        (marks / str(len(list(marks.iterdir())))).touch()
        if len(list(marks.iterdir())) > 1:
            return np.full(block.shape, "secret-987654")
    return block


@pytest.mark.parametrize(
    "model",
    [
        ObjPertLogisticRegression(random_state=0),
        pytest.param(
            DPSGLDClassifier(n_steps=3, preconditioner=None, random_state=0),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["objective", "chain"],
)
def test_what_fails_in_a_task_is_not_quoted_by_anybody(client, tmp_path, model):
    X, y = _table()
    rows = da.from_array(X, chunks=(CHUNK, -1)).map_blocks(
        _spoiled, str(tmp_path), dtype=float, meta=X[:0]
    )
    with pytest.raises(RuntimeError, match=r"A task failed on a chunk \(ValueError") as caught:
        model.fit(rows, da.from_array(y, chunks=CHUNK))
    assert "987654" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    logs = client.get_worker_logs()
    assert all("987654" not in line for lines in logs.values() for _, line in lines)


def test_a_failed_check_says_nothing_about_the_rows_in_a_worker_either(client):
    X, y = _table()
    X[400, 1], X[401, 1] = 987654.25, np.nan
    model = ObjPertLogisticRegression(random_state=0, classes=[0, 1])
    with pytest.raises(ValueError, match="A chunk of X contains NaN") as caught:
        model.fit(da.from_array(X, chunks=(CHUNK, -1)), da.from_array(y, chunks=CHUNK))
    assert "987654" not in str(caught.value)
    logs = client.get_worker_logs()
    assert all("987654" not in line for lines in logs.values() for _, line in lines)


def test_names_of_tasks_hold_no_number_of_the_data(client):
    """Keys are the names of functions and random numbers: nothing is hashed into them."""
    from skdpbayes.fitting.chunks import Chunks, Part

    X, _ = _table()
    rows = da.from_array(X, chunks=(CHUNK, -1))
    first, second = (Chunks(rows)._tasks(_counted) for _ in range(2))
    assert {task.key.rpartition("-")[0][:8] for task in first} == {"_counted"}
    assert not {task.key for task in first} & {task.key for task in second}
    assert Chunks(rows).total(_counted) == Part(N, N)


def _counted(X, y):
    from skdpbayes.fitting.chunks import Part

    return Part(X.shape[0], X.shape[0])


def test_a_lost_scheduler_is_a_clear_error_and_the_charge_stays(tmp_path):
    X, y = _table()
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=10.0, delta=1e-3)
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=50
    )
    with distributed.Client(cluster, timeout=2):

        class Closing:
            def reserve(self, guarantee, label=""):
                number = ledger.reserve(guarantee, label)
                cluster.close()
                return number

        rows, labels = da.from_array(X, chunks=(CHUNK, -1)), da.from_array(y, chunks=CHUNK)
        with pytest.raises(RuntimeError, match="cluster did not finish") as caught:
            ObjPertLogisticRegression(random_state=0, ledger=Closing()).fit(rows, labels)
    assert any("spent" in note for note in caught.value.__notes__)
    assert len(ledger.entries()) == 1
