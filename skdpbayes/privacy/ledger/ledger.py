"""A privacy budget in a file, charged before the data are touched."""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skdpbayes.exceptions import BudgetExceededError, LedgerError
from skdpbayes.privacy._numeric import check_delta, check_positive
from skdpbayes.privacy.events import PureDP
from skdpbayes.privacy.guarantee import Adjacency, PrivacyGuarantee, check_adjacency
from skdpbayes.privacy.ledger import store as ledger_store
from skdpbayes.privacy.ledger.decisions import fits_tightly
from skdpbayes.privacy.ledger.entry import LedgerEntry
from skdpbayes.privacy.ledger.store import Account, LedgerStore
from skdpbayes.privacy.ledger.totals import (
    Charges,
    RunningTotals,
    is_pure,
    read_guarantee,
    tight_delta,
    tight_epsilon,
    tight_total,
)

__all__ = ["LedgerEntry", "PrivacyLedger"]

# What the tight total, unlike the running sums, takes for granted.
_FIXED_SIZES = "the sizes of the reservations were not chosen in view of earlier releases"
_DISTINCT_SEEDS = "no two of the seeded fits used the same seed"
_ROUNDING = 1e-9
# remaining_epsilon is found to this share of the budget, from below.
_REMAINING_TOLERANCE = 1e-6


@dataclass(frozen=True)
class _Snapshot:
    """The state of the account: its running sums, and its charges where a decision needs them."""

    totals: RunningTotals
    charges: Charges = ()


