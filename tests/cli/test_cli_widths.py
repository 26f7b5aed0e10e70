"""Nothing that is printed is cut inside a word, however narrow the terminal is."""

import io

import pytest
from rich.table import Table

from shown import screen
from skillwright.cli.words import PlainConsole, print_words

HEADINGS = ("iteration", "success", "zero var.", "turns kept", "entropy", "clip fraction")
TEXT = "  Accepted: 12 of 72 tasks went better; a change of +0.167 (95% interval +0.077 to +0.265)."


def table():
    found = Table(title="RL rollouts")
    for name in HEADINGS:
        found.add_column(name, justify="right")
    found.add_row("1", "40%", "31%", "871", "0.92", "0.0%")
    found.caption = "clip fraction: share of tokens without gradient"
    return found


@pytest.mark.parametrize("width", [120, 80, 60, 44, 30])
def test_a_table_shows_every_heading_and_value_whole_at_any_width(width):
    console = screen(width)
    console.print(table())
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(words)
    for said in (*HEADINGS, "40%", "871", "0.92", "without gradient"):
        assert set(said.split()) <= set(words), said


def test_where_a_table_is_too_wide_each_row_names_what_it_holds():
    console = screen(30)
    console.print(table())
    said = console.file.getvalue()
    assert "iteration 1\n  success 40%  zero var. 31%\n" in said.replace(" \n", "\n")


def test_a_long_id_is_folded_and_its_neighbors_stay_whole():
    console, found = screen(40), Table()
    found.add_column("task", overflow="fold")
    found.add_column("result", no_wrap=True)
    found.add_row("x" * 50, "solved at once")
    console.print(found)
    said = console.file.getvalue()
    assert "solved at once" in said
    assert said.count("x") == 50


@pytest.mark.parametrize("width", [80, 60, 40])
def test_every_line_of_a_sentence_stands_as_far_in_as_it_began(width):
    console = screen(width)
    print_words(console, TEXT)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert all(line.startswith("  ") for line in lines)
    assert " ".join(" ".join(lines).split()) == TEXT.strip()


def test_a_command_that_does_not_fit_is_one_line_of_its_own():
    command = "skillwright resume runs/" + "long-" * 12
    console = screen(60)
    print_words(console, f"Everything that finished is saved; continue with:  {command}")
    lines = console.file.getvalue().splitlines()
    assert lines == ["Everything that finished is saved; continue with:", f"  {command}"]


def test_styles_survive_where_a_line_is_broken():
    console = PlainConsole(
        file=io.StringIO(), width=30, force_terminal=True, color_system="standard"
    )
    print_words(console, "[green]release test[/]: " + "words " * 10, markup=True)
    assert "\x1b[32mrelease test\x1b[0m" in console.file.getvalue()
