"""Goals as tasks: train, val and test share no goal and no product.

Products are ordered by a hash of the world's seed and their id. The first ones are for test, up to
500 goals (the size in reports) or 30% of all; the next for val, up to 1,000 goals or 20%; the rest
for train. A product's goals are in one split.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from skillwright.core import DataError, Task, did_you_mean
from skillwright.core.seeds import derive_seed
from skillwright.worlds.webshop.catalogue import (
    BUILT_IN,
    Catalogue,
    CatalogueSource,
    open_catalogue,
)
from skillwright.worlds.webshop.product import GOAL_KINDS, Goal, GoalKind, words
from skillwright.worlds.webshop.reward import TAGGERS, resolve_tagger
from skillwright.worlds.webshop.search import ENGINES

# The seven categories of skills and reports, derived from the instruction by whole words: the last
# known noun in the first clause with one, because English puts the head noun last (a ``shoe rack``
# is a rack). Two words take precedence over one (``ice cream``).


CATEGORIES: Final = (
    "apparel",
    "footwear",
    "electronics",
    "accessories",
    "home_decor",
    "beauty_health",
    "other",
)

_WORDS: Final = {
    "apparel": "apparel blazer blouse bra bras cardigan clothing coat coats costume dress dresses "
    "gown hoodie hoodies jacket jackets jeans jumpsuit kimono leggings lingerie nightgown outfit "
    "overalls pajama pajamas pants polo pullover robe shirt shirts shorts skirt skirts sleepwear "
    "suit sweater sweaters sweatpants sweatshirt swimsuit swimwear tee tees top tops trousers "
    "tuxedo underwear vest t-shirt t-shirts tunic",
    "footwear": "boot boots clog clogs flats flip-flops footwear heels loafer loafers moccasins "
    "pumps sandal sandals shoe shoes slipper slippers sneaker sneakers trainers",
    "electronics": "adapter adapters antenna battery batteries cable cables camera cameras charger "
    "chargers computer controller desktop drone earbuds earphones electronics hdmi headphone "
    "headphones headset ipad iphone keyboard keyboards laptop microphone monitor mouse phone "
    "printer projector radio receiver router smartphone smartwatch soundbar speaker speakers "
    "tablet television tripod tv usb webcam",
    "accessories": "accessories backpack backpacks bag bags band bands belt belts bracelet "
    "bracelets cap caps clutch earrings eyewear glove gloves handbag hat hats jewelry necklace "
    "pendant purse ring rings scarf scarves sunglasses tie tote umbrella wallet wallets watch "
    "watches wristband sock socks",
    "home_decor": "bed bedding bench blanket blinds bookcase bookshelf cabinet candle candles "
    "carpet chair chairs chandelier comforter couch curtain curtains cushion cushions decor desk "
    "dresser duvet furniture lamp lamps lantern light lights mattress mirror nightstand organizer "
    "ottoman pantry pillow pillows pillowcase poster rack rug rugs sconce shelf shelves sofa stool "
    "table tablecloth tapestry vanity vase wallpaper",
    "beauty_health": "beauty brush brushes comb concealer conditioner cosmetics cream deodorant "
    "eyeliner eyelashes eyeshadow floss foundation fragrance lipstick lotion makeup mascara "
    "massager moisturizer mouthwash nail nails perfume razor serum shampoo skincare soap sunscreen "
    "toothbrush toothbrushes toothpaste trimmer tweezers vitamin vitamins wig",
    "other": "bars bar cookies chips coffee snack snacks tea chocolate candy cereal sauce nuts mix "
    "maker bearing abrasive bottle puzzle toy toys notebook leash",
}
_PHRASES: Final = {
    "other": "ice cream, dog bed, dog beds, pet bed, trail mix, water bottle, whipped cream, "
    "granola bars",
    "home_decor": "wall art, table lamp, table top",
    "electronics": "phone case, cell phone, smart watch, smart watches",
    "accessories": "watch band, watch bands, laptop bag",
    "beauty_health": "body wash, hair mask, face mask, essential oil, shower cap",
    "apparel": "tank top",
}
_CATEGORY_OF: Final = {
    **{word: category for category, words in _WORDS.items() for word in words.split()},
    **{pair: category for category, pairs in _PHRASES.items() for pair in pairs.split(", ")},
}

_CLAUSE_END: Final = re.compile(
    r"[,.;:!?()]|\b(?:with|without|that|which|who|for|in|on|of|because|and|made|to go|size)\b"
)
_WORD: Final = re.compile(r"[a-z]+(?:-[a-z]+)*")


def category_of(text: str) -> str:
    """Return the category that an instruction asks for; ``other`` without a known noun."""
    return named_category(text) or "other"


def named_category(text: str) -> str:
    """Return the category of the first clause with a known noun, or ``""``."""
    for clause in _CLAUSE_END.split(text.lower()):
        named = _last_named(_WORD.findall(clause))
        if named:
            return named
    return ""


def _last_named(words: list[str]) -> str:
    for end in range(len(words), 0, -1):
        for size in (2, 1):
            found = _CATEGORY_OF.get(" ".join(words[max(0, end - size) : end]))
            if found:
                return found
    return ""


# Searches for policies that choose among commands: the whole instruction; its content words from
# the product on, without small talk and price; those before the first comma; the first four words.


_PRICE: Final = re.compile(r",? and price lower than [0-9.]+ dollars\s*$")
_QUERY_WORD: Final = re.compile(r"[^\W_]+(?:[.'-][^\W_]+)*")
_ASKS: Final = re.compile(r".*\b(?:want|need|buy|find me|looking for)\s")
_CLAUSE: Final = re.compile(r"([.,:;?!])\s+")
_TALK: Final = frozenset(
    words(
        "a an and are as at be but by can could for from give has have i i'd i'll i'm "
        "i've if in is it like look looking me my need of on one or please should so some "
        "something soon that the their them there they this to want was we will with "
        "would you your am find buy get nice also must it's which who made comes come "
        "size color colour new shop shopping purchase interested want "
    )
)
_FIRST_WORDS: Final = 4


def search_commands(instruction: str) -> list[str]:
    """Return distinct ``search[...]`` commands for an instruction, the whole sentence first."""
    wish = _PRICE.sub("", instruction.lower())
    asked = _asked(wish)
    about = _content(" ".join(asked[: _first_comma(asked)]))
    queries = (
        " ".join(_QUERY_WORD.findall(instruction.lower())),
        " ".join(_content(" ".join(asked))),
        " ".join(about),
        " ".join(about[:_FIRST_WORDS]),
    )
    return [f"search[{query}]" for query in dict.fromkeys(queries) if query]


def _asked(wish: str) -> list[str]:
    """Return clauses and their delimiters, from the clause that names the product on."""
    pieces = _CLAUSE.split(wish)
    clauses = pieces[::2]
    named = [at for at, clause in enumerate(clauses) if named_category(clause)]
    first = named[0] if named else max(range(len(clauses)), key=lambda at: len(clauses[at]))
    clause = _ASKS.sub("", clauses[first])
    if not named_category(clause) and named:
        clause = clauses[first]  # the small talk already named the product
    return [clause, *pieces[2 * first + 1 :]]


def _first_comma(asked: list[str]) -> int:
    return asked.index(",") if "," in asked else len(asked)


def _content(text: str) -> list[str]:
    return [word for word in _QUERY_WORD.findall(text) if word not in _TALK]


MODES: Final = ("text", "text_rich")
_NO_SERVER: Final = ("html", "url")


@dataclass(frozen=True, slots=True)
class WebShopEnvConfig:
    """Settings that all episodes share.

    Attributes:
        observation_mode: ``text`` or ``text_rich``. The original's ``html`` and ``url`` need its
            web server and are refused.
        num_prev_obs: Number of earlier pages before the current one.
        num_prev_actions: Number of earlier actions before the current page.
        catalogue: ``built-in``; ``imported`` for that of ``skillwright data webshop``; or a path.
        engine: ``fts5``, or ``tantivy`` for a catalogue that was indexed with it.
        tagger: The reward's noun tagger: ``spacy``, ``rule``, or ``auto`` for spaCy if it is
            installed with its small model, else the rule.
        show_actions: Whether messages end with the list of actions.
        show_attributes: Whether an item has an Attributes page, an option of the original.
    """

    observation_mode: str = "text"
    num_prev_obs: int = 0
    num_prev_actions: int = 0
    catalogue: str = BUILT_IN
    engine: str = "fts5"
    tagger: str = "auto"
    show_actions: bool = True
    show_attributes: bool = False

    def source(self, seed: int) -> CatalogueSource:
        """Return the catalogue of the world with this seed."""
        return CatalogueSource(self.catalogue, seed, self.engine)


_DEFAULTS: Final[Mapping[str, Any]] = dataclasses.asdict(WebShopEnvConfig())
_CHOICES: Final = {"observation_mode": MODES, "engine": ENGINES, "tagger": TAGGERS}


def read_config(env_config: object | None) -> WebShopEnvConfig:
    """Read settings from ``None``, a mapping, or a `WebShopEnvConfig`.

    A setting that is null has its default.

    Raises:
        DataError: A setting is unknown, of the wrong type, or out of bounds.
    """
    if isinstance(env_config, WebShopEnvConfig):
        env_config = dataclasses.asdict(env_config)
    given = {} if env_config is None else env_config
    if not isinstance(given, Mapping):
        raise DataError(
            f"webshop env_config is {type(env_config).__name__!r}; give a mapping of settings"
        )
    read = {str(name): _value(str(name), given[name]) for name in given}
    return WebShopEnvConfig(**{name: value for name, value in read.items() if value is not None})


def _value(name: str, value: Any) -> Any:
    if name not in _DEFAULTS:
        raise DataError(f"webshop env_config: no setting {name!r}. {did_you_mean(name, _DEFAULTS)}")
    if value is None:
        return None
    wanted = type(_DEFAULTS[name])
    if type(value) is not wanted:
        raise DataError(f"webshop env_config: {name} is {value!r}; it must be {_NAMES[wanted]}")
    if name == "observation_mode" and value in _NO_SERVER:
        raise DataError(
            f"webshop env_config: observation_mode {value!r} shows the pages of a web server, and "
            "there is none here; use 'text' or 'text_rich'"
        )
    if value not in _CHOICES.get(name, (value,)):
        raise DataError(
            f"webshop env_config: {name} is {value!r}. {did_you_mean(str(value), _CHOICES[name])}"
        )
    if wanted is int and value < 0:
        raise DataError(f"webshop env_config: {name} is {value}; it must be at least 0")
    if name == "catalogue" and not value:
        raise DataError("webshop env_config: catalogue is empty; use 'built-in' or name a file")
    return value


_NAMES: Final = {str: "a text", int: "a whole number", bool: "true or false"}


NAME: Final = "webshop"
SPLITS: Final = ("train", "val", "test")
_MOST: Final = {"test": (500, 0.3), "val": (1_000, 0.2)}


def webshop_tasks(
    split: str,
    count: int | None = None,
    *,
    seed: int = 0,
    goals: GoalKind = "human",
    env_config: object | None = None,
) -> list[Task]:
    """Return the tasks of a split, in an order that depends on the seed.

    Args:
        split: ``train``, ``val`` or ``test``.
        count: Maximum number of tasks; ``None`` for all.
        seed: The world's seed, for built-in products, prices, price limits and splits.
        goals: ``human`` for instructions by people; ``synthetic`` for one goal per combination of
            a product's options.
        env_config: The environment's settings; each task records their catalogue, engine and
            tagger.

    Raises:
        DataError: A setting is wrong, there is no such split or catalogue, or no goal of the kind.
    """
    if split not in SPLITS:
        raise DataError(f"webshop: no split {split!r}. {did_you_mean(split, SPLITS)}")
    if goals not in GOAL_KINDS:
        raise DataError(f"webshop: no goals {goals!r}. {did_you_mean(goals, GOAL_KINDS)}")
    config = read_config(env_config)
    catalogue = open_catalogue(config.source(seed))
    tagger = resolve_tagger(config.tagger)
    asins = split_asins(catalogue, goals)[split]
    if not asins:
        raise DataError(
            f"webshop: catalogue {config.catalogue!r} has no {goals} goals for split {split!r}; "
            f"use goals '{'synthetic' if goals == 'human' else 'human'}', or another catalogue"
        )
    found = (goal for asin in asins for goal in catalogue.goals_of(asin, goals))
    return [
        _task(goal, split, config, catalogue, tagger) for goal in islice(_distinct(found), count)
    ]


@lru_cache(maxsize=32)
def split_asins(catalogue: Catalogue, goals: GoalKind) -> dict[str, tuple[str, ...]]:
    """Return the products of each split, in order."""
    seed = catalogue.source.seed
    counts = catalogue.products_with_goals(goals)
    ordered = sorted(counts, key=lambda row: (derive_seed("webshop-split", seed, row[0]), row[0]))
    total, rest = sum(count for _, count in ordered), iter(ordered)
    splits: dict[str, tuple[str, ...]] = {}
    for split, (most, share) in _MOST.items():
        room, chosen = min(most, int(share * total)), []
        while room > 0 and (row := next(rest, None)):
            chosen.append(row[0])
            room -= row[1]
        splits[split] = tuple(chosen)
    splits["train"] = tuple(asin for asin, _ in rest)
    return splits


def _distinct(goals: Iterator[Goal]) -> Iterator[Goal]:
    """Drop goals with the same instruction and requirements as an earlier one."""
    seen: set[str] = set()
    for goal in goals:
        if goal.id not in seen:
            seen.add(goal.id)
            yield goal


def _task(
    goal: Goal, split: str, config: WebShopEnvConfig, catalogue: Catalogue, tagger: str
) -> Task:
    return Task(
        id=f"webshop-{goal.id}",
        env=NAME,
        extras={
            "goal": goal.key,
            "goal_id": goal.id,
            "world_seed": catalogue.source.seed,
            "catalogue_sha256": catalogue.digest,
            "tagger": tagger,
            "engine": config.engine,
        },
        task_type=category_of(goal.instruction_text),
        description=goal.instruction_text,
        split=split,
    )
