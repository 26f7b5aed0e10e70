"""What the WebShop tests compare with: a visit to every page, and searches, as they were recorded.

    .venv/bin/python tests/envs/webshop_recorded.py

records them again. A change of a page's text, of the built-in shop or of the ranking shows there.
"""

import json
from pathlib import Path

from skillwright.worlds.webshop import CatalogueSource, WebShopEnv, open_catalogue, webshop_tasks

GOLDEN = Path(__file__).resolve().parent / "golden" / "webshop"
MODES = ("text", "text_rich")
RULE = {"tagger": "rule"}
QUERIES = (
    "hoodie",
    "machine washable hoodie",
    "fleece lined hooded sweatshirt in navy size 2xl",
    "running shoes with arch support",
    "noise cancelling headphones",
    "something for my sister before the birthday",
    "gluten free oat bars cinnamon",
    "Lunabell",
    "rug 5x8 stain resistant stain resistant",
    "the of and",
    "zzz",
)


def visit(mode):
    """Visit every kind of page, do what cannot be done too, and buy."""
    config = {"observation_mode": mode, "show_attributes": True, **RULE}
    task = next(
        one
        for one in webshop_tasks("test", env_config=RULE)
        if len(WebShopEnv.gold_actions(one.extras)) == 5
    )
    env = WebShopEnv(config, {**task.extras, "max_turns": 50})
    search, product, first, second, buy = WebShopEnv.gold_actions(task.extras)
    messages, metadata = env.init([])
    record = {"system": messages[0]["content"], "opening": told(messages[1]["content"], metadata)}
    there_and_back = [
        step
        for name in ("description", "features", "reviews", "attributes")
        for step in (f"click[{name}]", "click[< prev]")
    ]
    actions = [
        "look around",
        "click[search]",
        "search[ ]",
        search,
        *["click[next >]"] * 5,
        "click[< prev]",
        "<action>click[back to search]</action>",
        search,
        product,
        search.upper().replace("SEARCH", "search"),
        product,
        first,
        *there_and_back,
        "click[< prev]",
        product,
        first,
        second,
        buy,
        buy,
    ]
    record["steps"] = [played(env, action) for action in actions]
    record["metrics"] = env.get_metrics()
    return record


def played(env, action):
    output = env.step(action)
    shown = told(output["observations"][0]["content"], output["metadata"])
    return {"action": action, "reward": output["reward"], "done": output["done"], **shown}


def told(message, metadata):
    return {"message": message, "metadata": metadata}


def searches():
    catalogue = open_catalogue(CatalogueSource())
    return {query: list(catalogue.search(query)[:12]) for query in QUERIES}


def as_text(value):
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def recordings():
    """Return what each file should hold."""
    visits = {f"visit_{mode}.json": as_text(visit(mode)) for mode in MODES}
    return {**visits, "searches.json": as_text(searches())}


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, text in recordings().items():
        (GOLDEN / name).write_text(text, encoding="utf-8")
