"""Tables in chunks of rows: Dask collections, and `RowBlocks` on one machine.

A sum over records is exact (`Records.total`), so it may be formed chunk by chunk, wherever a chunk
is and in any order: a fit on chunks is the fit in memory to the last bit. What leaves a chunk is
its part of a sum, or facts about it (its number of rows, the labels that occur, whether something
is wrong, in words that quote no value). Noise is drawn where ``fit`` was called, never in a task,
so that a task which is run twice changes nothing.

Workers and network see data, and partial sums are data: they are trusted. Dask is imported by
those who pass its collections, not here.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple, Protocol
from uuid import uuid4

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from skdpbayes._validation import encode_labels, probe, validate_data
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.records import Block, Public, Records
from skdpbayes.fitting.units import share_rows, unit_codes

# Partial sums are added this many at a time, where they are.
FAN_IN = 16
# Rows that are made ready for many passes are held while they take at most so much per worker,
# in this many tasks per thread: a task costs a few milliseconds, however little it does.
HELD_BYTES = 1 << 30
TASKS_PER_THREAD = 2
READ_AS = (
    "Read the columns as numbers before: X.astype(float) for numbers, codes 0, 1, ... in a public "
    "order for words."
)
SAME_CHUNKS = (
    "y must have the chunks of X, row by row. For Dask arrays: y.rechunk(X.chunks[0]); for frames, "
    "take X and y from one frame; for RowBlocks, yield blocks of equal lengths."
)

OTHER_RECORDS = (
    "A pass gave other records than those that were validated: every pass must read "
    "the same table. Do not change files during a fit, and give RowBlocks a function, or a "
    "sequence, that can be read again."
)


class RowBlocks:
    """Rows of a table, or of its labels, in blocks that are read anew at every pass.

    For tables that do not fit into memory, on one machine. ``fit(RowBlocks(...), RowBlocks(...))``
    takes one for the rows and one for the labels, with blocks of equal lengths. Every pass must
    give the same records; their order may change, as long as it does for rows and labels alike and
    neither ``units`` nor batches of some records are asked for. Docs: :doc:`/scale`.

    Parameters
    ----------
    source : callable or sequence
        A function without arguments that returns an iterable of blocks, called once per pass, or a
        sequence of blocks (``np.load(path, mmap_mode="r")``, say). A block is whatever ``fit``
        takes: an array, a CSR matrix, a data frame. At most one is held at a time; chains also hold
        what they read again in every step, while it takes at most 1 GiB.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes import ObjPertLogisticRegression, RowBlocks
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (3000, 3))
    >>> y = X[:, 0] > 0
    >>> def rows():
    ...     for start in range(0, 3000, 1000):
    ...         yield X[start : start + 1000]
    >>> blocks = RowBlocks(rows), RowBlocks([y[:1000], y[1000:2000], y[2000:]])
    >>> model = ObjPertLogisticRegression(epsilon=2.0, random_state=0).fit(*blocks)
    >>> whole = ObjPertLogisticRegression(epsilon=2.0, random_state=0).fit(X, y)
    >>> bool((model.coef_ == whole.coef_).all())
    True
    """

    def __init__(self, source: Callable[[], Any] | Sequence[Any]) -> None:
        if not callable(source) and not isinstance(source, Sequence):
            raise TypeError(
                "RowBlocks takes a function without arguments that returns an iterable of blocks, "
                f"or a sequence of blocks; got {type(source).__name__}. A generator can be read "
                "once only: pass the function that makes it."
            )
        self.source = source
        self._example: Any = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source() if callable(self.source) else self.source)

    def __repr__(self) -> str:
        return "RowBlocks(...)"  # a block would show records


def is_dask(X: Any) -> bool:
    """Tell whether this is a Dask collection, without importing Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def is_chunked(X: Any) -> bool:
    """Tell whether this is a table, or a column, in chunks."""
    return isinstance(X, RowBlocks) or is_dask(X)


def example_of(X: Any) -> Any:
    """Return rows that tell the types of the columns: ``X`` itself, or an empty piece of chunks."""
    if isinstance(X, RowBlocks):
        if X._example is None:
            first = next(iter(X), None)
            if first is None:
                raise ValueError("X has no blocks. Check what RowBlocks is given.")
            X._example = first[:0]
        return X._example
    if not is_dask(X):
        return X
    if hasattr(X, "columns"):
        return X._meta
    return np.empty((0, *X.shape[1:]), dtype=X.dtype)


def check_noise(estimator: Any, X: Any) -> None:
    """Refuse chunks without privacy, where sums are not exact and rows are read as they are."""
    if is_chunked(X) and math.isinf(estimator.epsilon):
        raise ValueError(
            f"{type(estimator).__name__} with epsilon=inf takes tables in memory only: without "
            "noise its sums are plain floats. Load rows that fit, or give a finite epsilon."
        )


class Target(Protocol):
    """What the second column of a table is, and what becomes of it."""

    def inspect(self, y: np.ndarray) -> Any:
        """Look at a chunk; raise, without quoting a value, if it is wrong."""

    def settle(self, found: list[Any]) -> tuple[np.ndarray | None, Callable[..., np.ndarray]]:
        """Return the label set, if it is one, and the map of a chunk to its targets."""


