from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer
from sklearn.utils.estimator_checks import check_estimator

import skdpbayes
from skdpbayes import BoundsScaler
from skdpbayes.datasets import make_census
from skdpbayes.preprocessing import PrivatePreprocessor, RowNormClipper, private_preprocessor

BOUNDS = {"age": (20, 80), "income": (0, 1000)}
CATEGORIES = {"housing": ("rented", "owned", "other"), "code": [3, 1]}


def table():
    return pd.DataFrame(
        {
            "code": [1, 3, 9, 1],
            "age": [20.0, 35.0, 90.0, np.nan],
            "housing": ["owned", "castle", None, "rented"],
            "income": [0.0, 10.0, -5.0, 1e9],
        }
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("numeric", ["linear", "spline"])
def test_scikit_learn_checks(numeric):
    check_estimator(private_preprocessor((-2, 5), numeric=numeric))


def test_linear_numbers_and_indicators_by_hand():
    prepare = private_preprocessor(BOUNDS, CATEGORIES, norm=2.0, missing=["age", "housing"])
    out = prepare.set_output(transform="pandas").fit_transform(table())
    assert list(out.columns) == [
        *("code_3", "code_1", "age", "age_missing"),
        *("housing_rented", "housing_owned", "housing_other", "housing_missing", "income"),
    ]
    expected = [
        [0, 1, -1.0, 0, 0, 1, 0, 0, -1.00],
        [1, 0, -0.5, 0, 0, 0, 0, 0, -0.98],  # a castle is not listed: all zero
        [0, 0, 1.0, 0, 0, 0, 0, 1, -1.00],
        [0, 1, 0.0, 1, 1, 0, 0, 0, 1.00],
    ]
    np.testing.assert_allclose(out, expected, rtol=1e-13)  # four blocks, norm 2: the constant is 1


@pytest.mark.parametrize("n_knots", [2, 5, 8])
@pytest.mark.parametrize("skewed", [False, True])
def test_hats_are_those_of_scikit_learn(n_knots, skewed):
    x = np.concatenate([np.linspace(-3, 130, 400), [-1, 5, 99]])[:, None]
    out = private_preprocessor(
        {0: (-1, 99)}, numeric="spline", n_knots=n_knots, skewed=[0] if skewed else []
    ).fit_transform(x)
    mapped, low, high = (
        (np.log1p(np.clip(x, -1, 99) + 1), 0, np.log(101)) if skewed else (x, -1, 99)
    )
    oracle = SplineTransformer(
        n_knots=n_knots,
        degree=1,
        knots=np.linspace(low, high, n_knots)[:, None],
        extrapolation="constant",
    ).fit_transform(mapped)
    np.testing.assert_allclose(out, oracle, atol=1e-12)


def test_indicators_are_those_of_scikit_learn():
    frame = table()[["housing", "code"]]
    oracle = OneHotEncoder(
        categories=[list(CATEGORIES["housing"]), CATEGORIES["code"][::-1]],
        handle_unknown="ignore",
        sparse_output=False,
    ).fit_transform(frame)
    categories = {"housing": CATEGORIES["housing"], "code": CATEGORIES["code"][::-1]}
    out = private_preprocessor(categories=categories, norm=2**0.5).fit_transform(frame)
    np.testing.assert_allclose(out, oracle, rtol=1e-14)


cells = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, 1.0, 0.5, 1e-320, 1e308]))


@given(
    rows=st.lists(st.tuples(cells, cells, st.sampled_from(["a", "b", "c", None])), min_size=1),
    numeric=st.sampled_from(["linear", "spline"]),
    missing=st.sampled_from([(), (0,), (1, 2)]),
    norm=st.floats(1e-3, 1e3),
)
@settings(max_examples=150, deadline=None)
def test_every_row_is_within_the_norm_in_exact_arithmetic(rows, numeric, missing, norm):
    """Whatever the cells hold: nothing is cut, nothing is NaN, no error tells of a record."""
    prepare = private_preprocessor(
        {0: (0, 1), 1: (-1e300, 1e300)},
        {2: ["a", "b"]},
        numeric=numeric,
        missing=missing,
        norm=norm,
    )
    out = prepare.fit_transform(np.array(rows, dtype=object))
    assert np.isfinite(out).all()
    for row in out:
        assert sum(Fraction(v) ** 2 for v in row.tolist()) <= Fraction(norm) ** 2
    np.testing.assert_array_equal(RowNormClipper(norm).fit_transform(out), out)


