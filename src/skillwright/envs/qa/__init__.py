"""Question answering over passages: given, the smallest complete benchmark, or searched for."""

from skillwright.envs.answers import answer_in, exact_match, normalized, token_f1
from skillwright.envs.qa.archives import archive_passages, archive_questions
from skillwright.envs.qa.env import QaEnv
from skillwright.envs.qa.generate import generated_questions
from skillwright.envs.qa.index import PassageIndex, open_index
from skillwright.envs.qa.items import Passage, Question, question_category, read_question
from skillwright.envs.qa.passages import Filed, read_passages
from skillwright.envs.qa.searched import SearchQaEnv
from skillwright.envs.qa.settings import QaSettings

__all__ = [
    "Filed",
    "Passage",
    "PassageIndex",
    "QaEnv",
    "QaSettings",
    "Question",
    "SearchQaEnv",
    "answer_in",
    "archive_passages",
    "archive_questions",
    "exact_match",
    "generated_questions",
    "normalized",
    "open_index",
    "question_category",
    "read_passages",
    "read_question",
    "token_f1",
]
