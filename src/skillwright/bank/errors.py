"""What can go wrong with a bank's file."""

from skillwright.core import UsageError


class BankError(UsageError):
    """A bank's file is missing, damaged, busy, or cannot be written."""


class UnknownVersion(BankError):
    """A bank has no such version."""


class BankMoved(BankError):
    """Somebody else made a new version meanwhile."""
