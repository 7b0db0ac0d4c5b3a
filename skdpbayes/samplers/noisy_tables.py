r"""Independent exact draws of count tables that share their totals, given noisy releases of them.

The model of a class-by-feature release: ``N`` records (public) fall into ``K`` classes and, given
the class, into one value of each of ``D`` features,

.. math::
    \pi \sim \mathrm{Dir}(1), \quad \theta_{cd} \sim \mathrm{Dir}(\alpha), \quad
    y_{cdv} = n_{cdv} + Z_{cdv}, \qquad \sum_v n_{cdv} = n_c \ \forall d, \quad \sum_c n_c = N .

**Totals.** A table's total :math:`T_{cd} = \sum_v y_{cdv} = n_c + \sum_v Z_{cdv}` depends on no
parameter but :math:`n_c`, and the law of its noise is known exactly. The class totals come from
their exact posterior given all table totals and ``N`` (uniform prior), which every table informs.
Using totals only keeps the Dirichlet prior of the cells out of the class counts: in the full joint
posterior that prior, which is wrong for real tables, overrules the data once the noise is large
(the posterior is *cut* there).

**Cells.** With the parameters integrated out, a table given its total is Dirichlet-multinomial,

.. math::
    p(n_{cd} \mid n_c, y) \propto
    \prod_v \frac{\Gamma(n_{cdv} + \alpha)}{n_{cdv}!} \, p_Z(y_{cdv} - n_{cdv}) ,

a product of one-dimensional weights under one sum, which `skdpbayes.samplers.fixed_sums` draws
from: *independent* exact draws, there is no Markov chain to converge.

Where the noise is wide the counts are resolved to bins of at most 1/32 of its standard deviation
while sums are matched (the mass of a bin is exact, and the count within it is drawn exactly), so
that the cost does not depend on the scale of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import fft
from scipy.special import gammaln

from skdpbayes.samplers.fixed_sums import FixedSum, convolve

# Noise beyond this probability ratio to its mode is left out: e^-25 = 1.4e-11.
_TAIL_LOG_RATIO = 25.0
_BINS_PER_DEVIATION = 32
# FFT convolutions are exact to about 1e-16 of their largest value; less than this is rounding.
_RELIABLE = 1e-12


def noise_log_pmf(parts: Sequence[tuple[str, float]]) -> np.ndarray:
    """Log-probability, up to a constant, of a sum of independent integer noises.

    Parameters
    ----------
    parts : sequence of (noise, scale)
        Each "laplace" (pmf proportional to ``exp(-|k| / scale)``) or "gaussian"
        (``exp(-k**2 / (2 scale**2))``).

    Returns
    -------
    ndarray
        Values at offsets 0, 1, ..., until the probability is negligible; the law is symmetric.
    """
    pmf = np.ones(1)
    for noise, scale in parts:
        pmf = convolve(pmf, _two_sided_pmf(noise, scale))
        pmf /= pmf.max()
    log_pmf = np.log(np.maximum(pmf[pmf.shape[0] // 2 :], 1e-300))
    return log_pmf[: max(2, int(np.sum(log_pmf > -_TAIL_LOG_RATIO)))]


def _two_sided_pmf(noise: str, scale: float) -> np.ndarray:
    if noise == "laplace":
        offsets = np.arange(np.ceil((_TAIL_LOG_RATIO + 2.0) * scale) + 2.0)
        half = np.exp(-offsets / scale)
    elif noise == "gaussian":
        offsets = np.arange(np.ceil(np.sqrt(2.0 * _TAIL_LOG_RATIO + 4.0) * scale) + 2.0)
        half = np.exp(-0.5 * (offsets / scale) ** 2)
    else:
        raise ValueError(f"noise must be 'laplace' or 'gaussian'; got {noise!r}.")
    return np.concatenate([half[:0:-1], half])


def sample_noisy_tables(
    tables: Sequence[np.ndarray],
    n_total: int,
    alpha: float,
    log_noise: np.ndarray,
    class_uniforms: np.ndarray,
    cell_uniforms: np.ndarray,
) -> np.ndarray:
    """Draw the latent counts of all tables jointly.

    Parameters
    ----------
    tables : sequence of D int arrays of shape (n_classes, n_values_d)
        The noisy tables. A table with one value is a noisy class count.
    n_total : int
        The public number of records.
    alpha : float
        The Dirichlet parameter of each value's probability, > 0.
    log_noise : ndarray
        From `noise_log_pmf`.
    class_uniforms : float array of shape (n_draws, n_classes)
        Independent uniforms on [0, 1).
    cell_uniforms : float array of shape (n_draws, n_classes, n_cells, 2)
        Independent uniforms on [0, 1); ``n_cells`` is the sum of ``n_values_d``.

    Returns
    -------
    int64 array of shape (n_draws, n_classes, n_cells)
        Counts, tables side by side. Each table's rows sum to the class totals of that draw (up to
        one bin where the noise is wide).
    """
    bin_width = _bin_width(log_noise, n_total)
    n_classes = tables[0].shape[0]
    n_draws = class_uniforms.shape[0]
    all_records = np.full(n_draws, n_total // bin_width)
    if n_classes == 1:
        totals = all_records[:, None]
    else:
        classes = _class_totals(tables, n_total, log_noise, bin_width)
        totals = classes.draw(all_records, class_uniforms[:, :, None])
    counts = np.empty((n_draws, n_classes, sum(t.shape[1] for t in tables)), dtype=np.int64)
    for c in range(n_classes):
        start = 0
        for table in tables:
            stop = start + table.shape[1]
            bins = np.maximum(totals[:, c] - _bin_shift(table.shape[1], bin_width), 0)
            row = _noisy_row(table[c], n_total, alpha, log_noise, bin_width, float(bins.mean()))
            counts[:, c, start:stop] = row.draw(bins, cell_uniforms[:, c, start:stop])
            start = stop
    return counts


def _bin_width(log_noise: np.ndarray, n_total: int) -> int:
    pmf = np.exp(log_noise)
    offsets = np.arange(pmf.shape[0])
    deviation = np.sqrt(2.0 * np.sum(pmf * offsets**2) / (2.0 * pmf.sum() - pmf[0]))
    return max(1, int(min(deviation, n_total) / _BINS_PER_DEVIATION))


def _bin_shift(n_cells: int, bin_width: int) -> int:
    """How many bins the sum of the cells' bins lies below the bin of their sum, on average."""
    return round(n_cells * (bin_width - 1) / (2 * bin_width))


