"""Lazy front of the ``samplers`` room: a submodule loads at first use."""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={"sample_poisson_counts": "noisy_counts", "sweep_multinomial_counts": "noisy_counts"},
)
