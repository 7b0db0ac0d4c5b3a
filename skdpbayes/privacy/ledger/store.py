"""The SQLite file behind a :class:`~skdpbayes.PrivacyLedger`: rows in, rows out.

Decisions about the file, and why:

* Rollback journal (``DELETE``), not WAL: a closed ledger is one file that can be copied, and read
  from read-only media. ``synchronous=EXTRA`` also syncs the directory after the journal is
  unlinked, so a committed reservation survives a power cut.
* One connection for each operation: nothing to share between threads, nothing to inherit.
* A process-wide lock around each operation, taken before a fork: SQLite keeps its table of POSIX
  locks in process memory, and a child that inherited it in the middle of an operation of another
  thread would take that thread's locks for its own.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from skdpbayes.exceptions import LedgerError

__all__ = ["Account", "LedgerStore"]

APPLICATION_ID = 0x736B6470  # "skdp": lets `file` and us tell a ledger from other SQLite files
SCHEMA_VERSION = 1
BUSY_SECONDS = 120.0  # a tight total under the write lock takes seconds at worst

_SCHEMA = f"""
CREATE TABLE account (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    adjacency TEXT NOT NULL,
    identity TEXT NOT NULL,
    created TEXT NOT NULL,
    totals TEXT NOT NULL
);
CREATE TABLE charge (
    id INTEGER PRIMARY KEY,
    guarantee TEXT NOT NULL UNIQUE,
    count INTEGER NOT NULL
);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    pid INTEGER NOT NULL,
    label TEXT NOT NULL,
    charge INTEGER NOT NULL REFERENCES charge (id)
);
CREATE TRIGGER entry_counts AFTER INSERT ON entry
    BEGIN UPDATE charge SET count = count + 1 WHERE id = NEW.charge; END;
CREATE TRIGGER entry_stays BEFORE DELETE ON entry
    BEGIN SELECT RAISE(ABORT, 'a reservation cannot be taken back'); END;
CREATE TRIGGER entry_fixed BEFORE UPDATE ON entry
    BEGIN SELECT RAISE(ABORT, 'a reservation cannot be changed'); END;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""

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
    identity: str


@dataclass(frozen=True)
class LedgerStore:
    """Reads and writes one ledger file; holds its path and nothing else."""

    path: Path

    def exists(self) -> bool:
        """Whether there is a file with something in it (an empty one is a creation cut short)."""
        try:
            if self.path.is_dir():
                raise LedgerError(
                    f"{self.path} is a directory; a ledger is a file. Name a file in it."
                )
            return self.path.stat().st_size > 0
        except FileNotFoundError:
            return False
        except OSError as error:
            raise LedgerError(
                f"Cannot look at the ledger {self.path}: {error.strerror}. Check the path and its "
                "permissions."
            ) from error

    def create(self, epsilon: float, delta: float, adjacency: str, totals: str) -> None:
        """Create the ledger; one that another process has created meanwhile is left as it is."""
        with _operation_lock:
            self._create_empty_file()
        with self.transaction(write=True) as connection:
            if _is_blank(connection):
                for statement in _statements(_SCHEMA):
                    connection.execute(statement)
                now = datetime.now(UTC).isoformat(timespec="microseconds")
                connection.execute(
                    "INSERT INTO account VALUES (1, ?, ?, ?, ?, ?, ?)",
                    (epsilon, delta, adjacency, uuid.uuid4().hex, now, totals),
                )

    def _create_empty_file(self) -> None:
        # The mode is given at creation, so there is no moment at which others could open the file.
        # SQLite gives its journal the same mode.
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            return
        except FileNotFoundError as error:
            raise LedgerError(
                f"Cannot create the ledger {self.path}: the directory {self.path.parent} does not "
                "exist. Create it first."
            ) from error
        except OSError as error:
            raise LedgerError(
                f"Cannot create the ledger {self.path}: {error.strerror}. Choose a directory that "
                "you can write to."
            ) from error

    def check(self, connection: sqlite3.Connection) -> int:
        """Check that the file is sound and its counts complete; return the number of entries."""
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise LedgerError(self.damage(verdict))
        counted = connection.execute("SELECT COALESCE(SUM(count), 0) FROM charge").fetchone()[0]
        entered = int(connection.execute("SELECT COUNT(*) FROM entry").fetchone()[0])
        if counted != entered:
            raise LedgerError(self.damage(f"{entered} entries, {counted} counted"))
        return entered

    def damage(self, detail: str) -> str:
        """Say that the file is damaged and what to do about it."""
        return (
            f"The ledger {self.path} is damaged or not a ledger ({detail}). Restore it from a "
            "backup that holds every reservation made so far; a new file would forget what was "
            "spent."
        )

    def account(self, connection: sqlite3.Connection) -> Account:
        """Read the budget row."""
        require_ledger(connection, self.path)
        row = connection.execute(
            "SELECT epsilon, delta, adjacency, identity FROM account"
        ).fetchone()
        if row is None:
            raise LedgerError(self.damage("its budget row is missing"))
        return Account(*row)

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


def read_totals(connection: sqlite3.Connection) -> str:
    """Read the running totals."""
    return str(connection.execute("SELECT totals FROM account").fetchone()[0])


def read_charges(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """Read the distinct guarantees and how often each was reserved."""
    return connection.execute("SELECT guarantee, count FROM charge ORDER BY id").fetchall()


def read_entries(connection: sqlite3.Connection) -> list[tuple[int, str, int, str, str]]:
    """Read every reservation: id, time, pid, label, guarantee."""
    return connection.execute(
        "SELECT entry.id, time, pid, label, guarantee FROM entry"
        " JOIN charge ON charge.id = entry.charge ORDER BY entry.id"
    ).fetchall()


def append_entry(connection: sqlite3.Connection, guarantee: str, label: str, totals: str) -> int:
    """Write one reservation and the totals that include it; return its id."""
    connection.execute(
        "INSERT OR IGNORE INTO charge (guarantee, count) VALUES (?, 0)", (guarantee,)
    )
    cursor = connection.execute(
        "INSERT INTO entry (time, pid, label, charge)"
        " SELECT ?, ?, ?, id FROM charge WHERE guarantee = ?",
        (datetime.now(UTC).isoformat(timespec="microseconds"), os.getpid(), label, guarantee),
    )
    connection.execute("UPDATE account SET totals = ?", (totals,))
    assert cursor.lastrowid is not None
    return cursor.lastrowid


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
        raise LedgerError(
            f"{path} is a ledger of version {version}; this skdpbayes reads version "
            f"{SCHEMA_VERSION}. Use the release of skdpbayes that wrote it."
        )


def _is_blank(connection: sqlite3.Connection) -> bool:
    (n_objects,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(n_objects == 0 and application == 0)


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
