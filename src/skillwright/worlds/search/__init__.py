"""Question answering over passages that the task provides or the agent searches for."""

from skillwright.envs.answers import answer_in, exact_match, normalized, token_f1
from skillwright.worlds.search.archives import archive_passages, archive_questions
from skillwright.worlds.search.env import QaEnv
from skillwright.worlds.search.generate import generated_questions
from skillwright.worlds.search.index import PassageIndex, open_index
from skillwright.worlds.search.items import Passage, Question, question_category, read_question
from skillwright.worlds.search.passages import Filed, read_passages
from skillwright.worlds.search.searched import SearchQaEnv
from skillwright.worlds.search.settings import QaSettings

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
