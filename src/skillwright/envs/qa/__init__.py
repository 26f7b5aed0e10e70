"""Question answering over given passages: the smallest complete benchmark."""

from skillwright.envs.qa.env import QaEnv
from skillwright.envs.qa.generate import generated_questions
from skillwright.envs.qa.items import Passage, Question, read_question
from skillwright.envs.qa.scoring import answer_in, exact_match, normalised, token_f1

__all__ = [
    "Passage",
    "QaEnv",
    "Question",
    "answer_in",
    "exact_match",
    "generated_questions",
    "normalised",
    "read_question",
    "token_f1",
]
