"""Tables in chunks: workers, memory and time against the number of records.

    python benchmarks/bench_scale.py --output scale.json          # all parts, on idle cores
    python benchmarks/bench_scale.py --parts workers --rows 1e6   # one part, smaller
    python benchmarks/bench_scale.py --parts growth --only Naive  # one estimator
    python benchmarks/bench_scale.py --quick                      # a minute: does it run?

- ``workers``: a table of 20 numbers per record in files, on one worker and on two.
- ``memory``: the same table in memory, to compare with Dask on one worker without the reading pass.
- ``large``: ten categories per record through naive Bayes and ten numbers through a chain, made up
  where they are read, with the largest memory of a worker.
- ``growth``: seconds against the number of records (``--sizes``); the last line is a fit of
  a + b n / workers.
- ``peer``: one epoch over the same files of scikit-learn's ``SGDClassifier.partial_fit`` and, where
  it is installed, of logistic regression by Opacus in batches of 4,096 rows.

A worker is a process with one thread and a limit of 2 GB. Every time follows a small fit on the
same cluster, which compiles. Seconds are those of the wall, so that nothing else may run; the load
of the machine and the seconds of processors are stored beside them, for machines that are busy.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

PARTS = ("workers", "memory", "large", "growth", "peer")
CHUNK, WIDTH = 500_000, 20
STEPS = 20  # of a chain; a pass each
# By default Dask has workers give memory back to the system so eagerly that chains take 1.7 times
# the processor time.
MEMORY = {"MALLOC_TRIM_THRESHOLD_": 1 << 30, "MALLOC_MMAP_THRESHOLD_": 1 << 25}
SETTINGS = {"epsilon": 1.0, "random_state": 0}
wanted = ""  # part of the names of estimators
lengths: list[int] = []  # of the tables that tell growth


def models(n_steps=STEPS):
    """Return the estimators that are timed, but for those that were not asked for."""
    from skdpbayes import DPSGLDClassifier, LaplaceNaiveBayes, ObjPertLogisticRegression

    found = {
        "LaplaceNaiveBayes": LaplaceNaiveBayes(binarize=0.0, classes=[0, 1], **SETTINGS),
        "ObjPertLogisticRegression": ObjPertLogisticRegression(
            delta=1e-9, classes=[0, 1], **SETTINGS
        ),
        # the batch of all records in memory, too
        "DPSGLDClassifier": DPSGLDClassifier(
            delta=1e-9, classes=[0, 1], n_steps=n_steps, **SETTINGS
        ),
    }
    return {name: model for name, model in found.items() if wanted in name}


def made_up(number, n, width=WIDTH):
    """Return the rows and labels of a chunk, from its number alone."""
    rng = np.random.default_rng(number)
    X = rng.uniform(-0.3, 0.3, (n, width)).astype(np.float32)
    return X, (X[:, 0] + 0.2 * rng.standard_normal(n, dtype=np.float32) > 0).astype(np.int8)


def codes(number, n):
    """Return ten columns of categories and a label."""
    rng = np.random.default_rng(number)
    X = rng.integers(0, 8, (n, 10), dtype=np.uint8)
    return X, (X[:, 0] + rng.integers(0, 8, n, dtype=np.uint8) > 7).astype(np.int8)


def sizes(n):
    """Return the lengths of the chunks."""
    return [min(CHUNK, n - start) for start in range(0, n, CHUNK)]


def write(folder, n):
    """Write files that are read again in every pass."""
    for number, size in enumerate(sizes(n)):
        X, y = made_up(number, size)
        np.save(folder / f"X{number}.npy", X)
        np.save(folder / f"y{number}.npy", y)


def lazy(load, n, width, dtype):
    """Return Dask arrays whose chunks are ``load(number, which)``."""
    import dask.array as da
    from dask import delayed

    parts = []
    for which, (tail, kind) in enumerate((((width,), dtype), ((), np.int8))):
        blocks = [
            da.from_delayed(delayed(load)(number, which), (size, *tail), dtype=kind)
            for number, size in enumerate(sizes(n))
        ]
        parts.append(da.concatenate(blocks))
    return parts


def from_files(folder, n):
    """The table in files."""

    def load(number, which):
        return np.load(f"{folder}/{'Xy'[which]}{number}.npy")

    return lazy(load, n, WIDTH, np.float32)


def generated(make, n, dtype):
    """The table made up where it is read."""

    def load(number, which):
        return make(number, sizes(n)[number])[which]

    return lazy(load, n, 10, dtype)


def narrow(number, n):
    """Ten numbers per record."""
    return made_up(number, n, 10)


def on_cluster(n_workers, job):
    """Run a job on a fresh cluster; return its result and the largest memory of a worker in GB."""
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": {**MEMORY, "OMP_NUM_THREADS": 1}}),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit="2GB",
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        found = job()
        return found, round(max(client.run(peak).values()) / 2**20, 2)


def peak():
    """Largest memory of this process in kB; ``getrusage`` would count its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def timed(model, table):
    """Return seconds of the reading pass and of the whole fit, and those of processors.

    ``alone`` is what the fit would take on idle cores, were nothing done at the same time but the
    work of several workers: the driver's (and scheduler's) seconds and the busiest worker's.
    """
    from sklearn.base import clone

    clocks = [_clocks()]
    clone(model)._read(*table)
    clocks.append(_clocks())
    clone(model).fit(*table)
    clocks.append(_clocks())
    (reading, *reading_cpu), (seconds, *cpu) = np.diff(clocks, axis=0).tolist()
    found = {
        "seconds": seconds,
        "reading": reading,
        "cpu": sum(cpu),
        "reading_cpu": sum(reading_cpu),
        "alone": cpu[0] + max(cpu[1:], default=0.0),
        "reading_alone": reading_cpu[0] + max(reading_cpu[1:], default=0.0),
    }
    return {name: round(value, 3) for name, value in found.items()}


