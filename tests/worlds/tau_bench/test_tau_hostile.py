"""Checkouts and data of any shape, and folders that are not ours to replace: told, and no harm."""

import json
import os
import shutil

import pytest

from skillwright.core import DataError
from skillwright.datasets import fetch_file
from skillwright.worlds.tau_bench import Store, open_store
from skillwright.worlds.tau_bench.upstream import fetch_tau_bench
from tau_checkout import RETAIL, write_checkout
from tau_store import TABLES, make_env, write_store, write_sums


@pytest.fixture
def checkout(tmp_path):
    return write_checkout(tmp_path / "checkout")


@pytest.fixture
def take(tmp_path, checkout):
    """Convert the checkout, into a folder of its own."""

    def take(into="made", source=None):
        return fetch_tau_bench(tmp_path / into, str(source or checkout), any_version=True)

    return take


# A folder that is there


@pytest.mark.parametrize("stray", ["thesis.txt", ".git/config", "data.json"])
def test_a_persons_folder_is_not_replaced_because_it_has_users(take, tmp_path, stray):
    mine = tmp_path / "mine"
    (mine / stray).parent.mkdir(parents=True)
    (mine / stray).write_text("years of work")
    (mine / "users.json").write_text("{}")
    with pytest.raises(DataError, match=rf"{stray.split('/')[0]}' would be lost"):
        take("mine")
    assert (mine / stray).read_text() == "years of work"


def test_a_link_is_not_a_file_of_a_data_set(take, tmp_path):
    take("mine")
    (tmp_path / "mine" / "LICENSE").unlink()
    (tmp_path / "mine" / "LICENSE").symlink_to(tmp_path / "checkout" / "LICENSE")
    with pytest.raises(DataError, match="LICENSE' would be lost"):
        take("mine")


def test_what_comes_while_it_is_fetched_is_not_lost(take, tmp_path, monkeypatch):
    take("mine")
    load = Store.load

    def loading(self):
        (tmp_path / "mine" / "letters.txt").write_text("Dear")
        load(self)

    monkeypatch.setattr("skillwright.worlds.tau_bench.upstream.Store.load", loading)
    with pytest.raises(DataError, match=r"letters\.txt"):
        take("mine")
    assert (tmp_path / "mine" / "letters.txt").read_text() == "Dear"


def test_a_data_set_is_replaced_with_all_that_belongs_to_it(take, tmp_path):
    first = take().checksum
    own = write_store(tmp_path / "own", tasks_val=[])
    assert take("own").checksum == first
    assert not (own / "tasks_val.json").exists()


