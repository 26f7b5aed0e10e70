"""The language-model policy learns from rewards alone what it is asked for."""

from policy.errands import played, specs
from policy.tiny_models import tiny_model, tiny_tokenizer
from skillwright.policy import GroupSettings, GrpoObjective, GrpoSettings, teach, update
from skillwright.policy.hf import HfPolicy, HfSettings


async def wins(rows):
    """Four errands, each solved by going where it says; return the share of wins by round."""
    backend = HfPolicy(
        tiny_model(initializer_range=0.1), tiny_tokenizer(), HfSettings(device="cpu")
    )
    backend.freeze_reference()
    objective = GrpoObjective(kl_weight=0.001, entropy_weight=0.01)
    settings = GrpoSettings(
        objective=objective, learning_rate=2e-3, epochs=2, minibatch_rows=16, rows=rows
    )
    shares = []
    for number in range(25):
        results, agent = await played(backend, specs(tasks=4, draws=8, seed=number), turns=2)
        taught, report = teach(results, agent.rows, GroupSettings(size=8))
        done = update(backend, taught, settings, seed=number)
        if done.losses:
            # What is learned from is what was sampled, to the last bits.
            assert done.losses[0].drift_max < 1e-4
        shares.append(sum(report.rewards) / len(report.rewards))
        agent.forget()
    return shares


async def test_wins_rise_from_step_rows_and_from_trajectory_rows():
    for rows in ("steps", "trajectories"):
        shares = await wins(rows)
        assert sum(shares[-5:]) / 5 > sum(shares[:5]) / 5 + 0.2, (rows, shares)
