"""Question answering over passages that the task provides or the agent searches for."""

from skillwright.envs.answers import answer_in as answer_in
from skillwright.envs.answers import exact_match as exact_match
from skillwright.envs.answers import normalized as normalized
from skillwright.envs.answers import token_f1 as token_f1
from skillwright.worlds.search.archives import archive_questions as archive_questions
from skillwright.worlds.search.env import QaEnv as QaEnv
from skillwright.worlds.search.generate import generated_questions as generated_questions
from skillwright.worlds.search.index import open_index as open_index
from skillwright.worlds.search.items import Passage as Passage
from skillwright.worlds.search.items import question_category as question_category
from skillwright.worlds.search.items import read_question as read_question
from skillwright.worlds.search.passages import Filed as Filed
from skillwright.worlds.search.passages import read_passages as read_passages
from skillwright.worlds.search.searched import SearchQaEnv as SearchQaEnv
