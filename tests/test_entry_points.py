"""Plug-ins by entry point: found without an import, and refused with the next move."""

import pytest

from plugged import install
from skillwright.core import DataError
from skillwright.entry_points import entry_point, entry_points

GROUP = "skillwright.gates"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package that declares entry points of one group."""

    def declare(points, modules=None, name="their_package"):
        install(tmp_path / name, name, {GROUP: points}, modules or {})
        monkeypatch.syspath_prepend(tmp_path / name)

    return declare


def test_names_are_listed_without_an_import(installed):
    installed({"sign_test": "their_absent_module:SignTest", "t_test": "their_other:TTest"})
    found = entry_points(GROUP)
    assert {"sign_test", "t_test"} <= set(found)
    assert found["sign_test"].package == "their_package"


def test_the_object_behind_a_name_is_imported(installed):
    installed({"one": "their_numbers:Numbers.one"}, {"their_numbers": "class Numbers:\n  one = 1"})
    assert entry_point(GROUP, "one", "gate").load() == 1


def test_an_unknown_name_is_refused_with_the_nearest(installed):
    installed({"sign_test": "their_module:SignTest"})
    with pytest.raises(DataError, match=r"no gate 'sign_tset'. Did you mean 'sign_test'\?"):
        entry_point(GROUP, "sign_tset", "gate")


@pytest.mark.parametrize(
    ("module", "reason", "next_move"),
    [
        ("import no_such_package.inner", "ModuleNotFoundError", "Install 'no_such_package', which"),
        ("raise RuntimeError('too old')", "RuntimeError: too old", "Update the package"),
        ("", "has no attribute 'Broken'", "Update the package"),
    ],
)
def test_a_plug_in_that_cannot_be_imported_is_named_with_the_reason_and_the_next_move(
    installed, module, reason, next_move
):
    named = f"their_broken_{len(module)}"
    installed({"broken": f"{named}:Broken"}, {named: module})
    with pytest.raises(DataError) as raised:
        entry_point(GROUP, "broken", "gate").load()
    said = str(raised.value)
    assert f"'broken' of {GROUP} cannot be loaded from '{named}:Broken'" in said
    assert reason in said
    assert f"{next_move} " in said
    assert "'their_package'" in said


def test_the_first_of_two_copies_of_a_package_is_taken(installed, tmp_path, monkeypatch):
    installed({"old": "their_module:Old"})
    newer = install(tmp_path / "newer", "their_package", {GROUP: {"new": "their_module:New"}}, {})
    monkeypatch.syspath_prepend(newer)
    assert "new" in entry_points(GROUP)
    assert "old" not in entry_points(GROUP)


def test_our_own_plug_ins_are_found():
    assert "household" in entry_points("skillwright.models")
