"""Passages of files, and the index that is made of them once."""

import json

import numpy as np
import pytest

from skillwright.core import ConfigError, DataError
from skillwright.worlds.search import Filed, Passage, open_index, read_passages
from skillwright.worlds.search import index as index_module
from skillwright.worlds.search.index import shown

ROWS = [
    {"id": "a", "title": "Rome", "text": "Rome is the capital of Italy."},
    {"id": "b", "title": "Oslo", "text": "Oslo is the capital of Norway."},
]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written(folder, rows, name="passages.jsonl"):
    path = folder / name
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_the_usual_shapes_of_a_passage_are_read(tmp_path):
    path = written(
        tmp_path,
        [
            ROWS[0],
            {"_id": 7, "contents": '"Oslo"\nOslo is a city.'},
            {"docid": "x", "title": None, "text": ["One. ", "Two."]},
            {"content": "No id, and no title."},
        ],
    )
    assert list(read_passages(path)) == [
        Filed("a", Passage("Rome", "Rome is the capital of Italy.")),
        Filed("7", Passage("Oslo", "Oslo is a city.")),
        Filed("x", Passage("", "One. Two.")),
        Filed("4", Passage("", "No id, and no title.")),
    ]


def test_a_table_is_read_too(tmp_path):
    path = tmp_path / "psgs.tsv"
    path.write_text("id\ttext\ttitle\n1\tA text.\tA\n2\tAnother.\tB\n", encoding="utf-8")
    assert [one.passage.title for one in read_passages(path)] == ["A", "B"]


def test_parquet_is_read_too(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    import pyarrow.parquet as parquet

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "p.parquet")
    assert [one.id for one in read_passages(tmp_path / "p.parquet")] == ["a", "b"]


def test_what_questions_bring_is_a_collection_and_counts_once(tmp_path):
    hotpot = {
        "_id": "h1",
        "question": "Where?",
        "answer": "Rome",
        "context": [["Rome", ["Rome is old. ", "It is big."]], ["Oslo", ["Cold."]]],
    }
    musique = {
        "id": "2hop__1",
        "question": "Who?",
        "answer": "She",
        "paragraphs": [{"idx": 0, "title": "Oslo", "paragraph_text": "Cold."}],
    }
    faces = {
        "id": "f",
        "question": "What?",
        "answer": "It",
        "context": {"title": ["Pisa"], "sentences": [["It ", "leans."]]},
    }
    found = list(read_passages(written(tmp_path, [hotpot, musique, faces])))
    assert [(one.id, one.passage.title, one.passage.text) for one in found] == [
        ("h1-1", "Rome", "Rome is old. It is big."),
        ("h1-2", "Oslo", "Cold."),
        ("f-1", "Pisa", "It leans."),
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "holds no passage"),
        ([{"id": 1, "titel": "x"}], "row 1: there is no text"),
        ([ROWS[0], {"id": "c", "text": "  "}], "row 2: 'text' is blank"),
        ([{"text": "x", "title": 3}], "row 1: title is 3"),
        ([ROWS[0], ROWS[1], {**ROWS[1], "id": "a"}], "rows 1 and 3 are both passage 'a'"),
        ([7], "line 1 is 7, not an object"),
        ([{"question": "q", "context": [5]}], "row 1: a passage is 5"),
    ],
)
def test_a_wrong_file_of_passages_is_refused_with_its_row(tmp_path, rows, said):
    path = written(tmp_path, rows)
    with pytest.raises(DataError) as raised:
        open_index(str(path))
    assert said in str(raised.value)
    assert str(path) in str(raised.value)
    left = list((tmp_path / "cache" / "skillwright" / "passages").iterdir())
    assert [one.name for one in left] == ["known"]  # no half of an index stays


def test_a_line_that_is_no_json_is_refused_with_its_place(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "a", "text": "x"}\n{"id": "b", "te\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"p\.jsonl', line 2"):
        open_index(str(path))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read from .*No such file"):
        open_index(str(tmp_path / "none.jsonl"))


def test_an_index_is_made_once_per_content(tmp_path, monkeypatch):
    first = open_index(str(written(tmp_path, ROWS)))
    made = []
    monkeypatch.setattr(index_module, "_write", lambda *args: made.append(args))
    second = open_index(str(written(tmp_path, ROWS, "other.jsonl")))
    assert second is not first
    assert not made
    assert [one.id for one in second.search("capital of Norway", 2)] == ["b", "a"]
    assert second.size == 2


def test_a_changed_file_is_indexed_anew(tmp_path):
    path = written(tmp_path, ROWS)
    before = open_index(str(path))
    written(tmp_path, [*ROWS, {"id": "c", "title": "Bern", "text": "Bern is in Switzerland."}])
    after = open_index(str(path))
    assert after.digest != before.digest
    assert [one.id for one in after.search("Bern", 3)] == ["c"]
    assert before.search("Bern", 3) == ()


def test_a_cache_that_cannot_be_written_says_where(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match="XDG_CACHE_HOME"):
        open_index(str(written(tmp_path, ROWS)))


def test_a_damaged_index_says_which_folder_to_delete(tmp_path):
    path = written(tmp_path, ROWS)
    open_index(str(path))
    (folder,) = (
        one
        for one in (tmp_path / "cache" / "skillwright" / "passages").iterdir()
        if one.name != "known"
    )
    (folder / "adds.npy").write_bytes(b"nothing")
    index_module._open.cache_clear()
    with pytest.raises(DataError, match="Delete that folder"):
        open_index(str(path))


class Wheel:
    """An embedder of four directions: by the first letter of the last word."""

    identity = "wheel-1"

    def encode_skills(self, texts):
        return np.array([self._row(text) for text in texts], dtype=np.float32)

    encode_queries = encode_skills

    def _row(self, text):
        row = [0.0] * 26
        row[ord(text.split()[-1][0].lower()) - 97] = 1.0
        return row


def test_a_sentence_transformers_model_may_find_passages(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "find_code", lambda name, what: lambda model: Wheel())
    index = open_index(str(written(tmp_path, ROWS)), "some-model")
    assert index.retriever == "wheel-1"
    assert [one.id for one in index.search("which nation", 1)] == ["b"]
    folders = (tmp_path / "cache" / "skillwright" / "passages").iterdir()
    assert len([one for one in folders if one.name != "known"]) == 1


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    with pytest.raises(ConfigError, match=r"skillwright\[embed\]"):
        open_index(str(written(tmp_path, ROWS)), "all-MiniLM-L6-v2")


def test_passages_are_shown_as_published_and_cut_to_their_share():
    found = [Filed("1", Passage("Rome", "x" * 50)), Filed("2", Passage("", "short"))]
    assert shown(found, 60) == f"Doc 1(Title: Rome) {'x' * 16}...\nDoc 2 short"
    assert shown(found[1:], 60) == "Doc 1 short"
    assert shown([], 60) == ""
