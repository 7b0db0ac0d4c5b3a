from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from skdpbayes import (
    BoundsScaler,
    ObjPertLogisticRegression,
    PrivacyLedger,
    PrivateBoundsScaler,
    check_private,
    privacy_of,
    randomness,
    split_budget,
)
from skdpbayes.auditing import audit_scores
from skdpbayes.exceptions import BudgetExceededError, PrivacyWarning
from skdpbayes.fitting.records import Block, Public, Records
from skdpbayes.preprocessing import private_quantiles
from skdpbayes.preprocessing.private_bounds import Grid, bisect, count_below, margin, tail, widened
from skdpbayes.privacy import compose
from skdpbayes.privacy.budget import Noise

ADJACENCIES = ("replace_one", "zero_out")
BUDGETS = [(1.0, 0.0), (1.0, 1e-6)]


def table(n=4000, seed=0):
    """Four columns of different kinds: normal, skewed, years, binary."""
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [
            rng.normal(5.0, 2.0, n),
            rng.lognormal(10.0, 1.0, n),
            rng.integers(1990, 2021, n),
            rng.integers(0, 2, n),
        ]
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        PrivateBoundsScaler(epsilon=1e6),
        PrivateBoundsScaler(epsilon=np.inf),
        PrivateBoundsScaler(epsilon=1e4, delta=1e-6, range=(-1e3, 1e3), norm=1.0),
    ],
    ids=str,
)
def test_scikit_learn_checks(estimator):
    check_estimator(estimator)


# The mechanism


def test_a_replaced_record_moves_every_count_by_one_at_most_and_some_do():
    values = np.array([-1.0, 0.0, 0.5, 2.0])
    thresholds = np.array([[-1.5, -1.0, 0.0, 0.2, 0.5, 1.0, 2.0, 3.0]])
    for others in itertools.product(values, repeat=2):
        moves = [
            count_below(Block(np.array([[x], *[[o] for o in others]])), thresholds) for x in values
        ]
        gaps = [np.abs(a - b) for a, b in itertools.product(moves, repeat=2)]
        assert np.max(gaps) == 1


def test_a_null_record_moves_centered_counts_by_half():
    """Twice the centered count: a record adds 1 or -1, a null record 0."""
    plan = PrivateBoundsScaler(adjacency="zero_out").plan(10_000, 1).plan
    assert plan.resolution == 2
    assert PrivateBoundsScaler().plan(10_000, 1).plan.resolution == 1
    thresholds = np.linspace(-2.0, 2.0, 9)[None]
    for x in (-3.0, 0.0, 0.5, 3.0):
        count = count_below(Block(np.array([[x], [0.3], [-1.0]])), thresholds)
        others = count_below(Block(np.array([[0.3], [-1.0]])), thresholds)
        centered, without = 2 * count - 3, 2 * others - 2
        np.testing.assert_array_equal(np.abs(centered - without), 1)


def gaussian_mu(epsilon, delta):
    """Invert the profile of the Gaussian mechanism, written out with scipy."""

    def gap(mu):
        upper = stats.norm.cdf(-epsilon / mu + mu / 2)
        return upper - math.exp(epsilon) * stats.norm.cdf(-epsilon / mu - mu / 2) - delta

    return optimize.brentq(gap, 1e-3, 10.0, xtol=1e-14)


@pytest.mark.parametrize("n_features", [1, 10])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_noise_of_a_count(n_features, adjacency):
    step = {"replace_one": 1.0, "zero_out": 0.5}[adjacency]
    for given, n_steps in ((None, 16), ((0, 1), 10)):
        n_counts = 2 * n_features * n_steps
        parameters = {"range": given, "adjacency": adjacency}
        fit = PrivateBoundsScaler(0.5, 1e-6, **parameters).plan(10**5, n_features)
        assert fit.numbers["noise_"].law == "gaussian"
        expected = step * math.sqrt(n_counts) / gaussian_mu(0.5, 1e-6)
        assert fit.numbers["noise_"].scale == pytest.approx(expected, rel=1e-4)
        pure = PrivateBoundsScaler(0.5, **parameters).plan(10**5, n_features)
        assert pure.numbers["noise_"].law == "laplace"
        assert pure.numbers["noise_"].scale == pytest.approx(step * n_counts / 0.5, rel=1e-9)
        for plan, delta in ((fit, 1e-6), (pure, 0.0)):
            assert plan.privacy.delta_at(0.5) <= delta * (1 + 1e-9)
            assert plan.privacy.delta_at(0.49) > delta
            assert str(n_counts) in plan.privacy.mechanism


