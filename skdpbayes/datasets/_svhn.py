"""Street View House Numbers, cropped digits."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
from scipy.io import loadmat

from skdpbayes._validation import check_choice
from skdpbayes.datasets import _encoding as encoding_tools
from skdpbayes.datasets import _files as files

_SHAPE = (32, 32, 3)
_DESCR = """Street View House Numbers, cropped digits of 32 x 32 pixels, three colors: 73,257 images
for training, 26,032 for testing and 531,131 more.

Public metadata: a pixel is an integer from 0 to 255, the labels are the ten digits.

License: for non-commercial use only. Cite: Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu and
A. Y. Ng (2011), Reading digits in natural images with unsupervised feature learning, NIPS workshop
on deep learning and unsupervised feature learning.
"""


def load_svhn(
    data_home: str | os.PathLike[str] | None = None,
    *,
    split: str = "train",
    scale: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Load the cropped digits of Street View House Numbers (classification into ten).

    A folder is needed: this library has no other source for the set.

    Parameters
    ----------
    data_home : path, default=None
        Folder whose subfolder ``svhn`` holds the original ``train_32x32.mat``, ``test_32x32.mat``
        or ``extra_32x32.mat``. None: the folder named by the environment variable
        ``SKDPBAYES_DATA``.
    split : {"train", "test", "extra"}, default="train"
        73,257, 26,032 or 531,131 images.
    scale : bool, default=True
        True: float32 pixels in [0, 1]. False: the bytes.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the Bunch.

    Returns
    -------
    svhn : :class:`~sklearn.utils.Bunch`
        ``data`` of shape (n_samples, 3072), rows of images of shape ``image_shape``, (32, 32, 3),
        as :class:`~skdpbayes.ScatteringTransformer` takes them; ``target`` (the files' label 10 is
        the digit 0), ``feature_names``, ``target_names``, ``DESCR`` and the public metadata:
        ``bounds`` (one pair for all pixels), ``categories`` (empty).
    """
    check_choice("split", split, ("train", "test", "extra"))
    file = f"svhn/{split}_32x32.mat"
    path = files.locate("SVHN", file, data_home)
    if path is None:
        raise files.unavailable("SVHN", file, "no local file, and no other source for the set")
    content = loadmat(io.BytesIO(files.read_bytes(path)), variable_names=["X", "y"])
    images, labels = content.get("X"), content.get("y")
    if images is None or labels is None or images.ndim != 4 or images.shape[:3] != _SHAPE:
        raise ValueError(f"{path} does not hold images of 32 x 32 x 3 pixels and their labels")
    if labels.size != images.shape[3] or not np.isin(labels, np.arange(1, 11)).all():
        raise ValueError(f"{path} does not hold a label from 1 to 10 for every image")
    pixels = np.moveaxis(images, 3, 0).reshape(images.shape[3], -1)
    if scale:
        pixels = pixels.astype(np.float32)
        pixels /= np.float32(255.0)
    return encoding_tools.pack(
        pixels,
        labels.ravel().astype(np.int64) % 10,
        feature_names=[
            f"pixel{row}_{column}_{color}"
            for row in range(_SHAPE[0])
            for column in range(_SHAPE[1])
            for color in "rgb"
        ],
        as_frame=False,
        return_X_y=return_X_y,
        target_names=[str(digit) for digit in range(10)],
        bounds=(0.0, 1.0 if scale else 255.0),
        categories={},
        image_shape=_SHAPE,
        DESCR=_DESCR,
    )
