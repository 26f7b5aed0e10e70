"""Files of rows: read as they are, or refused with the place and the next move."""

import datetime
import decimal
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
        (
            "sep.csv",
            "sep=;\r\n"
            + TEXT.replace("text,", "text;").replace("e,a", "e;a").replace('",b', '";b'),
        ),
        ("sep_marked.csv", ("sep=,\n" + TEXT).encode("utf-8-sig")),
        ("excel_text.csv", TEXT.replace("e,a", 'e,"=""a"""')),
        ("old_mac.csv", TEXT.replace("label\n", "label\r").replace("a\n", "a\r")),
        ("commas.tsv", TEXT),
        (
            "quoted_names.csv",
            TEXT.replace("text,label", '"text";"label"')
            .replace("e,a", "e;a")
            .replace('",b', '";b'),
        ),
        ("rows.json", json.dumps(ROWS)),
        ("rows_in_data.json", json.dumps({"data": ROWS})),
        ("rows_in_a_list.json", json.dumps({"version": 1, "tags": ["x"], "examples": ROWS})),
        ("lists.json", json.dumps({name: [row[name] for row in ROWS] for name in ROWS[0]})),
        (
            "pandas.json",
            json.dumps(
                {name: {str(at): row[name] for at, row in enumerate(ROWS)} for name in ROWS[0]}
            ),
        ),
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
        ("a.json", '{"x": [1, 2], "y": [1]}', "holds no list of rows"),
        ("a.json", '{"x": {"0": 1}, "y": {"1": 1}}', "holds no list of rows"),
        ("a.json", '{"x": [{"a": 1}], "y": [{"b": 1}]}', "holds no list of rows"),
        ("a.json", '{"x": [1, 2]}', "holds no list of rows"),
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
    with pytest.raises(DataError, match=r"ends in '.txt'. Give a file that ends in .csv"):
        Table(tmp_path / "a.txt")


