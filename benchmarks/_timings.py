"""Speed: a fit, gradients a second, sweeps of a hidden Markov model, HMC, exact noise.

Most of the work is in the ``bench_*.py`` beside this file; here it is run next to the peers and
written down.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path

import bench_dpsgld
import bench_hmm
import bench_ops
import bench_randomness
import numpy as np
from _accuracy import DELTA
from _environments import run_job
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import CategoricalNB

import skdpbayes
from skdpbayes import randomness

READINGS = {  # what bench_hmm calls them, and how a reader would
    "as they are": "noisy counts taken as they are",
    "noise aware": "noise modeled",
    "exact rows": "counts without noise",
    "noise aware, rows": "noise modeled",
}


def _put(store, part, who, **row):
    store.put(part=part, who=who, **row)
    text = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{value}"
        for name, value in row.items()
    )
    print(f"{part}: {text}", flush=True)


def speed(store, sets, only, pythons, threads, quick):
    """Seconds of one fit at epsilon 1, everybody in turn; then gradients a second."""
    rows = next(data for data in sets if data.sizes is None)
    tables = next(data for data in sets if data.sizes is not None)
    rounds, best = 2 if quick else 5, {}
    cases = list(_own_fits(rows, tables)) if "ours" in only else []
    for _ in range(rounds):  # in turn, so that other work on the machine meets everybody
        for key, fit in cases:
            start = time.perf_counter()
            fit()
            best[key] = min(best.get(key, np.inf), time.perf_counter() - start)
    for (case, method, adjacency, delta), seconds in best.items():
        _put(
            store,
            "speed",
            "ours",
            **{"case": case, "method": method, "adjacency": adjacency, "delta": delta},
            seconds=seconds,
        )
    if "peers" in only:
        _peer_fits(store, rows, tables, pythons, threads, rounds)
    _throughput(store, rows, only, pythons, threads, quick)


def _own_fits(rows, tables):
    fits = [
        ("ObjPertLogisticRegression", "zero_out", DELTA, {"fit_intercept": False}),
        ("ObjPertLogisticRegression", "replace_one", 0.0, {"fit_intercept": False}),
        ("OPSLogisticRegression", "zero_out", DELTA, {}),
        ("DPSGLDClassifier", "zero_out", DELTA, {}),
    ]
    tabular = {"distribution": "categorical", "categories": tables.sizes}
    for data, name, adjacency, delta, params in (
        *((rows, *fit) for fit in fits),
        (tables, "LaplaceNaiveBayes", "replace_one", 0.0, tabular),
    ):
        model = getattr(skdpbayes, name)(epsilon=1.0, delta=delta, adjacency=adjacency, **params)
        model.fit(data.X, data.y)  # compile, and calibrate once: that is cached
        key = (f"one fit, {data.name}", name, adjacency, delta)
        yield key, lambda model=model, data=data: model.fit(data.X, data.y)
    for data, model in (
        (rows, LogisticRegression()),
        (tables, CategoricalNB(min_categories=tables.sizes)),
    ):
        key = (f"one fit, {data.name}", f"scikit-learn {type(model).__name__}", "not private", None)
        yield key, lambda model=model, data=data: model.fit(data.X, data.y)


def _peer_fits(store, rows, tables, pythons, threads, rounds):
    for peer, data, method, adjacency, delta in (
        ("diffprivlib", rows, "diffprivlib LogisticRegression", "replace_one", 0.0),
        ("diffprivlib", tables, "diffprivlib GaussianNB", "not stated", 0.0),
        ("opacus", rows, "Opacus DP-SGD, 100 full batches", "zero_out", DELTA),
    ):
        if peer not in pythons:
            continue
        job = {"task": "speed", "repeats": rounds, "threads": threads, "delta": DELTA}
        for found in run_job(peer, pythons[peer], job, data.arrays()):
            if "versions" in found:
                store.add_versions("speed", "peers", found["versions"])
                continue
            _put(
                store,
                "speed",
                "peers",
                **{"case": f"one fit, {data.name}", "method": method},
                **{"adjacency": adjacency, "delta": delta, "seconds": found["seconds"]},
            )


def _throughput(store, rows, only, pythons, threads, quick):
    """Examples a second at batches of 1024 and 4096."""
    for label, hidden in (("logistic", ()), ("MLP 128-64", bench_dpsgld.HIDDEN)):
        case = f"gradients, {label}"
        if "ours" in only:
            for size, count in ((1024, 400 if hidden else 2000), (4096, 100 if hidden else 500)):
                batch, steps = min(size, len(rows.X) // 2), 10 if quick else count
                rate, _ = bench_dpsgld.chain_rate(rows.X, rows.y, hidden, batch, steps)
                method = f"DPSGLDClassifier, batch {size}"
                _put(store, "speed", "ours", case=case, method=method, examples_a_second=rate)
        if "peers" in only and "opacus" in pythons:
            for name, rate in _opacus_rates(rows, hidden, pythons["opacus"], threads, quick):
                method = f"Opacus, {name}"
                _put(store, "speed", "peers", case=case, method=method, examples_a_second=rate)


def _opacus_rates(rows, hidden, python, threads, quick):
    names = {
        "stock": "stock loader, batch 1024",
        "fed_1024": "batches from memory, 1024",
        "fed_4096": "batches from memory, 4096",
        "ghost_4096": "ghost clipping, 4096",
    }
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", rows.X)
        np.save(Path(folder) / "y.npy", rows.y)
        seconds = "1" if quick else "4"
        command = [python, "-c", bench_dpsgld.OPACUS_SPEED, folder, json.dumps(hidden)]
        command += ["1024", seconds, str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    for key, rate in json.loads(done.stdout.strip().splitlines()[-1]).items():
        yield names.get(key, key), rate


def hmm(store, only, quick):
    """One Gibbs sweep against one EM iteration of hmmlearn on the same counts."""
    for peer, events, readings in (
        ("MultinomialHMM", bench_hmm.EVENTS, ("as they are", "noise aware")),
        ("CategoricalHMM", 1, ("exact rows", "noise aware, rows")),
    ):
        for n_sequences, n_times in ((20, 200), (1, 10_000 if quick else 100_000)):
            for n_states in (3,) if quick else (3, 10):
                counts = bench_hmm.make_counts(n_sequences, n_times, n_states, events)
                lengths = np.full(n_sequences, n_times)
                case = (
                    f"{n_sequences} × {n_times:,} steps, {n_states} states, events: {events} a step"
                )
                for reading in readings if "ours" in only else ():
                    took = bench_hmm.sweep_time(
                        counts, lengths, n_states, reading, 2 if quick else 5
                    )
                    method = f"PrivateHMM Gibbs sweep, {READINGS[reading]}"
                    _put(store, "hmm", "ours", case=case, method=method, seconds=took)
                if "peers" in only:
                    took = bench_hmm.hmmlearn_time(
                        peer, counts, lengths, n_states, 1 if quick else 2
                    )
                    if took is not None:
                        method = f"hmmlearn {peer}, EM iteration"
                        _put(store, "hmm", "peers", case=case, method=method, seconds=took)


def hmc(store, sets, only, quick):
    """Effective draws per second of the posterior of the same rows and prior."""
    rows = next(data for data in sets if data.sizes is None)
    n = min(len(rows.X), 1_000 if quick else 10_000)
    X, y = np.ascontiguousarray(rows.X[:n]), rows.y[:n].astype(np.int64)
    design = np.column_stack([X, np.ones(n)])
    case = f"{n:,} rows of {rows.name}, {design.shape[1]} coefficients, prior sd 3"
    for who, method, run in (
        ("ours", "skdpbayes HMC", lambda: bench_ops.ours(X, y)),
        ("peers", "nutpie NUTS", lambda: bench_ops.nutpie(design, y, quick)),
        ("peers", "NumPyro NUTS", lambda: bench_ops.numpyro(design, y, quick)),
    ):
        if who not in only:
            continue
        try:
            seconds, chains = run()
        except ImportError as error:
            print(f"hmc: {method} left out, {error.name} is not installed")
            continue
        size, _ = bench_ops.effective_size(chains)
        _put(
            store,
            "hmc",
            who,
            **{"case": case, "method": method, "seconds": seconds, "ess": size},
            ess_a_second=size / seconds,
        )


def noise(store, only, quick):
    """Exact integer noise, draws per second, at scales from a fraction to a billion."""
    n_draws, n_peer = (20_000, 1_000) if quick else (1_000_000, 5_000)
    generator = randomness.make_generator()
    for kind in ("laplace", "gaussian"):
        draw = getattr(randomness, f"discrete_{kind}")
        for scale in (1.0, 1000.0, 2.0**30):
            case = f"discrete {kind.title()}, scale {scale:.4g}"
            if "ours" in only:
                took = bench_randomness.best(lambda d=draw, s=scale: d(generator, s, n_draws), 5)
                rate = n_draws / took
                _put(store, "noise", "ours", case=case, method="skdpbayes", draws_a_second=rate)
            peer = bench_randomness.opendp_sampler(kind, scale, n_peer) if "peers" in only else None
            if peer is not None:
                rate = n_peer / bench_randomness.best(peer, 3)
                _put(store, "noise", "peers", case=case, method="OpenDP", draws_a_second=rate)