def test_thresholds_are_public_and_finite():
    wide = Grid(None)(np.arange(2**16 + 1)[None])[0]
    assert np.all(np.diff(wide) > 0)
    assert wide[[0, -1]] == pytest.approx([-1e9, 1e9])
    assert wide[2**15] == 0.0
    large = wide[wide > 1.0]
    assert np.max(large[1:] / large[:-1]) < 1.0009
    huge = Grid(np.array([[-1.7e308, 1.7e308], [0.0, 1.0]]))(np.array([[0, 512, 1024]] * 2))
    np.testing.assert_array_equal(huge, [[-1.7e308, 0.0, 1.7e308], [0.0, 0.5, 1.0]])


def run(plan, values, n_runs, seed):
    """Bisect the same column many times: each run has noise of its own."""
    rows = Records(Public(len(values), n_runs), np.repeat(np.sort(values)[:, None], n_runs, axis=1))
    ranks = np.array(plan.levels) * len(values)
    generator = randomness.make_generator(seed)
    return bisect(rows, plan, generator, ranks, plan.grid.n_steps)


def neighbors(n=400):
    """All records in the middle, but one that lies below or above every threshold."""
    low = np.append(np.full(n - 1, 0.5), -1.0)
    return low, np.append(low[:-1], 2.0)


def transcript_scores(plan, n_runs, seed):
    """Log-likelihood ratios of everything that is released, on worst-case neighbors."""
    scores = []
    for number, values in enumerate(neighbors()):
        path = run(plan, values, n_runs, seed + number)
        thresholds = plan.grid(path.places)
        first, second = (
            (side <= thresholds[..., None]).sum(axis=-1) for side in map(np.sort, neighbors())
        )
        np.testing.assert_array_equal(first - second, 1)  # every count of every path moves
        noise = AUDITED[plan.released.law](scale=plan.noise.scale)
        gap = noise.logpdf(path.noisy - second) - noise.logpdf(path.noisy - first)
        scores.append(gap.sum(axis=(1, 2)))
    return scores


AUDITED = {"laplace": stats.laplace, "gaussian": stats.norm}


@pytest.mark.parametrize(("epsilon", "delta"), [(4.0, 0.0), (2.0, 1e-6)])
def test_an_audit_of_everything_released_finds_the_claim_and_catches_less_noise(epsilon, delta):
    fit = PrivateBoundsScaler(epsilon, delta, range=(0, 1)).plan(400, 1)
    # Noise for the counts of one bound alone, as if the other were free.
    forgot = dataclasses.replace(fit.plan.released, scale=fit.plan.released.scale / 2.0)
    broken = dataclasses.replace(fit.plan, released=forgot)
    audits = [
        audit_scores(*transcript_scores(plan, 6000, 10), claim=fit.privacy, threshold=0.0)
        for plan in (fit.plan, broken)
    ]
    assert [audit.verdict for audit in audits] == ["not refuted", "refuted"]
    assert audits[0].epsilon_lower > 0.1


