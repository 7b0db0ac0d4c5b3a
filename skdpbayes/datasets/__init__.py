"""Data sets with their public metadata, and generators with known truth.

The loaders read a folder (``data_home`` or the environment variable ``SKDPBAYES_DATA``) and fall
back to OpenML where the set is there. Bounds, categories and bins are constants taken from the
code books, never computed from the data, so they can be handed to a private estimator.
"""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "_abalone": "load_abalone",
        "_adult": "load_adult",
        "_categorical": "load_house_votes load_mushroom",
        "_census": "make_census",
        "_fars": "load_fars",
        "_generators": "make_beta_bernoulli make_event_log make_two_normals",
        "_mnist": "load_fashion_mnist load_mnist",
        "_sms": "load_sms_spam",
        "_svhn": "load_svhn",
    },
)
