"""One line of a privacy ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from skdpbayes.privacy.guarantee import Adjacency
from skdpbayes.privacy.ledger.totals import read_guarantee

__all__ = ["LedgerEntry"]


@dataclass(frozen=True)
class LedgerEntry:
    """One reservation, as :meth:`~skdpbayes.PrivacyLedger.entries` lists it.

    Parameters
    ----------
    id : int
        Number of the reservation, counted from 1.
    time : datetime
        When it was made, in UTC.
    label : str
        What it was made for.
    pid : int
        The process that made it.
    mechanism, epsilon, delta, adjacency, seeded, conditions
        The guarantee that was reserved, in itself; see :class:`PrivacyGuarantee`.
    """

    id: int
    time: datetime
    label: str
    pid: int
    mechanism: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    seeded: bool
    conditions: tuple[str, ...]

    @classmethod
    def from_row(cls, number: int, time: str, pid: int, label: str, text: str) -> LedgerEntry:
        """Read an entry from its row in the file."""
        held = read_guarantee(text)
        return cls(
            id=number,
            time=datetime.fromisoformat(time),
            label=label,
            pid=pid,
            mechanism=held.mechanism,
            epsilon=held.epsilon,
            delta=held.delta,
            adjacency=held.adjacency,
            seeded=held.seeded,
            conditions=held.conditions,
        )