def _clocks():
    """Seconds of the wall, of this process, and of every worker."""
    workers = {}
    if "distributed" in sys.modules:
        from distributed.client import _get_global_client

        client = _get_global_client()
        workers = {} if client is None else client.run(time.process_time)
    return time.perf_counter(), time.process_time(), *(workers[name] for name in sorted(workers))


def compiled(table_of, chosen):
    """Return a job that fits small tables first, then times."""

    def job():
        found = {}
        for name, model in chosen.items():
            timed(model, table_of(2 * CHUNK))  # something for every worker
            found[name] = timed(model, table_of(None))
        return found

    return job


def run_workers(rows, put):
    """One worker against two."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), rows)
        for n_workers in (1, 2):
            job = compiled(lambda n: from_files(folder, min(n or rows, rows)), models())
            found, peak = on_cluster(n_workers, job)
            for name, times in found.items():
                put(method=name, n=rows, workers=n_workers, gigabytes=peak, **times)


def run_memory(rows, put):
    """The same table in memory; set the numbers of threads to 1 to compare with one worker."""
    parts = [made_up(number, size) for number, size in enumerate(sizes(rows))]
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    del parts
    for name, model in models().items():
        for n in (min(CHUNK, rows), rows):  # the first one compiles
            if name == "DPSGLDClassifier":
                model.set_params(batch_size=n)
            found = timed(model, (X[:n], y[:n]))
        put(method=name, n=rows, where="memory", **found)


def run_large(rows, put):
    """Many records under 2 GB per worker; ``rows`` is a tenth of the categories' number."""
    from skdpbayes import LaplaceNaiveBayes

    bayes = LaplaceNaiveBayes(
        distribution="categorical", categories=[8] * 10, classes=[0, 1], **SETTINGS
    )
    chain = models(n_steps=5).get("DPSGLDClassifier")  # time per step does not change
    for name, model, make, n, dtype in (
        ("LaplaceNaiveBayes", bayes, codes, 10 * rows, np.uint8),
        ("DPSGLDClassifier, 5 steps", chain, narrow, 5 * rows, np.float32),
    ):
        if wanted not in name:
            continue

        def table_of(few, make=make, n=n, dtype=dtype):
            return generated(make, n if few is None else few, dtype)

        found, peak = on_cluster(2, compiled(table_of, {name: model}))
        put(method=name, n=n, workers=2, gigabytes=peak, **found[name])


