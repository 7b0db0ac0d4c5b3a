"""Streams for other purposes than the noise of a release."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from skdpbayes.randomness.generator import make_generator

# Nobody spawns four billion children, so this number keeps derived streams apart from the children
# that a caller spawns and from those of `skdpbayes.randomness.spawn`, which have a number too.
DERIVED = 2**32 - 1


def derived_state(random_state: Any, *purpose: int) -> Any:
    """Return a `random_state` whose bits are not those that `random_state` itself gives.

    Seeds would otherwise repeat: the posterior draws of a model, or the noise of its next batch,
    would be made from the bits that already made its noise, and whoever sees both could subtract
    the noise.

    Parameters
    ----------
    random_state : object
        Anything that :func:`make_generator` accepts.
    *purpose : int
        Another stream for each; at least one number.

    Returns
    -------
    object
        A child ``SeedSequence`` for ints and seed sequences; anything else as it is, since it is
        secure or goes on where it stands.

    Examples
    --------
    >>> from skdpbayes.randomness import derived_state
    >>> derived_state(7, 1).spawn_key
    (4294967295, 1)
    """
    if isinstance(random_state, Integral) and not isinstance(random_state, (bool, np.bool_)):
        random_state = np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.SeedSequence):
        return np.random.SeedSequence(
            random_state.entropy,
            spawn_key=(*random_state.spawn_key, DERIVED, *purpose),
            pool_size=random_state.pool_size,
        )
    return random_state


def derived_generator(random_state: Any, *purpose: int) -> np.random.Generator:
    """Return ``make_generator(derived_state(random_state, *purpose))``.

    Parameters
    ----------
    random_state : object
        Anything that :func:`make_generator` accepts.
    *purpose : int
        Another stream for each; at least one number.

    Returns
    -------
    numpy.random.Generator
    """
    return make_generator(derived_state(random_state, *purpose))
