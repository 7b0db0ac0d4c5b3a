"""An account in a PostgreSQL database, for people on several machines: rows in, rows out.

Decisions, and why:

* An address is ``postgresql://user@host/database#account``. One database holds any number of
  accounts, one per data set, in two tables. Who may charge and who may only read is the database's
  business: charging needs SELECT, INSERT and UPDATE on both tables, reading SELECT.
* A reservation locks the account's row (``SELECT ... FOR UPDATE``) before it reads the entries, so
  that what it reads is still true when it writes. The server gives the lock back when the
  transaction ends, and undoes the transaction when the client is gone.
* One connection for each operation: nothing to share between threads, nothing to inherit.
* Nothing is tried twice. If the connection is lost during the commit, nobody can tell whether the
  reservation was made; the error says so, and as no fit follows it, at worst too much is charged.
* A password is remembered in this process alone. It is no part of the address that is shown,
  compared or pickled.
* The chain of digests over the account and its entries is that of the files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from skdpbayes.exceptions import LedgerError
from skdpbayes.privacy.ledger.filter import Price
from skdpbayes.privacy.ledger.store import (
    BUSY_SECONDS,
    Account,
    Entry,
    LedgerStore,
    State,
    continued,
    extended,
    opened,
)

SCHEMES = ("postgresql", "postgres")
SECRET_OPTIONS = ("password", "sslpassword")
CONNECT_SECONDS = 10
VERSION = 2  # of the entries, which are those of files
_CREATION_LOCK = 0x736B6470

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS skdpbayes_account (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    epsilon DOUBLE PRECISION NOT NULL,
    delta DOUBLE PRECISION NOT NULL,
    adjacency TEXT NOT NULL,
    unit TEXT NOT NULL,
    filter TEXT NOT NULL,
    identity TEXT NOT NULL,
    created TEXT NOT NULL,
    digest TEXT NOT NULL
)""",
    """CREATE TABLE IF NOT EXISTS skdpbayes_entry (
    account TEXT NOT NULL REFERENCES skdpbayes_account (name),
    number BIGINT NOT NULL,
    time TEXT NOT NULL,
    pid BIGINT NOT NULL,
    label TEXT NOT NULL,
    guarantee TEXT NOT NULL,
    size TEXT NOT NULL,
    slack TEXT NOT NULL,
    plan BIGINT,
    listed TEXT,
    PRIMARY KEY (account, number)
)""",
)
_ACCOUNT = ", ".join(field.name for field in fields(Account))
_ENTRY = ", ".join(Entry._fields)

# Addresses as they were given, passwords included, by the addresses that are shown.
_given: dict[str, str] = {}


def place_of(path: Any) -> Path | str:
    """Return the absolute path of a file, or the address of an account without its password."""
    text = os.fspath(path)
    if not isinstance(text, str) or text.partition("://")[0] not in SCHEMES:
        return Path(os.path.realpath(os.path.expanduser(text)))
    shown, has_secret = _without_secrets(text)
    if has_secret or shown not in _given:
        _given[shown] = text
    return shown


def _without_secrets(address: str) -> tuple[str, bool]:
    """Return the address that may be shown, and whether something was left out."""
    try:
        parts = urlsplit(address)
        user, has_user, host = parts.netloc.rpartition("@")
        account = unquote(parts.fragment)
        options = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:  # whose message may quote the address
        raise LedgerError(
            "The address of the ledger cannot be read. Write "
            "postgresql://user@host/database#account, with % codes for special characters."
        ) from None
    if not account or "\0" in account:
        raise LedgerError(
            "The address of the ledger does not name an account. Write "
            "postgresql://user@host/database#account, one account per data set."
        )
    user, _, password = user.partition(":")
    kept = [(name, value) for name, value in options if name not in SECRET_OPTIONS]
    where = f"{user}@{host}" if has_user and user else host
    pieces = ("postgresql", where, parts.path, urlencode(kept), quote(account, safe=""))
    return urlunsplit(pieces), bool(password) or len(kept) < len(options)


