"""Arrays of what the kernels of noisy counts compute one by one."""

from __future__ import annotations

import numpy as np

from skdpbayes.samplers.noisy_counts import _draw, _noise_code
from skdpbayes.samplers.noisy_likelihood import _log_sums


def draw_counts(rate, y, noise, scale, uniforms):
    """Poisson counts given one noisy value, by plain inversion."""
    kind, tilt = _noise_code(noise, scale)
    return np.array([_draw(float(rate), y, kind, tilt, u) for u in uniforms])


def noisy_poisson_log_likelihood(noisy, rate, noise, scale):
    """Log of p(y | rate) for each cell, up to the noise's normalizer."""
    kind, tilt = _noise_code(noise, scale)
    rate = np.array(np.broadcast_to(rate, noisy.shape), dtype=np.float64)
    return _log_sums(noisy.astype(np.int64), rate, kind, tilt, scale)
