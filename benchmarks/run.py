"""Run this library and its peers on the same data, and write docs/benchmarks.md with its plots.

    python benchmarks/run.py --peers --data FOLDER --environments CACHE
    python benchmarks/run.py --peers --parts speed hmm        # some parts; the rest is kept
    python benchmarks/run.py --only ours --parts accuracy     # measure one side again and merge
    python benchmarks/run.py --peers --parts accuracy --sets log Abalone
    python benchmarks/run.py --from docs/benchmarks.json      # draw the page again, run nothing
    python benchmarks/run.py --from A.json B.json             # the same, merged; later files win
    python benchmarks/run.py --quick                          # under a minute, elsewhere

Without ``--data`` (or ``SKDPBAYES_DATA``) a made-up census stands in for Adult. diffprivlib,
Opacus and interpret need versions of their own: ``--environments`` makes a virtual environment for
each in the folder (once), or ``--diffprivlib-python`` and so on name interpreters that have them.
hmmlearn, nutpie, NumPyro and OpenDP are compared where they are installed
(``pip install -e ".[bench]"``). Every row is saved as it is measured.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import _accuracy
import _environments
import _figures
import _page
import _tables
import _timings
from _store import ROOT, Store, machine

PARTS = ("accuracy", "tables", "speed", "hmm", "hmc", "noise")


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--peers", action="store_true", help="run the peers too")
    add("--only", choices=("ours", "peers"), help="run one side, keep the rows of the other")
    add("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    add("--sets", nargs="+", metavar="SET", help="of the accuracies: raw, log, bins, Abalone")
    add("--data", default=os.environ.get("SKDPBAYES_DATA"), help="folder of the data sets")
    add("--quick", action="store_true", help="few rows, seeds and epsilons: does it run?")
    add("--seeds", type=int, default=10, help="seeds of our accuracies")
    add("--peer-seeds", type=int, default=5, help="seeds of the peers' accuracies")
    add("--environments", metavar="DIR", help="make the peers' environments here")
    add("--diffprivlib-python", metavar="PYTHON")
    add("--opacus-python", metavar="PYTHON")
    add("--interpret-python", metavar="PYTHON")
    add("--output", metavar="DIR", help="folder of the page (docs; a scratch folder if --quick)")
    add("--from", dest="sources", nargs="+", metavar="JSON", help="draw the page from these")
    return parser.parse_args(arguments)


def sides(args):
    if args.only:
        return (args.only,)
    return ("ours", "peers") if args.peers else ("ours",)


def measure(args, store, only):
    pythons = {}
    if "peers" in only and {"accuracy", "speed"} & set(args.parts):
        named = {"diffprivlib": args.diffprivlib_python, "opacus": args.opacus_python}
        pythons = _environments.interpreters(named, args.environments)
    if "peers" in only and "tables" in args.parts:
        named = {"interpret": args.interpret_python, "opacus": args.opacus_python}
        pythons |= _environments.interpreters(named, args.environments, list(named))
    needed = {"accuracy", "speed", "hmc"} & set(args.parts)
    sets = _accuracy.load(args.data, args.quick) if needed else []
    threads = machine()["threads"]
    for part in args.parts:
        start = time.perf_counter()
        for who in only:
            store.begin(part, who)
        if part == "accuracy":
            chosen = [d for d in sets if not args.sets or d.name.split(", ")[-1] in args.sets]
            accuracy(args, store, only, chosen, pythons)
            for who in only:
                names = [d.name for d in chosen]
                store.finish(part, who, time.perf_counter() - start, names)
            continue
        elif part == "tables":
            seeds = min(args.peer_seeds, 2) if args.quick else args.peer_seeds
            _tables.measure(store, only, args.data, pythons, seeds, args.quick)
        elif part == "speed":
            _timings.speed(store, sets, only, pythons, threads, args.quick)
        elif part == "hmm":
            _timings.hmm(store, only, args.quick)
        elif part == "hmc":
            _timings.hmc(store, sets, only, args.quick)
        else:
            _timings.noise(store, only, args.quick)
        for who in only:
            store.finish(part, who, time.perf_counter() - start)


def accuracy(args, store, only, sets, pythons):
    """Peers run in processes of their own meanwhile: accuracy does not mind, seconds are CPU's."""
    epsilons = (0.2, 2.0) if args.quick else _accuracy.EPSILONS
    with ThreadPoolExecutor(1) as pool:
        running = []
        if "peers" in only:
            seeds = min(args.peer_seeds, 2) if args.quick else args.peer_seeds
            running.append(pool.submit(_accuracy.peers, store, sets, epsilons, seeds, pythons))
        if "ours" in only:
            _accuracy.ours(store, sets, epsilons, min(args.seeds, 2) if args.quick else args.seeds)
        for future in running:
            future.result()


def main(arguments=None):
    args = parse(arguments)
    warnings.simplefilter("ignore")
    if args.output is None:
        args.output = tempfile.mkdtemp(prefix="benchmarks-") if args.quick else ROOT / "docs"
    output = Path(args.output)
    output.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    store = Store(output / "benchmarks.json")
    for source in args.sources or ():
        store.merge(source)
    if not args.sources:
        measure(args, store, sides(args))
    pictures = _figures.draw(store, output / "images")
    page = output / "benchmarks.md"
    page.write_text(_page.write(store, pictures))
    print(_page.ratios(store))
    print(f"Wrote {page} and {len(pictures)} plots in {time.perf_counter() - start:.0f} s.")
    return page


if __name__ == "__main__":
    main()
