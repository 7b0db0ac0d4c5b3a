from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from skdpbayes.preprocessing import BoundsScaler, RowNormClipper


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        RowNormClipper(),
        RowNormClipper(norm=0.1, copy=False),
        BoundsScaler(bounds=(-1.0, 1.0)),
        BoundsScaler(bounds=(-2, 5), feature_range=(0, 1), norm=1.0),
        BoundsScaler(bounds=(-2, 5), clip=False),
    ],
)
def test_scikit_learn_checks(estimator):
    check_estimator(estimator)


def exact_square(row):
    return sum(Fraction(float(value)) ** 2 for value in row)


def test_clipper_scales_long_rows_and_keeps_short_ones():
    X = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [-6.0, 8.0]])
    out = RowNormClipper(norm=2.0).fit_transform(X)
    np.testing.assert_allclose(out, [[1.2, 1.6], [0.3, 0.4], [0, 0], [-1.2, 1.6]], rtol=1e-12)
    np.testing.assert_array_equal(out[1:3], X[1:3])


rows = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 30)),
    elements=st.floats(-1e200, 1e200, allow_nan=False),
)


@given(X=rows, norm=st.floats(1e-3, 1e3), single=st.booleans())
@settings(max_examples=200, deadline=None)
def test_clipped_norm_holds_in_exact_arithmetic_and_clipping_is_idempotent(X, norm, single):
    if single:
        X = np.clip(X, -1e30, 1e30).astype(np.float32)
    clipper = RowNormClipper(norm=norm)
    out = clipper.fit_transform(X)
    assert out.dtype == X.dtype
    assert all(exact_square(row) <= Fraction(norm) ** 2 * (1 + Fraction(1, 10**14)) for row in out)
    clipped = (out != X).any(axis=1)
    assert all(exact_square(row) <= Fraction(norm) ** 2 for row in out[clipped])
    np.testing.assert_array_equal(clipper.transform(out), out)


def test_clipper_keeps_direction_in_one_row_whatever_the_others_are():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 7)) * rng.exponential(3, size=(50, 1))
    out = RowNormClipper().fit_transform(X)
    alone = np.vstack([RowNormClipper().fit_transform(X[[k]]) for k in range(50)])
    np.testing.assert_array_equal(out, alone)
    cosine = (out * X).sum(1) / np.linalg.norm(out, axis=1) / np.linalg.norm(X, axis=1)
    np.testing.assert_allclose(cosine, 1.0)


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_matrix])
def test_clipper_on_sparse_equals_dense(container):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(40, 30)) * (rng.random((40, 30)) < 0.3)
    X = container(dense)
    out = RowNormClipper(norm=1.5).fit_transform(X)
    assert sp.issparse(out)
    assert out.format == "csr"
    np.testing.assert_allclose(out.toarray(), RowNormClipper(norm=1.5).fit_transform(dense))
    np.testing.assert_array_equal(X.toarray(), dense)


def test_clipper_does_not_densify():
    X = sp.csr_array(([5.0, 0.5], ([0, 1], [10**9, 3])), shape=(2, 2 * 10**9))
    out = RowNormClipper().fit_transform(X)
    assert out.shape == X.shape
    np.testing.assert_allclose(out.data, [1.0, 0.5], rtol=1e-6)


