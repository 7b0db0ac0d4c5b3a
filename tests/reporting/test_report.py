from __future__ import annotations

import datetime
import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skdpbayes import (
    BoundsScaler,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    PrivacyLedger,
    PrivateBayesianRidge,
    metrics,
    private_preprocessor,
    report,
    summary,
)
from skdpbayes.__main__ import main
from skdpbayes.model_selection import PrivateGridSearchCV
from skdpbayes.privacy import GaussianDP, PrivacyGuarantee
from skdpbayes.reporting.report import _posterior, _power
from skdpbayes.reporting.summary import Summary

EVIL = "<script>alert('x')</script>"
DAY = datetime.date(2026, 1, 2)


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(20, 80, 20_000), EVIL: rng.uniform(0, 1000, 20_000)})
    y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-0.1 * (X["age"] - 50))), "ill", "well")
    return X, y


@pytest.fixture(scope="module")
def fitted(records, tmp_path_factory):
    ledger = PrivacyLedger(tmp_path_factory.mktemp("l") / "l.sqlite", epsilon=3, delta=1e-5)
    return make_pipeline(
        private_preprocessor({"age": (20, 80), EVIL: (0, 1000)}),
        ObjPertLogisticRegression(1.0, 1e-6, ledger=ledger, random_state=731_945),
    ).fit(*records)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in ("meta", "line", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("line", "polyline"):
            assert self.open.pop() == tag


def test_page_is_whole_and_loads_nothing(fitted, tmp_path):
    path = tmp_path / "report.html"
    text = report(fitted, path, date=DAY)
    assert path.read_text(encoding="utf-8") == text
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    names = {tag for tag, _ in tags.seen}
    assert names.isdisjoint({"script", "img", "link", "iframe", "object"})
    assert {"svg", "polyline", "table", "h1"} <= names
    attributes = {name for _, given in tags.seen for name in given}
    assert attributes.isdisjoint({"src", "href", "onload", "onclick"})
    assert "url(" not in text
    assert EVIL not in text
    assert "&lt;script&gt;" in text


BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
QUIET = ("sandbox", "first-run", "proxy-server")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [500, 1200])  # no window is narrower than 500
def test_a_browser_shows_the_page_within_its_width(fitted, tmp_path, width):
    """A copy with a script of its own tells how wide the page has become."""
    look = "<script>document.title = `${document.documentElement.scrollWidth} ${innerWidth}`;"
    look += "window.onerror = () => document.title = 'error'</script></body>"
    page = tmp_path / "page.html"
    page.write_text(report(fitted, date=DAY).replace("</body>", look), encoding="utf-8")
    switches = ["--headless", f"--window-size={width},900", f"--user-data-dir={tmp_path / 'user'}"]
    switches += [f"--no-{name}" for name in QUIET] + ["--disable-gpu", "--dump-dom"]
    shown = subprocess.run(
        [BROWSER, *switches, page.as_uri()], capture_output=True, text=True, timeout=120
    ).stdout
    used, given = map(int, re.search("<title>(.*?)</title>", shown)[1].split())
    assert used <= given
    assert given == pytest.approx(width, abs=20)
    assert EVIL not in shown
    assert "&lt;script&gt;alert" in shown


def test_page_says_what_matters_and_no_secret(fitted):
    for kind in ("html", "markdown", "json"):
        text = report(fitted, format=kind, date=DAY)
        assert "2026-01-02" in text
        assert "(1, 1e-06)-differentially private" in text
        assert "objpertlogisticregression (ObjPertLogisticRegression)" in text
        assert "information_" in text
        assert "731945" not in text.replace("_", "").replace(",", "")
    assert text == report(fitted, format=kind, date=DAY)


def test_the_page_of_a_search_has_no_seed_of_its_estimator(records):
    X, y = records
    model = LaplaceNaiveBayes(distribution="gaussian", bounds=[(20, 80), (0, 1000)])
    model.set_params(random_state=731_945)
    grid = {"alpha": [0.1, 1.0]}
    found = PrivateGridSearchCV(model, grid, delta=0.0, random_state=731_945).fit(X, y)
    assert "731945" not in report(found)


def test_json_page_is_data(fitted):
    page = json.loads(report(fitted, format="json", date=DAY))
    assert PrivacyGuarantee.from_json(json.dumps(page["claim"])) == fitted[-1].privacy_
    titles = [section["title"] for section in page["sections"]]
    assert titles[:2] == ["Claim", "What this means"]
    assert {"Steps", "Public parameters", "Released", "Coefficients", "Budget"} <= set(titles)
    profile = page["sections"][0]["profile"]
    assert profile[0][1] == pytest.approx(fitted[-1].privacy_.delta_at(0.0))


def test_scores_and_their_claims_are_added(fitted, records):
    X, y = records
    score = metrics.private_accuracy(y, fitted.predict(X), epsilon=0.5)
    ranking = metrics.private_ranking(
        y, fitted.predict_proba(X)[:, 0], pos_label="ill", epsilon=0.5
    )
    table = metrics.private_confusion_matrix(
        y, fitted.predict(X), labels=fitted.classes_, epsilon=0.5
    )
    text = report(fitted, format="markdown", scores=[score, ranking, table], date=DAY)
    assert "Model and scores together: (2.4" in text or "Model and scores together: (2.5" in text
    assert f"| accuracy | {score.value:.4g} |" in text
    assert "area under the ROC curve" in text


