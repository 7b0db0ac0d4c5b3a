"""The steps that every private fit shares."""

from __future__ import annotations

import pytest
from sklearn.base import is_classifier
from sklearn.utils import get_tags

from tests.contract import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scales_beyond_the_floats_are_refused(case):
    """With them one record could decide between a number and NaN."""
    X, y = case.data()
    scales = {"data_norm", "intercept_scaling", "coef_norm", "coef_norm_guess", "C"}
    for name in sorted(scales.intersection(case.make().get_params())):
        for value in (1e-60, 1e60, 5e207):
            with pytest.raises(ValueError, match=rf"{name} must be a number in \[1e-50, 1e\+50\]"):
                case.build(**{name: value}).fit(X, y)
    with pytest.raises(ValueError, match=r"epsilon=1e\+300 .*np\.inf"):
        case.build(epsilon=1e300).fit(X, y)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_poor_scores_are_tagged_only_while_epsilon_is_small(case):
    if is_classifier(case.make()):
        assert get_tags(case.make(epsilon=1.0)).classifier_tags.poor_score
        assert not get_tags(case.make(epsilon=1e6)).classifier_tags.poor_score
