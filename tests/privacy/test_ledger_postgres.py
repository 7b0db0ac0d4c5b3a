"""An account in a database: the contract of a file, for people on several machines."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from skdpbayes import ObjPertLogisticRegression, PrivacyLedger
from skdpbayes.__main__ import main
from skdpbayes.exceptions import BudgetExceededError, LedgerError
from skdpbayes.privacy import PrivacyGuarantee, PureDP
from skdpbayes.privacy.ledger.postgres import PostgresStore, place_of

psycopg = pytest.importorskip("psycopg", reason="needs skdpbayes[postgres]")

PASSWORD = "hunter2-secret"


def _pure(epsilon):
    return PrivacyGuarantee.from_event(
        PureDP(epsilon), delta=0.0, adjacency="replace_one", mechanism="test"
    )


def _programs():
    """Folders that may hold initdb and postgres: pgserver's, then Debian's."""
    try:
        import pgserver

        yield Path(pgserver.__file__).parent / "pginstall" / "bin"
    except ImportError:
        pass
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


class Machine:
    """A server of one's own on a socket in a folder of its own."""

    def __init__(self, programs, user):
        self.folder = Path(tempfile.mkdtemp(prefix="skdpbayes-pg-"))
        self.data, self.programs, self.user = self.folder / "data", programs, user
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        for path in (self.folder, secret):
            os.chown(path, user.get("user", -1), -1)
        how = ["-U", "owner", "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync"]
        self.run("initdb", *how)
        self.address = f"postgresql://owner:{PASSWORD}@/postgres?host={self.folder}"

    def run(self, program, *arguments):
        subprocess.run(
            [self.programs / program, "-D", self.data, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
            cwd=self.folder,
            **self.user,
        )

    def start(self):
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off"
        self.run("pg_ctl", "-w", "-l", self.folder / "log", "-o", options, "start")

    def kill(self):
        """Kill the server as a lost machine would be."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text():
            time.sleep(0.01)

    def stop(self):
        try:
            self.run("pg_ctl", "-m", "immediate", "stop")
        finally:
            shutil.rmtree(self.folder)


@pytest.fixture(scope="module")
def machine():
    user = _unprivileged() if os.getuid() == 0 else {}
    for programs in _programs():
        try:  # as root, a virtual environment may be closed to others
            subprocess.run([programs / "initdb", "--version"], check=True, cwd="/", **user)
        except (OSError, subprocess.CalledProcessError):
            continue
        break
    else:
        pytest.skip("needs a PostgreSQL server: pip install pgserver, or Debian's postgresql")
    machine = Machine(programs, user)
    machine.start()
    try:
        yield machine
    finally:
        machine.stop()


def _unprivileged():
    """PostgreSQL refuses to run as root."""
    import pwd

    for name in ("postgres", "nobody"):
        try:
            return {"user": pwd.getpwnam(name).pw_uid}
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


@pytest.fixture
def server(machine):
    return machine.address


@pytest.fixture
def address(server, request):
    return f"{server}#{request.node.name}"


def test_the_contract_of_a_file(address):
    ledger = PrivacyLedger(address, epsilon=1.0)
    assert ledger.reserve(_pure(0.4), "first") == 1
    assert PrivacyLedger(address).reserve(_pure(0.4), "ein zweites ✓") == 2
    with pytest.raises(BudgetExceededError, match="Nothing was charged"):
        ledger.reserve(_pure(0.4))
    assert [entry.label for entry in ledger.entries()] == ["first", "ein zweites ✓"]
    assert ledger.spent().epsilon == 0.8
    with pytest.raises(LedgerError, match="cannot be changed"):
        PrivacyLedger(address, epsilon=2.0)
    with pytest.raises(LedgerError, match="There is no"):
        PrivacyLedger(address + "x")
    plan = PrivacyLedger(address + "-plan", epsilon=5.0, delta=1e-5).plan([_pure(0.1)] * 3)
    assert plan.reserve(_pure(0.1)) == 2
    with pytest.raises(BudgetExceededError, match="does not list"):
        plan.reserve(_pure(0.2))
    unlimited = PrivacyLedger(address + "-inf", epsilon=np.inf)
    assert PrivacyLedger(address + "-inf").epsilon == unlimited.epsilon == np.inf


def test_a_fit_charges_the_account(address):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (500, 2))
    ledger = PrivacyLedger(address, epsilon=1.0, delta=1e-4)
    model = ObjPertLogisticRegression(0.8, 1e-5, ledger=ledger)
    model.fit(X, X[:, 0] > 0)
    with pytest.raises(BudgetExceededError):
        model.fit(X, X[:, 0] > 0)
    assert len(ledger.entries()) == 1


def test_credentials_are_never_shown(address, capsys):
    ledger = PrivacyLedger(address, epsilon=1.0)
    ledger.reserve(_pure(0.5))
    shown = [repr(ledger), str(ledger.path), str(vars(ledger)), repr(ledger._store)]
    shown.append(pickle.dumps(ledger, protocol=0).decode("latin1"))
    shown.append(pickle.dumps(ledger).decode("latin1"))
    model = ObjPertLogisticRegression(ledger=ledger)
    shown += [repr(model), pickle.dumps(model).decode("latin1")]
    for wrong in (
        address.replace("#", "&connect_timeout=nonsense#"),
        address.replace("host=", "host=/nowhere"),
        address.replace("owner:", "nobody:"),
        address.replace("postgres?", "no-such-database?"),
        address.replace(PASSWORD, PASSWORD + "%zz"),
        address.replace("@/", "@host:port/"),
        address.replace("owner:" + PASSWORD + "@", "").replace("#", f"&password={PASSWORD}x#"),
        address.partition("#")[0],
    ):
        with pytest.raises(LedgerError) as caught:
            PrivacyLedger(wrong, epsilon=1.0)
        error = caught.value
        shown += [str(error), repr(error.__cause__), repr(error.__context__)[:0]]
        assert error.__cause__ is None
        assert error.__suppress_context__ or error.__context__ is None
    assert main(["ledger", "show", address]) == 0
    assert main(["ledger", "init", address, "--epsilon", "1"]) == 1
    out = capsys.readouterr()
    shown += [out.out, out.err]
    assert all(PASSWORD not in text for text in shown)
    assert pickle.loads(pickle.dumps(ledger)) == ledger == copy.copy(ledger)
    assert pickle.loads(pickle.dumps(ledger)).reserve(_pure(0.1)) == 2  # in this process


def test_a_pickle_opens_elsewhere_with_the_password_of_the_environment(address):
    ledger = PrivacyLedger(address, epsilon=1.0)
    code = (
        "import pickle, sys; from skdpbayes.exceptions import LedgerError\n"
        "ledger = pickle.load(sys.stdin.buffer)\n"
        "try: print(len(ledger.entries()))\n"
        "except LedgerError as error: print(error)"
    )

    def elsewhere(**extra):
        environment = {k: v for k, v in os.environ.items() if k != "PGPASSWORD"} | extra
        return subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps(ledger),
            env=environment,
            capture_output=True,
            check=True,
        ).stdout.decode()

    assert elsewhere(PGPASSWORD=PASSWORD) == "0\n"
    assert "PGPASSWORD" in elsewhere()


def _charge(address, n_threads, n_tries, results):
    def work(_):
        ledger, made = PrivacyLedger(address), 0
        for _ in range(n_tries):
            try:
                ledger.reserve(_pure(0.01))
                made += 1
            except BudgetExceededError:
                pass
        return made

    with ThreadPoolExecutor(n_threads) as pool:
        results.put(sum(pool.map(work, range(n_threads))))


def test_processes_and_threads_never_overrun_the_budget(address):
    PrivacyLedger(address, epsilon=0.5)  # 50 of 8 x 4 x 2 tries
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_charge, args=(address, 4, 2, results)) for _ in range(8)]
    for worker in workers:
        worker.start()
    made = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    ledger = PrivacyLedger(address)
    assert sum(made) == len(ledger.entries()) == 50
    assert [entry.id for entry in ledger.entries()] == list(range(1, 51))
    assert ledger.remaining_epsilon() < 0.01


def _create(address, results):
    results.put(PrivacyLedger(address, epsilon=1.0)._account.identity)


def test_one_of_many_creators_wins(server):
    address = f"{server}#created-by-many"
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_create, args=(address, results)) for _ in range(6)]
    for worker in workers:
        worker.start()
    assert len({results.get(timeout=60) for _ in workers}) == 1
    for worker in workers:
        worker.join()


def _die_in_a_reservation(address):
    store = PostgresStore(place_of(address))
    append = PostgresStore.append

    def deadly(self, *args, **kwargs):
        append(self, *args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)  # written, not committed

    PostgresStore.append = deadly
    assert store.exists()
    PrivacyLedger(address).reserve(_pure(0.5))


def test_a_client_killed_in_a_reservation_leaves_nothing_behind(address):
    ledger = PrivacyLedger(address, epsilon=1.0)
    ledger.reserve(_pure(0.5))
    worker = multiprocessing.get_context("fork").Process(
        target=_die_in_a_reservation, args=(address,)
    )
    worker.start()
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    assert len(ledger.entries()) == 1
    assert ledger.reserve(_pure(0.5)) == 2  # nor is the account locked
    assert ledger.used() == 1.0


@pytest.mark.parametrize("moment", ["append", "commit"])
def test_a_lost_connection_is_a_clear_error_and_never_charges_twice(address, monkeypatch, moment):
    ledger = PrivacyLedger(address, epsilon=1.0)
    append = PostgresStore.append

    def cut(self, connection, *args, **kwargs):
        after = append(self, connection, *args, **kwargs)
        with psycopg.connect(address.partition("#")[0], autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
        if moment == "append":
            connection.execute("SELECT 1")
        return after

    monkeypatch.setattr(PostgresStore, "append", cut)
    said = "nothing was charged" if moment == "append" else "may or may not be charged"
    with pytest.raises(LedgerError, match=said):
        ledger.reserve(_pure(0.5))
    monkeypatch.undo()
    assert ledger.entries() == []
    assert ledger.reserve(_pure(0.5)) == 1


def test_readers_may_look_and_not_charge(server, address):
    ledger = PrivacyLedger(address, epsilon=1.0)
    ledger.reserve(_pure(0.25))
    with psycopg.connect(server, autocommit=True) as owner:
        owner.execute("CREATE ROLE reader LOGIN PASSWORD 'reads'")
        owner.execute("GRANT SELECT ON skdpbayes_account, skdpbayes_entry TO reader")
    reader = PrivacyLedger(address.replace(f"owner:{PASSWORD}", "reader:reads"))
    assert reader.remaining_epsilon() == 0.75
    with pytest.raises(LedgerError, match="permission denied"):
        reader.reserve(_pure(0.25))
    assert len(ledger.entries()) == 1


def test_changed_rows_and_restored_copies_are_noticed(server, address):
    ledger = PrivacyLedger(address, epsilon=1.0)
    for _ in range(3):
        ledger.reserve(_pure(0.25))
    name = address.partition("#")[2]
    with psycopg.connect(server, autocommit=True) as owner:
        owner.execute(
            "UPDATE skdpbayes_entry SET size = '0' WHERE account = %s AND number = 2", (name,)
        )
        with pytest.raises(LedgerError, match="digest"):
            PrivacyLedger(address)
        owner.execute("DELETE FROM skdpbayes_entry WHERE account = %s", (name,))
        with pytest.raises(LedgerError, match="digest"):
            ledger.reserve(_pure(0.25))


def test_a_file_moves_into_an_account(address, tmp_path, capsys):
    file = tmp_path / "survey.ledger"
    old = PrivacyLedger(file, epsilon=2.0, delta=1e-6)
    old.reserve(_pure(0.25), "before")
    other = PrivacyLedger(tmp_path / "other.ledger", epsilon=1.0)
    assert main(["ledger", "move", str(file), address]) == 0
    assert PASSWORD not in capsys.readouterr().out
    new = PrivacyLedger(address)
    assert new._account == old._account
    assert [entry.label for entry in new.entries()] == ["before"]
    assert new.reserve(_pure(0.25), "after") == 2
    for use in (old.entries, lambda: old.reserve(_pure(0.1)), lambda: PrivacyLedger(file)):
        with pytest.raises(LedgerError, match="moved to a database"):
            use()
    assert main(["ledger", "move", str(file), address]) == 0  # as after a crash
    assert len(new.entries()) == 2
    assert main(["ledger", "move", str(tmp_path / "other.ledger"), address]) == 1
    assert other.reserve(_pure(0.5)) == 1  # a refused move changes nothing
    assert main(["ledger", "move", str(tmp_path / "none"), address]) == 1


def _again(machine):
    """Start a killed server again."""
    for attempt in range(50):
        try:
            machine.start()
            break
        except subprocess.CalledProcessError:  # its children are still leaving
            assert attempt < 49
            time.sleep(0.1)


def test_a_killed_server_loses_no_reservation(machine, address):
    ledger = PrivacyLedger(address, epsilon=1.0)
    ledger.reserve(_pure(0.5))
    machine.kill()
    try:
        with pytest.raises(LedgerError, match="nothing was charged"):
            ledger.reserve(_pure(0.5))
    finally:
        _again(machine)
    assert len(ledger.entries()) == 1
    assert ledger.reserve(_pure(0.5)) == 2


def test_a_server_killed_in_the_middle_of_a_reservation_charges_nothing_unseen(
    machine, address, monkeypatch
):
    """The fit does not follow, and after the restart the account says what was charged."""
    ledger = PrivacyLedger(address, epsilon=1.0)
    ledger.reserve(_pure(0.25))
    append = PostgresStore.append

    def deadly(self, connection, *args, **kwargs):
        after = append(self, connection, *args, **kwargs)
        machine.kill()
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        return after

    monkeypatch.setattr(PostgresStore, "append", deadly)
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 2))
    model = ObjPertLogisticRegression(0.5, 0.0, random_state=0, ledger=ledger)
    try:
        with pytest.raises(LedgerError, match="may or may not be charged"):
            model.fit(X, X[:, 0] > 0)
    finally:
        _again(machine)
    monkeypatch.undo()
    assert not hasattr(model, "coef_")
    assert len(ledger.entries()) == 1  # written, not committed
    assert ledger.reserve(_pure(0.75)) == 2


def test_without_a_server_the_error_says_what_to_look_at(tmp_path):
    with pytest.raises(LedgerError, match="server runs"):
        PrivacyLedger(f"postgresql://me:{PASSWORD}@/db?host={tmp_path}#a", epsilon=1.0)