class PrivacyLedger:
    """A privacy budget kept in a file and shared by everything that learns from the same data.

    Pass it as ``ledger`` to an estimator: ``fit`` reserves its cost before it looks at the data
    and stops with :class:`~skdpbayes.exceptions.BudgetExceededError` if the cost does not fit.
    Copies (``copy``, ``clone``, pickles in worker processes, the same path opened elsewhere) are
    the same account. The guarantee that the ledger keeps: all releases that it admitted are
    together (epsilon, delta)-differentially private.

    Parameters
    ----------
    path : str or path-like
        The ledger file, created where absent, readable by its owner only. On a local disk: network
        file systems often do not lock reliably.
    epsilon : float, optional
        The budget, > 0. ``inf`` keeps a record and refuses nothing. None opens an existing ledger.
    delta : float, default=0.0
        The budget's delta, in [0, 1). With 0 only pure epsilon-DP can be reserved.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        The adjacency of every reservation.

    Attributes
    ----------
    path : pathlib.Path
        Absolute path of the file.
    epsilon, delta, adjacency
        The budget, as stored in the file.

    Examples
    --------
    >>> import os, tempfile
    >>> from skdpbayes import PrivacyLedger
    >>> from skdpbayes.privacy import PrivacyGuarantee, PureDP
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = PrivacyLedger(os.path.join(folder.name, "survey.ledger"), epsilon=1.0)
    >>> fit = PrivacyGuarantee.from_event(
    ...     PureDP(0.4), delta=0.0, adjacency="replace_one", mechanism="Laplace noise")
    >>> ledger.reserve(fit, label="first look")
    1
    >>> ledger.spent().epsilon, ledger.remaining_epsilon()
    (0.4, 0.6)
    >>> folder.cleanup()
    """

    path: Path
    _account: Account

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        adjacency: str = "replace_one",
    ) -> None:
        self.path = Path(os.path.realpath(os.path.expanduser(os.fspath(path))))
        delta, adjacency = check_delta(delta), check_adjacency(adjacency)
        if epsilon is not None:
            epsilon = check_positive("epsilon", epsilon)
        if not self._store.exists():
            if epsilon is None:
                raise LedgerError(
                    f"There is no ledger at {self.path}. Pass epsilon to create one, or correct "
                    "the path."
                )
            self._store.create(epsilon, delta, adjacency, RunningTotals().to_json())
        with self._store.transaction() as connection:
            self._account = self._store.account(connection)
            n_entries = self._store.check(connection)
            counted = self._totals(connection).count
        if counted != n_entries:
            raise LedgerError(self._store.damage(f"{n_entries} entries, {counted} in the totals"))
        self._require_budget(epsilon, delta, adjacency)

    def _require_budget(self, epsilon: float | None, delta: float, adjacency: str) -> None:
        asked = (epsilon, delta, adjacency)
        if epsilon is None:  # the defaults of the others then mean "as it is"
            asked = (
                self.epsilon,
                delta if delta != 0.0 else self.delta,
                adjacency if adjacency != "replace_one" else self.adjacency,
            )
        if asked != (self.epsilon, self.delta, self.adjacency):
            raise LedgerError(
                f"The ledger {self.path} has the budget {self._budget_text()}, not epsilon="
                f"{asked[0]:g}, delta={asked[1]:g}, adjacency={asked[2]}. A budget cannot be "
                f"changed: open the ledger as it is with PrivacyLedger({str(self.path)!r}), or "
                "give another path."
            )

    @property
    def epsilon(self) -> float:
        """The budget's epsilon."""
        return self._account.epsilon

    @property
    def delta(self) -> float:
        """The budget's delta."""
        return self._account.delta

    @property
    def adjacency(self) -> Adjacency:
        """The adjacency of every reservation."""
        return check_adjacency(self._account.adjacency)

    @property
    def _store(self) -> LedgerStore:
        return LedgerStore(self.path)

    def reserve(self, guarantee: PrivacyGuarantee, label: str = "") -> int:
        """Charge a release to the budget, or raise and change nothing.

        To be called before the data are touched. It is atomic among threads and processes, and
        on disk when it returns. A reservation is never taken back: whatever fails later
        stays charged.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            The cost.
        label : str, default=""
            What it is for; shown by :meth:`entries`.

        Returns
        -------
        int
            The number of the reservation in the ledger.

        Raises
        ------
        BudgetExceededError
            If everything reserved so far and `guarantee` together exceed the budget.
        LedgerError
            If the adjacency differs, or the file cannot be used.
        """
        self._require_reservable(guarantee, label)
        text = guarantee.to_json()
        price = RunningTotals.of(guarantee)
        # First without the write lock, for the composition may take a while. A refusal is final:
        # spending only grows. An acceptance is repeated under the lock, where it is usually
        # answered by the running sums or the cache.
        with self._store.transaction() as connection:
            before = self._snapshot(connection, price)
        self._require_fit(before, price, guarantee, text)
        with self._store.transaction(write=True) as connection:
            before = self._snapshot(connection, price)
            self._require_fit(before, price, guarantee, text)
            totals = (before.totals + price).to_json()
            return ledger_store.append_entry(connection, text, label, totals)

    def spent(self) -> PrivacyGuarantee:
        """Return the guarantee of everything reserved so far, at the ledger's delta.

        Its ``epsilon`` is the smallest that can be proven. Where that rests on the sizes of the
        reservations not having been chosen in view of earlier releases, ``conditions`` says so.
        """
        state = self._state()
        guarantees = [read_guarantee(text) for text, _ in state.charges]
        epsilon = self._spent_epsilon(state)
        conditions = dict.fromkeys(c for guarantee in guarantees for c in guarantee.conditions)
        n_distinct = len({guarantee.event for guarantee in guarantees})
        if n_distinct > 1 and epsilon < state.totals.epsilon_at(self.delta):
            conditions[_FIXED_SIZES] = None
        n_seeded = sum(read_guarantee(text).seeded * count for text, count in state.charges)
        if n_seeded > 1:  # composition needs independent noise, and one seed gives the same twice
            conditions[_DISTINCT_SEEDS] = None
        return PrivacyGuarantee(
            epsilon=epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            mechanism=f"all reservations so far ({state.totals.count})",
            event=tight_total(state.charges),
            seeded=any(guarantee.seeded for guarantee in guarantees),
            conditions=tuple(conditions),
        )

    def remaining_epsilon(self) -> float:
        """Return the largest epsilon of a pure-DP reservation that would still be accepted.

        Never more than the budget's epsilon. With ``delta=0`` it is the budget less what was
        spent; with a positive delta composition is cheaper than addition and more may fit.
        """
        if math.isinf(self.epsilon):
            return math.inf
        state = self._state()
        if self.delta == 0.0:
            return state.totals.left_of(self.epsilon)

        def fits(epsilon: float) -> bool:
            asked = PrivacyGuarantee(epsilon, 0.0, self.adjacency, "pure DP", PureDP(epsilon))
            return self._fits(state, RunningTotals.of(asked), asked.to_json())

        return _largest(fits, self.epsilon)

    def entries(self) -> list[LedgerEntry]:
        """Return all reservations, oldest first."""
        with self._store.transaction() as connection:
            self._require_same(connection)
            rows = ledger_store.read_entries(connection)
        return [LedgerEntry.from_row(*row) for row in rows]

    def _state(self) -> _Snapshot:
        with self._store.transaction() as connection:
            self._require_same(connection)
            charges = tuple(ledger_store.read_charges(connection))
            return _Snapshot(self._totals(connection), charges)

    def _snapshot(self, connection: sqlite3.Connection, price: RunningTotals) -> _Snapshot:
        """Return the state, with the charges only if the sums do not decide about `price`."""
        self._require_same(connection)
        totals = self._totals(connection)
        if self.delta == 0.0 or self._settled(totals + price):
            return _Snapshot(totals)
        return _Snapshot(totals, tuple(ledger_store.read_charges(connection)))

    def _totals(self, connection: sqlite3.Connection) -> RunningTotals:
        try:
            return RunningTotals.from_json(ledger_store.read_totals(connection))
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            raise LedgerError(self._store.damage("its totals cannot be read")) from error

    def _settled(self, totals: RunningTotals) -> bool:
        return math.isinf(self.epsilon) or totals.within(self.epsilon, self.delta)

    def _fits(self, before: _Snapshot, price: RunningTotals, text: str) -> bool:
        if self._settled(before.totals + price):
            return True
        if self.delta == 0.0:  # the sums are the tight total then
            return False
        return fits_tightly((*before.charges, (text, 1)), self.epsilon, self.delta)

    def _spent_epsilon(self, state: _Snapshot) -> float:
        summed = state.totals.epsilon_at(self.delta)
        if self.delta == 0.0 or state.totals.count == 0:
            return summed
        tight = tight_epsilon(state.charges, self.delta)
        # The searches for epsilon and for delta round differently; either proof is enough.
        if self.epsilon < tight and tight_delta(state.charges, self.epsilon) <= self.delta:
            tight = self.epsilon
        # The sums prove more, so they stand where the difference is mere rounding.
        return tight if tight < summed * (1.0 - _ROUNDING) else summed

    def _require_fit(
        self, before: _Snapshot, price: RunningTotals, guarantee: PrivacyGuarantee, text: str
    ) -> None:
        if self._fits(before, price, text):
            return
        spent = self._spent_epsilon(before)
        raise BudgetExceededError(
            f"Reserving epsilon={guarantee.epsilon:g}, delta={guarantee.delta:g} "
            f"({guarantee.mechanism}) would overrun the ledger {self.path}: spent "
            f"epsilon={spent:.6g}, remaining {max(0.0, self.epsilon - spent):.6g}, budget "
            f"{self._budget_text()}. Nothing was charged."
        )

    def _require_reservable(self, guarantee: PrivacyGuarantee, label: str) -> None:
        if not isinstance(guarantee, PrivacyGuarantee):
            raise TypeError(f"guarantee must be a PrivacyGuarantee, got {guarantee!r}")
        if not isinstance(label, str):
            raise TypeError(f"label must be a string, got {label!r}")
        if guarantee.adjacency != self.adjacency:
            raise LedgerError(
                f"The ledger {self.path} counts adjacency={self.adjacency!r}, the reservation is "
                f"under {guarantee.adjacency!r}; nothing was charged. Fit with adjacency="
                f"{self.adjacency!r}, or use a ledger with adjacency={guarantee.adjacency!r}."
            )
        if math.isinf(self.epsilon):
            return
        if math.isinf(guarantee.epsilon):
            raise BudgetExceededError(
                f"Reserving epsilon=inf ({guarantee.mechanism}) would overrun every budget, and "
                f"the ledger {self.path} has {self._budget_text()}. Nothing was charged. Fit with "
                "a finite epsilon, or without this ledger on data that are not private."
            )
        if self.delta == 0.0 and not is_pure(guarantee.event):
            raise BudgetExceededError(
                f"The ledger {self.path} has delta=0 and admits pure epsilon-DP only; "
                f"{guarantee.mechanism} needs delta > 0 (asked: epsilon={guarantee.epsilon:g}, "
                f"delta={guarantee.delta:g}). Nothing was charged. Use a mechanism with delta=0, "
                "or a ledger with delta > 0."
            )

    def _require_same(self, connection: sqlite3.Connection) -> None:
        if self._store.account(connection) != self._account:
            raise LedgerError(
                f"The file {self.path} was replaced by another ledger since it was opened. Open "
                "it again if that is meant."
            )

    def _budget_text(self) -> str:
        return f"epsilon={self.epsilon:g}, delta={self.delta:g}, adjacency={self.adjacency}"

    def __copy__(self) -> PrivacyLedger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyLedger:
        return self

    def __reduce__(self) -> tuple[Callable[..., PrivacyLedger], tuple[Path, Account]]:
        return _restore, (self.path, self._account)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivacyLedger):
            return NotImplemented
        return (self.path, self._account) == (other.path, other._account)

    def __hash__(self) -> int:
        return hash((self.path, self._account))

    def __repr__(self) -> str:
        return (
            f"PrivacyLedger({str(self.path)!r}, epsilon={self.epsilon!r}, delta={self.delta!r}, "
            f"adjacency={self.adjacency!r})"
        )


def _restore(path: Path, account: Account) -> PrivacyLedger:
    # Without opening the file: what is wrong with it is said when it is used.
    ledger = object.__new__(PrivacyLedger)
    ledger.path, ledger._account = path, account
    return ledger


def _largest(fits: Callable[[float], bool], budget: float) -> float:
    if fits(budget):
        return budget
    low, high = 0.0, budget
    while high - low > _REMAINING_TOLERANCE * budget:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
