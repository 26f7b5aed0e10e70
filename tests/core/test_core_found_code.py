"""Code that is named by its file finds what lies beside it."""

import pickle
import sys

import pytest

from skillwright.core import DataError
from skillwright.core.found_code import find_code

LINES = {
    "relatively": "from .near import NEAR",
    "by its name": "from near_{0} import NEAR",
    "by that of the package": "from bench_{0}.near import NEAR",
}


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        del sys.modules[name]


def bench(folder, line):
    """Write a benchmark of two modules; names that a test imports are its own."""
    made = folder / f"bench_{folder.name}"
    made.mkdir()
    for name in ("near", f"near_{folder.name}"):
        (made / f"{name}.py").write_text("NEAR = 'near'\n", encoding="utf-8")
    code = f"{line.format(folder.name)}\nclass Thing: near = NEAR\n"
    (made / "thing.py").write_text(code, encoding="utf-8")
    return made


@pytest.mark.parametrize("how", LINES)
def test_a_file_imports_its_neighbors(tmp_path, how):
    made = bench(tmp_path, LINES[how])
    (made / "__init__.py").touch()
    found = find_code(f"{made / 'thing.py'}:Thing", "a thing")
    assert found.near == "near"
    assert pickle.loads(pickle.dumps(found)) is found
    assert find_code(f"{made / 'thing.py'}:Thing", "a thing") is found


@pytest.mark.parametrize("how", ["relatively", "by its name"])
def test_a_folder_need_not_be_a_package(tmp_path, how):
    made = bench(tmp_path, LINES[how])
    assert find_code(f"{made / 'thing.py'}:Thing", "a thing").near == "near"


def test_a_folder_that_is_imported_as_a_package_and_is_none_is_named(tmp_path):
    made = bench(tmp_path, LINES["by that of the package"])
    with pytest.raises(DataError, match=f"Put an empty __init__.py into '{made.as_posix()}'"):
        find_code(f"{made / 'thing.py'}:Thing", "a thing")


def test_a_file_that_ends_the_program_on_import_is_named(tmp_path):
    (tmp_path / "thing.py").write_text("raise SystemExit('set KEY first')\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"thing\.py.*ends the program.*set KEY first"):
        find_code(f"{tmp_path / 'thing.py'}:Thing", "a thing")


def test_what_is_installed_goes_before_a_neighbor_of_its_name(tmp_path):
    made = bench(tmp_path, "from json import dumps as NEAR")
    (made / "json.py").write_text("raise RuntimeError\n", encoding="utf-8")
    assert find_code(f"{made / 'thing.py'}:Thing", "a thing").near([1]) == "[1]"


def test_files_of_one_name_in_two_folders_are_two(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one, two = (bench(tmp_path / name, "NEAR = __file__") for name in ("a", "b"))
    found = [find_code(f"{made / 'thing.py'}:Thing", "a thing") for made in (one, two)]
    assert found[0].near != found[1].near
