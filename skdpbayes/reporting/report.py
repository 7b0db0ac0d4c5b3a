"""One page for the officer who signs: the claim in words, its profile, what was released."""

from __future__ import annotations

import copy
import datetime
import json
import math
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skdpbayes._validation import check_choice
from skdpbayes.fitting.pipelines import privacy_of
from skdpbayes.fitting.storage import versions
from skdpbayes.privacy.guarantee import PrivacyGuarantee, profile_svg
from skdpbayes.reporting.summary import summary

FORMATS = ("html", "markdown", "json")
TEST_LEVELS = (0.01, 0.05, 0.1)
PRIORS = (0.01, 0.1, 0.5)
SLACK = 0.1  # beyond epsilon; the loss is larger with probability UNLIKELY * delta at most
UNLIKELY = 1.0 / -math.expm1(-SLACK)

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def report(
    model: Any,
    path: Any = None,
    *,
    format: str = "html",
    scores: Iterable[Any] = (),
    ledger: Any = None,
    title: str = "Privacy report",
    date: datetime.date | None = None,
) -> str:
    """Write what was claimed, released and spent into one self-contained page.

    Nothing here touches the records, so a report costs no privacy.

    Parameters
    ----------
    model : estimator, pipeline, PrivacyGuarantee or PrivacyLedger
        What was fitted, or a ledger alone.
    path : str, path or None, default=None
        The file to write; None only returns the text.
    format : {"html", "markdown", "json"}, default="html"
        The page loads nothing from elsewhere and runs no script.
    scores : iterable of released scores, default=()
        From :mod:`skdpbayes.metrics`; their claims are listed with them.
    ledger : PrivacyLedger or None, default=None
        Its account is printed; None takes the ledger of the last step, if it has one.
    title : str, default="Privacy report"
        The heading.
    date : datetime.date or None, default=None
        Printed on the page; None is today. Apart from it, equal models give equal pages.

    Returns
    -------
    str
        The text of the page.
    """
    check_choice("format", format, FORMATS)
    content = _content(model, list(scores), ledger, title, date or datetime.date.today())
    write = {"html": _as_html, "markdown": _as_markdown, "json": _as_json}[format]
    text = write(content)
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _content(
    model: Any, scores: list[Any], ledger: Any, title: str, date: datetime.date
) -> dict[str, Any]:
    """Collect everything that a page says, as plain text and tables."""
    is_ledger = hasattr(model, "reserve") and hasattr(model, "entries")
    content: dict[str, Any] = {"title": title, "date": date.isoformat(), "sections": []}
    add = content["sections"].append
    tables: list[Table]
    if is_ledger:
        claim, ledger = model.spent(), model
    else:
        claim = model if isinstance(model, PrivacyGuarantee) else privacy_of(model)
    content["claim"] = json.loads(claim.to_json())
    profile = [] if math.isinf(claim.epsilon) else claim.profile()
    add({"title": "Claim", "text": [str(claim)], "profile": profile})
    tables = _meaning_tables(claim, profile) if profile else []
    add({"title": "What this means", "text": _meaning(claim), "tables": tables})
    if not is_ledger and not isinstance(model, PrivacyGuarantee):
        given = model.steps if isinstance(model, Pipeline) else [("estimator", model)]
        steps = [
            (f"{name} ({type(step).__name__})", step)
            for name, step in given
            if step is not None and not isinstance(step, str)
        ]
        final = steps[-1][1]
        prices = [(name, _price(step)) for name, step in steps]
        add({"title": "Steps", "tables": [(("step", "price"), prices)]})
        add(
            {
                "title": "Public parameters",
                "text": ["All of these were chosen without looking at the records."],
                "tables": [((name, "value"), _parameters(step)) for name, step in steps],
            }
        )
        released = [(name, _released(step)) for name, step in steps if hasattr(step, "privacy_")]
        tables = [((name, "shape or value"), rows) for name, rows in released]
        add({"title": "Released", "tables": tables})
        coefficients = _coefficients(model)
        if coefficients is not None:
            add(coefficients)
        ledger = getattr(final, "ledger", None) if ledger is None else ledger
    if scores:
        add({"title": "Scores", "tables": [_score_table(scores)]})
        if not is_ledger and not isinstance(model, PrivacyGuarantee):
            whole = privacy_of(model, scores)
            content["sections"][-1]["text"] = [f"Model and scores together: {whole}"]
    if ledger is not None and hasattr(ledger, "entries"):
        add(_account(ledger))
    add({"title": "Versions", "tables": [(("package", "version"), list(versions().items()))]})
    return content


