"""Files and folders that somebody made to do harm: refused in words, in bounded time and memory."""

import os
import sqlite3
import sys
import zlib

import pytest

from bank_doors import bank_file
from skillwright.bank import Bank, BankError, BankStore, import_skills, read_agent_skills
from skillwright.core import DataError
from skillwright.core.jsonio import inflate, read_text

HEAD = "---\nname: signs\ndescription: read signs\n---\n"

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes as POSIX has them")


@pytest.fixture
def folder(tmp_path):
    """A folder of Agent Skills, and a file outside of it that is nobody's business."""
    (tmp_path / "secret.md").write_text(f"{HEAD}- The secret is 4711.\n", encoding="utf-8")
    made = tmp_path / "signs"
    (made / "references").mkdir(parents=True)
    (made / "SKILL.md").write_text(f"{HEAD}- Read every sign.\n", encoding="utf-8")
    return made


@posix
@pytest.mark.parametrize("name", ["SKILL.md", "references/more-1.md"])
def test_a_link_out_of_a_skill_folder_is_not_followed(folder, name):
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to("../secret.md" if name == "SKILL.md" else "../../secret.md")
    with pytest.raises(DataError, match=r"is a link that leaves the skill's folder; put a copy"):
        read_agent_skills(folder)


@posix
def test_nor_is_a_folder_of_references_that_lies_elsewhere(folder, tmp_path):
    (tmp_path / "more-1.md").write_text("- The secret is 4711.\n", encoding="utf-8")
    (folder / "references").rmdir()
    (folder / "references").symlink_to(tmp_path)
    with pytest.raises(DataError, match="leaves the skill's folder"):
        read_agent_skills(folder)


@posix
def test_a_link_within_the_folder_and_a_linked_folder_are_read(folder, tmp_path):
    (folder / "own.md").write_text("- Count the doors.\n", encoding="utf-8")
    (folder / "references" / "more-1.md").symlink_to("../own.md")
    (tmp_path / "alias").symlink_to(folder)
    read = [one.principle for one in read_agent_skills(tmp_path / "alias")]
    assert read == ["Read every sign.", "Count the doors."]


@posix
@pytest.mark.parametrize("name", ["pipe.json", "pipe.md", "zero.json", "zero.md"])
def test_a_pipe_and_a_device_are_refused_before_they_are_opened(tmp_path, name):
    path = tmp_path / name
    if name.startswith("pipe"):
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(DataError, match="is a pipe or a device; name a regular file"):
        import_skills(Bank(), path)


@posix
def test_a_pipe_among_the_references_is_refused(folder):
    os.mkfifo(folder / "references" / "more-1.md")
    with pytest.raises(DataError, match="is a pipe or a device"):
        read_agent_skills(folder)


def test_frontmatter_that_would_take_minutes_is_refused(folder):
    many = ", ".join("a" * 60_000)
    text = f"---\nname: signs\ndescription: read signs\nmore: [{many}]\n---\n- Read.\n"
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="frontmatter is longer than 50,000 characters"):
        read_agent_skills(folder)


@pytest.mark.parametrize("joined", ["<<: [*{0}, *{0}]", "a: [*{0}, *{0}]"])
def test_frontmatter_whose_few_aliases_stand_for_billions_of_values_is_refused(folder, joined):
    levels = [f"  k{at}: &k{at}\n    {joined.format(f'k{at - 1}')}" for at in range(1, 40)]
    lines = ["description: read signs", "metadata:", "  k0: &k0\n    x: y", *levels]
    text = "\n".join(["---", "name: signs", *lines, "---", "- Read.", ""])
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="has YAML aliases"):
        read_agent_skills(folder)


@pytest.mark.parametrize("body", [b"abc", "text", b"\x00\x00\xc0\x7f"], ids=["cut", "text", "NaN"])
def test_a_vector_that_is_none_is_damage(tmp_path, body):
    path = bank_file(tmp_path / "bank.sqlite")
    with sqlite3.connect(path) as file:
        file.execute("INSERT INTO vectors VALUES ('theirs', 'c', ?)", (body,))
    file.close()
    with (
        BankStore.open(path, read_only=True) as store,
        pytest.raises(BankError, match=r"is damaged \(a vector.*Restore it from a copy"),
    ):
        store.vectors("theirs")


def test_a_packed_text_is_unpacked_up_to_a_bound():
    packed = zlib.compress(bytes(3_000_000))
    assert len(inflate(packed, "it", most=3_000_000)) == 3_000_000
    with pytest.raises(DataError, match="it unpacks to more than 2,999,999 bytes"):
        inflate(packed, "it", most=2_999_999)


@pytest.mark.parametrize("body", [b"", b"no", zlib.compress(b"whole")[:-3], "text", None])
def test_a_damaged_packed_text_is_called_that(body):
    with pytest.raises(DataError, match=r"it is (damaged|cut).*from a copy"):
        inflate(body, "it")


def test_an_ordinary_text_is_read_as_before(tmp_path):
    (tmp_path / "a.txt").write_text("plain", encoding="utf-8")
    assert read_text(tmp_path / "a.txt", "text") == "plain"
    with pytest.raises(DataError, match="it is a folder"):
        read_text(tmp_path, "text")
