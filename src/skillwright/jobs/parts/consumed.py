"""What an episode consumed, by purpose: the agent's part, and its simulated user's."""

from skillwright.core import EpisodeResult, Purpose, Usage


def consumed(result: EpisodeResult) -> dict[str, Usage]:
    """Return what an episode consumed in all its attempts, by purpose.

    What others than the agent consumed stands in ``side_usage``, where the engine puts what
    `TextEnv.get_usage` told at the end of each attempt, failed ones included.
    """
    agent = result.trajectory.usage + result.lost_usage
    return {Purpose.ROLLOUT.value: agent, **result.side_usage}
