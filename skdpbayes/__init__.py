"""Differentially private Bayesian learning for scikit-learn users."""

from __future__ import annotations

from skdpbayes._lazy import attach

__version__ = "0.1.0.dev0"

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "BoundsScaler": "preprocessing",
        "PrivacyLedger": "privacy.ledger",
        "PrivacyWarning": "exceptions",
        "RowNormClipper": "preprocessing",
    },
    submodules=[
        "datasets",
        "exceptions",
        "models",
        "preprocessing",
        "privacy",
        "randomness",
        "samplers",
    ],
)
