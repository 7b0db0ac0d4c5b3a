"""The promise a fitted estimator makes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, TypeAlias, get_args

from skdpbayes.privacy._numeric import check_nonnegative
from skdpbayes.privacy.events import (
    PrivacyEvent,
    check_probability,
    decode,
    encode,
    event_from_dict,
)

Adjacency: TypeAlias = Literal["replace_one", "zero_out"]
Unit: TypeAlias = Literal["record", "person"]

_NEIGHBOR = {
    ("record", "replace_one"): "one record is replaced by another",
    ("record", "zero_out"): "one record is replaced by a null record that contributes nothing",
    ("person", "replace_one"): "all records of one person are replaced by any others",
    ("person", "zero_out"): (
        "all records of one person are replaced by null records that contribute nothing"
    ),
}
_FIELDS = ("epsilon", "delta", "adjacency", "mechanism", "event", "seeded", "conditions", "unit")


def check_adjacency(adjacency: str) -> Adjacency:
    """Return `adjacency`, refusing anything but the two names there are."""
    if adjacency not in get_args(Adjacency):
        raise ValueError(f"adjacency must be 'replace_one' or 'zero_out', got {adjacency!r}")
    return adjacency  # type: ignore[return-value]


def check_unit(unit: str) -> Unit:
    """Return `unit`, refusing anything but the two names there are."""
    if unit not in get_args(Unit):
        raise ValueError(
            "unit must be 'record' or 'person' (all records with one id, whatever the ids stand "
            f"for), got {unit!r}"
        )
    return unit  # type: ignore[return-value]


@dataclass(frozen=True)
class PrivacyGuarantee:
    """An (epsilon, delta) claim, the event that proves it, and what it rests on.

    Parameters
    ----------
    epsilon : float
        Claimed epsilon at `delta`; ``inf`` is no privacy.
    delta : float
        In [0, 1].
    adjacency : {"replace_one", "zero_out"}
        What may change between neighboring data sets. The number of units is public in both.
    mechanism : str
        How the release was made, in words.
    event : PrivacyEvent
        The release as the ledger composes it, with its whole privacy profile.
    seeded : bool, default=False
        True if the noise came from a reproducible generator: whoever knows the seed sees through
        the noise, and whoever sees two releases with one seed can subtract their noise.
    conditions : tuple of str, default=()
        Whatever the claim rests on, in words; empty where it is unconditional.
    unit : {"record", "person"}, default="record"
        Whose data may change: one record, or all records with one id (``fit(..., units=ids)``). The
        number of records is public in the first case and not in the second.

    Examples
    --------
    >>> from skdpbayes.privacy import GaussianDP, PrivacyGuarantee
    >>> guarantee = PrivacyGuarantee.from_event(
    ...     GaussianDP(0.25), delta=1e-5, adjacency="zero_out", mechanism="Gaussian noise")
    >>> print(guarantee)
    (0.927, 1e-05)-differentially private when one record is replaced by a null record that
    contributes nothing (zero_out), by Gaussian noise.
    >>> guarantee.epsilon_at(1e-9) > guarantee.epsilon
    True
    >>> PrivacyGuarantee.from_json(guarantee.to_json()) == guarantee
    True
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    mechanism: str
    event: PrivacyEvent
    seeded: bool = False
    conditions: tuple[str, ...] = ()
    unit: Unit = "record"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_nonnegative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", check_probability("delta", self.delta))
        check_adjacency(self.adjacency)
        check_unit(self.unit)
        if not isinstance(self.event, PrivacyEvent):
            raise TypeError(f"event must be a PrivacyEvent, got {type(self.event).__name__}")
        object.__setattr__(self, "seeded", bool(self.seeded))
        object.__setattr__(self, "conditions", tuple(self.conditions))

    @classmethod
    def from_event(
        cls,
        event: PrivacyEvent,
        *,
        delta: float,
        adjacency: Adjacency,
        mechanism: str,
        seeded: bool = False,
        conditions: tuple[str, ...] = (),
        unit: Unit = "record",
    ) -> PrivacyGuarantee:
        """Return the guarantee with the epsilon that `event` has at `delta`.

        Parameters
        ----------
        event : PrivacyEvent
            What is released.
        delta : float
            In [0, 1].
        adjacency, mechanism, seeded, conditions, unit
            As for the class.
        """
        epsilon = event.epsilon_at(delta)
        return cls(epsilon, delta, adjacency, mechanism, event, seeded, conditions, unit)

    @property
    def neighbor(self) -> str:
        """What the guarantee protects against, in words: "one record is ..."."""
        return _NEIGHBOR[self.unit, self.adjacency]

    def of_persons(self, most_records: int) -> PrivacyGuarantee:
        """Return what a claim for one record is worth to a person, by group privacy.

        Parameters
        ----------
        most_records : int
            The largest number of records that a person can have in the data, from a public rule
            and not from the data; the claim that is returned states it as a condition.

        Examples
        --------
        >>> from skdpbayes.privacy import GaussianDP, PrivacyGuarantee
        >>> one = PrivacyGuarantee.from_event(
        ...     GaussianDP(0.25), delta=1e-5, adjacency="zero_out", mechanism="Gaussian noise")
        >>> print(one.of_persons(5))
        (5.68, 1e-05)-differentially private when all records of one person are replaced by null
        records that contribute nothing (zero_out), by Gaussian noise. This holds if no person has
        more than 5 records.
        """
        from skdpbayes.privacy.group import group  # its events lead to this module

        if self.unit != "record":
            raise ValueError("this claim is for persons already")
        return PrivacyGuarantee.from_event(
            group(self.event, most_records),
            delta=self.delta,
            adjacency=self.adjacency,
            mechanism=self.mechanism,
            seeded=self.seeded,
            conditions=(*self.conditions, f"no person has more than {most_records} records"),
            unit="person",
        )

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon that holds at `delta` (the whole event, rounded up)."""
        return self.event.epsilon_at(delta)

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta that holds at `epsilon`."""
        return self.event.delta_at(epsilon)

    def to_json(self) -> str:
        """Return one line of standard JSON; equal guarantees give equal text."""
        return json.dumps(
            {name: encode(getattr(self, name)) for name in _FIELDS},
            sort_keys=True,
            allow_nan=False,
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> PrivacyGuarantee:
        """Read what :meth:`to_json` wrote.

        Parameters
        ----------
        text : str
            A JSON object with exactly the fields of the class; without ``unit``, which older
            files do not have, it is a claim for one record.
        """
        try:
            fields: Any = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"not a privacy guarantee in JSON: {error}") from error
        if isinstance(fields, dict):
            fields.setdefault("unit", "record")
        if not isinstance(fields, dict) or set(fields) != set(_FIELDS):
            raise ValueError(f"a privacy guarantee in JSON has the fields {', '.join(_FIELDS)}")
        fields["event"] = event_from_dict(fields["event"])
        for name in ("epsilon", "delta"):  # words may read "inf" and stay words
            fields[name] = decode(fields[name])
        return cls(**fields)

    def _repr_html_(self) -> str:
        """Return a card for notebooks: the sentence and the profile as a curve."""
        curve = "" if math.isinf(self.epsilon) else profile_svg(self.profile())
        return (
            "<div style='max-width:36rem;padding:.6rem 1rem;border-left:4px solid #2a6f5b'>"
            f"<p>{escape(str(self))}</p>{curve}</div>"
        )

    def profile(self, n_points: int = 25) -> list[tuple[float, float]]:
        """Return epsilons from 0 to twice the claimed one, and the deltas that hold there.

        Parameters
        ----------
        n_points : int, default=25
            Their number; some events take a while.
        """
        last = max(2.0 * self.epsilon, 0.1)
        points = [last * place / (n_points - 1) for place in range(n_points)]
        return [(epsilon, float(self.delta_at(epsilon))) for epsilon in points]

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            sentence = f"Not differentially private (epsilon is infinite): {self.mechanism}."
        else:
            if self.delta == 0.0:
                claim = f"{_round_up(self.epsilon)}-differentially private"
            else:
                claim = f"({_round_up(self.epsilon)}, {self.delta:.4g})-differentially private"
            sentence = f"{claim} when {self.neighbor} ({self.adjacency}), by {self.mechanism}."
        if self.conditions:
            sentence += f" This holds if {'; '.join(self.conditions)}."
        if self.seeded:
            sentence += (
                " The noise is seeded: the guarantee needs a seed that is secret and used for no "
                "other fit."
            )
        return sentence


