"""A skill document falls into sections, and what is left without some of them is a document."""

import pytest

from skillwright.core.skill import inject_empty_appendix, replace_slow_update_field
from skillwright.jobs.inspect import split_document, without_sections

DOCUMENT = """---
name: kitchen
---
# Kitchen

Read this first, all of it, and then begin.

## Search
- Open what is closed.
  - Close it again.

  It takes one step.
- Look once.
```sh
# no heading
```

### Order
1. Shelves before drawers.

## Deliver
Put it down.
"""


def titles(text, **how):
    return [(one.title, one.first_line, one.last_line) for one in split_document(text, **how)]


def test_sections_begin_at_the_highest_level_that_has_several_headings():
    halves = DOCUMENT.replace("Put it down.", "Put it down. " * 20)
    assert titles(halves)[:2] == [
        ("Read this first, all of it, and then begin.", 6, 6),
        ("Search", 8, 19),
    ]


def test_a_section_with_most_of_the_words_falls_into_its_items():
    found = split_document(DOCUMENT.replace("Read this first, all of it, and then begin.", "Read."))
    assert [(one.title, one.first_line, one.last_line) for one in found if one.is_item] == [
        ("Open what is closed.", 9, 12),
        ("Look once.", 13, 16),
        ("Shelves before drawers.", 19, 19),
    ]
    assert [one.title for one in found if not one.is_item] == ["Read.", "Deliver"]


@pytest.mark.parametrize("text", ["# One\n\n- a\n- b\n\nlast words\n", "- a\n- b\n\nlast words"])
def test_the_only_section_falls_into_its_items(text):
    assert [one.title for one in split_document(text)] == ["a", "b", "last words"]


@pytest.mark.parametrize("text", ["", "\n\n", "# A\n\n## B\n", "---\n", inject_empty_appendix("")])
def test_where_nothing_is_said_there_is_no_section(text):
    assert split_document(text) == []


def test_guidance_and_reminders_are_sections_that_stay_whole():
    text = replace_slow_update_field("## A\n- a\n- b\n\n## B\nb\n", "First.\n\nSecond.")
    assert titles(text, by_item=True) == [
        ("a", 2, 2),
        ("b", 3, 3),
        ("B", 5, 6),
        ("slow update", 8, 12),
    ]


def test_without_a_section_everything_else_stays_byte_for_byte():
    a, b = split_document("## A\n- a\n\n## B\n- b\n\n## C\n")
    text = "## A\n- a\n\n## B\n- b\n\n## C\n"
    assert without_sections(text, [a]) == "## B\n- b\n\n## C\n"
    assert without_sections(text, [b]) == "## A\n- a\n\n## C\n"
    assert without_sections(text, []) == text


def test_a_heading_goes_with_the_last_item_below_it():
    text = "# T\n\n## A\n- a\n\n- b\n\n## B\n- c\n"
    a, b, c = split_document(text, by_item=True)[:3]
    assert without_sections(text, [a]) == "# T\n\n## A\n\n- b\n\n## B\n- c\n"
    assert without_sections(text, [a, b]) == "# T\n\n## B\n- c\n"
    assert without_sections(text, [a, b, c]) == ""


def test_a_line_break_of_another_kind_counts_as_the_editor_of_lines_counts():
    text = "## A\r\na\x0bmore\r\n\r\n## B\r\nb b b\r\n"
    (first, second) = split_document(text)
    assert (second.first_line, second.last_line) == (5, 6)
    assert without_sections(text, [first]) == "## B\r\nb b b\r\n"
