"""Stop a training whose optimizer's replies are unusable, before it spends more."""

from skillwright.core.fence import one_line
from skillwright.jobs.kinds import UNUSABLE
from skillwright.jobs.text.replies import Account
from skillwright.jobs.text.state import TrainState
from skillwright.jobs.text.wiring import TrainParts
from skillwright.rollout import EngineDown

_SAMPLE, _QUOTED = 160, 40
"""Maximum characters of a quoted reply, and the length of the prefix to look for in its cause."""


def stop_if_unusable(
    run: TrainParts, state: TrainState, account: Account, what: str, *, is_last: bool = False
) -> None:
    """Stop before the decision on a step, or an epoch's update, if too few replies are usable.

    The replies are forgotten, so that a resumed run asks again. Under ``run.parity`` a run
    continues as SkillOpt does.

    Raises:
        EngineDown: All replies of the first step, or most of a run, cannot be used.
    """
    replies, lost = account.replies, account.unusable
    too_bad = replies.are_too_bad(state.replies, is_last=is_last)
    if not lost or not too_bad or run.config.run.parity:
        return
    said = _message(run, state, account, what)
    run.calls.forget(one.prompt_digest for one in lost)
    run.store.append_event(UNUSABLE, {"message": said, **replies.to_dict()})
    raise EngineDown(said)


def _message(run: TrainParts, state: TrainState, account: Account, what: str) -> str:
    whole = account.replies + state.replies
    in_run = f" ({whole.line} in this run)" if state.replies.asked else ""
    cache = getattr(run.config.models.optimizer, "cache", None)
    cached = f", remove the reply cache {str(cache)!r}, which holds these replies," if cache else ""
    return (
        f"{what} is not decided: {account.why_unusable}{in_run}.{_sample(run, account)} "
        f"The test stays sealed. Correct the optimizer's model or its server{cached} and resume: "
        "it is asked again, and no episode is repeated. Another model, or other settings, need "
        "a new run."
    )


def _sample(run: TrainParts, account: Account) -> str:
    first = account.unusable[0]
    text = one_line(run.calls.last_reply(first.prompt_digest), _SAMPLE)
    is_quoted = text[:_QUOTED] in first.cause  # not a second time
    return "" if is_quoted else f" The reply to {first.call}: {text!r}."
