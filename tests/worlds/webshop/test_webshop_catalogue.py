"""Catalogues: how products are ranked, and how the original's files become one."""

import json
import math
import resource
import sqlite3
import tempfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import DataError
from skillwright.envs import check_env
from skillwright.worlds.webshop import (
    Catalogue,
    CatalogueSource,
    Product,
    WebShopEnv,
    import_webshop,
    index_with_tantivy,
    open_catalogue,
    webshop_tasks,
)
from skillwright.worlds.webshop.catalogue import (
    MOST_COMBINATIONS,
    pack_product,
    unpack_product,
)
from skillwright.worlds.webshop.importer import stream_array, stream_object

RULE = {"tagger": "rule"}
WORDS = st.sampled_from(["rug", "rugs", "lamp", "wool", "red", "the", "soft"])

# The shape of the original's files, with goods of our own.
ITEMS = [
    {
        "asin": "B000000001",
        "name": "Ivia  Wool Rug\n",
        "full_description": "A rug for quiet rooms.",
        "small_description": ["Stain resistant.", None, "Hand woven."],
        "pricing": "$49.99$79.99",
        "customization_options": {
            "Color": [{"value": " Navy/White "}, {"value": "Red"}, {"value": "red"}],
            "Size": [{"value": "4x6"}, {"value": "5x8"}],
            "Gift": None,
        },
        "category": "garden",
        "query": "Area Rug",
        "product_category": "Home \u203a Floors \u203a Rugs",
        "images": [],
    },
    {"asin": "B000000001", "name": "There already"},
    {"asin": "nan", "name": "No id"},
    {"asin": "B0000000012", "name": "Too long an id"},
    {
        "asin": "B000000002",
        "name": "Ivia Lamp",
        "full_description": None,
        "small_description": "Dimmable.",
        "pricing": None,
        "customization_options": "",
        "category": "garden",
        "query": "lamp",
        "product_category": "Home \u203a Lighting",
    },
    {"asin": "B000000003", "name": "Nobody Asks", "pricing": "$5"},
]
ABOUT = {
    "B000000001": {
        "attributes": ["stain resistant", "hand woven"],
        "instruction": "Find me stain resistant rugs",
        "instruction_attributes": ["stain resistant"],
    },
    "B000000002": {"attributes": ["dimmable"], "instruction": None},
}
HUMAN = {
    "B000000002": [
        {
            "instruction": "i need a dimmable lamp.",
            "instruction_attributes": ["dimmable"],
            "instruction_options": [],
        },
        {"instruction": "nothing to check", "instruction_attributes": []},
    ]
}


def official(folder: Path, *, items=ITEMS, about=ABOUT, human=HUMAN, end=""):
    folder.mkdir(exist_ok=True)
    for name, value in (
        ("items_shuffle", items),
        ("items_ins_v2", about),
        ("items_human_ins", human),
    ):
        if value is not None:
            (folder / f"{name}{end}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def catalogue_of(products):
    return Catalogue.of_products(products, CatalogueSource())


@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=8), min_size=1, max_size=12),
    st.lists(WORDS, max_size=4),
)
def test_products_are_ranked_by_the_formula_and_ties_by_asin(texts, query):
    catalogue = catalogue_of(
        [Product(f"B{number:03}", " ".join(text)) for number, text in enumerate(texts)][::-1]
    )
    stems = [[word.removesuffix("s") for word in text if word != "the"] for text in texts]
    mean = max(1, sum(map(len, stems)) / len(stems))
    scores = {}
    for number, text in enumerate(stems):
        score = 0.0
        for word in query:
            count = text.count(word.removesuffix("s"))
            having = sum(word.removesuffix("s") in other for other in stems)
            idf = math.log(1 + (len(stems) - having + 0.5) / (having + 0.5))
            score += idf * count / (count + 0.9 * (0.6 + 0.4 * len(text) / mean))
        if score:
            scores[f"B{number:03}"] = score
    found = list(catalogue.search(" ".join(query)))
    assert sorted(found) == sorted(scores)
    for first, second in pairwise(found):
        # Scores that differ by rounding alone have no order here; equal texts are sorted by asin.
        assert scores[first] > scores[second] - 1e-6
        assert first < second or texts[int(first[1:])] != texts[int(second[1:])]


def test_the_originals_special_searches_are_words_like_others():
    shop = catalogue_of([Product("B1", "A rug", query="rug"), Product("B2", "Letter Q", query="x")])
    assert set(shop.search("<q> rug")) == {"B1", "B2"}
    assert shop.search("<r> ") == ()