def test_the_exact_law_of_the_path_keeps_the_claim_and_a_wrong_event_does_not():
    """Ten decisions left or right, whose probabilities on both data sets are known exactly."""
    fit = PrivateBoundsScaler(2.0, range=(0, 1)).plan(400, 1)
    lower = dataclasses.replace(fit.plan, levels=fit.plan.levels[:1])  # its path alone
    scale, n_steps = fit.plan.released.scale, fit.plan.grid.n_steps

    def at_least(k):
        """Probability that the discrete Laplace noise is at least k, without cancellation."""
        if k <= 0:
            return 1.0 - at_least(1 - k)
        return math.exp(-k / scale) / (1.0 + math.exp(-1.0 / scale))

    laws = []
    for values in neighbors():
        rank = math.ceil(fit.plan.levels[0] * len(values))
        law = {}
        for path in itertools.product((True, False), repeat=n_steps):
            low, high, mass = 0, fit.plan.grid.last, 1.0
            for left in path:
                middle = (low + high) // 2
                count = int((values <= middle / fit.plan.grid.last).sum())
                mass *= at_least(rank - count if left else 1 + count - rank)
                low, high = (low, middle) if left else (middle, high)
            law[low] = law.get(low, 0.0) + mass
        laws.append(np.array([law[place] for place in sorted(law)]))
    assert np.sum(laws, axis=1) == pytest.approx(1.0)
    for epsilon in (0.0, 0.05, 0.1, 0.2, 0.5, 1.0):
        delta = max(
            np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
            for p, q in itertools.permutations(laws)
        )
        assert delta <= fit.privacy.delta_at(epsilon)
    # One count alone would not prove it: the decisions add up.
    one = max(np.abs(np.log(laws[0] / laws[1])))
    assert 1.0 / scale < one <= n_steps / scale * (1 + 1e-12)
    # The code draws from this law.
    found = run(lower, neighbors()[0], 20_000, 5).low[:, 0]
    seen = np.bincount(found, minlength=fit.plan.grid.last) / 20_000
    error = np.abs(np.cumsum(seen) - np.cumsum(laws[0])).max()
    assert error < 1.95 / math.sqrt(20_000)  # Kolmogorov, false alarm 1e-3


@pytest.mark.parametrize("law", ["laplace", "gaussian", "none"])
def test_tail_and_margin_of_the_noise(law):
    noise = Noise(law, 0.0 if law == "none" else 7.0)
    x = np.array([-20.0, -1.0, 0.5, 3.0, 30.0])
    if law == "none":
        np.testing.assert_array_equal(tail(noise, x), [1, 1, 0, 0, 0])
        assert margin(noise) == 0.0
        return
    expected = AUDITED[law](scale=7.0)
    np.testing.assert_allclose(tail(noise, x), expected.sf(x), rtol=1e-12)
    assert expected.sf(margin(noise)) == pytest.approx(stats.norm.sf(3.0))


