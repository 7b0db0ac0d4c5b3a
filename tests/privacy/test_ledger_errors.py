"""Files that are not, or no longer, what a ledger should be."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

from skdpbayes import PrivacyLedger
from skdpbayes.exceptions import BudgetExceededError, LedgerError
from skdpbayes.privacy.events import PureDP
from skdpbayes.privacy.guarantee import PrivacyGuarantee
from skdpbayes.privacy.ledger import store as ledger_store
from skdpbayes.privacy.ledger.filter import Price
from skdpbayes.privacy.ledger.store import LedgerStore

HALF = PrivacyGuarantee(0.5, 0.0, "replace_one", "test noise", PureDP(0.5))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.ledger"


def edit(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_absent_file_without_a_budget(path):
    with pytest.raises(LedgerError, match=r"no ledger at .*budget\.ledger.*Pass epsilon"):
        PrivacyLedger(path)
    assert not path.exists()


def test_absent_directory(tmp_path):
    with pytest.raises(LedgerError, match=r"directory .*nowhere does not exist. Create it"):
        PrivacyLedger(tmp_path / "nowhere" / "budget.ledger", epsilon=1.0)


def test_a_file_where_a_directory_should_be(path):
    path.write_text("")
    with pytest.raises(LedgerError, match="Check the path"):
        PrivacyLedger(path / "budget.ledger", epsilon=1.0)


def test_directory_instead_of_file(tmp_path):
    with pytest.raises(LedgerError, match="is a directory; a ledger is a file"):
        PrivacyLedger(tmp_path, epsilon=1.0)


@pytest.mark.parametrize(
    "budget",
    [
        {"epsilon": 2.0, "delta": 1e-5},
        {"epsilon": 1.0},
        {"epsilon": 1.0, "delta": 1e-6},
        {"epsilon": 1.0, "delta": 1e-5, "adjacency": "zero_out"},
        {"delta": 1e-6},
        {"adjacency": "zero_out"},
    ],
)
def test_another_budget_for_an_existing_ledger(path, budget):
    PrivacyLedger(path, epsilon=1.0, delta=1e-5)
    message = (
        "has the budget epsilon=1, delta=1e-05, adjacency=replace_one, .*not .* cannot be changed"
    )
    with pytest.raises(LedgerError, match=message):
        PrivacyLedger(path, **budget)
    assert PrivacyLedger(path).epsilon == 1.0


@pytest.mark.parametrize("size", [0, 1, 100, 512, 4096, 6000, 8192, 12000])
def test_a_file_cut_short_is_never_begun_again(path, size):
    ledger = PrivacyLedger(path, epsilon=1.0)
    ledger.reserve(HALF)
    assert size < path.stat().st_size
    os.truncate(path, size)
    for budget in ({}, {"epsilon": 1.0}):
        with pytest.raises(LedgerError, match="is damaged"):
            PrivacyLedger(path, **budget)
    with pytest.raises(LedgerError):
        ledger.reserve(HALF)
    assert path.stat().st_size == size


def test_a_journal_without_its_file_is_not_begun_again(path):
    path.with_name(path.name + "-journal").write_bytes(b"what was spent")
    with pytest.raises(LedgerError, match="it is gone, and its journal is still there"):
        PrivacyLedger(path, epsilon=1.0)
    assert not path.exists()


def test_creation_leaves_nothing_beside_the_file(path):
    PrivacyLedger(path, epsilon=1.0)
    assert os.listdir(path.parent) == [path.name]


def test_a_restored_copy_is_noticed_by_who_has_seen_more(path):
    ledger = PrivacyLedger(path, epsilon=1.0)
    ledger.reserve(HALF)
    old = path.read_bytes()
    ledger.reserve(HALF)
    stored = pickle.dumps(ledger)
    path.write_bytes(old)
    for seen in (ledger, pickle.loads(stored)):
        with pytest.raises(
            LedgerError, match=r"holds 1 reservations, but not all the 2 .*old copy"
        ):
            seen.reserve(HALF)
    assert PrivacyLedger(path).spent().epsilon == 0.5  # who opens it anew cannot know
    PrivacyLedger(path).reserve(HALF, label="another second one")
    with pytest.raises(LedgerError, match=r"holds 2 reservations, but not all the 2 .*old copy"):
        ledger.reserve(HALF)


@pytest.mark.parametrize("content", [b"not a database\n", b"not a database\n" * 1000])
def test_not_a_sqlite_file(path, content):
    path.write_bytes(content)
    for budget in ({}, {"epsilon": 1.0}):
        with pytest.raises(LedgerError, match=r"budget\.ledger is damaged or not a ledger"):
            PrivacyLedger(path, **budget)
    assert path.read_bytes() == content


def test_another_sqlite_file(path):
    edit(path, "CREATE TABLE photos (name TEXT)")
    for budget in ({}, {"epsilon": 1.0}):
        with pytest.raises(LedgerError, match="SQLite file but not a privacy ledger"):
            PrivacyLedger(path, **budget)


@pytest.mark.parametrize(
    ("version", "advice"), [(1, "create a new ledger, and reserve them there"), (99, "Use the rel")]
)
def test_other_versions_are_refused_with_advice(path, version, advice):
    PrivacyLedger(path, epsilon=1.0)
    edit(path, f"PRAGMA user_version = {version}")
    with pytest.raises(LedgerError, match=f"version {version}; this skdpbayes reads.*{advice}"):
        PrivacyLedger(path)


def test_overwritten_pages(path):
    ledger = PrivacyLedger(path, epsilon=1.0)
    ledger.reserve(HALF)
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"is damaged.*Restore it from a backup"):
        PrivacyLedger(path)
    with pytest.raises(LedgerError, match=r"budget\.ledger"):
        ledger.reserve(HALF)


def charged(path):
    """A small ledger of every sort of row, and what it has spent."""
    ledger = PrivacyLedger(path, epsilon=8.0, delta=1e-5)
    for label in ("first", "second"):
        ledger.reserve(HALF, label=label)
    ledger.plan([HALF, HALF]).reserve(HALF)
    return ledger.used(), [entry.label for entry in ledger.entries()]


def damaged(open_again, path, data):
    """Return what a file of these bytes says, then charge it; None if it is refused."""
    path.write_bytes(data)
    path.with_name(path.name + "-journal").unlink(missing_ok=True)
    try:
        ledger = open_again()
        said = ledger.used(), [entry.label for entry in ledger.entries()]
        ledger.reserve(HALF, label="more")
        assert ledger.used() > said[0]
        (plan,) = ledger.plans()
        plan.reserve(HALF)
        with pytest.raises(BudgetExceededError):
            plan.reserve(HALF)
        assert PrivacyLedger(path).used() == ledger.used()
    except BudgetExceededError:
        raise
    except LedgerError:
        return None
    return said


@pytest.mark.parametrize("flip", [1, 8, 0x20, 0x80, 0xFF])
def test_one_wrong_byte_never_loses_a_reservation(path, flip):
    """Whoever opens the damaged file, or had it open before, is refused or sees everything."""
    truth = charged(path)
    content = path.read_bytes()
    stored = pickle.dumps(PrivacyLedger(path))
    written = [i for i, byte in enumerate(content) if byte]
    refused = 0
    for position in written[flip % 17 :: 17]:
        data = bytearray(content)
        data[position] ^= flip
        for open_again in (lambda: PrivacyLedger(path), lambda: pickle.loads(stored)):
            said = damaged(open_again, path, data)
            refused += said is None
            assert said in (None, truth), position
    assert refused > len(written) / 17 / 2


def test_the_file_holds_no_index(path):
    """An index with one wrong byte would lead a charge to another row than the one meant."""
    PrivacyLedger(path, epsilon=1.0)
    connection = sqlite3.connect(path)
    assert (
        connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchall() == []
    )
    connection.close()


def test_an_event_kind_that_is_not_loaded(path):
    ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-5)
    with ledger._store.transaction(write=True) as connection:
        text = HALF.to_json().replace('"pure"', '"exotic"')
        ledger._store.append(connection, ledger._state(connection), text, "", Price())
    with pytest.raises(LedgerError, match=r"'exotic'.*Import the module that defines"):
        ledger.entries()


def test_deleted_or_replaced_while_open(path):
    ledger = PrivacyLedger(path, epsilon=1.0)
    stored = pickle.dumps(ledger)
    path.unlink()
    with pytest.raises(LedgerError, match="no ledger at"):
        pickle.loads(stored).reserve(HALF)
    assert not path.exists()
    again = PrivacyLedger(path, epsilon=1.0)
    assert again != ledger
    for operation in (lambda: ledger.reserve(HALF), ledger.spent, ledger.entries):
        with pytest.raises(LedgerError, match="was replaced by another ledger"):
            operation()
    assert again.entries() == []


def test_locked_for_too_long(path, monkeypatch):
    ledger = PrivacyLedger(path, epsilon=1.0)
    monkeypatch.setattr(ledger_store, "BUSY_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerError, match=r"locked by another process .* nothing was charged"):
        ledger.reserve(HALF)
    other.close()
    assert ledger.reserve(HALF) == 1


def test_an_error_inside_a_transaction_undoes_it(path):
    ledger = PrivacyLedger(path, epsilon=1.0)
    store = LedgerStore(ledger.path)
    with pytest.raises(KeyboardInterrupt), store.transaction(write=True) as connection:  # noqa: PT012
        store.append(connection, store.state(connection), HALF.to_json(), "", Price())
        raise KeyboardInterrupt
    assert ledger.entries() == []
    assert ledger.reserve(HALF) == 1


def test_a_commit_that_fails_is_not_remembered(path, monkeypatch):
    ledger = PrivacyLedger(path, epsilon=1.0)
    transaction = LedgerStore.transaction

    @contextlib.contextmanager
    def failing(store, *, write=False):
        with transaction(store, write=write) as connection:
            yield connection
            raise LedgerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(LedgerStore, "transaction", failing)
        with pytest.raises(LedgerError, match="the disk is full"):
            ledger.reserve(HALF)
    assert ledger.reserve(HALF) == 1  # and not "an old copy was restored"


# Root may write anywhere, so these run in a child that has given up its privileges.


@pytest.fixture
def folder():
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def unprivileged(function, *arguments):
    """Call a function as nobody, in a child; return its result or the error's text."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run():
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            sender.send(function(*arguments))
        except (LedgerError, BudgetExceededError) as error:
            sender.send(f"{type(error).__name__}: {error}")

    child = context.Process(target=run)
    child.start()
    result = receiver.recv()
    child.join()
    return result


