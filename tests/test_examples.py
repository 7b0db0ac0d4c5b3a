"""The scripts that a newcomer would write, and what the pictures of other examples claim."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
EXAMPLES = Path(__file__).parent.parent / "examples"
AFTERNOONS = sorted(EXAMPLES.glob("plot_afternoon_*.py"))


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


@pytest.fixture
def run(monkeypatch):
    """Run an example in quick mode without a display; return its variables."""
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setenv("SKDPBAYES_QUICK", "1")
    monkeypatch.setattr("sys.argv", ["example"])
    with plt.rc_context(), warnings.catch_warnings():
        plt.switch_backend("agg")
        yield lambda name: runpy.run_path(str(EXAMPLES / f"{name}.py"))
        plt.close("all")


@pytest.mark.slow
def test_the_clinic_stays_within_its_budget_and_reports_it(run, capsys):
    found = run("plot_medical_pipeline")
    shown = capsys.readouterr().out
    truth = np.array([found["EFFECTS"][name] for name in found["found"].index])
    inside = (found["found"]["low"] <= truth) & (truth <= found["found"]["high"])
    assert inside.mean() > 0.6  # of nine 90 % intervals
    assert abs(found["ranking"].auc.value - found["area"]) < 0.03
    assert "Refused. Reserving epsilon=0.5" in shown
    assert "Heart disease risk model" in found["page"]
    assert "area under the ROC curve" in found["page"]


@pytest.mark.slow
def test_both_ways_to_protect_visits_promise_a_person_the_same(run):
    found = run("plot_units")
    claims = found["together"].privacy_, found["alone"].privacy_.of_persons(found["MOST"])
    assert [claim.unit for claim in claims] == ["person", "person"]
    assert claims[1].epsilon == pytest.approx(claims[0].epsilon, rel=1e-6)
    assert (np.bincount(found["person"]) <= found["MOST"]).all()
    person, rows = found["person"], found["first_visits"](found["person"], 2)
    assert (np.bincount(person[rows]) == np.minimum(np.bincount(person), 2)).all()
    assert (np.median(found["by_person"] - found["by_record"], axis=0) > 0).all()


@pytest.mark.slow
def test_merged_years_beat_refits_of_the_same_price(run):
    found = run("plot_yearly")
    assert 1 < found["n_years"] < 20  # the account refused a year
    assert found["spent"][-1] <= 1.0
    assert 0.99 * found["yearly"] < found["worth"].epsilon <= found["yearly"]
    _, merged, anew = (np.median(found["scores"][way], axis=0)[-1] for way in found["ways"])
    assert merged > anew + 0.02
