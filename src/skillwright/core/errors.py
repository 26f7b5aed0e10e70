"""The errors every room shares.

    SkillwrightError
    ├── UsageError              you asked for something that cannot be done (exit code 2)
    │   ├── ConfigError         a configuration file, key or value
    │   │   └── NotMeasured     an evaluation whose episodes say nothing about the agent
    │   ├── DataError           a data set, split, game file or skill file
    │   └── RunError            a run folder: busy, missing, damaged, or out of space
    ├── BudgetSpent             a run used up its budget (exit code 3)
    ├── ModelError              an endpoint failed; the episode that asked becomes a Failure
    │   ├── ModelTimeout        no answer before the deadline
    │   ├── ModelRefused        400, 401, 403, 404 and the like: asking again cannot help
    │   │   └── RequestRefused  only this request: too long, or blocked by a content policy
    │   └── ReplyInvalid        the model answered, but not in the form that was asked for
    ├── EnvError                an environment broke; the episode becomes a Failure
    │   └── JudgeError          the model that scores did not answer, or gave no verdict
    └── ContractError           an adapter or environment returned what its contract forbids

Faults of the world (ModelError, EnvError) are recorded as a `Failure` and never as a score. Bugs
are none of these: they cancel concurrent work and escape with a traceback. Every error is built
from its message alone, so that it survives pickling between processes.
"""

import os
import ssl
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from skillwright.core.chat import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable


class SkillwrightError(Exception):
    """Base of every error that Skillwright raises on purpose."""

    exit_code = 1


class UsageError(SkillwrightError):
    """The request cannot be carried out; the message has the next move."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration file, key or value is wrong."""


class DataError(UsageError):
    """A data set, split, game file or skill file is missing or malformed."""


class RunError(UsageError):
    """A run folder is busy, missing, damaged, or cannot be written."""


class NotMeasured(ConfigError):
    """The episodes of an evaluation do not measure the agent, and a resume cannot change that."""


class BudgetSpent(SkillwrightError):
    """A run used up its budget; all that was begun is finished and stored, and it can continue.

    Attributes:
        larger: The options of ``resume`` that give it a budget to continue with.
    """

    exit_code = 3
    larger: str = ""


class ModelError(SkillwrightError):
    """A model endpoint failed in a way that says nothing about the agent.

    Attributes:
        failed_calls: Attempts that were spent on the call; a meter counts them.
        usage: Tokens and money that were charged for them all the same; a meter counts these too.
    """

    failed_calls: int = 1
    usage: Usage = Usage()


class ModelTimeout(ModelError):
    """A model did not answer before its deadline."""


class ModelRefused(ModelError):
    """An endpoint refused the request; sending it again cannot help."""

    exit_code = 2


class RequestRefused(ModelRefused):
    """An endpoint refused this one request; it answers others, so a run need not stop."""


class ReplyInvalid(ModelError):
    """A model answered, but not in the form that it was asked for."""


class EnvError(SkillwrightError):
    """An environment broke; not a clumsy action, which is an observation."""


class JudgeError(EnvError):
    """The model that scores an episode did not answer, or gave no verdict; there is no score."""


class ContractError(SkillwrightError):
    """An adapter or environment returned something that its contract forbids."""


MOST_LISTED = 20


def did_you_mean(word: str, known: "Iterable[str]") -> str:
    """Name the nearest known word, or list what is known, the first `MOST_LISTED` of it.

    Returns:
        A sentence to append to an error message, ending with a full stop.
    """
    names = sorted(known)
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    if not names:
        return "Nothing is known under any name."
    more = f", and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f"Known: {', '.join(names[:MOST_LISTED])}{more}."


# What is wrong with a server's certificate, and what to do about it.
#
# Nothing here turns verification off: without it a key could go to a third party.


# Source: the numbers of OpenSSL's X509_V_ERR_* (x509_vfy.h), which Python passes on.
_NOT_YET, _EXPIRED = 9, 10
_UNKNOWN_SIGNER = frozenset({18, 19, 20, 21})
_OTHER_HOST = frozenset({62, 64})


def certificate_problem(error: ssl.SSLCertVerificationError) -> str:
    """Say why a certificate was refused, and the next move; the end of a message."""
    reason = error.verify_message.rstrip(".")
    match error.verify_code:
        case code if code in _UNKNOWN_SIGNER:
            return (
                f"its certificate is not signed by an authority that this machine trusts "
                f"({reason}). If the server is yours, name a PEM file with the certificate of the "
                f"signer, or with its own: SSL_CERT_FILE=ca.pem skillwright ...{_missing_file()}"
            )
        case code if code in _OTHER_HOST:
            return (
                f"its certificate is for another host ({reason}). Address it by a name that its "
                "certificate has, or give it one for this name"
            )
        case code if code == _EXPIRED:
            return "its certificate has expired. Renew it there, or correct this machine's clock"
        case code if code == _NOT_YET:
            return "its certificate is not valid yet. Correct this machine's clock, or the server's"
        case _:
            return f"its certificate is refused ({reason}). Correct it at the server"


def _missing_file() -> str:
    named = os.environ.get("SSL_CERT_FILE")
    if not named or Path(named).is_file():
        return ""
    return f" (SSL_CERT_FILE names {named!r} now, and there is no such file)"