def test_at_most_fifty_products_are_found_and_of_equal_ones_the_first():
    catalogue = catalogue_of([Product(f"B{number:03}", "wool rug") for number in range(80)])
    assert catalogue.search("rugs") == tuple(f"B{number:03}" for number in range(50))
    assert catalogue.search("rug " * 500) == catalogue.search("rug")
    assert catalogue.search("") == catalogue.search('"; --') == ()


def test_only_title_description_first_bullet_and_options_are_searched():
    product = Product("B1", "Title", "Prose", ("First", "Second"), options={"color": ("red",)})
    catalogue = catalogue_of([product])
    words = ["title", "prose", "first", "second", "color", "red", "b1"]
    found = [word for word in words if catalogue.search(word)]
    assert found == ["title", "prose", "first", "color", "red"]
    assert catalogue_of([]).search("rug") == ()


def test_tantivy_answers_as_fts5_does(tmp_path):
    pytest.importorskip("tantivy")
    path = tmp_path / "shop.sqlite"
    import_webshop(official(tmp_path / "data"), path)
    index_with_tantivy(path)
    found = open_catalogue(CatalogueSource(str(path), engine="tantivy"))
    assert found.search("quiet ROOMS lamp rug") == ("B000000001", "B000000002")
    assert found.search("the of") == ()
    task = webshop_tasks("train", 1, env_config={"catalogue": str(path), "engine": "tantivy"})[0]
    assert task.extras["engine"] == "tantivy"


def test_an_index_is_made_anew_and_goes_with_its_catalogue(tmp_path):
    pytest.importorskip("tantivy")
    path = tmp_path / "shop.sqlite"
    source = CatalogueSource(str(path), engine="tantivy")
    import_webshop(official(tmp_path / "data"), path)
    for _ in range(2):
        folder = index_with_tantivy(path)
    assert sorted(open_catalogue(source).search("ivia")) == ["B000000001", "B000000002"]
    import_webshop(official(tmp_path / "data", items=ITEMS[4:]), path)
    with pytest.raises(DataError, match="there is no tantivy index"):
        open_catalogue(source)
    folder.mkdir()
    with pytest.raises(DataError, match="there is no tantivy index"):
        open_catalogue(source)


def test_a_product_is_stored_as_it_is():
    product = Product("B1", "T\u00e4pp \u203a", options={"a": ("1", "2")})
    assert unpack_product(pack_product(product)) == product


def test_official_files_become_a_catalogue(tmp_path):
    made = import_webshop(official(tmp_path / "data"), tmp_path / "deep" / "shop.sqlite")
    assert (made.products, made.skipped, made.human_goals, made.synthetic_goals) == (3, 3, 1, 4)
    catalogue = open_catalogue(CatalogueSource(made.path))
    assert catalogue.digest == made.digest
    rug = catalogue.product("B000000001")
    assert rug.title == "Ivia Wool Rug"
    assert rug.options == {"color": ("navy | white", "red"), "size": ("4x6", "5x8")}
    assert rug.bullets == ("Stain resistant.", "Hand woven.")
    assert rug.price_text == "$49.99 to $79.99"
    assert rug.query == "area rug"
    assert catalogue.product("B000000002").price_text == "$100.0"
    assert catalogue.search("quiet room") == ("B000000001",)
    (goal,) = catalogue.goals_of("B000000002", "human")
    assert goal.instruction_text.startswith("i need a dimmable lamp, and price lower than 1")


def test_texts_are_cleaned_as_the_page_of_differences_says(tmp_path):
    item = {
        **ITEMS[0],
        "name": " Ivia \n Wool  Rug ",
        "small_description": ["Wool.", " ", "Wool."],
        "customization_options": {"Color": [{"value": "off  white"}, {"value": " "}]},
        "pricing": "$1.2.3",
    }
    made = import_webshop(official(tmp_path / "data", items=[item]), tmp_path / "shop.sqlite")
    rug = open_catalogue(CatalogueSource(made.path)).product("B000000001")
    assert rug.title == "Ivia Wool Rug"
    assert rug.bullets == ("Wool.", "Wool.")
    assert rug.options == {"color": ("off white",)}
    assert rug.price_text == "$100.0"


