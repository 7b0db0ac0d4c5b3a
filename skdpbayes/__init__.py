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
        "DPSGLDRegressor": "estimators.chain.regressor",
        "DPSGLDTorchClassifier": "estimators.torch.estimator",
        "LaplaceNaiveBayes": "estimators.naive_bayes.estimator",
        "OPSLinearSVC": "estimators.ops.svc",
        "OPSLogisticRegression": "estimators.ops.logistic",
        "ObjPertLogisticRegression": "estimators.objective.estimator",
        "PrivacyLedger": "privacy.ledger.ledger",
        "PrivacyWarning": "exceptions",
        "PrivateBayesianRidge": "estimators.ridge.estimator",
        "PrivateBoundsScaler": "preprocessing",
        "PrivateHMM": "estimators.hmm.estimator",
        "RowBlocks": "fitting.chunks",
        "RowNormClipper": "preprocessing",
        "ScatteringTransformer": "preprocessing",
        "check_private": "reporting",
        "load_json": "fitting.storage",
        "privacy_of": "reporting",
        "private_preprocessor": "preprocessing",
        "report": "reporting",
        "split_budget": "reporting",
        "summary": "reporting",
        "to_json": "fitting.storage",
    },
    submodules=[
        "auditing",
        "conjugate",
        "datasets",
        "exceptions",
        "metrics",
        "model_selection",
        "papers",
        "plotting",
        "preprocessing",
        "privacy",
        "randomness",
        "reporting",
        "sampling",
    ],
)
