"""What the agent is told before the user speaks: policy, rules, tools, and how to answer.

The preset ``tau-bench`` is what tau-bench's own tool-calling agent is told: the policy alone.
"""

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


_NATIVE: Final = """\
{policy}
{rules}
# How to answer

In every turn do exactly one of two things: call one tool, or write to the user. What you write
beside a call is not shown to anyone, and of several calls only the first is run.
"""


def system_prompt(
    store: Store, *, show_rules: bool, tools: str = "tags", preset: str = "skillwright"
) -> str:
    """Return the system prompt of a data set."""
    if preset == "tau-bench":
        return store.wiki
    rules = "\n# Rules\n\n" + "".join(f"- {rule}\n" for rule in store.rules)
    policy, rules = store.wiki.strip() + "\n", rules if show_rules and store.rules else ""
    if tools == "native":
        return _NATIVE.format(policy=policy, rules=rules)
    return _PROMPT.format(
        policy=policy,
        rules=rules,
        tools=json.dumps(store.tool_schemas, indent=1),
        open=OPEN,
        close=CLOSE,
    )
