"""A row of a table: one question, a reply or several, and a score."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from skillwright.core import (
    DataError,
    JudgeError,
    Message,
    ModelError,
    ModelRefused,
    Purpose,
    RequestRefused,
    Task,
    Trajectory,
    Usage,
)
from skillwright.envs.about import Judging, TaskSplits
from skillwright.envs.answers import answer_in, without_thoughts
from skillwright.envs.table.functions import file_digest, scored_apart
from skillwright.envs.table.scorers import Function, Grade, Json, Judge, Regex, read_verdict
from skillwright.envs.table.settings import judge_model, read_settings
from skillwright.envs.table.splits import find_table_tasks
from skillwright.envs.text_env import StepOutput, TextEnv

RULE: Final = "Write your answer inside <answer> and </answer>; a bare answer works too."
RULE_JSON: Final = "Answer with one JSON object with the fields {fields}."


class TableEnv(TextEnv):
    """A row of a table.

    The agent is asked what the prompt's template makes of the row, and its reply is scored. With
    ``on_wrong: retry`` it may answer again; then the last reply counts.

    Args:
        env_config: Settings, as `TableSettings` describes them.
        extras: ``row``, the columns and their values.

    Raises:
        DataError: A setting is wrong, or the row lacks a column that they name.
    """

    version = "1"

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        super().__init__(env_config, extras)
        self._settings = read_settings(env_config)
        row = self.extras.get("row")
        if not isinstance(row, Mapping):
            raise DataError(
                f"table extras have the row under 'row', and it is {row!r}; tasks of a file are "
                "made by env.data of kind 'table'"
            )
        self._row = row
        self._prompt = self._settings.asked(row)
        self._right = self._settings.right(row)
        self._court: Any = None
        self._verdicts: list[Mapping[str, Any] | None] = []
        self._score = 0.0

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return two rows for settings that say nothing."""
        sums = [("What is 2 + 3?", "5"), ("What is 4 + 4?", "8")]
        return [{"row": {"prompt": prompt, "answer": answer}} for prompt, answer in sums]

    @classmethod
    def category(cls, task: Task) -> str:
        """Return the task type, but where that is the answer: a bank would tell it to the agent."""
        return "" if task.extras.get("answer_is_type") else task.task_type

    @classmethod
    def find_tasks(cls, data: Mapping[str, Any], env_config: object | None = None) -> TaskSplits:
        """Return the rows of the files that a ``data`` section names."""
        return find_table_tasks(data, env_config)

    @classmethod
    def tidied_items(cls, items: Sequence[Any]) -> list[Any]:
        """Take the rows of a JSON file as items; one without an ``id`` is named by its place."""
        return [
            {"id": str(item.get("id") or f"row-{number}"), "row": item}
            if isinstance(item, Mapping)
            else item
            for number, item in enumerate(items, start=1)
        ]

    @classmethod
    def identity(cls, env_config: object | None = None) -> dict[str, Any]:
        """Return a digest of the scorer's file, so that a changed one scores anew."""
        scorer = read_settings(env_config).scorer
        return {"scorer": file_digest(scorer.function)} if isinstance(scorer, Function) else {}

    @classmethod
    def judging(cls, env_config: object | None = None) -> Judging | None:
        """Return the model of the scorer ``judge``."""
        scorer = read_settings(env_config).scorer
        return Judging(judge_model(scorer), scorer.votes) if isinstance(scorer, Judge) else None

    @classmethod
    def gold_actions(cls, extras: Mapping[str, Any], env_config: object | None = None) -> list[str]:
        """Return the right answer; a regular expression, a function and a judge have none."""
        settings = read_settings(env_config)
        if isinstance(settings.scorer, Regex | Function | Judge):
            raise DataError(f"scorer {settings.scorer.kind!r} tells no right answer")
        return [f"<answer>{settings.scorer.gold(settings.right(extras['row']))}</answer>"]

    def use_record(self, record: Trajectory, turns: int | None = None) -> None:
        """Take a judge's verdicts from a record; after ``turns`` the judge is asked again."""
        kept = record.turns if turns is None else record.turns[:turns]
        self._verdicts = [turn.metadata.get("verdict") for turn in kept]

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Ask what the template makes of the row."""
        asked: Message = {"role": "user", "content": self._prompt}
        rules = [Message(role="system", content=rule) for rule in self._rules()]
        return [*prompt, *rules, asked], {"observation": self._prompt}

    def step(self, action: str) -> StepOutput:
        """Score a reply, waiting for whoever scores it."""
        # In a thread, as a loop may run in this one.
        with ThreadPoolExecutor(1) as waits:
            return waits.submit(asyncio.run, self.astep(action)).result()

    async def astep(self, action: str) -> StepOutput:
        """Score a reply.

        Raises:
            EnvError: The scorer raised, took too long, or gave no score.
            JudgeError: The judge could not be reached, or did not vote.
        """
        self.turns += 1
        answer, grade = await self._grade(action)
        self._score = grade.score
        is_last = self._settings.on_wrong == "stop" or self.turns >= self.max_turns
        if grade.score >= 1 or is_last:
            output = self.finish(grade.feedback, reward=grade.score, metadata=grade.facts)
        else:
            output = self.reply(f"{grade.hint} Answer again.", metadata=grade.facts)
        return {**output, "postprocessed_action": answer}

    def get_metrics(self) -> dict[str, float]:
        """Return the score of the last reply, in [0, 1], and how many replies there were."""
        return {"score": self._score, "tries": float(self.turns)}

    def get_usage(self) -> dict[str, Usage]:
        """Return what the judge has consumed."""
        spent = Usage() if self._court is None else self._court.usage
        return {} if spent == Usage() else {Purpose.JUDGE.value: spent}

    def _rules(self) -> list[str]:
        scorer = self._settings.scorer
        if isinstance(scorer, Function | Judge | Regex):
            return []
        if isinstance(scorer, Json):
            fields = self._right if isinstance(self._right, Mapping) else {}
            return [RULE_JSON.format(fields=", ".join(fields))] if fields else [RULE]
        return [RULE]

    async def _grade(self, action: str) -> tuple[str, Grade]:
        scorer = self._settings.scorer
        reply = without_thoughts(action)
        if isinstance(scorer, Function | Regex):
            reply = reply if isinstance(scorer, Function) else answer_in(action)
            return reply, await scored_apart(scorer, self._row, reply, self._right)
        if isinstance(scorer, Judge):
            return reply, await self._judged(scorer, reply)
        answer = answer_in(action)
        return answer, scorer.grade(answer, self._right)

    async def _judged(self, scorer: Judge, reply: str) -> Grade:
        known = self._verdicts[self.turns - 1 : self.turns]
        if known and known[0]:
            return read_verdict(known[0])
        from skillwright.envs.table.judge import Court

        if self._court is None:
            self._court = Court(scorer, int(self.extras.get("seed", 0)))
        try:
            grade: Grade = await self._court.grade(self._prompt, reply, self._right)
        except ModelError as error:
            refused = isinstance(error, ModelRefused) and not isinstance(error, RequestRefused)
            if refused or getattr(error, "for_good", False):  # the run stops for these
                raise
            raise JudgeError(f"the judge gave no verdict: {error}") from error
        return grade
