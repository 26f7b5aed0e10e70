"""A text that says nothing about the job: what the mere presence of a skill section is worth."""

from importlib.resources import files


def placebo_text(length: int) -> str:
    """Return an irrelevant text of about ``length`` characters, cut at a word.

    A skill that wins because its words are read, not because they are there, must beat it.
    """
    source = files("skillwright.jobs").joinpath("placebo.md").read_text(encoding="utf-8")
    text = source * (length // len(source) + 1)
    return text[:length].rsplit(" ", 1)[0] if length < len(text) else text
