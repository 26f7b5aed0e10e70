"""Question answering over given passages: the smallest complete benchmark."""

from skillwright.envs.answers import answer_in, exact_match, normalized, token_f1
from skillwright.envs.qa.env import QaEnv
from skillwright.envs.qa.generate import generated_questions
from skillwright.envs.qa.items import Passage, Question, read_question

__all__ = [
    "Passage",
    "QaEnv",
    "Question",
    "answer_in",
    "exact_match",
    "generated_questions",
    "normalized",
    "read_question",
    "token_f1",
]