def test_the_constant_is_not_smaller_than_it_has_to_be():
    prepare = private_preprocessor(BOUNDS, CATEGORIES, norm=3.0)
    out = prepare.fit_transform(table())
    assert prepare.n_blocks_ == 4
    np.testing.assert_allclose(np.linalg.norm(out[0]), 3.0, rtol=1e-12)


@pytest.mark.parametrize("numeric", ["linear", "spline"])
@pytest.mark.parametrize("missing", [(), ("age", "housing")])
def test_sparse_equals_dense(numeric, missing):
    options = {"numeric": numeric, "missing": missing, "skewed": ["income"]}
    dense = private_preprocessor(BOUNDS, CATEGORIES, **options).fit_transform(table())
    prepare = private_preprocessor(BOUNDS, CATEGORIES, sparse_output=True, **options)
    out = prepare.fit_transform(table())
    assert sp.issparse(out)
    assert out.format == "csr"
    assert out.has_canonical_format
    assert out.nnz == np.count_nonzero(dense)
    np.testing.assert_array_equal(out.toarray(), dense)


def test_nothing_is_learned_and_rows_do_not_know_each_other():
    frame = make_census(60, as_frame=True, random_state=0)
    prepare = private_preprocessor(frame.bounds, frame.categories, numeric="spline")
    first = clone(prepare).fit(frame.data[:10])
    second = clone(prepare).fit(frame.data[10:40])
    assert pickle.dumps(first) == pickle.dumps(second)
    out = first.transform(frame.data)
    np.testing.assert_array_equal(
        out[50:], pickle.loads(pickle.dumps(second)).transform(frame.data[50:])
    )


@pytest.mark.parametrize(
    "convert",
    [
        lambda f: f.astype({"age": "Float64", "code": "Int64", "housing": "string"}),
        lambda f: f.astype({"housing": "category", "code": "category", "age": "category"}),
        lambda f: f.astype(object).where(f.notna(), None),
        lambda f: f.astype(object).where(f.notna(), pd.NA),
        lambda f: f.astype({"income": "float32"}),
        lambda f: f.iloc[:, ::-1].assign(more="text"),
    ],
)
@pytest.mark.parametrize("numeric", ["linear", "spline"])
def test_the_types_of_a_data_frame_make_no_difference(convert, numeric):
    prepare = private_preprocessor(
        BOUNDS, CATEGORIES, numeric=numeric, missing=list(table().columns)
    )
    expected = prepare.fit_transform(table())
    np.testing.assert_array_equal(prepare.transform(convert(table())), expected)
    same_columns = convert(table())[list(table().columns)]
    np.testing.assert_array_equal(clone(prepare).fit_transform(same_columns), expected)


@pytest.mark.parametrize("numeric", ["linear", "spline"])
def test_polars_equals_pandas(numeric):
    polars = pytest.importorskip("polars")
    columns = table().astype(object).where(table().notna(), None).to_dict(orient="list")
    prepare = private_preprocessor(BOUNDS, CATEGORIES, numeric=numeric, missing=["age", "housing"])
    expected = prepare.fit_transform(table())
    frame = polars.DataFrame(columns)
    np.testing.assert_array_equal(prepare.fit_transform(frame), expected)
    categorical = frame.with_columns(polars.col("housing").cast(polars.Categorical))
    np.testing.assert_array_equal(prepare.fit_transform(categorical), expected)
    out = clone(prepare).set_output(transform="polars").fit_transform(frame)
    assert isinstance(out, polars.DataFrame)
    assert list(out.columns) == list(prepare.get_feature_names_out())
    np.testing.assert_array_equal(out.to_numpy(), expected)


def test_arrays_are_declared_by_position():
    X = table()[["age", "housing", "income", "code"]].to_numpy(dtype=object)
    prepare = private_preprocessor(
        {0: (20, 80), 2: (0, 1000)}, {1: CATEGORIES["housing"], 3: [3, 1]}
    )
    by_name = private_preprocessor(BOUNDS, CATEGORIES)
    expected = by_name.fit_transform(table()[["age", "housing", "income", "code"]])
    np.testing.assert_array_equal(prepare.fit_transform(X), expected)
    np.testing.assert_array_equal(prepare.fit_transform(X.tolist()), expected)
    assert prepare.get_feature_names_out()[0] == "x0"
    assert prepare.get_feature_names_out(list("abcd"))[1] == "b_rented"
    with pytest.raises(ValueError, match="features"):
        prepare.transform(X[:, :3])


