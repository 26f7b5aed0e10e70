"""Reading a skill file: what is trained of it, and what stays byte for byte."""

import pytest

from skillwright.core import DataError
from skillwright.core.skill import protected_regions
from skillwright.core.skill_file import read_skill_file

PLAIN = "---\nname: router\ndescription: Routes mail.\n---\n"

HEADS = {
    "plain": PLAIN,
    "blank line": f"{PLAIN}\n",
    "comments and unknown keys": (
        "---\n# ours\nzeta: 1\nname: router   # the folder's\ndescription: >-\n  Routes\n  mail.\n"
        "metadata: {version: '1'}\nallowed-tools: Read, Grep\n---\n\n"
    ),
    "tab": "---\nname:\trouter\ndescription: Routes mail.\n---\n",
    "anchor": "---\nname: &n router\ndescription: *n\n---\n",
    "twice": "---\nname: router\nname: other\ndescription: Routes mail.\n---\n",
    "colon": "---\nname: router\ndescription: Routes: mail\n---\n",
    "long": f"---\nname: router\ndescription: {'mail ' * 60_000}\n---\n\n",
    "another language": "---\nname: router\ndescription: メールを振り分けます。\n---\n",
    "blanks after dashes": "---  \nname: router\ndescription: Routes mail.\n---\t\n",
    "byte order mark": f"\ufeff{PLAIN}",
    "blank lines before": f"\n \n{PLAIN}",
    "none": "",
}


