"""Pictures in scikit-learn's Display convention, and the way to ArviZ."""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "EffectDisplay": "effects",
        "EmissionDisplay": "emissions",
        "OneRunDisplay": "privacy_region",
        "PosteriorDisplay": "posterior",
        "PrivacyRegionDisplay": "privacy_region",
        "PrivacyUtilityDisplay": "privacy_utility",
        "StateTimelineDisplay": "state_timeline",
        "to_arviz": "arviz",
    },
)
