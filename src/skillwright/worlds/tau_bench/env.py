"""The episode environment: a simulated customer and tools, one action per turn."""

import json
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, cast

from skillwright.core import (
    DataError,
    EnvError,
    EpisodeResult,
    JudgeError,
    Message,
    ModelError,
    Purpose,
    Task,
    ToolCall,
    Trajectory,
    Usage,
    UsageError,
)
from skillwright.core.result import USER_TURN
from skillwright.envs.about import EnvReport, Evaluation, Judging, TaskSplits
from skillwright.envs.judging import Court
from skillwright.envs.text_env import StepOutput, TextEnv
from skillwright.worlds.tau_bench.config import (
    TauBenchEnvConfig,
    check_together,
    read_config,
    read_replies,
)
from skillwright.worlds.tau_bench.facts import find_tasks, refuse_unasked_store, tau_tasks
from skillwright.worlds.tau_bench.judge import holds, judge_endpoint, judged
from skillwright.worlds.tau_bench.line import (
    UserLine,
    asks,
    message_of,
    reason,
    refuses_everything,
)
from skillwright.worlds.tau_bench.parsing import (
    CLOSE,
    OPEN,
    Call,
    Misfit,
    Speech,
    parse,
    parse_native,
    system_prompt,
    utf8_safe,
)
from skillwright.worlds.tau_bench.recorded import RecordedUser, refuse_newcomer
from skillwright.worlds.tau_bench.report import identity, lines, report
from skillwright.worlds.tau_bench.tau_core.banking import GREP, RETRIEVALS
from skillwright.worlds.tau_bench.tau_core.reward import GRADER_VERSION, Grade, TauTask
from skillwright.worlds.tau_bench.tau_core.store import RESPOND, Store, TauEnv, data_dir, open_store
from skillwright.worlds.tau_bench.tau_core.tools import TRANSFER
from skillwright.worlds.tau_bench.upstream_words import user_words
from skillwright.worlds.tau_bench.users import UserSetting, check_strategy, make_user, wait_for

if TYPE_CHECKING:
    from skillwright.models import ModelConfig

DEFAULT_MAX_TURNS: Final = 30

# With surrounding signs: removing only the marker from ######STOP###### would leave another.
_MARKER: Final = re.compile(r"(?<!#)#{3,}+(STOP|TRANSFER|OUT-OF-SCOPE)#{3,}")

_COUNTED: Final = (
    "parse_errors",
    "tool_errors",
    "mixed_turns",
    "extra_tool_calls",
    "suspect_tool_text",
    "user_ended_early",
    "user_off_role",
    "judged",
)

ROLE_KEPT: Final = (
    "The user keeps to its instruction and makes nothing up that the instruction does not say.",
    "The user does not end the conversation before the agent has done what was agreed.",
)

SILENCE: Final = "(The customer has not said anything yet.)"

_OWN_USERS: Final = ("scripted", "rule_based")
_OPENING: Final = (
    "Hello, I have a question about an order of mine. Could you please help me with it?"
)

logger = logging.getLogger(__name__)


