"""What a model might write that no environment asked for."""

import random
import sys
from collections.abc import Callable, Sequence

HUGE_CHARS = 20_000
DEEP_LEVELS = 5_000
COMMON = 0.9  # how often huge and deep texts, which are slow, make way for common ones

_FRAGMENTS = (
    "<action>",
    "</action>",
    "<action>go",
    "go</action>",
    "<action></action>",
    "<action><action>look</action></action>",
    "<answer>",
    "<answer><answer>x</answer>",
    "</answer>x<answer>",
    "search[",
    "click[]",
    "search[[]]]",
    "<think>",
    "<think>look</think>",
    "</think><action>look",
    "<tool_call>",
    '<tool_call>{"name": "look", "arguments": {',
    "<tool_call>[]</tool_call>",
    "{",
    "}",
    "[1, 2",
    '{"action": null}',
    '{"name": 1, "arguments": "x"}',
    '{"name": "look", "arguments": [{}]}',
    "null",
    "true",
    "NaN",
    "1e999",
    "-0",
    "9" * 5_000,
    "%s %d %(x)s",
    "{0} {} {x!r}",
    "\\",
    "(((*+?[",
    "'\"`",
    "$(look)",
    "../../etc",
    "```json\n{}\n```",
    "None",
    "",
    " ",
    "\n\n\n",
)


def fuzz_action(rng: random.Random, admissible: Sequence[str]) -> str:
    """Write one action that a model might write; the admissible commands are garbled too."""
    return rng.choice(_KINDS)(rng, admissible)


def _fragments(rng: random.Random, admissible: Sequence[str]) -> str:
    words = (*_FRAGMENTS, *admissible[:5])
    return " ".join(rng.choices(words, k=rng.randint(2, 6)))


def _any_characters(rng: random.Random, admissible: Sequence[str]) -> str:
    # Half a surrogate pair is among them: a JSON reply can carry one.
    return "".join(chr(rng.randint(0, sys.maxunicode)) for _ in range(rng.randint(1, 40)))


def _control_characters(rng: random.Random, admissible: Sequence[str]) -> str:
    return "".join(chr(rng.choice((*range(32), 127, 0x202E, 0xFEFF))) for _ in range(8))


def _huge(rng: random.Random, admissible: Sequence[str]) -> str:
    if rng.random() < COMMON:
        return _garbled(rng, admissible)
    text = rng.choice(("a", "a ", "<", "<action>", "<think>", "{", *admissible))
    return (text * HUGE_CHARS)[:HUGE_CHARS]


def _deep(rng: random.Random, admissible: Sequence[str]) -> str:
    if rng.random() < COMMON:
        return _garbled(rng, admissible)
    return rng.choice(("[", '{"a":', "<action>", "(")) * DEEP_LEVELS


def _admissible(rng: random.Random, admissible: Sequence[str]) -> str:
    command = rng.choice(admissible) if admissible else "look"
    return rng.choice(("{}", "<action>{}</action>", "I think so.\n{}")).format(command)


def _garbled(rng: random.Random, admissible: Sequence[str]) -> str:
    command = rng.choice(admissible) if admissible else "look around"
    cut = rng.randint(0, len(command))
    words = command.split()
    rng.shuffle(words)
    return rng.choice(
        (
            command[:cut],
            command[cut:],
            command[:cut] + chr(rng.randint(33, 0x2FFF)) + command[cut:],
            " ".join(words),
            command.upper(),
            f"{command} {command}",
            f"{command}\x00",
            f"  {command}\t\n",
            f"<action>{command}",
            f'{{"action": "{command}"}}',
        )
    )


_KINDS: tuple[Callable[[random.Random, Sequence[str]], str], ...] = (
    lambda rng, _: rng.choice(_FRAGMENTS),
    _fragments,
    _any_characters,
    _control_characters,
    _huge,
    _deep,
    _admissible,
    _garbled,
    _garbled,
)
