"""The searches of an episode, in the format of Search-R1 (arXiv:2503.09516) and SkillRL.

The agent writes ``<search>`` and gets ``<information>``.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from skillwright.core import EnvError, ToolCall, did_you_mean
from skillwright.core.fence import without_controls
from skillwright.worlds.search.index import MOST_QUERY_CHARS, PassageIndex, shown
from skillwright.worlds.search.settings import QaSettings

TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search the collection of passages; the best ones are returned.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "Words to search for."}},
            "required": ["query"],
            "additionalProperties": False,
        },
    },
}

_ASKED: Final = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
# Tags with a meaning for agents and optimizers, which passages must not contain.
_TAG: Final = re.compile(
    r"<(?=[\s/]*(?:search|answer|information|think|tool_call|tool_response|\|))", re.IGNORECASE
)
_HARMLESS: Final = "\u2039"

Searched = tuple[str, dict[str, Any]]
"""The text for the agent, and the turn's metadata."""


def asked_in(reply: str) -> tuple[str, str]:
    """Return the first ``search`` or ``answer`` tag and its content; ``("", "")`` without one.

    Text after the first tag is ignored, because the agent wrote it without the search's result.
    """
    found = _ASKED.search(reply)
    return (found[1].lower(), found[2].strip()) if found else ("", "")


class Searches:
    """Executes and counts the searches of an episode.

    Args:
        settings: Limits of results and searches.
        opened: Opens the collection.

    Attributes:
        invalid: Number of turns without a valid action.
    """

    def __init__(self, settings: QaSettings, opened: Callable[[], PassageIndex]) -> None:
        self._settings = settings
        self._opened = opened
        self._index: PassageIndex | None = None
        self._made = 0
        self.invalid = 0

    def open(self) -> None:
        """Open the collection."""
        self._index = self._opened()

    def metrics(self) -> dict[str, float]:
        """Return the counts of searches and invalid actions."""
        return {"searches": float(self._made), "invalid_actions": float(self.invalid)}

    def search(self, query: str) -> Searched:
        """Execute a search, or return why it was refused.

        Raises:
            EnvError: The collection is not open.
        """
        if self._index is None:
            raise EnvError("step() came before init(); open the episode first")
        refusal = self._refusal(query)
        if refusal:
            self.invalid += 1
            return refusal, {}
        self._made += 1
        found = self._index.search(query, self._settings.top_k)
        text = shown(found, self._settings.max_context_chars)
        said = _TAG.sub(_HARMLESS, without_controls(text)) or "No passage has any of these words."
        about = {"query": query, "found": [filed.id for filed in found]}
        return f"<information>\n{said}\n</information>", about

    def call(self, call: ToolCall) -> Searched:
        """Execute a native call; a malformed one returns an error text."""
        if call.name != "search":
            self.invalid += 1
            hint = did_you_mean(call.name, ["search"])
            return f"Error: there is no tool {call.name[:80]!r}. {hint}", {}
        try:
            query = json.loads(call.arguments)["query"]
        except (ValueError, TypeError, KeyError, RecursionError):
            query = None
        if not isinstance(query, str):
            self.invalid += 1
            return 'Error: the arguments are an object such as {"query": "words"}.', {}
        return self.search(query)

    def _refusal(self, query: str) -> str:
        most = self._settings.max_searches
        if most is not None and self._made >= most:
            return f"The searches are used up ({most}). Answer from what you have read."
        if not query.strip():
            return "The search is empty. Write the words to look for between the tags."
        if len(query) > MOST_QUERY_CHARS:
            return (
                f"The search has {len(query):,} characters, and {MOST_QUERY_CHARS:,} are the most. "
                "Write a few words."
            )
        return ""
