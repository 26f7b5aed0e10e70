"""How what an environment says of an evaluation is shown in a terminal."""

from rich.console import Console

from skillwright.cli.words import counted
from skillwright.evaluation import Score
from skillwright.jobs import EnvFindings


def show_environment(console: Console, found: EnvFindings) -> None:
    """Show what stands beside the success rate, and what it may be compared with."""
    for line in found.lines({name: _score(score) for name, score in found.scores.items()}):
        console.print(line, highlight=False, soft_wrap=True)


def _score(score: Score) -> str:
    if score.success_rate is None or score.interval is None:
        return "none was played"
    low, high = score.interval
    return (
        f"[bold]{score.success_rate:.1%}[/] won (95% interval {low:.1%} to {high:.1%}; "
        f"{counted(score.tasks, 'task')}, {counted(score.episodes, 'episode')})"
    )
