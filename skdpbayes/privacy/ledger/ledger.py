"""A privacy budget in a file, charged before the data are touched."""

from __future__ import annotations

import json
import math
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from skdpbayes.exceptions import BudgetExceededError, LedgerError
from skdpbayes.privacy._numeric import check_count, check_delta, check_positive
from skdpbayes.privacy.composition.composed import compose, repeat
from skdpbayes.privacy.events import BoundedRange, PrivacyEvent, PureDP
from skdpbayes.privacy.guarantee import (
    Adjacency,
    PrivacyGuarantee,
    Unit,
    check_adjacency,
    check_unit,
)
from skdpbayes.privacy.ledger.filter import FILTERS, Filter, Price, is_pure
from skdpbayes.privacy.ledger.postgres import PostgresStore, place_of
from skdpbayes.privacy.ledger.store import (
    Account,
    Entry,
    LedgerStore,
    State,
    Store,
    event_text,
    now,
)

# What the composed total, unlike the budget, takes for granted.
_FIXED = "the reservations were not chosen in view of earlier releases"
_DISTINCT_SEEDS = "no two of the seeded fits used the same seed"
_UNIT_REMEDY = {
    "record": "Fit without units",
    "person": "Fit with units=ids, pass ledger.for_records(most_per_person=...) as the ledger",
}
# More distinct pure or bounded-range events than this are rounded up to a geometric grid first.
_MOST_DISTINCT = 32
_GRID_RATIO = 1.02


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
    plan : int or None
        The number of the reservation that paid for it, if it was on a plan's list.
    mechanism, epsilon, delta, adjacency, seeded, conditions, unit
        The guarantee that was reserved, in itself; see :class:`PrivacyGuarantee`.
    """

    id: int
    time: datetime
    label: str
    pid: int
    plan: int | None
    mechanism: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    seeded: bool
    conditions: tuple[str, ...]
    unit: Unit


class PrivacyLedger:
    """A privacy budget kept in a file and shared by everything that learns from the same data.

    Pass it as ``ledger`` to an estimator: ``fit`` reserves its cost before it looks at the data
    and stops with :class:`~skdpbayes.exceptions.BudgetExceededError` if the cost does not fit.
    Copies (``copy``, ``clone``, pickles in worker processes, the same path opened elsewhere) are
    the same account. The guarantee that the ledger keeps: all releases that it admitted are
    together (epsilon, delta)-differentially private, also if each of them, its size and its kind
    were chosen in view of all earlier ones. For that it has one rule, its filter, which is fixed
    when it is created; :meth:`plan` prices work that is known beforehand more tightly.

    Parameters
    ----------
    path : str or path-like
        The ledger file, created where absent, readable by its owner only. On a local disk: network
        file systems often do not lock reliably. Or, for people on several machines, an account of
        a PostgreSQL database (``pip install "skdpbayes[postgres]"``):
        ``"postgresql://user@host/database#account"``, one account per data set. The password is
        best left to ``PGPASSWORD``, ``~/.pgpass`` or a service file; one in the address is kept in
        memory only, never shown, and not pickled.
    epsilon : float, optional
        The budget, > 0. ``inf`` keeps a record and refuses nothing. None opens an existing ledger.
    delta : float, default=0.0
        The budget's delta, in [0, 1). With 0 only pure epsilon-DP can be reserved.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        The adjacency of every reservation.
    filter : {"gaussian", "sum"}, optional
        How reservations add up. ``"gaussian"``, the default with a positive delta, adds the squares
        of what they are as Gaussian releases. ``"sum"``, the default and the only one with
        ``delta=0``, adds their epsilon and their delta; it admits more where many small pure
        releases, or claims with a delta of their own, are to be charged.
    unit : {"record", "person"}, default="record"
        Whose data a guarantee protects; that of every reservation. With "person" the account takes
        fits with ``units``, and others by way of :meth:`for_records`.

    Attributes
    ----------
    path : pathlib.Path or str
        Absolute path of the file, or the account's address without a password.
    epsilon, delta, adjacency, filter, unit
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

    path: Path | str
    _account: Account
    _seen: int
    _known: State | None

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        adjacency: str = "replace_one",
        filter: str | None = None,
        unit: str = "record",
    ) -> None:
        self.path = place_of(path)
        self._seen = 0
        delta, adjacency = check_delta(delta), check_adjacency(adjacency)
        if epsilon is not None:
            epsilon = check_positive("epsilon", epsilon)
        if filter is not None and filter not in FILTERS:
            raise ValueError(f"filter must be 'gaussian' or 'sum', got {filter!r}")
        if epsilon is not None and delta == 0.0 and filter == "gaussian":
            raise ValueError("filter='gaussian' needs delta > 0")
        check_unit(unit)
        if not self._store.exists():
            if epsilon is None:
                raise LedgerError(
                    f"There is no ledger at {self.path}. Pass epsilon to create one, or correct "
                    "the path."
                )
            kind = filter or ("gaussian" if delta > 0.0 else "sum")
            identity = uuid.uuid4().hex
            self._store.create(Account(epsilon, delta, adjacency, unit, kind, identity, now()))
        with self._store.transaction() as connection:
            state = self._store.check(connection)
        self._account, self._seen, self._known = state.account, state.count, state
        self._require_budget(epsilon, delta, adjacency, filter, unit)

    def _require_budget(
        self, epsilon: float | None, delta: float, adjacency: str, kind: str | None, unit: str
    ) -> None:
        asked = (epsilon, delta, adjacency, kind or self.filter, unit)
        if epsilon is None:  # the defaults of the others then mean "as it is"
            asked = (
                self.epsilon,
                delta if delta != 0.0 else self.delta,
                adjacency if adjacency != "replace_one" else self.adjacency,
                kind or self.filter,
                unit if unit != "record" else self.unit,
            )
        if asked != (self.epsilon, self.delta, self.adjacency, self.filter, self.unit):
            raise LedgerError(
                f"The ledger {self.path} has the budget {self._budget_text()}, not epsilon="
                f"{asked[0]:g}, delta={asked[1]:g}, adjacency={asked[2]}, filter={asked[3]}, "
                f"unit={asked[4]}. A budget cannot be changed: open the ledger as it is with "
                f"PrivacyLedger({str(self.path)!r}), or give another path."
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
    def filter(self) -> str:
        """The rule by which reservations add up."""
        return self._account.filter

    @property
    def unit(self) -> Unit:
        """Whose data every reservation protects."""
        return check_unit(self._account.unit)

    @property
    def _rule(self) -> Filter:
        return Filter(self.filter, self.epsilon, self.delta)

    @property
    def _store(self) -> Store:
        return PostgresStore(self.path) if isinstance(self.path, str) else LedgerStore(self.path)

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
            If `guarantee` does not fit beside everything reserved so far.
        LedgerError
            If the adjacency or the unit differs, or the file cannot be used.
        """
        self._require_reservable(guarantee, label)
        price = self._rule.price(guarantee)  # may take a while, so not under the write lock
        with self._store.transaction(write=True) as connection:
            state = self._state(connection)
            self._require_fit(state, price, guarantee)
            after = self._store.append(connection, state, guarantee.to_json(), label, price)
        return self._remember(after)  # only now is it on disk

    def plan(self, guarantees: Iterable[PrivacyGuarantee], label: str = "") -> LedgerPlan:
        """Charge releases that are all known now, at the price of their tight composition.

        The sizes of these releases do not depend on one another's results, so they are one release
        for the filter, and cheaper than one by one. The whole price is charged at once.

        Parameters
        ----------
        guarantees : iterable of PrivacyGuarantee
            Everything that will be released; equal ones as often as they are.
        label : str, default=""
            What it is for; shown by :meth:`entries`.

        Returns
        -------
        LedgerPlan
            Pass it as ``ledger``: its ``reserve`` ticks off what is listed and refuses the rest.
            It may be pickled, and :meth:`plans` finds it again.
        """
        listed = list(guarantees)
        for guarantee in listed:
            self._require_reservable(guarantee, label)
        if not listed:
            raise ValueError("a plan must list at least one guarantee")
        events = Counter(guarantee.event for guarantee in listed)
        conditions = dict.fromkeys(c for guarantee in listed for c in guarantee.conditions)
        n_seeded = sum(guarantee.seeded for guarantee in listed)
        if n_seeded > 1:
            conditions[_DISTINCT_SEEDS] = None
        whole = PrivacyGuarantee.from_event(
            compose(repeat(event, count) for event, count in events.items()),
            delta=self.delta,
            adjacency=self.adjacency,
            mechanism=f"a plan of {len(listed)} releases",
            seeded=n_seeded > 0,
            conditions=tuple(conditions),
            unit=self.unit,
        )
        price = self._rule.price(whole)
        counts = json.dumps(Counter(event_text(guarantee.to_json()) for guarantee in listed))
        with self._store.transaction(write=True) as connection:
            state = self._state(connection)
            self._require_fit(state, price, whole)
            after = self._store.append(
                connection, state, whole.to_json(), label, price, listed=counts
            )
        return LedgerPlan(self, self._remember(after))

    def for_records(self, most_per_person: int) -> RecordAccount:
        """Return what a fit without ``units`` may charge in an account of persons.

        Such a fit protects one record; for a person it is charged by group privacy, see
        :meth:`PrivacyGuarantee.of_persons`.

        Parameters
        ----------
        most_per_person : int
            The largest number of records that a person can have, from a public rule and not from
            the data; the ledger keeps it as a condition.

        Returns
        -------
        RecordAccount
            Pass it as ``ledger``.
        """
        return RecordAccount(self, most_per_person)

    def plans(self) -> list[LedgerPlan]:
        """Return the plans of which not everything was released yet, oldest first."""
        with self._store.transaction() as connection:
            state = self._state(connection)
        plans = [entry.number for entry in state.entries if entry.listed is not None]
        return [LedgerPlan(self, plan) for plan in plans if any(state.left(plan).values())]

    def spent(self) -> PrivacyGuarantee:
        """Return the tight composition of everything reserved so far, at the ledger's delta.

        This is what the releases cost if all of them had been planned beforehand, as
        ``conditions`` then says. What holds without that condition, however the releases were
        chosen, is the budget itself; :meth:`used` tells which share of it is gone.
        """
        with self._store.transaction() as connection:
            state = self._state(connection)
        counts = Counter(entry.guarantee for entry in state.entries if entry.plan is None)
        paid = [(_read(text), count) for text, count in counts.items()]
        n_paid = sum(count for _, count in paid)
        event = _composed(tuple((guarantee.event, count) for guarantee, count in paid))
        epsilon, fixed = self._spent_epsilon(state, event, n_paid)
        conditions = dict.fromkeys(c for guarantee, _ in paid for c in guarantee.conditions)
        if fixed:
            conditions[_FIXED] = None
        # Composition needs independent noise, and one seed gives the same noise twice.
        if sum(guarantee.seeded * count for guarantee, count in paid) > 1:
            conditions[_DISTINCT_SEEDS] = None
        return PrivacyGuarantee(
            epsilon=epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            mechanism=f"all reservations so far ({n_paid})",
            event=event,
            seeded=any(guarantee.seeded for guarantee, _ in paid),
            conditions=tuple(conditions),
            unit=self.unit,
        )

    def _spent_epsilon(self, state: State, event: PrivacyEvent, n_paid: int) -> tuple[float, bool]:
        """Return the composed epsilon, and whether it needs reservations fixed beforehand."""
        if n_paid == 0:
            return 0.0, False
        if math.isinf(self.epsilon):
            return event.epsilon_at(self.delta), n_paid > 1
        summed = self._rule.planned_epsilon(state.total)
        if self.delta == 0.0:  # a sum of pure epsilons holds at every moment
            return summed, False
        return min(summed, event.epsilon_at(self.delta)), n_paid > 1

    def used(self) -> float:
        """Return the share of the budget that is used up under the filter, from 0 to 1.

        More than 1 only if the first reservation took the whole account; nothing can follow it.
        """
        with self._store.transaction() as connection:
            return self._rule.used(self._state(connection).total)

    def remaining_epsilon(self) -> float:
        """Return the largest epsilon of a pure-DP reservation that would still be accepted."""
        with self._store.transaction() as connection:
            state = self._state(connection)
        return self.epsilon if state.count == 0 else self._rule.largest_pure(state.total)

    def entries(self) -> list[LedgerEntry]:
        """Return all reservations, oldest first, those that a plan has paid for among them."""
        with self._store.transaction() as connection:
            state = self._state(connection)
        return [_shown(entry) for entry in state.entries]

    def _state(self, connection: Any) -> State:
        known = self._known
        state = self._store.state(connection, known)
        if state.account != self._account:
            raise LedgerError(
                f"The account {self.path} was replaced by another ledger since it was opened. Open "
                "it again if that is meant."
            )
        if state.count < self._seen or (known and state.entries[: known.count] != known.entries):
            raise LedgerError(
                f"The ledger {self.path} holds {state.count} reservations, but not all the "
                f"{self._seen} that it had: an old copy was restored, which forgets what was "
                "spent. Restore a copy that holds every reservation."
            )
        self._remember(state)
        return state

    def _remember(self, state: State) -> int:
        """Remember what the file holds; return the number of its last entry."""
        self._known, self._seen = state, max(self._seen, state.count)
        return state.count

    def _require_fit(self, state: State, price: Price, guarantee: PrivacyGuarantee) -> None:
        rule = self._rule
        if rule.admits(state.total + price):
            return
        if state.count == 0 and rule.admits_alone(guarantee.event):
            return
        raise BudgetExceededError(
            f"Reserving epsilon={guarantee.epsilon:g}, delta={guarantee.delta:g} "
            f"({guarantee.mechanism}) would overrun the ledger {self.path}: it takes "
            f"{_percent(rule.used(price))} of the budget, and {_percent(rule.used(state.total))} "
            f"are used (budget {self._budget_text()}). Nothing was charged."
        )

    def _require_reservable(self, guarantee: PrivacyGuarantee, label: str) -> None:
        if not isinstance(guarantee, PrivacyGuarantee):
            raise TypeError(f"guarantee must be a PrivacyGuarantee, got {guarantee!r}")
        if not isinstance(label, str):
            raise TypeError(f"label must be a string, got {label!r}")
        for name, held, asked, remedy in (
            (
                "adjacency",
                self.adjacency,
                guarantee.adjacency,
                f"Fit with adjacency={self.adjacency!r}",
            ),
            ("unit", self.unit, guarantee.unit, _UNIT_REMEDY[self.unit]),
        ):
            if asked != held:
                raise LedgerError(
                    f"The ledger {self.path} counts {name}={held!r}, the reservation is under "
                    f"{asked!r}; nothing was charged. {remedy}, or use a ledger with "
                    f"{name}={asked!r}."
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

    def _budget_text(self) -> str:
        return (
            f"epsilon={self.epsilon:g}, delta={self.delta:g}, adjacency={self.adjacency}, "
            f"filter={self.filter}, unit={self.unit}"
        )

    def __copy__(self) -> PrivacyLedger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyLedger:
        return self

    def __reduce__(self) -> tuple[Callable[..., PrivacyLedger], tuple[Path | str, Account, int]]:
        return _restore, (self.path, self._account, self._seen)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivacyLedger):
            return NotImplemented
        return (self.path, self._account) == (other.path, other._account)

    def __hash__(self) -> int:
        return hash((self.path, self._account))

    def __repr__(self) -> str:
        return (
            f"PrivacyLedger({str(self.path)!r}, epsilon={self.epsilon!r}, delta={self.delta!r}, "
            f"adjacency={self.adjacency!r}, filter={self.filter!r}, unit={self.unit!r})"
        )


@dataclass(frozen=True)
class LedgerPlan:
    """Releases that a ledger was charged for all at once; pass it as ``ledger``.

    Made by :meth:`PrivacyLedger.plan`. It lives in the ledger's file: copies, pickles and what
    :meth:`PrivacyLedger.plans` returns later are the same plan.

    Parameters
    ----------
    ledger : PrivacyLedger
        The account.
    number : int
        The reservation that paid for the plan.
    """

    ledger: PrivacyLedger
    number: int

    def reserve(self, guarantee: PrivacyGuarantee, label: str = "") -> int:
        """Tick off a listed release, or raise and change nothing.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            The cost; its event must be on the list and not used up.
        label : str, default=""
            What it is for; shown by :meth:`PrivacyLedger.entries`.

        Returns
        -------
        int
            The number of the reservation in the ledger.
        """
        ledger = self.ledger
        ledger._require_reservable(guarantee, label)
        with ledger._store.transaction(write=True) as connection:
            state = ledger._state(connection)
            text = guarantee.to_json()
            if state.left(self.number)[event_text(text)] < 1:
                raise BudgetExceededError(
                    f"Plan {self.number} of the ledger {ledger.path} does not list "
                    f"epsilon={guarantee.epsilon:g}, delta={guarantee.delta:g} "
                    f"({guarantee.mechanism}), or not once more. Nothing was charged. Reserve it "
                    "in the ledger itself, or make another plan."
                )
            after = ledger._store.append(connection, state, text, label, Price(), plan=self.number)
        return ledger._remember(after)


@dataclass(frozen=True)
class RecordAccount:
    """An account of persons as fits without ``units`` see it; pass it as ``ledger``.

    Made by :meth:`PrivacyLedger.for_records`.

    Parameters
    ----------
    ledger : PrivacyLedger
        The account, with ``unit="person"``.
    most_per_person : int
        The largest number of records of a person.
    """

    ledger: PrivacyLedger
    most_per_person: int

    def __post_init__(self) -> None:
        check_count("most_per_person", self.most_per_person)
        if self.ledger.unit != "person":
            raise ValueError(
                f"for_records is for accounts of persons; the ledger {self.ledger.path} counts "
                "records: pass it as it is."
            )

    def reserve(self, guarantee: PrivacyGuarantee, label: str = "") -> int:
        """Charge what the claim is worth to a person, or raise and change nothing.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            The cost to one record.
        label : str, default=""
            What it is for; shown by :meth:`PrivacyLedger.entries`.

        Returns
        -------
        int
            The number of the reservation in the ledger.
        """
        if guarantee.unit == "record":
            guarantee = guarantee.of_persons(self.most_per_person)
        return self.ledger.reserve(guarantee, label)


def _restore(path: Path | str, account: Account, seen: int) -> PrivacyLedger:
    # Without opening the file: what is wrong with it is said when it is used.
    ledger = object.__new__(PrivacyLedger)
    ledger.path, ledger._account, ledger._seen, ledger._known = path, account, seen, None
    return ledger


def _percent(share: float) -> str:
    return f"{100.0 * share:.4g} %"


@lru_cache(maxsize=4096)
def _read(text: str) -> PrivacyGuarantee:
    """Return the guarantee that a ledger stored as `text`."""
    try:
        return PrivacyGuarantee.from_json(text)
    except ValueError as error:
        raise LedgerError(
            f"A reservation in the ledger cannot be read: {error}. Import the module that defines "
            "its kind of event, or use the release of skdpbayes that wrote it."
        ) from error


def _shown(entry: Entry) -> LedgerEntry:
    held = _read(entry.guarantee)
    return LedgerEntry(
        id=entry.number,
        time=datetime.fromisoformat(entry.time),
        label=entry.label,
        pid=entry.pid,
        plan=entry.plan,
        mechanism=held.mechanism,
        epsilon=held.epsilon,
        delta=held.delta,
        adjacency=held.adjacency,
        seeded=held.seeded,
        conditions=held.conditions,
        unit=held.unit,
    )


@lru_cache(maxsize=64)
def _composed(charges: tuple[tuple[PrivacyEvent, int], ...]) -> PrivacyEvent:
    """Return the event of all charges together; very many distinct ones are rounded up."""
    counts: Counter[PrivacyEvent] = Counter()
    for event, count in charges:
        counts[event] += count
    for kind in (PureDP, BoundedRange):
        alike = [event for event in counts if isinstance(event, kind)]
        if len(alike) > _MOST_DISTINCT:
            for event in alike:
                counts[_rounded_up(event)] += counts.pop(event)
    return compose(repeat(event, count) for event, count in counts.items())


def _rounded_up(event: PrivacyEvent) -> PrivacyEvent:
    """Return a slightly less private event out of a set that stays small."""
    if isinstance(event, PureDP):
        return PureDP(_grid_above(event.epsilon))
    assert isinstance(event, BoundedRange)
    return BoundedRange(_grid_above(event.eta), event.n_draws)


def _grid_above(value: float) -> float:
    if value == 0.0 or math.isinf(value):
        return value
    power = math.ceil(math.log(value) / math.log(_GRID_RATIO))
    rounded = _GRID_RATIO**power
    return rounded if rounded >= value else _GRID_RATIO ** (power + 1)
