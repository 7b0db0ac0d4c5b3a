"""The SQLite file behind a :class:`~skdpbayes.PrivacyLedger`: rows in, rows out.

Decisions about the file, and why:

* Rollback journal (``DELETE``), not WAL: a closed ledger is one file that can be copied, and read
  from read-only media. ``synchronous=EXTRA`` also syncs the directory after the journal is
  unlinked, so a committed reservation survives a power cut.
* One connection for each operation: nothing to share between threads, nothing to inherit.
* A process-wide lock around each operation, taken before a fork: SQLite keeps its table of POSIX
  locks in process memory, and a child that inherited it in the middle of an operation of another
  thread would take that thread's locks for its own.
* No totals are stored. Each distinct guarantee is kept once, with its price and its count, and
  they are added up every time. A digest covers the account, these charges and the plans, and a
  chain of digests covers the entries; both tell damage, not forgery.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from skdpbayes.exceptions import LedgerError
from skdpbayes.privacy.ledger.filter import Price

__all__ = ["Account", "Charge", "LedgerStore", "State"]

APPLICATION_ID = 0x736B6470  # "skdp": lets `file` and us tell a ledger from other SQLite files
SCHEMA_VERSION = 2
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
    chain TEXT NOT NULL,
    digest TEXT NOT NULL
);
CREATE TABLE charge (
    id INTEGER PRIMARY KEY,
    guarantee TEXT NOT NULL,
    planned INTEGER NOT NULL,
    size TEXT NOT NULL,
    slack TEXT NOT NULL,
    count INTEGER NOT NULL,
    UNIQUE (guarantee, planned)
);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    pid INTEGER NOT NULL,
    label TEXT NOT NULL,
    charge INTEGER NOT NULL REFERENCES charge (id),
    plan INTEGER REFERENCES entry (id)
);
CREATE TABLE plan (
    entry INTEGER NOT NULL REFERENCES entry (id),
    event TEXT NOT NULL,
    planned INTEGER NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (entry, event)
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""

# What Python raises when it is given other bytes than were written.
_UNREADABLE = (ArithmeticError, MemoryError, TypeError, ValueError)

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


@dataclass(frozen=True)
class Charge:
    """A guarantee, what one reservation of it cost, and how often it was reserved.

    A ``planned`` one was paid for by the plan that listed it and costs nothing by itself.
    """

    guarantee: str
    planned: bool
    price: Price
    count: int


@dataclass(frozen=True)
class State:
    """Everything that a decision needs, read and checked as a whole."""

    account: Account
    charges: tuple[Charge, ...]
    chain: str

    @property
    def count(self) -> int:
        """The number of entries."""
        return sum(charge.count for charge in self.charges)

    @property
    def total(self) -> Price:
        """What everything reserved so far costs."""
        return sum((c.price.times(c.count) for c in self.charges), Price())


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
                now = datetime.now(UTC).isoformat(timespec="microseconds")
                connection.execute(
                    "INSERT INTO account VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*astuple(account), now, account.identity, ""),
                )
                _seal(connection)
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
        """Check the whole file, also what no decision reads; return its state."""
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise LedgerError(self.damage(" ".join(verdict.split())))
        state = self.state(connection)
        chain, counts = state.account.identity, Counter[int]()
        try:
            for row in connection.execute("SELECT * FROM entry ORDER BY id"):
                chain = _link(chain, row)
                counts[row[4]] += 1
        except _UNREADABLE as error:
            raise LedgerError(self.damage(f"it cannot be read: {error}")) from error
        if chain != state.chain:
            raise LedgerError(self.damage("its entries do not match their digest"))
        counted = dict(connection.execute("SELECT id, count FROM charge").fetchall())
        if counted != dict(counts):
            raise LedgerError(self.damage("its entries do not match their counts"))
        return state

    def damage(self, detail: str) -> str:
        """Say that the file is damaged and what to do about it."""
        return (
            f"The ledger {self.path} is damaged or not a ledger ({detail}). Restore it from a "
            "backup that holds every reservation made so far; a new file would forget what was "
            "spent."
        )

    def state(self, connection: sqlite3.Connection) -> State:
        """Read the account and its charges; raise unless they are what was written."""
        require_ledger(connection, self.path)
        try:
            row = connection.execute("SELECT * FROM account").fetchone()
            if row is None or row[-1] != _digest(connection):
                raise LedgerError(self.damage("its contents do not match their digest"))
            charges = connection.execute(
                "SELECT guarantee, planned, size, slack, count FROM charge ORDER BY id"
            )
            return State(
                Account(*row[1:7]),
                tuple(
                    Charge(text, bool(planned), Price(Decimal(size), Decimal(slack)), count)
                    for text, planned, size, slack, count in charges
                ),
                row[8],
            )
        except _UNREADABLE as error:
            raise LedgerError(self.damage(f"it cannot be read: {error}")) from error

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


def read_entries(
    connection: sqlite3.Connection,
) -> list[tuple[int, str, int, str, int | None, str]]:
    """Read every reservation: id, time, pid, label, plan, guarantee."""
    return connection.execute(
        "SELECT entry.id, time, pid, label, plan, guarantee FROM entry"
        " JOIN charge ON charge.id = entry.charge ORDER BY entry.id"
    ).fetchall()


def append_entry(
    connection: sqlite3.Connection,
    guarantee: str,
    label: str,
    price: Price,
    plan: int | None = None,
) -> int:
    """Write one reservation; return its id. One that a plan has paid for costs nothing."""
    planned = plan is not None
    connection.execute(
        "INSERT OR IGNORE INTO charge (guarantee, planned, size, slack, count)"
        " VALUES (?, ?, ?, ?, 0)",
        (guarantee, planned, str(price.size), str(price.slack)),
    )
    (charge,) = connection.execute(
        "SELECT id FROM charge WHERE guarantee = ? AND planned = ?", (guarantee, planned)
    ).fetchone()
    connection.execute("UPDATE charge SET count = count + 1 WHERE id = ?", (charge,))
    (last,) = connection.execute("SELECT COALESCE(MAX(id), 0) FROM entry").fetchone()
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    row = (last + 1, now, os.getpid(), label, charge, plan)
    connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", row)
    (chain,) = connection.execute("SELECT chain FROM account").fetchone()
    connection.execute("UPDATE account SET chain = ?", (_link(chain, row),))
    _seal(connection)
    return int(row[0])


def append_plan(connection: sqlite3.Connection, entry: int, events: Mapping[str, int]) -> None:
    """Write what the plan paid for by reservation `entry` lists: events with their counts."""
    connection.executemany(
        "INSERT INTO plan VALUES (?, ?, ?, 0)", [(entry, *item) for item in events.items()]
    )
    _seal(connection)


def tick_off(connection: sqlite3.Connection, entry: int, event: str) -> bool:
    """Use up one listed event of a plan; return False if there is none left."""
    cursor = connection.execute(
        "UPDATE plan SET used = used + 1 WHERE entry = ? AND event = ? AND used < planned",
        (entry, event),
    )
    return cursor.rowcount == 1


def read_plans(connection: sqlite3.Connection) -> list[tuple[int, int, int]]:
    """Read for each plan: its reservation, how many events it lists, how many are used up."""
    return connection.execute(
        "SELECT entry, SUM(planned), SUM(used) FROM plan GROUP BY entry ORDER BY entry"
    ).fetchall()


def _link(chain: str, row: tuple[object, ...]) -> str:
    """Return the digest of all entries so far and one more."""
    return hashlib.sha256(json.dumps([chain, *row]).encode()).hexdigest()


def _digest(connection: sqlite3.Connection) -> str:
    """Return the digest of the account, the charges and the plans, and so of the entries, too."""
    content = [
        connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
        for table in ("charge", "plan")
    ]
    (account,) = connection.execute("SELECT * FROM account").fetchall()
    return hashlib.sha256(json.dumps([account[:-1], *content]).encode()).hexdigest()


def _seal(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE account SET digest = ?", (_digest(connection),))


def require_ledger(connection: sqlite3.Connection, path: Path) -> None:
    """Raise unless the connection is to a ledger of the version that this code writes."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise LedgerError(
            f"{path} is a SQLite file but not a privacy ledger. Give the path of a ledger, or of a "
            "new file."
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
