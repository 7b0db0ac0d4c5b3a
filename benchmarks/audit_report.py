"""Audit every estimator, mechanism and adjacency, and write the table of docs/audit.md.

    python benchmarks/audit_report.py --trials 1000 --output docs/audit.md

Each row fits an estimator on two neighboring data sets, counts how often a threshold fixed on
other fits tells them apart, and gives the epsilon that this proves. With ``--results`` every row is
kept in a file as soon as it is known, and a run that was interrupted goes on from there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from skdpbayes.auditing import audit
from tests.audit_cases import AUDITED, Case

TEXT = """\
<!-- Written by `python benchmarks/audit_report.py --trials {trials} --output docs/audit.md`. -->

# Audit report

Every estimator, mechanism and adjacency was fitted {trials} times (slow samplers {slow} times) on
each of two neighboring data sets chosen to be hard for it, and a test fixed on other fits tried to
tell the two apart. A claim is refuted if the error rates contradict any point of its privacy
profile. Each row holds with probability {confidence:.8g}; over the whole table the probability of
a false alarm is {alarms:g}.

- *Proven* is the lower bound on epsilon at the claim's delta, whatever the mechanism is. At a
  positive delta it is small by nature: the claimed epsilon belongs to events about as rare as
  delta, which so few fits do not see.
- *Share* compares rows of all kinds. The error rates prove a distance between the two data sets
  (as between two unit normals), and the claimed profile allows a largest one beside the same rate
  of false alarms; this is their ratio. Above 100% the claim is refuted. Confidence costs a quarter
  to a half of it at this number of fits, so 50% to 75% is what a claim that is attained looks like.
- *Note* says where a pair cannot reach the claim, whatever the number of fits.

Draws from tempered posteriors (pure epsilon on a ball; one draw of naive Bayes and of the hidden
Markov model) are not in the table: at a moderate epsilon the two densities differ so little that no
number of fits made here proves anything. Their densities are checked exactly in the tests, and
their untempered variants are caught. Two rows whose pair shows nothing are left to their twins,
which run the same sampler: Hamiltonian draws of logistic regression to those of the SVC, the SGNHT
chain of networks to that of the linear model.

An audit can refute and never prove. How the audits themselves are tested, and which deliberate
mistakes they catch, is told in {{doc}}`auditing`.

{n_claims} claims audited, {n_refuted} refuted.

"""
COLUMNS = (
    "estimator",
    "mechanism",
    "adjacency",
    "unit",
    "neighbors",
    "claim",
    "proven",
    "share",
    "verdict",
    "note",
)


def run(case: Case, n_trials: int, confidence: float, n_jobs: int | None) -> dict[str, Any]:
    """Audit one case and return its row."""
    data = case.data if len(case.data) == 2 else (*case.data, None)
    result = audit(
        case.build(),
        *data,
        neighbor=case.neighbor,
        score=case.score,
        n_trials=n_trials // case.cost,
        confidence=confidence,
        n_jobs=n_jobs,
    )
    return {
        "estimator": case.name.split()[0],
        "mechanism": case.label,
        "adjacency": case.adjacency,
        "unit": case.unit,
        "neighbors": case.neighbors,
        "claim": f"({result.claim.epsilon:g}, {result.claim.delta:g})",
        "proven": f"{result.epsilon_lower:.2f}",
        "share": f"{100 * result.share:.0f}%",
        "verdict": result.verdict,
        "note": case.note,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Lay out a Markdown table."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *([row[name] for name in COLUMNS] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000, help="counted fits on each data set")
    parser.add_argument("--jobs", type=int, default=2, help="joblib workers")
    parser.add_argument("--output", help="file to write the report to")
    parser.add_argument("--results", help="file that keeps finished rows")
    parser.add_argument("--quick", action="store_true", help="few fits, the first cases only")
    parser.add_argument("--false-alarms", type=float, default=1e-3, help="over the whole table")
    arguments = parser.parse_args()
    cases = AUDITED[:4] if arguments.quick else AUDITED
    n_trials = 200 if arguments.quick else arguments.trials
    confidence = 1.0 - arguments.false_alarms / len(cases)
    kept = Path(arguments.results) if arguments.results else None
    known: dict[str, Any] = {}
    if kept is not None and kept.exists():
        known = dict(json.loads(line) for line in kept.read_text().splitlines())
    rows = []
    for case in cases:
        start = time.perf_counter()
        key = f"{case.name} {case.params} {n_trials} {confidence}"
        if key not in known:
            known[key] = run(case, n_trials, confidence, arguments.jobs)
            if kept is not None:
                with kept.open("a") as lines:
                    lines.write(json.dumps([key, known[key]]) + "\n")
        rows.append(known[key])
        seconds = f"{time.perf_counter() - start:.1f} s"
        print(*known[key].values(), seconds, sep=" | ", flush=True)
    n_refuted = sum(row["verdict"] == "refuted" for row in rows)
    if arguments.output:
        slowest = max(case.cost for case in cases)
        text = TEXT.format(
            trials=n_trials,
            slow=n_trials // slowest,
            confidence=confidence,
            alarms=arguments.false_alarms,
            n_claims=len(rows),
            n_refuted=n_refuted,
        )
        Path(arguments.output).write_text(text + table(rows), encoding="utf-8")
    print(f"{len(cases)} claims audited, {n_refuted} refuted")


if __name__ == "__main__":
    main()
