"""Audit every estimator, mechanism and adjacency, and write the table of docs/audit.rst.

    python benchmarks/audit_report.py --output docs/audit.rst

Each row fits an estimator on two neighboring data sets, counts how often a threshold fixed on
other fits tells them apart, and gives the epsilon that this proves.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from skdpbayes.auditing import audit
from tests.audit_cases import CASES, Case

HEADER = """\
.. Written by ``python benchmarks/audit_report.py --trials {n_fits} --output docs/audit.rst``.

Audit report
============

Every estimator, mechanism and adjacency was fitted {n_fits} times on each of two neighboring data
sets chosen to be hard for it, and a test fixed on other fits tried to tell the two apart. *Proven*
is the lower bound on epsilon at the claim's delta that holds whatever the mechanism is; *if
Gaussian* takes the shape of the claimed profile for granted and is the fairer number where delta
is positive. A claim is refuted if the error rates contradict any point of its privacy profile.
Each bound holds with probability {confidence}; over the whole table the probability of a false
alarm is {alarms:g}. Fits are tiny (about ten records), so many pairs stay far below the claim: an
audit can refute, and never prove. How the audits themselves are tested is told in
:doc:`auditing`.

"""


def run(case: Case, n_trials: int, confidence: float, n_jobs: int | None):
    data = case.data if len(case.data) == 2 else (*case.data, None)
    return audit(
        case.build(),
        *data,
        neighbor=case.neighbor,
        score=case.score,
        n_trials=n_trials,
        confidence=confidence,
        n_jobs=n_jobs,
    )


def number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def table(rows: list[tuple[str, ...]]) -> str:
    """Lay out a list table."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", help="write the report into this file")
    parser.add_argument("--trials", type=int, default=1000, help="fits on each data set")
    parser.add_argument("--jobs", type=int, default=None, help="joblib workers")
    parser.add_argument("--quick", action="store_true", help="few fits, the first cases only")
    parser.add_argument("--false-alarms", type=float, default=1e-3, help="over the whole table")
    arguments = parser.parse_args()
    cases = CASES[:4] if arguments.quick else CASES
    n_trials = 200 if arguments.quick else arguments.trials
    confidence = 1.0 - arguments.false_alarms / len(cases)
    rows = [
        (
            "estimator",
            "mechanism",
            "adjacency",
            "neighbors",
            "claim",
            "proven",
            "if Gaussian",
            "verdict",
        )
    ]
    for case in cases:
        start = time.perf_counter()
        result = run(case, n_trials, confidence, arguments.jobs)
        claim = f"({result.claim.epsilon:g}, {result.claim.delta:g})"
        row = (
            case.name.split()[0],
            case.label,
            result.claim.adjacency,
            case.pair.description,
            claim,
            number(result.epsilon_lower),
            number(result.epsilon_if_gaussian),
            result.verdict,
        )
        rows.append(row)
        print(*row, f"{time.perf_counter() - start:.1f} s", sep=" | ", flush=True)
    text = HEADER.format(
        n_fits=n_trials, confidence=f"{confidence:.8g}", alarms=arguments.false_alarms
    ) + table(rows)
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8")
    refuted = [row for row in rows[1:] if row[-1] == "refuted"]
    print(f"{len(cases)} claims audited, {len(refuted)} refuted")


if __name__ == "__main__":
    main()
