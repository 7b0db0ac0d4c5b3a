"""How many threads linear algebra may use."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep linear algebra on this thread inside a ``with`` block.

    A pass over the rows is thousands of products of a fraction of a millisecond. Threads that meet
    after each of them gain little on an idle machine, and on a busy one wait for each other's
    time slices: a hundred times slower in our measurements.
    """
    context: AbstractContextManager[Any] = _thread_pools().limit(limits=1, user_api="blas")
    return context
