"""The pytest fixture ``skillwright_check``: a test that fails if a skill became worse.

    def test_the_skill_is_kept(skillwright_check):
        skillwright_check("skills/queue", config="train.yaml", against="origin/main")

pytest imports this module in every session, so everything else is imported by the first check.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from skillwright.jobs.text import CheckReport


@pytest.fixture
def skillwright_check(tmp_path: Path) -> "Callable[..., CheckReport]":
    """Return a function that checks a skill, as ``skillwright check`` does.

    It takes the new skill and, by name, ``config``, ``against``, ``split``, ``margin``, ``draws``,
    and ``settings``: overrides by dotted path. It fails the test if the skill is worse, or if that
    is undecided or cannot be measured; else it returns the report, with costs and tasks. The run
    is stored in the test's temporary folder.
    """

    def check(
        new: str | Path,
        *,
        config: str | Path | None = None,
        against: str | Path = "",
        settings: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> "CheckReport":
        __tracebackhide__ = True
        import json

        from skillwright.core import SkillwrightError
        from skillwright.jobs.inspect import CheckRequest, check_skill, cost_lines
        from skillwright.jobs.run import NullCallback
        from skillwright.rollout.loop_thread import LoopThread

        request = CheckRequest(
            new=str(new),
            against=str(against),
            config=None if config is None else Path(config),
            overrides=[f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()],
            root=tmp_path / "runs",
            **named,
        )
        loop = LoopThread()  # the test may be a coroutine
        try:
            report = loop.run(check_skill(request, NullCallback()))
        except SkillwrightError as error:
            pytest.fail(f"not checked: {error}", pytrace=False)
        finally:
            loop.close()
        if not report.is_fine:
            said = [report.verdict.sentence, *cost_lines(report), *report.plan.notes]
            pytest.fail("\n".join(said), pytrace=False)
        return report

    return check
