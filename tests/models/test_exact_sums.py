"""Exact sums: equal bits for any blocks, order and threads, and against Python's integers."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from skdpbayes import models
from skdpbayes.fitting.records import Block
from skdpbayes.models.exact_sums import (
    Grid,
    clipped_gradient,
    cut_rows,
    derivatives,
    moments,
    read_derivatives,
    read_gradient,
    read_moments,
    row_keys,
    row_lengths,
)
from skdpbayes.models.losses import (
    NOTHING,
    HingeLoss,
    HuberLoss,
    LogisticLoss,
    PoissonLoss,
    SmoothHingeLoss,
    SoftmaxLoss,
    SquaredLoss,
)

LOSSES = [
    LogisticLoss(),
    LogisticLoss(2.0),
    SmoothHingeLoss(0.5),
    SoftmaxLoss(3),
    SquaredLoss(),
    HuberLoss(0.5),
    PoissonLoss(4.0),
    HingeLoss(),
]
NORM = 1.5  # rows are at most this long, and some exactly


def table(loss, n, d, seed=0, *, weighted=False):
    """Rows in 32-bit floats, of any size up to the bound, with many zeros."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
    X *= (10.0 ** rng.uniform(-8.0, 1.0, n))[:, None]
    lengths = np.linalg.norm(X, axis=1)
    X *= np.minimum(1.0, NORM * (1.0 - 1e-6) / np.maximum(lengths, 1e-300))[:, None]
    X[0], X[1] = 0.0, 0.0
    X[1, -1] = NORM
    if isinstance(loss, (SquaredLoss, HuberLoss)):
        target = rng.uniform(-1.0, 1.0, n)
    elif isinstance(loss, PoissonLoss):
        target = rng.integers(0, 5, n).astype(np.float64)
    else:
        target = rng.integers(0, max(2, loss.n_outputs), n)
    weight = 1.0 / rng.integers(1, 6, n) if weighted else None
    return Block(X.astype(np.float32).astype(np.float64), target, weight)


def pick(block, rows):
    return Block(
        block.X[rows], block.target[rows], None if block.weight is None else block.weight[rows]
    )


def split(n, n_blocks, rng):
    """Rows of several blocks of uneven size, in any order."""
    order = rng.permutation(n)
    ends = np.sort(rng.choice(np.arange(1, n), n_blocks - 1, replace=False))
    return np.split(order, ends)


def kernels(loss, block, grid, seed=0):
    """The sums that every estimator forms, as functions of a block's rows."""
    rng = np.random.default_rng(seed)
    d, k = block.X.shape[1], loss.n_outputs
    theta = 3.0 * rng.standard_normal((k, d + 1))
    several = rng.standard_normal((2, k, d + 1))
    orders = (0, 1, 2) if math.isfinite(loss.curvature[1]) else (0, 1)
    matrix, center = rng.standard_normal((d, d)), 0.1 * rng.standard_normal(d)

    def lengths(part):
        return row_lengths(part.X, grid, center, matrix, 0.3)

    return {
        "clipped": lambda part: clipped_gradient(part, theta, loss, lengths(part), 0.7, grid),
        "unclipped": lambda part: clipped_gradient(part, theta, loss, None, math.inf, grid),
        "derivatives": lambda part: derivatives(part, theta, loss, orders, 0.8, grid),
        "no constant": lambda part: derivatives(part, theta[:, :-1], loss, orders, 0.0, grid),
        "several points": lambda part: derivatives(part, several, loss, (0, 1), 0.8, grid),
        "moments": lambda part: moments(part, grid),
        "with target": lambda part: moments(part, grid, 2.0),
    }


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_sums_have_the_same_bits_for_any_blocks_order_threads_and_storage(loss, weighted):
    n = 1200
    block, rng = table(loss, n, 11, weighted=weighted), np.random.default_rng(1)
    grid = Grid(n, NORM, residual=8.0)
    for name, kernel in kernels(loss, block, grid).items():
        whole = kernel(block)
        assert whole.dtype == np.int64
        assert np.any(whole != 0)
        for n_blocks in (2, 7):
            parts = split(n, n_blocks, rng)
            assert np.array_equal(sum(kernel(pick(block, rows)) for rows in parts), whole), name
        shuffled = pick(block, rng.permutation(n))
        with threadpool_limits(1):
            assert np.array_equal(kernel(shuffled), whole), name
        with threadpool_limits(2):
            assert np.array_equal(kernel(shuffled), whole), name
        for form in (
            sparse.csr_matrix(shuffled.X),
            sparse.csr_matrix(shuffled.X.astype(np.float32)),
            shuffled.X.astype(np.float32),
            np.asfortranarray(shuffled.X),
        ):
            assert np.array_equal(kernel(shuffled._replace(X=form)), whole), name


