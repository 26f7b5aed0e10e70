"""`skillwright verify` on folders of others: errors are those of the standard's validator.

Whether the validator refuses a text was recorded with skills-ref 0.1.1.
"""

import pytest

from skillwright.jobs.inspect import verify_skills

BODY = "\n# Refunds\n\n- Ask for the order number first.\n"


def _folder(place, text, name="x"):
    (place / name).mkdir(exist_ok=True)
    (place / name / "SKILL.md").write_bytes(text.encode())
    return place / name


async def _checked(place, text, name="x"):
    (found,) = await verify_skills(_folder(place, text, name))
    return found, {one.name: one for one in found.checks}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("description: Handles refunds: partial, full.", "line 3: mapping values are not allowed"),
        ("description: @mention handling.", "line 3: found character '@'"),
        ("description: `code` handling.", "line 3: found character '`'"),
        ("description: *important* refunds.", "clients drop it"),
        ("description: &anchor refunds: yes", "clients drop it"),
        ("description: &anchor refunds", "line 3: anchors (& and *) are refused"),
        ("description: %percent", "line 3: found character '%'"),
        ("description: !tag refunds", "line 3: the tag '!tag' is refused"),
        ("description: 'open", "clients drop it"),
        ("description: [open", "clients drop it"),
        ("description: {a: b} rest", "clients drop it"),
        ("description: x\nlicense: [MIT]", "line 4: brackets and braces are refused"),
        ("description:\tHandles refunds.", "write a blank in the place of the tab"),
        ("description: Handles refunds.\n\tlicense: MIT", "clients drop it"),
        ("description: One.\ndescription: Two.", "the key 'description' is there twice"),
        ("description: One.\nname: x", "the key 'name' is there twice"),
        ("description: One.\n  - two\n- three", "clients drop it"),
        ("description: - one", "clients drop it"),
        ("description:", "the description has 0 characters"),
        ("description: <<", "the description has 0 characters"),
        (f"description: {'x' * 1_025}", "has 1,025 characters; 1 to 1,024 are allowed"),
        (f"description: x\ncompatibility: {'x' * 501}", "compatibility has 501 characters"),
        ("description: x\ncompatibility:\n- x", "compatibility is no text"),
        ("description: x\nauthor: me", "unknown keys author; the standard has name"),
        ("description: x\nmetadata:\n  a:\n    b: c\n  d:\n      e: f", "indented differently"),
        ("description: x\nmetadata: &m\n  a: *m", "line 4: anchors (& and *) are refused; put"),
    ],
)
async def test_what_the_validator_refuses_fails(tmp_path, lines, said):
    found, checks = await _checked(tmp_path, f"---\nname: x\n{lines}\n---\n{BODY}")
    assert checks["rules"].outcome == "fail"
    assert said in checks["rules"].said
    assert not found.holds


@pytest.mark.parametrize("lines", ["- one\n- two", "text", "12", "[a, b]", "", "name: x"])
async def test_frontmatter_without_the_required_fields_fails(tmp_path, lines):
    found, _ = await _checked(tmp_path, f"---\n{lines}\n---\n{BODY}")
    assert not found.holds


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        *[("café", True), ("名", True), ("x" * 64, True), ("12", True), ("²", True)],
        *[("X", False), ("x-", False), ("x--y", False), ("x_y", False), ("x" * 65, False)],
        *[("x.y", False), ("x y", False)],
    ],
)
async def test_a_name_has_letters_of_any_script(tmp_path, name, is_valid):
    text = f"---\nname: {name}\ndescription: Refunds.\n---\n{BODY}"
    found, _ = await _checked(tmp_path, text, name)
    assert found.holds is is_valid


async def test_a_name_is_the_name_of_its_folder(tmp_path):
    _, checks = await _checked(tmp_path, f"---\nname: y\ndescription: Refunds.\n---\n{BODY}")
    assert checks["rules"].said == "name 'y' is not the folder's name, 'x'"


