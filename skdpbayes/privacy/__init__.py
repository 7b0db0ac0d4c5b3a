"""Privacy arithmetic: numbers in, numbers out; no data array is ever seen here."""

from skdpbayes.privacy.bounded_range import (
    bounded_range_delta,
    bounded_range_epsilon,
    bounded_range_eta,
    bounded_range_rho,
    zcdp_delta,
    zcdp_rho,
)

__all__ = [
    "bounded_range_delta",
    "bounded_range_epsilon",
    "bounded_range_eta",
    "bounded_range_rho",
    "zcdp_delta",
    "zcdp_rho",
]
