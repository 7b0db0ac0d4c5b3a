"""The front door shows every estimator there is."""

from __future__ import annotations

import argparse
import inspect

import pytest

import skdpbayes
from skdpbayes import _demo


def test_every_estimator_is_in_the_demo():
    exported = {
        name
        for name in skdpbayes.__all__
        if inspect.isclass(getattr(skdpbayes, name))
        and hasattr(getattr(skdpbayes, name), "sample_posterior")
    }
    assert exported == {demo.estimator for demo in _demo.DEMOS}


def test_the_demo_prints_one_line_per_estimator_and_epsilon(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "demo.png"
    args = argparse.Namespace(quick=True, epsilon=[0.5, 2.0], plot=str(picture))
    assert _demo.run(args) == 0
    out = capsys.readouterr().out
    for demo in _demo.DEMOS:
        assert demo.estimator in out
    assert out.count("ε=0.5") == out.count("ε=2") == len(_demo.DEMOS)
    assert picture.stat().st_size > 10_000
