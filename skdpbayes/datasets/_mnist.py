"""MNIST digits, and the pictures of clothes in the same format."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from skdpbayes._validation import check_choice
from skdpbayes.datasets import _encoding as encoding_tools
from skdpbayes.datasets import _files as files
from skdpbayes.preprocessing import RowNormClipper

_OPENML_ID = {"MNIST": 554, "Fashion-MNIST": 40996}
_FOLDER = {"MNIST": "mnist", "Fashion-MNIST": "fashion-mnist"}
_N_TRAIN = 60_000
_SIDE = 28
_PREFIX = {"train": "train", "test": "t10k"}
_DESCR = """MNIST handwritten digits, 60,000 training and 10,000 test images of 28 x 28 pixels.

Public metadata: a pixel is an integer from 0 to 255, the labels are the ten digits.

License: CC BY-SA 3.0. Cite: Y. LeCun, L. Bottou, Y. Bengio and P. Haffner (1998), Gradient-based
learning applied to document recognition, Proceedings of the IEEE 86(11), 2278-2324.
"""
_FASHION_DESCR = """Fashion-MNIST, 60,000 training and 10,000 test images of 28 x 28 pixels.

Public metadata: a pixel is an integer from 0 to 255, the labels are ten kinds of clothes.

License: MIT. Cite: H. Xiao, K. Rasul and R. Vollgraf (2017), Fashion-MNIST: a novel image dataset
for benchmarking machine learning algorithms, arXiv:1708.07747.
"""
_DIGITS = [str(digit) for digit in range(10)]
_CLOTHES = [
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
]


def load_mnist(
    data_home: str | os.PathLike[str] | None = None,
    *,
    split: str = "train",
    scale: bool = True,
    norm: float | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load the MNIST digits (classification into ten).

    Parameters
    ----------
    data_home : path, default=None
        Folder whose subfolder ``mnist`` holds the four original ``idx`` files (plain or ``.gz``).
        None: the folder named by the environment variable ``SKDPBAYES_DATA``, then OpenML (needs
        pandas).
    split : {"train", "test"}, default="train"
        60,000 or 10,000 images.
    scale : bool, default=True
        True: float32 pixels in [0, 1]. False: the bytes.
    norm : float, default=None
        Clip the rows to this public L2 norm; needs ``scale=True``. An image has a norm of about 9.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the Bunch.

    Returns
    -------
    mnist : :class:`~sklearn.utils.Bunch`
        ``data`` of shape (n_samples, 784), ``target``, ``feature_names``, ``target_names``,
        ``DESCR`` and the public metadata: ``bounds`` (one pair for all pixels), ``categories``
        (empty), ``data_norm``: ``norm``, or what the bounds imply.
    """
    return _bunch("MNIST", _DIGITS, _DESCR, data_home, split, scale, norm, return_X_y)


def load_fashion_mnist(
    data_home: str | os.PathLike[str] | None = None,
    *,
    split: str = "train",
    scale: bool = True,
    norm: float | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load the Fashion-MNIST images (classification into ten kinds of clothes).

    Parameters
    ----------
    data_home : path, default=None
        Folder whose subfolder ``fashion-mnist`` holds the four original ``idx`` files (plain or
        ``.gz``), which have the names of MNIST's. None: the folder named by the environment
        variable ``SKDPBAYES_DATA``, then OpenML (needs pandas).
    split : {"train", "test"}, default="train"
        60,000 or 10,000 images.
    scale : bool, default=True
        True: float32 pixels in [0, 1]. False: the bytes.
    norm : float, default=None
        Clip the rows to this public L2 norm; needs ``scale=True``.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the Bunch.

    Returns
    -------
    fashion_mnist : :class:`~sklearn.utils.Bunch`
        As for :func:`load_mnist`; ``target_names`` are the kinds of clothes.
    """
    return _bunch(
        "Fashion-MNIST", _CLOTHES, _FASHION_DESCR, data_home, split, scale, norm, return_X_y
    )


def _bunch(
    dataset: str,
    target_names: list[str],
    description: str,
    data_home: str | os.PathLike[str] | None,
    split: str,
    scale: bool,
    norm: float | None,
    return_X_y: bool,
) -> Any:
    check_choice("split", split, ("train", "test"))
    if norm is not None and not scale:
        raise ValueError(f"norm={norm!r} needs scale=True: bytes cannot be clipped to a norm")
    pixels, labels = _load(dataset, split, data_home)
    high = 1.0 if scale else 255.0
    data_norm = high * _SIDE
    if scale:
        pixels = pixels.astype(np.float32)
        pixels /= np.float32(255.0)
    if norm is not None:
        pixels = RowNormClipper(norm, copy=False).fit_transform(pixels)
        data_norm = min(float(norm), data_norm)
    return encoding_tools.pack(
        pixels,
        labels,
        feature_names=[f"pixel{k}" for k in range(_SIDE * _SIDE)],
        as_frame=False,
        return_X_y=return_X_y,
        target_names=target_names,
        bounds=(0.0, high),
        categories={},
        data_norm=data_norm,
        DESCR=description,
    )


def _load(
    dataset: str, split: str, data_home: str | os.PathLike[str] | None
) -> tuple[np.ndarray, np.ndarray]:
    prefix = f"{_FOLDER[dataset]}/{_PREFIX[split]}"
    images_file = f"{prefix}-images-idx3-ubyte"
    images = files.locate(dataset, images_file, data_home)
    labels = files.locate(dataset, f"{prefix}-labels-idx1-ubyte", data_home)
    if images is None or labels is None:
        bunch = files.fetch(dataset, images_file, _OPENML_ID[dataset])
        rows = slice(0, _N_TRAIN) if split == "train" else slice(_N_TRAIN, None)
        pixels = bunch.data.iloc[rows].to_numpy().astype(np.uint8)
        return pixels, bunch.target.iloc[rows].to_numpy().astype(np.int64)
    pixels = _read_idx(images)
    if pixels.ndim != 3 or pixels.shape[1:] != (_SIDE, _SIDE):
        raise ValueError(f"{images} does not hold images of 28 x 28 pixels")
    digits = _read_idx(labels)
    if digits.shape != pixels.shape[:1]:
        raise ValueError(f"{images} and {labels} do not hold the same number of records")
    return pixels.reshape(len(pixels), -1), digits.astype(np.int64)


def _read_idx(path: Path) -> np.ndarray:
    """Read an idx file of bytes: magic (0, 0, 8, ndim), big-endian lengths, data."""
    content = files.read_bytes(path)
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path} is not an idx file of bytes")
    ndim = content[3]
    start = 4 + 4 * ndim
    shape = struct.unpack(f">{ndim}I", content[4:start])
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if values.size != np.prod(shape, dtype=np.int64):
        raise ValueError(f"{path} is cut short or too long for its header")
    return values.reshape(shape)
