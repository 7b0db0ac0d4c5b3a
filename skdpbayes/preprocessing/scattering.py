r"""Wavelet scattering of images: fixed filters, so nothing is learned.

With the Morlet wavelets :math:`\psi_{j,\theta}` of Bruna and Mallat (2013) at scales
:math:`2^j, j = 0, 1`, and eight angles, and with a Gaussian low-pass filter :math:`\phi` of scale
4, an image *x* has 81 channels,

.. math:: x \star \phi, \quad |x \star \psi_{j,\theta}| \star \phi, \quad
          \bigl||x \star \psi_{0,\theta}| \star \psi_{1,\theta'}\bigr| \star \phi,

each sampled at every fourth pixel. Convolutions with wavelets are products of Fourier transforms
of the padded image. The low-pass filter is separable and most of its output is thrown away by the
sampling, so there a product with a small matrix on either side is cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy import fft
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, gen_batches
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from skdpbayes._validation import check_flag, check_scale
from skdpbayes.preprocessing.public import resolve_bounds, share_of_range

ANGLES = 8
CHANNELS = 1 + 2 * ANGLES + ANGLES**2
STEP = 4  # pixels between samples: two scales, each halves the resolution
SMALLEST_SIDE = 5  # of an image: the padding reflects four pixels at each border
# Groups of channels that are normalized together, and the number added to their variance: as Tramer
# and Boneh (2021) have them for images of one and of three colors.
GROUPS = 27
LEAST_VARIANCE = 1e-5


class ScatteringTransformer(TransformerMixin, BaseEstimator):
    r"""Wavelet scattering coefficients of images, normalized per image to a public length.

    An image of :math:`h \times w` pixels becomes 81 channels of about :math:`h/4 \times w/4`
    coefficients per color (28 × 28 pixels: 81 × 7 × 7 = 3,969 columns): local averages of the
    image, of its edges at two scales and eight angles, and of the edges of those. They hardly
    change when an image is shifted or bent a little, and a linear model of them classifies digits
    about as well as a network [1]_, [2]_.

    The channels of an image are then divided into 27 groups; each group is centered and divided by
    its standard deviation, and the row is scaled to length ``norm``. All of this is done within
    one image: an output row depends on its own input row and on the parameters only, so the
    transformer costs no budget, and no row has to be cut by the estimator that follows.

    Parameters
    ----------
    bounds : (float, float)
        The public range of a pixel, such as (0, 255); values outside are clipped. There is no
        default that would be safe: ``None`` is an error when ``fit`` is called.
    image_shape : (height, width) or (height, width, colors), default=None
        How rows of pixels are folded. None takes the shape of images that have one, and a
        square of one color otherwise. Height and width are at least 5.
    norm : float, default=1.0
        The L2 norm of an output row, > 0; an image that is nowhere above the lower bound has a row
        of zeros. It is the ``data_norm`` of the estimator that follows.
    n_jobs : int, default=-1
        Number of threads; -1 takes all processors. The result does not depend on it.
    progress : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    image_shape_ : (int, int, int)
        Height, width and number of colors.
    n_features_in_ : int
        Number of pixels times colors.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names seen by ``fit``, if the input had any.

    References
    ----------
    .. [1] Bruna, Mallat (2013). Invariant scattering convolution networks. IEEE Transactions on
       Pattern Analysis and Machine Intelligence 35(8), 1872-1886.
    .. [2] Tramer, Boneh (2021). Differentially private learning needs better features (or much
       more data). ICLR.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdpbayes.preprocessing import ScatteringTransformer
    >>> digits = load_digits()
    >>> features = ScatteringTransformer(bounds=(0, 16)).fit_transform(digits.data)
    >>> features.shape, features.dtype  # 8 x 8 pixels: 81 channels of 2 x 2
    ((1797, 324), dtype('float32'))
    """

    def __init__(
        self,
        bounds: Any = None,
        *,
        image_shape: Any = None,
        norm: float = 1.0,
        n_jobs: int | None = -1,
        progress: bool = False,
    ) -> None:
        self.bounds = bounds
        self.image_shape = image_shape
        self.norm = norm
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> ScatteringTransformer:
        """Check the parameters and the shape of the images; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, height, width[, colors])
            Read for its shape and column names.
        y : None
            Ignored.

        Returns
        -------
        self : ScatteringTransformer
        """
        check_scale("norm", self.norm)
        check_flag("progress", self.progress)
        resolve_bounds(self.bounds, 1, None)
        rows, own_shape = _as_rows(X)
        shape = _resolve_shape(self.image_shape, own_shape, rows.shape[1])
        validate_data(self, rows, dtype="numeric")
        self.image_shape_ = shape
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Compute the normalized scattering coefficients of every image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, height, width[, colors])
            Pixels in the units of ``bounds``. Besides the result, memory is used for a few dozen
            images per thread.

        Returns
        -------
        X_out : ndarray of shape (n_samples, n_features_out), float32
        """
        check_is_fitted(self)
        norm = check_scale("norm", self.norm)
        ((low, high),) = resolve_bounds(self.bounds, 1, None)
        rows, own_shape = _as_rows(X)
        if own_shape is not None and _with_colors(own_shape) != self.image_shape_:
            raise ValueError(f"X has images of shape {own_shape}, expected {self.image_shape_}")
        rows = validate_data(self, rows, dtype="numeric", reset=False)
        height, width, colors = self.image_shape_
        filters = make_filters(height, width)
        out = np.empty((rows.shape[0], self._n_features_out), dtype=np.float32)

        def work(part: slice) -> None:
            pixels = np.clip(rows[part].astype(np.float64), low, high)
            pixels = share_of_range(pixels, low, high).astype(np.float32)
            images = np.moveaxis(pixels.reshape(-1, height, width, colors), 3, 1)
            channels = scatter(images.reshape(-1, height, width), filters)
            out[part] = _normalized(channels.reshape(images.shape[0], -1), norm)

        # A fixed number of images per block, whatever the number of threads: equal results.
        size = max(1, min(32, 2**16 // (filters.shape[0] * filters.shape[1] * colors)))
        blocks = list(gen_batches(rows.shape[0], size))
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(self._threads()) as pool:
            for _ in self._shown(pool.map(work, blocks), len(blocks)):
                pass
        return out

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the output columns: channel, row and column of the sample.

        ``mean`` is the low-pass filter alone, ``j1a3`` the wavelet of scale 2 at the fourth angle,
        ``j0a3_j1a5`` one after another; ``c0`` to ``c2`` stand before them if there are colors.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str objects
        """
        check_is_fitted(self)
        height, width, colors = self.image_shape_
        angles = range(ANGLES)
        paths = ["mean", *(f"j{scale}a{angle}" for scale in range(2) for angle in angles)]
        paths += [f"j0a{first}_j1a{second}" for first in angles for second in angles]
        prefixes = [f"c{color}_" for color in range(colors)] if colors > 1 else [""]
        names = [
            f"{prefix}{path}_{row}_{column}"
            for prefix in prefixes
            for path in paths
            for row in range(_samples(height))
            for column in range(_samples(width))
        ]
        return np.array(names, dtype=object)

    @property
    def _n_features_out(self) -> int:
        height, width, colors = self.image_shape_
        return colors * CHANNELS * _samples(height) * _samples(width)

    def _threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _shown(self, steps: Iterable[None], total: int) -> Iterable[None]:
        if not self.progress:
            return steps
        from tqdm.auto import tqdm

        shown: Iterator[None] = tqdm(steps, total=total, desc="ScatteringTransformer")
        return shown

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []
        return tags


class Filters(NamedTuple):
    """The filters for one size of images."""

    shape: tuple[int, int]
    """Height and width of the padded image."""
    wavelets: np.ndarray
    """Fourier transforms, real, of shape (2, 8, height, 2 width): every number twice, for the real
    and the imaginary part of what it multiplies."""
    low: tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    """Per resolution (full, half), the matrices that filter and sample rows and columns."""


def scatter(images: np.ndarray, filters: Filters) -> np.ndarray:
    """Return the 81 channels of float32 images (n, h, w), without any normalization."""
    n, *sides = images.shape
    padding = [(0, 0)]
    for side, padded in zip(sides, filters.shape, strict=True):
        padding.append(((padded - side) // 2, (padded - side + 1) // 2))
    (rows, columns), (half_rows, half_columns) = filters.low
    out = np.empty((n, CHANNELS, rows.shape[0], columns.shape[0]), dtype=np.float32)
    padded_images = np.pad(images, padding, mode="reflect")
    out[:, 0] = rows @ padded_images @ columns.T
    spectrum = fft.fft2(padded_images)[:, None]
    fine = np.abs(fft.ifft2(_filtered(spectrum, filters.wavelets[0]), overwrite_x=True))
    out[:, 1 : 1 + ANGLES] = rows @ fine @ columns.T
    coarse = np.abs(fft.ifft2(_filtered_and_halved(spectrum, filters.wavelets[1])))
    out[:, 1 + ANGLES : 1 + 2 * ANGLES] = half_rows @ coarse @ half_columns.T
    spectra = fft.fft2(fine)
    second = out[:, 1 + 2 * ANGLES :].reshape(n, ANGLES, ANGLES, *out.shape[2:])
    for angle in range(ANGLES):  # one at a time: the arrays stay in the processor's cache
        product = _filtered_and_halved(spectra, filters.wavelets[1, angle])
        modulus = np.abs(fft.ifft2(product, overwrite_x=True))
        second[:, :, angle] = half_rows @ modulus @ half_columns.T
    return out


def _filtered(spectrum: np.ndarray, wavelet: np.ndarray) -> np.ndarray:
    return (spectrum.view(np.float32) * wavelet).view(np.complex64)


def _filtered_and_halved(spectrum: np.ndarray, wavelet: np.ndarray) -> np.ndarray:
    """Multiply, then take every second pixel: the mean of the four aliases of a frequency."""
    parts = spectrum.view(np.float32)
    middle, center = parts.shape[-2] // 2, parts.shape[-1] // 2
    quarters = [
        (..., rows, columns)
        for rows in (slice(None, middle), slice(middle, None))
        for columns in (slice(None, center), slice(center, None))
    ]
    total = parts[quarters[0]] * wavelet[quarters[0]]
    product = np.empty_like(total)
    for quarter in quarters[1:]:
        total += np.multiply(parts[quarter], wavelet[quarter], out=product)
    total *= np.float32(0.25)
    return total.view(np.complex64)


@lru_cache(maxsize=8)
def make_filters(height: int, width: int) -> Filters:
    """Return the filters for images of one size."""
    shape = (_padded(height), _padded(width))
    wavelets = np.empty((2, ANGLES, *shape))
    for scale in range(2):
        for angle in range(ANGLES):
            wavelets[scale, angle] = fft.fft2(_morlet(shape, scale, angle)).real
    return Filters(
        shape,
        np.repeat(wavelets, 2, axis=-1).astype(np.float32),
        (
            (_low_pass(shape[0], 0), _low_pass(shape[1], 0)),
            (_low_pass(shape[0], 1), _low_pass(shape[1], 1)),
        ),
    )


def _morlet(shape: tuple[int, int], scale: int, angle: int) -> np.ndarray:
    r"""Return a periodic Morlet wavelet, a wave under a Gaussian, with mean 0.

    In coordinates *(a, b)* turned by the angle, :math:`\exp(-(a^2 + b^2/4)/(2\sigma^2))
    (\exp(i\xi a) - \beta)` with :math:`\sigma = 0.8 \cdot 2^j, \xi = 3\pi/4 \cdot 2^{-j}`.
    """
    sigma, frequency = 0.8 * 2**scale, 0.75 * math.pi / 2**scale
    turned = (ANGLES // 2 - 1 - angle) * math.pi / ANGLES
    envelope = np.zeros(shape)
    wave = np.zeros(shape, dtype=np.complex128)
    for row in range(-2, 3):
        for column in range(-2, 3):
            x, y = np.ogrid[: shape[0], : shape[1]]
            x, y = x + row * shape[0], y + column * shape[1]
            along = x * math.cos(turned) + y * math.sin(turned)
            across = y * math.cos(turned) - x * math.sin(turned)
            part = np.exp(-(along**2 + across**2 / 4.0) / (2.0 * sigma**2))
            envelope += part
            wave += part * np.exp(1j * frequency * along)
    centered: np.ndarray = wave - wave.sum() / envelope.sum() * envelope
    return centered / (4.0 * math.pi * sigma**2)


def _low_pass(side: int, halvings: int) -> np.ndarray:
    """Return the matrix that filters one side by a Gaussian of scale 1.6 and samples it.

    The side has been halved ``halvings`` times. The outermost samples, which belong to the padding,
    are left out.
    """
    positions = np.arange(side)[:, None] + side * np.arange(-2, 3)
    kernel = np.exp(-(positions**2) / (2.0 * 1.6**2)).sum(axis=1) / (1.6 * math.sqrt(2 * math.pi))
    spectrum = fft.fft(kernel).real
    length = side >> halvings
    if halvings:
        spectrum[side // 4 : side // 4 + side // 2] = 0.0
        spectrum = spectrum.reshape(2, length).sum(axis=0)
    kernel = fft.ifft(spectrum).real
    samples = np.arange(1, side // STEP - 1) * (STEP >> halvings)
    return kernel[(samples[:, None] - np.arange(length)) % length].astype(np.float32)


def _padded(side: int) -> int:
    return ((side + STEP) // STEP + 1) * STEP


def _samples(side: int) -> int:
    return _padded(side) // STEP - 2


def _normalized(features: np.ndarray, norm: float) -> np.ndarray:
    """Center and scale the groups of every row, then scale the rows to ``norm``.

    The rounding of the entries is taken off, so that the length holds in exact arithmetic.
    """
    groups = features.reshape(features.shape[0], GROUPS, -1)
    groups -= groups.mean(axis=2, keepdims=True)
    groups /= np.sqrt(np.square(groups).mean(axis=2, keepdims=True) + np.float32(LEAST_VARIANCE))
    lengths = np.sqrt(np.einsum("ij,ij->i", features, features, dtype=np.float64))
    rounding = (features.shape[1] + 8) * np.finfo(np.float64).eps + 4 * np.finfo(np.float32).eps
    scale = norm * (1.0 - float(rounding)) / np.where(lengths > 0.0, lengths, 1.0)
    return (features * scale[:, None]).astype(np.float32)


def _as_rows(X: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Return images as rows of pixels, and the shape that they had; data frames as they are."""
    if hasattr(X, "columns"):
        return X, None
    X = check_array(X, dtype="numeric", allow_nd=True)
    if X.ndim == 2:
        return X, None
    return X.reshape(X.shape[0], -1), X.shape[1:]


def _with_colors(shape: tuple[int, ...]) -> tuple[int, int, int]:
    height, width, colors = (*shape, 1)[:3]
    return int(height), int(width), int(colors)


def _resolve_shape(given: Any, own: tuple[int, ...] | None, pixels: int) -> tuple[int, int, int]:
    """Return height, width and number of colors of the images."""
    if given is not None:
        sides = np.asarray(given)
        if sides.shape not in ((2,), (3,)) or sides.dtype.kind not in "iu":
            raise ValueError(
                f"image_shape must be (height, width) or (height, width, colors), got {given!r}"
            )
        shape = _with_colors(tuple(sides))
        if own is not None and _with_colors(own) != shape:
            raise ValueError(f"X has images of shape {own}, but image_shape is {given!r}")
    elif own is not None:
        if len(own) > 3:
            raise ValueError(f"images must have height, width and colors at most, got shape {own}")
        shape = _with_colors(own)
    else:
        side = math.isqrt(pixels)
        shape = (side, side, 1)
    if math.prod(shape) != pixels:
        raise ValueError(
            f"rows of {pixels} pixels are not images of shape {shape}: pass image_shape=(height, "
            "width) or (height, width, colors)"
        )
    if min(shape[:2]) < SMALLEST_SIDE:
        raise ValueError(
            f"images must be at least {SMALLEST_SIDE} pixels high and wide, got shape {shape}"
        )
    return shape
