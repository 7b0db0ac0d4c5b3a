from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from skdpbayes.randomness import (
    _strips,
    discrete_gaussian,
    discrete_laplace,
    exact_scale,
    make_generator,
)
from skdpbayes.randomness._words import draw_words
from tests.randomness.statistics import (
    FALSE_ALARM,
    assert_two_sided,
    continuous_p_value,
    discrete_p_value,
    discrete_pmf,
)

SAMPLERS = {"laplace": discrete_laplace, "gaussian": discrete_gaussian}
KINDS = pytest.mark.parametrize("kind", sorted(SAMPLERS))


@KINDS
@pytest.mark.parametrize("scale", [0.4, 0.75, 1.0, 4 / 3, 2.5, 10.3, 64.0])
def test_small_scales_match_the_exact_pmf(kind, scale):
    draws = SAMPLERS[kind](make_generator(1), scale, 200_000)
    assert_two_sided(discrete_p_value(kind), draws, scale)


@pytest.mark.parametrize("scale", [0.1, 0.15])
def test_tiny_laplace_scales_match_the_exact_pmf(scale):
    draws = discrete_laplace(make_generator(2), scale, 1_000_000)
    assert discrete_p_value("laplace")(draws, scale) > FALSE_ALARM
    assert discrete_p_value("laplace")(draws, scale * 3 / 2) < FALSE_ALARM


def test_tiny_gaussian_scale_is_all_zeros():
    assert not discrete_gaussian(make_generator(2), 0.1, 100_000).any()  # P(1) = exp(-50)
    assert not discrete_laplace(make_generator(2), 1e-300, 1000).any()


@KINDS
@pytest.mark.parametrize("scale", [1e9 / 7, 2.0**20, 2.0**30, 2.0**31 + 0.25, 3e12, 2.0**50])
def test_large_scales_match_the_continuous_limit(kind, scale):
    draws = SAMPLERS[kind](make_generator(3), scale, 50_000)
    distribution = stats.laplace if kind == "laplace" else stats.norm
    assert_two_sided(continuous_p_value(distribution), draws, scale)


@KINDS
@pytest.mark.parametrize("scale", [7.3, 2.0**28, 2.0**33 / 3])
def test_low_bits_are_uniform_and_signs_even(kind, scale):
    draws = SAMPLERS[kind](make_generator(4), scale, 50_000)
    k, pmf = discrete_pmf(kind, min(scale, 1000.0))
    residues = np.bincount(draws & 7, minlength=8)
    expected = np.bincount(k & 7, weights=pmf) * draws.size
    assert stats.chisquare(residues, expected).pvalue > FALSE_ALARM
    assert stats.binomtest((draws > 0).sum(), (draws != 0).sum()).pvalue > FALSE_ALARM


@KINDS
def test_the_place_within_a_strip_is_unbiased(kind):
    # Multiplying 31 bits by a width of 3 * 2^29 without rejection would favor multiples of 3.
    draws = SAMPLERS[kind](make_generator(10), 3 * 2.0**29, 50_000)
    assert stats.chisquare(np.bincount(draws % 3)).pvalue > FALSE_ALARM


@KINDS
@pytest.mark.parametrize("scale", [0.7, 2.5, 20.0])
def test_the_exact_path_has_the_same_distribution(kind, scale):
    # An infinite window sends every draw to the arbitrary-precision decision.
    plan = _strips.make_plan(*exact_scale(scale), gaussian=kind == "gaussian")
    draws = np.empty(4000, dtype=np.int64)
    _strips.fill(make_generator(5), plan, draws, window=2**40)
    assert_two_sided(discrete_p_value(kind), draws, scale)


