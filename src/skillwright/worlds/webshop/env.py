"""The episode environment: one visit to the shop, in text.

The system message contains the rules. Every other message is a page, a blank line and the actions,
one per line (unless ``show_actions`` is off). The reply to an action without effect is
`DID_NOTHING`, a blank line, and the same page; the page after a purchase has no actions.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from skillwright.core import DataError, EnvError, Message, Task, did_you_mean
from skillwright.core.agent import action_in, tagged_action
from skillwright.envs.about import TaskSplits
from skillwright.envs.text_env import StepOutput, TextEnv
from skillwright.worlds.webshop.builtin import GENERATOR_VERSION
from skillwright.worlds.webshop.catalogue import Catalogue, open_catalogue
from skillwright.worlds.webshop.goals import (
    CATEGORIES,
    category_of,
    read_config,
    search_commands,
    webshop_tasks,
)
from skillwright.worlds.webshop.product import Goal, Product
from skillwright.worlds.webshop.reward import are_alike, compared_text, plain_color, resolve_tagger
from skillwright.worlds.webshop.search import query_words
from skillwright.worlds.webshop.session import (
    HITS_PER_PAGE,
    SEPARATOR,
    Session,
    as_rich_text,
    as_text,
)

DEFAULT_MAX_TURNS: Final = 15
DID_NOTHING: Final = "That did nothing."
ACTIONS_MARK: Final = "Available actions:"

# Extras and their types. Every task has ``seed``, which has no effect here.
_EXTRAS: Final[Mapping[str, type]] = {
    "goal": str,
    "goal_id": str,
    "world_seed": int,
    "catalogue_sha256": str,
    "tagger": str,
    "engine": str,
    "max_turns": object,
    "seed": object,
}

_BARE: Final = re.compile(r"^[ \t]*(?:action:[ \t]*)?((?:search|click)\[.*\])[ \t]*$", re.I | re.M)

_INSTRUCTIONS: Final = """\
You are in an online shop and buy one thing for a customer, whose instruction stands on every \
page. You act through text commands, one per turn, and read the page that comes of each.

search[words] searches the shop. click[x] clicks on something of the page: a button, a product's \
id, or the value of an option. Write the command inside <action> and </action>, for example \
<action>search[blue wool blanket]</action>. A bare command works too. Anything else does nothing \
and costs a turn.

click[buy now] on a product's page ends the visit; what was bought is then compared with the \
instruction. You have {max_turns} turns."""


