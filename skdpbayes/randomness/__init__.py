"""Lazy front of the ``randomness`` room: a submodule loads at first use."""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, names={})
