"""What the agent is told before the user speaks: policy, rules, tools, and how to answer."""

import json
from typing import Final

from skillwright.envs.tau_bench.parsing import CLOSE, OPEN
from skillwright.envs.tau_bench.tau_core.store import Store

_PROMPT: Final = """\
{policy}
{rules}
# Tools

These are the tools, each with the JSON Schema of its arguments:

{tools}

# How to answer

In every turn do exactly one of two things.

To call a tool, write nothing but

{open}{{"name": "<name of the tool>", "arguments": {{<its arguments as JSON>}}}}{close}

and the next message is its result. One call per turn; text beside it is not shown to anyone.

To speak to the user, write plain text without any tag, and the next message is the user's reply.
"""


def system_prompt(store: Store, *, show_rules: bool) -> str:
    """Return the system prompt of a data set.

    Args:
        store: The data set.
        show_rules: Whether its short rules follow the policy.

    Raises:
        DataError: A file of the data is missing or damaged.
    """
    rules = "\n# Rules\n\n" + "".join(f"- {rule}\n" for rule in store.rules)
    return _PROMPT.format(
        policy=store.wiki.strip() + "\n",
        rules=rules if show_rules and store.rules else "",
        tools=json.dumps(store.tool_schemas, indent=1),
        open=OPEN,
        close=CLOSE,
    )
