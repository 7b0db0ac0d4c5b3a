"""The SQLite file behind a :class:`~skdpbayes.PrivacyLedger`: rows in, rows out.

Decisions about the file, and why:

* Rollback journal (``DELETE``), not WAL: a closed ledger is one file that can be copied, and read
  from read-only media. ``synchronous=EXTRA`` also syncs the directory after the journal is
  unlinked, so a committed reservation survives a power cut.
* One connection for each operation: nothing to share between threads, nothing to inherit.
* A process-wide lock around each operation, taken before a fork: SQLite keeps its table of POSIX
  locks in process memory, and a child that inherited it in the middle of an operation of another
  thread would take that thread's locks for its own.
* One table to which rows are only ever added, and no index. Totals, and what is left of a plan, are
  worked out from all the rows every time, so there is no second copy that could disagree, and no
  index that could lead to another row than the one that was meant.
* A chain of digests over the account and all entries tells damage, not forgery. It is checked
  whenever the file is read, and a new entry is read back before it is committed. Who has read the
  file before remembers what was in it, and reads and checks what is new.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from skdpbayes.exceptions import LedgerError
from skdpbayes.privacy.ledger.filter import Price

APPLICATION_ID = 0x736B6470  # "skdp": lets `file` and us tell a ledger from other SQLite files
SCHEMA_VERSION = 2
MOVED_VERSION = 1002  # of a file whose account goes on in a database
BUSY_SECONDS = 120.0
_SMALLEST_FILE = 512  # bytes of a SQLite page at least

_SCHEMA = f"""
CREATE TABLE account (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    adjacency TEXT NOT NULL,
    unit TEXT NOT NULL,
    filter TEXT NOT NULL,
    identity TEXT NOT NULL,
    created TEXT NOT NULL,
    digest TEXT NOT NULL
);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    pid INTEGER NOT NULL,
    label TEXT NOT NULL,
    guarantee TEXT NOT NULL,
    size TEXT NOT NULL,
    slack TEXT NOT NULL,
    plan INTEGER,
    listed TEXT
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""

# What Python raises when it is given other bytes than were written.
_UNREADABLE = (ArithmeticError, MemoryError, OSError, TypeError, ValueError)

_operation_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_operation_lock.acquire,
        after_in_parent=_operation_lock.release,
        after_in_child=_operation_lock.release,
    )


@dataclass(frozen=True)
class Account:
    """The fixed row of a ledger: its budget and what tells it from any other file."""

    epsilon: float
    delta: float
    adjacency: str
    unit: str
    filter: str
    identity: str
    created: str


class Entry(NamedTuple):
    """One reservation as it is stored: a row of the table."""

    number: int
    time: str
    pid: int
    label: str
    guarantee: str
    size: str
    slack: str
    plan: int | None  # the entry that paid for this one, which then costs nothing
    listed: str | None  # of a plan: its events with their counts, in JSON


@dataclass(frozen=True)
class State:
    """Everything that a file holds, read and checked as a whole."""

    account: Account
    entries: tuple[Entry, ...]
    digest: str

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.entries)

    @property
    def total(self) -> Price:
        """What everything reserved so far costs."""
        counts = Counter((entry.size, entry.slack) for entry in self.entries)
        prices = (
            Price(Decimal(size), Decimal(slack)).times(count)
            for (size, slack), count in counts.items()
        )
        return sum(prices, Price())

    def left(self, plan: int) -> Counter[str]:
        """What a plan still lists: events, as JSON, with their counts."""
        listed = self.entries[plan - 1].listed if 1 <= plan <= self.count else None
        left = Counter[str](json.loads(listed or "{}"))
        left.subtract(event_text(e.guarantee) for e in self.entries if e.plan == plan)
        return left


def event_text(guarantee: str) -> str:
    """Return the event of a guarantee, both in JSON."""
    return json.dumps(json.loads(guarantee)["event"], sort_keys=True)


