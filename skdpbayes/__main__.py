"""The command line: ``python -m skdpbayes demo``, ``compile``, ``ledger`` and ``report``."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skdpbayes import __version__
from skdpbayes.exceptions import LedgerError

if TYPE_CHECKING:
    from skdpbayes.privacy.ledger.ledger import LedgerEntry, PrivacyLedger

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status (0 done, 1 the ledger refused)."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments) or 0)
    except LedgerError as error:
        print(f"skdpbayes: error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="skdpbayes",
        description="Differentially private Bayesian learning for scikit-learn users.",
    )
    parser.add_argument("--version", action="version", version=f"skdpbayes {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_compile(commands)
    _add_ledger(commands)
    _add_report(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="fit every estimator at several epsilon and print accuracy beside the guarantee",
        description="Fit every estimator at several epsilon on generated data (no download) and "
        "print one table: estimator, guarantee, accuracy, seconds, non-private reference.",
    )
    demo.add_argument(
        "--epsilon",
        type=_epsilon,
        nargs="+",
        metavar="E",
        help="the values of epsilon to fit at (default: a range chosen by the demo)",
    )
    demo.add_argument("--plot", metavar="FILE", help="draw accuracy against epsilon into FILE")
    demo.add_argument("--quick", action="store_true", help="smaller data, fewer fits: seconds")
    demo.set_defaults(run=_run_demo)


def _add_compile(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    compile_ = commands.add_parser(
        "compile",
        help="compile everything once, so that no first fit has to",
        description="Fit every estimator on tiny made-up data. Numba keeps what it compiles beside "
        "the package, or in the directory NUMBA_CACHE_DIR, for this machine and this version.",
    )
    compile_.set_defaults(run=_run_compile)


def _add_ledger(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    ledger = commands.add_parser(
        "ledger",
        help="create a privacy ledger, or show what was spent from one",
        description="A privacy ledger is a file, or an account of a PostgreSQL database "
        "(postgresql://user@host/database#account), that holds a privacy budget and every "
        "reservation made against it.",
    )
    actions = ledger.add_subparsers(title="actions", metavar="ACTION", required=True)
    init = actions.add_parser("init", help="create FILE with a budget")
    init.add_argument("file", metavar="FILE", help="the ledger to create; must not exist")
    init.add_argument(
        "--epsilon", type=_epsilon, required=True, metavar="E", help="total epsilon, > 0 or inf"
    )
    init.add_argument(
        "--delta",
        type=_delta,
        default=0.0,
        metavar="D",
        help="total delta in [0, 1) (default: 0, which admits pure epsilon-DP only)",
    )
    init.add_argument(
        "--adjacency",
        choices=["replace_one", "zero_out"],
        default="replace_one",
        help="what a neighboring data set is (default: %(default)s)",
    )
    init.add_argument(
        "--filter",
        choices=["gaussian", "sum"],
        help="how reservations add up (default: gaussian with a positive delta, else sum)",
    )
    init.add_argument(
        "--unit",
        choices=["record", "person"],
        default="record",
        help="whose data are protected: one record, or all records of a person (default: "
        "%(default)s)",
    )
    init.set_defaults(run=_init_ledger)
    show = actions.add_parser("show", help="print the reservations in FILE and their total")
    show.add_argument("file", metavar="FILE", help="an existing ledger")
    show.add_argument(
        "--last", type=_count, metavar="N", help="print only the last N reservations (default: all)"
    )
    show.set_defaults(run=_show_ledger)
    move = actions.add_parser(
        "move",
        help="continue the account of FILE in a PostgreSQL database",
        description="Close FILE for good and continue its account, with every reservation, as "
        "ADDRESS. Whatever fails in between, the same command finishes the work.",
    )
    move.add_argument("file", metavar="FILE", help="an existing ledger file")
    move.add_argument(
        "address", metavar="ADDRESS", help="postgresql://user@host/database#account; a new account"
    )
    move.set_defaults(run=_move_ledger)


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    report = commands.add_parser(
        "report",
        help="write a page about a model or a ledger: claims and what they mean",
        description="Write a self-contained page about a model that to_json wrote, or about a "
        "privacy ledger: its budget, its reservations, what they mean together.",
    )
    report.add_argument("source", metavar="MODEL.json|LEDGER", help="a model, or a ledger")
    report.add_argument("out", metavar="OUT", help="the page to write: .html, .md or .json")
    report.set_defaults(run=_write_report)


def _epsilon(text: str) -> float:
    value = float(text)
    if not value > 0.0:
        raise argparse.ArgumentTypeError(f"must be > 0, got {text}")
    return value


def _delta(text: str) -> float:
    value = float(text)
    if not 0.0 <= value < 1.0:
        raise argparse.ArgumentTypeError(f"must be in [0, 1), got {text}")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be >= 0, got {text}")
    return value


# What argparse calls a value of the wrong type in its messages.
_epsilon.__name__ = "epsilon"
_delta.__name__ = "delta"
_count.__name__ = "number"


def _run_demo(arguments: argparse.Namespace) -> int | None:
    from skdpbayes import _demo

    status: int | None = _demo.run(arguments)
    return status


def _run_compile(arguments: argparse.Namespace) -> None:
    from skdpbayes._compile import compile_kernels

    compile_kernels()


def _init_ledger(arguments: argparse.Namespace) -> None:
    from skdpbayes.privacy.ledger.ledger import PrivacyLedger
    from skdpbayes.privacy.ledger.postgres import PostgresStore, place_of

    place = place_of(arguments.file)
    store = PostgresStore(place) if isinstance(place, str) else None
    if os.path.lexists(place) if store is None else store.exists():
        raise LedgerError(f"{place} exists; a ledger's budget cannot be set twice.")
    if arguments.filter == "gaussian" and arguments.delta == 0.0:
        raise LedgerError("The Gaussian filter needs a delta > 0; give --delta, or --filter sum.")
    ledger = PrivacyLedger(
        arguments.file,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        adjacency=arguments.adjacency,
        filter=arguments.filter,
        unit=arguments.unit,
    )
    print(f"Created {ledger.path}")
    print(f"Budget: {_budget(ledger)}")


def _move_ledger(arguments: argparse.Namespace) -> None:
    from skdpbayes.privacy.ledger.ledger import PrivacyLedger
    from skdpbayes.privacy.ledger.postgres import move_to_database

    move_to_database(arguments.file, arguments.address)
    ledger = PrivacyLedger(arguments.address)
    print(f"Moved to {ledger.path}: {len(ledger.entries())} reservations")
    print(f"{arguments.file} is closed; keep it as a backup, or delete it")


def _show_ledger(arguments: argparse.Namespace) -> None:
    from skdpbayes.privacy.ledger.ledger import PrivacyLedger

    ledger = PrivacyLedger(arguments.file)
    entries = ledger.entries()
    shown = entries if arguments.last is None else entries[max(0, len(entries) - arguments.last) :]
    spent = ledger.spent()
    print(f"Ledger: {ledger.path}")
    if shown:
        print()
        _print_table(shown)
        print()
    hidden = len(entries) - len(shown)
    print(
        f"Reservations: {len(entries)}" + (f" ({hidden} earlier ones not shown)" if hidden else "")
    )
    print(f"Budget:       {_budget(ledger)}")
    print(f"Used:         {100.0 * ledger.used():.4g} % of the budget ({ledger.filter} filter)")
    print(
        f"Remaining:    epsilon={_floor(ledger.remaining_epsilon()):.6g} for a pure epsilon-DP fit"
    )
    print(f"Composed:     epsilon={spent.epsilon:.6g} at delta={spent.delta:g}")
    for condition in spent.conditions:
        print(f"  if:         {condition}")
    for plan in ledger.plans():
        print(f"Open plan:    reservation {plan.number}")


def _write_report(arguments: argparse.Namespace) -> int:
    from skdpbayes.fitting.storage import is_model_file, load_json
    from skdpbayes.privacy.ledger.ledger import PrivacyLedger
    from skdpbayes.reporting import report

    try:
        read = load_json if is_model_file(arguments.source) else PrivacyLedger
        source = read(arguments.source)
    except ValueError as error:
        print(f"skdpbayes: error: {arguments.source} is {error}", file=sys.stderr)
        return 1
    formats = {".json": "json", ".md": "markdown"}
    kind = formats.get(os.path.splitext(arguments.out)[1].lower(), "html")
    report(source, arguments.out, format=kind)
    print(f"Wrote {arguments.out}")
    return 0


def _budget(ledger: PrivacyLedger) -> str:
    return (
        f"epsilon={ledger.epsilon:g}, delta={ledger.delta:g}, adjacency={ledger.adjacency}, "
        f"unit={ledger.unit}"
    )


def _floor(value: float) -> float:
    """Round down to the six digits that are printed, so that what is printed still fits."""
    if value == 0.0 or math.isinf(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - 5)
    return math.floor(value / unit + 1e-6) * unit


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _print_table(entries: Sequence[LedgerEntry]) -> None:
    header = ("id", "time (UTC)", "label", "mechanism", "epsilon", "delta", "seeded", "pid", "plan")
    rows = [
        (
            str(entry.id),
            f"{entry.time:%Y-%m-%d %H:%M:%S}",
            _one_line(entry.label),
            _one_line(entry.mechanism),
            f"{entry.epsilon:.6g}",
            f"{entry.delta:g}",
            "yes" if entry.seeded else "no",
            str(entry.pid),
            "" if entry.plan is None else str(entry.plan),
        )
        for entry in entries
    ]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, tuple("-" * width for width in widths), *rows):
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


if __name__ == "__main__":
    sys.exit(main())