def _meaning(claim: PrivacyGuarantee) -> list[str]:
    if math.isinf(claim.epsilon):
        return ["Nothing is protected: the release may reveal every record."]
    text = [
        "Somebody who knows all records but one, and everything about the method, sees the "
        "release and wants to tell the records from those that remain when "
        f"{claim.neighbor}. The tables say how well the best possible attack can do, whatever its "
        "computing power."
    ]
    if claim.conditions:
        text.append(f"This holds if {'; '.join(claim.conditions)}.")
    if claim.seeded:
        text.append(
            "The noise came from a seed. Whoever knows the seed can subtract the noise: keep it "
            "secret, and use it once."
        )
    return text


def _meaning_tables(claim: PrivacyGuarantee, profile: list[tuple[float, float]]) -> list[Table]:
    power: list[tuple[str, ...]]
    odds: list[tuple[str, ...]]
    power = [(f"{level:.0%}", f"{_power(profile, level):.1%}") for level in TEST_LEVELS]
    odds = [(f"{prior:.0%}", f"{_posterior(claim, prior):.1%}") for prior in PRIORS]
    return [
        (("false alarms that the attacker accepts", "chance to detect the record, at most"), power),
        (
            (
                "suspicion before the release",
                "afterwards, at most"
                + (f" (but for probability {UNLIKELY * claim.delta:.2g})" if claim.delta else ""),
            ),
            odds,
        ),
    ]


def _power(profile: list[tuple[float, float]], level: float) -> float:
    """Largest power of a test of this level: least of delta(e) + exp(e) level over e >= 0."""
    return min(1.0, *(delta + math.exp(epsilon) * level for epsilon, delta in profile))


def _posterior(claim: PrivacyGuarantee, prior: float) -> float:
    """Largest posterior probability.

    P(loss > epsilon + h) is at most delta / (1 - exp(-h)), because every such outcome contributes
    that share of its probability to delta.
    """
    loss = claim.epsilon + (SLACK if claim.delta else 0.0)
    odds = math.exp(min(loss, 700.0)) * prior / (1.0 - prior)
    return odds / (1.0 + odds)


def _price(step: Any) -> str:
    claim = getattr(step, "privacy_", None)
    return "free: learns nothing" if claim is None else str(claim)


def _parameters(step: Any) -> list[tuple[str, ...]]:
    # a copy of a fitted step has no seeds, neither its own nor those of what it holds
    return [
        (parameter, _short(value))
        for parameter, value in sorted(copy.copy(step).get_params(deep=False).items())
        if parameter not in ("random_state", "ledger")
    ]


def _released(step: Any) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, value in sorted(vars(step).items()):
        if name.endswith("_") and not name.startswith("_") and name != "privacy_":
            array = isinstance(value, np.ndarray) and value.size > 6
            rows.append((name, f"array of shape {value.shape}" if array else _short(value)))
    return rows


def _coefficients(model: Any) -> dict[str, Any] | None:
    try:
        table = summary(model)
    except TypeError:
        return None
    heads: tuple[str, ...] = ("class", "column", "coefficient")
    if table.interval is not None:
        heads += (f"{table.level:.0%} interval",)
    rows: list[tuple[str, ...]] = []
    for row in table.rows():
        cells = (row["output"], row["term"], f"{row['coef']:.5g}")
        rows.append((*cells, f"{row['low']:.5g} to {row['high']:.5g}") if "low" in row else cells)
    return {
        "title": "Coefficients",
        "text": ["Per unit of the columns as they came."],
        "tables": [(heads, rows)],
    }


