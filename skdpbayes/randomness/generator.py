"""Generators: secure by default, reproducible on request, never the same stream twice."""

from __future__ import annotations

import os
import secrets
import weakref
from numbers import Integral
from typing import Any

import numpy as np
from randomgen import ChaCha

KEY_BITS = 256  # the full ChaCha key
ROUNDS = 20  # ChaCha20; fewer rounds are faster but less conservative
# Sets the children of a seeded generator apart from those that a caller spawns from its seed.
SPAWNED = 2**32 - 2
_SEED_WORDS = 8  # 8 x 32 bits are drawn from a caller's generator to seed ours

_live: weakref.WeakSet[SecureChaCha] = weakref.WeakSet()


class SecureChaCha(ChaCha):  # type: ignore[misc]  # randomgen is only partly typed
    """ChaCha20 under a 256-bit key from the operating system.

    No two objects ever share a stream: a copy, an unpickled object and the child of a fork
    each get a key of their own. In particular a pickle holds no key, so the noise that
    protects a release cannot be recomputed from a stored object.
    """

    def __init__(self) -> None:
        super().__init__(key=secrets.randbits(KEY_BITS), rounds=ROUNDS)
        _live.add(self)

    def rekey(self) -> None:
        """Replace the key by a fresh one from the operating system."""
        self.seed(key=secrets.randbits(KEY_BITS))

    def spawn(self, n_children: int) -> list[SecureChaCha]:
        """Return `n_children` bit generators with keys of their own."""
        return [SecureChaCha() for _ in range(n_children)]

    def __reduce__(self) -> tuple[type[SecureChaCha], tuple[()]]:
        return SecureChaCha, ()


def _rekey_after_fork() -> None:
    """Give every secure generator that a forked child inherited a key of its own."""
    for bit_generator in list(_live):
        bit_generator.rekey()


if hasattr(os, "register_at_fork"):  # absent on Windows, where nothing forks
    os.register_at_fork(after_in_child=_rekey_after_fork)


def _seeded(seed: np.random.SeedSequence) -> np.random.Generator:
    return np.random.Generator(ChaCha(seed, rounds=ROUNDS))


def is_seeded(random_state: Any) -> bool:
    """Tell whether noise drawn under `random_state` can be reproduced by whoever knows it.

    Parameters
    ----------
    random_state : object
        Anything that :func:`make_generator` accepts.

    Returns
    -------
    bool
        False for None and for generators that ``make_generator(None)`` made, True otherwise:
        the privacy guarantee then needs the seed to stay secret, and to serve one fit only.
    """
    if isinstance(random_state, np.random.Generator):
        return not isinstance(random_state.bit_generator, SecureChaCha)
    return random_state is not None


def make_generator(random_state: Any = None) -> np.random.Generator:
    """Return the generator that a `random_state` parameter stands for.

    Parameters
    ----------
    random_state : None, int, SeedSequence, Generator, RandomState or the module numpy.random
        - None: a cryptographically secure generator (ChaCha20) under a fresh 256-bit key from
          the operating system.
        - int or ``numpy.random.SeedSequence``: the same cipher, keyed from the seed, hence
          reproducible.
        - ``numpy.random.Generator`` or ``RandomState``: the same cipher, keyed by 256 bits drawn
          from the object, which advances; two calls give two different streams. A secure
          generator made here is returned as it is.

    Returns
    -------
    numpy.random.Generator

    Notes
    -----
    A secure generator never repeats: pickles and copies of it, and those that a forked process
    inherits, continue under keys of their own. A seeded generator is reproducible everywhere, so
    its copies repeat by design.

    Examples
    --------
    >>> from skdpbayes.randomness import make_generator
    >>> bool(make_generator(0).integers(2**62) == make_generator(0).integers(2**62))
    True
    >>> bool(make_generator().integers(2**62) == make_generator().integers(2**62))
    False
    """
    if random_state is None:
        return np.random.Generator(SecureChaCha())
    if isinstance(random_state, Integral) and not isinstance(random_state, (bool, np.bool_)):
        seed = int(random_state)
        if seed < 0:
            raise ValueError(f"random_state must be a non-negative integer, got {seed}.")
        return _seeded(np.random.SeedSequence(seed))
    if isinstance(random_state, np.random.SeedSequence):
        return _seeded(random_state)
    if isinstance(random_state, np.random.Generator):
        if isinstance(random_state.bit_generator, SecureChaCha):
            return random_state
        words = random_state.integers(2**32, size=_SEED_WORDS, dtype=np.uint64)
        return _seeded(np.random.SeedSequence(words.tolist()))
    if isinstance(random_state, np.random.RandomState) or random_state is np.random:
        words = random_state.randint(2**32, size=_SEED_WORDS, dtype=np.uint64)
        return _seeded(np.random.SeedSequence(words.tolist()))
    raise TypeError(
        "random_state must be None, an int, or a numpy SeedSequence, Generator or RandomState, "
        f"got {random_state!r} of type {type(random_state).__name__}."
    )


def spawn(generator: np.random.Generator, n: int) -> list[np.random.Generator]:
    """Return `n` generators with streams of their own.

    Parameters
    ----------
    generator : numpy.random.Generator
        The parent. A secure one has secure children, each under a fresh key from the operating
        system. A seeded one has seeded children, and later calls give later children: no stream
        is handed out twice.
    n : int
        Number of children.

    Returns
    -------
    list of numpy.random.Generator
    """
    bit_generator = generator.bit_generator
    if isinstance(bit_generator, SecureChaCha):
        return [make_generator() for _ in range(n)]
    parent: Any = bit_generator.seed_seq
    own = np.random.SeedSequence(
        parent.entropy,
        spawn_key=(*parent.spawn_key, SPAWNED),
        pool_size=parent.pool_size,
        n_children_spawned=parent.n_children_spawned,
    )
    parent.spawn(n)  # only counts: what the caller spawns from the same seed must not be our noise
    return [_seeded(seed) for seed in own.spawn(n)]
