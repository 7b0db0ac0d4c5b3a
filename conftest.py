"""Compile for the tests into a folder that belongs to these very sources.

Numba notices a change of the file that holds a jitted function, but not of another file whose
jitted functions it calls, and would serve the old code. A folder named by a digest of all sources
that are compiled cannot be stale. It is made in ``NUMBA_CACHE_DIR``, if that is set.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

COMPILED_ROOMS = ("models", "randomness", "samplers")


def digest_of_sources(package: Path) -> str:
    """Return a digest of every file from which something is compiled."""
    digest = hashlib.sha256()
    for room in COMPILED_ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def pytest_configure() -> None:
    """Choose the folder before anything imports Numba; workers inherit the choice."""
    if "SKDPBAYES_COMPILED" in os.environ:
        return
    here = Path(__file__).parent
    if (here / "skdpbayes").is_dir():  # else an installed package is tested, which does not change
        given = Path(os.environ.get("NUMBA_CACHE_DIR") or here / ".numba_cache")
        folder = str(given / digest_of_sources(here / "skdpbayes"))
        os.environ["NUMBA_CACHE_DIR"] = os.environ["SKDPBAYES_COMPILED"] = folder
