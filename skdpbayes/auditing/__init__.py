"""Try to break a privacy claim: lower bounds on epsilon from fits on neighboring data sets.

An audit never proves privacy. It fits an estimator many times on two data sets that differ in one
record (:func:`audit`), or once on data with many random canaries (:func:`audit_one_run`), and
reports an epsilon that the claim must at least have. A lower bound above the claim refutes it.
Any scikit-learn-style estimator can be audited, with its ``privacy_`` or a claim given by hand.
"""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "AuditResult": "result",
        "NeighborPair": "neighbors",
        "OneRunResult": "result",
        "audit": "two_data_sets",
        "audit_one_run": "one_run",
        "audit_scores": "two_data_sets",
        "changed_rows": "neighbors",
        "clopper_pearson_upper": "bounds",
        "epsilon_lower_bound": "bounds",
        "mu_lower_bound": "bounds",
        "one_run_epsilon": "bounds",
        "one_run_p_value": "bounds",
    },
    submodules=["bounds", "neighbors"],
)