def _score_table(scores: list[Any]) -> Table:
    rows: list[tuple[str, ...]] = []
    for score in scores:
        released = getattr(score, "auc", score)
        if not hasattr(released, "interval"):  # a confusion matrix
            released = released.accuracy()
        low, high = released.interval
        interval = f"{low:.4g} to {high:.4g} ({released.level:.0%})"
        rows.append((released.name, f"{released.value:.4g}", interval, str(released.privacy)))
    return ("score", "value", "interval", "claim"), rows


def _account(ledger: Any) -> dict[str, Any]:
    rows: list[tuple[str, ...]] = [
        (f"{entry.id}", entry.label, entry.mechanism, f"{entry.epsilon:.4g}", f"{entry.delta:.4g}")
        for entry in ledger.entries()
    ]
    return {
        "title": "Budget",
        "text": [
            f"Budget of the account: epsilon {ledger.epsilon:g}, delta {ledger.delta:g} "
            f"({ledger.adjacency}). Spent so far: {ledger.spent()}",
            f"Used: {ledger.used():.1%} of what the account admits. A release of pure epsilon "
            f"{ledger.remaining_epsilon():.4g} would still be admitted.",
        ],
        "tables": [(("number", "release", "mechanism", "epsilon", "delta"), rows)],
    }


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    text = str(value) if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 200 else f"{text[:197]}..."


def _as_json(content: dict[str, Any]) -> str:
    tidy = {
        **content,
        "sections": [
            {
                **{key: value for key, value in section.items() if key != "tables"},
                "tables": [
                    {"columns": list(heads), "rows": [list(row) for row in rows]}
                    for heads, rows in section.get("tables", ())
                ],
            }
            for section in content["sections"]
        ],
    }
    return json.dumps(tidy, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _as_markdown(content: dict[str, Any]) -> str:
    def cell(text: str) -> str:
        return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")

    lines = [f"# {cell(content['title'])}", "", content["date"], ""]
    for section in content["sections"]:
        lines += [f"## {cell(section['title'])}", ""]
        for text in section.get("text", ()):
            lines += [cell(text), ""]
        for heads, rows in section.get("tables", ()):
            lines.append("| " + " | ".join(cell(head) for head in heads) + " |")
            lines.append("|" + " --- |" * len(heads))
            lines += ["| " + " | ".join(cell(entry) for entry in row) + " |" for row in rows]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.6rem;margin-bottom:0}
h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #ccc}
table{border-collapse:collapse;margin:.8rem 0;width:100%;font-size:.92rem}
th,td{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid #e5e5e5;
vertical-align:top;overflow-wrap:break-word}
td:not(:first-child){overflow-wrap:anywhere}
.claim{font-size:1.1rem;background:#f2f6f4;padding:.8rem 1rem;border-left:4px solid #2a6f5b}
svg{max-width:100%;height:auto}
@media print{body{margin:0;max-width:none}h2{break-after:avoid}tr{break-inside:avoid}}
"""


def _as_html(content: dict[str, Any]) -> str:
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(content['title'])}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(content['title'])}</h1><p>{escape(content['date'])}</p>",
    ]
    for section in content["sections"]:
        parts.append(f"<h2>{escape(section['title'])}</h2>")
        kind = ' class="claim"' if section["title"] == "Claim" else ""
        parts += [f"<p{kind}>{escape(text)}</p>" for text in section.get("text", ())]
        if section.get("profile"):
            parts.append(profile_svg(section["profile"]))
        for heads, rows in section.get("tables", ()):
            parts.append(_html_table(heads, rows))
    parts.append("</body></html>")
    return "\n".join(parts) + "\n"


def _html_table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
