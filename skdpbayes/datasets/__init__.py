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
        "load_abalone": "_abalone",
        "load_adult": "_adult",
        "load_fars": "_fars",
        "load_fashion_mnist": "_mnist",
        "load_house_votes": "_categorical",
        "load_mnist": "_mnist",
        "load_mushroom": "_categorical",
        "load_sms_spam": "_sms",
        "load_svhn": "_svhn",
        "make_beta_bernoulli": "_generators",
        "make_census": "_census",
        "make_event_log": "_generators",
        "make_two_normals": "_generators",
    },
)
