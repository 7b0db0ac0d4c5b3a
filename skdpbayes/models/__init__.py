"""Lazy front of the ``models`` room: a submodule loads at first use."""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "linear_logits": "linear",
        "logistic_gradient": "linear",
        "logistic_hessian": "linear",
        "logistic_loss": "linear",
        "smooth_hinge_gradient": "linear",
        "smooth_hinge_hessian": "linear",
        "smooth_hinge_loss": "linear",
        "softmax_gradient": "linear",
        "softmax_hessian": "linear",
        "softmax_loss": "linear",
        "summation_length": "linear",
    },
)