def test_names_out():
    frame = pd.DataFrame({"income": [1.0], "age": [30.0], "sex": ["f"]})
    options = {"skewed": ["income", "age"], "missing": ["sex"]}
    bounds = {"income": (0, 1000), "age": (18, 90)}
    linear = private_preprocessor(bounds, {"sex": ["m", "f"]}, **options).fit(frame)
    assert list(linear.get_feature_names_out()) == [
        *("log1p(income)", "log1p(age - 18)", "sex_m", "sex_f", "sex_missing")
    ]
    below = private_preprocessor({"t": (-5, 5)}, skewed=["t"]).fit(pd.DataFrame({"t": [0.0]}))
    assert list(below.get_feature_names_out()) == ["log1p(t + 5)"]
    spline = private_preprocessor({"age": (0, 30)}, numeric="spline").fit(frame[["age"]])
    assert list(spline.get_feature_names_out()) == [f"age_{10 * k}" for k in range(4)]
    skewed = private_preprocessor(
        {"age": (0, 99)}, numeric="spline", n_knots=3, skewed=["age"]
    ).fit(frame[["age"]])
    assert list(skewed.get_feature_names_out()) == ["age_0", "age_9", "age_99"]
    narrow = private_preprocessor({"age": (10000, 10001)}, numeric="spline", n_knots=3)
    names = narrow.fit(frame[["age"]]).get_feature_names_out()
    assert list(names) == ["age_10000", "age_10000.5", "age_10001"]


@pytest.mark.parametrize("numeric", ["linear", "spline"])
def test_coefficients_in_units_give_the_same_logits(numeric):
    rng = np.random.default_rng(0)
    n = 50
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, n),
            "income": rng.exponential(100, n).clip(0, 1000),
            "housing": rng.choice(["rented", "owned", "boat"], n),
        }
    )
    prepare = private_preprocessor(
        BOUNDS,
        {"housing": CATEGORIES["housing"]},
        numeric=numeric,
        skewed=["income"],
        norm=0.7,
    ).fit(frame)
    names = list(prepare.get_feature_names_out())
    coef, intercept = rng.normal(size=(5, 2, len(names))), rng.normal(size=(5, 2))
    in_units, shifted = prepare.coef_in_units(coef, intercept)
    own = np.zeros((5, 2, n)) + shifted[..., None]
    for label in CATEGORIES["housing"]:
        own += (
            in_units[..., [names.index(f"housing_{label}")]]
            * (frame["housing"] == label).to_numpy()
        )
    if numeric == "linear":
        own += in_units[..., [names.index("age")]] * frame["age"].to_numpy()
        own += in_units[..., [names.index("log1p(income)")]] * np.log1p(frame["income"].to_numpy())
    else:
        np.testing.assert_array_equal(shifted, intercept)
        for name, skew in (("age", np.asarray), ("income", np.log1p)):
            places = [k for k, label in enumerate(names) if label.startswith(name)]
            low, high = BOUNDS[name]
            knots = np.linspace(skew(low), skew(high), len(places))
            for draw in np.ndindex(5, 2):
                own[draw] += np.interp(skew(frame[name]), knots, in_units[draw][places])
    expected = np.einsum("nd,skd->skn", prepare.transform(frame), coef) + intercept[..., None]
    np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-10)


