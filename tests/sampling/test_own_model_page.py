"""The example of the guide that needs JAX and NumPyro runs where they are installed."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "own_model.rst"


def test_gradients_of_a_numpyro_model():
    pytest.importorskip("jax")
    pytest.importorskip("numpyro")
    found = re.search(r"\.\. code-block:: python\n\n((?:   .*\n|\n)+)", PAGE.read_text("utf-8"))
    names: dict = {}
    exec(textwrap.dedent(found.group(1)), names)
    np.testing.assert_allclose(names["drawn"].mean, [0.5, 1.0, -0.5], atol=0.15)
    assert names["drawn"].privacy_.epsilon == 1.0