@KINDS
@pytest.mark.parametrize("scale", [0.7, 2.5, 2.0**30 / 3])
def test_fast_and_exact_decisions_agree(kind, scale):
    plan = _strips.make_plan(*exact_scale(scale), gaussian=kind == "gaussian")
    fast, exact = np.empty(2000, dtype=np.int64), np.empty(2000, dtype=np.int64)
    words = draw_words(make_generator(6), 40_000)
    assert _run_kernel(plan, words, fast, 1, _strips.WINDOW) == 2000
    assert _run_kernel(plan, words, exact, 1, 2**40) == 2000
    np.testing.assert_array_equal(fast, exact)


def _run_kernel(plan, words, out, stride, window):
    """Run the trials of `words`, deciding close calls as `fill` does."""
    done = position = 0
    pending = np.zeros(2, dtype=np.int64)
    while done < out.size and position < words.size:
        done, position, status = _strips._trials(
            words, position, out, done, stride, plan.gaussian, plan.heights, plan.first,
            plan.offset, plan.table, plan.p, plan.q, plan.width, window, pending,
        )  # fmt: skip
        if status == _strips._CLOSE:
            i, u = pending.tolist()
            if _strips._accept(make_generator(0), plan, abs(i), plan.height, u):
                out[done] = i
                done += 1
    return done


@KINDS
def test_the_tail_has_the_distribution_of_the_tail(kind):
    # Every accepted trial of the tail lies in strip K or beyond, with the weights of the pmf there.
    scale = 3.7
    plan = _strips.make_plan(*exact_scale(scale), gaussian=kind == "gaussian")
    generator = make_generator(7)
    trials = [_strips._tail_trial(generator, plan) for _ in range(20_000)]
    draws = np.array([t for t in trials if t is not None])
    start = int(np.ceil(plan.n_strips * scale))
    assert np.abs(draws).min() == start
    k = np.arange(start, start + 200)
    y = k / scale
    weight = np.exp(-y if kind == "laplace" else -(y**2) / 2)
    share = weight / weight.sum()
    last = int((share * draws.size >= 10).sum())
    expected = np.append(share[:last], share[last:].sum()) * draws.size
    observed = np.bincount(np.minimum(np.abs(draws) - start, last), minlength=last + 1)
    assert stats.chisquare(observed, expected).pvalue > FALSE_ALARM
    # A trial of the tail accepts with probability sum of S exp(-E) / (width * tail height).
    rate = 1 / (plan.width * plan.heights[-1]) * plan.height * weight.sum()
    assert stats.binomtest(draws.size, len(trials), rate).pvalue > FALSE_ALARM
    assert stats.binomtest((draws > 0).sum(), draws.size).pvalue > FALSE_ALARM


@KINDS
def test_strips_bound_the_weights_and_fit_a_word(kind):
    plan = _strips.make_plan(5, 2, gaussian=kind == "gaussian")
    k = np.arange(plan.n_strips)
    weight = plan.height * np.exp(-k if kind == "laplace" else -(k**2) / 2)
    assert (plan.heights[:-1] >= weight).all()
    assert (plan.heights[:-1] < weight + 1 + 1e-5).all()
    assert 0.99 * 2**32 < plan.heights.sum() <= 2**32


@KINDS
def test_fixed_point_error_stays_within_the_window(kind):
    # Strip by strip, over scales with short and long p, compare with 40 digits.
    generator = np.random.default_rng(8)
    worst = 0.0
    for scale in [1.0, 0.3, 2.5, 1e9 / 7, 2.0**50, 2.0**50 / 3]:
        plan = _strips.make_plan(*exact_scale(scale), gaussian=kind == "gaussian")
        for k in range(plan.n_strips):
            for r in [0, plan.p - 1, *generator.integers(plan.p, size=30).tolist()]:
                shift = max(plan.p.bit_length() - 34, 0)
                y = (k << 28) + ((r >> shift) << 28) // (plan.p >> shift)
                e = y * y >> 29 if plan.gaussian else y
                exact_y = k + Fraction(r, plan.p)
                exponent = exact_y**2 / 2 if plan.gaussian else exact_y
                low, high = _strips._scaled_exp_bounds(plan.height, exponent, 40)
                got = int(_strips._scaled_exp(e, plan.table))
                worst = max(worst, abs(got - low), abs(got - high))
    assert 0 < worst <= 36  # the budget in the docstring of _scaled_exp
    assert _strips.WINDOW > 36


