"""How a run of a command-line agent fails: known by its words, as programs give no other cause."""

import re

from skillwright.core import ModelError, ModelRefused, ReplyInvalid
from skillwright.models.http.faults import ContextOverflow, EndpointFault


class ExecFault(EndpointFault):
    """A command-line agent failed in a way that another run of it may cure."""


class OutputFlood(ExecFault):
    """A command-line agent printed more than the bound, and was killed."""


_WINDOW = re.compile(
    r"context window|context length|context_length|prompt is too long|prompt_too_long", re.I
)
_PLAN = re.compile(
    r"usage limit|usage_limit|insufficient_quota|billing|credit balance|spend(ing)? limit"
    r"|out of (credits|quota)|quota exceeded",
    re.I,
)
_KEY = re.compile(
    r"(status|error|http)[ :/]*40[13]\b|unauthori[sz]ed|authenticat|not logged in"
    r"|(invalid|incorrect|missing) api.?key"
    r"|please (log|sign) ?in|run /login|invalid bearer",
    re.I,
)
_MODEL = re.compile(
    r"model_not_found|model .{0,60}(not found|does not exist|not supported)|no such model", re.I
)
_BOUND = re.compile(r"error_max_(turns|budget_usd|structured_output_retries)")
_OPTION = re.compile(r"unexpected argument|unknown option|unrecognized (option|argument)", re.I)
_LONGEST_SAID = 400


def fault_of_words(words: str, program: str, how: str) -> ModelError:
    """Turn what a program says about its failure into the error to raise."""
    said = " ".join(words.split())
    told = f"{said[:_LONGEST_SAID]}..." if len(said) > _LONGEST_SAID else said
    head = f"{program} failed ({how}): {told or 'it said nothing'}."
    if _WINDOW.search(said):
        return ContextOverflow(f"{head} Shorten the conversation, or use a larger model.")
    if bound := _BOUND.search(said):
        return ReplyInvalid(
            f"{head} It reached a bound before it answered: raise max_{bound[1]}, or leave it out."
        )
    if _PLAN.search(said):
        return ModelRefused(f"{head} The plan or account is used up: wait for its reset, or pay.")
    if _KEY.search(said):
        return ModelRefused(f"{head} Sign in again, or correct the key in api_key_env.")
    if _MODEL.search(said):
        return ModelRefused(f"{head} Check the model's name and that the account may use it.")
    if _OPTION.search(said):
        return ModelRefused(f"{head} This version of the program is too old or too new: update it.")
    return ExecFault(head)
