"""A single-turn environment with a parser and a rubric of two functions, as published ones are."""

import verifiers as vf

from datasets import Dataset


def load_environment(num_train: int = 40, num_eval: int = 10, scale: float = 1.0) -> vf.Environment:
    def rows(first: int, count: int) -> Dataset:
        numbers = range(first, first + count)
        return Dataset.from_list(
            [{"question": f"How much is {n} + {n}?", "answer": str(2 * n)} for n in numbers]
        )

    parser = vf.XMLParser(["think", "answer"], answer_field="answer")

    def right(completion, answer, parser) -> float:
        return scale * float((parser.parse_answer(completion) or "") == answer)

    rubric = vf.Rubric(parser=parser)
    rubric.add_reward_func(right, weight=0.8)
    rubric.add_reward_func(parser.get_format_reward_func(), weight=0.2)
    return vf.SingleTurnEnv(
        dataset=rows(0, num_train),
        eval_dataset=rows(1000, num_eval) if num_eval else None,
        system_prompt="Answer in <think> and <answer> tags.",
        parser=parser,
        rubric=rubric,
    )
