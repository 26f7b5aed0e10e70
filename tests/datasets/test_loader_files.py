"""Loaders and the files they read and write."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from skillwright.core import DataError
from skillwright.core.jsonio import digest
from skillwright.datasets import SplitDataLoader, SplitError, SplitFileMissing, own_copies


def rows(*ids):
    return [{"id": str(item_id)} for item_id in ids]


def ids(items):
    return [int(item["id"]) for item in items]


def write(path: Path, value) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def split_folder(root: Path, train, val, test) -> Path:
    for name, items in (("train", train), ("val", val), ("test", test)):
        write(root / name / "items.json", items)
    return root


def ratio_loader(tmp_path: Path, data, **settings) -> SplitDataLoader:
    path = write(tmp_path / "data.json", data)
    loader = SplitDataLoader(data_path=str(path), **settings)
    loader.set_out_root(str(tmp_path / "out"))
    return loader


def test_the_constructor_has_the_documented_defaults_and_ignores_what_it_does_not_know():
    loader = SplitDataLoader(workers=8, shuffle_choices=True)
    assert (loader.split_dir, loader.data_path, loader.split_output_dir) == ("", "", "")
    assert (loader.split_mode, loader.split_ratio) == ("ratio", "2:1:7")
    assert (loader.split_seed, loader.seed, loader.limit) == (42, 42, 0)
    assert loader.get_train_size() == 0


def test_ratio_mode_cuts_a_json_list_and_writes_the_split_with_ids_and_hashes(tmp_path):
    loader = ratio_loader(tmp_path, rows(*range(10)))
    loader.setup({"env": "searchqa"})
    assert ids(loader.train_items) == [7, 3]
    assert ids(loader.val_items) == [2]
    assert ids(loader.test_items) == [8, 5, 6, 9, 4, 0, 1]
    assert loader.get_train_size() == 2

    folder = tmp_path / "out" / "_generated_splits" / "searchqa_2-1-7_seed42"
    assert json.loads((folder / "train" / "items.json").read_text()) == rows(7, 3)
    manifest = json.loads((folder / "split_manifest.json").read_text())
    assert manifest == loader.manifest
    assert manifest["source_data_path"] == loader.data_path
    assert (manifest["split_mode"], manifest["split_ratio"]) == ("ratio", "2:1:7")
    assert manifest["split_seed"] == 42
    assert manifest["counts"] == {"train": 2, "val": 1, "test": 7}
    assert manifest["ids"]["val"] == ["2"]
    assert manifest["sha256"]["val"] == digest(rows(2))
    assert not list(folder.rglob(".*")), "no temporary file is left"


def test_a_generated_split_can_be_read_back_as_a_split_folder(tmp_path):
    cut = ratio_loader(tmp_path, rows(*range(10)), split_output_dir=str(tmp_path / "mine"))
    cut.setup({})
    read = SplitDataLoader(split_mode="split_dir", split_dir=str(tmp_path / "mine"))
    read.setup({})
    assert (read.train_items, read.val_items, read.test_items) == (
        cut.train_items,
        cut.val_items,
        cut.test_items,
    )
    assert read.manifest["sha256"] == cut.manifest["sha256"]


def test_the_generated_folder_is_named_after_the_class_where_no_environment_is_named(tmp_path):
    class LiveMathDataLoader(SplitDataLoader):
        pass

    path = write(tmp_path / "data.json", rows(*range(10)))
    loader = LiveMathDataLoader(data_path=str(path), split_ratio="7:2:1", split_seed=5)
    loader.setup({"out_root": str(tmp_path)})
    assert (tmp_path / "_generated_splits" / "livemath_7-2-1_seed5").is_dir()


def test_the_configuration_fills_what_the_constructor_left_empty(tmp_path):
    path = write(tmp_path / "data.json", rows(*range(10)))
    loader = SplitDataLoader(split_seed=0, split_ratio="")
    loader.setup(
        {"data_path": str(path), "split_ratio": "7:2:1", "seed": 7, "out_root": str(tmp_path)}
    )
    assert loader.data_path == str(path)
    assert loader.split_ratio == "7:2:1"
    assert loader.split_seed == 42  # no split seed anywhere: the loader's seed


@pytest.mark.parametrize("blank", ["", None])
@pytest.mark.parametrize("said", [{}, {"split_ratio": ""}, {"split_ratio": None}])
def test_a_blank_ratio_is_the_usual_one(tmp_path, blank, said):
    loader = ratio_loader(tmp_path, rows(*range(10)), split_ratio=blank)
    loader.setup({"env": "searchqa", **said})
    assert loader.manifest["split_ratio"] == "2:1:7"
    assert loader.manifest["counts"] == {"train": 2, "val": 1, "test": 7}


def test_what_an_adapter_changes_in_a_batch_stays_in_that_batch(tmp_path):
    loader = ratio_loader(tmp_path, rows(*range(10)))
    loader.setup({"env": "searchqa"})
    asks = [
        lambda: loader.build_train_batch(2, seed=1),
        lambda: loader.build_eval_batch(0, "valid_seen", seed=1),
        lambda: loader.plan_train_epoch(
            epoch=1, steps_per_epoch=1, accumulation=1, batch_size=2, seed=1
        )[0],
    ]
    for ask in asks:
        batch, same = ask(), ask()
        for item in batch.payload:
            item["id"] = "changed"
        assert ask().payload == same.payload


def test_containers_of_an_item_are_copied_and_other_objects_are_shared():
    with Path(__file__).open() as log:
        item = {"log": log, "turns": [{"said": "a"}], "tags": {"x"}, "image": np.zeros(2)}
        item["self"] = item
        (copied,) = own_copies([item])
    copied["turns"][0]["said"] = "b"
    copied["tags"].add("y")
    copied["image"][0] = 1
    assert (item["turns"], item["tags"], item["image"].sum()) == ([{"said": "a"}], {"x"}, 0)
    assert copied["log"] is log
    assert copied["self"] is copied


def test_what_the_constructor_was_given_wins_and_the_difference_is_logged(tmp_path, caplog):
    loader = ratio_loader(tmp_path, rows(*range(10)), split_ratio="7:2:1")
    with caplog.at_level(logging.WARNING):
        loader.setup({"split_ratio": "2:1:7"})
    assert loader.get_train_size() == 7
    assert "split_ratio='7:2:1' of the loader beats '2:1:7'" in caplog.text


@pytest.mark.parametrize(("given", "warns"), [({}, False), ({"seed": 7}, True)])
def test_a_seed_that_no_loader_was_given_beats_nothing(tmp_path, caplog, given, warns):
    loader = ratio_loader(tmp_path, rows(*range(10)), **given)
    loader.setup({"seed": 43})
    assert ("seed=7 of the loader beats 43" in caplog.text) is warns
    assert ("beats" in caplog.text) is warns


@pytest.mark.parametrize("mode", ["Ratio", " ratio "])
def test_the_mode_is_read_in_any_case(tmp_path, mode):
    loader = ratio_loader(tmp_path, rows(*range(10)), split_mode=mode)
    loader.setup({})
    assert loader.get_train_size() == 2


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="split_mode must be 'ratio' or 'split_dir'"):
        SplitDataLoader(split_mode="random").setup({})


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("data.json", [{"id": "a"}, {"id": "b"}]),
        ("data.json", {"data": [{"id": "a"}, {"id": "b"}], "version": 1}),
        ("data.json", {"x": {"id": "a"}, "y": {"id": "b"}}),
        ("data.json", {"a": {}, "b": {}}),
        ("data.jsonl", '{"id": "a"}\n\n{"id": "b"}\n'),
        ("data.json", '\ufeff[{"id": "a"}, {"id": "b"}]'),
    ],
)
def test_raw_data_may_be_a_list_an_object_or_lines(tmp_path, name, body):
    path = write(tmp_path / "raw" / name, body)
    loader = SplitDataLoader()
    assert loader.load_raw_items(str(path)) == [{"id": "a"}, {"id": "b"}]
    assert loader.load_raw_items(str(path.parent)) == [{"id": "a"}, {"id": "b"}]


def test_a_line_separator_inside_a_jsonl_string_does_not_end_its_line(tmp_path):
    path = write(tmp_path / "data.jsonl", '{"id": "a", "text": "x\u2028y"}\n')
    assert SplitDataLoader().load_raw_items(str(path))[0]["text"] == "x\u2028y"


def test_an_empty_data_path_is_refused_instead_of_reading_the_working_folder(tmp_path, monkeypatch):
    write(tmp_path / "only.json", rows(*range(10)))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SplitError, match="data_path is empty"):
        SplitDataLoader().setup({})


def test_a_missing_data_file_is_a_file_not_found_error_too(tmp_path):
    loader = SplitDataLoader()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        loader.load_raw_items(str(tmp_path / "nothing.json"))
    with pytest.raises(SplitFileMissing, match=r"no \.json or \.jsonl file"):
        loader.load_raw_items(str(tmp_path))


def test_a_raw_folder_that_is_split_or_ambiguous_is_refused(tmp_path):
    split_folder(tmp_path / "split", rows(1), rows(2), rows(3))
    with pytest.raises(ValueError, match="use split_mode='split_dir'"):
        SplitDataLoader().load_raw_items(str(tmp_path / "split"))
    write(tmp_path / "two" / "a.json", rows(1))
    write(tmp_path / "two" / "b.jsonl", "{}")
    with pytest.raises(SplitError, match=r"several data files \(a.json, b.jsonl\)"):
        SplitDataLoader().load_raw_items(str(tmp_path / "two"))


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("data.json", '[{"id": 1},\n {"id" 2}]', "line 2, column 8"),
        ("data.jsonl", '{"id": 1}\n{"id": 2\n', "line 2, column 9"),
        ("data.jsonl", '{"id": 1}\n\n{"id": NaN}\n', "from line 3: NaN is no JSON value"),
        ("data.json", "7", "holds a number"),
        ("data.json", "[" * 100_000, "from line 1"),
    ],
)
def test_malformed_json_names_its_file_line_and_column(tmp_path, name, body, message):
    path = write(tmp_path / name, body)
    with pytest.raises(SplitError, match=message) as caught:
        SplitDataLoader().load_raw_items(str(path))
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["items.json", "items.jsonl"])
def test_an_item_that_no_model_can_read_is_refused_by_its_number(tmp_path, name):
    long = json.dumps({"id": 2, "q": "x" * 8_000_001})
    body = f'[{{"id": 1}},\n{long}]' if name == "items.json" else f'{{"id": 1}}\n{long}\n'
    (tmp_path / "train").mkdir()
    write(tmp_path / "train" / name, body)
    with pytest.raises(SplitError, match="item 2 has 8,000,"):
        SplitDataLoader().load_raw_items(str(tmp_path / "train" / name))
    with pytest.raises(SplitError, match="item 2 has 8,000,"):
        SplitDataLoader().load_split_items(str(tmp_path / "train"))


def test_a_data_file_that_is_not_utf_8_names_the_byte(tmp_path):
    (tmp_path / "data.json").write_bytes(b'[{"id": "caf\xe9"}]')
    with pytest.raises(DataError, match="not UTF-8: byte 12 is 0xe9"):
        SplitDataLoader().load_raw_items(str(tmp_path / "data.json"))


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([{"id": "a"}, {"id": "b"}, {"id": "a"}], "id 'a' stands at item 0 and at item 2"),
        ([{"id": 1}, {"id": "1"}], "id '1' stands at item 0 and at item 1"),
        ([{"id": "a"}, {"name": "b"}], "item 1 has no 'id'"),
        ([{"id": "a"}, "b"], "item 1 is a str, not an object"),
    ],
)
def test_items_without_an_id_of_their_own_are_refused(tmp_path, items, message):
    with pytest.raises(SplitError, match=message):
        ratio_loader(tmp_path, items).setup({})


def test_a_ratio_that_empties_a_split_is_refused_and_nothing_is_written(tmp_path):
    loader = ratio_loader(tmp_path, rows(1, 2, 3))
    with pytest.raises(SplitError, match=r"'val' is empty \(1 train, 0 val, 2 test\)"):
        loader.setup({})
    assert not (tmp_path / "out").exists()


def test_split_dir_mode_reads_the_first_json_file_of_each_folder(tmp_path, caplog):
    root = split_folder(tmp_path, rows(1, 2), rows(3), rows(4))
    write(root / "val" / "zz_more.json", rows(9))
    loader = SplitDataLoader(split_mode="split_dir", split_dir=str(root))
    with caplog.at_level(logging.WARNING):
        loader.setup({})
    assert [ids(loader.get_split_items(name)) for name in ("train", "val", "test")] == [
        [1, 2],
        [3],
        [4],
    ]
    assert "not ['zz_more.json']" in caplog.text


def test_a_split_folder_without_its_parts_is_refused(tmp_path):
    with pytest.raises(ValueError, match="split_dir is empty"):
        SplitDataLoader(split_mode="split_dir").setup({})
    loader = SplitDataLoader(split_mode="split_dir", split_dir=str(tmp_path))
    write(tmp_path / "train" / "items.json", rows(1))
    with pytest.raises(ValueError, match=r"Missing 'val/' subdirectory"):
        loader.setup({})
    (tmp_path / "val").mkdir()
    (tmp_path / "test").mkdir()
    with pytest.raises(FileNotFoundError, match=r"val.* holds no \.json or \.jsonl file"):
        loader.setup({})
    write(tmp_path / "val" / "items.json", {"id": 1})
    with pytest.raises(ValueError, match="holds a JSON object; a list of items is needed"):
        loader.setup({})


def test_an_id_in_two_splits_or_twice_in_one_is_refused(tmp_path):
    root = split_folder(tmp_path / "a", rows(1, 2), rows(3), rows(4, 2))
    with pytest.raises(SplitError, match="id '2' overlaps: it is in 'train' and in 'test'"):
        SplitDataLoader(split_mode="split_dir", split_dir=str(root)).setup({})
    root = split_folder(tmp_path / "b", rows(1), rows(3, 3), rows(4))
    with pytest.raises(SplitError, match="split 'val': id '3' stands at item 0 and at item 1"):
        SplitDataLoader(split_mode="split_dir", split_dir=str(root)).setup({})
    root = split_folder(tmp_path / "c", rows(1), rows(3), [])
    with pytest.raises(SplitError, match="split 'test' is empty"):
        SplitDataLoader(split_mode="split_dir", split_dir=str(root)).setup({})


def test_a_limit_truncates_every_split_and_says_so(tmp_path, caplog):
    loader = ratio_loader(tmp_path, rows(*range(10)), limit=1)
    with caplog.at_level(logging.WARNING):
        loader.setup({})
    assert (ids(loader.train_items), ids(loader.val_items), ids(loader.test_items)) == (
        [7],
        [2],
        [8],
    )
    assert "limit keeps 1 of 7 items of split test" in caplog.text
    assert loader.manifest["counts"]["test"] == 7  # the manifest describes the whole split


def test_a_limit_may_be_given_per_split_by_any_of_its_names(tmp_path):
    loader = ratio_loader(tmp_path, rows(*range(10)), limit={"valid_unseen": 2})
    loader.setup({})
    assert [len(loader.get_split_items(name)) for name in ("train", "val", "test")] == [2, 1, 2]
    with pytest.raises(SplitError, match="limit of split 'train' is -1"):
        ratio_loader(tmp_path, rows(*range(10)), limit=-1).setup({})


def test_a_resumed_run_notices_that_its_data_changed(tmp_path, caplog):
    loader = ratio_loader(tmp_path, rows(*range(10)))
    loader.setup({})
    state = loader.state_dict()
    loader.load_state_dict(state)
    loader.load_state_dict({})  # a checkpoint of another loader says nothing

    changed = ratio_loader(tmp_path, [{**row, "new": 1} for row in rows(*range(10))])
    with caplog.at_level(logging.WARNING):
        changed.setup({})
    assert "the split differs from the one that was written before" in caplog.text
    with pytest.raises(SplitError, match="data changed since the checkpoint"):
        changed.load_state_dict(state)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    blocker = write(tmp_path / "file", "")
    loader = ratio_loader(tmp_path, rows(*range(10)), split_output_dir=str(blocker / "below"))
    with pytest.raises(DataError, match="cannot be written to"):
        loader.setup({})


def test_a_subclass_may_override_both_readers(tmp_path):
    class Own(SplitDataLoader):
        def load_raw_items(self, data_path):
            return rows(*range(10))

        def load_split_items(self, split_path):
            return rows(len(Path(split_path).name))

    for name in ("train", "val", "test"):
        (tmp_path / name).mkdir()
    raw = Own(data_path="anything", split_output_dir=str(tmp_path / "out"))
    raw.setup({})
    assert raw.get_train_size() == 2
    split = Own(split_mode="split_dir", split_dir=str(tmp_path))
    split.setup({})
    assert (split.train_items, split.val_items, split.test_items) == (rows(5), rows(3), rows(4))


@pytest.mark.parametrize("collection", [tuple, iter])
def test_an_own_reader_may_return_any_collection(tmp_path, collection):
    class Own(SplitDataLoader):
        def load_raw_items(self, data_path):
            return collection(rows(*range(10)))

    loader = Own(data_path="anything", split_output_dir=str(tmp_path))
    loader.setup({})
    assert ids(loader.train_items) == [7, 3]


def test_own_items_may_hold_more_than_json_where_nothing_is_written(tmp_path):
    class Pictures(SplitDataLoader):
        def load_split_items(self, split_path):
            return [{"id": split_path, "image": Path(split_path) / "chair.png"}]

    for name in ("train", "val", "test"):
        (tmp_path / name).mkdir()
    loader = Pictures(split_mode="split_dir", split_dir=str(tmp_path))
    loader.setup({})
    assert loader.train_items[0]["image"].name == "chair.png"
    assert loader.manifest["sha256"] == {"train": None, "val": None, "test": None}
    loader.load_state_dict(loader.state_dict())


def test_own_items_that_are_to_be_written_and_are_no_json_are_refused(tmp_path):
    class Pictures(SplitDataLoader):
        def load_raw_items(self, data_path):
            return [{**row, "image": Path(data_path)} for row in rows(*range(10))]

    loader = Pictures(data_path="anything", split_output_dir=str(tmp_path / "out"))
    with pytest.raises(SplitError, match=r"'train' cannot be written as JSON: .*Path.*plain"):
        loader.setup({})
    assert not (tmp_path / "out").exists()
