"""Posterior draws and intervals of a private linear classifier, computed from its release."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from skdpbayes import randomness
from skdpbayes._validation import check_integer, check_is_fitted, check_real
from skdpbayes.estimators._linear import ProbabilisticLinearClassifier
from skdpbayes.estimators._objective_inference import (
    Fitted,
    NormalPosterior,
    noise_aware_posterior,
)

__all__ = ["NoiseAwareClassifier"]


class NoiseAwareClassifier(ProbabilisticLinearClassifier):
    """A linear classifier that may have released its Fisher information, too."""

    _fitted: Fitted
    information_: np.ndarray

    def _posterior(self) -> NormalPosterior:
        check_is_fitted(self)
        if not hasattr(self, "information_"):
            raise ValueError(
                "this fit released no Fisher information (inference_budget=0), so there is no "
                "posterior; set inference_budget=0.1, say, and fit again."
            )
        plan, constant = self._fitted.plan, self._fitted.constant
        parts = [self._coef_draws[0]]
        if constant > 0.0:
            parts.append(self._intercept_draws[0][:, None] / constant)
        return noise_aware_posterior(
            np.hstack(parts).ravel(),
            self.information_,
            penalty=plan.penalty,
            tilt_variance=plan.tilt_variance,
            blur_variance=plan.blur_variance,
            prior_precision=self._fitted.prior_precision,
            information_deviation=plan.information_deviation,
            tilt_covariance=plan.tilt_covariance,
        )

    def _split(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Turn (..., p) into coefficients (..., K, d) and intercepts (..., K)."""
        outputs = self.coef_.shape[0]
        table = flat.reshape(*flat.shape[:-1], outputs, -1)
        coef = table[..., : self.n_features_in_]
        if self._fitted.constant == 0.0:
            return {"coef": coef, "intercept": np.zeros(table.shape[:-1])}
        return {"coef": coef, "intercept": self._fitted.constant * table[..., -1]}

    def sample_posterior(
        self, n_samples: int | None = None, random_state: Any = None
    ) -> dict[str, np.ndarray]:
        """Draw coefficients from the noise-aware normal approximation around the release.

        The approximation holds both sampling error and the known noise of the mechanism (see the
        user guide). The prior is normal with variance ``C`` a coefficient. Under privacy, where the
        penalty fights noise, it is ``coef_norm**2 / p`` for p coefficients if that is wider, and
        draws make up for the penalty's shrinkage. They cost no privacy.

        Parameters
        ----------
        n_samples : int or None, default=None
            Number of draws; None for 1000.
        random_state : int, RandomState, Generator or None, default=None
            Of the draws.

        Returns
        -------
        dict
            ``"coef"`` of shape (n_samples, K, n_features) and ``"intercept"`` of shape
            (n_samples, K), with K = 1 for two classes.
        """
        posterior = self._posterior()
        size = 1000 if n_samples is None else check_integer("n_samples", n_samples, low=1)
        # derived: the seed of the fit would repeat the secret noise
        generator = randomness.derived_generator(random_state, 1)
        standard = generator.standard_normal((size, posterior.mean.shape[0]))
        return self._split(posterior.transform(standard))

    def conf_int(self, level: float = 0.95) -> dict[str, np.ndarray]:
        """Intervals for coefficients and intercept, noise of the mechanism included.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval should cover, in (0, 1).

        Returns
        -------
        dict
            ``"coef"`` of shape (K, n_features, 2) and ``"intercept"`` of shape (K, 2): lower and
            upper ends, from the posterior of ``sample_posterior``.
        """
        level = check_real("level", level, low=0.0, high=1.0, closed="neither")
        posterior = self._posterior()
        half = ndtri(0.5 + 0.5 * level) * posterior.marginal_deviations()
        ends = [self._split(posterior.mean - half), self._split(posterior.mean + half)]
        return {name: np.stack([end[name] for end in ends], axis=-1) for name in ends[0]}