def test_more_rows_than_doubles_can_add_up():
    """Beyond `Grid.longest_sum` rows the sums of the largest products would not fit into 53 bits.

    All rows are equal and of the largest length, so that nothing cancels.
    """
    n = 40_000
    grid = Grid(n, 1.0)
    assert n > 4 * grid.longest_sum
    X = np.zeros((n, 3))
    X[:, 1] = 1.0 - 2.0**-18
    block = Block(X, np.zeros(n, dtype=np.int64), None)
    theta = np.array([[0.0, 50.0, 0.0, 0.0]])  # every residual is 1
    whole = 2**20 - 2**2
    for form in (X, sparse.csr_matrix(X), X.astype(np.float32)):
        total = clipped_gradient(block._replace(X=form), theta, LogisticLoss(), None, np.inf, grid)
        assert total[0].tolist() == [0, n * whole * (2**20), 0, n * 2**20]
        sums = moments(block._replace(X=form), grid)
        assert sums[2, 1] == n * whole**2
        assert sums[0, 1] == n * whole * 2**20


@pytest.mark.parametrize("n", [1, 2, 3, 1000, 2**22, 2**22 + 1, 10**7, 10**9, 2**40])
def test_no_integer_overflows_and_no_double_rounds(n):
    grid = Grid(n, NORM, residual=0.3)
    assert grid.bits <= 20
    assert n * 4**grid.bits <= 2**62
    assert grid.longest_sum * 4**grid.bits == 2**52
    for unit, largest in ((grid.row_unit, NORM), (grid.residual_unit, 0.3)):
        assert Fraction(largest) / Fraction(unit) <= 2**grid.bits
        assert Fraction(largest) / Fraction(unit) > 2 ** (grid.bits - 1)
        assert math.frexp(unit)[0] == 0.5


def truncated(X, grid):
    """Rows as Python integers."""
    unit = Fraction(grid.row_unit)
    dense = X.toarray() if sparse.issparse(X) else X
    return [[math.trunc(Fraction(float(value)) / unit) for value in row] for row in dense]


