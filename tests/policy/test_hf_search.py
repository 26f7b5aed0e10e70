"""A language-model policy searches: several turns, and every one of them can be learned from."""

from policy.tiny_models import tiny_model, tiny_tokenizer
from skillwright.core import EpisodeSpec, PlainSkill
from skillwright.policy import PolicyAgent
from skillwright.policy.hf import HfPolicy, HfSettings
from skillwright.rollout import Limits, LocalEngine
from skillwright.worlds.search import SearchQaEnv, archive_questions

TURNS = 3


async def test_each_turn_of_a_searched_question_is_a_row_of_what_was_sampled():
    model = tiny_model(max_position_embeddings=8192)
    backend = HfPolicy(model, tiny_tokenizer(), HfSettings(device="cpu", max_new_tokens=8))
    agent = PolicyAgent(backend)
    engine = LocalEngine(
        agent,
        lambda task: SearchQaEnv({"passages": "generated", "top_k": 1}, dict(task.extras)),
        limits=Limits(max_turns=TURNS),
        mode="lockstep",
    )
    specs = [
        EpisodeSpec(task, seed=number) for number, task in enumerate(archive_questions("train", 2))
    ]
    results = await engine.run(specs, PlainSkill("Search for the name alone."))
    for result in results:
        assert result.reward == 0.0  # random weights: clumsy moves, no fault
        rows = agent.rows(result)
        assert [row.turn for row in rows] == list(range(TURNS))
        sampled = [turn.act.token_ids for turn in result.trajectory.turns]
        assert [row.token_ids for row in rows] == sampled
        assert "neither a search nor an answer" in result.trajectory.turns[1].prompt[-1]["content"]
