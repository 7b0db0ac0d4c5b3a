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
        "bounds": (
            "clopper_pearson_upper epsilon_lower_bound mu_lower_bound one_run_epsilon "
            "one_run_p_value"
        ),
        "neighbors": "NeighborPair changed_rows",
        "one_run": "audit_one_run",
        "result": "AuditResult OneRunResult",
        "two_data_sets": "audit audit_scores",
    },
    submodules=["bounds", "neighbors"],
)
