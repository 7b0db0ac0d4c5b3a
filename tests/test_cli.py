"""The command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types

import numpy as np
import pytest

import skdpbayes
from skdpbayes import PrivacyLedger
from skdpbayes.__main__ import main
from skdpbayes.privacy.events import GaussianDP, PureDP
from skdpbayes.privacy.guarantee import PrivacyGuarantee
from tests.contract import CASES


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.ledger"


def reserve(ledger, event, label, **fields):
    guarantee = PrivacyGuarantee.from_event(
        event, delta=ledger.delta, adjacency=ledger.adjacency, mechanism="test\nnoise", **fields
    )
    ledger.reserve(guarantee, label=label)


def test_init_creates_the_ledger(path, capsys):
    arguments = ["--epsilon", "2.5", "--delta", "1e-6", "--adjacency", "zero_out"]
    assert main(["ledger", "init", str(path), *arguments]) == 0
    ledger = PrivacyLedger(path)
    assert (ledger.epsilon, ledger.delta, ledger.adjacency) == (2.5, 1e-6, "zero_out")
    assert capsys.readouterr().out == (
        f"Created {path}\nBudget: epsilon=2.5, delta=1e-06, adjacency=zero_out, unit=record\n"
    )


def test_init_chooses_the_filter_and_the_unit(path, capsys):
    create = ["ledger", "init", str(path), "--epsilon", "2"]
    assert main([*create, "--filter", "gaussian"]) == 1
    assert "needs a delta > 0" in capsys.readouterr().err
    assert not path.exists()
    assert main([*create, "--delta", "1e-6", "--filter", "sum", "--unit", "person"]) == 0
    assert (PrivacyLedger(path).filter, PrivacyLedger(path).unit) == ("sum", "person")


def test_init_leaves_an_existing_file_alone(path, capsys):
    path.write_text("something")
    assert main(["ledger", "init", str(path), "--epsilon", "1"]) == 1
    assert capsys.readouterr().err.startswith(f"skdpbayes: error: {path} exists;")
    assert path.read_text() == "something"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--epsilon"),
        (["--epsilon", "0"], "must be > 0, got 0"),
        (["--epsilon", "nan"], "must be > 0, got nan"),
        (["--epsilon", "one"], "invalid epsilon value: 'one'"),
        (["--epsilon", "1", "--delta", "1"], "must be in [0, 1), got 1"),
        (["--epsilon", "1", "--adjacency", "add"], "replace_one"),
    ],
)
def test_init_refuses_bad_budgets(path, capsys, arguments, message):
    with pytest.raises(SystemExit) as exit_:
        main(["ledger", "init", str(path), *arguments])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err
    assert not path.exists()


def test_show_prints_reservations_and_totals(path, capsys):
    ledger = PrivacyLedger(path, epsilon=2.0)
    reserve(ledger, PureDP(0.5), "first")
    reserve(ledger, PureDP(0.75), "second", seeded=True, conditions=("the chain has converged",))
    assert main(["ledger", "show", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Ledger: {path}"
    header, _, first, second = lines[2:6]
    assert " ".join(header.split()) == "id time (UTC) label mechanism epsilon delta seeded pid plan"
    assert first.split()[0] == "1"
    assert first.split()[3:9] == ["first", "test", "noise", "0.5", "0", "no"]
    assert second.split()[3:9] == ["second", "test", "noise", "0.75", "0", "yes"]
    assert first.index("0.5") == header.index("epsilon")
    assert lines[7:] == [
        "Reservations: 2",
        "Budget:       epsilon=2, delta=0, adjacency=replace_one, unit=record",
        "Used:         62.5 % of the budget (sum filter)",
        "Remaining:    epsilon=0.75 for a pure epsilon-DP fit",
        "Composed:     epsilon=1.25 at delta=0",
        "  if:         the chain has converged",
    ]


def test_show_says_what_the_composed_total_assumes_and_which_plans_are_open(path, capsys):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5)
    reserve(ledger, GaussianDP(0.1), "first")
    listed = PrivacyGuarantee(0.1, 0.0, "replace_one", "noise", PureDP(0.1))
    ledger.plan([listed] * 2, label="planned").reserve(listed)
    assert main(["ledger", "show", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[6].split()[-2:] == [str(os.getpid()), "2"]
    assert lines[-2:] == [
        "  if:         the reservations were not chosen in view of earlier releases",
        "Open plan:    reservation 2",
    ]


def test_show_prints_an_empty_ledger_and_the_last_reservations(path, capsys):
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5)
    assert main(["ledger", "show", str(path)]) == 0
    assert "Reservations: 0\n" in capsys.readouterr().out
    for i in range(5):
        reserve(ledger, GaussianDP(0.1), f"fit{i}")
    for last, expected in ((2, ["fit3", "fit4"]), (9, [f"fit{i}" for i in range(5)]), (0, [])):
        assert main(["ledger", "show", str(path), "--last", str(last)]) == 0
        out = capsys.readouterr().out
        assert re.findall(r"fit\d", out) == expected
        hidden = f" ({5 - len(expected)} earlier ones not shown)" if len(expected) < 5 else ""
        assert f"Reservations: 5{hidden}\n" in out


def test_remaining_is_never_printed_above_what_fits(path, capsys):
    ledger = PrivacyLedger(path, epsilon=1.0)
    reserve(ledger, PureDP(1.0 / 3.0), "third")
    main(["ledger", "show", str(path)])
    assert "Remaining:    epsilon=0.666666 " in capsys.readouterr().out


def test_errors_are_one_line_and_a_status():
    result = subprocess.run(
        [sys.executable, "-m", "skdpbayes", "ledger", "show", "/nonexistent/budget"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("skdpbayes: error: There is no ledger at /nonexistent/budget.")


def test_version_and_help(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"skdpbayes {skdpbayes.__version__}\n"
    for arguments, words in (
        (["--help"], ("demo", "ledger")),
        (["ledger", "--help"], ("init", "show")),
        (["demo", "--help"], ("--plot", "--epsilon", "--quick")),
    ):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 0
        out = capsys.readouterr().out
        assert all(word in out for word in words)


def test_a_command_is_required(capsys):
    for arguments in ([], ["ledger"]):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 2
        assert "required" in capsys.readouterr().err


def test_demo_passes_its_flags_on(monkeypatch):
    received = []
    stand_in = types.ModuleType("skdpbayes._demo")
    stand_in.run = received.append
    monkeypatch.setitem(sys.modules, "skdpbayes._demo", stand_in)
    monkeypatch.setattr(skdpbayes, "_demo", stand_in, raising=False)
    assert main(["demo", "--quick", "--epsilon", "0.5", "2", "--plot", "out.png"]) == 0
    assert main(["demo"]) == 0
    flags = [(given.quick, given.epsilon, given.plot) for given in received]
    assert flags == [(True, [0.5, 2.0], "out.png"), (False, None, None)]


def test_report_reads_a_model_that_to_json_wrote(tmp_path, capsys):
    X = np.linspace(-1.0, 1.0, 200)[:, None]
    model = skdpbayes.ObjPertLogisticRegression(epsilon=0.5).fit(X, X[:, 0] > 0.1)
    source, out = tmp_path / "model.json", tmp_path / "page.html"
    model.to_json(source)
    assert main(["report", str(source), str(out)]) == 0
    assert capsys.readouterr().out == f"Wrote {out}\n"
    page = out.read_text(encoding="utf-8")
    assert str(model.privacy_) in page
    assert "ObjPertLogisticRegression" in page
    source.write_text(source.read_text(encoding="utf-8")[:-200], encoding="utf-8")
    assert main(["report", str(source), str(out)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"skdpbayes: error: {source} is not a model that can be loaded")


def test_compile_uses_every_estimator_and_prints_seconds(capsys):
    assert main(["compile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line[:28].strip() for line in lines]
    persons = "DPSGLDClassifier, units"  # weighted rows have kernels of their own
    assert sorted(names) == sorted([*(case.name for case in CASES), persons, "all"])
    seconds = [float(line[28:].split()[0]) for line in lines]
    assert abs(seconds[-1] - sum(seconds[:-1])) < 0.1 * len(seconds)
