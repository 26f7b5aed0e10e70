"""What nobody can know before a run, in round figures that its estimate rests on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What nobody can know before a run; each is a round figure to be replaced by a better one.

    Attributes:
        turns: Turns of an episode; see `expected_turns`.
        action_tokens: An agent's answer.
        observation_tokens: What an environment answers to it.
        success_rate: Share of the episodes that succeed; analysts read the two kinds apart.
        accepted_share: Share of the candidates that are accepted; afterwards the gate plays the
            skill in force anew.
        instructions_tokens: What an optimiser's question says beside skill and evidence.
        proposal_tokens: An optimiser's answer.
        user_share: Share of the turns that speak to a simulated user, who opens besides.
        user_prompt_tokens: What such a user is told before the conversation.
        chars_per_token: Of English text.
    """

    turns: int
    action_tokens: int = 50
    observation_tokens: int = 100
    success_rate: float = 0.5
    accepted_share: float = 1 / 3
    instructions_tokens: int = 1_500
    proposal_tokens: int = 1_200
    user_share: float = 0.5
    user_prompt_tokens: int = 500
    chars_per_token: float = 4.0

    @property
    def turn_tokens(self) -> int:
        """What a turn adds to the next prompt."""
        return self.action_tokens + self.observation_tokens

    def lines(self, *, trains: bool = True) -> list[str]:
        """Say them for people; an evaluation rests on fewer than a training."""
        learning = [
            f"{self.success_rate:.0%} of the episodes succeed, {self.accepted_share:.0%} "
            "of the candidates are accepted, the skill keeps its length",
            f"an optimiser's question has {self.instructions_tokens:,} tokens beside skill and "
            f"evidence, its answer {self.proposal_tokens:,}",
            "every step proposes more edits than its budget, if it has one, so they are ranked",
        ]
        return [
            f"an episode takes {self.turns} turns; each adds {self.action_tokens} tokens of the "
            f"agent and {self.observation_tokens} of the environment to the next prompt",
            *(learning if trains else ()),
            "a simulated user's opening is made up, as nobody is asked; where a model plays it, it "
            f"opens and hears {self.user_share:.0%} of the turns, and its first prompt has "
            f"{self.user_prompt_tokens} tokens",
            f"{self.chars_per_token:g} characters are a token; nothing is cached and nothing fails",
        ]


SUCCESS_RATE = Assumptions(turns=1).success_rate
ACCEPTED_SHARE = Assumptions(turns=1).accepted_share
UNBOUNDED_TURNS = 10
"""Turns of an episode where ``env.max_turns`` sets no bound."""


def expected_turns(max_turns: int | None) -> int:
    """Return the turns of an episode: one that succeeds takes half of the bound, another all."""
    most = max_turns or UNBOUNDED_TURNS
    return max(1, round(most * (1.0 - SUCCESS_RATE / 2.0)))