def test_parquet_is_read_and_dates_become_text(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
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


LETTERS = {
    "gb18030": "这个订单什么时候发货,物流\n",
    "big5": "這個訂單什麼時候出貨,物流\n",
    "shift_jis": "注文はいつ届きますか,配送\n",
    "euc_jp": "注文はいつ届きますか,配送\n",
    "euc_kr": "주문은 언제 도착하나요?,배송\n",
    "cp1251": "Когда придёт заказ?,доставка\n",
    "koi8_r": "Когда придёт заказ?,доставка\n",
    "cp1252": "Où est mon colis à moi?,livraison\n",
    "cp1250": "Gdzie jest moja przesyłka?,dostawa\n",
    "cp1253": "Πού είναι;,παράδοση\n",
    "cp1256": "أين طلبي؟,توصيل\n",
    "cp874": "สินค้าจะมา,จัดส่ง\n",
    "utf-16-le": "这个订单,物流\n",
    "utf-16-be": "这个订单,物流\n",
}


@pytest.mark.parametrize("encoding", LETTERS)
def test_an_encoding_is_advised_with_the_text_that_it_gives(tmp_path, encoding):
    text = "text,label\n" + LETTERS[encoding] * 4
    said = refused(tmp_path, text.encode(encoding))
    assert "Which of these reads right?" in said
    start = next(at for at, one in enumerate(text) if not one.isascii())
    assert " ".join(text.split())[start : start + 6] in said


@pytest.mark.parametrize(
    ("word", "encoding", "alike"),
    [
        ("\u4e2d\u6587", "gb18030", {"gb18030"}),
        ("\u4e2d\u6587", "big5", {"big5"}),
        ("\ud55c\uad6d\uc5b4", "euc_kr", {"euc_kr", "cp949"}),
        ("Caf\u00e9", "cp1252", {"cp1252"}),
        ("\u043f\u0440\u0438\u0432\u0435\u0442", "cp1251", {"cp1251"}),
    ],
)
def test_of_one_word_in_an_english_file_the_right_reading_is_shown(tmp_path, word, encoding, alike):
    body = "".join(f"item {n}? {word},red\nItem {n} is blue. What colour?,blue\n" for n in range(9))
    said = refused(tmp_path, f"text,label\n{body}".encode(encoding))
    shown = [one.partition(" it reads ") for one in said.split("in ") if " it reads " in one]
    right = [name for name, _, text in shown if word in text]
    assert alike & set(right), said
    assert shown[0][0] not in ("mac_roman", "cp437", "cp850")
    if encoding in ("gb18030", "cp1252"):
        assert shown[0][0] == encoding


@pytest.mark.parametrize(
    ("made", "named"), [("utf-8-sig", "utf-8"), ("utf-16", "utf-16-le"), ("utf-16", "utf-8")]
)
def test_a_byte_order_mark_is_never_a_part_of_a_name(tmp_path, made, named):
    assert list(table(tmp_path, TEXT.encode(made), encoding=named).rows()) == ROWS


def test_no_encoding_is_taken_that_would_garble_utf8(tmp_path):
    body = "text,label\nCaf\u00e9 cr\u00e8me,a\n".encode()
    said = refused(tmp_path, body, encoding="cp1252")
    assert "is UTF-8: encoding cp1252 would make 'Ã©" in said
    assert "Take env.data.encoding (or --encoding) out" in said
    marked = "text,label\nCaf\u00e9,a\n".encode("utf-16")
    assert "begins with the mark of UTF-16" in refused(tmp_path, marked, encoding="latin-1")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_utf8_is_not_read_as_a_wide_encoding(tmp_path, encoding):
    assert f"is UTF-8: encoding {encoding} would make" in refused(tmp_path, TEXT, encoding=encoding)
    wide = table(tmp_path, TEXT.encode(encoding), encoding=encoding)
    assert list(wide.rows()) == ROWS


def test_a_workbook_is_refused_with_the_next_move(tmp_path):
    with pytest.raises(DataError, match="Save the sheet as CSV"):
        table(tmp_path, b"PK", "rows.xlsx")


def test_a_column_may_be_called_like_a_kind_of_file(tmp_path):
    assert table(tmp_path, "par1,arrow1\na,b\n").head(1) == [{"par1": "a", "arrow1": "b"}]
    assert "is a web page" in refused(tmp_path, "\n<!DOCTYPE HTML>\n<p>Sign in</p>\n")


def test_empty_columns_without_names_at_the_end_are_left_out(tmp_path):
    rows = list(table(tmp_path, "text,label,, \na,b,,\n c ,d,, \n").rows())
    assert rows == [{"text": "a", "label": "b"}, {"text": " c ", "label": "d"}]
    said = refused(tmp_path, "text,label,,\na,b,,\nc,d,,note\n")
    assert "line 3: 'note' is in column 4, which has no name in the first line" in said
    assert "3 cells under a header of 4 columns" in refused(tmp_path, "text,label,,\na,b,\n")


@pytest.mark.parametrize(
    ("name", "body", "where"),
    [
        ("a.jsonl", '{"q": "x"}\n{"q": "\\uD83D"}\n', ", line 2"),
        ("a.json", '[{"q": ["\\udc00 x"]}]', ""),
    ],
)
def test_half_of_a_character_is_refused_with_its_place(tmp_path, name, body, where):
    said = refused(tmp_path, body, name)
    assert f"{name}'{where}: \\ud" in said
    assert "is one half of a character" in said
    whole = table(tmp_path, '{"q": "\\ud83d\\ude00"}\n', "b.jsonl")
    assert list(whole.rows()) == [{"q": "\U0001f600"}]


def test_a_damaged_place_in_utf8_is_no_reason_for_another_encoding(tmp_path):
    body = "text,label\nCaf\u00e9,a\n".encode() * 2 + b"bad \xff place,b\n"
    said = refused(tmp_path, body)
    assert "line 5 on, is not UTF-8 (byte 0xff), although the text before it is" in said
    assert "bad" in said


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("a.csv", '{"x": 1}\n{"x": 2}\n', "holds JSON Lines; rename it so that it ends in .jsonl"),
        ("a.csv", '[\n{"x": 1}]', "rename it so that it ends in .json"),
        ("a.json", '{"x": 1}\n{"x": 2}\n', "rename it so that it ends in .jsonl"),
        ("a.jsonl", '[{"x": 1},\n{"x": 2}]', "rename it so that it ends in .json"),
        ("a.jsonl", '{\n"data": []}', "rename it so that it ends in .json"),
        ("a.csv", b"PK\x03\x04" + bytes(20), "an Excel workbook; unpack it, or save the sheet"),
        ("a.csv", b"\xd0\xcf\x11\xe0" + bytes(20), "is an Excel workbook; save the sheet"),
        ("a.jsonl", b"\x1f\x8b\x08" + bytes(20), "compressed by gzip; unpack it: gunzip"),
        ("a.csv", b"PAR1" + bytes(20), "rename it so that it ends in .parquet"),
        ("a.csv", "<!DOCTYPE html><html>", "is a web page; download the file itself"),
        ("a.csv", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("a.parquet", "text,label\na,b\n", "cannot be read as Parquet: it is text"),
        ("a.jsonl", '{"x": 1, "x": 2}', "line 1: the key 'x' is given twice"),
        ("a.jsonl", '{"x": 1e999}', "line 1: the number 1e999 is too large"),
        ("a.jsonl", '{"x": ' + "9" * 5000 + "}", "an integer of more than 4,300 digits"),
        ("a.jsonl", '{"x": ' + "[" * 200 + "]" * 200 + "}", "more than 100 deep; flatten them"),
        ("a.json", '[{"x": ' + "[" * 99999 + "]" * 99999 + "}]", "more than 100 deep"),
        ("a.csv", 'text,label\nx,y\n"a,b\nc,d\n', "line 3: "),
    ],
)
def test_a_file_of_another_kind_or_shape_is_refused_with_the_next_move(tmp_path, name, body, said):
    assert said in refused(tmp_path, body, name)