def test_a_product_of_which_nothing_is_known_has_no_attribute(tmp_path):
    made = import_webshop(official(tmp_path / "data"), tmp_path / "shop.sqlite")
    assert open_catalogue(CatalogueSource(made.path)).product("B000000003").attributes == ()


def test_options_that_people_named_are_taken_by_their_values(tmp_path):
    wish = {**HUMAN["B000000002"][0], "instruction_options": {"size": "5x8"}}
    folder = official(tmp_path / "data", human={"B000000002": [wish]})
    made = import_webshop(folder, tmp_path / "shop.sqlite")
    goal = open_catalogue(CatalogueSource(made.path)).goal("B000000002/human/0")
    assert goal.goal_options == (("", "5x8"),)


def test_half_a_character_does_not_stop_an_import(tmp_path):
    odd = {"asin": "B000000009", "name": "Rug \ud83d", "customization_options": {"\ud83d": []}}
    made = import_webshop(official(tmp_path / "data", items=[odd]), tmp_path / "shop.sqlite")
    assert open_catalogue(CatalogueSource(made.path)).product("B000000009").title == "Rug ?"


def test_an_id_that_is_no_text_does_not_stop_an_import(tmp_path):
    odd = {"asin": "B\ud83d", "name": "Rug"}
    human = {"B\ud83d": HUMAN["B000000002"]}
    folder = official(tmp_path / "data", items=[odd], human=human)
    assert import_webshop(folder, tmp_path / "shop.sqlite").human_goals == 1


def test_a_product_is_not_left_out_for_an_odd_id_price_or_value(tmp_path):
    values = [{"value": ""}, {}, {"value": "red"}]
    many = [{"value": f"v{number}"} for number in range(40)]
    items = [
        {**ITEMS[0], "asin": "B0/1", "customization_options": {"color": values, "size": None}},
        {**ITEMS[1], "asin": "B2", "pricing": "$" + "9" * 400},
        {**ITEMS[1], "asin": "B3", "customization_options": dict.fromkeys("abcdefghijklmn", many)},
    ]
    about = {"B0/1": ABOUT["B000000001"], "B3": ABOUT["B000000001"]}
    made = import_webshop(
        official(tmp_path / "data", items=items, about=about, human=None), tmp_path / "shop.sqlite"
    )
    assert made.synthetic_goals == 1 + MOST_COMBINATIONS
    catalogue = open_catalogue(CatalogueSource(made.path))
    assert catalogue.product("B0/1").options == {"color": ("red",)}
    assert catalogue.goal("B0/1/synthetic/0").goal_options == (("color", "red"),)
    assert catalogue.product("B2").price_text == "$100.0"
    assert sum(1 for _ in catalogue.goals_of("B3", "synthetic")) == MOST_COMBINATIONS


def test_a_catalogue_cannot_take_the_place_of_a_folder(tmp_path):
    (tmp_path / "shop").mkdir()
    with pytest.raises(DataError, match="is a folder; name a file"):
        import_webshop(official(tmp_path / "data"), tmp_path / "shop")


def test_a_disk_without_room_is_told(tmp_path):
    folder = official(tmp_path / "data")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, hard))
    try:
        with pytest.raises(DataError, match=r"shop.sqlite' cannot be written: .*room on the disk"):
            import_webshop(folder, tmp_path / "out" / "shop.sqlite")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list((tmp_path / "out").iterdir())


def test_one_product_with_all_the_goals_is_in_one_split(tmp_path):
    item = {**ITEMS[0], "customization_options": {"size": [{"value": str(n)} for n in range(10)]}}
    folder = official(tmp_path / "data", items=[item], human=None)
    config = {"catalogue": import_webshop(folder, tmp_path / "shop.sqlite").path, **RULE}
    assert len(webshop_tasks("test", goals="synthetic", env_config=config)) == 10
    for split in ("train", "val"):
        with pytest.raises(DataError, match=f"no synthetic goals for split '{split}'"):
            webshop_tasks(split, goals="synthetic", env_config=config)


def test_the_order_of_the_file_does_not_matter(tmp_path):
    one = import_webshop(official(tmp_path / "one"), tmp_path / "one.sqlite")
    turned = official(tmp_path / "two", items=ITEMS[::-1][:2] + ITEMS[:4])
    assert import_webshop(turned, tmp_path / "two.sqlite").digest == one.digest


