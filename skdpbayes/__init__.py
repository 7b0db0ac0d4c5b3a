"""Differentially private Bayesian learning for scikit-learn users."""

from __future__ import annotations

from skdpbayes._lazy import attach

__version__ = "0.1.0.dev0"

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "estimators.chain.classifier": "DPSGLDClassifier",
        "estimators.chain.regressor": "DPSGLDRegressor",
        "estimators.hmm.estimator": "PrivateHMM",
        "estimators.naive_bayes.estimator": "LaplaceNaiveBayes",
        "estimators.network.estimator": "DPSGLDNetworkClassifier",
        "estimators.objective.estimator": "ObjPertLogisticRegression",
        "estimators.ops.logistic": "OPSLogisticRegression",
        "estimators.ops.svc": "OPSLinearSVC",
        "estimators.ridge.estimator": "PrivateBayesianRidge",
        "estimators.torch.estimator": "DPSGLDTorchClassifier",
        "exceptions": "PrivacyWarning",
        "fitting.chunks": "RowBlocks",
        "fitting.storage": "load_json to_json",
        "preprocessing": (
            "BoundsScaler PrivateBoundsScaler RowNormClipper ScatteringTransformer "
            "private_preprocessor"
        ),
        "privacy.ledger.ledger": "PrivacyLedger",
        "reporting": "check_private privacy_of report split_budget summary",
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