def test_enclosures_of_the_exponential():
    for digits in (30, 60):
        low, high = _strips._scaled_exp_bounds(10**50, Fraction(1), digits)
        value = 36787944117144232159552377016146086744581113103176  # exp(-1), fifty digits
        assert low < value + 1
        assert high > value
        assert (high - low) / value < Fraction(1, 10 ** (digits - 3))


@pytest.mark.parametrize("scale", [0.0625, 0.1, 1.0, 2.5, 1e5 / 3, 2.0**50])
def test_exact_scale_is_exact(scale):
    p, q = exact_scale(scale)
    assert Fraction(p, q) == Fraction(scale)
    assert p < 2**54
    assert q <= 2**56


@pytest.mark.parametrize("scale", [0.06, 1e-3, 1e-9, 1e-300])
def test_exact_scale_rounds_up(scale):
    p, q = exact_scale(scale)
    assert 0 <= Fraction(p, q) - Fraction(scale) < Fraction(1, 2**56)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 2.0**51])
@KINDS
def test_bad_scales(kind, scale):
    with pytest.raises(ValueError, match="scale"):
        SAMPLERS[kind](make_generator(0), scale, 3)


@KINDS
def test_shapes_and_reproducibility(kind):
    draw = SAMPLERS[kind]
    assert draw(make_generator(0), 2.0, 0).shape == (0,)
    assert draw(make_generator(0), 2.0, ()).shape == ()
    draws = draw(make_generator(0), 2.0, (3, 4))
    assert draws.shape == (3, 4)
    assert draws.dtype == np.int64
    np.testing.assert_array_equal(draws, draw(make_generator(0), 2.0, (3, 4)))
    assert (draw(make_generator(1), 2.0, (30, 4)) != draw(make_generator(0), 2.0, (30, 4))).any()


def test_a_stream_of_one_sided_words_ends():
    # Words of all ones fall above the stack of strips and are rejected; all zeros are accepted.
    plan = _strips.make_plan(2, 1, gaussian=True)
    out = np.full(10, 99, dtype=np.int64)
    ones = np.full(50, 2**64 - 1, dtype=np.uint64)
    assert _run_kernel(plan, ones, out, 1, _strips.WINDOW) == 0
    assert _run_kernel(plan, np.zeros(50, dtype=np.uint64), out, 1, _strips.WINDOW) == 10
    assert (out == 0).all()


def test_needs_a_generator():
    with pytest.raises(TypeError, match="generator"):
        discrete_laplace(np.random.RandomState(0), 1.0, 3)


@KINDS
@pytest.mark.parametrize("scale", [0.8, 5.5])
def test_agrees_with_opendp(kind, scale):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    make = dp.m.make_laplace if kind == "laplace" else dp.m.make_gaussian
    space = (
        dp.vector_domain(dp.atom_domain(T=int)),
        (dp.l1_distance(T=int) if kind == "laplace" else dp.l2_distance(T=float)),
    )
    theirs = np.array(make(*space, scale=scale)([0] * 20_000))
    ours = SAMPLERS[kind](make_generator(9), scale, 20_000)
    last = int(np.sort(np.abs(theirs))[-40])
    table = np.array([np.bincount(np.clip(x, -last, last) + last) for x in (ours, theirs)])
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
    wider = SAMPLERS[kind](make_generator(9), scale * 3 / 2, 20_000)
    table = np.array([np.bincount(np.clip(x, -last, last) + last) for x in (wider, theirs)])
    assert stats.chi2_contingency(table).pvalue < FALSE_ALARM