@dataclass(frozen=True)
class PostgresStore:
    """Reads and writes one account of a database; holds its address without a password."""

    address: str

    @property
    def account(self) -> str:
        """The account's name."""
        return unquote(urlsplit(self.address).fragment)

    def exists(self) -> bool:
        """Whether the database has this account."""
        with self._connection() as connection:
            (tables,) = connection.execute("SELECT to_regclass('skdpbayes_account')").fetchone()
            return tables is not None and self._row(connection) is not None

    def create(self, account: Account) -> None:
        """Create the account; one that somebody else has created meanwhile is left as it is."""
        self.write(opened(account))

    def write(self, state: State) -> None:
        """Create the account with entries that it had elsewhere."""
        with self._connection() as connection:
            # two sessions that create a table of one name at a time are an error otherwise
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
            (tables,) = connection.execute("SELECT to_regclass('skdpbayes_account')").fetchone()
            for statement in _SCHEMA if tables is None else ():
                connection.execute(statement)
            made = connection.execute(
                f"INSERT INTO skdpbayes_account (name, version, {_ACCOUNT}, digest) VALUES "
                "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (self.account, VERSION, *astuple(state.account), state.digest),
            )
            if made.rowcount == 1:
                for entry in state.entries:
                    self._insert(connection, entry)

    def identity(self) -> str:
        """Return what tells this account from any other, after a check of all its entries."""
        with self.transaction() as connection:
            return self.check(connection).account.identity

    def check(self, connection: Any) -> State:
        """Read everything; the server keeps its own files."""
        return self.state(connection)

    def state(self, connection: Any, known: State | None = None) -> State:
        """Read the account and its entries; raise unless they are what was written.

        Entries that are `known` are not read again, unless the account does not continue them.
        """
        row = self._row(connection)
        if row is None:
            raise LedgerError(
                f"There is no account {self.address}. Pass epsilon to create one, or correct the "
                "address."
            )
        version, *values, digest = row
        if version != VERSION:
            raise LedgerError(
                f"The account {self.address} is of version {version}; this skdpbayes reads "
                f"version {VERSION}. Use the release of skdpbayes that wrote it."
            )
        account = Account(*values)
        state = known or opened(account)
        new = connection.execute(
            f"SELECT {_ENTRY} FROM skdpbayes_entry WHERE account = %s AND number > %s "
            "ORDER BY number",
            (self.account, state.count),
        ).fetchall()
        (held,) = connection.execute(
            "SELECT count(*) FROM skdpbayes_entry WHERE account = %s", (self.account,)
        ).fetchone()
        found = continued(state, account, new, digest)
        if found is not None and found.count == held:
            return found
        if known is not None:
            return self.state(connection)
        raise LedgerError(
            f"The account {self.address} is damaged: its contents do not match their digest. "
            "Restore it from a backup that holds every reservation made so far; a new account "
            "would forget what was spent."
        )

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
        after = extended(state, guarantee, label, price, plan, listed)
        self._insert(connection, after.entries[-1])
        connection.execute(
            "UPDATE skdpbayes_account SET digest = %s WHERE name = %s",
            (after.digest, self.account),
        )
        if self.state(connection, state) != after:
            raise LedgerError(f"A new entry did not reach its place in {self.address}.")
        return after

    @contextlib.contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Any]:
        """A transaction on a connection of its own; with ``write`` alone in the account."""
        with self._connection() as connection:
            if write:
                # whatever the server's defaults: a reservation is on disk when it is made
                connection.execute("SET LOCAL synchronous_commit = on")
                connection.execute(f"SET LOCAL lock_timeout = '{BUSY_SECONDS:g}s'")
                connection.execute(
                    "SELECT 1 FROM skdpbayes_account WHERE name = %s FOR UPDATE", (self.account,)
                )
            else:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection

    def _row(self, connection: Any) -> Any:
        return connection.execute(
            f"SELECT version, {_ACCOUNT}, digest FROM skdpbayes_account WHERE name = %s",
            (self.account,),
        ).fetchone()

    def _insert(self, connection: Any, entry: Entry) -> None:
        connection.execute(
            f"INSERT INTO skdpbayes_entry (account, {_ENTRY}) VALUES "
            "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (self.account, *entry),
        )

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        """Yield a connection in a transaction: committed at the end, undone on any error."""
        try:
            import psycopg
        except ImportError:
            raise LedgerError(
                "A ledger in a PostgreSQL database needs psycopg 3: pip install "
                '"skdpbayes[postgres]".'
            ) from None
        given = urlsplit(_given.get(self.address, self.address))
        target = urlunsplit(("postgresql", given.netloc, given.path, given.query, ""))
        options: dict[str, Any] = {}
        if "connect_timeout" not in given.query:
            options["connect_timeout"] = CONNECT_SECONDS
        committing = False
        try:
            connection = psycopg.connect(target, **options)
            try:
                connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
                yield connection
                committing = True
                connection.commit()
            finally:
                connection.close()  # the server undoes what was not committed
        except (psycopg.Error, UnicodeError) as error:
            # not chained: what libpq quotes of an address may hold the password
            raise LedgerError(self._explained(error, committing)) from None

    def _explained(self, error: Exception, committing: bool) -> str:
        state = getattr(error, "sqlstate", None) or ""
        if committing:
            return (
                f"The connection to {self.address} was lost while a reservation was being made: it "
                "may or may not be charged, and nothing is released. Look at the entries before "
                "you try again."
            )
        if state == "42501" or state == "25006":
            return (
                f"This user may not do that in {self.address} (permission denied); nothing was "
                "charged. Charging needs SELECT, INSERT and UPDATE on skdpbayes_account and "
                "skdpbayes_entry, reading SELECT; creating tables needs CREATE on the schema."
            )
        if state == "55P03":
            return (
                f"The account {self.address} stayed locked by another session for "
                f"{BUSY_SECONDS:g} s; nothing was charged. Try again."
            )
        if state in ("28P01", "28000"):
            return (
                f"The server of {self.address} does not let this user in; nothing was charged. "
                "A password is not kept in pickles: set PGPASSWORD, or use ~/.pgpass."
            )
        return (
            f"The ledger {self.address} cannot be used ({type(error).__name__}"
            f"{', SQLSTATE ' + state if state else ''}); nothing was charged. Check that the "
            "server runs, the address, and the password (PGPASSWORD or ~/.pgpass)."
        )


def move_to_database(path: Any, address: Any) -> None:
    """Continue the account of a file in a database; nobody can use the file from then on.

    The file is closed first and copied then: whatever fails in between, no budget is there twice,
    and the same call finishes the work.

    Parameters
    ----------
    path : str or path-like
        The ledger file.
    address : str
        ``postgresql://user@host/database#account``; the account must not exist.
    """
    source, target = place_of(path), place_of(address)
    if not isinstance(source, Path) or not isinstance(target, str):
        raise LedgerError(
            "A ledger is moved from a file to postgresql://user@host/database#account."
        )
    file, store = LedgerStore(source), PostgresStore(target)
    if not file.exists():
        raise LedgerError(f"There is no ledger at {source}.")
    with file.transaction() as connection:
        (identity,) = connection.execute("SELECT identity FROM account").fetchone()
    if store.exists() and store.identity() != identity:
        raise LedgerError(f"{target} is another account; nothing was moved. Name a new one.")
    store.write(file.close_for_good())
    if store.identity() != identity:
        raise LedgerError(
            f"Somebody else has created {target} meanwhile. {source} is closed, and nothing is "
            "lost: move it to another account."
        )