class Store(Protocol):
    """Where an account is kept: rows in, rows out, one transaction at a time.

    A ``connection`` is whatever `transaction` yields; it is handed back to the store and to
    nobody else. A transaction with ``write`` is alone in the account until it ends.
    """

    def exists(self) -> bool:
        """Whether there is an account."""

    def create(self, account: Account) -> None:
        """Create it; one that somebody else has created meanwhile is left as it is."""

    def transaction(self, *, write: bool = False) -> AbstractContextManager[Any]:
        """A transaction: committed at the end, undone on any error."""

    def check(self, connection: Any) -> State:
        """Read everything, and check where it is kept as well."""

    def state(self, connection: Any, known: State | None = None) -> State:
        """Read what is new since `known`; raise unless it is what was written."""

    def append(
        self,
        connection: Any,
        state: State,
        guarantee: str,
        label: str,
        price: Price,
        *,
        plan: int | None = None,
        listed: str | None = None,
    ) -> State:
        """Write one reservation after `state`, which the same transaction read."""


@dataclass(frozen=True)
class LedgerStore:
    """Reads and writes one ledger file; holds its path and nothing else."""

    path: Path

    def exists(self) -> bool:
        """Whether there is a file. An empty one is damage: creation never leaves one."""
        try:
            if self.path.is_dir():
                raise LedgerError(
                    f"{self.path} is a directory; a ledger is a file. Name a file in it."
                )
            size = self.path.stat().st_size
        except FileNotFoundError:
            if self.path.with_name(self.path.name + "-journal").exists():
                raise LedgerError(
                    self.damage("it is gone, and its journal is still there")
                ) from None
            return False
        except OSError as error:
            raise LedgerError(
                f"Cannot look at the ledger {self.path}: {error.strerror}. Check the path and its "
                "permissions."
            ) from error
        if size < _SMALLEST_FILE:  # SQLite takes it for a new database
            raise LedgerError(self.damage("the file is empty or cut short"))
        return True

    def create(self, account: Account) -> None:
        """Create the ledger; one that another process has created meanwhile is left as it is.

        It is written under another name and then linked, so that it appears complete or not at all.
        """
        draft = self.path.with_name(f".{self.path.name}.{account.identity}.new")
        try:
            with _operation_lock:
                # The mode is given at creation: there is no moment at which others could open it.
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            with LedgerStore(draft).transaction(write=True) as connection:
                for statement in _statements(_SCHEMA):
                    connection.execute(statement)
                connection.execute(
                    "INSERT INTO account VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*astuple(account), opened(account).digest),
                )
            with contextlib.suppress(FileExistsError):
                os.link(draft, self.path)
        except FileNotFoundError as error:
            raise LedgerError(
                f"Cannot create the ledger {self.path}: the directory {self.path.parent} does not "
                "exist. Create it first."
            ) from error
        except OSError as error:
            raise LedgerError(
                f"Cannot create the ledger {self.path}: {error.strerror}. Choose a directory that "
                "you can write to, on a local disk."
            ) from error
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

    def check(self, connection: sqlite3.Connection) -> State:
        """Check the structure of the file, too; return its state."""
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise LedgerError(self.damage(" ".join(verdict.split())))
        return self.state(connection)

    def close_for_good(self) -> State:
        """Refuse every further use of the file; return what it holds. It may be called again."""
        with self.transaction(write=True) as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] == MOVED_VERSION:
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            state = self.check(connection)
            connection.execute(f"PRAGMA user_version = {MOVED_VERSION}")
        return state

    def damage(self, detail: str) -> str:
        """Say that the file is damaged and what to do about it."""
        return (
            f"The ledger {self.path} is damaged or not a ledger ({detail}). Restore it from a "
            "backup that holds every reservation made so far; a new file would forget what was "
            "spent."
        )

    def state(self, connection: Any, known: State | None = None) -> State:
        """Read the account and its entries; raise unless they are what was written.

        Entries that are `known` are not read again, unless the file does not continue them.
        """
        require_ledger(connection, self.path)
        try:
            (page,) = connection.execute("PRAGMA page_size").fetchone()
            if self.path.stat().st_size % page:  # SQLite takes half a page for a whole one
                raise LedgerError(self.damage("the file is cut short"))
            (row,) = connection.execute("SELECT * FROM account").fetchall()
            account = Account(*row[1:-1])
            state = known or opened(account)
            new = connection.execute(
                "SELECT * FROM entry WHERE id > ? ORDER BY id", (state.count,)
            ).fetchall()
            found = continued(state, account, new, row[-1])
            if found is not None:
                return found
        except _UNREADABLE as error:
            raise LedgerError(self.damage(f"it cannot be read: {error}")) from error
        if known is not None:
            return self.state(connection)
        raise LedgerError(self.damage("its contents do not match their digest"))

    def append(
        self,
        connection: sqlite3.Connection,
        state: State,
        guarantee: str,
        label: str,
        price: Price,
        *,
        plan: int | None = None,
        listed: str | None = None,
    ) -> State:
        """Write one reservation after `state`, which the same transaction read."""
        after = extended(state, guarantee, label, price, plan, listed)
        connection.execute(
            "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", after.entries[-1]
        )
        connection.execute("UPDATE account SET digest = ?", (after.digest,))
        if self.state(connection, state) != after:
            raise LedgerError(self.damage("a new entry did not reach its place"))
        return after

    @contextlib.contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction on a connection of its own: committed at the end, undone on any error.

        With ``write`` it holds SQLite's write lock from its first statement (``BEGIN IMMEDIATE``),
        so what it reads is still true when it writes.
        """
        with _operation_lock, _explained(self.path):
            # mode=rw never creates a file, and falls back to reading where writing is not allowed.
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode=rw",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
            )
            try:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield connection
                connection.execute("COMMIT")
            finally:
                connection.close()  # rolls back what was not committed


def opened(account: Account) -> State:
    """Return the state of an account without entries."""
    return State(account, (), _link(astuple(account)))


def continued(state: State, account: Account, new: Iterable[Any], digest: str) -> State | None:
    """Return what follows `state`; None unless it ends in the digest that is stored."""
    entries = tuple(Entry._make(row) for row in new)
    reached = reduce(_link, entries, state.digest)
    if state.account != account or reached != digest:
        return None
    return State(account, state.entries + entries, reached)


def extended(
    state: State,
    guarantee: str,
    label: str,
    price: Price,
    plan: int | None,
    listed: str | None,
) -> State:
    """Return the state after one more reservation."""
    entry = Entry(
        number=state.count + 1,
        time=now(),
        pid=os.getpid(),
        label=label,
        guarantee=guarantee,
        size=str(price.size),
        slack=str(price.slack),
        plan=plan,
        listed=listed,
    )
    return State(state.account, (*state.entries, entry), _link(state.digest, entry))


def now() -> str:
    """Return the time in UTC, in ISO format."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _link(*parts: object) -> str:
    """Return the digest of what came before and of what follows it."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def require_ledger(connection: sqlite3.Connection, path: Path) -> None:
    """Raise unless the connection is to a ledger of the version that this code writes."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise LedgerError(
            f"{path} is a SQLite file but not a privacy ledger. Give the path of a ledger, or of a "
            "new file."
        )
    if version == MOVED_VERSION:
        raise LedgerError(
            f"The account of {path} was moved to a database and goes on there; nothing was "
            "charged. Open it by its address, postgresql://...#account."
        )
    if version != SCHEMA_VERSION:
        advice = (
            "Its budget was kept by a rule that does not hold for releases chosen in view of "
            "earlier ones. List its reservations with the release of skdpbayes that wrote it, "
            "create a new ledger, and reserve them there before anything else."
            if version == 1
            else "Use the release of skdpbayes that wrote it."
        )
        raise LedgerError(
            f"{path} is a ledger of version {version}; this skdpbayes reads version "
            f"{SCHEMA_VERSION}. {advice}"
        )


def _statements(script: str) -> Iterator[str]:
    # `executescript` would commit the transaction that must hold the whole creation.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerError(_explain(path, error)) from error
    except UnicodeDecodeError as error:  # a message of SQLite that quotes damaged text
        raise LedgerError(LedgerStore(path).damage(str(error))) from error


def _explain(path: Path, error: sqlite3.Error) -> str:
    # The low byte is the primary result code; the rest of an extended code is detail.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return LedgerStore(path).damage(str(error))
    if code == sqlite3.SQLITE_CANTOPEN and not path.exists():
        return f"There is no ledger at {path}. Pass epsilon to create one, or correct the path."
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return (
            f"The ledger {path} cannot be opened for writing ({error}); nothing was charged. Make "
            "the file and its directory readable and writable for this user."
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        return (
            f"The ledger {path} stayed locked by another process for {BUSY_SECONDS:g} s ({error}); "
            "nothing was charged. Try again; keep ledgers off network file systems."
        )
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return f"The ledger {path} could not be read or written ({error}). Check the disk."
    return f"The ledger {path} cannot be used: {error}."