@pytest.mark.parametrize("header", ["a," * 9000 + "b", '"open,b\n' + "x\n" * 9000])
def test_a_header_that_is_too_long_is_refused(tmp_path, header):
    (tmp_path / "a.csv").write_text(header, encoding="utf-8")
    with pytest.raises(DataError, match="its first line, which names the columns, has more than"):
        list(Table(tmp_path / "a.csv", most_chars=1000).rows())


def test_a_packed_file_is_to_be_unpacked(tmp_path):
    with pytest.raises(DataError, match=r"ends in '.gz'. Unpack it. Give a file that ends in"):
        Table(tmp_path / "a.csv.gz")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.csv", "q,label\nx,a\n" + "y" * 2000 + ",b\n"),
        ("a.csv", "q,label\nx,a\n" + "y" * 20_000 + ",b\n"),
        ("a.csv", 'q,label\nx,a\n"' + "y\n" * 2000 + '",b\n'),
        ("a.jsonl", '{"q": "x"}\n{"n": 1, "q": "' + "y" * 2000 + '"}\n'),
        ("a.jsonl", '{"q": "x"}\n{"n": 1, "q": "' + "y" * 20_000 + '"}\n'),
        ("a.jsonl", '{"q": "x"}\n{"n": 1, "q": ' + json.dumps(["y"] * 500) + "}\n"),
        ("a.json", '[{"q": "x"}, {"n": 1, "q": "' + "y" * 2000 + '"}]'),
    ],
)
def test_a_cell_that_is_too_long_is_refused_with_row_column_and_setting(tmp_path, name, body):
    (tmp_path / name).write_text(body, encoding="utf-8")
    with pytest.raises(DataError) as error:
        list(Table(tmp_path / name, most_chars=1000).rows())
    assert "row 2, column 'q': " in str(error.value)
    assert "env.data.max_cell_chars reads longer cells" in str(error.value)


def test_a_quote_that_is_never_closed_is_named_by_its_row(tmp_path):
    (tmp_path / "a.csv").write_text('q,label\nx,a\n"y,b\n' + "z,c\n" * 500, encoding="utf-8")
    with pytest.raises(DataError, match=r"row 2, column 'q'.*a double quote before it"):
        list(Table(tmp_path / "a.csv", most_chars=1000).rows())


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_file_that_is_too_large_is_refused_with_the_setting(tmp_path, name):
    if name == "a.parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        pyarrow = pytest.importorskip("pyarrow")
        words = [f"word {n}" for n in range(5000)]
        parquet.write_table(pyarrow.table({"q": words}), tmp_path / name)
    else:
        (tmp_path / name).write_text(
            '{"question": "x"}\n' * 5000 if name == "a.jsonl" else "q,a\n" * 9000, encoding="utf-8"
        )
    with pytest.raises(DataError, match=r"env\.data\.max_file_mb"):
        list(Table(tmp_path / name, most_bytes=20_000).rows())