def test_where_a_link_points_is_replaced_and_the_link_stays(take, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    assert take("link").folder == str(tmp_path / "disk")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk" / "users.json").exists()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(DataError, match="circle"):
        take("circle")


def test_a_blank_source_is_refused(tmp_path):
    with pytest.raises(DataError, match="blank"):
        fetch_tau_bench(tmp_path / "made", "")


# A checkout that is not what it seems


@pytest.mark.parametrize("name", ["wiki.md", "rules.py", "tasks_test.py", "tools/tool_00.py"])
def test_a_pipe_in_a_checkout_is_refused_and_not_waited_for(checkout, take, name):
    (checkout / RETAIL / name).unlink()
    os.mkfifo(checkout / RETAIL / name)
    with pytest.raises(DataError, match="not a regular file"):
        take()


@pytest.mark.parametrize("name", ["wiki.md", "data/users.json", "tools/tool_00.py"])
def test_a_link_out_of_a_checkout_is_not_followed(checkout, take, tmp_path, name):
    path = checkout / RETAIL / name
    shutil.copy(path, tmp_path / "secret")
    path.unlink()
    path.symlink_to(tmp_path / "secret")
    with pytest.raises(DataError, match="leaves the checkout"):
        take()
    shutil.copy(tmp_path / "secret", checkout / "inside")
    path.unlink()
    path.symlink_to(checkout / "inside")
    assert take().tasks["test"] == 3


def test_a_link_to_a_license_elsewhere_is_not_followed(checkout, take, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (checkout / "LICENSE").unlink()
    (checkout / "LICENSE").symlink_to(tmp_path / "secret")
    with pytest.raises(DataError, match="leaves the checkout"):
        take()


def test_a_device_is_not_copied_without_end(tmp_path):
    with pytest.raises(DataError, match="not a regular file"):
        fetch_file("/dev/zero", tmp_path / "x")


def test_a_checkout_without_tasks_is_no_data_set(checkout, take):
    for split in ("test", "train", "dev"):
        (checkout / RETAIL / f"tasks_{split}.py").unlink()
    with pytest.raises(DataError, match=r"has no tasks_test\.py"):
        take()


DEEP = f"{'[' * 700}{']' * 700}"


def user(**changed):
    return json.dumps({"a": {**TABLES["users"]["bob_elm_3"], **changed}})


@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        ("users", '{"a": 1}', "'a' is not an object"),
        ("users", '{"a": null}', "'a' is not an object"),
        ("users", '{"a": "name address email payment_methods orders"}', "is not an object"),
        ("users", user(name="Bob"), "name is not an object"),
        ("users", user(name={"first_name": "Bob"}), "name.last_name is not a text"),
        ("users", user(email=5), "email is not a text"),
        ("products", '{"a": {"name": ["x"], "product_id": "1", "variants": {}}}', "is not a text"),
        ("users", user().replace('"orders": []', f'"orders": {DEEP}'), "nested too deeply"),
    ],
)
def test_records_of_a_wrong_shape_are_told(checkout, take, name, body, told):
    (checkout / RETAIL / "data" / f"{name}.json").write_text(body)
    with pytest.raises(DataError, match=told):
        take()


@pytest.mark.parametrize("function", ['"a name"', '["name"]', "5", "None", '{"name": ["x"]}'])
def test_a_tool_without_a_name_is_told(checkout, take, function):
    text = f'def get_info(): return {{"function": {function}}}'
    (checkout / RETAIL / "tools" / "tool_00.py").write_text(text)
    with pytest.raises(DataError, match=r"tool_00\.py: get_info does not return"):
        take()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ('actions=[Action(name=["x"], kwargs={})], outputs=[]', "name of an action is not a text"),
        ('actions=[], outputs="abc"', "outputs is not a list of texts"),
        ("actions=[], outputs=[1]", "outputs are texts"),
    ],
)
def test_tasks_of_a_wrong_shape_are_told(checkout, take, fields, told):
    text = f'TASKS_TEST = [Task(user_id="u", instruction="i", {fields})]'
    (checkout / RETAIL / "tasks_test.py").write_text(text)
    with pytest.raises(DataError, match=rf"task 0: .*{told}"):
        take()


# Data of one's own


@pytest.mark.parametrize("name", ["rules", "tools"])
def test_a_file_without_a_checksum_is_told_by_the_constructor(tmp_path, name):
    shop = write_store(tmp_path / "shop")
    (shop / f"{name}.json").write_text("[]")
    sums = (shop / "SHA256SUMS").read_text().splitlines(keepends=True)
    (shop / "SHA256SUMS").write_text("".join(line for line in sums if name not in line))
    with pytest.raises(DataError, match=rf"{name}\.json.*SHA256SUMS"):
        make_env(shop)


@pytest.mark.parametrize(
    ("name", "body", "told"), [("rules", "5", "list of texts"), ("tools", "[1]", "list of objects")]
)
def test_rules_and_tools_of_a_wrong_shape_are_told(tmp_path, name, body, told):
    shop = write_store(tmp_path / "shop")
    (shop / f"{name}.json").write_text(body)
    write_sums(shop)
    with pytest.raises(DataError, match=told):
        open_store(shop).load()