class TauBenchEnv(TextEnv):
    """One customer of tau-bench's retail store or airline.

    In a turn the agent calls one tool or writes to the simulated user. It calls by
    ``{"name": ..., "arguments": {...}}`` in ``<tool_call>`` tags, or natively (``tools: native``,
    `step_native`). The episode ends when the user says `STOP`, when the agent calls
    ``transfer_to_human_agents``, or after ``max_turns``. Its reward is 1.0 if the database is as
    after the task's gold actions and every required text was said to the user, else 0.0; a
    truncated episode is scored only with ``score_on_truncation``.

    Args:
        env_config: Settings, as `TauBenchEnvConfig` describes them.
        extras: ``task_index``; ``task_split`` (default ``test``); ``max_turns`` (default 30);
            and for an episode's own user, ``user_strategy`` and ``user_replies``. Other keys are
            ignored.

    Raises:
        DataError: A setting is wrong, there is no such task, or the data is missing or damaged.
        NotImplementedError: The domain does not exist.

    The metadata of a step has ``source`` (a tool's name or ``user``) or ``error``; ``observation``,
    the bare text; ``tool_call``; ``truncated``; ``user_simulator``, the usage, thoughts and
    rejected drafts of the user's turn; and at the end ``reward_breakdown``. A user that cannot be
    reached is never a score: the awaiting methods raise `EnvError`; the blocking methods, whose
    trainers lose a whole batch by an exception, end the episode with reward 0.0, ``infra_error``
    and ``infra_reason`` (``context``, ``refused``, ``timeout``, ``reply``, ``unreachable``,
    ``broken``). At the opening both raise the error of a refused key or model.
    """

    version = f"2.{GRADER_VERSION}"
    outside_metrics = frozenset({"user_calls", "user_tokens", "user_time_s"})

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        super().__init__(env_config, {"max_turns": DEFAULT_MAX_TURNS, **(extras or {})})
        self.config = read_config(env_config)
        if self.max_turns < 1 or isinstance(self.extras["max_turns"], bool):
            turns = self.extras["max_turns"]
            raise DataError(f"max_turns is {turns}; an episode needs at least 1, a whole number")
        self._strategy = str(self.extras.get("user_strategy") or self.config.user_strategy)
        check_strategy(self._strategy)
        check_together(replace(self.config, user_strategy=self._strategy))
        if self.config.user_prompt == "tau-bench" and self._strategy == "llm":
            user_words(self.config)
        self.data = data_dir(self.config.data_dir, self.config.domain)
        store = open_store(self.data.path, self.config.domain)
        _ = store.checksum  # damaged data raises before the first episode, once per process
        self._votes: Any = None  # of a recorded episode
        self.tau_env = TauEnv(
            store,
            str(self.extras.get("task_split") or "test"),
            _task_index(self.extras),
            self._make_user,
            unlocked=(GREP,) if self.config.retrieval == RETRIEVALS[0] else (),
        )
        self._line: UserLine
        self._court: Court
        self._fault: Exception | None
        self._forget()
        if self._task.assertions and not self.config.judge_votes:
            raise DataError(
                f"tau_bench: task {self.tau_env.index} of {self.tau_env.split} needs a model that "
                f"judges {len(self._task.assertions)} sentences; set env.config.judge_votes: 1"
            )

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return three tasks with a scripted user, who hangs up at the agent's first message."""
        splits = open_store(data_dir().path).splits
        split = "test" if "test" in splits else splits[-1]
        user = {"user_strategy": "scripted", "user_replies": ["Hello, it is about my order."]}
        return [{"task_index": index, "task_split": split, **user} for index in range(3)]

    @classmethod
    def gold_actions(cls, extras: Mapping[str, Any]) -> list[str]:
        """Return turns that solve a task, if the user hangs up at the first message."""
        store = open_store(data_dir().path)
        task = store.task(str(extras.get("task_split") or "test"), _task_index(extras))
        calls = [{"name": one.name, "arguments": one.kwargs} for one in task.actions]
        turns = [f"{OPEN}{json.dumps(c)}{CLOSE}" for c in calls if c["name"] != TRANSFER]
        return [*turns, f"That is done. {' '.join(task.outputs)}".strip()]

    @classmethod
    def sample_tasks(cls, count: int) -> list[Task]:
        """Return the first train tasks of the built-in data."""
        return tau_tasks("train", count=count)

    @classmethod
    def find_tasks(cls, data: Mapping[str, Any], env_config: object | None = None) -> TaskSplits:
        """Return the tasks of the store's splits."""
        return find_tasks(data, env_config)

    @classmethod
    def identity(cls, env_config: object | None = None) -> dict[str, Any]:
        """Return under ``comparability`` what a score depends on besides the agent."""
        return identity(env_config)

    @classmethod
    def refuse_unasked_data(cls, env_config: object | None = None) -> None:
        """Refuse the built-in store, unless the settings ask for it."""
        refuse_unasked_store(env_config)

    @classmethod
    def user_model(cls, env_config: object | None = None) -> "ModelConfig | None":
        """Return the model of the simulated users, an endpoint besides the agent's."""
        from skillwright.worlds.tau_bench.user_model import ModelUser, user_endpoint

        config = read_config(env_config)
        setting = UserSetting(config, split="", task_index=0, replies=config.user_replies)
        user = make_user(config.user_strategy, setting)
        return cast("ModelConfig", user_endpoint(config)) if isinstance(user, ModelUser) else None

    @classmethod
    def judging(cls, env_config: object | None = None) -> Judging | None:
        """Return the model that judges sentences about episodes."""
        config = read_config(env_config)
        votes = config.judge_votes
        return Judging(judge_endpoint(config), votes) if votes else None

    @classmethod
    def quiet_config(cls, env_config: object | None = None) -> Any:
        """Replace the opening of a user who is a model or a person with a script."""
        given = env_config if isinstance(env_config, Mapping) else {}
        if given.get("user_strategy") in _OWN_USERS:
            return env_config
        return {**given, "user_strategy": "scripted", "user_replies": [_OPENING]}

    @classmethod
    def report(
        cls, env_config: object | None, results: Sequence[EpisodeResult], played: Evaluation
    ) -> EnvReport:
        """Report the facts needed to compare the score."""
        return report(env_config, results, played)

    @classmethod
    def report_lines(cls, facts: Mapping[str, Any], scores: Mapping[str, str]) -> Iterator[str]:
        """Format a report."""
        return lines(facts, scores)

    def use_record(self, record: Trajectory, turns: int | None = None) -> None:
        """Make the user repeat its recorded replies; after ``turns`` the live user continues."""
        successor = None if turns is None else refuse_newcomer(self.user_sim)
        last = record.turns[-1:] if turns is None else ()
        self._votes = next((turn.metadata.get("judge") for turn in last), None)
        self.user_sim = RecordedUser(record, lambda: self.turns - 1, turns, successor)

    @property
    def user_sim(self) -> Any:
        """The simulated user, a `UserSimulator`; replaceable before `init`."""
        return self.tau_env.user

    @user_sim.setter
    def user_sim(self, user: Any) -> None:
        self.tau_env.user = user

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Open the call: the system prompt, then the user's opening; ``prompt`` is not used.

        Raises:
            DataError: The data is missing or damaged.
            ModelRefused: The user's server refuses the key or the model.
        """
        self._begin()
        try:
            opening = self._line.open(self.tau_env.instruction)
        except UsageError:
            raise
        except Exception as fault:
            if refuses_everything(fault):
                raise
            logger.warning("the simulated user did not open the conversation", exc_info=True)
            self._fault, opening = fault, SILENCE
        return self._conversation(opening)

    async def ainit(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Open as `init` does, awaiting the user; raise `EnvError` if it cannot be reached."""
        self._begin()
        opening = await self._awaited(self._line.aopen(self.tau_env.instruction))
        messages, metadata = self._conversation(opening)
        # The user's opening states the task; the policy is the same for every task.
        about = {"observation": messages[-1]["content"], USER_TURN: self._line.turn()}
        return messages, metadata | about

    def native_tools(self) -> Sequence[dict[str, Any]]:
        """Return the data's tools if they are called natively."""
        if self.config.tools != "native":
            return ()
        return [dict(tool) for tool in self._schemas]

    def step(self, action: str) -> StepOutput:
        """Take one turn; after the end only say that it is over.

        Raises:
            EnvError: `init` was not called, or ``tools`` is ``native``.
        """
        return self._settled(self._step(self._take(self._understood(action))))

    def step_native(self, said: str, calls: Sequence[ToolCall]) -> StepOutput:
        """Take one turn of an agent with native tools; of several calls only the first is run."""
        return self._settled(self._step(self._take(self._understood_natively(said, calls))))

    def _step(self, taken: StepOutput | str) -> StepOutput:
        if not isinstance(taken, str):
            return taken
        try:
            reply = self._line.say(taken)
        except UsageError:
            raise
        except Exception as fault:
            logger.warning("the simulated user did not answer", exc_info=True)
            return self._no_answer(fault)
        return self._hear(reply)

    async def astep(self, action: str) -> StepOutput:
        """Take a turn as `step` does, awaiting the user; `EnvError` if it cannot be reached."""
        return await self._astep(self._take(self._understood(action)))

    async def astep_native(self, said: str, calls: Sequence[ToolCall]) -> StepOutput:
        """Take a turn as `step_native` does, awaiting the user."""
        return await self._astep(self._take(self._understood_natively(said, calls)))

    async def _astep(self, taken: StepOutput | str) -> StepOutput:
        if not isinstance(taken, str):
            return await self._judged(taken)
        return await self._judged(self._hear(await self._awaited(self._line.asay(taken))))

    def _settled(self, output: StepOutput) -> StepOutput:
        if not self._sentences(output):
            return output
        try:
            return wait_for(self._judged(output))
        except JudgeError as fault:
            return self._no_answer(fault)

    def _sentences(self, output: StepOutput) -> Sequence[str]:
        """Return what is judged: a solved episode by its task, another by the user's role."""
        if self._grade is None or not output["done"] or self._fault or self._truncated:
            return ()
        if self._reward == 1.0:
            return self._task.assertions
        return ROLE_KEPT if self.config.judge_failures else ()

    async def _judged(self, output: StepOutput) -> StepOutput:
        """Let a model judge the end of an episode."""
        sentences, metadata = self._sentences(output), output["metadata"]
        if not sentences or self._grade is None:
            return output
        votes = self._votes
        if votes is None or len(votes) != len(sentences):
            role = f"The user's instruction: {self.tau_env.instruction}"
            about = [role, *self._log] if sentences is ROLE_KEPT else self._log
            votes = await judged(self._court, self.config, sentences, "\n".join(about))
        held, metadata["judge"] = all(map(holds, votes)), votes
        if sentences is ROLE_KEPT:
            self._counts["user_off_role"] = int(not held)
            return output
        self._counts["judged"], self._reward = 1, float(held)
        found = [{"sentence": one, "votes": of} for one, of in zip(sentences, votes, strict=True)]
        grade = replace(self._grade, judged=held).to_dict()
        metadata["reward_breakdown"] = {**grade, "assertions": found}
        return StepOutput(observations=[], reward=float(held), done=True, metadata=metadata)

    async def _awaited(self, reply: Awaitable[str]) -> str:
        try:
            return await reply
        except UsageError:
            raise
        except Exception as fault:  # noqa: BLE001 - a simulator from elsewhere raises what it likes
            raise self._charged(fault) from _model_fault(fault)

    def get_metrics(self) -> dict[str, float]:
        """Return the metrics of the episode so far."""
        counts, line = self._counts, self._line
        return {
            "success": float(self._reward == 1.0),
            "reward": self._reward,
            "num_turns": float(self.turns),
            "num_tool_errors": float(counts["unparsed_calls"]),
            "truncated": float(self._truncated),
            **{name: float(counts[name]) for name in _COUNTED},
            "user_sim_error": float(self._fault is not None),
            "user_calls": float(line.calls),
            "user_tokens": float(line.usage.input_tokens + line.usage.output_tokens),
            "user_time_s": line.wall_s,
            "user_role_swaps": float(line.role_swaps),
            "user_leaks": float(line.leaks),
            "user_inventions": float(line.inventions),
        }

    def get_usage(self) -> dict[str, Usage]:
        """Return the usage of the user's model and of the judge."""
        spent = {Purpose.USER: self._line.usage, Purpose.JUDGE: self._court.usage}
        return {purpose.value: used for purpose, used in spent.items() if used != Usage()}

    def _forget(self) -> None:
        self.turns = 0
        self._counts: Counter[str] = Counter()
        self._reward = 0.0
        self._begun = self._over = self._truncated = False
        self._fault = None
        self._answers: str | None = None  # id of the native call to answer
        self._log: list[str] = []  # the conversation, for a judge
        self._grade: Grade | None = None
        model = partial(judge_endpoint, self.config)
        self._court = Court("tau_bench judge", self.extras.get("seed") or 0, model)
        self._line = UserLine(self.tau_env)

    @property
    def _task(self) -> TauTask:
        return self.tau_env.store.task(self.tau_env.split, self.tau_env.index)

    @property
    def _schemas(self) -> Sequence[Mapping[str, Any]]:
        return _schemas(self.tau_env.store, self.config.retrieval)

    def _begin(self) -> None:
        self._forget()
        self.tau_env.restart()
        self._begun = True

    def _conversation(self, opening: str) -> tuple[list[Message], dict[str, Any]]:
        self._log.append(f"user: {opening}")
        system = _system_prompt(self.tau_env.store, self.config, self._task.documents)
        messages: list[Message] = [
            {"role": "system", "content": system},
            {"role": "user", "content": utf8_safe(opening)},
        ]
        return messages, {"task_index": self.tau_env.index}

    def _make_user(self) -> Any:
        replies = self.extras.get("user_replies")
        if replies is None:
            replies = self.config.user_replies
        return make_user(
            self._strategy,
            UserSetting(
                config=self.config,
                split=self.tau_env.split,
                task_index=self.tau_env.index,
                seed=self.extras.get("seed"),
                replies=read_replies(replies),
                tools=self._task.user_tools,
            ),
        )

    def _understood(self, action: str) -> Call | Speech | Misfit:
        if self.config.tools == "native":
            raise EnvError(
                "tools is 'native', and this turn is a text: the agent knows text actions "
                "only (a trainer, a policy). Set tools: tags"
            )
        self._answers = None
        return parse(action, self.config.parsing, self._schemas)

    def _understood_natively(self, said: str, calls: Sequence[ToolCall]) -> Call | Speech | Misfit:
        self._answers = calls[0].id if calls else None
        return parse_native(said, calls, self.config.parsing, self._schemas)

    def _take(self, meant: Call | Speech | Misfit) -> StepOutput | str:
        """Take a turn; return the outcome, or the message to the user."""
        if not self._begun:
            raise EnvError("step() came before init(); open the episode first")
        if self._over:
            error = "the episode is over; build a new environment for the next one"
            return StepOutput(observations=[], reward=0.0, done=True, metadata={"error": error})
        self.turns += 1
        if self._fault:
            return self._no_answer(self._fault)
        if isinstance(meant, Speech):
            self._counts["suspect_tool_text"] += meant.suspect
            return self._say(meant.text)
        self._counts["mixed_turns"] += meant.mixed
        self._counts["extra_tool_calls"] += meant.extra_calls
        if isinstance(meant, Misfit):
            return self._misfit(meant)
        self._counts["suspect_tool_text"] += meant.suspect
        if meant.name == RESPOND:
            return self._respond(meant.arguments.get("content"))
        return self._call(meant)

    def _misfit(self, misfit: Misfit) -> StepOutput:
        self._counts["parse_errors"] += 1
        self._counts["unparsed_calls"] += misfit.is_call
        return self._output(misfit.error, misfit.error, {"error": misfit.error})

    def _respond(self, content: Any) -> StepOutput | str:
        if isinstance(content, str) and content.strip():
            return self._say(content)
        return self._misfit(
            Misfit("Error: could not parse tool call (respond needs a content that is a text)")
        )

    def _say(self, text: str) -> str:
        self.tau_env.say(text)
        self._log.append(f"agent: {text}")
        # The marker belongs to the user; an agent that writes it must not end the call.
        return utf8_safe(_MARKER.sub(r"\1", text))

    def _call(self, call: Call) -> StepOutput:
        result = self.tau_env.call(call.name, call.arguments)
        self._counts["tool_errors"] += result.is_error
        self._log.append(f"agent calls {call.name} {json.dumps(call.arguments)}")
        self._log.append(f"result: {result.observation}")
        observation = utf8_safe(result.observation)
        shown = observation or self.config.empty_observation
        if call.extra_calls and self._answers is None:  # natively it does not see them again
            shown += f"\n\nOnly the first tool call of a turn is run; {call.extra_calls} more not."
        if self.config.wrap_tool_results:
            shown = f"<tool_response>\n{shown}\n</tool_response>"
        name = utf8_safe(call.name)
        called = {"name": name, "arguments": json.dumps(call.arguments)}
        metadata = {"source": name, "tool_call": called}
        return self._output(observation, shown, metadata, ends=result.ends_episode)

    def _hear(self, reply: str) -> StepOutput:
        heard = utf8_safe(reply)
        for one in self._line.called:
            self._log += [f"user calls {one['said']}", f"result: {one['result']}"]
        self._log.append(f"user: {heard}")
        metadata = {"source": "user", USER_TURN: self._line.turn()}
        ends = any(word in reply for word in self.tau_env.store.domain.stop_words)
        self._counts["user_ended_early"] = int(ends and asks(self.tau_env.said[-1]))
        return self._output(heard, heard, metadata, ends=ends)

    def _charged(self, fault: Exception) -> Exception:
        self._over, self._fault = True, fault
        if refuses_everything(fault):
            return fault
        who = f"the simulated user of task {self.tau_env.index} ({reason(fault)})"
        return EnvError(f"{who}: {message_of(fault)}")

    def _no_answer(self, fault: Exception) -> StepOutput:
        self._over, self._fault = True, fault
        why = {"error": message_of(fault), "infra_error": True, "infra_reason": reason(fault)}
        metadata = {**why, "observation": "", "truncated": False}
        return StepOutput(observations=[], reward=0.0, done=True, metadata=metadata)

    def _output(
        self, observation: str, shown: str, metadata: dict[str, Any], *, ends: bool = False
    ) -> StepOutput:
        truncated = not ends and self.turns >= self.max_turns
        metadata |= {"observation": observation, "truncated": truncated}
        if not (ends or truncated):
            message: Message = {"role": "user", "content": shown}
            if self._answers is not None:
                message = {"role": "tool", "tool_call_id": self._answers, "content": shown}
            return StepOutput(observations=[message], reward=0.0, done=False, metadata=metadata)
        grade = self._grade = self.tau_env.grade()
        self._over, self._truncated = True, truncated
        self._reward = grade.reward if ends or self.config.score_on_truncation else 0.0
        metadata["reward_breakdown"] = grade.to_dict()
        # No agent answers the last message, and trainers would cut it off.
        return StepOutput(observations=[], reward=self._reward, done=True, metadata=metadata)


