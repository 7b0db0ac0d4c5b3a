"""``python -m skdpbayes compile``: compile every kernel once, so that no first fit has to."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from scipy import sparse

from skdpbayes._demo import DEMOS, Demo, PersonsDemo
from skdpbayes.exceptions import PrivacyWarning

N_RECORDS = 600  # a compiled kernel depends on types only


def compile_kernels() -> None:
    """Fit every estimator on tiny made-up data and print the seconds that each took.

    Numba keeps what it compiles beside the package, or in ``NUMBA_CACHE_DIR``.
    """
    begin = time.perf_counter()
    for demo in DEMOS:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            _use(demo)
        print(f"{demo.name:<28}{time.perf_counter() - start:6.1f} s", flush=True)
    print(f"{'all':<28}{time.perf_counter() - begin:6.1f} s")


def _use(demo: Demo) -> None:
    """Fit and use one estimator on the kinds of tables that have kernels of their own."""
    X, _, y, _ = demo.data(N_RECORDS)
    for epsilon in (1.0, np.inf):
        fitted = demo.fit(X, y, epsilon, 0)
        if not hasattr(fitted, "classes_") or isinstance(demo, PersonsDemo):
            continue
        _predict(fitted, X)
        if X.dtype.kind != "f":
            continue
        several = np.arange(X.shape[0]) % 3
        if demo.estimator != "OPSLinearSVC":  # of two classes only
            _predict(demo.fit(X, several, epsilon, 0), X)
        if fitted.__sklearn_tags__().input_tags.sparse:
            rows = sparse.csr_array(X)
            _predict(demo.fit(rows, y, epsilon, 0), rows)


def _predict(fitted: Any, X: Any) -> None:
    for method in ("predict", "predict_proba"):
        if hasattr(fitted, method):
            getattr(fitted, method)(X)
