"""Figures of the papers, drawn in quick mode, and what their examples say about them."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr("sys.argv", ["example"])
    monkeypatch.delenv("SKDPBAYES_DATA", raising=False)
    plt.switch_backend("agg")
    yield lambda name: runpy.run_path(str(EXAMPLES / f"{name}.py"))
    plt.close("all")


@pytest.mark.slow
def test_figure_two_of_wang_et_al(run):
    """Printed constants cost accuracy at a small epsilon, for each of the four private ways."""
    scores = run("plot_privacy_for_free")["scores"]
    panel = "Two normals, 2,000 records"
    for name in ("one posterior sample", "objective perturbation", "output perturbation"):
        assert scores[panel, name, False][0] > scores[panel, name, True][0] + 0.05
    assert scores[panel, "hybrid, SGNHT", False][0] > scores[panel, "hybrid, SGNHT", True][0] + 0.05
    best = scores[panel, "not private"]
    tight = [
        values
        for (where, *_, printed), values in scores.items()
        if where == panel and printed is False
    ]
    assert len(tight) == 4
    assert min(values[-1] for values in tight) > best - 0.03


@pytest.mark.slow
def test_figure_two_of_li_et_al(run):
    """The bound falls as 1 / L^2, grows with N, and the limit is near the exact bound."""
    found = run("plot_step_sizes")
    by_norm, by_records = found["by_norm"], found["by_records"]
    np.testing.assert_allclose(np.divide(by_norm[0.1], by_norm[10.0]), 1e4, rtol=1e-6)
    ratio = by_records[10**6][-1] / by_records[10**5][-1]
    assert 1.5 < ratio < 10 ** (1 / 3)  # the cube root, less what a smaller delta costs
    assert found["exact"] == pytest.approx(found["of_setting"](0.5, 10**4, 1.0), rel=0.06)