def _system_prompt(store: Store, config: TauBenchEnvConfig, documents: Sequence[str]) -> str:
    needed = tuple(documents) if config.retrieval == "golden_retrieval" else ()
    settings = (config.show_rules, config.tools, config.prompt, config.retrieval)
    return _known_prompt(store, *settings, needed)


@lru_cache(maxsize=16)
def _known_prompt(
    store: Store, rules: bool, tools: str, preset: str, retrieval: str, needed: tuple[str, ...]
) -> str:
    schemas, policy = _schemas(store, retrieval), store.policy(retrieval, needed)
    return system_prompt(policy, store.rules if rules else (), schemas, tools=tools, preset=preset)


def _schemas(store: Store, retrieval: str) -> Sequence[Mapping[str, Any]]:
    """Return the tools that an agent sees; only a way to search documents shows the search."""
    if retrieval == RETRIEVALS[0]:
        return store.tool_schemas
    return [one for one in store.tool_schemas if one["function"]["name"] != GREP]


def _model_fault(fault: Exception) -> ModelError:
    """Convert a user's failure, also of an external simulator, to the engine's error."""
    if isinstance(fault, ModelError):
        return fault
    broken = ModelError(message_of(fault))
    broken.__cause__ = fault
    return broken


def _task_index(extras: Mapping[str, Any]) -> int:
    value = extras.get("task_index")
    try:
        index = int(value)  # type: ignore[arg-type]  # what it cannot take, it refuses
        whole = not isinstance(value, bool) and float(index) == float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise DataError(f"extras: task_index is {value!r}; give the number of a task, from 0")
    return index