# The bounds


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("quantiles", [(0.01, 0.99), (0.1, 0.7)])
def test_with_little_noise_bounds_are_the_quantiles(delta, quantiles):
    X = table()
    expected = np.quantile(X, quantiles, axis=0, method="inverted_cdf").T
    scaler = PrivateBoundsScaler(1e6, delta, quantiles=quantiles, random_state=0).fit(X)
    assert scaler.levels_ == pytest.approx(quantiles)
    # within a cell of the grid, outward
    assert np.all(scaler.bounds_[:, 0] <= expected[:, 0])
    assert np.all(scaler.bounds_[:, 1] >= expected[:, 1])
    np.testing.assert_allclose(scaler.bounds_, expected, rtol=1e-3, atol=2e-6)
    ranges = [(-50, 50), (0, 1e7), (1900, 2100), (-1, 2)]
    scaler = PrivateBoundsScaler(1e6, delta, quantiles=quantiles, range=ranges).fit(X)
    assert np.all(np.abs(scaler.bounds_ - expected) <= np.diff(ranges) / 1024 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_bounds_of_normal_columns_are_right_though_found_further_inside(epsilon, delta, adjacency):
    rng = np.random.default_rng(1)
    X = rng.normal([0.0, 100.0], [1.0, 5.0], (20_000, 2))
    scaler = PrivateBoundsScaler(
        0.5 * epsilon, delta, adjacency=adjacency, quantiles=(0.001, 0.999), random_state=2
    ).fit(X)
    low, high = scaler.levels_
    assert low > 0.001
    assert high == pytest.approx(1.0 - low)
    expected = stats.norm.ppf([0.001, 0.999]) * [[1.0], [5.0]] + [[0.0], [100.0]]
    assert np.all(np.abs(scaler.bounds_ - expected) < 0.2 * np.diff(expected))


def test_paths_that_have_not_parted_pool_their_counts():
    """The first threshold is asked for by both: the turn is that of the mean of two counts."""
    plan = PrivateBoundsScaler(2.0, range=(0, 1)).plan(400, 1).plan
    plan = dataclasses.replace(plan, levels=(0.5, 0.5), released=Noise("laplace", 200.0))
    path = run(plan, np.full(400, 0.7), 4000, 3)
    np.testing.assert_array_equal(path.places[..., 0], 512)
    first = path.noisy[..., 0]
    turns = np.where(first.mean(axis=1) >= 200.0, 256, 768)
    np.testing.assert_array_equal(path.places[..., 1], np.column_stack([turns] * 2))
    assert np.any((first >= 200.0) != (first.mean(axis=1, keepdims=True) >= 200.0))
    assert abs(np.std(first) / (200.0 * math.sqrt(2)) - 1.0) < 0.1  # the release itself


def test_widening_is_exact_for_normal_columns_and_nothing_at_the_wanted_levels():
    law = stats.norm(3.0, 2.0)
    found, wanted = (0.2, 0.9), (0.01, 0.95)
    low, high = law.ppf(found)[:, None]
    np.testing.assert_allclose(widened(low, high, found, wanted), [law.ppf(wanted)])
    np.testing.assert_array_equal(widened(low, high, found, found), [[low[0], high[0]]])


@pytest.mark.parametrize(
    "column", [np.full(500, 7.0), np.r_[np.zeros(499), 1e300], np.full(500, -1e300)]
)
def test_bounds_rise_whatever_the_column(column):
    for parameters in ({}, {"range": (0.0, np.nextafter(0.0, 1.0))}, {"range": (6, 8)}):
        scaler = PrivateBoundsScaler(20.0, random_state=0, **parameters).fit(column[:, None])
        (low, high), out = scaler.bounds_[0], scaler.transform(column[:, None])
        assert low < high
        assert np.all(np.abs(out) <= 1.0)


def test_too_much_noise_is_refused_from_public_numbers():
    scaler = PrivateBoundsScaler(0.1)
    # Three deviations of a normal law, in tails, must be less than a quarter of the records.
    least = math.ceil(4 * stats.laplace(scale=2 * 16 * 4 / 0.1).isf(stats.norm.sf(3.0)))
    with pytest.raises(ValueError, match=f"at least {least} records") as first:
        scaler.fit(table(200))
    with pytest.raises(ValueError, match="records") as second:
        scaler.fit(np.zeros((200, 4)))
    with pytest.raises(ValueError, match="records") as third:
        scaler.plan(200, 4)
    assert "larger epsilon" in str(first.value)
    assert str(first.value) == str(second.value) == str(third.value)
    needed = int(re.search(r"at least (\d+)", str(first.value))[1])
    scaler.plan(needed, 4)
    with pytest.raises(ValueError, match="records"):
        scaler.plan(needed - 1, 4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"quantiles": (0.6, 0.9)}, r"quantiles\[0\]"),
        ({"quantiles": (0.1, 1.0)}, r"quantiles\[1\]"),
        ({"quantiles": 0.5}, "quantiles must be a pair"),
        ({"range": (1, 0)}, "range of column 0"),
        ({"range": (0, np.inf)}, "range of column 0"),
        ({"range": [(0, 1)] * 3}, "range must be one"),
        ({"range": {"a": (0, 1)}}, "range is a mapping"),
        ({"feature_range": (1, 0)}, "feature_range"),
        ({"norm": -1.0}, "norm"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"adjacency": "add_remove"}, "adjacency"),
        ({"ledger": "budget.sqlite"}, "ledger"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_bad_parameters_are_named_and_charge_nothing(parameters, message, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=10.0)
    scaler = PrivateBoundsScaler(**{"ledger": ledger, **parameters})
    with pytest.raises((ValueError, TypeError), match=message):
        scaler.fit(table())
    assert ledger.entries() == []
    assert not hasattr(scaler, "bounds_")


@pytest.mark.parametrize("bad", [np.nan, np.inf, "text"])
def test_bad_records_charge_nothing_and_leave_the_object(bad, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=10.0)
    scaler = PrivateBoundsScaler(ledger=ledger, random_state=0).fit(table())
    before = pickle.dumps(vars(scaler) | {"ledger": None})
    X = table()[:, :2].astype(object)
    X[3, 1] = bad
    with pytest.raises((ValueError, TypeError)):
        scaler.fit(X)
    assert len(ledger.entries()) == 1
    assert pickle.dumps(vars(scaler) | {"ledger": None}) == before


def test_the_ledger_is_charged_once_and_before_the_data(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=1.5)
    scaler = PrivateBoundsScaler(1.0, ledger=ledger, random_state=0).fit(table())
    (entry,) = ledger.entries()
    assert entry.label == "PrivateBoundsScaler"
    bounds = scaler.bounds_
    with pytest.raises(BudgetExceededError):
        scaler.fit(table(seed=1))
    assert scaler.bounds_ is bounds
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_only_released_attributes_depend_on_the_data(epsilon, delta):
    X = table()
    X2 = X.copy()
    X2[0] = [-50.0, 1e8, 0.0, 5.0]
    first, second, other = (
        PrivateBoundsScaler(epsilon, delta, random_state=3).fit(rows) for rows in (X, X2, 3.0 * X)
    )
    for name, value in vars(first).items():
        if name not in ("bounds_", "_posterior"):
            assert np.array_equal(value, vars(second)[name]), name
            assert np.array_equal(value, vars(other)[name]), name
    assert not np.array_equal(first.bounds_, other.bounds_)
    size = len(pickle.dumps(first))
    assert len(pickle.dumps(first.fit(table(8000)))) <= size + 64


def test_a_seed_reproduces_and_is_not_stored():
    X = table()
    one, two = (PrivateBoundsScaler(random_state=11).fit(X) for _ in range(2))
    np.testing.assert_array_equal(one.bounds_, two.bounds_)
    assert one.privacy_.seeded
    free = [PrivateBoundsScaler().fit(X) for _ in range(2)]
    assert not np.array_equal(free[0].bounds_, free[1].bounds_)
    assert not free[0].privacy_.seeded
    copy = pickle.loads(pickle.dumps(one))
    assert copy.random_state is None
    np.testing.assert_array_equal(copy.transform(X), one.transform(X))
    assert copy.privacy_ == one.privacy_
    with pytest.raises(NotFittedError):
        clone(one).transform(X)


def test_it_scales_as_a_scaler_with_those_bounds_even_after_set_params():
    X = table()
    parameters = {"feature_range": (0, 2), "norm": 3.0}
    scaler = PrivateBoundsScaler(random_state=0, **parameters).fit(X)
    twin = BoundsScaler(scaler.bounds_, **parameters).fit(X)
    scaler.set_params(feature_range=(-7, 7), norm=None, quantiles=(0.3, 0.8))
    out = scaler.transform(X)
    np.testing.assert_array_equal(out, twin.transform(X))
    np.testing.assert_array_equal(scaler.inverse_transform(out), twin.inverse_transform(out))
    coef = np.arange(4.0)
    for mine, its in zip(
        scaler.coef_in_units(coef, 2.0), twin.coef_in_units(coef, 2.0), strict=True
    ):
        np.testing.assert_array_equal(mine, its)
    assert np.max(np.linalg.norm(out, axis=1)) <= 3.0
    assert not hasattr(scaler, "sample_posterior")
    assert not hasattr(scaler, "interval")


def test_frames_ranges_by_name_and_set_output():
    frame = pd.DataFrame(table(), columns=list("abcd"), index=np.arange(4000) + 7)
    ranges = {"a": (-50, 50), "b": (0, 1e6), "c": (1900, 2100), "d": (0, 1)}
    scaler = PrivateBoundsScaler(range=ranges, random_state=0).fit(frame)
    assert scaler.feature_names_in_.tolist() == list("abcd")
    assert scaler.plan(4000, 4).privacy.event == scaler.privacy_.event
    plain = PrivateBoundsScaler(range=list(ranges.values()), random_state=0).fit(frame.to_numpy())
    np.testing.assert_array_equal(scaler.bounds_, plain.bounds_)
    out = scaler.set_output(transform="pandas").transform(frame)
    assert out.columns.tolist() == list("abcd")
    assert out.index.equals(frame.index)
    with pytest.raises(ValueError, match="feature names"):
        scaler.transform(frame.rename(columns={"a": "other"}))
    with pytest.raises(ValueError, match="not among the columns"):
        PrivateBoundsScaler(range={**ranges, "e": (0, 1)}).fit(frame)


def test_infinite_epsilon_adds_no_noise_and_claims_nothing():
    X = table()
    scaler = PrivateBoundsScaler(epsilon=np.inf).fit(X)
    assert np.isinf(scaler.privacy_.epsilon)
    assert scaler.noise_.law == "none"
    expected = np.quantile(X, (0.01, 0.99), axis=0, method="inverted_cdf").T
    np.testing.assert_allclose(scaler.bounds_, expected, rtol=1e-3, atol=2e-6)


def test_a_large_delta_warns():
    with pytest.warns(PrivacyWarning, match="1/n_samples"):
        PrivateBoundsScaler(delta=0.4).fit(table())
    with pytest.warns(PrivacyWarning, match="1/n_samples"):
        private_quantiles(table()[:, 0], delta=0.4)


def test_the_docstring_states_the_claim_and_every_parameter():
    doc = inspect.getdoc(PrivateBoundsScaler)
    marks = [".. math::", "**Privacy guarantee.**", "Parameters\n---", "Attributes\n---"]
    places = [doc.index(mark) for mark in [*marks, "References\n---", "Examples\n---"]]
    assert places == sorted(places)
    documented = set(re.findall(r"^(\w+) : ", doc, flags=re.MULTILINE))
    assert set(PrivateBoundsScaler().get_params()) <= documented
    fitted = {name for name in vars(PrivateBoundsScaler().fit(table())) if name.endswith("_")}
    assert fitted <= documented


# In pipelines


def pipeline(**parameters):
    return make_pipeline(
        PrivateBoundsScaler(0.5, 1e-6, norm=1.0, **parameters),
        ObjPertLogisticRegression(0.5, 1e-6, data_norm=1.0),
    )


def labels(X):
    rng = np.random.default_rng(3)
    return (X[:, 0] + rng.normal(0, 1, len(X)) > 5).astype(int)


def test_two_private_steps_make_one_claim():
    X = table()
    check_private(pipeline())
    fitted = pipeline().fit(X, labels(X))
    claim = privacy_of(fitted)
    both = compose(step.privacy_.event for _, step in fitted.steps)
    assert claim.epsilon == pytest.approx(both.epsilon_at(2e-6))
    assert 0.5 < claim.epsilon <= 1.0
    split = split_budget(pipeline(), 1.0, 1e-6, dict(zip(dict(fitted.steps), (1, 3), strict=True)))
    assert [step.epsilon for _, step in split.steps] == [0.25, 0.75]
    assert privacy_of(split.fit(X, labels(X))).epsilon <= 1.0
    columns = make_column_transformer((PrivateBoundsScaler(2.0), [0]), (BoundsScaler((0, 1)), [3]))
    assert privacy_of(columns.fit(X)).epsilon == 2.0


@pytest.mark.slow
def test_a_grid_search_charges_both_steps_in_every_fold(tmp_path):
    X = table()
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=100.0, delta=1e-3)
    model = pipeline(ledger=ledger).set_params(objpertlogisticregression__ledger=ledger)
    search = GridSearchCV(
        model, {"privateboundsscaler__epsilon": [0.5, 2.0]}, cv=3, error_score="raise"
    ).fit(X, labels(X))
    assert len(ledger.entries()) == 2 * (2 * 3 + 1)
    assert search.best_score_ > 0.7