def test_entries_stored_twice_count_with_their_sum():
    # 0.8 + 0.8 = 1.6 is too long, though 0.8² + 0.8² is only 1.28
    X = sp.csr_array((np.array([0.8, 0.8]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    out = RowNormClipper(norm=1.2).fit_transform(X)
    np.testing.assert_allclose(out.toarray(), [[1.2]])
    assert X.nnz == 2  # the caller's matrix is untouched


def test_copy_switch():
    X = np.array([[3.0, 4.0]])
    RowNormClipper().fit_transform(X)
    BoundsScaler((0, 10)).fit_transform(X)
    np.testing.assert_array_equal(X, [[3.0, 4.0]])
    assert np.shares_memory(RowNormClipper(copy=False).fit_transform(X), X)


@pytest.mark.parametrize(
    ("norm", "error"),
    [
        *((value, ValueError) for value in (0, -1.0, np.nan, np.inf)),
        *((value, TypeError) for value in ("1", None, True)),
    ],
)
def test_clipper_rejects_bad_norms(norm, error):
    with pytest.raises(error, match="norm must be a number"):
        RowNormClipper(norm=norm).fit([[1.0]])


def test_stateless():
    a = RowNormClipper().fit([[1.0, 2.0]])
    b = RowNormClipper().fit([[100.0, -7.0], [3.0, 4.0]])
    assert vars(a) == vars(b)
    np.testing.assert_allclose(RowNormClipper().transform([[3.0, 4.0]]), [[0.6, 0.8]])
    first = BoundsScaler((0, 9)).fit([[1.0, 2.0]])
    second = BoundsScaler((0, 9)).fit([[9.0, 5.0], [0.0, 1.0]])
    assert pickle.dumps(first) == pickle.dumps(second)


def test_scaler_maps_bounds_to_range_and_clips():
    X = np.array([[0.0, -5.0], [5.0, 0.0], [10.0, 5.0], [-100.0, 99.0]])
    out = BoundsScaler([(0, 10), (-5, 5)], feature_range=(0, 4)).fit_transform(X)
    np.testing.assert_array_equal(out, [[0, 0], [2, 2], [4, 4], [0, 4]])
    free = BoundsScaler([(0, 10), (-5, 5)], clip=False).fit_transform(X)
    np.testing.assert_allclose(free[3], [-21.0, 19.8])


def test_one_pair_serves_all_columns():
    X = np.random.default_rng(0).uniform(-3, 3, size=(20, 4))
    pair = BoundsScaler((-3, 3)).fit(X)
    np.testing.assert_array_equal(pair.bounds_, [[-3, 3]] * 4)
    np.testing.assert_allclose(pair.transform(X), X / 3)


@pytest.mark.parametrize("norm", [None, 1.0, 3.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverse_transform_inside_the_bounds(norm, dtype):
    X = np.random.default_rng(1).uniform(10, 30, size=(30, 5)).astype(dtype)
    scaler = BoundsScaler((10, 30), feature_range=(-0.5, 2), norm=norm).fit(X)
    back = scaler.inverse_transform(scaler.transform(X))
    assert back.dtype == dtype
    np.testing.assert_allclose(back, X, rtol=1e-5 if dtype == np.float32 else 1e-12)
    with pytest.raises(ValueError, match="expected 5"):
        scaler.inverse_transform(X[:, :2])


@pytest.mark.parametrize("feature_range", [(-1, 1), (0, 1), (-3, 0.5)])
@pytest.mark.parametrize("d", [1, 2, 3, 10, 97])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("norm", [1.0, 2.5])
def test_norm_holds_at_the_corners(feature_range, d, dtype, norm):
    X = np.where(np.random.default_rng(d).random((50, d)) < 0.5, -9, 9).astype(dtype)
    X[0], X[1] = -9, 9
    out = BoundsScaler((-1, 2), feature_range=feature_range, norm=norm).fit_transform(X)
    squares = [exact_square(row) for row in out]
    assert max(squares) <= norm**2
    assert max(squares) > norm**2 * (1 - 1e-5)  # and not smaller than it has to be
    np.testing.assert_array_equal(RowNormClipper(norm).fit_transform(out), out)


def test_mapping_of_bounds_follows_the_columns():
    frame = pd.DataFrame({"b": [5.0, 0.0], "a": [1.0, 0.5]})
    bounds = {"a": (0, 1), "b": (0, 10)}
    scaler = BoundsScaler(bounds).set_output(transform="pandas").fit(frame)
    np.testing.assert_array_equal(scaler.bounds_, [[0, 10], [0, 1]])
    out = scaler.transform(frame)
    pd.testing.assert_frame_equal(out, pd.DataFrame({"b": [0.0, -1.0], "a": [1.0, 0.0]}))
    assert list(scaler.get_feature_names_out()) == ["b", "a"]
    assert clone(scaler).get_params()["bounds"] == bounds


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (None, "bounds is required"),
        ({"a": (0, 1)}, r"no entry for the columns \['b'\]"),
        ({"a": (0, 1), "b": (0, 1), "bb": (0, 1)}, "bounds names 'bb', .* did you mean 'b'?"),
        ({"a": (0, 1), "b": (2, 2)}, "bounds of column 'b' must be finite with low < high"),
        ({"a": (0, np.inf), "b": (2, 3)}, "bounds of column 'a'"),
        ((0, np.nan), "bounds of column 'a'"),
        ([(0, 1)], r"shape \(2, 2\), got an array of shape \(1, 2\)"),
        (3.0, "got an array of shape"),
        ("ab", "must hold pairs"),
        ([(0, 1), (0,)], "must hold pairs"),
    ],
)
def test_bad_bounds_are_named(bounds, message):
    with pytest.raises(ValueError, match=message):
        BoundsScaler(bounds).fit(pd.DataFrame({"a": [0.0], "b": [1.0]}))


def test_mapping_needs_column_names():
    with pytest.raises(ValueError, match="X has no column names"):
        BoundsScaler({"a": (0, 1)}).fit(np.zeros((2, 1)))


@pytest.mark.parametrize("feature_range", [(1, 0), (0, np.inf), (0, np.nan), 3, ("a", "b")])
def test_bad_feature_range(feature_range):
    with pytest.raises(ValueError, match="feature_range must be"):
        BoundsScaler((0, 1), feature_range=feature_range).fit([[0.0]])


def test_norm_needs_clipping():
    with pytest.raises(ValueError, match="only with clip=True"):
        BoundsScaler((0, 1), norm=1.0, clip=False).fit([[0.0]])
    with pytest.raises(TypeError, match="norm, unless None, must be a number"):
        BoundsScaler((0, 1), norm="yes").fit([[0.0]])
    with pytest.raises(ValueError, match="norm, unless None, must be a number"):
        BoundsScaler((0, 1), norm=0.0).fit([[0.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "pair",
    [
        (-1.7e308, 1.7e308),
        (0.0, 5e-324),
        (-5e-324, 1.7e308),
        (16777216.0, 16777217.0),  # equal in single precision
        (0.0, 1e300),  # infinite in single precision
        (1.0, np.nextafter(1.0, 2.0)),
        (-3e38, 3e38),
    ],
)
def test_extreme_bounds_give_finite_values_in_range(dtype, pair):
    limits = np.finfo(dtype)
    X = np.array([limits.min, -1.0, 0.0, 16777216.0, 1.0, limits.max], dtype=dtype)[:, None]
    out = BoundsScaler(pair).fit_transform(X)
    share = [Fraction(float(v)) - Fraction(pair[0]) for v in X[:, 0]]
    wide = Fraction(pair[1]) - Fraction(pair[0])
    inside = [min(max(part / wide, Fraction(0)), Fraction(1)) for part in share]
    np.testing.assert_allclose(out[:, 0], [float(2 * part - 1) for part in inside], atol=1e-6)
    scaler = BoundsScaler(pair, norm=1.0).fit(X)
    assert all(exact_square(row) <= 1 for row in scaler.transform(X))
    assert np.isfinite(scaler.inverse_transform(scaler.transform(X))).all()


def test_single_precision_loses_nothing_to_large_bounds():
    X = np.array([[16777216.0], [16777218.0]], dtype=np.float32)
    out = BoundsScaler((16777216, 16777219)).fit_transform(X)
    np.testing.assert_allclose(out[:, 0], [-1.0, 1 / 3], rtol=1e-6)


def test_rows_in_blocks_are_rows_alone():
    X = np.random.default_rng(0).uniform(-2, 2, size=(40, 60_000))  # more than one block
    scaler = BoundsScaler((-1, 1), norm=1.0).fit(X)
    np.testing.assert_array_equal(scaler.transform(X)[25:26], scaler.transform(X[25:26]))


def test_coefficients_in_units_give_the_same_logits():
    rng = np.random.default_rng(2)
    X = rng.uniform([0, 10], [5, 90], size=(20, 2))
    scaler = BoundsScaler([(0, 5), (10, 90)], feature_range=(-0.5, 2), norm=1.0).fit(X)
    coef, intercept = rng.normal(size=(7, 3, 2)), rng.normal(size=(7, 3))
    scaled = np.einsum("nd,skd->skn", scaler.transform(X), coef) + intercept[..., None]
    in_units, shifted = scaler.coef_in_units(coef, intercept)
    own = np.einsum("nd,skd->skn", X, in_units) + shifted[..., None]
    np.testing.assert_allclose(own, scaled, rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="coef must have 2 columns"):
        scaler.coef_in_units(np.zeros((1, 3)))


def test_scaler_has_to_be_fitted():
    with pytest.raises(NotFittedError):
        BoundsScaler((0, 1)).transform([[0.0]])


def test_pandas_through_a_pipeline():
    frame = pd.DataFrame({"a": [3.0, 30.0], "b": [4.0, 40.0], "c": [0.0, 1.0]})
    scaled = ColumnTransformer(
        [("bounded", BoundsScaler({"a": (0, 60), "b": (0, 40)}), ["a", "b"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    pipe = make_pipeline(scaled, RowNormClipper(0.5)).set_output(transform="pandas")
    out = pipe.fit_transform(frame)
    assert list(out.columns) == ["a", "b", "c"]
    assert (np.linalg.norm(out, axis=1) <= 0.5).all()
    assert list(pipe.get_feature_names_out()) == ["a", "b", "c"]
