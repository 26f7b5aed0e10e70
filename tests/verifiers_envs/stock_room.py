"""An environment with tools, called natively; one of them breaks where it is told to."""

import verifiers as vf

from datasets import Dataset

STOCK = {"lamp": 4, "rug": 0, "vase": 9}


def in_stock(item: str) -> int:
    """Say how many of an item there are.

    Args:
        item: What is looked for.
    """
    return STOCK[item]


def told(completion, answer) -> float:
    return float(completion[-1].content.strip() == answer)


def load_environment(broken: str = "", judge_url: str = "") -> vf.Environment:
    def raises(completion, answer) -> float:
        raise ZeroDivisionError("the rubric divides by nothing")

    def speechless(completion, answer):
        return None

    rows = [
        {"question": f"How many {item}s are there, asks customer {n}?", "answer": str(STOCK[item])}
        for n in range(10)
        for item in STOCK
    ]
    funcs = {"rubric": raises, "none": speechless}.get(broken, told)
    rubric = vf.Rubric(funcs=[funcs])
    if judge_url:
        rubric = _judge(judge_url)
    return vf.ToolEnv(dataset=Dataset.from_list(rows), tools=[in_stock], rubric=rubric, max_turns=4)


def _judge(url: str) -> vf.Rubric:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="sk-mock", max_retries=0)
    rubric = vf.JudgeRubric(judge_client=client, judge_model="mock")

    async def judged(prompt, completion, answer, state, judge) -> float:
        return float("yes" in await judge(prompt, completion, answer, state))

    rubric.add_reward_func(judged)
    return rubric
