"""A multi-turn environment: a number is guessed, and its state lives from turn to turn."""

import verifiers as vf

from datasets import Dataset


class HighLow(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["guesses"] = []

    async def env_response(self, messages, state, **kwargs):
        guess = _number(messages[-1].content)
        state["guesses"].append(guess)
        if guess is None:
            return [{"role": "user", "content": "Write a number."}]
        if guess == int(state["answer"]):
            state["final_env_response"] = [{"role": "user", "content": "Found it."}]
            return state["final_env_response"]
        return [{"role": "user", "content": "higher" if guess < int(state["answer"]) else "lower"}]


async def found(state) -> float:
    answer = int(state["answer"])
    last = _number(state["completion"][-1].content) if state["completion"] else None
    return float(answer in [*state["guesses"], last])


def _number(text):
    text = text.strip()
    return int(text) if text.isdecimal() and len(text) < 9 else None


def load_environment(**kwargs) -> vf.Environment:
    rows = [
        {
            "prompt": [{"role": "user", "content": f"Guess my number from 0 to {15 + n}."}],
            "answer": str(n % 16),
            "info": {"upper": 15 + n},
            "task": "guessing",
        }
        for n in range(30)
    ]
    return HighLow(
        dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[found]), max_turns=6, **kwargs
    )
