"""The front door shows every estimator there is."""

from __future__ import annotations

import argparse
import inspect

import pytest

import skdpbayes
from skdpbayes import _demo
from skdpbayes.privacy import GaussianDP, PrivacyGuarantee


def test_every_estimator_is_in_the_demo():
    """But the one that needs torch, which most readers have not installed."""
    exported = {
        name
        for name in skdpbayes.__all__
        if inspect.isclass(getattr(skdpbayes, name))
        and hasattr(getattr(skdpbayes, name), "sample_posterior")
        and hasattr(getattr(skdpbayes, name), "predict")
    }
    assert exported - {"DPSGLDTorchClassifier"} == {demo.estimator for demo in _demo.DEMOS}


def test_the_demo_prints_a_table_a_plot_and_a_claim_that_fit_a_terminal(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "demo.png"
    args = argparse.Namespace(quick=True, epsilon=[0.5, 2.0], plot=str(picture))
    assert _demo.run(args) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert max(map(len, out.splitlines())) <= 80 + len(str(tmp_path))
    for letter, demo in zip(_demo.LETTERS, _demo.DEMOS, strict=False):
        (line,) = [line for line in out.splitlines() if line.startswith(f"{letter} {demo.name} ")]
        delta, *numbers = line.removeprefix(f"{letter} {demo.name}").replace("(pure)", "").split()
        assert float(delta) == demo.params.get("delta", 0.0)
        at_half, at_two, plain, seconds = map(float, numbers)
        assert 0.0 < min(at_half, at_two, plain) <= max(at_half, at_two, plain) <= 1.0
        assert seconds > 0.0
    assert "(2, 1e-06)-differentially private" in out
    assert picture.stat().st_size > 10_000


def made_up_rows():
    """Two estimators, three epsilon: one keeps 0, 50 and 100 %, the other falls below guessing."""
    levels = {"First": (0.6, 0.75, 0.9), "Second": (0.5, 0.6, 0.93)}
    return [
        _demo.Row(name, "task", epsilon, None, accuracy, 0.9, 0.6, 0.1)
        for name, accuracies in levels.items()
        for epsilon, accuracy in zip((0.1, 1.0, 10.0), accuracies, strict=True)
    ]


def test_the_text_plot_puts_letters_at_the_share_that_is_kept():
    lines = _demo.text_plot(made_up_rows(), height=10).splitlines()
    found = {(row, letter): line.count(letter) for row, line in enumerate(lines) for letter in "AB"}
    assert {place: count for place, count in found.items() if count} == {
        (0, "A"): 1,  # 100 %
        (0, "B"): 1,  # above 100 % is drawn at the edge
        (5, "A"): 1,  # 50 %
        (10, "A"): 1,  # 0 %
        (10, "B"): 2,  # guessing, and worse
    }
    assert lines[0].index("A") > lines[5].index("A") > lines[10].index("A")
    axis = lines[-1]
    assert axis.index("epsilon 0.1") == lines[10].index("A")
    assert [axis.count(f"epsilon {epsilon}") for epsilon in ("0.1", "1 ", "10")] == [1, 1, 1]


def test_the_default_table_fits_eighty_columns():
    claim = PrivacyGuarantee.from_event(
        GaussianDP(1.0), delta=1e-6, adjacency="replace_one", mechanism="test"
    )
    longest = max((demo.estimator for demo in _demo.DEMOS), key=len)
    rows = [
        _demo.Row(longest, "task", epsilon, claim, 0.75, 0.8, 0.7, 12.0)
        for epsilon in _demo.EPSILONS
    ]
    lines = _demo.format_table(rows).splitlines()
    assert len({len(line) for line in lines[1:]}) == 1
    assert max(map(len, lines)) <= 80


def test_a_picture_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    args = argparse.Namespace(quick=True, epsilon=None, plot=str(tmp_path / "none" / "demo.png"))
    with pytest.raises(SystemExit, match="no folder"):
        _demo.run(args)
