"""``learn-from-sessions``: what it says, and how it ends."""

import json
import shutil
from pathlib import Path

from session_adoption import CONFIG, NAME
from session_logs import Talk, ordinary

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_the_example_logs_are_the_ordinary_sessions(tmp_path):
    ordinary(tmp_path)
    logs = EXAMPLES / "session_logs"
    found = {one.relative_to(logs): one.read_text() for one in logs.rglob("*") if one.is_file()}
    own = {
        one.relative_to(tmp_path): one.read_text() for one in tmp_path.rglob("*") if one.is_file()
    }
    assert found == own


def prepared(folder):
    ordinary(folder / "logs")
    (folder / "models.yaml").write_text(CONFIG, encoding="utf-8")
    return ["learn-from-sessions", "logs", "--config", "models.yaml"]


def test_looking_without_models_and_writes_nothing(cli, tmp_path):
    ordinary(tmp_path / "logs")
    shown = cli("learn-from-sessions", "logs", "--look").stdout
    assert "Run the tests of the cart module" in shown
    assert "check: pnpm, not npm" in shown
    assert "tasks: 9 train, 9 val, 2 test" in shown
    assert [one.name for one in tmp_path.iterdir()] == ["logs"]


def test_learn_look_again_and_take_back(cli, tmp_path):
    words = prepared(tmp_path)
    report = json.loads(cli(*words, "--to", "claude", "--json").stdout)
    assert report["verdict"]["decision"] == "accept"
    assert report["scripted"] is True
    target = tmp_path / ".claude" / "skills" / NAME
    assert (target / "SKILL.md").is_file()
    again = cli(*words, "--to", "claude", code=1).stdout
    assert "nothing adopted: " in again
    shutil.rmtree(target)  # by hand, before it is taken back
    said = cli("learn-from-sessions", "--rollback", "no longer true").stdout
    assert "taken back" in said
    assert not (tmp_path / ".claude").exists()
    refused = cli("learn-from-sessions", "--rollback", "once more", code=2)
    assert "nothing that was adopted is in effect" in refused.stderr


def test_what_is_missing_is_said_before_anything_is_asked(cli, tmp_path):
    words = prepared(tmp_path)
    assert "say where what is proven is staged" in cli(*words, code=2).stderr
    assert "--config CONFIG" in cli(*words[:2], "--to", "claude", code=2).stderr
    assert "no folder 'nowhere'" in cli("learn-from-sessions", "nowhere", code=2).stderr
    assert not (tmp_path / "sessions.sqlite").exists()


def test_sessions_without_a_check_end_with_no(cli, tmp_path):
    Talk("2026-11-02T09:00:00+00:00").user("Mend the cart").codex(tmp_path / "logs")
    (tmp_path / "models.yaml").write_text(CONFIG, encoding="utf-8")
    words = ["learn-from-sessions", "logs", "--config", "models.yaml", "--output", "skills"]
    assert "no request has a check" in cli(*words, code=1).stdout
    assert not (tmp_path / "skills").exists()
