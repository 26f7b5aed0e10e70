"""The initial skill is read without a byte order mark, with plain line breaks, and else kept."""

import pytest

from doors import ALL_RULES, Coach, Walker, doors_config, look, trained
from skillwright.jobs.run import read_initial_skill

LISTED = b"\xef\xbb\xbf# Skill\r\n- Look.\r\n- Guess.\r\n"


async def trained_from(tmp_path, raw, plan):
    file = tmp_path / "initial.md"
    file.write_bytes(raw)
    config = doors_config(tmp_path, skill={"init": str(file)})
    return await trained(config, Walker(), plan, skill=read_initial_skill(config))


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (LISTED, b"# Skill\n- Look.\n- Guess.\n"),
        (b"# Skill\r\nOld.\rMac.\n  ", b"# Skill\nOld.\nMac.\n  "),
        (b"\n\n", b"\n\n"),
        ("\x85\u2028\x00é".encode(), "\x85\u2028\x00é".encode()),
    ],
)
@pytest.mark.parametrize("plan", [[], [["Be quick."], ["Be slow."]]])
async def test_a_run_that_accepts_nothing_ends_with_what_was_read(tmp_path, raw, read, plan):
    path, report = await trained_from(tmp_path, raw, Coach(plan))
    assert not [s for s in report.state.steps if s.action.startswith("accept")]
    assert (path / "best_skill.md").read_bytes() == read
    with look(path) as store:
        assert store.skill(0).encode() == read


async def test_the_text_is_played_and_edited_with_plain_line_breaks(tmp_path):
    edit = {"op": "replace", "target": "- Look.\n- Guess.", "content": ALL_RULES}
    coach = Coach([[edit]])
    path, report = await trained_from(tmp_path, LISTED, coach)
    assert report.state.steps[0].action == "accept"
    assert report.best_skill == f"# Skill\n{ALL_RULES}\n"
    assert (path / "best_skill.md").read_bytes() == report.best_skill.encode()
    assert "# Skill\n- Look.\n- Guess.\n" in coach.calls[0][0]
    with look(path) as store:
        [first] = {e.skill_version for e in store.episodes(phase="train", step=1)}
        assert first == next(e.skill_version for e in store.episodes(phase="gate"))
