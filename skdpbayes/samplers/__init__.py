"""Lazy front of the ``samplers`` room: a submodule loads at first use."""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "noise_log_pmf": "noisy_tables",
        "sample_noisy_tables": "noisy_tables",
        "sample_noisy_rates": "noisy_rates",
        "sample_noisy_moments": "noisy_moments",
        "sample_poisson_counts": "noisy_counts",
        "sweep_multinomial_counts": "noisy_counts",
    },
)