def test_imported_goals_are_played_and_won(tmp_path):
    path = import_webshop(official(tmp_path / "data"), tmp_path / "shop.sqlite").path
    config = {"catalogue": path, **RULE}
    for goals, split, count in (("human", "train", 1), ("synthetic", "test", 4)):
        tasks = webshop_tasks(split, goals=goals, env_config=config)
        assert len(tasks) == count
        for task in tasks:
            env = WebShopEnv(config, dict(task.extras))
            env.init([])
            gold = WebShopEnv.gold_actions(task.extras, config)
            assert [env.step(action) for action in gold][-1]["reward"] == 1.0
            report = check_env("webshop", extras_list=[task.extras], env_config=config, fuzz=20)
            assert report.ok, report.to_dict()
    with pytest.raises(DataError, match="has no human goals for split 'test'"):
        webshop_tasks("test", env_config=config)


def test_small_files_are_taken_where_they_are_asked_for_or_alone(tmp_path):
    folder = official(tmp_path / "data", items=ITEMS[:1], end="_1000")
    assert import_webshop(folder, tmp_path / "a.sqlite").products == 1
    official(folder)
    assert import_webshop(folder, tmp_path / "b.sqlite").products == 3
    assert import_webshop(folder, tmp_path / "c.sqlite", small=True).products == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"items": None}, "does not hold the files of WebShop: items_shuffle.json, and items_ins"),
        ({"about": None, "human": None}, "does not hold the files of WebShop"),
        ({"items": {"a": 1}}, r"items_shuffle.json': after entry 0, it does not begin with '\['"),
        ({"items": [{"name": "x"}]}, "entry 1 is no product: it has no 'asin'"),
        ({"items": [ITEMS[0], 5]}, "entry 2 is no product"),
        ({"items": [{**ITEMS[0], "customization_options": [1]}]}, "customization_options is list"),
        ({"about": []}, r"items_ins_v2.json': after entry 0, it does not begin with '\{'"),
        ({"human": {"B000000001": [{}]}}, "have no 'instruction'"),
    ],
)
def test_bad_files_are_named_and_nothing_is_left_behind(tmp_path, changes, message):
    folder = official(tmp_path / "data", **changes)
    with pytest.raises(DataError, match=message):
        import_webshop(folder, tmp_path / "out" / "shop.sqlite")
    assert list((tmp_path / "out").glob("*")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "after entry 0, it does not begin"),
        ("[1, 2", "after entry 2, there is no ','"),
        ("[1 2]", "after entry 1, there is no ','"),
        ("[1, {]", "after entry 1, what follows is no JSON"),
        ("[1] 2", "something after its last"),
        ("[" * 50_000, "after entry 0, what follows is no JSON"),
        ('["' + "x" * 100, "after entry 0, what follows is no JSON"),
    ],
)
def test_a_broken_array_is_told_by_its_entries(tmp_path, text, message):
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        list(stream_array(path))


@given(st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(), max_size=3)))
def test_a_stream_yields_what_the_file_holds(values):
    members = {str(number): value for number, value in enumerate(values)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.json"
        path.write_text(json.dumps(values), encoding="utf-8")
        assert list(stream_array(path, chunk_chars=3)) == values
        path.write_text(json.dumps(members, indent=1), encoding="utf-8")
        assert dict(stream_object(path, chunk_chars=3)) == members


def test_what_is_no_catalogue_is_told(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        open_catalogue(CatalogueSource(str(tmp_path / "none.sqlite")))
    with pytest.raises(DataError, match="is no catalogue"):
        open_catalogue(CatalogueSource(str(tmp_path)))
    (tmp_path / "text").write_text("no database" * 100)
    with pytest.raises(DataError, match="is no catalogue"):
        open_catalogue(CatalogueSource(str(tmp_path / "text")))
    with sqlite3.connect(tmp_path / "old") as connection:
        connection.execute("CREATE TABLE meta(name, value)")
    with pytest.raises(DataError, match="written by another version"):
        open_catalogue(CatalogueSource(str(tmp_path / "old")))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE product SET body = x'00'", "is damaged"),
        ("DROP TABLE goals", "is damaged"),
        ("DROP TABLE posting", "is no catalogue"),
    ],
)
def test_a_damaged_catalogue_is_told(tmp_path, damage, message):
    path = import_webshop(official(tmp_path / "data"), tmp_path / "shop.sqlite").path
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(damage)
        connection.commit()
    with pytest.raises(DataError, match=f"shop.sqlite' {message}"):
        webshop_tasks("train", env_config={"catalogue": path, **RULE})