# Quantiles with intervals


def test_quantiles_with_little_noise():
    x = table()[:, 0]
    wanted = [0.9, 0.05, 0.5]
    found = private_quantiles(x, wanted, epsilon=1e6, random_state=0)
    np.testing.assert_array_equal(found.quantiles, sorted(wanted))
    np.testing.assert_allclose(found.values, np.quantile(x, sorted(wanted)), atol=0.02)
    assert np.all(found.intervals[:, 0] < found.values)
    assert np.all(found.intervals[:, 1] > found.values)
    assert private_quantiles(x, 0.5, epsilon=np.inf).values.shape == (1,)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "given"),
    [
        (stats.norm(5.0, 2.0), (-100.0, 100.0)),
        (stats.lognorm(1.0), None),
        (stats.randint(0, 8), (-10.0, 10.0)),
    ],
    ids=["normal", "lognormal", "ties"],
)
@pytest.mark.parametrize(
    ("epsilon", "delta", "adjacency"),
    [
        (0.1, 0.0, "replace_one"),
        (1.0, 0.0, "zero_out"),
        (1.0, 1e-6, "replace_one"),
        (1e6, 0.0, "replace_one"),
    ],
)
def test_intervals_cover_the_quantiles_of_the_population(law, given, epsilon, delta, adjacency):
    wanted, n_runs, level = np.array([0.05, 0.5, 0.9]), 120, 0.8
    truth = law.ppf(wanted)
    rng = np.random.default_rng(0)
    covered, widths = np.zeros(3), []
    for _ in range(n_runs):
        found = private_quantiles(
            law.rvs(2000, random_state=rng).astype(float),
            wanted,
            range=given,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            level=level,
            random_state=rng,
        )
        low, high = found.intervals.T
        covered += (low <= truth) & (truth <= high)
        widths.append(high - low)
    # Fewer than this have probability 1e-4 where an interval covers with probability .8.
    assert np.all(covered >= stats.binom.ppf(1e-4, n_runs, level))
    if epsilon == 1e6 and given != (-10.0, 10.0):
        # Not only because they are wide: at most three times what order statistics would give.
        density = law.pdf(truth)
        ideal = 2 * stats.norm.ppf(0.9) * np.sqrt(wanted * (1 - wanted) / 2000) / density
        assert np.all(np.median(widths, axis=0) < 3.0 * ideal + 0.2)


