"""An OpenAI and Anthropic endpoint over a policy or another endpoint; skills over MCP."""

from skillwright.entry_points import Command

COMMAND = Command(
    "skillwright.plugins.serve.command:serve",
    "Serve a policy or an endpoint with skills to model clients, or skills over MCP.",
    "Skills",
    before="policy",
)
