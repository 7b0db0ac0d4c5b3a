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
        "continuous": "gamma_ball_noise gaussian laplace two_orthant_moments two_orthant_noise",
        "derived": "derived_generator derived_state",
        "discrete": "discrete_gaussian discrete_laplace exact_scale",
        "generator": "is_seeded make_generator spawn",
        "release": (
            "release_counts release_gaussian release_grid release_laplace release_scale snap "
            "snapped_sensitivity"
        ),
        "subsampling": "fixed_subset fixed_subsets poisson_subset poisson_subsets",
    },
)
