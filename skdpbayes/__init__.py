"""Differentially private Bayesian learning for scikit-learn users."""

from __future__ import annotations

from skdpbayes._lazy import attach

__version__ = "0.1.0.dev0"

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "BoundsScaler": "preprocessing",
        "DPSGLDClassifier": "estimators.chain.classifier",
        "DPSGLDNetworkClassifier": "estimators.network.estimator",
        "LaplaceNaiveBayes": "estimators.naive_bayes",
        "OPSLinearSVC": "estimators.linear_svc",
        "OPSLogisticRegression": "estimators.one_posterior_sample",
        "ObjPertLogisticRegression": "estimators.objective.estimator",
        "PrivacyLedger": "privacy.ledger.ledger",
        "PrivacyWarning": "exceptions",
        "PrivateHMM": "estimators.hidden_markov",
        "RowNormClipper": "preprocessing",
        "ScatteringTransformer": "preprocessing",
        "private_preprocessor": "preprocessing",
    },
    submodules=[
        "auditing",
        "conjugate",
        "datasets",
        "exceptions",
        "model_selection",
        "models",
        "papers",
        "plotting",
        "preprocessing",
        "privacy",
        "randomness",
        "samplers",
    ],
)