def _write(folder, text, name="SKILL.md"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(text.encode())
    return folder


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_only_the_body_is_trained_and_the_head_stays_byte_for_byte(tmp_path, head, line_end):
    raw = (head + "# Router\n\n---\n\nname: not frontmatter\n\n```\n---\n```\n").replace(
        "\n", line_end
    )
    skill = read_skill_file(_write(tmp_path / "router", raw))
    assert skill.text().startswith("# Router\n\n---\n\nname: not")
    assert "\r" not in skill.text()
    assert skill.with_text(skill.text()) == {}
    changed = skill.with_text(skill.text().replace("# Router", "# Post") + "\n- One more.\n\n")
    new = changed["SKILL.md"].encode()
    assert new.startswith(head.replace("\n", line_end).encode())
    assert new.endswith(f"- One more.{line_end}".encode())
    kept = raw.replace("# Router", "# Post").encode()
    assert kept in new.replace(f"{line_end}- One".encode(), b"- One") + new


def test_a_file_is_read_as_its_folder_is_and_another_document_as_a_whole(tmp_path):
    folder = _write(tmp_path / "router", PLAIN + "- Rule.\n")
    assert read_skill_file(folder / "SKILL.md") == read_skill_file(folder)
    own = _write(tmp_path, "---\n\nA rule above, no frontmatter.\n---\n", "notes.md")
    notes = read_skill_file(own / "notes.md")
    assert not notes.is_agent_skill
    assert notes.text().startswith("---\n\nA rule")
    marked = read_skill_file(_write(tmp_path, "\ufeffone\r\ntwo", "crlf.md") / "crlf.md")
    assert (marked.text(), marked.is_agent_skill) == ("one\ntwo", False)


def test_a_missing_body_is_an_empty_skill_that_training_can_fill(tmp_path):
    skill = read_skill_file(_write(tmp_path / "router", PLAIN.removesuffix("\n")))
    assert skill.text() == ""
    assert skill.with_text("- Rule.")["SKILL.md"] == f"{PLAIN}- Rule.\n"


def test_a_rule_above_many_lines_is_no_frontmatter_and_read_at_once(tmp_path):
    (tmp_path / "rules.md").write_bytes(b"---\r\n" + b"Ask first.\r\n" * 5000)
    found = read_skill_file(tmp_path / "rules.md")
    assert (found.head, found.body[:15]) == ("", "---\nAsk first.\n")


def test_linked_files_are_trained_only_where_that_is_asked_for(tmp_path):
    body = "Read [more](references/more.md#top), `references/code.md` and [x](https://a.b/c.md).\n"
    folder = _write(tmp_path / "router", PLAIN + body)
    _write(folder / "references", "Old line.\r\n", "more.md")
    _write(folder / "references", "Fence.\n", "code.md")
    _write(folder / "references", "Not linked.\n", "other.md")
    _write(folder / "scripts", "print('never run')\n", "run.py")
    skill = read_skill_file(folder)
    assert skill.text() == body
    text = skill.text(references=True)
    assert text.endswith("\n\n<!-- FILE: references/code.md -->\nFence.\n")
    assert [text[a:b] for a, b in protected_regions(text)] == [
        "<!-- FILE: references/more.md -->\n",
        "<!-- FILE: references/code.md -->\n",
    ]
    assert skill.with_text(text) == {}
    assert skill.with_text(text.replace("Fence.", "Fences.")) == {"references/code.md": "Fences.\n"}
    with pytest.raises(DataError, match=r"holds the file 'evil\.md'"):
        skill.with_text(f"{text}\n<!-- FILE: evil.md -->\nx")


def test_guidance_at_the_end_belongs_to_the_body_and_not_to_the_last_file(tmp_path):
    folder = _write(tmp_path / "router", PLAIN + "See [more](more.md).\n")
    _write(folder, "More.\n", "more.md")
    skill = read_skill_file(folder)
    guided = skill.text(references=True) + (
        "\n\n<!-- SLOW_UPDATE_START -->\nTake care.\n<!-- SLOW_UPDATE_END -->\n"
    )
    changed = skill.with_text(guided)
    assert list(changed) == ["SKILL.md"]
    assert "Take care." in changed["SKILL.md"]


def test_guidance_that_a_skill_came_with_is_no_change(tmp_path):
    guided = "# A\n- b\n<!-- SLOW_UPDATE_START -->\nTake care.\n<!-- SLOW_UPDATE_END -->\n"
    skill = read_skill_file(_write(tmp_path / "router", PLAIN + guided))
    assert skill.with_text(skill.text()) == {}
    assert skill.with_text(skill.text().replace("- b", "- c"))["SKILL.md"].count("Take care.") == 1


@pytest.mark.parametrize(
    "head",
    [
        "---\nname: a\ndescription: No end.\n\n",
        "---\nname: a\ndescription: Ends as YAML does.\n...\n",
        "----\nname: a\n----\n",
        '+++\nname = "a"\n+++\n',
        "\ufeff\n---\r\nname: a\r\n",
    ],
)
def test_fields_that_are_no_frontmatter_are_refused_and_never_trained(tmp_path, head):
    with pytest.raises(DataError, match=r"Put a line '---' before and after them"):
        read_skill_file(_write(tmp_path / "a", f"{head}# Doors\n"))
    assert read_skill_file(_write(tmp_path, head, "notes.md") / "notes.md").text()


def test_what_cannot_be_read_is_refused_with_the_next_move(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_skill_file(tmp_path / "missing")
    with pytest.raises(DataError, match=r"without a SKILL.md; name a file"):
        read_skill_file(_write(tmp_path / "empty", "x", "notes.md"))
    with pytest.raises(DataError, match=r"rename 'skill.md', clients read no other name"):
        read_skill_file(_write(tmp_path / "small", "x", "skill.md"))
    _write(tmp_path / "many" / "router", PLAIN)
    with pytest.raises(DataError, match=r"name one of the skills in it, such as .*router"):
        read_skill_file(tmp_path / "many")
    (tmp_path / "secret.md").write_text("secret")
    folder = _write(tmp_path / "leaving", f"{PLAIN}[x](references/x.md)\n")
    (folder / "references").mkdir()
    (folder / "references" / "x.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(DataError, match="lies outside the skill's folder"):
        read_skill_file(folder)


def test_links_in_code_and_to_other_skills_are_no_references(tmp_path):
    _write(tmp_path / "other", PLAIN)
    _write(tmp_path, "secret", "secret.md")
    body = (
        "See [other](../other/SKILL.md) and [a](a.md).\n\n"
        "```markdown\nSee [b](b.md) and [c](../secret.md).\n```\n\n~~~\n[d](../secret.md)\n"
    )
    folder = _write(tmp_path / "router", PLAIN + body)
    for name in ("a.md", "b.md"):
        _write(folder, f"{name}\n", name)
    assert read_skill_file(folder).references == {"a.md": "a.md\n"}