def _round_up(epsilon: float) -> str:
    """Print three digits and never less than the truth."""
    text = f"{epsilon:.3g}"
    if float(text) < epsilon * (1.0 - 1e-9):
        text = f"{float(text) + 10.0 ** (math.floor(math.log10(epsilon)) - 2):.3g}"
    return text


def profile_svg(profile: list[tuple[float, float]]) -> str:
    """Draw delta against epsilon, delta on a logarithmic scale, as an inline picture."""
    width, height, left, top, bottom = 480, 210, 56, 24, 34
    least = -12.0
    right = profile[-1][0]

    def place(epsilon: float, delta: float) -> str:
        x = left + (width - left - 12) * epsilon / right
        share = max(math.log10(delta) if delta > 0.0 else least, least) / least
        return f"{x:.1f},{top + (height - bottom - top) * share:.1f}"

    points = " ".join(place(*point) for point in profile)
    marks = []
    for power in (0, -3, -6, -9, -12):
        _, y = place(0.0, 10.0**power).split(",")
        label = f"1e{power}" if power else "1"
        marks.append(
            f'<line x1="{left}" x2="{width - 12}" y1="{y}" y2="{y}" stroke="#ddd"/>'
            f'<text x="{left - 6}" y="{y}" text-anchor="end" dy="4">{label}</text>'
        )
    for share in (0.0, 0.5, 1.0):
        x, _ = place(share * right, 1.0).split(",")
        marks.append(
            f'<text x="{x}" y="{height - 16}" text-anchor="middle">{share * right:.3g}</text>'
        )
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" '
        'aria-label="delta that holds at each epsilon" font-size="11" fill="#444">'
        f'{"".join(marks)}<polyline points="{points}" fill="none" stroke="#2a6f5b" '
        'stroke-width="2"/>'
        f'<text x="{width / 2}" y="{height - 2}" text-anchor="middle">epsilon</text>'
        f'<text x="{left - 6}" y="12" text-anchor="end">delta</text></svg>'
    )
