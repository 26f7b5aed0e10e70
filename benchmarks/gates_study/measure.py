"""Measures success rates of generated houses, for the study's fifth world.

    python benchmarks/gates.py --measure

The scripted household agent plays validation games of the built-in ALFWorld houses. It takes a
random action in a tenth of its turns, and its randomness follows seed and prompt. Its skill is half
trained: five of the rules that a complete one has.
"""

import asyncio
import json
from typing import Any

from gates_study.worlds import MEASURED
from skillwright.core import Message, Purpose, Sampling, Task
from skillwright.core.seeds import derive_seed
from skillwright.worlds.alfworld import AlfworldEnv, generated_tasks
from skillwright.worlds.alfworld.scripted import ScriptedHousehold

TASKS, DRAWS, TURNS, NOISE = 100, 20, 50, 0.1
SKILL = """
- Search the room place by place and never go back to one you have searched.
- If you see the wanted object, pick it up at once.
- When something hot is asked for, heat it in the microwave before you place it.
- To examine something under a lamp, bring it to the lamp and switch the lamp on.
- If the destination is closed, open it before you put the object down.
"""


def measure() -> dict[str, Any]:
    """Play, write the rates beside the benchmark and return what was written."""
    tasks = generated_tasks("val", TASKS, start=0)
    rates = asyncio.run(_rates(tasks))
    measured = {
        "made_by": "python benchmarks/gates.py --measure",
        "what": f"success rates of {TASKS} generated val houses over {DRAWS} draws each, under "
        f"the scripted household agent with noise {NOISE:g} and a half-trained skill",
        "rates": rates,
    }
    MEASURED.write_text(json.dumps(measured) + "\n", encoding="utf-8")
    return measured


async def _rates(tasks: list[Task]) -> list[float]:
    return [sum([await _play(task, draw) for draw in range(DRAWS)]) / DRAWS for task in tasks]


async def _play(task: Task, draw: int) -> float:
    agent, env = ScriptedHousehold(NOISE), AlfworldEnv({"show_admissible": True}, dict(task.extras))
    messages: list[Message] = list(env.init([])[0])
    messages[0]["content"] += f"\n\n## Skill\n\n{SKILL}"
    for turn in range(TURNS):
        sampling = Sampling(seed=derive_seed("measure", task.id, draw, turn))
        reply = await agent.complete(messages, sampling=sampling, purpose=Purpose.ROLLOUT)
        command = reply.text.removeprefix("<action>").removesuffix("</action>")
        out = env.step(command)
        messages = [*messages, {"role": "assistant", "content": command}, *out["observations"]]
        if out["done"]:
            return float(out["reward"])
    return 0.0
