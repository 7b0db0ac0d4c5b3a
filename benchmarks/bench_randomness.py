"""Draws per second of the exact samplers, against OpenDP where it is installed.

Run ``python benchmarks/bench_randomness.py``. The best of several rounds is reported.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time

import numpy as np

from skdpbayes import randomness

SCALES = [0.1, 1.0, 2.5, 1000.0, 2.0**30, 1e9 / 7]
ROWS, BATCH = 32_561, 180


def best(function, rounds):
    """Return the shortest time of a call in seconds, after one that is not counted."""
    function()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def opendp_sampler(kind, scale, size):
    """Return a function that draws noise with OpenDP, None where it is not installed."""
    if importlib.util.find_spec("opendp") is None:
        return None
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if kind == "laplace":
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=scale)
    else:
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
    zeros = [0] * size
    return lambda: measurement(zeros)


def noise_table(n_draws, n_peer, rounds):
    generator = randomness.make_generator()
    print(f"{'noise':>9} {'scale':>11} {'ms per 1e6':>11} {'draws/s':>11} {'OpenDP/s':>11} ratio")
    for kind in ("laplace", "gaussian"):
        draw = getattr(randomness, f"discrete_{kind}")
        for scale in SCALES:
            seconds = best(lambda d=draw, s=scale: d(generator, s, n_draws), rounds) / n_draws
            line = f"{kind:>9} {scale:>11.4g} {seconds * 1e9:>11.1f} {1 / seconds:>11.3g}"
            peer = opendp_sampler(kind, scale, n_peer)
            if peer is not None:
                theirs = best(peer, 3) / n_peer
                line += f" {1 / theirs:>11.3g} {theirs / seconds:.0f}"
            print(line)


def small_table(rounds):
    generator = randomness.make_generator()
    out = np.empty(ROWS, dtype=np.int64)
    values = np.zeros(100)
    cases = {
        "discrete_laplace, 10 draws": lambda: randomness.discrete_laplace(generator, 3.3, 10),
        "discrete_gaussian, 10 draws": lambda: randomness.discrete_gaussian(generator, 3.3, 10),
        "release_gaussian, 100 values": lambda: randomness.release_gaussian(generator, values, 1.0),
        "gaussian, 100 draws": lambda: randomness.gaussian(generator, 1.0, 100),
        "make_generator()": randomness.make_generator,
        f"poisson_subset, {BATCH} of {ROWS}": lambda: randomness.poisson_subset(
            generator, ROWS, BATCH / ROWS, out
        ),
        f"fixed_subset, {BATCH} of {ROWS}": lambda: randomness.fixed_subset(
            generator, ROWS, BATCH, out
        ),
    }
    for name, function in cases.items():
        print(f"{name:>32} {best(function, 100 * rounds) * 1e6:8.1f} µs")


def first_call():
    """Time the first draws of a new process when the kernels are cached, after Numba's start."""
    code = (
        "import time; from skdpbayes import randomness; g = randomness.make_generator(); "
        "import numba; numba.njit(lambda x: x)(1); t = time.perf_counter(); "
        "randomness.discrete_laplace(g, 1.0, 10); "
        "randomness.poisson_subset(g, 1000, 0.1); print(time.perf_counter() - t)"
    )
    seconds = float(
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    )
    print(f"{'first draw in a new process':>32} {seconds * 1e3:8.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--peer-draws", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    noise_table(arguments.draws, arguments.peer_draws, arguments.rounds)
    small_table(arguments.rounds)
    first_call()


if __name__ == "__main__":
    main()
