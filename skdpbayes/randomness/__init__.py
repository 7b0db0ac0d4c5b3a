"""The only source of random bits.

Every draw of the package starts from a generator of :func:`make_generator`. Integer noise is
exact, float releases land on a public power-of-two grid, and the subsets of minibatch
algorithms have exactly the inclusion probabilities that their accountants assume.
"""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "derived_generator": "derived",
        "derived_state": "derived",
        "discrete_gaussian": "discrete",
        "discrete_laplace": "discrete",
        "exact_scale": "discrete",
        "fixed_subset": "subsampling",
        "fixed_subsets": "subsampling",
        "gamma_ball_noise": "continuous",
        "gaussian": "continuous",
        "is_seeded": "generator",
        "laplace": "continuous",
        "make_generator": "generator",
        "poisson_subset": "subsampling",
        "poisson_subsets": "subsampling",
        "release_counts": "release",
        "release_gaussian": "release",
        "release_grid": "release",
        "release_laplace": "release",
        "release_scale": "release",
        "snap": "release",
        "snapped_sensitivity": "release",
        "spawn": "generator",
        "two_orthant_moments": "continuous",
        "two_orthant_noise": "continuous",
    },
)
