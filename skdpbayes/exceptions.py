"""The warnings and errors that speak of privacy."""

from __future__ import annotations

__all__ = [
    "BudgetExceededError",
    "CalibrationError",
    "LedgerError",
    "NotPrivateError",
    "PrivacyWarning",
]


class PrivacyWarning(UserWarning):
    """Something the caller asked for weakens or conditions the privacy claim."""


class CalibrationError(ValueError):
    """No noise level within the mechanism's reach meets the requested (epsilon, delta)."""


class NotPrivateError(ValueError):
    """A step learns from records without a privacy claim."""


class LedgerError(RuntimeError):
    """A privacy ledger cannot be opened, read or written as asked."""


class BudgetExceededError(LedgerError):
    """A reservation would overrun the ledger's budget; nothing was charged."""
