"""The ledger among processes: nothing overspent, nothing lost, whoever dies when."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from skdpbayes import PrivacyLedger
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.privacy.events import PureDP
from skdpbayes.privacy.guarantee import PrivacyGuarantee
from skdpbayes.privacy.ledger.filter import Price

fork = multiprocessing.get_context("fork")


def guarantee(event, delta=0.0):
    return PrivacyGuarantee.from_event(
        event, delta=delta, adjacency="replace_one", mechanism="test noise"
    )


@pytest.fixture
def path():
    # In memory where possible: a kill does not lose what the kernel holds, so syncing to a disk
    # adds time to these tests and nothing else.
    shared = Path("/dev/shm")
    folder = tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None)
    yield Path(folder) / "budget.ledger"
    shutil.rmtree(folder)


def run_all(function, arguments):
    """Call the function for each argument, in a process of its own; return the results."""
    results = fork.SimpleQueue()
    processes = [
        fork.Process(target=lambda argument=argument: results.put(function(argument)))
        for argument in arguments
    ]
    for process in processes:
        process.start()
    collected = [results.get() for _ in processes]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return collected


def test_eight_processes_never_overspend_and_never_lose_a_reservation(path):
    ledger = PrivacyLedger(path, epsilon=2.5)
    asked = guarantee(PureDP(0.001))

    def spend(worker):
        numbers = []
        for _ in range(400):
            try:
                numbers.append(ledger.reserve(asked, label=f"worker {worker}"))
            except BudgetExceededError:
                continue
        return worker, os.getpid(), numbers

    results = run_all(spend, range(8))
    granted = {number: (worker, pid) for worker, pid, numbers in results for number in numbers}
    assert sorted(granted) == list(range(1, 2501))  # 3200 were asked for
    entries = PrivacyLedger(path).entries()
    assert {entry.id: (int(entry.label[-1]), entry.pid) for entry in entries} == granted
    assert ledger.spent().epsilon == 2.5
    assert ledger.remaining_epsilon() == 0.0


def test_processes_share_a_plan(path):
    ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-5)
    asked = guarantee(PureDP(0.02))
    plan = ledger.plan([asked] * 50)

    def spend(worker):
        granted = 0
        for _ in range(30):
            try:
                plan.reserve(asked)
                granted += 1
            except BudgetExceededError:
                continue
        return granted

    assert sum(run_all(spend, range(4))) == 50
    assert len(ledger.entries()) == 51


def test_processes_that_create_the_same_ledger_agree(path):
    def create(worker):
        ledger = PrivacyLedger(path, epsilon=1.0)
        ledger.reserve(guarantee(PureDP(0.125)))
        return ledger

    ledgers = run_all(create, range(8))
    assert len(set(ledgers)) == 1
    assert ledgers[0].spent().epsilon == 1.0


def reserve_until_killed(ledger, acknowledge):
    asked = guarantee(PureDP(0.001))
    while True:
        os.write(acknowledge, f"{ledger.reserve(asked)}\n".encode())


@pytest.mark.slow
def test_kill_in_the_middle_loses_nothing(path):
    ledger = PrivacyLedger(path, epsilon=1000.0)
    moments = random.Random(7)
    acknowledged, n_killed = set(), 0
    for _ in range(12):
        receiver, sender = os.pipe()
        children = [
            fork.Process(target=reserve_until_killed, args=(ledger, sender)) for _ in range(3)
        ]
        for child in children:
            child.start()
        os.close(sender)
        numbers = os.read(receiver, 8).decode()  # wait until they are at work
        time.sleep(moments.uniform(0.0, 0.1))
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            n_killed += 1
        with os.fdopen(receiver) as stream:
            numbers += stream.read()
        acknowledged |= {int(number) for number in numbers.split()}
        stored = {entry.id for entry in PrivacyLedger(path).entries()}  # also checks the file
        assert acknowledged <= stored
        # A child may die between the commit and its acknowledgement.
        assert len(stored) <= len(acknowledged) + n_killed
        assert stored == set(range(1, len(stored) + 1))
        assert ledger.spent().epsilon == pytest.approx(0.001 * len(stored), rel=1e-12)
    assert len(acknowledged) > 50


def test_killed_after_half_of_a_commit(path):
    """A journal left behind by a writer that had begun to change the file is rolled back."""
    ledger = PrivacyLedger(path, epsilon=1.0)
    asked = guarantee(PureDP(0.5))
    ledger.reserve(asked)

    def die():
        with ledger._store.transaction(write=True) as connection:
            connection.execute("PRAGMA cache_size = 1")  # makes SQLite write before the commit
            for i in range(200):
                state = ledger._store.state(connection)
                ledger._store.append(connection, state, f"{i}" * 500, "x" * 500, Price())
            os.kill(os.getpid(), signal.SIGKILL)

    child = fork.Process(target=die)
    child.start()
    child.join()
    journal = path.with_name(path.name + "-journal")
    assert journal.stat().st_size > 0
    assert path.stat().st_size > 50_000
    assert len(PrivacyLedger(path).entries()) == 1
    assert not journal.exists()
    assert ledger.reserve(asked) == 2


def test_fork_while_another_thread_reserves(path):
    ledger = PrivacyLedger(path, epsilon=1000.0)
    asked = guarantee(PureDP(0.001))
    stop = threading.Event()
    in_parent = []

    def keep_reserving():
        while not stop.is_set():
            in_parent.append(ledger.reserve(asked))

    def reserve_some(worker):
        return [ledger.reserve(asked) for _ in range(5)]

    thread = threading.Thread(target=keep_reserving)
    thread.start()
    try:
        in_children = [
            number for _ in range(6) for part in run_all(reserve_some, range(3)) for number in part
        ]
    finally:
        stop.set()
        thread.join()
    assert len(in_children) == 90
    assert sorted(in_parent + in_children) == list(range(1, len(in_parent) + 91))
    assert len(PrivacyLedger(path).entries()) == len(in_parent) + 90