def run_growth(rows, put):
    """Seconds against n on one worker and on two, and the model of it."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for n in lengths or (rows // 100, rows // 10, rows, 10 * rows):
        for n_workers in (1, 2) if n <= rows else (2,):

            def table_of(few, n=n):
                return generated(narrow, n if few is None else few, np.float32)

            found, _ = on_cluster(n_workers, compiled(table_of, models(n_steps=5)))
            for name, times in found.items():
                put(method=name, n=n, workers=n_workers, **times)
                lines.setdefault(name, []).append((n / n_workers, times["seconds"]))
    for name, points in lines.items():
        share, seconds = np.array(points).T
        # small fits count as much as large ones
        design = np.column_stack([np.ones_like(share), share]) / seconds[:, None]
        a, b = np.linalg.lstsq(design, np.ones_like(seconds), rcond=None)[0]
        put(method=name, model="a + b n / workers", a=a, b=b)


def run_peer(rows, put):
    """One epoch of scikit-learn's own out-of-core classifier, without privacy, and of Opacus."""
    from sklearn.linear_model import SGDClassifier

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), rows)

        def epoch():
            for number in range(len(sizes(rows))):
                yield tuple(np.load(f"{folder}/{name}{number}.npy") for name in "Xy")

        model = SGDClassifier(loss="log_loss")

        def timed_epoch(method, step):
            before = _clocks()
            for X, y in epoch():
                step(X, y)
            seconds, cpu = np.diff([before, _clocks()], axis=0)[0].round(3).tolist()
            put(method=f"{method}, one epoch", n=rows, seconds=seconds, cpu=cpu)

        timed_epoch("SGDClassifier", lambda X, y: model.partial_fit(X, y, classes=[0, 1]))
        try:
            step = opacus_step()
        except ImportError:
            return
        timed_epoch("Opacus", step)


def opacus_step(batch=4096):
    """Return a function that trains a private logistic regression on the batches of a chunk."""
    import opacus
    import torch

    torch.set_num_threads(1)
    nothing = torch.utils.data.TensorDataset(torch.zeros(batch, WIDTH))
    net = torch.nn.Linear(WIDTH, 1)
    net, optimizer, _ = opacus.PrivacyEngine().make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.5),
        data_loader=torch.utils.data.DataLoader(nothing, batch_size=batch),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    criterion = torch.nn.BCEWithLogitsLoss()

    def step(X, y):
        X, y = torch.from_numpy(X), torch.from_numpy(y).float()
        for start in range(0, len(X), batch):
            optimizer.zero_grad()
            criterion(net(X[start : start + batch])[:, 0], y[start : start + batch]).backward()
            optimizer.step()

    return step


RUN = dict(zip(PARTS, (run_workers, run_memory, run_large, run_growth, run_peer), strict=True))


def main(arguments=None):
    """Run the parts; print and store a row for every measurement."""
    global wanted, lengths
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rows", type=float, default=1e7, help="records of the table in files")
    parser.add_argument("--sizes", type=float, nargs="+", default=[], help="of growth")
    parser.add_argument("--only", default="", help="part of the name of an estimator")
    parser.add_argument("--quick", action="store_true", help="20,000 records")
    parser.add_argument("--output", type=Path, help="a JSON file")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    wanted, lengths = args.only, [int(size) for size in args.sizes]
    rows, measured = 20_000 if args.quick else int(args.rows), []
    for part in args.parts:

        def put(part=part, **row):
            row = {"part": part, **row, "load": round(os.getloadavg()[0], 1)}
            measured.append(row)
            print(json.dumps(row), flush=True)
            if args.output:
                args.output.write_text(json.dumps(measured, indent=1) + "\n")

        RUN[part](rows, put)
    return measured


if __name__ == "__main__":
    main()
