"""The scripted analyst: what it reads in a prompt, and what it proposes."""

from skillwright.scripted.analyst.model import ScriptedAnalyst

__all__ = ["ScriptedAnalyst"]
