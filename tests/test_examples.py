"""The scripts that a newcomer would write: short, quiet, near the results of scikit-learn."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import pytest

pytest.importorskip("pandas")
AFTERNOONS = sorted((Path(__file__).parent.parent / "examples").glob("plot_afternoon_*.py"))


def test_there_are_five_of_them():
    assert len(AFTERNOONS) == 5


@pytest.mark.slow
@pytest.mark.parametrize("script", AFTERNOONS, ids=lambda path: path.stem)
def test_an_afternoon_is_short_and_quiet_and_reaches_the_distance_that_it_states(script, capsys):
    assert len(script.read_text(encoding="utf-8").splitlines()) < 40
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(script))  # each ends with an assertion
    assert capsys.readouterr().out
