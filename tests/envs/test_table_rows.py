"""Files of rows: read as they are, or refused with the place and the next move."""

import json
import sys

import pytest

from skillwright.core import DataError
from skillwright.envs.table import Table

TEXT = 'text,label\nhello there,a\n"two, and\nthree",b\n'
ROWS = [{"text": "hello there", "label": "a"}, {"text": "two, and\nthree", "label": "b"}]


def table(folder, body, name="data.csv", encoding=None):
    path = folder / name
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    return Table(path, encoding)


def refused(folder, body, name="data.csv", encoding=None):
    with pytest.raises(DataError) as error:
        list(table(folder, body, name, encoding).rows())
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("plain.csv", TEXT),
        ("marked.csv", TEXT.encode("utf-8-sig")),
        ("excel.csv", TEXT.encode("utf-16")),
        ("wide.csv", TEXT.encode("utf-32")),
        ("windows.csv", TEXT.replace("label\n", "label\r\n").replace("a\n", "a\r\n")),
        ("europe.csv", TEXT.replace("text,", "text;").replace("e,a", "e;a").replace('",b', '";b')),
        ("tabs.tsv", TEXT.replace("text,", "text\t").replace("e,a", "e\ta").replace('",', '"\t')),
        ("blank_lines.csv", "\n" + TEXT + "\n,\n\n"),
        ("rows.json", json.dumps(ROWS)),
        ("rows_in_data.json", json.dumps({"data": ROWS})),
        ("rows.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n\n"),
        ("marked.jsonl", "\n".join(map(json.dumps, ROWS)).encode("utf-8-sig")),
    ],
)
def test_the_same_rows_come_out_of_every_form_of_file(tmp_path, name, body):
    assert list(table(tmp_path, body, name).rows()) == ROWS


def test_a_named_encoding_is_used(tmp_path):
    body = "text,label\nCafé,a\n".encode("cp1252")
    assert table(tmp_path, body, encoding="cp1252").head(1) == [{"text": "Café", "label": "a"}]
    assert "there is no encoding 'klingon'" in refused(tmp_path, body, encoding="klingon")


def test_the_index_that_pandas_writes_without_a_name_gets_one(tmp_path):
    assert table(tmp_path, ",text\n0,hello\n").head(1) == [{"index": "0", "text": "hello"}]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "is empty; its first line names the columns"),
        ("text,label\na,b\nc\n", "line 3: 1 cells under a header of 2 columns (text, label)"),
        ("text,label\na,b,c\n", "line 2: 3 cells"),
        ("text,label,text\na,b,c\n", "columns 1 and 3 are both called 'text'; rename one"),
        ("text,,label\na,b,c\n", "column 2 has no name in the first line"),
        ('text,label\n"a,b\nc,d\n', "Look for a double quote that is never closed"),
        ("text,label\nCafé,a\n".encode("latin-1"), "is not UTF-8 (byte 0xe9)"),
        ("text,label\nCafé,a\n".encode("utf-16-le"), "env.data.encoding: utf-16-le"),
    ],
)
def test_a_damaged_csv_file_is_refused_with_the_place_and_the_next_move(tmp_path, body, said):
    assert said in refused(tmp_path, body)


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("a.json", "[{]", "is no JSON"),
        ("a.json", '{"x": 1}', "holds no list of rows"),
        ("a.json", '[{"x": NaN}]', "NaN is no JSON value"),
        ("a.jsonl", '{"x": 1}\n[2]\n', "line 2 is [2], not an object with columns"),
        ("a.jsonl", '{"x": 1}\n{"x"\n', "line 2: "),
        ("a.jsonl", b'{"x": "\xe9"}', "is not UTF-8"),
        ("a.parquet", b"no parquet", "cannot be read as Parquet"),
    ],
)
def test_other_damaged_files_are_refused(tmp_path, name, body, said):
    assert said in refused(tmp_path, body, name)


def test_a_file_of_another_kind_or_none_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        Table(tmp_path / "no.csv")
    with pytest.raises(DataError, match=r"ends in '.xlsx'. Give a file that ends in .csv"):
        Table(tmp_path / "a.xlsx")


def test_parquet_is_read_and_dates_become_text(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    import datetime

    day = datetime.date(2026, 1, 2)
    columns = {"text": ["a", None], "n": [1, 2], "day": [day, day], "many": [["x"], []]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    assert list(Table(tmp_path / "a.parquet").rows()) == [
        {"text": "a", "n": 1, "day": "2026-01-02", "many": ["x"]},
        {"text": None, "n": 2, "day": "2026-01-02", "many": []},
    ]


def test_without_pyarrow_parquet_names_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "pip install 'skillwright[parquet]'" in refused(tmp_path, b"", "a.parquet")