def read_only_ledger(folder, *, file_mode, folder_mode):
    path = folder / "budget.ledger"
    PrivacyLedger(path, epsilon=1.0).reserve(HALF)
    path.chmod(file_mode)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        os.chown(folder, 65534, 65534)
    folder.chmod(folder_mode)
    return path


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"), [(0o400, 0o755), (0o600, 0o555), (0o400, 0o555)]
)
def test_a_read_only_ledger_can_be_read_but_not_charged(folder, file_mode, folder_mode):
    path = read_only_ledger(folder, file_mode=file_mode, folder_mode=folder_mode)

    def spent():
        ledger = PrivacyLedger(path, epsilon=1.0)
        return ledger.spent().epsilon, len(ledger.entries()), ledger.remaining_epsilon()

    def reserve():
        return PrivacyLedger(path).reserve(HALF)

    assert unprivileged(spent) == (0.5, 1, 0.5)
    message = unprivileged(reserve)
    assert message.startswith(f"LedgerError: The ledger {path} cannot be opened for writing")
    assert "nothing was charged" in message
    assert unprivileged(spent) == (0.5, 1, 0.5)


def test_an_unreadable_ledger(folder):
    path = read_only_ledger(folder, file_mode=0o000, folder_mode=0o755)
    message = unprivileged(lambda: PrivacyLedger(path).spent())
    assert message.startswith(f"LedgerError: The ledger {path} cannot be opened")


def test_a_directory_that_cannot_be_written(folder):
    folder.chmod(0o555)
    message = unprivileged(lambda: PrivacyLedger(folder / "new.ledger", epsilon=1.0).epsilon)
    assert message.startswith(f"LedgerError: Cannot create the ledger {folder / 'new.ledger'}")
    assert "Choose a directory that you can write to" in message