def own_part(kernel, block, row):
    return kernel(pick(block, [row]))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_clipped_gradients_against_python_integers(loss, weighted):
    n, d, clip = 60, 7, 0.7
    block = table(loss, n, d, seed=4, weighted=weighted)
    grid = Grid(n, NORM, residual=8.0)
    theta = 3.0 * np.random.default_rng(5).standard_normal((loss.n_outputs, d + 1))
    lengths = row_lengths(block.X, grid, constant=0.5)
    total = np.zeros(theta.shape, dtype=object)
    for i, row in enumerate(truncated(block.X, grid)):
        z = np.empty((1, loss.n_outputs))
        for k in range(loss.n_outputs):
            # the coefficients cut to 32 bits of their norm's power of two
            norm = math.sqrt(sum(value * value for value in theta[k, :-1])) * (1.0 + 1e-9)
            unit = 2.0 ** (math.frexp(norm)[1] - (52 - grid.bits))
            cut = [math.trunc(Fraction(value) / Fraction(unit)) for value in theta[k, :-1]]
            product = sum(a * b for a, b in zip(row, cut, strict=True))
            z[0, k] = float(product) * (unit * grid.row_unit) + theta[k, -1]
        loss.pointwise(z, block.target[i : i + 1], NOTHING, NOTHING)
        norm = float(np.linalg.norm(z)) * lengths[i]
        factor = min(1.0, clip * (1.0 - 2.0**-40) / norm) if norm > 0.0 else 1.0
        factor *= 1.0 if block.weight is None else block.weight[i]
        for k in range(loss.n_outputs):
            residual = math.trunc(Fraction(z[0, k] * factor) / Fraction(grid.residual_unit))
            total[k] += np.array([residual * value for value in (*row, 1)], dtype=object)
    found = clipped_gradient(block, theta, loss, lengths, clip, grid)
    # the last rounding of a factor may be another one; a residual then differs by one unit
    assert np.abs(found - total).max() <= 2 ** (grid.bits + 1)
    assert np.abs(total).max() > 2 ** (grid.bits + 10)
    read = read_gradient(found, grid)
    assert np.array_equal(read[:, :-1], found[:, :-1] * grid.residual_unit * grid.row_unit)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_one_record_moves_a_clipped_sum_by_at_most_the_clip(loss, weighted):
    """In exact arithmetic, in the coordinates A (x - m) of a chain, and next to the bound."""
    n, d, clip, constant = 300, 5, 0.7, 0.3
    block = table(loss, n, d, seed=6, weighted=weighted)
    grid = Grid(n, NORM, residual=64.0)
    rng = np.random.default_rng(7)
    theta = 30.0 * rng.standard_normal((loss.n_outputs, d + 1))
    matrix, center = rng.standard_normal((d, d)), 0.2 * rng.standard_normal(d)
    exact_matrix = [[Fraction(value) for value in row] for row in matrix]
    lengths = row_lengths(block.X, grid, center, matrix, constant)
    total = clipped_gradient(block, theta, loss, lengths, clip, grid)
    longest = 0.0
    for i, row in enumerate(truncated(block.X, grid)):
        without = np.delete(np.arange(n), i)
        rest = clipped_gradient(pick(block, without), theta, loss, lengths[without], clip, grid)
        moved = total - rest
        residuals = [Fraction(int(value)) * Fraction(grid.residual_unit) for value in moved[:, -1]]
        unit = Fraction(grid.row_unit)
        x = [value * unit - Fraction(c) for value, c in zip(row, center, strict=True)]
        w = [sum(x[j] * exact_matrix[j][k] for j in range(d)) for k in range(d)]
        square = sum(value * value for value in w) + Fraction(constant) ** 2
        contribution = sum(value * value for value in residuals) * square
        weight = Fraction(1.0 if block.weight is None else block.weight[i])
        assert contribution <= (weight * Fraction(clip)) ** 2
        longest = max(longest, float(contribution / weight**2) ** 0.5)
        for k in range(loss.n_outputs):  # and the sum over x is the residual times the row
            assert moved[k, :-1].tolist() == [int(moved[k, -1]) * value for value in row]
    assert longest > 0.999 * clip


def test_residuals_of_a_person_that_are_cut_add_up_to_one_record():
    """Short rows far off: residuals are cut first and weighted then."""
    grid, n = Grid(1, 1.0, residual=4.0), 256
    block = Block(np.full((n, 2), 1e-4), np.full(n, -50.0), np.full(n, 1.0 / n))
    theta = np.array([[0.0, 0.0, 500.0]])
    lengths = row_lengths(block.X, grid)
    total = clipped_gradient(block, theta, SquaredLoss(), lengths, 1.0, grid)
    one = clipped_gradient(
        Block(block.X[:1], block.target[:1], None), theta, SquaredLoss(), lengths[:1], 1.0, grid
    )
    assert read_gradient(one, grid)[0, -1] == 4.0
    assert total.tolist() == one.tolist()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_against_python_integers_and_their_sensitivity(form, weighted):
    n, d, top = 80, 6, 2.0
    block = table(SquaredLoss(), n, d, seed=8, weighted=weighted)
    block = block._replace(X=form(block.X))
    grid = Grid(n, NORM)
    total = np.zeros((d + 2, d + 1), dtype=object)
    rows = truncated(block.X, grid)
    target_unit = 2.0 ** (1 - grid.bits)
    for i, row in enumerate(rows):
        full = [*row, math.trunc(block.target[i] / target_unit)]
        weight = 1.0 if block.weight is None else block.weight[i]
        share = math.trunc(weight * 2**grid.bits)
        root = math.sqrt(weight) * (1.0 if weight == 1.0 else 1.0 - 2.0**-50)
        v = [math.trunc(root * value) for value in full]
        total[0] += np.array([share * value for value in full], dtype=object)
        total[1:] += np.array([[a * b for b in v] for a in v], dtype=object)
        # one record: exactly at most its weight times R^2, whatever its length; a R in the sums
        own = sum(value * value for value in v[:d]) * Fraction(grid.row_unit) ** 2
        assert own <= Fraction(weight) * Fraction(NORM) ** 2
        assert share <= weight * 2**grid.bits
    found = moments(block, grid, top)
    assert np.array_equal(found[0], total[0])
    assert np.array_equal(found[1:], np.tril(total[1:]))
    sums, second = read_moments(found, grid, top)
    plain_sums, plain_second = read_moments(moments(block, None, top), None, top)
    assert np.allclose(sums, plain_sums, atol=n * 4e-6)
    assert np.allclose(second, plain_second, atol=n * 1e-5)
    assert np.array_equal(second, second.T)