@pytest.mark.parametrize(
    "lines",
    [
        'description: "Handles refunds: @all #1"',
        "description: Handles refunds.  ",
        "description: >-\n  Handles refunds: partial\n  or #full.",
        "description: Fix C#-code and a#b.",
        "description: 'a # b'  # a remark",
        "# a remark\ndescription: Handles refunds.\nlicense: MIT # a remark",
        "description: Handles refunds.\nmetadata:\n  author: me",
        "description: \u4f60\u597d \U0001f600",
    ],
)
async def test_a_folder_that_clients_read_passes_without_advice(tmp_path, lines):
    for text in (
        f"---\nname: x\n{lines}\n---\n{BODY}",
        f"---\r\nname: x\r\n{lines}\r\n---\r\nx\r\n",
    ):
        found, checks = await _checked(tmp_path, text)
        assert found.holds, found.checks
        assert "advice" not in checks


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("description: Fix issue #12 in code.", "only up to 'Fix issue': what follows a blank"),
        ("description: Two\n  lines #cut here", "only up to 'Two lines'"),
        ("description: Latency > 5 ms", "angle brackets"),
        ("description: a\u200bb", "hidden characters"),
        ("description: 2026-99-99", "as timestamp; put it in quotes"),
        ("description: ~", "as null"),
        ("description: x\nmetadata:\n  version: 1.0", "metadata is no map of texts to texts"),
        ("description: x\nallowed-tools:\n- Bash", "allowed-tools is no text"),
        ("description: a --- b", "a value holds ---"),
        ("description: a\u2028b", ""),
    ],
)
async def test_what_only_clients_differ_in_is_advice(tmp_path, lines, said):
    found, checks = await _checked(tmp_path, f"---\nname: x\n{lines}\n---\n{BODY}")
    assert found.holds
    if said:
        assert checks["advice"].outcome == "advice"
        assert said in checks["advice"].said


async def test_a_long_body_and_an_empty_one_are_advice(tmp_path):
    head = "---\nname: x\ndescription: Refunds.\n---\n"
    found, checks = await _checked(tmp_path, head + "- Do.\n" * 600)
    assert found.holds
    assert "the body has 600 lines and 3,600 characters; at most 500" in checks["advice"].said
    found, checks = await _checked(tmp_path, head)
    assert found.holds
    assert checks["advice"].said == "the body is empty"


async def test_links_in_code_are_no_links_and_right_ones_are_found(tmp_path):
    folder = _folder(tmp_path, "")
    for name in ("a.md", "references/b.md", "t/x.md", "with space.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    body = (
        "[a](./a.md) [b](references/b.md#top) [t](t/) [w](<with space.md>) [u](with%20space.md)\n"
        "[s](https://x.example/y) [m](mailto:a@b.c) [h](#here) `[no](no.md)`\n\n"
        "```markdown\n[no](no.md)\n```\n\n    [no](no.md)\n"
    )
    head = "---\nname: x\ndescription: Refunds.\n---\n"
    _, checks = await _checked(tmp_path, head + body)
    assert checks["links"].outcome == "pass", checks["links"].said
    wrong = "[n](no.md) [o](../out.md) [e](/etc/passwd) ![i](no.png)\n"
    found, checks = await _checked(tmp_path, head + wrong)
    assert found.holds
    assert checks["links"].outcome == "advice"
    assert checks["links"].said == (
        "no.md is not there; ../out.md leads out of the folder; /etc/passwd leads out of the "
        "folder; no.png is not there"
    )


async def test_a_byte_order_mark_hides_the_frontmatter_from_clients(tmp_path):
    text = f"\ufeff---\nname: x\ndescription: Refunds.\n---\n{BODY}"
    found, checks = await _checked(tmp_path, text)
    assert not found.holds
    assert "begins with a byte order mark" in checks["rules"].said
