"""An OpenAI and Anthropic endpoint over a policy or another endpoint, with skills injected."""

from skillwright.entry_points import Command

COMMAND = Command(
    "skillwright.plugins.serve.command:serve",
    "Serve a policy, or an endpoint with skills, to OpenAI and Anthropic clients.",
    "Skills",
    before="policy",
)
