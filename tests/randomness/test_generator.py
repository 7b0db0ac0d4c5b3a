from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy import stats

from skdpbayes.randomness import is_seeded, make_generator, spawn
from skdpbayes.randomness.generator import SecureChaCha
from tests.randomness.statistics import FALSE_ALARM

_shared = make_generator()  # inherited by forked workers, imported anew by spawned ones


def draw(generator):
    return generator.integers(2**62, size=2).tolist()


def draw_shared(_):
    return draw(_shared)


def draw_fresh(_):
    return draw(make_generator())


@pytest.mark.parametrize(
    ("use", "heavy"),
    [("randomness", {"numba", "randomgen"}), ("randomness.make_generator(0)", {"numba"})],
)
def test_imports_are_lazy(use, heavy):
    code = f"import sys; from skdpbayes import randomness; {use}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not heavy & set(run.stdout.split())


def test_the_cipher_is_chacha20():
    # RFC 8439 appendix A.1, test vectors 1 and 2: zero key and nonce, blocks 0 and 1.
    generator = make_generator()
    state = generator.bit_generator.state
    assert state["state"]["rounds"] == 20
    generator.bit_generator.seed(key=0)
    stream = generator.integers(0, 2**64 - 1, 16, dtype="<u8", endpoint=True).tobytes().hex()
    assert stream[:64] == "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    assert stream[128:192] == "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"


def test_the_secure_key_is_the_operating_systems(monkeypatch):
    asked = []

    def randbits(bits):
        asked.append(bits)
        return 2**255 + 12345

    monkeypatch.setattr("secrets.randbits", randbits)
    key = make_generator().bit_generator.state["state"]["keysetup"]
    assert asked == [256]
    assert int.from_bytes(key.astype("<u4").tobytes(), "little") == 2**255 + 12345


def test_secure_generators_differ():
    streams = {tuple(draw(make_generator())) for _ in range(100)}
    assert len(streams) == 100


@pytest.mark.parametrize(
    "make_state",
    [
        lambda: 0,
        lambda: np.int32(7),
        lambda: 2**200,
        lambda: np.random.SeedSequence(3),
        lambda: np.random.default_rng(3),
        lambda: np.random.RandomState(3),
        lambda: make_generator(3),
    ],
)
def test_seeded_generators_are_reproducible(make_state):
    assert draw(make_generator(make_state())) == draw(make_generator(make_state()))
    assert is_seeded(make_state())
    assert make_generator(make_state()).bit_generator.state["state"]["rounds"] == 20


def test_different_seeds_differ():
    streams = {tuple(draw(make_generator(seed))) for seed in range(1000)}
    assert len(streams) == 1000


@pytest.mark.parametrize("state", [np.random.default_rng(3), np.random.RandomState(3)])
def test_a_callers_generator_advances(state):
    assert draw(make_generator(state)) != draw(make_generator(state))


def test_the_module_numpy_random_stands_for_its_global_state():
    np.random.seed(5)
    first = draw(make_generator(np.random))
    np.random.seed(5)
    assert draw(make_generator(np.random)) == first
    assert first == draw(make_generator(np.random.RandomState(5)))


def test_a_secure_generator_passes_through():
    generator = make_generator()
    assert make_generator(generator) is generator
    assert not is_seeded(generator)
    assert not is_seeded(None)


@pytest.mark.parametrize("state", ["0", 1.5, True, [1, 2], object()])
def test_bad_random_state(state):
    with pytest.raises(TypeError, match="random_state"):
        make_generator(state)


def test_negative_seed():
    with pytest.raises(ValueError, match=r"random_state.*-1"):
        make_generator(-1)


@pytest.mark.parametrize("seed", [None, 0])
def test_spawned_streams_are_distinct(seed):
    parent = make_generator(seed)
    children = [*spawn(parent, 50), *spawn(parent, 50), parent]
    grandchildren = [c for child in children[:5] for c in spawn(child, 5)]
    streams = {tuple(draw(g)) for g in children + grandchildren}
    assert len(streams) == 126
    assert all(is_seeded(g) == (seed is not None) for g in children + grandchildren)


def test_spawned_streams_are_reproducible():
    first, second = spawn(make_generator(4), 3), spawn(make_generator(4), 3)
    assert [draw(g) for g in first] == [draw(g) for g in second]


def test_numpys_own_spawn_stays_secure():
    children = make_generator().spawn(2)
    assert all(isinstance(g.bit_generator, SecureChaCha) for g in children)
    assert draw(children[0]) != draw(children[1])


def test_streams_are_uncorrelated():
    streams = np.array([g.standard_normal(4000) for g in spawn(make_generator(5), 10)])
    correlation = np.corrcoef(streams)[np.triu_indices(10, 1)]
    # 45 correlations, each about normal with variance 1/4000
    assert stats.chi2.sf(4000 * (correlation**2).sum(), 45) > FALSE_ALARM


def test_words_are_uniform():
    data = make_generator(6).bytes(1 << 18)
    counts = np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))]
)
def test_copies_of_a_secure_generator_never_repeat_it(duplicate):
    generator = make_generator()
    other = duplicate(generator)
    assert isinstance(other.bit_generator, SecureChaCha)
    assert draw(other) != draw(generator)


def test_a_pickle_holds_no_key():
    generator = make_generator()
    key = generator.bit_generator.state["state"]["keysetup"].tobytes()
    assert key not in pickle.dumps(generator)
    assert key[:8] not in pickle.dumps(generator)


def test_a_seeded_generator_pickles_with_its_state_and_children():
    generator = make_generator(7)
    draw(generator)
    spawn(generator, 2)
    other = pickle.loads(pickle.dumps(generator))
    assert draw(other) == draw(generator)
    assert draw(spawn(other, 1)[0]) == draw(spawn(generator, 1)[0])


if hasattr(os, "fork"):

    def test_a_fork_does_not_repeat_its_parent():
        generator = make_generator()
        streams = []
        for _ in range(3):
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(write, repr(draw(generator)).encode())
                os._exit(0)
            os.waitpid(child, 0)
            streams.append(os.read(read, 4096).decode())
            os.close(read)
            os.close(write)
        streams.append(repr(draw(generator)))
        assert len(set(streams)) == 4


@pytest.mark.parametrize(
    "method", sorted({"fork", "spawn"} & {*multiprocessing.get_all_start_methods()})
)
def test_worker_processes_never_repeat(method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        streams = pool.map(draw_shared, range(6), chunksize=1)
        streams += pool.map(draw_fresh, range(6), chunksize=1)
    streams.append(draw_shared(0))
    assert len({tuple(stream) for stream in streams}) == 13


@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
def test_joblib_workers_never_repeat(backend):
    generator = make_generator()
    streams = Parallel(n_jobs=2, backend=backend)(delayed(draw)(generator) for _ in range(6))
    streams += Parallel(n_jobs=2, backend=backend)(delayed(draw_fresh)(i) for i in range(6))
    streams.append(draw(generator))
    assert len({tuple(s) for s in streams}) == 13
