"""Question answering over given passages: one question, one answer, one reward."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from skillwright.core import DataError, Message, did_you_mean
from skillwright.envs.about import TaskSplits
from skillwright.envs.answers import answer_in, exact_match, token_f1
from skillwright.envs.text_env import StepOutput, TextEnv
from skillwright.worlds.search.generate import generated_questions
from skillwright.worlds.search.items import fitting, read_question, with_ids

METRICS: Final = ("em", "f1")
MOST_CONTEXT_CHARS: Final = 6000

RULES: Final = """\
You are given passages and a question. The answer stands in the passages.

Write it inside <answer> and </answer>; a bare answer works too. You have one turn."""


class QaEnv(TextEnv):
    """One question.

    Args:
        env_config: ``metric``, the reward: ``em`` (exact match, the default) or ``f1``
            (word overlap);
            ``max_context_chars``, the maximum characters of passages in the prompt (default 6000).
        extras: The question, as in `read_question`.

    Raises:
        DataError: A setting is unknown or wrong, or ``extras`` holds no valid question.
    """

    version = "2"

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        super().__init__(env_config, extras)
        self._metric, self._most_chars = _settings(env_config)
        self._question = read_question(self.extras)
        self._scores: dict[str, float] = {}

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return eight generated questions, two of each kind."""
        return [dict(task.extras) for task in generated_questions("train", 8)]

    @classmethod
    def find_tasks(cls, data: Mapping[str, Any], env_config: object | None = None) -> TaskSplits:
        """Return generated questions."""
        train, val, test = (
            generated_questions(split, data[split], seed=data["seed"])
            for split in ("train", "val", "test")
        )
        return train, val, test

    @classmethod
    def gold_actions(cls, extras: Mapping[str, Any]) -> list[str]:
        """Return the right answer."""
        return [f"<answer>{read_question(extras).answers[0]}</answer>"]

    @classmethod
    def tidied_items(cls, items: Sequence[Any]) -> list[Any]:
        """Check the questions of a file, and give each an id.

        Raises:
            DataError: An item is no question.
        """
        return with_ids(items)

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Return the prompt with passages and question."""
        shown = fitting(self._question.passages, self._most_chars)
        passages = [f"Passage {number}: {one}" for number, one in enumerate(shown, start=1)]
        text = "\n\n".join([*passages, f"Question: {self._question.text}"])
        rules: Message = {"role": "system", "content": RULES}
        return [*prompt, rules, {"role": "user", "content": text}], {"observation": text}

    def step(self, action: str) -> StepOutput:
        """Score the answer and end the episode."""
        self.turns += 1
        answer, right = answer_in(action), self._question.answers
        self._scores = {"em": exact_match(answer, right), "f1": token_f1(answer, right)}
        is_right = self._scores["em"] == 1.0
        # For the optimizer; the agent does not see it.
        said = "Right." if is_right else f'Expected "{right[0]}", and you answered "{answer}".'
        facts = {**self._scores, "answer": answer, "expected": right[0]}
        output = self.finish(said, reward=self._scores[self._metric], metadata=facts)
        return {**output, "postprocessed_action": answer}

    def get_metrics(self) -> dict[str, float]:
        """Return both ``em`` and ``f1``, in [0, 1]; one of them is the reward."""
        return dict(self._scores) or {"em": 0.0, "f1": 0.0}


def _settings(env_config: object | None) -> tuple[str, int]:
    config = {} if env_config is None else env_config
    if not isinstance(config, Mapping):
        raise DataError(f"qa env_config is a {type(config).__name__}; write a mapping")
    known = ("metric", "max_context_chars")
    for name in config:
        if name not in known:
            raise DataError(f"qa env_config: no setting {name!r}. {did_you_mean(str(name), known)}")
    metric, most = config.get("metric", "em"), config.get("max_context_chars", MOST_CONTEXT_CHARS)
    if metric not in METRICS:
        raise DataError(f"qa env_config: metric is {metric!r}; use 'em' or 'f1'")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise DataError(f"qa env_config: max_context_chars is {most!r}; use a number from 1")
    return metric, most