def test_bounds_on_attacks_against_the_gaussian_mechanism():
    from scipy.special import ndtr, ndtri

    claim = PrivacyGuarantee.from_event(
        GaussianDP(0.5), delta=1e-6, adjacency="replace_one", mechanism="noise"
    )
    for level in (0.01, 0.05, 0.1):
        truth = ndtr(0.5 + ndtri(level))
        assert truth <= _power(claim.profile(), level) <= truth * 1.03
    # P(loss > e) of the Gaussian mechanism, against the promise of the table
    loss = math.log(_posterior(claim, 0.5) / (1 - _posterior(claim, 0.5)))
    exceeded = ndtr((0.5**2 / 2 - loss) / 0.5)
    assert exceeded <= 10.51 * claim.delta


def test_guarantees_ledgers_and_models_without_coefficients(fitted, records):
    assert "Steps" not in report(fitted[-1].privacy_, format="markdown")
    account = report(fitted[-1].ledger, format="markdown")
    assert "| 1 | ObjPertLogisticRegression |" in account
    counts = LaplaceNaiveBayes(epsilon=0.5).fit(np.eye(4, dtype=int)[[0, 1, 2] * 9], [0, 1, 1] * 9)
    assert "Coefficients" not in report(counts, format="markdown")
    free = make_pipeline(BoundsScaler((0, 1000)), ObjPertLogisticRegression(np.inf)).fit(*records)
    assert "Nothing is protected" in report(free)


def test_summary_undoes_the_scaling(fitted, records):
    table = summary(fitted)
    frame = table.to_frame()
    assert list(frame.index) == ["age", EVIL, "(intercept)"]
    assert frame.loc["age", "coef"] == pytest.approx(-0.1, abs=0.02)  # of "well", per year
    assert frame.loc["age", "low"] < frame.loc["age", "coef"] < frame.loc["age", "high"]
    ends = fitted[-1].interval(0.9)["coef"][0, 0]
    per_year = fitted[0].coef_in_units(np.array([1.0, 0.0]))[0][0]
    np.testing.assert_allclose(frame.loc["age", ["low", "high"]], ends * per_year, rtol=0.02)
    assert re.search(r"^age +-0\.\d+ +\[-0\.\d+, -0\.\d+\]$", str(table), re.MULTILINE)
    X, _ = records
    logits = X.to_numpy() @ table.coef[0, :-1] + table.coef[0, -1]
    np.testing.assert_allclose(logits, fitted.decision_function(X), rtol=1e-9, atol=1e-9)


def test_summary_says_that_rows_may_have_been_cut(fitted, records):
    rows, y = records[0].to_numpy(), records[1]
    assert summary(fitted).cut_at is None or "longer than" in str(summary(fitted))
    never = make_pipeline(
        BoundsScaler((0, 1000), norm=2.0), ObjPertLogisticRegression(data_norm=2.0)
    )
    assert summary(never.fit(rows, y)).cut_at is None
    never[-1].data_norm = 1.0
    cut = summary(never.fit(rows, y))
    assert cut.cut_at == 1.0
    assert "those longer than 1 were cut" in str(cut)
    assert summary(ObjPertLogisticRegression(np.inf).fit(rows, y)).cut_at is None


def test_summary_says_where_the_interval_is_that_of_the_prior():
    told = [
        str(Summary("title", ["age"], ["yes"], np.array([[c]]), np.array([[[0.5, 2.0]]]), 0.9))
        for c in (1.0, 3.0)
    ]
    assert ["hardly measured" in text for text in told] == [False, True]


def test_summary_says_when_it_cannot(records):
    X, y = records
    twice = make_pipeline(Normalizer(), BoundsScaler((0, 1)), ObjPertLogisticRegression())
    with pytest.raises(TypeError, match=r"pipeline\[-1\]"):
        summary(twice.fit(X, y))
    with pytest.raises(TypeError, match="no coefficients"):
        summary(LaplaceNaiveBayes(epsilon=0.5).fit([[0], [1]] * 9, [0, 1] * 9))


def test_command_line_writes_a_ledgers_report(fitted, tmp_path, capsys):
    out = tmp_path / "account.html"
    assert main(["report", str(fitted[-1].ledger.path), str(out)]) == 0
    assert "ObjPertLogisticRegression" in out.read_text(encoding="utf-8")
    assert main(["report", str(tmp_path / "none.sqlite"), str(out)]) == 1


def test_summary_of_a_regression():
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, (5000, 1))
    y = 2.0 * age[:, 0] + rng.normal(0, 5, 5000)
    bounds = BoundsScaler((20, 80), norm=1.0)
    ridge = PrivateBayesianRidge(2.0, 1e-6, target_bounds=(0, 200), random_state=0)
    table = summary(make_pipeline(bounds, ridge).fit(age, y))
    assert table.coef.shape == (1, 2)
    assert table.interval.shape == (1, 2, 2)
    (low, high), _ = table.interval[0]
    assert low < 2.0 < high
    assert high - low < 0.2
    assert str(table).count("[") == 3  # the head, the slope and the intercept