@dataclass(frozen=True)
class Labels:
    """Labels, of a public set; None for those that occur, which are then public."""

    classes: Any
    estimator: str

    def inspect(self, y: np.ndarray) -> np.ndarray | None:
        """Return the labels that occur; None if they were given, and they are among them."""
        if self.classes is not None:
            encode_labels(y, self.classes, estimator=self.estimator)
            return None
        check_classification_targets(y)
        return np.unique(y)

    def settle(self, found: list[Any]) -> tuple[np.ndarray, Callable[..., np.ndarray]]:
        """Return the label set and the map to positions in it."""
        known = self.classes if self.classes is not None else np.concatenate(found)
        labels, _ = encode_labels(known, self.classes, estimator=self.estimator)
        return labels, partial(_positions, labels)


def _positions(labels: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.searchsorted(labels, y).astype(np.intp, copy=False)


@dataclass(frozen=True)
class Numbers:
    """Numbers, mapped by a public function."""

    scale: Callable[[np.ndarray], np.ndarray]
    negative: str | None = None
    """What is wrong with numbers below 0; None for nothing."""

    def inspect(self, y: np.ndarray) -> None:
        """Nothing is to be learned from numbers."""
        if self.negative is not None and np.any(np.asarray(y) < 0):
            raise ValueError(self.negative)

    def settle(self, found: list[Any]) -> tuple[None, Callable[..., np.ndarray]]:
        """Return the map."""
        return None, partial(_scaled, self.scale)


def _scaled(scale: Callable[[np.ndarray], np.ndarray], y: np.ndarray) -> np.ndarray:
    return scale(np.asarray(y, dtype=np.float64))


class Facts(NamedTuple):
    """What the reading pass learns of a chunk."""

    n: int
    n_targets: int | None
    n_features: int
    names: tuple[str, ...] | None = None
    found: Any = None  # of the target
    seen: Any = None  # by the estimator's own look
    refusal: str | None = None


@dataclass(frozen=True)
class Chunks:
    """Chunks of a table and of its columns, and how a function is run on each of them."""

    X: Any
    y: Any = None
    also: tuple[Any, ...] = ()
    """Columns besides; None for one that is not there."""

    def each(
        self, task: Callable[..., Any], given: Sequence[Any] | None = None, *, there: bool = False
    ) -> list[Any]:
        """Return ``task(X, y, ...)`` of every chunk, in order; or leave it ``there``."""
        if isinstance(self.X, RowBlocks):
            return list(self._local(task, given))
        return list(_computed(self._tasks(task, given), there=there))

    def total(self, task: Callable[..., Part], given: Sequence[Any] | None = None) -> Any:
        """Add up ``task(X, y, ...)`` over all chunks, where they are.

        With something ``given`` for every chunk, it comes before the chunk, and chunks for which it
        is None are passed over.
        """
        if isinstance(self.X, RowBlocks):
            return _added(self._local(task, given))
        return _added_up(self._tasks(task, given))

    def _local(self, task: Callable[..., Any], given: Sequence[Any] | None = None) -> Iterator[Any]:
        columns = (self.y, *self.also)
        nothing = object()
        read = [column for column in columns if column is not None]
        for place, parts in enumerate(zip_longest(self.X, *read, fillvalue=nothing)):
            if any(part is nothing for part in parts):
                raise ValueError(f"X and y have different numbers of blocks. {SAME_CHUNKS}")
            block, *rest = parts
            chunk = (block, *(None if column is None else rest.pop(0) for column in columns))
            if given is None:
                yield task(*chunk)
            elif place >= len(given):
                raise RuntimeError(OTHER_RECORDS)
            elif given[place] is not None:
                yield task(given[place], *chunk)

    def _tasks(self, task: Callable[..., Any], given: Sequence[Any] | None = None) -> list[Any]:
        run = _delayed(task)
        blocks = _pieces(self.X)
        columns = [
            [None] * len(blocks) if column is None else _pieces(column)
            for column in (self.y, *self.also)
        ]
        for targets in columns:
            if len(blocks) != len(targets):
                raise ValueError(
                    f"X has {len(blocks)} chunks and y has {len(targets)}. {SAME_CHUNKS}"
                )
        chunks = list(zip(blocks, *columns, strict=True))
        if given is None:
            return [run(*chunk) for chunk in chunks]
        return [
            _delayed(partial(task, one))(*chunk)
            for one, chunk in zip(given, chunks, strict=True)
            if one is not None
        ]


def _delayed(task: Callable[..., Any]) -> Any:
    from dask import delayed
    from dask.utils import funcname

    # names of tasks are the function's and a random number: no argument is hashed into them
    run = delayed(partial(_quietly, task), name=None, pure=False, traverse=False)
    return lambda *chunk: run(*chunk, dask_key_name=f"{funcname(task)}-{uuid4()}")


class Failure(NamedTuple):
    """The type of what a task has raised. Its words, and a worker's log of them, may quote rows."""

    kind: str


def _quietly(task: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task; return a failure, its own or one that it was given, instead of raising it."""
    for argument in arguments:
        if isinstance(argument, Failure):
            return argument
    try:
        return task(*arguments)
    except Exception as error:
        return Failure(type(error).__name__)


def _pieces(collection: Any) -> list[Any]:
    return list(np.ravel(np.array(collection.to_delayed(), dtype=object)))


def _computed(tasks: list[Any], *, there: bool = False) -> Any:
    """Run tasks on the scheduler that Dask has been told to use; leave results ``there``."""
    from dask import compute, persist

    try:
        run: Any = persist if there else compute
        results = run(*tasks)
    except Exception as error:
        # of the cluster, not of a task: those of ours return what is wrong instead of raising it
        if type(error).__module__.partition(".")[0] in ("distributed", "tornado", "concurrent"):
            raise RuntimeError(
                f"The Dask cluster did not finish a pass over the records ({type(error).__name__})."
                " Look at the memory of its workers and whether its scheduler is still there."
            ) from error
        raise
    for result in results:
        if isinstance(result, Failure):
            raise RuntimeError(
                f"A task failed on a chunk ({result.kind}; what it said may quote records and is "
                "not shown). Look at the memory of the workers, whether they have the version of "
                "skdpbayes that you have, and whether the table has changed during the fit."
            )
    return results


class Part(NamedTuple):
    """A part of a sum over records, and of how many."""

    n: int = 0
    total: Any = None


def _added(parts: Iterable[Any]) -> Any:
    n, whole = 0, None
    for part in parts:
        if isinstance(part, Failure):
            return part
        n += part.n
        if part.total is not None:
            whole = part.total if whole is None else whole + part.total
    return Part(n, whole)


def _added_up(parts: list[Any]) -> Part:
    """Add up the results of Dask's tasks, a few at a time."""
    if not parts:
        return Part()
    while len(parts) > 1:
        groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
        parts = [_delayed(_added)(group) for group in groups]
    (whole,) = _computed(parts)
    return whole  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Reader:
    """How a chunk becomes validated rows: the same conversions as in memory."""

    checks: dict[str, Any]
    encode: Callable[[np.ndarray], np.ndarray] | None = None

    def __call__(self, X: Any, y: Any, *also: Any) -> tuple[Any, np.ndarray | None]:
        """Convert a chunk that the reading pass has found to be right."""
        known = {"dtype", "accept_sparse", "order", "accept_large_sparse"}
        checks = {name: value for name, value in self.checks.items() if name in known}
        X = check_array(X, ensure_all_finite=False, ensure_min_samples=0, **checks)
        if self.encode is None:
            return X, None
        if y is None:  # the other columns are the target
            return X, self.encode(X.shape[0], *also) if also else None
        return X, self.encode(column_or_1d(np.asarray(y)))


@dataclass(frozen=True)
class ChunkedRecords:
    """The rows of a fit in chunks; the counterpart of `Records` in memory.

    Parameters
    ----------
    public : Public
        What plans may know.
    chunks : Chunks
        The table as the caller gave it.
    reader : Reader
        How a chunk becomes rows.
    bound : Bound
        Applied to every block before a kernel sees it.
    seen : list
        What the estimator's look at every chunk returned in the reading pass.
    sizes : tuple of int
        Numbers of rows of the chunks.
    shares : tuple or None
        What every chunk must know of the persons in it; None where each row is a unit.
    """

    public: Public
    chunks: Chunks
    reader: Reader
    bound: Bound = field(default_factory=Bound)
    seen: tuple[Any, ...] = ()
    sizes: tuple[int, ...] = ()
    shares: tuple[Share, ...] | None = None

    @property
    def n_rows(self) -> int:
        """The number of records."""
        return sum(self.sizes)

    def total(self, kernel: Callable[..., np.ndarray], *args: Any) -> Any:
        """Sum ``kernel(block, *args)`` over all blocks of all chunks: one pass.

        Kernels return exact integers, so that neither the chunks nor their order matter.
        """
        return self.summed(partial(_total_of, self.maker, kernel, args))

    @property
    def maker(self) -> Maker:
        """How a chunk becomes bounded rows."""
        return Maker(self.reader, self.bound)

    def summed(self, task: Callable[..., Part], rows: np.ndarray | None = None) -> Any:
        """Add up ``task(part, X, y, ...)`` over all chunks, or over those that have such rows.

        A sum over another number of records is refused.
        """
        if rows is not None:
            given: Sequence[ChunkPart] | None = _by_chunk(self.sizes, rows)
        else:
            given = self.shares
        n = self.n_rows if rows is None else int(rows.shape[0])
        task = partial(task, None) if given is None else task
        return self.checked(self.chunks.total(task, given), n)

    def checked(self, part: Part, n: int) -> Any:
        """Return a sum over ``n`` records; refuse one over another number of them."""
        if part.n != n:
            raise RuntimeError(OTHER_RECORDS)
        return part.total

    def of_units(self, units: Any) -> ChunkedRecords:
        """Return the same rows weighted by unit; a unit may be spread over chunks: one pass.

        Only the ids are read. The caller's process learns each chunk's ids and how often they
        occur, and tells every chunk how many records its units have in all.
        """
        _check_columns(self.chunks.X, units=units)
        found = Chunks(units).each(_counted_ids)
        for fact in found:
            if isinstance(fact, str):
                raise ValueError(fact)
        if [sum(counts) for _, counts in found] != list(self.sizes):
            raise ValueError(
                f"units must have one id per record, in the chunks of X. {SAME_CHUNKS}"
            )
        n_units, shares = _shares(found)
        public = replace(self.public, n=n_units, unit="person")
        chunks = replace(self.chunks, also=(*self.chunks.also, units))
        return replace(self, public=public, chunks=chunks, shares=shares)

    def members(self) -> None:
        """Return no persons: batches of chunks are of records, or of everybody."""

    def prepared(self, prepare: Callable[..., Any], *args: Any) -> Prepared:
        """Make rows ready for many passes; see `Prepared`."""
        task = partial(_prepared, self.maker, prepare, args)
        bytes_ = self.n_rows * (8 + 4 * self.public.n_features)
        local = isinstance(self.chunks.X, RowBlocks)
        n_workers, n_threads = (1, 1) if local else _cluster()
        if bytes_ > HELD_BYTES * n_workers:
            return Prepared(self, task)
        every = partial(task, None) if self.shares is None else task
        if local:
            return Prepared(self, task, (tuple(self.chunks.each(every, self.shares)),))
        tasks = self.chunks._tasks(every, self.shares)
        size = -(-len(tasks) // (TASKS_PER_THREAD * n_threads))
        groups = [tasks[start : start + size] for start in range(0, len(tasks), size)]
        held = _computed([_delayed(_together)(group) for group in groups], there=True)
        return Prepared(self, task, tuple(held), size)

    def survey(self, look: Callable[[Any], Any]) -> list[Any]:
        """Return ``look(X)`` of every chunk that has rows, not bounded yet: one pass.

        What it raises must not quote a value.
        """
        results = self.chunks.each(partial(_look_at, self.reader, look))
        for result in results:
            if isinstance(result, Facts):
                raise ValueError(result.refusal)
        return [result for result in results if result is not None]

    def pick(self, choose: Callable[..., np.ndarray], *args: Any) -> Block:
        """Return the bounded rows that ``choose(X, *args)`` marks, in memory: one pass."""
        task = partial(_picked, self.maker, choose, args)
        task = partial(task, None) if self.shares is None else task
        parts = self.chunks.each(task, self.shares)
        blocks = [part for part in parts if part is not None]
        rows = [block.X for block in blocks]
        stack = sparse.vstack if any(map(sparse.issparse, rows)) else np.concatenate
        X = stack(rows, format="csr") if stack is sparse.vstack else stack(rows)
        columns = zip(*(block[1:] for block in blocks), strict=True)
        return Block(X, *(None if c[0] is None else np.concatenate(c) for c in columns))


@dataclass(frozen=True)
class Prepared:
    """Rows in chunks, made ready for many passes.

    ``prepare(records, *args)`` makes of a chunk's `Records` what kernels read. That is held where
    the chunk is, a few chunks together, while it takes less than `HELD_BYTES` per worker (public
    numbers decide), and else made anew in every pass; it makes no difference but in time.
    """

    records: ChunkedRecords
    make: Callable[..., Any]
    held: tuple[Any, ...] | None = None
    size: int = 0
    """Number of chunks that are held together; 0 for all of them."""

    def total(
        self, kernel: Callable[..., np.ndarray], *args: Any, rows: np.ndarray | None = None
    ) -> Any:
        """Sum ``kernel(prepared, *args, rows)`` over all chunks, or over the given row numbers.

        Row numbers are grouped by chunk, and a chunk without any is passed over: what leaves a
        chunk is its part of the sum. None stands for all rows, and for the sum over no rows.
        """
        records = self.records
        if self.held is None:
            return records.summed(partial(_total_of_made, self.make, kernel, args), rows)
        n = records.n_rows if rows is None else int(rows.shape[0])
        chosen: list[Any] = [None] * len(self.held)
        if rows is not None:
            ones = _by_chunk(records.sizes, rows)
            size = self.size or len(ones)
            parts = [ones[start : start + size] for start in range(0, len(ones), size)]
            chosen = [part if any(part) else None for part in parts]
        pairs = [
            (partial(_total_of_held, kernel, args, part), items)
            for part, items in zip(chosen, self.held, strict=True)
            if rows is None or part is not None
        ]
        if isinstance(records.chunks.X, RowBlocks):
            whole = _added(task(items) for task, items in pairs)
        else:
            whole = _added_up([_delayed(task)(items) for task, items in pairs])
        return records.checked(whole, n)


# What a chunk is told about itself


class Chosen(NamedTuple):
    """Some row numbers within a chunk of this many rows."""

    size: int
    rows: np.ndarray

    def taken(self, X: Any, y: Any, also: Sequence[Any]) -> Any:
        """Return the rows, before anything is converted; None if the chunk is another one."""
        if X.shape[0] != self.size:
            return None
        X = X.iloc[self.rows] if hasattr(X, "iloc") else X[self.rows]
        columns = (None if c is None else np.asarray(c)[self.rows] for c in (y, *also))
        return X, *columns


class Share(NamedTuple):
    """How many records the units of a chunk have, by their order in the chunk."""

    counts: np.ndarray
    """In this chunk."""
    totals: np.ndarray
    """In all chunks."""
    before: np.ndarray
    """In chunks before this one."""

    def weights(self, units: Any) -> tuple[np.ndarray | None, np.ndarray] | None:
        """Return which rows are used (None for all) and their weights: those of `share_out`.

        None if the chunk is another one.
        """
        codes, n_units = unit_codes(units, len(units))
        counts = np.bincount(codes, minlength=n_units)
        if not np.array_equal(counts, self.counts):
            return None
        order = np.argsort(codes, kind="stable")
        rank = np.empty_like(codes)
        rank[order] = np.arange(codes.shape[0]) - (np.cumsum(counts) - counts)[codes[order]]
        rank += self.before[codes]
        return share_rows(codes, rank, self.totals)


ChunkPart = Chosen | Share | None


def _by_chunk(sizes: tuple[int, ...], rows: np.ndarray) -> list[ChunkPart]:
    """Row numbers within every chunk; None for one without any."""
    rows = np.sort(rows)
    borders = np.cumsum([0, *sizes])
    cuts = np.searchsorted(rows, borders)
    return [
        Chosen(sizes[i], rows[cuts[i] : cuts[i + 1]] - borders[i])
        if cuts[i] < cuts[i + 1]
        else None
        for i in range(len(sizes))
    ]


def _counted_ids(units: Any, _: Any) -> tuple[np.ndarray, np.ndarray] | str:
    """Return the ids of a chunk and how often each occurs, or what is wrong, in words."""
    n = len(units)
    if n == 0:
        return np.empty(0), np.empty(0, dtype=np.int64)
    try:
        codes, n_units = unit_codes(units, n)
    except Exception:  # whose message may quote an id
        return (
            "A chunk of units has a record without an id, or one that is no number and no word: "
            "whose it is must be known."
        )
    first = np.unique(codes, return_index=True)[1]
    return np.asarray(units)[first], np.bincount(codes, minlength=n_units)


def _shares(found: list[tuple[np.ndarray, np.ndarray]]) -> tuple[int, tuple[Share, ...]]:
    """Add up how often ids occur; return their number, and what each chunk must know."""
    filled = [ids for ids, _ in found if len(ids)]
    if len({ids.dtype for ids in filled}) == 1 and filled[0].dtype.kind in "biufSU":
        known, codes = np.unique(np.concatenate(filled), return_inverse=True)
        n_units = known.shape[0]
    else:
        numbers: dict[Any, int] = {}
        codes = np.array(
            [numbers.setdefault(one, len(numbers)) for ids in filled for one in ids.tolist()],
            dtype=np.intp,
        )
        n_units = len(numbers)
    counts = np.concatenate([counts for _, counts in found])
    totals = np.zeros(n_units, dtype=np.int64)
    np.add.at(totals, codes, counts)
    seen = np.zeros(n_units, dtype=np.int64)
    shares: list[Share] = []
    start = 0
    for ids, counts in found:
        own = codes[start : start + len(ids)]
        start += len(ids)
        shares.append(Share(counts, totals[own], seen[own]))
        seen[own] += counts  # ids of a chunk are distinct
    return n_units, tuple(shares)


@dataclass(frozen=True)
class Maker:
    """How a chunk becomes `Records`."""

    reader: Reader
    bound: Bound

    def __call__(self, one: ChunkPart, X: Any, y: Any, *also: Any) -> Records | None:
        """Return the rows; None if the chunk is not the one that was validated."""
        used, weight = None, None
        if isinstance(one, Chosen):
            taken = one.taken(X, y, also)
            if taken is None:
                return None
            X, y, *also = taken
        elif isinstance(one, Share):
            shared = one.weights(also[-1])
            if shared is None:
                return None
            (used, weight), also = shared, also[:-1]
        rows, target = self.reader(X, y, *also)
        if used is not None:
            rows, target = rows[used], None if target is None else target[used]
        public = Public(rows.shape[0], rows.shape[1])
        return Records(public, rows, target, self.bound, weight)


def _prepared(
    make: Maker, prepare: Callable[..., Any], args: Any, one: ChunkPart, X: Any, *columns: Any
) -> Any:
    """Make the rows of a chunk ready; None for one without rows."""
    records = make(one, X, *columns) if X.shape[0] else None
    if records is None:
        return None
    n = one.rows.shape[0] if isinstance(one, Chosen) else X.shape[0]
    return n, prepare(records, *args)


def _total_of_made(
    make: Callable[..., Any], kernel: Callable[..., Any], args: Any, one: ChunkPart, *chunk: Any
) -> Part:
    item = make(one, *chunk)
    return Part() if item is None else Part(item[0], kernel(item[1], *args))


def _together(items: list[Any]) -> Any:
    """Hold what was made of several chunks in one place."""
    return next((item for item in items if isinstance(item, Failure)), items)


def _total_of_held(
    kernel: Callable[..., Any], args: Any, chosen: list[ChunkPart] | None, items: Sequence[Any]
) -> Part:
    """Add up over chunks that are held together; of one that has changed the count tells."""
    ones: Sequence[Any] = [None] * len(items) if chosen is None else chosen
    parts = []
    for one, item in zip(ones, items, strict=True):
        if item is None:
            continue
        n, ready = item
        if chosen is None:
            parts.append(Part(n, kernel(ready, *args)))
        elif one is not None and n == one.size:
            parts.append(Part(one.rows.shape[0], kernel(ready, *args, rows=one.rows)))
    return _added(parts)  # type: ignore[no-any-return]


def _cluster() -> tuple[int, int]:
    """Numbers of workers and of threads of the cluster that Dask would use; without one, of 1."""
    from dask.base import get_scheduler

    scheduler: Any = get_scheduler
    client: Any = getattr(scheduler(), "__self__", None)
    if not hasattr(client, "nthreads"):
        return 1, os.cpu_count() or 1
    try:
        threads = client.nthreads()
    except Exception:  # it is lost: the next pass says so
        threads = {}
    return max(1, len(threads)), max(1, sum(threads.values()))


def _total_of(
    make: Maker, kernel: Callable[..., Any], args: Any, one: ChunkPart, X: Any, *columns: Any
) -> Part:
    # in blocks of bounded memory, however large the caller's chunks are
    records = make(one, X, *columns) if X.shape[0] else None
    return Part() if records is None else Part(X.shape[0], records.total(kernel, *args))


def _picked(
    make: Maker, choose: Callable[..., Any], args: Any, one: ChunkPart, X: Any, *columns: Any
) -> Block | None:
    records = make(one, X, *columns) if X.shape[0] else None
    if records is None:
        return None
    block = records.block()
    chosen = choose(block.X, *args)
    return Block(*(None if part is None else part[chosen] for part in block))


def _look_at(reader: Reader, look: Callable[[Any], Any], X: Any, *columns: Any) -> Any:
    if X.shape[0] == 0:
        return None
    rows, _ = reader(X, None)
    try:
        return look(rows)
    except (TypeError, ValueError) as error:  # ours, without a value of the data
        return Facts(0, 0, 0, refusal=str(error))


def read_chunks(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    bound: Bound,
    target: Target | None = None,
    also: dict[str, Any] | None = None,
    look: Callable[[int, np.ndarray | None], Callable[..., Any] | None] | None = None,
    **checks: Any,
) -> ChunkedRecords:
    """Validate a table in chunks in one pass and find out what is public about it.

    Parameters
    ----------
    estimator : BaseEstimator
        For messages and tags.
    X, y : RowBlocks or Dask collections
        The table and its labels or numbers.
    bound : Bound
        How rows are bounded.
    target : Target or None
        What ``y`` is.
    also : dict or None
        Other columns in chunks, by their names; None for one that is not there.
    look : callable or None
        From the number of columns and their names, what else to look at in the same pass: a
        function of a chunk's validated rows and of its other columns. What it raises must not quote
        a value.
    **checks
        For scikit-learn's ``validate_data``.
    """
    _check_collections(X, y, target is not None)
    _check_columns(X, **(also or {}))
    reader = Reader(checks)
    twin = probe(estimator)
    for name in ("ledger", "random_state"):  # a worker needs neither, and the seed is secret
        if name in vars(twin):
            setattr(twin, name, None)
    looked = None
    if look is not None:
        sample = example_of(X)
        looked = look(sample.shape[1], _names_of(sample))
    chunks = Chunks(X, None if target is None else y, tuple((also or {}).values()))
    facts = chunks.each(partial(_inspected, twin, reader, target, looked))
    first = _agreed(facts)
    if target is None:
        classes, encode = None, None
    else:
        classes, encode = target.settle([f.found for f in facts if f.found is not None])
    public = Public(
        n=sum(fact.n for fact in facts),
        n_features=first.n_features,
        classes=classes,
        names=None if first.names is None else np.array(first.names, dtype=object),
        chunked=True,
    )
    seen = tuple(fact.seen for fact in facts if fact.n)
    sizes = tuple(fact.n for fact in facts)
    return ChunkedRecords(public, chunks, Reader(checks, encode), bound, seen, sizes)


def _check_collections(X: Any, y: Any, with_target: bool) -> None:
    """Refuse what can be seen to be wrong before anything is read."""
    if with_target and y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    pair = (X, y) if with_target else (X,)
    if isinstance(X, RowBlocks) != isinstance(pair[-1], RowBlocks) or not all(
        is_chunked(part) for part in pair
    ):
        raise TypeError(
            f"X is a {type(X).__name__} and y is a {type(y).__name__}: both must be in chunks, in "
            "the same way. Use dask.array.from_array(y, chunks=X.chunks[0]), or RowBlocks of both."
        )
    if isinstance(X, RowBlocks):
        return
    if X.ndim != 2:
        raise ValueError(
            f"Expected a table with rows and columns; X has {X.ndim} dimension(s). Use "
            "X.reshape(-1, 1) for a single column."
        )
    for name, part in (("X", X), ("y", y)):
        if part is None:
            continue
        if len(getattr(part, "numblocks", ())) == 2 and part.numblocks[1] > 1:
            raise ValueError(
                f"{name} is split between columns into {part.numblocks[1]} chunks; a record must "
                f"be in one chunk. Use {name}.rechunk({{1: -1}})."
            )
        if name == "X":
            _refuse_objects(part)
    known = [getattr(part, "chunks", ((math.nan,),))[0] for part in pair]
    if len(set(known)) > 1 and not any(math.isnan(size) for sizes in known for size in sizes):
        raise ValueError(f"The chunks of X and y have different lengths. {SAME_CHUNKS}")


def _check_columns(X: Any, **columns: Any) -> None:
    """Refuse columns that are not in chunks as the table is."""
    for name, column in columns.items():
        if column is None:
            continue
        if not is_chunked(column) or isinstance(X, RowBlocks) != isinstance(column, RowBlocks):
            raise TypeError(
                f"X is a {type(X).__name__} and {name} is a {type(column).__name__}: both must be "
                f"in chunks, in the same way. Use dask.array.from_array({name}, "
                "chunks=X.chunks[0]), or RowBlocks of both."
            )
        if is_dask(column) and column.ndim != 1:
            raise ValueError(f"{name} must have one entry per record; it has {column.ndim} axes.")
        if is_dask(column) and len(_pieces(column)) != len(_pieces(X)):
            raise ValueError(f"X and {name} have different numbers of chunks. {SAME_CHUNKS}")


def _refuse_objects(X: Any) -> None:
    if hasattr(X, "columns"):
        words = ("object", "string", "str", "category", "large_string")
        bad = [
            str(name)
            for name, dtype in zip(X.columns, X.dtypes, strict=True)
            if str(dtype).lower().startswith(words)
        ]
        if bad:
            raise ValueError(f"X has columns of objects or words: {', '.join(bad[:5])}. {READ_AS}")
    elif X.dtype.kind not in "biuf":
        raise ValueError(f"X has the type {X.dtype}, and numbers are needed. {READ_AS}")


def _names_of(sample: Any) -> np.ndarray | None:
    columns = getattr(sample, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.array(list(columns), dtype=object)


def _inspected(
    twin: Any,
    reader: Reader,
    target: Target | None,
    look: Callable[[Any], Any] | None,
    X: Any,
    y: Any,
    *also: Any,
) -> Facts:
    """Validate one chunk. Nothing is raised: a worker's log would quote what it was given."""
    n, n_features = int(X.shape[0]), int(X.shape[1]) if np.ndim(X) == 2 else -1
    n_targets = None if target is None else len(y)
    for column in also:
        if column is not None and len(column) != n:
            n_targets = len(column)
    facts = Facts(n, n_targets, n_features)
    if n_features < 0:
        return facts._replace(refusal="A chunk of X is not a table with rows and columns.")
    if n == 0 or (n_targets is not None and n != n_targets):
        return facts
    twin = copy.copy(twin)
    try:
        if target is None:
            rows = validate_data(twin, X, **reader.checks)
        else:
            rows, y = validate_data(twin, X, y, **reader.checks)
    except Exception as error:
        return facts._replace(refusal=_in_words(str(error)))
    names = getattr(twin, "feature_names_in_", None)
    facts = facts._replace(names=None if names is None else tuple(names))
    try:
        if target is not None:
            facts = facts._replace(found=target.inspect(y))
        return facts if look is None else facts._replace(seen=look(rows, *also))
    except (TypeError, ValueError) as error:  # messages of ours, which quote no value
        return facts._replace(refusal=str(error))


def _in_words(message: str) -> str:
    """Say what scikit-learn has found without the values that it may quote."""
    for name in ("X", "y"):
        if message.startswith(f"Input {name} contains NaN"):
            return f"A chunk of {name} contains NaN. Drop such records, or fill in a public value."
        if message.startswith(f"Input {name} contains infinity"):
            return (
                f"A chunk of {name} contains infinity or a value too large for its type. Clip it "
                "to public bounds."
            )
    if message.startswith("Sparse data was passed"):
        return "A chunk of X is sparse, and dense rows are required. Use X.map_blocks(toarray)."
    return f"A chunk of X or y does not hold plain numbers (or labels). {READ_AS}"


def _agreed(facts: list[Facts]) -> Facts:
    """Raise what a chunk has found, or return the facts of one that has rows."""
    for fact in facts:
        if fact.n_targets is not None and fact.n != fact.n_targets:
            raise ValueError(f"A chunk of X and one of y have different lengths. {SAME_CHUNKS}")
    for fact in facts:
        if fact.refusal is not None:
            raise ValueError(fact.refusal)
    filled = [fact for fact in facts if fact.n]
    if not filled:
        raise ValueError(
            "Found array with 0 sample(s): no chunk of X has a row. Check the files, or the filter "
            "that made the chunks."
        )
    first = filled[0]
    if any((f.n_features, f.names) != (first.n_features, first.names) for f in filled):
        raise ValueError(
            "Chunks of X have different columns. Give every chunk the same columns in one order."
        )
    return first


# One number per record


@dataclass(frozen=True)
class Values:
    """Validated records in memory: what conjugate models read."""

    held: np.ndarray
    share: ClassVar[int] = 1

    @property
    def size(self) -> int:
        """The number of records."""
        return len(self.held)

    def total(self, kernel: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return a sum over records that is exact."""
        return kernel(self.held)


@dataclass(frozen=True)
class ChunkedValues:
    """The same in chunks: validated in one pass, and read again for every sum."""

    chunks: Chunks
    read: Callable[[Any], np.ndarray]
    size: int
    share: ClassVar[int] = 1

    def total(self, kernel: Callable[[np.ndarray], np.ndarray]) -> Any:
        """Add up the sums of the chunks: one pass."""
        part = self.chunks.total(partial(_total_of_values, self.read, kernel))
        if part.n != self.size:
            raise RuntimeError(OTHER_RECORDS)
        return part.total


def read_values(read: Callable[[Any], np.ndarray], data: Any) -> Values | ChunkedValues:
    """Validate numbers with ``read``, whose errors quote no value."""
    if not is_chunked(data):
        return Values(read(data))
    if is_dask(data) and data.ndim > 1 and data.shape[1] != 1:
        raise ValueError("data must have one number per record; choose a column.")
    chunks = Chunks(data)
    facts = chunks.each(partial(_inspected_values, read))
    for fact in facts:
        if fact.refusal is not None:
            raise ValueError(fact.refusal)
    n = sum(fact.n for fact in facts)
    return ChunkedValues(chunks, read, n) if n else Values(read([]))  # which says what is missing


def _inspected_values(read: Callable[[Any], np.ndarray], data: Any, _: Any) -> Facts:
    n = len(data)
    try:
        if n:
            read(data)
    except Exception as error:
        ours = type(error) is ValueError and str(error).startswith("data must")
        words = "A chunk of data does not hold plain numbers. Read them as numbers before."
        return Facts(n, None, 1, refusal=str(error) if ours else words)
    return Facts(n, None, 1)


def _total_of_values(
    read: Callable[[Any], np.ndarray],
    kernel: Callable[[np.ndarray], np.ndarray],
    data: Any,
    _: Any,
) -> Part:
    n = len(data)
    return Part(n, kernel(read(data))) if n else Part()


# Predictions and transformers


def by_chunks(estimator: Any, method: str, X: Any, *, example: Any = None) -> Any:
    """Apply a method of a fitted estimator to every chunk, when it is asked for.

    Returns a Dask array with known type and width for Dask, and `RowBlocks` for `RowBlocks`. The
    ``example`` tells what the method returns; None for a row of zeros.
    """
    lean = copy.copy(estimator)
    if "ledger" in vars(lean):
        lean.ledger = None
    if isinstance(X, RowBlocks):
        return RowBlocks(partial(_results, lean, method, X))
    if len(getattr(X, "numblocks", ())) == 2 and X.numblocks[1] > 1:
        raise ValueError("X is split between columns. Use X.rechunk({1: -1}).")
    made = getattr(lean, method)(one_row(X) if example is None else example)
    made = made[:0] if sparse.issparse(made) else np.asarray(made)[:0]
    apply = partial(_applied, lean, method, made)
    import dask.array
    from dask import delayed

    da: Any = dask.array
    if not hasattr(X, "columns"):
        how = {"drop_axis": 1} if made.ndim == 1 else {"chunks": (X.chunks[0], made.shape[1:])}
        return X.map_blocks(apply, dtype=made.dtype, meta=made, **how)
    run = delayed(apply, pure=False, traverse=False)
    shape = (math.nan, *made.shape[1:])
    arrays = [
        da.from_delayed(run(piece), shape=shape, dtype=made.dtype, meta=made)
        for piece in _pieces(X)
    ]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def one_row(X: Any) -> Any:
    """Return a row of zeros with the types and names of a table in chunks."""
    sample = example_of(X)
    if not hasattr(sample, "columns"):
        kind = sample.dtype if sample.dtype.kind in "biuf" else np.float64
        return np.zeros((1, sample.shape[1]), dtype=kind)
    zeros = type(sample)(0, index=[0], columns=sample.columns)
    return zeros.astype(dict(zip(sample.columns, sample.dtypes, strict=True)))


def _results(estimator: Any, method: str, X: RowBlocks) -> Iterator[Any]:
    for block in X:
        yield getattr(estimator, method)(block) if block.shape[0] else block


def _applied(estimator: Any, method: str, empty: Any, X: Any) -> Any:
    return getattr(estimator, method)(X) if X.shape[0] else empty
