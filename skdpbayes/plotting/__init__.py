"""Pictures in scikit-learn's Display convention, and the way to ArviZ."""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "arviz": "to_arviz",
        "effects": "EffectDisplay",
        "emissions": "EmissionDisplay",
        "posterior": "PosteriorDisplay",
        "privacy_region": "OneRunDisplay PrivacyRegionDisplay",
        "privacy_utility": "PrivacyUtilityDisplay",
        "state_timeline": "StateTimelineDisplay",
    },
)