def written(folder, columns, **kinds):
    """Write a Parquet file and return its rows."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    arrays = {
        name: pyarrow.array(values, getattr(pyarrow, kinds[name])() if name in kinds else None)
        for name, values in columns.items()
    }
    parquet.write_table(pyarrow.table(arrays), folder / "b.parquet")
    return list(Table(folder / "b.parquet").rows())


def test_values_of_parquet_are_what_a_person_would_write(tmp_path):
    columns = {
        "bytes": [b"red", "caf\u00e9".encode(), None],
        "half": [0.1, -2.5, float("nan")],
        "short": [0.1, 0.2, 1e-7],
        "double": [0.1, 1e300, float("inf")],
        "price": [decimal.Decimal("1.50"), decimal.Decimal("0.00"), None],
        "time": [datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), None, None],
    }
    rows = written(tmp_path, columns, half="float16", short="float32")
    assert rows[0] == {
        "bytes": "red",
        "half": 0.1,
        "short": 0.1,
        "double": 0.1,
        "price": "1.50",
        "time": "2026-01-02 03:04:05+00:00",
    }
    assert rows[1]["bytes"] == "caf\u00e9"
    assert rows[1]["price"] == "0.00"
    assert (rows[2]["short"], rows[2]["half"], rows[2]["double"]) == (1e-7, None, None)


def test_nested_values_of_parquet_are_lists_and_objects(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table_ = pyarrow.table(
        {
            "many": pyarrow.array([[0.1], []], pyarrow.list_(pyarrow.float32())),
            "names": pyarrow.array([["a", "b"], None], pyarrow.list_(pyarrow.string())),
            "one": pyarrow.array([{"x": "y", "n": 1}, None]),
            "map": pyarrow.array([[("k", 2)], []], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
            "at": pyarrow.array([1, 10**18], pyarrow.timestamp("ns")),
            "far": pyarrow.array([1, 253402300800], pyarrow.timestamp("s")),
        }
    )
    parquet.write_table(table_, tmp_path / "n.parquet")
    first, second = Table(tmp_path / "n.parquet").rows()
    assert first["many"] == [0.1]
    assert first["names"] == ["a", "b"]
    assert first["one"] == {"x": "y", "n": 1}
    assert (first["map"], second["map"]) == ({"k": 2}, {})
    assert (second["names"], second["one"]) == (None, None)
    assert first["at"] == "1970-01-01 00:00:00.000000001"
    assert second["far"].startswith("10000-01-01")


def test_bytes_that_are_no_text_and_double_names_are_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    with pytest.raises(DataError, match="column 'image', from row 1 on: its bytes are no text"):
        written(tmp_path, {"text": ["a"], "image": [b"\x89PNG\xff"]})
    double = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 2, ["x", "x"])
    parquet.write_table(double, tmp_path / "d.parquet")
    with pytest.raises(DataError, match="two columns are called 'x'"):
        list(Table(tmp_path / "d.parquet").rows())


def test_a_column_that_unpacks_to_a_gigabyte_is_refused_before_it_is_text(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    many = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 0] * 250), ["x" * 3_000_000])
    lists = pyarrow.ListArray.from_arrays(list(range(0, 501, 100)), many)
    words = [f"row {n}" for n in range(500)]
    for name, column, row in (("flat", many, 1), ("lists", lists, 1)):
        made = pyarrow.table({"q": words[: len(column)], "big": column})
        parquet.write_table(made, tmp_path / f"{name}.parquet", compression="zstd")
        with pytest.raises(DataError, match=f"row {row}, column 'big': .* characters in one cell"):
            list(Table(tmp_path / f"{name}.parquet").rows())
    plain = ["y"] * 60
    plain[30] = "x" * 1_500_000
    parquet.write_table(pyarrow.table({"q": plain}), tmp_path / "cell.parquet")
    with pytest.raises(DataError, match="row 31, column 'q': 1,500,000 characters in one cell"):
        list(Table(tmp_path / "cell.parquet").rows())
    parquet.write_table(
        pyarrow.table({"q": ["x" * 9_000_000]}),
        tmp_path / "long.parquet",
        compression="zstd",
        use_dictionary=False,
    )
    with pytest.raises(DataError, match="row 1 to 1, column 'q': "):
        list(Table(tmp_path / "long.parquet").rows())
