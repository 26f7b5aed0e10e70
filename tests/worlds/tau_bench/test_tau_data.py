"""Where the data is, and what is said when it is not what it must be."""

import copy
import json
import pickle

import pytest

from skillwright.core import DataError
from skillwright.worlds.tau_bench import data_dir, open_store
from skillwright.worlds.tau_bench.tau_core import fetched_dir, store
from skillwright.worlds.tau_bench.tau_core.schemas import RETAIL_SCHEMAS
from tau_store import TABLES, make_env, open_env, write_store, write_sums


@pytest.fixture
def shop(tmp_path):
    return write_store(tmp_path / "shop")


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    monkeypatch.delenv("SKILLWRIGHT_TAU_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(
        "skillwright.worlds.tau_bench.tau_core.store.BUILT_IN", tmp_path / "built_in"
    )
    return tmp_path


def test_the_folder_is_looked_for_in_order(nowhere, monkeypatch):
    with pytest.raises(DataError, match=r"skillwright data tau-bench.*SKILLWRIGHT_TAU_DATA"):
        data_dir()
    store.BUILT_IN.mkdir()
    assert data_dir().origin == "built-in"
    fetched_dir().mkdir(parents=True)
    assert data_dir().origin == "fetched"
    monkeypatch.setenv("SKILLWRIGHT_TAU_DATA", str(nowhere / "a"))
    assert (data_dir().origin, data_dir().path) == ("$SKILLWRIGHT_TAU_DATA", str(nowhere / "a"))
    assert data_dir(nowhere / "b").path == str(nowhere / "b")
    assert data_dir("~/x").path.endswith("/x")
    assert "~" not in data_dir("~/x").path


def test_an_episode_says_where_its_data_comes_from(shop):
    assert make_env(shop).data.origin == "env_config.data_dir"


@pytest.mark.parametrize("name", ["users.json", "orders.json", "products.json", "wiki.md"])
def test_a_missing_file_is_told_by_the_constructor_with_what_to_run(shop, name):
    (shop / name).unlink()
    with pytest.raises(DataError, match=rf"{name}.*run `skillwright data tau-bench`"):
        make_env(shop)


@pytest.mark.parametrize("name", ["users.json", "orders.json", "tasks_test.json", "rules.json"])
def test_a_damaged_file_is_told_by_the_constructor_with_both_checksums(shop, name):
    (shop / name).write_bytes((shop / name).read_bytes().replace(b"e", b"E", 1))
    with pytest.raises(
        DataError, match=rf"{name}.*SHA-256 [0-9a-f]{{64}}, expected [0-9a-f]{{64}}"
    ):
        make_env(shop)


def test_what_was_mended_can_be_used_in_the_same_process(shop):
    body = (shop / "orders.json").read_bytes()
    (shop / "orders.json").write_bytes(body[:-10])
    with pytest.raises(DataError, match=r"orders\.json"):
        make_env(shop)
    (shop / "orders.json").write_bytes(body)
    assert open_env(shop).turns == 0


def test_data_without_checksums_must_be_that_of_tau_bench(shop):
    (shop / "SHA256SUMS").unlink()
    with pytest.raises(DataError, match=r"expected [0-9a-f]{64}.*SHA256SUMS"):
        make_env(shop)


def test_a_malformed_checksum_file_names_the_line(shop):
    (shop / "SHA256SUMS").write_text("abc  users.json\n")
    with pytest.raises(DataError, match=r"SHA256SUMS', line 1"):
        make_env(shop)


@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        ("orders.json", "[]", "not an object of records"),
        ("orders.json", '{"#W1": {"order_id": "#W1"}}', "'#W1' lacks user_id, address"),
        ("users.json", "{", "is not JSON"),
        ("tasks_test.json", "{}", "is not a list of tasks"),
        ("tasks_test.json", '[{"user_id": "x"}]', "task 0 lacks"),
        (
            "tasks_test.json",
            '[{"user_id": 1, "instruction": "", "actions": [], "outputs": []}]',
            "task 0: user_id, instruction and outputs are texts",
        ),
    ],
)
def test_other_content_is_refused_even_with_its_checksum(shop, name, body, told):
    (shop / name).write_text(body)
    write_sums(shop)
    with pytest.raises(DataError, match=told):
        open_env(shop)


def test_bytes_that_are_no_text_are_refused(shop):
    (shop / "wiki.md").write_bytes(b"\xff")
    write_sums(shop)
    with pytest.raises(DataError, match="not UTF-8"):
        open_env(shop)


def test_rules_and_tools_are_optional_and_splits_are_what_is_there(shop, tmp_path):
    assert open_store(shop).splits == ("test",)
    assert open_store(shop).tool_schemas is RETAIL_SCHEMAS
    (shop / "rules.json").unlink()
    bare = open_store(shop)
    assert bare.rules == ()
    bare.load()
    own = write_store(tmp_path / "own", tools=[{"function": {"name": "mine"}}], tasks_val=[])
    assert open_store(own).splits == ("test", "val")
    (system, _), _ = make_env(own).init([])
    assert '"mine"' in system["content"]
    with pytest.raises(DataError, match="Known: test, val"):
        open_store(own).tasks("train")


def test_the_checksum_of_a_data_set_tells_it_from_others(shop, tmp_path):
    same = write_store(tmp_path / "same")
    other = write_store(tmp_path / "other", rules=["Be quick."])
    checksums = [open_store(folder).checksum for folder in (shop, same, other)]
    assert checksums[0] == checksums[1] != checksums[2]


def test_the_shared_data_refuses_every_change(shop):
    orders = open_store(shop).tables.records["orders"]
    order = orders["#W1"]
    for change in (
        lambda: orders.pop("#W1"),
        lambda: order.update(status="x"),
        lambda: order.__setitem__("status", "x"),
        lambda: order.setdefault("new", 1),
        lambda: order["address"].clear(),
        lambda: order["items"][0].popitem(),
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    with pytest.raises(TypeError, match="cannot be changed"):
        del order["status"]
    with pytest.raises(TypeError, match="cannot be changed"):
        order |= {"status": "x"}
    assert isinstance(order["items"], tuple)
    assert json.dumps(order) == json.dumps(TABLES["orders"]["#W1"])
    assert pickle.loads(pickle.dumps(order)) == copy.deepcopy(order) == order


def test_our_own_words_for_the_tools_fit_the_originals(reference_data):
    def shape(schemas):
        return [
            (
                one["function"]["name"],
                one["function"]["parameters"]["required"],
                [
                    (name, {key: value for key, value in kind.items() if key != "description"})
                    for name, kind in one["function"]["parameters"]["properties"].items()
                ],
            )
            for one in schemas
        ]

    theirs = json.loads((reference_data / "tau_retail" / "tools.json").read_text())
    assert shape(RETAIL_SCHEMAS) == shape(theirs)
