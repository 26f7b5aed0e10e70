"""The environment of a table's row: one question, one or more replies, and a score."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean
from typing import Any, Final

from skillwright.core import (
    DataError,
    EnvError,
    EpisodeResult,
    Message,
    Purpose,
    Task,
    ToolCall,
    Trajectory,
    Usage,
)
from skillwright.envs.about import EnvReport, Evaluation, Judging, TaskSplits
from skillwright.envs.answers import answer_in, without_thoughts
from skillwright.envs.table.assertions import checked, what_few_prove
from skillwright.envs.table.functions import file_digest, scored_apart
from skillwright.envs.table.reasons import hints
from skillwright.envs.table.scorers import (
    Assertions,
    Function,
    Grade,
    Json,
    Judge,
    Number,
    Regex,
    read_verdict,
)
from skillwright.envs.table.settings import judge_model, judge_of, read_settings
from skillwright.envs.table.splits import find_table_tasks
from skillwright.envs.table.toolbox import ANSWERS, Toolbox
from skillwright.envs.text_env import StepOutput, TextEnv

RULE: Final = "Write your answer inside <answer> and </answer>; a bare answer works too."
RULE_JSON: Final = "Answer with one JSON object with the fields {fields}."


class TableEnv(TextEnv):
    """The environment of a table's row.

    The agent gets the rendered prompt template, and its reply is scored. With ``on_wrong: retry``
    it may answer again, and the last reply counts. With ``mcp``, a turn may call tools of a server
    instead of replying; the result of a malformed call is an error message.

    Args:
        env_config: Settings, as `TableSettings` describes them.
        extras: ``row``, the columns and their values.

    Raises:
        DataError: A setting is wrong, or the row lacks a column that they name.
    """

    version = "2"

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
        self._replies = 0
        self._box = Toolbox(self._settings.mcp) if self._settings.mcp is not None else None

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return two rows for the default settings."""
        sums = [("What is 2 + 3?", "5"), ("What is 4 + 4?", "8")]
        return [{"row": {"prompt": prompt, "answer": answer}} for prompt, answer in sums]

    @classmethod
    def category(cls, task: Task) -> str:
        """Return the task type, or "" if it is the answer, which a bank would reveal."""
        return "" if task.extras.get("answer_is_type") else task.task_type

    @classmethod
    def find_tasks(cls, data: Mapping[str, Any], env_config: object | None = None) -> TaskSplits:
        """Return the rows of the files that a ``data`` section names."""
        return find_table_tasks(data, env_config)

    @classmethod
    def tidied_items(cls, items: Sequence[Any]) -> list[Any]:
        """Convert the rows of a JSON file to items; one without an ``id`` gets its row number."""
        return [
            {"id": str(item.get("id") or f"row-{number}"), "row": item}
            if isinstance(item, Mapping)
            else item
            for number, item in enumerate(items, start=1)
        ]

    @classmethod
    def identity(cls, env_config: object | None = None) -> dict[str, Any]:
        """Return digests of the scorer's and the server's files, whose change may change scores."""
        settings = read_settings(env_config)
        scorer, server = settings.scorer, settings.mcp
        files = {"scorer": file_digest(scorer.function)} if isinstance(scorer, Function) else {}
        return {**files, **({"mcp": server.identity()} if server is not None else {})}

    @classmethod
    def judging(cls, env_config: object | None = None) -> Judging | None:
        """Return the model of the scorers ``judge`` and ``assertions``."""
        scorer = read_settings(env_config).scorer
        asked = judge_of(scorer)
        if asked is None or not isinstance(scorer, Judge | Assertions):
            return None
        return Judging(judge_model(asked), scorer.votes)

    @classmethod
    def gold_actions(cls, extras: Mapping[str, Any], env_config: object | None = None) -> list[str]:
        """Return the right answer; with a regular expression, a function or a judge, none."""
        settings = read_settings(env_config)
        if isinstance(settings.scorer, Regex | Function | Judge | Assertions):
            raise DataError(f"scorer {settings.scorer.kind!r} tells no right answer")
        return [f"<answer>{settings.scorer.gold(settings.right(extras['row']))}</answer>"]

    @classmethod
    def report(
        cls, env_config: object | None, results: Sequence[EpisodeResult], played: Evaluation
    ) -> EnvReport | None:
        """Report what wrong replies have in common, and what few evals can prove."""
        scored = [one for one in results if one.reward is not None]
        facts: dict[str, Any] = {}
        if not any(one.is_success(played.success_threshold) for one in scored):
            last = [turn for one in scored for turn in one.trajectory.turns[-1:]]
            facts["hints"] = hints([str(turn.metadata.get("reason", "")) for turn in last])
        if scored and isinstance(read_settings(env_config).scorer, Assertions):
            facts["assertions_held"] = fmean(one.reward for one in scored if one.reward is not None)
            facts["proof"] = what_few_prove(len({one.task_id for one in scored}))
        kept = {name: found for name, found in facts.items() if found not in ("", [])}
        return EnvReport(kept) if kept else None

    @classmethod
    def report_lines(cls, facts: Mapping[str, Any], scores: Mapping[str, str]) -> Iterator[str]:
        """Format the facts that `report` found."""
        yield from (f"[yellow]0% solved[/]: {hint}." for hint in facts.get("hints", ()))
        if "assertions_held" in facts:
            yield f"Of a reply's assertions, {facts['assertions_held']:.0%} hold on average."
        if "proof" in facts:
            yield f"{facts['proof']}."

    def use_record(self, record: Trajectory, turns: int | None = None) -> None:
        """Use the recorded answers of judge and server; after ``turns`` they are called again."""
        kept = record.turns if turns is None else record.turns[:turns]
        self._verdicts = [turn.metadata.get("verdict") for turn in kept]
        if self._box is not None:
            self._box.use_record(record, turns)

    def native_tools(self) -> Sequence[dict[str, Any]]:
        """Return the server's tools if they are called natively."""
        return () if self._box is None else self._box.native

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Return the opening: the template, rendered with the row."""
        asked: Message = {"role": "user", "content": self._prompt}
        rules = [Message(role="system", content=rule) for rule in self._rules()]
        about = {"observation": self._prompt}
        if self._box is not None:
            offer, offered = self._box.opening()
            rules, about = [*offer, *rules], {**about, **offered}
        return [*prompt, *rules, asked], about

    def step(self, action: str) -> StepOutput:
        """Score a reply; blocks while a judge or a function scores."""
        # In another thread, because an event loop may run in this one.
        with ThreadPoolExecutor(1) as waits:
            return waits.submit(asyncio.run, self.astep(action)).result()

    async def astep(self, action: str) -> StepOutput:
        """Score a reply.

        Raises:
            EnvError: The scorer raised, took too long, or gave no score.
            JudgeError: The judge could not be reached, or gave no valid vote.
        """
        calls = self._box.written(action) if self._box is not None else []
        if calls:
            results, metadata = await self._called(calls)
            return self.reply("\n\n".join(results), metadata=metadata)
        self.turns += 1
        self._replies += 1
        answer, grade = await self._grade(action)
        self._score = grade.score
        facts = {"answer": answer, "expected": self._expected, **grade.facts}
        facts |= {"reason": grade.reason} if grade.reason else {}
        is_last = self._settings.on_wrong == "stop" or self.turns >= self.max_turns
        if grade.score >= 1 or is_last:
            output = self.finish(grade.feedback, reward=grade.score, metadata=facts)
        else:
            output = self.reply(f"{grade.hint} Answer again.", metadata=facts)
        return {**output, "postprocessed_action": answer}

    def step_native(self, said: str, calls: Sequence[ToolCall]) -> StepOutput:
        """Do the same as `astep_native`; blocks while the server works."""
        with ThreadPoolExecutor(1) as waits:
            return waits.submit(asyncio.run, self.astep_native(said, calls)).result()

    async def astep_native(self, said: str, calls: Sequence[ToolCall]) -> StepOutput:
        """Carry out calls; without calls, score the text as a reply.

        Raises:
            EnvError: As `astep`; or the server is missing, died, or took too long.
        """
        if not calls:
            return await self.astep(said)
        results, metadata = await self._called(calls)
        output = self.reply("\n\n".join(results), metadata=metadata)
        answers = [
            Message(role="tool", tool_call_id=call.id, content=text)
            for call, text in zip(calls, results, strict=True)
        ]
        return {**output, "observations": answers}

    @property
    def _expected(self) -> str:
        """The right answer, for people who read the record; "" without one."""
        right = self._right
        if right is None or isinstance(right, str):
            return right or ""
        if isinstance(self._settings.scorer, Assertions):
            return "; ".join(one["text"] for one in right["checks"])
        return json.dumps(right, ensure_ascii=False)

    def close(self) -> None:
        """End the session with the server. Closing twice is allowed."""
        if self._box is not None:
            self._box.close()

    def get_metrics(self) -> dict[str, float]:
        """Return the score of the last reply, in [0, 1], and the number of replies."""
        return {"score": self._score, "tries": float(self._replies)}

    async def _called(self, calls: Sequence[ToolCall]) -> tuple[list[str], dict[str, Any]]:
        self.turns += 1
        results, kept = await self._toolbox.answer(self.turns - 1, calls)
        return results, {ANSWERS: kept}

    @property
    def _toolbox(self) -> Toolbox:
        if self._box is None:
            raise EnvError("this table names no server of tools (env.config.mcp)")
        return self._box

    def get_usage(self) -> dict[str, Usage]:
        """Return the judge's usage."""
        spent = Usage() if self._court is None else self._court.court.usage
        return {} if spent == Usage() else {Purpose.JUDGE.value: spent}

    def _rules(self) -> list[str]:
        scorer = self._settings.scorer
        if isinstance(scorer, Function | Judge | Regex | Assertions):
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
        if isinstance(scorer, Judge | Assertions):
            return reply, await self._judged(scorer, reply)
        answer = answer_in(action)
        if isinstance(scorer, Number):
            comma = bool(self.extras.get("decimal_comma"))
            return answer, scorer.grade(answer, self._right, comma=comma)
        return answer, scorer.grade(answer, self._right)

    async def _judged(self, scorer: Judge | Assertions, reply: str) -> Grade:
        known = self._verdicts[self.turns - 1 : self.turns]
        if known and known[0]:
            return read_verdict(known[0])
        from skillwright.envs.table.judge import TableCourt

        if self._court is None:
            self._court = TableCourt(scorer, int(self.extras.get("seed", 0)))
        if isinstance(scorer, Assertions):
            return await checked(self._court, self._prompt, reply, self._right)
        grade: Grade = await self._court.grade(self._prompt, reply, self._right)
        return grade
