from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from skdpbayes import (
    BoundsScaler,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    check_private,
    metrics,
    privacy_of,
    private_preprocessor,
    split_budget,
)
from skdpbayes.conjugate import BetaBernoulli
from skdpbayes.exceptions import NotPrivateError
from skdpbayes.privacy import compose


def data(n=400, n_classes=2):
    X, y = make_classification(
        n_samples=n,
        n_features=5,
        n_informative=4,
        n_redundant=0,
        n_classes=n_classes,
        random_state=0,
    )
    return X, y


def model(epsilon=0.5, **parameters):
    return ObjPertLogisticRegression(epsilon, 1e-6, **parameters)


HARMLESS = [
    BoundsScaler((-3, 3)),
    private_preprocessor((-3, 3)),
    Normalizer(),
    PolynomialFeatures(2),
    SimpleImputer(strategy="constant", fill_value=0.0),
    OneHotEncoder(categories=[[0, 1]] * 5, handle_unknown="ignore"),
    SplineTransformer(knots=np.linspace(-3, 3, 5)[:, None] * np.ones(5)),
    "passthrough",
    None,
]
HARMFUL = [
    (StandardScaler(), "BoundsScaler"),
    (PCA(2), "GaussianRandomProjection"),
    (SelectKBest(k=2), "publicly known"),
    (SimpleImputer(), "constant"),
    (SimpleImputer(strategy="constant", add_indicator=True), "MissingIndicator"),
    (OneHotEncoder(), "categories"),
    (SplineTransformer(), "knots"),
]


@pytest.mark.parametrize("step", HARMLESS, ids=str)
def test_steps_that_learn_nothing_pass(step):
    check_private(make_pipeline(step, model()))


@pytest.mark.parametrize("step", [step for step in HARMLESS if step is not None], ids=str)
def test_steps_that_pass_give_a_row_the_same_output_whoever_else_is_there(step):
    if isinstance(step, str):
        return
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (6, 5)).astype(float)
    other = np.vstack([X[:1], rng.uniform(-2.9, 2.9, (5, 5))])
    one, two = (step.fit(rows).transform(X[:1]) for rows in (X, other))
    dense = [out.toarray() if hasattr(out, "toarray") else out for out in (one, two)]
    np.testing.assert_array_equal(*dense)


@pytest.mark.parametrize(("step", "remedy"), HARMFUL, ids=str)
def test_steps_that_learn_are_refused_with_the_remedy(step, remedy):
    for pipeline in (
        make_pipeline(step, model()),
        make_pipeline(make_union(step, Normalizer()), model()),
        make_pipeline(make_column_transformer((step, [0])), model()),
    ):
        with pytest.raises(NotPrivateError, match=remedy) as caught:
            check_private(pipeline)
        assert type(step).__name__ in str(caught.value)


def test_estimators_without_a_claim_and_searches_are_refused():
    for estimator in (
        LogisticRegression(),
        GridSearchCV(model(), {"epsilon": [1]}),
        OneVsOneClassifier(model()),
        BaggingClassifier(model()),
    ):
        with pytest.raises(NotPrivateError, match=type(estimator).__name__):
            check_private(estimator)
    check_private(BaggingClassifier(model(), bootstrap=False))


def test_all_problems_are_listed_at_once():
    with pytest.raises(NotPrivateError) as caught:
        check_private(make_pipeline(StandardScaler(), PCA(2), LogisticRegression()))
    assert str(caught.value).count("\n- ") == 3


def test_one_claim_is_that_of_the_step():
    X, y = data()
    pipeline = make_pipeline(BoundsScaler((-5, 5)), model()).fit(X, y)
    assert privacy_of(pipeline) == pipeline[-1].privacy_


def test_several_releases_compose_tightly():
    X, y = data()
    pipeline = make_pipeline(BoundsScaler((-5, 5)), model()).fit(X, y)
    counts = LaplaceNaiveBayes(epsilon=0.3).fit((X > 0).astype(int), y)
    score = metrics.private_accuracy(y, pipeline.predict(X), epsilon=0.2)
    whole = privacy_of([pipeline, counts], score, pipeline[-1].privacy_)
    parts = [pipeline[-1].privacy_, counts.privacy_, score.privacy, pipeline[-1].privacy_]
    assert whole.delta == pytest.approx(2e-6)
    assert whole.event.delta_at(1.0) == compose(part.event for part in parts).delta_at(1.0)
    assert 0.5 < whole.epsilon < 1.5


def test_fits_inside_a_meta_estimator_are_counted():
    X, y = data(n_classes=3)
    ovr = OneVsRestClassifier(model()).fit(X, y)
    claims = [inner.privacy_.event for inner in ovr.estimators_]
    assert len(claims) == 3
    assert privacy_of(ovr).epsilon == pytest.approx(compose(claims).epsilon_at(3e-6))
    voting = VotingClassifier([("a", model()), ("b", LaplaceNaiveBayes(epsilon=0.2))])
    voting.fit((X > 0).astype(int), y)
    assert privacy_of(voting).epsilon > 0.5


def test_claims_of_different_adjacency_do_not_add_up():
    X, y = data()
    models = [model(adjacency=adjacency).fit(X, y) for adjacency in ("replace_one", "zero_out")]
    with pytest.raises(ValueError, match="one adjacency"):
        privacy_of(models)


def test_unfitted_and_claimless_things_are_refused():
    with pytest.raises(Exception, match="not fitted"):
        privacy_of(model())
    with pytest.raises(NotPrivateError, match="nothing here"):
        privacy_of(make_pipeline(Normalizer()))


def test_split_budget_sets_every_private_step():
    pipeline = make_pipeline(BoundsScaler((-5, 5)), model())
    split = split_budget(pipeline, 2.0, 1e-5)
    assert (split[-1].epsilon, split[-1].delta) == (2.0, 1e-5)
    assert pipeline[-1].epsilon == 0.5
    voting = VotingClassifier([("a", model()), ("b", LaplaceNaiveBayes())])
    split = split_budget(voting, 1.0, 1e-6, {"a": 3, "b": 1})
    a, b = (part for _, part in split.estimators)
    assert (a.epsilon, a.delta, b.epsilon) == (0.75, 0.75e-6, 0.25)
    X, y = data()
    fitted = split_budget(voting, 1.0, 1e-6, {"a": 3, "b": 1}).fit((X > 0).astype(int), y)
    assert privacy_of(fitted).epsilon <= 1.0
    with pytest.raises(ValueError, match="shares"):
        split_budget(voting, 1.0, 1e-6, {"a": 1})
    with pytest.raises(NotPrivateError, match="no private step"):
        split_budget(make_pipeline(Normalizer()), 1.0)


def test_frames_work():
    X, y = data()
    frame = pd.DataFrame(X, columns=list("abcde"))
    columns = make_column_transformer((BoundsScaler((-5, 5)), ["a", "b"]), ("drop", ["c"]))
    pipeline = make_pipeline(columns, model()).fit(frame, y)
    assert privacy_of(pipeline).epsilon == 0.5


def test_a_posterior_counts_with_its_claim():
    posterior = BetaBernoulli().posterior(np.arange(200) % 2, epsilon=0.5)
    assert privacy_of(posterior) == posterior.privacy_
    assert privacy_of([posterior, posterior]).epsilon == pytest.approx(1.0)