def exact_derivatives(loss, rows, target, weight, theta):
    """Value, gradient and Hessian of truncated rows with 40 digits."""
    k, p = theta.shape
    value, gradient = mpmath.mpf(0), mpmath.zeros(k, p)
    hessian = mpmath.zeros(k * p, k * p)
    for x, y, a in zip(rows, target, weight, strict=True):
        z = [
            mpmath.fsum(mpmath.mpf(t) * v for t, v in zip(theta[j], x, strict=True))
            for j in range(k)
        ]
        if isinstance(loss, LogisticLoss):
            sign = 1 if y == 1 else -1
            t = sign * z[0] - loss.margin
            chance = 1 / (1 + mpmath.exp(t))
            value += a * mpmath.log1p(mpmath.exp(-t))
            slopes, second = [-sign * chance], [[chance * (1 - chance)]]
        elif isinstance(loss, SquaredLoss):
            value += a * (z[0] - mpmath.mpf(y)) ** 2 / 2
            slopes, second = [z[0] - mpmath.mpf(y)], [[mpmath.mpf(1)]]
        else:
            mass = mpmath.fsum(mpmath.exp(v) for v in z)
            chance = [mpmath.exp(v) / mass for v in z]
            value += a * (mpmath.log(mass) - z[y])
            slopes = [chance[j] - (j == y) for j in range(k)]
            second = [[chance[i] * ((i == j) - chance[j]) for j in range(k)] for i in range(k)]
        for i in range(k):
            for u in range(p):
                gradient[i, u] += a * slopes[i] * x[u]
                for j in range(k):
                    for v in range(p):
                        hessian[i * p + u, j * p + v] += a * second[i][j] * x[u] * x[v]
    return value, gradient, hessian


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "loss", [LogisticLoss(), LogisticLoss(3.0), SoftmaxLoss(3), SquaredLoss()], ids=repr
)
@pytest.mark.parametrize("constant", [0.0, 0.75])
def test_derivatives_are_within_the_stated_bound(loss, weighted, constant):
    n, d = 40, 4
    block = table(loss, n, d, seed=9, weighted=weighted)
    grid, k = Grid(n, NORM), loss.n_outputs
    p = d + (constant > 0.0)
    weight = np.ones(n) if block.weight is None else block.weight
    with mpmath.workdps(40):
        rows = [
            [mpmath.mpf(v) * grid.row_unit for v in row] + [mpmath.mpf(constant)] * (p - d)
            for row in truncated(block.X, grid)
        ]
        for size in (0.0, 1e-3, 5.0, 400.0):
            theta = size * np.random.default_rng(10).standard_normal((k, p))
            norm = float(np.linalg.norm(theta))
            value, gradient, hessian = exact_derivatives(loss, rows, block.target, weight, theta)
            total = derivatives(block, theta, loss, (0, 1, 2), constant, grid)
            found = read_derivatives(total, theta, loss, (0, 1, 2), constant, grid)
            assert abs(found[0] - value) <= n * grid.value_error(loss, d, constant, norm)
            off = mpmath.sqrt(
                mpmath.fsum(
                    (found[1][i, u] - gradient[i, u]) ** 2 for i in range(k) for u in range(p)
                )
            )
            assert off <= n * grid.gradient_error(loss, d, constant, norm)
            # the bound is no excuse: ten digits of the largest possible gradient
            largest = loss.slope_within(norm * math.hypot(NORM, constant)) * NORM
            assert grid.gradient_error(loss, d, constant, norm) < 1e-9 * max(1.0, largest)
            exact = np.array(hessian.tolist(), dtype=np.float64).reshape(k * p, k * p)
            reach = math.hypot(NORM, constant)
            slack = n * 4.0 * math.sqrt(k * p) * reach**2 * 2.0**-grid.bits * loss.curvature[1]
            assert np.linalg.norm(found[2] - exact) <= slack
    plain = read_derivatives(
        derivatives(block, theta, loss, (0, 1, 2), constant, None),
        theta,
        loss,
        (0, 1, 2),
        constant,
        None,
    )
    assert math.isclose(plain[0], found[0], rel_tol=1e-2)
    assert plain[1].shape == found[1].shape
    assert plain[2].shape == found[2].shape


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(4), SmoothHingeLoss(0.5)], ids=repr)
def test_one_record_moves_the_hessian_by_at_most_its_bound(loss):
    """The bound of exact Hessians, with what `Grid.hessian_error` adds for several outputs."""
    n, d, constant = 400, 6, 0.5
    block = table(loss, n, d, seed=11)
    grid, rng = Grid(n, NORM), np.random.default_rng(12)
    single = {LogisticLoss(): 0.25, SoftmaxLoss(4): 0.5, SmoothHingeLoss(0.5): 2.0}[loss]
    bound = single * (NORM**2 + constant**2) + grid.hessian_error(loss, d, constant)
    longest = 0.0
    for i in range(n):
        theta = rng.standard_normal((loss.n_outputs, d + 1)) * rng.choice([1e-6, 1.0])
        total = derivatives(pick(block, [i]), theta, loss, (0, 1, 2), constant, grid)
        hessian = read_derivatives(total, theta, loss, (0, 1, 2), constant, grid)[2]
        longest = max(longest, float(np.linalg.norm(hessian)))
        if loss.n_outputs == 1:
            assert np.linalg.eigvalsh(hessian)[0] > -1e-15
    assert longest <= bound
    if isinstance(loss, LogisticLoss):
        assert longest > 0.99 * bound