class WebShopEnv(TextEnv):
    """One visit to the shop.

    Args:
        env_config: Settings, see `WebShopEnvConfig`.
        extras: ``goal``, the key of a goal in the catalogue, from `webshop_tasks`;
            ``world_seed`` (default 0) and ``max_turns`` (default 15). If ``goal_id``,
            ``catalogue_sha256``, ``tagger`` or ``engine`` are given, `init` refuses others.

    Raises:
        DataError: A setting is unknown or has the wrong type.

    The reward of a purchase is in [0, 1] (`Grade.reward`); every other step has 0. The metadata of
    `init` and `step` has ``observation`` (the bare page), ``admissible_commands``,
    ``available_actions`` (``has_search_bar`` and ``clickables``, as in the original), ``won``,
    ``truncated``, and after a purchase ``reward_breakdown``. The admissible commands are all clicks
    of the page, and before them, if the page has a search bar, some searches (`search_commands`).
    Any other search is valid, too, on any page.
    """

    version = f"2.{GENERATOR_VERSION}"

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        super().__init__(env_config, {"max_turns": DEFAULT_MAX_TURNS, **(extras or {})})
        self.config = read_config(env_config)
        _check_extras(self.extras)
        if self.max_turns < 1:
            raise DataError(f"max_turns is {self.max_turns}; an episode needs at least 1")
        self._session: Session | None = None
        self._page = ""
        self._forget()

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return goals of the built-in shop, of both kinds."""
        tasks = [*webshop_tasks("train", 6), *webshop_tasks("train", 2, goals="synthetic")]
        return [dict(task.extras) for task in tasks]

    @classmethod
    def sample_tasks(cls, count: int) -> list[Task]:
        """Return the first train tasks of the built-in data."""
        return webshop_tasks("train", count)

    @classmethod
    def find_tasks(cls, data: Mapping[str, Any], env_config: object | None = None) -> TaskSplits:
        """Return goals of a catalogue."""
        seed, goals = data["seed"], data["goals"]
        train, val, test = (
            webshop_tasks(split, data[split], seed=seed, goals=goals, env_config=env_config)
            for split in ("train", "val", "test")
        )
        return train, val, test

    @classmethod
    def gold_actions(cls, extras: Mapping[str, Any], env_config: object | None = None) -> list[str]:
        """Return actions that buy the goal's own product with its options.

        Their reward is 1.0, except for a synthetic goal whose option has a color inside a word
        ("blueberry"): as in the original, that option does not count as met.

        Raises:
            DataError: There is no such goal, or no search finds its product.
        """
        config = read_config(env_config)
        catalogue = open_catalogue(config.source(int(extras.get("world_seed", 0))))
        goal = catalogue.goal(str(extras["goal"]))
        product = catalogue.product(goal.asin)
        options = [f"click[{value}]" for value in _values_to_click(product, goal)]
        found = _way_to(catalogue, product)
        return [*found, f"click[{product.asin.lower()}]", *options, "click[buy now]"]

    @classmethod
    def category(cls, task: Task) -> str:
        """Return a task's category, one of `CATEGORIES`, by its type or instruction."""
        if task.task_type in CATEGORIES:
            return task.task_type
        return category_of(task.description) if task.description else ""

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Return the prompt: the rules, then the search page.

        Raises:
            DataError: There is no such catalogue or goal, or the task was made with another one.
        """
        self._forget()
        self._session = self._visit()
        metadata = self._metadata(self._session, truncated=False)
        messages: list[Message] = [
            *prompt,
            {"role": "system", "content": _INSTRUCTIONS.format(max_turns=self.max_turns)},
            {"role": "user", "content": self._shown(metadata)},
        ]
        return messages, metadata

    def step(self, action: str) -> StepOutput:
        """Execute one command: the last in ``<action>`` tags, or else the last on a line."""
        if self._session is None:
            raise EnvError("step() came before init(); open the episode first")
        session, command = self._session, _command(action)
        self.turns += 1
        self._past_pages.append(self._page)
        self._past_actions.append(command)
        done_something = session.act(command)
        self._invalid_actions += not done_something
        self._truncated = not session.done and self.turns >= self.max_turns
        metadata = self._metadata(session, truncated=self._truncated)
        shown = metadata["observation"] if session.done else self._shown(metadata)
        return StepOutput(
            observations=[
                {
                    "role": "user",
                    "content": shown if done_something else f"{DID_NOTHING}\n\n{shown}",
                }
            ],
            reward=float(session.grade.reward) if session.grade and done_something else 0.0,
            done=session.done or self._truncated,
            metadata=metadata,
            postprocessed_action=command,
        )

    def get_metrics(self) -> dict[str, float]:
        """Return the metrics of the episode so far.

        ``score`` (100 times the reward), ``success`` (1 if the reward is exactly 1), ``bought``,
        ``truncated``, ``steps``, ``invalid_actions``; after a purchase also `Grade.parts`.
        """
        grade = self._session.grade if self._session is not None else None
        parts = grade.parts() if grade else {}
        return {
            "score": 100 * float(grade.reward) if grade else 0.0,
            "success": float(grade is not None and grade.success),
            "bought": float(grade is not None),
            "truncated": float(self._truncated),
            "steps": float(self.turns),
            "invalid_actions": float(self._invalid_actions),
            **{name: float(value) for name, value in parts.items()},
        }

    def _forget(self) -> None:
        self.turns = self._invalid_actions = 0
        self._truncated = False
        self._past_pages: list[str] = []
        self._past_actions: list[str] = []
        self._page = ""

    def _visit(self) -> Session:
        catalogue = open_catalogue(self.config.source(int(self.extras.get("world_seed", 0))))
        goal = catalogue.goal(self.extras["goal"])
        tagger = resolve_tagger(self.config.tagger)
        made_with = {
            "goal_id": goal.id,
            "catalogue_sha256": catalogue.digest,
            "tagger": tagger,
            "engine": self.config.engine,
        }
        for name, here in made_with.items():
            asked = self.extras.get(name, here)
            if asked != here:
                raise DataError(
                    f"webshop: the task was made with {name} {asked!r}, and here it is {here!r}; "
                    "its scores would not compare. List the tasks again with webshop_tasks()"
                )
        return Session(catalogue, goal, tagger, show_attributes=self.config.show_attributes)

    def _metadata(self, session: Session, *, truncated: bool) -> dict[str, Any]:
        rich = self.config.observation_mode == "text_rich"
        self._page = as_rich_text(session.page) if rich else as_text(session.page)
        clickables, has_bar = session.clickables, session.has_search_bar
        searches = search_commands(session.goal.instruction_text) if has_bar else []
        clicks = [f"click[{text}]" for text in clickables if not (has_bar and text == "search")]
        metadata = {
            "observation": self._with_history(),
            "admissible_commands": [] if session.done else [*searches, *clicks],
            "available_actions": {"has_search_bar": has_bar, "clickables": clickables},
            "won": session.grade is not None and session.grade.success,
            "truncated": truncated,
        }
        if session.grade is not None:
            metadata["reward_breakdown"] = session.grade.parts()
        return metadata

    def _with_history(self) -> str:
        """Return the page after earlier pages and actions, oldest first, as in the original."""
        pages, actions = self.config.num_prev_obs, self.config.num_prev_actions
        parts = [self._page]
        for back in range(1, min(max(pages, actions), len(self._past_pages)) + 1):
            if back <= actions:
                parts.append(self._past_actions[-back])
            if back <= pages:
                parts.append(self._past_pages[-back])
        return SEPARATOR.join(reversed(parts))

    def _shown(self, metadata: Mapping[str, Any]) -> str:
        if not self.config.show_actions:
            return str(metadata["observation"])
        clicks = [one for one in metadata["admissible_commands"] if one.startswith("click[")]
        actions = "\n".join([ACTIONS_MARK, "search[<words>]", *clicks])
        return f"{metadata['observation']}\n\n{actions}"


def _command(action: str) -> str:
    bare = _BARE.findall(action)
    if bare and tagged_action(action) is None:
        return str(bare[-1]).strip()
    return action_in(action)


def _check_extras(extras: Mapping[str, Any]) -> None:
    for name, value in extras.items():
        if name not in _EXTRAS:
            raise DataError(f"webshop extras: no setting {name!r}. {did_you_mean(name, _EXTRAS)}")
        wanted = _EXTRAS[name]
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise DataError(f"webshop extras: {name} is {value!r}; it must be {wanted.__name__}")
    if "goal" not in extras:
        raise DataError(
            "webshop extras: 'goal' is missing; webshop_tasks() lists the tasks of a split with it"
        )


def _way_to(catalogue: Catalogue, product: Product) -> list[str]:
    """Return a search that finds a product, and the clicks to the page that lists it."""
    for text in (product.title, product.searched_text):
        query = " ".join(query_words(text))
        hits = catalogue.search(query)
        if product.asin in hits:
            pages = hits.index(product.asin) // HITS_PER_PAGE
            return [f"search[{query}]", *["click[next >]"] * pages]
    raise DataError(f"webshop: no search finds product {product.asin!r} ({product.title!r})")


def _values_to_click(product: Product, goal: Goal) -> list[str]:
    """Return the value to click for each option of a goal, in the product's spelling."""
    values = [value for values in product.options.values() for value in values]
    chosen = []
    for name, wanted in goal.goal_options:
        compared = compared_text(name, wanted)
        alike = (one for one in values if are_alike(plain_color(one), compared))
        chosen.append(wanted if wanted in values else next(alike, ""))
    return [value for value in chosen if value]
