"""Programs that act as models: Codex and Claude Code, fenced."""
