"""Private draws from the posterior of a model of your own.

- :func:`one_posterior_sample` draws exactly from a tempered posterior on a public set of points,
  given a function that returns the log-likelihood of each record;
- :func:`chain` runs stochastic-gradient MCMC, given a function that returns the gradient of each
  record's log-likelihood.

What a function returns is bounded here, record by record, so that a wrong bound costs accuracy and
never privacy. What cannot be enforced, that each row of the result comes from its own record alone,
is among the ``conditions`` of the claim; :func:`check_per_record` tests it on made-up records.
"""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "exponential": "one_posterior_sample plan_one_posterior_sample",
        "gradients": "chain plan_chain",
        "records": "PosteriorDraws check_per_record",
    },
)
