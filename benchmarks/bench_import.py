"""Time ``import skdpbayes`` against ``import sklearn.linear_model``, and first against later fits.

Each figure is the best of several fresh processes. Run: ``python benchmarks/bench_import.py``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

IMPORTS = {
    "import sklearn.linear_model": "import sklearn.linear_model",
    "import skdpbayes": "import skdpbayes",
    "from skdpbayes import an estimator": "from skdpbayes import OPSLogisticRegression",
    "every public name": "import skdpbayes\nfor n in skdpbayes.__all__: getattr(skdpbayes, n)",
}
FIT = """
import numpy as np, time
from skdpbayes import {name}
X = np.random.default_rng(0).integers(0, 2, (1000, 3)); y = X[:, 0]  # every estimator takes codes
start = time.perf_counter()
{name}(random_state=0).fit(X, y)
print(time.perf_counter() - start)
"""


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def fit_seconds(name: str) -> float:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FIT.format(name=name)],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()

    startup = min(seconds("pass") for _ in range(args.repeats))
    base = None
    print(f"{'what':32s} seconds  ratio to sklearn.linear_model")
    for label, code in IMPORTS.items():
        best = min(seconds(code) for _ in range(args.repeats)) - startup
        base = base or best
        print(f"{label:32s} {best:7.3f}  {best / base:5.2f}")

    import skdpbayes

    print(f"\n{'fit in a fresh process (1000 rows)':36s} first, then cached (seconds)")
    for name in skdpbayes.__all__:
        if hasattr(getattr(skdpbayes, name), "sample_posterior"):
            print(f"{name:36s} {fit_seconds(name):6.2f} {fit_seconds(name):6.2f}")


if __name__ == "__main__":
    main()