def test_sorted_compressed_rows_are_no_harder_than_shuffled_ones():
    """A million rows sorted by label, their mass in one column: the worst case of a running sum.

    The exact gradient is known, since all rows are equal but for their sign.
    """
    n = 1_000_000
    data = np.full(n, 0.1)
    X = sparse.csr_matrix((data, np.full(n, 2), np.arange(n + 1)), shape=(n, 5))
    target = np.zeros(n, dtype=np.int64)
    target[n // 4 :] = 1
    grid, loss = Grid(n, 1.0), LogisticLoss()
    theta = np.array([[0.3, -0.1, 0.7, 0.2, 0.05]])
    total = derivatives(Block(X, target), theta, loss, (0, 1, 2), 0.0, grid)
    order = np.random.default_rng(0).permutation(n)
    assert np.array_equal(
        derivatives(Block(X, target[order]), theta, loss, (0, 1, 2), 0.0, grid), total
    )
    value, gradient, hessian = read_derivatives(total, theta, loss, (0, 1, 2), 0.0, grid)
    with mpmath.workdps(40):
        x = mpmath.mpf(math.trunc(0.1 / grid.row_unit)) * grid.row_unit
        z = x * mpmath.mpf(0.7)
        chance = 1 / (1 + mpmath.exp(-z))
        exact = x * (chance * (n // 4) - (1 - chance) * (n - n // 4))
        exact_value = mpmath.log1p(mpmath.exp(z)) * (n // 4)
        exact_value += mpmath.log1p(mpmath.exp(-z)) * (n - n // 4)
        norm = float(np.linalg.norm(theta))
        assert abs(gradient[0, 2] - exact) <= n * grid.gradient_error(loss, 5, 0.0, norm)
        assert abs(value - exact_value) <= n * grid.value_error(loss, 5, 0.0, norm)
    assert np.count_nonzero(gradient) == 1
    assert np.count_nonzero(hessian) == 1


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_a_batch_is_the_sum_of_its_rows(form):
    loss = SoftmaxLoss(3)
    block = table(loss, 500, 6, weighted=True)
    block = block._replace(X=form(block.X))
    grid = Grid(500, NORM)
    theta = np.random.default_rng(1).standard_normal((3, 7))
    lengths = row_lengths(block.X, grid)
    rows = np.random.default_rng(2).permutation(500)[:123]
    batch = clipped_gradient(block, theta, loss, lengths, 0.5, grid, rows=rows)
    alone = clipped_gradient(pick(block, rows), theta, loss, lengths[rows], 0.5, grid)
    assert np.array_equal(batch, alone)
    batch = derivatives(block, theta, loss, (0, 1, 2), 0.5, grid, rows=rows)
    assert np.array_equal(batch, derivatives(pick(block, rows), theta, loss, (0, 1, 2), 0.5, grid))
    empty = clipped_gradient(block, theta, loss, lengths, 0.5, grid, rows=rows[:0])
    assert np.array_equal(empty, np.zeros((3, 7), dtype=np.int64))


def test_plain_sums_are_the_same_up_to_the_cuts():
    for loss in LOSSES:
        block = table(loss, 300, 6, weighted=True)
        plain, cut = (kernels(loss, block, grid) for grid in (None, Grid(300, NORM, residual=64.0)))
        theta = 3.0 * np.random.default_rng(0).standard_normal((loss.n_outputs, 7))
        grid = Grid(300, NORM, residual=64.0)
        found = read_gradient(cut["clipped"](block), grid)
        assert np.allclose(found, read_gradient(plain["clipped"](block), None), atol=0.05)
        orders = (0, 1, 2) if math.isfinite(loss.curvature[1]) else (0, 1)
        found = read_derivatives(cut["derivatives"](block), theta, loss, orders, 0.8, grid)
        other = read_derivatives(plain["derivatives"](block), theta, loss, orders, 0.8, None)
        for a, b in zip(found[: len(orders)], other[: len(orders)], strict=True):
            assert np.allclose(a, b, rtol=1e-3, atol=0.01)


def test_rows_that_are_listed_twice_are_added_before_they_are_cut():
    X = sparse.csr_matrix(
        (np.array([0.3, 0.4, 0.2]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2)
    )
    grid = Grid(10, 1.0)
    block = Block(X, np.array([1]), None)
    clean = Block(np.array([[0.2, 0.7]]), np.array([1]), None)
    assert np.array_equal(moments(block, grid), moments(clean, grid))
    assert X.nnz == 3  # the caller's matrix is as it was


def test_rows_beyond_the_bound_are_refused_and_lengths_cover_the_rows():
    grid = Grid(100, NORM)
    block = table(LogisticLoss(), 100, 5)
    with pytest.raises(ValueError, match="longer than data_norm"):
        row_lengths(2.0 * block.X, grid)
    with pytest.raises(ValueError, match="needs a matrix"):
        row_lengths(block.X, grid, center=np.zeros(5))
    with pytest.raises(ValueError, match="lengths"):
        clipped_gradient(block, np.zeros((1, 6)), LogisticLoss(), None, 1.0, grid)
    with pytest.raises(ValueError, match="curvature"):
        derivatives(block, np.zeros((1, 5)), HingeLoss(), (2,), 0.0, grid)
    with pytest.raises(ValueError, match="one point"):
        derivatives(block, np.zeros((2, 1, 5)), LogisticLoss(), (2,), 0.0, grid)
    lengths = row_lengths(block.X, grid, transform=2.0, constant=0.25)
    for row, length in zip(truncated(block.X, grid), lengths, strict=True):
        square = 4 * sum(v * v for v in row) * Fraction(grid.row_unit) ** 2 + Fraction(1, 16)
        assert square <= Fraction(length) ** 2 <= square * Fraction(1 + 1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tables_are_not_copied_whole(dtype, tmp_path):
    n, d = 50_000, 40
    rng = np.random.default_rng(0)
    path = tmp_path / "rows.npy"
    np.save(path, (rng.uniform(-1.0, 1.0, (n, d)) / math.sqrt(d)).astype(dtype))
    X = np.load(path, mmap_mode="r")
    block = Block(X, rng.integers(0, 2, n), None)
    grid, theta, loss = Grid(n, 1.0), rng.standard_normal((1, d + 1)), LogisticLoss()
    lengths = row_lengths(X, grid, constant=1.0)
    for _ in range(2):  # compiled in the first round
        tracemalloc.start()
        clipped_gradient(block, theta, loss, lengths, 0.5, grid)
        derivatives(block, theta, loss, (0, 1, 2), 1.0, grid)
        moments(block, grid)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < X.nbytes / 4


def test_lengths_of_wide_rows_are_the_same_in_any_block_and_storage():
    grid, rng = Grid(300, NORM), np.random.default_rng(3)
    X = table(LogisticLoss(), 300, 40).X
    matrix, center = rng.standard_normal((40, 40)), 0.1 * rng.standard_normal(40)
    lengths = row_lengths(X, grid, center, matrix, 0.3)
    assert np.array_equal(row_lengths(sparse.csr_matrix(X), grid, center, matrix, 0.3), lengths)
    alone = [row_lengths(X[i : i + 1], grid, center, matrix, 0.3)[0] for i in range(300)]
    assert np.array_equal(alone, lengths)
    plain = np.sqrt(np.sum(((X - center) @ matrix) ** 2, axis=1) + 0.09)
    assert np.allclose(lengths, plain, atol=1e-3)


@pytest.mark.parametrize("grid", [None, Grid(200, NORM)])
def test_derivatives_are_formed_alone_as_they_are_together(grid):
    loss = SoftmaxLoss(3)
    block, theta = table(loss, 200, 5), np.random.default_rng(0).standard_normal((3, 6))
    how = (0.5, grid)
    orders = (0, 1, 2)
    together = read_derivatives(
        derivatives(block, theta, loss, orders, *how), theta, loss, orders, *how
    )
    for order in orders:
        alone = derivatives(block, theta, loss, (order,), *how)
        found = read_derivatives(alone, theta, loss, (order,), *how)
        assert np.array_equal(found[order], together[order])
        assert [part is None for part in found] == [other != order for other in orders]


def test_keys_tell_rows_apart_whatever_their_order_and_storage():
    X = table(LogisticLoss(), 4000, 12).X
    grid, order = Grid(4000, NORM), np.random.default_rng(0).permutation(4000)
    keys = row_keys(X, grid)
    assert np.array_equal(row_keys(sparse.csr_matrix(X[order]), grid), keys[order])
    distinct = np.unique(np.trunc(X / grid.row_unit), axis=0).shape[0]
    assert np.unique(keys).size > 0.95 * distinct  # two of them may share one of 65,536 keys
    chosen = np.unique(keys) % 16 == 0
    assert abs(chosen.mean() - 1.0 / 16.0) < 5.0 * math.sqrt(1.0 / 16.0 / distinct)


@pytest.mark.parametrize("grid", [Grid(300, NORM), None], ids=["exact", "plain"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_points_are_evaluated_as_if_alone(loss, grid):
    """Even next to one that is very far away, whose losses are large."""
    block = table(loss, 300, 6)
    thetas = np.random.default_rng(0).standard_normal((5, loss.n_outputs, 7))
    thetas[3] *= 1e6
    how = (loss, (0, 1), 0.8, grid)
    together = read_derivatives(derivatives(block, thetas, *how), thetas, *how)
    for point, (theta, value, slope) in enumerate(zip(thetas, *together[:2], strict=True)):
        alone = read_derivatives(derivatives(block, theta, *how), theta, *how)
        if grid is not None:
            assert alone[0] == value
            assert np.array_equal(alone[1], slope), point
        else:
            assert math.isclose(alone[0], value, rel_tol=1e-12)
            np.testing.assert_allclose(alone[1], slope, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("norm", [NORM, 1e-3, 1e40, 1e-60])
def test_rows_that_were_cut_before_give_the_same_bits(form, norm):
    loss, grid = LogisticLoss(), Grid(300, norm)
    block = table(loss, 300, 6)
    X = form(block.X * (norm / NORM))
    short = cut_rows(X, grid)
    assert short.dtype == (np.float32 if 1e-20 < norm < 1e20 else np.float64)
    theta = np.random.default_rng(0).standard_normal((1, 7)) / norm
    first, second = (block._replace(X=rows) for rows in (X, short))
    how = (theta, loss, (0, 1, 2), 0.8 * norm, grid)
    assert np.array_equal(derivatives(first, *how), derivatives(second, *how))
    assert np.array_equal(moments(first, grid), moments(second, grid))
    assert cut_rows(X, None) is X


@pytest.mark.parametrize("grid", [Grid(300, NORM), None], ids=["exact", "plain"])
def test_softmax_of_two_classes_is_logistic_of_the_difference(grid):
    block = table(LogisticLoss(), 300, 6)
    theta = np.random.default_rng(0).standard_normal((1, 7))
    pair = np.vstack([-0.5 * theta, 0.5 * theta])
    found = []
    for loss, point in ((LogisticLoss(), theta), (SoftmaxLoss(2), pair)):
        how = (point, loss, (0, 1, 2), 0.8, grid)
        found.append(read_derivatives(derivatives(block, *how), *how))
    (value, slope, curvature), (other, slopes, curvatures) = found
    assert math.isclose(value, other, rel_tol=1e-12)
    np.testing.assert_allclose(slopes, [-slope[0], slope[0]], rtol=1e-9, atol=1e-9)
    # second derivatives are cut to b bits
    loose = {"rtol": 1e-10, "atol": 1e-10} if grid is None else {"rtol": 1e-3, "atol": 1e-3}
    np.testing.assert_allclose(curvatures[:7, :7], curvature, **loose)
    np.testing.assert_allclose(curvatures[:7, 7:], -curvature, **loose)


def _spiked(rng, d, k):
    basis, _ = np.linalg.qr(rng.standard_normal((d, k)))
    return models.SpikedMatrix(2.0, basis, np.linspace(-1.9, 0.5, k))


@pytest.mark.parametrize("compressed", [False, True])
def test_lengths_under_a_spiked_matrix_are_upper_bounds_and_hardly_longer(compressed):
    """Against the full matrix in exact rational arithmetic, for rows that it shrinks most, too."""
    rng = np.random.default_rng(0)
    d, k = 6, 2
    matrix, center = _spiked(rng, d, k), 0.1 * rng.standard_normal(d)
    grid = models.Grid(100, 1.0)
    X = rng.standard_normal((40, d))
    X[:10] = matrix.basis[:, 0] * rng.uniform(0.1, 1.0, (10, 1)) + center  # shrunk to 1/20
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) * (1.0 + 1e-12))
    rows = sparse.csr_matrix(X) if compressed else X
    found = models.row_lengths(rows, grid, center, matrix, 0.25)
    cut = np.trunc(X / grid.row_unit) * grid.row_unit
    exact = [[Fraction(float(v)) for v in row] for row in matrix.basis.T]
    for row, length in zip(cut, found, strict=True):
        z = [Fraction(float(x)) - Fraction(float(m)) for x, m in zip(row, center, strict=True)]
        moved = [Fraction(matrix.base) * v for v in z]
        for vector, g in zip(exact, matrix.extra, strict=True):
            share = Fraction(float(g)) * sum(u * v for u, v in zip(vector, z, strict=True))
            moved = [a + share * u for a, u in zip(moved, vector, strict=True)]
        square = sum(v * v for v in moved) + Fraction(1, 16)
        assert Fraction(float(length)) ** 2 >= square
        assert length <= math.sqrt(square) + 1e-5


def test_a_spiked_matrix_is_the_full_matrix():
    rng = np.random.default_rng(1)
    matrix, rows = _spiked(rng, 7, 3), rng.standard_normal((5, 7))
    full = matrix.base * np.eye(7) + (matrix.basis * matrix.extra) @ matrix.basis.T
    np.testing.assert_allclose(rows @ matrix, rows @ full)
    np.testing.assert_allclose((rows @ matrix) @ matrix.inverse(), rows)
    assert np.linalg.norm(full, 2) <= matrix.largest < np.linalg.norm(full, 2) * (1.0 + 1e-6)
    # lengths that forgot that columns may be far from orthonormal would be too short
    skew = models.SpikedMatrix(1.0, np.column_stack([matrix.basis[:, 0]] * 2), np.ones(2))
    X = matrix.basis[:, :1].T * 0.9
    length = models.row_lengths(X, models.Grid(10, 1.0), None, skew)[0]
    assert length >= np.linalg.norm(X @ skew)


def test_sums_of_wide_rows_are_exact_by_blas_too():
    """The same integers as by the loops, for any blocks."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 600))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1.0 + 1e-12)
    codes, grid, loss = rng.integers(0, 5, 300), models.Grid(300, 1.0), models.SoftmaxLoss(5)
    theta = 3.0 * rng.standard_normal((5, 601))
    lengths = models.row_lengths(X, grid)

    def total(part, rows=X):
        block = Block(rows[part], codes[part])
        return models.clipped_gradient(block, theta, loss, lengths[part], 0.5, grid)

    whole = total(slice(None))
    np.testing.assert_array_equal(whole, total(slice(0, 130)) + total(slice(130, None)))
    np.testing.assert_array_equal(whole, total(slice(None), sparse.csr_matrix(X)))
