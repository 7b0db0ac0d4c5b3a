"""Text hashed to too many tokens: said before the budget is spent, from public numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from skdpbayes import LaplaceNaiveBayes, PrivacyWarning


def said(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(w.message) for w in caught if issubclass(w.category, PrivacyWarning)]


@pytest.mark.parametrize(
    ("parameters", "wide", "narrow"),
    [
        ({"distribution": "multinomial", "max_total": 20}, 2**12, 2**8),
        ({"distribution": "bernoulli", "binarize": 0.0}, 2**10, 2**5),
    ],
)
def test_noise_that_drowns_the_counts_is_warned_of(parameters, wide, narrow):
    y = np.arange(5000) % 2
    model = LaplaceNaiveBayes(1.0, posterior="naive", random_state=0, **parameters)
    for width, expected in ((wide, 1), (narrow, 0)):
        texts = said(model, sparse.csr_matrix((5000, width)), y)
        assert len([text for text in texts if "fewer" in text]) == expected
    # values make no difference: the same numbers of records and tokens, the same words
    full = sparse.random(5000, wide, 1e-3, "csr", random_state=0)
    full.data[:] = 1.0
    assert said(model, full, y) == said(model, sparse.csr_matrix((5000, wide)), y)


def test_without_privacy_nothing_is_said():
    y = np.arange(40) % 2
    model = LaplaceNaiveBayes(np.inf, binarize=0.0)
    assert said(model, sparse.csr_matrix((40, 200)), y) == []