def _log_cell_prior(counts: np.ndarray, alpha: float) -> np.ndarray:
    if alpha == 1.0:
        return np.zeros(counts.shape)
    return gammaln(counts + alpha) - gammaln(counts + 1.0)


def _noisy_row(
    noisy: np.ndarray,
    n_total: int,
    alpha: float,
    log_noise: np.ndarray,
    bin_width: int,
    total: float,
) -> FixedSum:
    """Weigh the counts of each cell around its noisy value; their bins add to ``total``."""
    cells = []
    for y in noisy.tolist():
        low, high = _window(int(y), log_noise.shape[0] - 1, n_total)
        first = low // bin_width
        n = np.arange(first * bin_width, (high // bin_width + 1) * bin_width)
        log_weight = _log_cell_prior(n, alpha) + _interpolate(log_noise, np.abs(y - n))
        log_weight[n > n_total] = -np.inf
        cells.append((first, np.exp(log_weight - log_weight.max())))
    return FixedSum.from_weights(cells, bin_width, n_total // bin_width, total)


def _window(y: int, width: int, n_total: int) -> tuple[int, int]:
    """Counts in [0, n_total] that the noise can plausibly carry to ``y``."""
    center = min(max(y, 0), n_total)
    return max(0, center - width), min(n_total, center + width)


def _class_totals(
    tables: Sequence[np.ndarray], n_total: int, log_noise: np.ndarray, bin_width: int
) -> FixedSum:
    """Weigh each class total by the noise of all table totals; the classes add to ``n_total``."""
    sums = {
        n_values: _log_sum_of_noises(log_noise[::bin_width], n_values)
        for n_values in {table.shape[1] for table in tables}
    }
    sharpest = min(tables, key=lambda table: table.shape[1])  # least noise on its totals
    reach = sums[sharpest.shape[1]].shape[0] + 1
    cells = []
    for c in range(tables[0].shape[0]):
        low, high = _window(int(sharpest[c].sum()) // bin_width, reach, n_total // bin_width)
        grid = np.arange(low, high + 1)
        log_weight = np.zeros(grid.shape)
        for table in tables:
            offsets = np.abs(grid - table[c].sum() / bin_width)
            log_weight += _interpolate(sums[table.shape[1]], offsets)
        cells.append((low, np.exp(log_weight - log_weight.max())))
    return FixedSum.from_weights(cells, 1, n_total // bin_width, n_total // bin_width)


def _log_sum_of_noises(log_noise: np.ndarray, count: int) -> np.ndarray:
    """Log-pmf of the sum of ``count`` noises at offsets 0, 1, ..., as far as it is reliable."""
    pmf = np.exp(np.concatenate([log_noise[:0:-1], log_noise]))
    # Beyond the reach of one noise a sum spreads like its standard deviation, the square root.
    reach = int(log_noise.shape[0] * (1.0 + np.sqrt(count)))
    length = fft.next_fast_len(2 * reach + 2 * pmf.shape[0], real=True)
    spectrum = fft.rfft(pmf / pmf.sum(), length) ** count
    half = np.roll(fft.irfft(spectrum, length), -((pmf.shape[0] // 2) * count % length))[
        : reach + 1
    ]
    unreliable = np.flatnonzero(half < _RELIABLE * half[0])
    end = max(2, int(unreliable[0])) if unreliable.size else half.shape[0]
    return np.log(np.maximum(half[:end], 1e-300))


def _interpolate(log_noise: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Log-noise between lattice points; beyond the table it goes on with the last slope."""
    last = log_noise.shape[0] - 1
    beyond = np.maximum(offsets - last, 0.0)
    inside = np.interp(offsets, np.arange(last + 1.0), log_noise)
    return inside + beyond * (log_noise[last] - log_noise[last - 1])
