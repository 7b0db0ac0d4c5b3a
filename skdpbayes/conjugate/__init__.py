"""Private posteriors of conjugate models, with a known answer to compare everything to.

Each model has ``posterior(data, epsilon, delta, mechanism=...)`` and returns a
:class:`PrivatePosterior` with ``sample``, ``mean``, ``interval`` and ``privacy_``; ``fit`` takes
the same and keeps it as ``posterior_``:

- ``mechanism="laplace"`` adds exact discrete Laplace noise to the sufficient statistics;
- ``mechanism="gaussian"`` adds exact discrete Gaussian noise (``delta > 0``);
- ``mechanism="ops"`` releases one draw from a tempered posterior.

:class:`ExponentialFamily` does the same for a statistic of your own.
"""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "counts": "BetaBernoulli DirichletCategorical",
        "exponential_family": "ExponentialFamily",
        "logit_normal": "LogitNormalBernoulli",
        "model": "PrivatePosterior",
        "normal": "NormalMean",
        "normal_variance": "NormalMeanVariance",
        "rates": "GammaPoisson",
    },
)
