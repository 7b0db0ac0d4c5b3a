"""The benchmark script runs without data or peers, merges its results and draws its page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
pytestmark = pytest.mark.skipif(
    not (FOLDER / "run.py").exists(), reason="the benchmarks are not part of this copy"
)


def run(*arguments):
    environment = {k: v for k, v in os.environ.items() if k != "SKDPBAYES_DATA"}
    command = [sys.executable, str(FOLDER / "run.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_quick_mode_writes_page_plots_and_results(tmp_path):
    pytest.importorskip("matplotlib")
    run("--quick", "--parts", "accuracy", "tables", "noise", "--seeds", 1, "--output", tmp_path)
    content = json.loads((tmp_path / "benchmarks.json").read_text())
    rows = [row for row in content["rows"] if row["part"] == "accuracy"]
    methods = {row["method"] for row in rows}
    assert {"ObjPertLogisticRegression", "DPSGLDClassifier", "LaplaceNaiveBayes"} <= methods
    assert all(0.4 < row["accuracy"] <= 1.0 and row["log_loss"] > 0.0 for row in rows)
    assert all(row["adjacency"] for row in rows)
    assert all(stamp["complete"] for stamp in content["stamps"].values())
    page = (tmp_path / "benchmarks.md").read_text()
    rows += [row for row in content["rows"] if row["part"] == "tables"]
    assert {row["part"] for row in rows} == {"accuracy", "tables"}
    for row in rows:
        assert row["method"].split(",")[0] in page
        assert f"{row['accuracy']:.4f}" in page
    for name in ("census_accuracy.png", "naive_bayes_accuracy.png"):
        assert f"(images/{name})" in page
        assert (tmp_path / "images" / name).stat().st_size > 10_000

    again = tmp_path / "again"
    run("--from", tmp_path / "benchmarks.json", "--output", again)
    assert (again / "benchmarks.md").read_text() == page


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import _page
    import _store

    return _store, _page


def test_results_of_one_side_merge_with_those_of_the_other(modules, tmp_path):
    store_module, _ = modules
    path = tmp_path / "results.json"
    store = store_module.Store(path)
    for who in ("ours", "peers"):
        store.begin("hmm", who)
        store.put(part="hmm", who=who, case="a", method=who, seconds=1.0)
        store.put(part="hmm", who=who, case="no longer measured", method=who, seconds=1.0)
        store.finish("hmm", who, 1.0)
    store = store_module.Store(path)
    store.begin("hmm", "ours")
    store.put(part="hmm", who="ours", case="a", method="ours", seconds=0.5)
    store.finish("hmm", "ours", 1.0)
    found = {
        (row["who"], row["case"]): row["seconds"]
        for row in store_module.Store(path).select(part="hmm")
    }
    assert found == {
        ("ours", "a"): 0.5,
        ("peers", "a"): 1.0,
        ("peers", "no longer measured"): 1.0,
    }


def test_data_sets_can_be_measured_apart(modules, tmp_path):
    store_module, _ = modules
    store = store_module.Store(tmp_path / "results.json")
    for data in ("a", "b"):
        store.begin("accuracy", "ours")
        store.put(part="accuracy", who="ours", data=data, method="m")
        store.finish("accuracy", "ours", 1.0, [data])
    again = store_module.Store(tmp_path / "results.json")
    again.begin("accuracy", "ours")
    again.put(part="accuracy", who="ours", data="b", method="n")
    again.finish("accuracy", "ours", 1.0, ["b"])
    assert {(row["data"], row["method"]) for row in again.rows} == {("a", "m"), ("b", "n")}


def test_only_like_is_compared_with_like(modules, tmp_path):
    store_module, page_module = modules
    store = store_module.Store(tmp_path / "results.json")
    numbers = {"auc": 0.9, "log_loss": 0.3, "seconds": 0.1, "accuracy_sd": 0.0, "n_seeds": 1}
    for who, method, adjacency, delta, accuracy in (
        ("ours", "A", "zero_out", 1e-5, 0.85),
        ("ours", "A", "replace_one", 0.0, 0.80),
        ("peers", "P", "zero_out", 1e-5, 0.84),
        ("peers", "Q", "replace_one", 0.0, 0.82),
    ):
        store.put(
            **{"part": "accuracy", "who": who, "data": "D", "method": method},
            **{"adjacency": adjacency, "delta": delta, "epsilon": 1.0, "settings": "s"},
            **{"accuracy": accuracy, **numbers},
        )
    store.put(part="noise", who="ours", case="c", method="skdpbayes", draws_a_second=300.0)
    store.put(part="noise", who="peers", case="c", method="OpenDP", draws_a_second=100.0)
    lines = [line.replace(" ", "") for line in page_module.ratios(store).splitlines()]
    assert "|`A`|P|zero_out|10⁻⁵|+1.00|" in lines
    assert "|`A`|Q|replace_one|0|-2.00|" in lines
    assert sum("`A`" in line for line in lines) == 2
    assert "|c|**skdpbayes**|300|3|" in lines
    page = page_module.write(store, {})
    assert "**0.8500**" in page
    assert "**0.8200**" in page
    assert "**0.8000**" not in page