def test_intervals_that_forget_the_noise_would_not_cover():
    """The coverage test can fail: the same counts, read as if they were exact."""
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(60):
        x = rng.normal(size=300)
        found = private_quantiles(x, 0.5, range=(-10, 10), epsilon=0.5, random_state=rng)
        half = 1.28 * 0.5 / math.sqrt(300) / stats.norm.pdf(0)
        missed += abs(found.values[0]) > half
    assert missed > stats.binom.ppf(1 - 1e-4, 60, 0.2)


def test_quantiles_charge_once_and_state_their_claim(tmp_path):
    x = table()[:, 0]
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=1.5)
    found = private_quantiles(x, [0.1, 0.5], range=(-50, 50), ledger=ledger, random_state=0)
    assert [entry.label for entry in ledger.entries()] == ["private_quantiles"]
    assert found.privacy.epsilon == 1.0
    assert found.noise.scale == pytest.approx(2 * 16)
    assert privacy_of(found) == found.privacy
    assert "quantile 0.1: " in str(found)
    for values, parameters, message in (
        (x, {"quantiles": [0.0]}, "quantiles"),
        (x, {"quantiles": []}, "quantiles"),
        (x, {"quantiles": "text"}, "text"),
        (x, {"range": (1, 0)}, "range"),
        (x, {"level": 1.0}, "level"),
        (x, {"epsilon": 0.0}, "epsilon"),
        (np.append(x, np.nan), {}, "NaN"),
        (np.array([]), {}, "0 sample"),
        (x[:, None] * np.ones(2), {}, "1d|1D"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            private_quantiles(values, ledger=ledger, **parameters)
    with pytest.raises(BudgetExceededError):
        private_quantiles(x, ledger=ledger)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_quantiles_do_not_know_exact_counts(adjacency):
    """Values and intervals depend on the records through noisy counts alone."""
    parameters = {"range": (0, 1), "adjacency": adjacency, "epsilon": 0.05, "random_state": 4}
    one = private_quantiles(np.linspace(0.0, 1.0, 500), 0.5, **parameters)
    two = private_quantiles(np.append(np.linspace(0.0, 1.0, 500)[1:], 0.0), 0.5, **parameters)
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.intervals, two.intervals)
