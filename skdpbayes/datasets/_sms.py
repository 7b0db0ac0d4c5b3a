"""UCI SMS spam collection."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from skdpbayes.datasets import _encoding as encoding_tools
from skdpbayes.datasets import _files as files

_TARGET_NAMES = ["ham", "spam"]
_FILE = "SMSSpamCollection"
_DESCR = """SMS spam collection (UCI), 5,574 text messages, 13.4 % spam.

A vocabulary that is learned from the messages is not private: use a fixed one, or
sklearn.feature_extraction.text.HashingVectorizer, which learns nothing, followed by
skdpbayes.preprocessing.RowNormClipper.

License: CC BY 4.0. Cite: T. Almeida and J. Hidalgo (2011), SMS Spam Collection, UCI Machine
Learning Repository, https://doi.org/10.24432/C5CC84.
"""


def load_sms_spam(
    data_home: str | os.PathLike[str] | None = None, *, return_X_y: bool = False
) -> Any:
    """Load the SMS spam collection (binary classification of text).

    The set is not on OpenML, so a folder is needed.

    Parameters
    ----------
    data_home : path, default=None
        Folder with ``SMSSpamCollection``. None: the folder named by the environment variable
        ``SKDPBAYES_DATA``.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the Bunch.

    Returns
    -------
    sms : :class:`~sklearn.utils.Bunch`
        ``data`` (object array of messages), ``target`` (1: spam), ``feature_names``,
        ``target_names``, ``DESCR``; ``bounds`` and ``categories`` are empty, text has none.
    """
    path = files.locate("SMS spam", _FILE, data_home)
    if path is None:
        raise files.unavailable("SMS spam", _FILE, "no local file, and the set is not on OpenML")
    labels, messages = [], []
    for number, line in enumerate(files.lines(path)):
        label, tab, message = line.partition("\t")
        if not tab:
            raise ValueError(f"{path}, record {number + 1}: no tab between label and message")
        labels.append(label)
        messages.append(message)
    return encoding_tools.pack(
        np.array(messages, dtype=object),
        encoding_tools.category_codes(np.array(labels), _TARGET_NAMES, "label"),
        feature_names=["message"],
        as_frame=False,
        return_X_y=return_X_y,
        target_names=_TARGET_NAMES,
        bounds={},
        categories={},
        DESCR=_DESCR,
    )
