"""What can be known to be wrong before a run begins, found before anything is written."""

from skillwright.core import ConfigError, Message, Purpose, Sampling
from skillwright.core.together import together
from skillwright.datasets import Splits
from skillwright.evaluation import tasks_needed
from skillwright.jobs.config import PairedGateConfig, RunConfig
from skillwright.jobs.evaluate import EvalPlan
from skillwright.jobs.wiring import make_env, make_splits
from skillwright.models import HttpClient, ModelConfig, OpenAIChatConfig, make_model

_QUESTION: Message = {"role": "user", "content": "Answer with the single word: ready"}
_ANSWER_TOKENS = 256  # a reasoning model needs room before it says one word
_ATTEMPTS = 2


async def preflight(config: RunConfig, plan: EvalPlan | None = None) -> None:
    """Check tasks, environment and endpoints; one small question goes to each endpoint.

    Args:
        config: What will be run.
        plan: What an evaluation evaluates; ``None`` for training, which has two minds.

    Raises:
        UsageError: Something that the configuration names is missing or wrong.
        ModelRefused: An endpoint refuses the key or the model.
        ModelError: An endpoint does not answer.
    """
    splits = make_splits(config)
    # Built and not opened: its settings are checked, and nothing is played.
    make_env(config.env)(splits.val.tasks[0]).close()
    minds: list[ModelConfig] = [config.models.target]
    if plan is None:
        _refuse_hopeless_gate(config, splits)
        minds.append(config.models.optimizer)
    # Two roles of one mind are one question.
    asked = {mind.model_dump_json(): mind for mind in minds}
    async with HttpClient() as client:
        await together(ask_if_ready(mind, client) for mind in asked.values())


async def ask_if_ready(mind: ModelConfig, client: HttpClient) -> str:
    """Ask an endpoint whether it answers; a scripted mind always does.

    Returns:
        The model's name, as the endpoint reports it.

    Raises:
        ModelError: It does not, after a few attempts.
    """
    if not isinstance(mind, OpenAIChatConfig):
        return mind.model
    impatient = mind.model_copy(update={"max_attempts": min(_ATTEMPTS, mind.max_attempts)})
    answer = await make_model(impatient, client).complete(
        [_QUESTION], sampling=Sampling(max_tokens=_ANSWER_TOKENS), purpose=Purpose.CHECK
    )
    return answer.model or mind.model


def _refuse_hopeless_gate(config: RunConfig, splits: Splits) -> None:
    """Refuse a paired gate that no candidate could ever pass, before a rollout is paid for.

    The configuration does the same for generated games, whose number it knows.
    """
    if not isinstance(config.evaluation.gate, PairedGateConfig):
        return
    decisions = config.decisions(len(splits.train.tasks))
    needed, have = tasks_needed(config.evaluation.alpha / decisions), len(splits.val.tasks)
    if have < needed:
        raise ConfigError(
            f"the paired gate cannot prove a gain on {have} val tasks: {decisions} decisions "
            f"share alpha = {config.evaluation.alpha:g}, which takes at least {needed}. Add val "
            "tasks, or use evaluation.gate.kind 'strict'"
        )