def test_the_indicator_of_a_missing_number_stands_beside_the_middle():
    frame = pd.DataFrame({"age": [np.nan, 50.0, 0.0]})
    prepare = private_preprocessor({"age": (20, 80)}, missing=["age"]).fit(frame)
    (per_year, gap), at_zero = prepare.coef_in_units([6.0, 0.5], 1.0)
    logits = prepare.transform(frame) @ [6.0, 0.5] + 1.0
    np.testing.assert_allclose(
        logits, [at_zero + 50 * per_year + gap, at_zero + 50 * per_year, at_zero + 20 * per_year]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": {**BOUNDS, "incme": (0, 1)}}, r"bounds names 'incme'.*did you mean 'income'"),
        ({"categories": {**CATEGORIES, "hosing": "ab"}}, "categories names 'hosing'.*'housing'"),
        ({"bounds": {"age": (20, 80)}}, r"nothing is public about the columns \['income'\].*drop"),
        ({"bounds": None, "categories": None}, "needs bounds=.* and categories="),
        ({"bounds": {**BOUNDS, "code": (0, 9)}}, r"\['code'\] are in bounds and in categories"),
        ({"bounds": {**BOUNDS, "age": (80, 20)}}, "bounds of column 'age' must be finite with low"),
        ({"bounds": {**BOUNDS, "age": (20, 30, 40)}}, "bounds must be one .low, high. pair"),
        ({"skewed": ["housing"]}, "skewed names 'housing'"),
        ({"missing": ["aeg"]}, "missing names 'aeg'.*did you mean 'age'"),
        ({"numeric": "splines"}, "numeric must be one of 'linear', 'spline'"),
        ({"numeric": "spline", "n_knots": 1}, "n_knots must be an integer >= 2"),
        ({"remainder": "passthrough"}, "remainder must be one of 'error', 'drop'"),
        ({"norm": 0.0}, "norm must be a number"),
        ({"categories": {**CATEGORIES, "housing": []}}, "'housing' must list each category once"),
        ({"categories": {**CATEGORIES, "housing": ["a", "a"]}}, "'housing' must list each"),
        ({"categories": {**CATEGORIES, "housing": ["a", None]}}, "name the column in missing"),
        ({"categories": {**CATEGORIES, "code": ["3", "1"]}}, "'code' holds numbers.*lists text"),
        ({"categories": {**CATEGORIES, "housing": [0, 1]}}, "'housing' holds text.*lists numbers"),
    ],
)
def test_what_is_wrong_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        private_preprocessor(**{"bounds": BOUNDS, "categories": CATEGORIES, **options}).fit(table())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categories": {**CATEGORIES, "housing": "rented"}}, "'housing' must be a sequence"),
        ({"categories": {**CATEGORIES, "housing": 3}}, "'housing' must be a sequence"),
        ({"categories": ["rented"]}, "categories must be a mapping"),
        ({"skewed": "income"}, "skewed must be a collection of columns, got 'income'"),
        ({"sparse_output": "yes"}, "sparse_output must be True or False"),
    ],
)
def test_wrong_types_are_named(options, message):
    with pytest.raises(TypeError, match=message):
        private_preprocessor(**{"bounds": BOUNDS, "categories": CATEGORIES, **options}).fit(table())


def test_columns_that_do_not_hold_numbers_are_named():
    frame = table().assign(age=["old"] * 4)
    with pytest.raises(ValueError, match="column 'age' must hold numbers"):
        private_preprocessor(BOUNDS, CATEGORIES).fit_transform(frame)
    dates = table().assign(age=pd.to_datetime(["2020-01-01"] * 4))
    with pytest.raises(ValueError, match="column 'age' must hold numbers: its type is datetime64"):
        private_preprocessor(BOUNDS, CATEGORIES).fit_transform(dates)


def test_a_failed_fit_changes_nothing():
    prepare = private_preprocessor(BOUNDS, CATEGORIES).fit(table())
    before = pickle.dumps(prepare)
    with pytest.raises(ValueError, match="nothing is public"):
        prepare.fit(table().assign(more=1))
    assert pickle.dumps(prepare) == before


def test_columns_can_be_dropped_and_new_frames_may_have_other_ones():
    prepare = private_preprocessor({"age": (20, 80)}, remainder="drop").fit(table())
    assert prepare.n_blocks_ == 1
    np.testing.assert_allclose(prepare.transform(table()[["age"]])[:, 0], [-1, -0.5, 1, 0])
    with pytest.raises(ValueError, match=r"X lacks the columns \['age'\]"):
        prepare.transform(table()[["income"]])


def test_one_pair_serves_all_columns_that_are_no_categories():
    frame = pd.DataFrame({"a": [0.0], "b": [1.0], "c": ["x"]})
    out = private_preprocessor((0, 1), {"c": ["x"]}, norm=3**0.5).fit_transform(frame)
    np.testing.assert_allclose(out, [[-1, 1, 1]])


def test_linear_numbers_are_those_of_the_scaler():
    X = np.random.default_rng(0).normal(size=(30, 5))
    np.testing.assert_allclose(
        private_preprocessor((-1, 2), norm=1.5).fit_transform(X),
        BoundsScaler((-1, 2), norm=1.5).fit_transform(X),
        rtol=1e-13,
    )


def test_the_whole_pipeline():
    census = make_census(4000, as_frame=True, random_state=0)
    model = make_pipeline(
        private_preprocessor(census.bounds, census.categories, norm=10.0),
        LogisticRegression(max_iter=2000),
    )
    assert cross_val_score(model, census.data, census.target, cv=3).mean() > 0.8
    assert set(model.get_params()) > {
        "privatepreprocessor__numeric",
        "privatepreprocessor__n_knots",
    }
    model.fit(census.data, census.target)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(census.data), model.predict(census.data))


def test_names_of_the_package():
    assert skdpbayes.private_preprocessor is private_preprocessor
    assert isinstance(private_preprocessor(), PrivatePreprocessor)
