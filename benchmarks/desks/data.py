"""What a seed of the study is played on: shops' tickets by split, and a bank of their sheets."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from desks.grammar import grammar_wordings
from desks.shops import Shop, Ticket, shops, tickets
from skillwright.bank import Bank, BankStore
from skillwright.core import BankSkill, SkillKind
from skillwright.core.jsonio import dumps, write_text


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything.

    Attributes:
        shops: Shops that weights are trained in: an episode of demonstrations each.
        tickets: Tickets of such an episode.
        played: Tickets for reinforcement in the same shops, each an episode of its own.
        val: Tickets of val, each of another shop.
        test: Tickets of test, in half as many shops.
    """

    shops: int = 150
    tickets: int = 8
    played: int = 160
    val: int = 24
    test: int = 120


NAMED = 0.5
"""Share of demonstrated tickets that name their topic as the sheet does. Without any, the loss
stays at that of a guess for about a thousand tickets (docs/log.md)."""


def write_data(folder: Path, seed: int, sizes: Sizes) -> None:
    """Write ``bank.sqlite``, and the splits for supervised training (``sft``) and reinforcement.

    Shops and wordings of val and test are in no other split.

    Args:
        folder: Made here; what is there already is kept.
        seed: Gives shops and tickets.
        sizes: How much of everything.
    """
    if (folder / "bank.sqlite").exists():
        return
    known = shops(sizes.shops, seed)
    others = shops(sizes.val + sizes.test // 2, seed, first=sizes.shops)
    shown = [
        _item(f"shown-{shop.name}", shop, islice(_demonstrated(shop, seed), sizes.tickets))
        for shop in known
    ]
    played = _singles(known, -(-sizes.played // sizes.shops), seed + 1, "train")
    judged = {
        "val": _singles(others[: sizes.val], 1, seed, "val"),
        "test": _singles(others[sizes.val :], 2, seed, "test"),
    }
    for name, train in (("sft", shown), ("grpo", played[: sizes.played])):
        write_splits(folder / name, {"train": train, **judged})
    write_bank(folder / "bank.sqlite", [*known, *others])


def write_splits(folder: Path, splits: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Write items as ``data.kind: split_dir`` reads them."""
    for split, items in splits.items():
        (folder / split).mkdir(parents=True, exist_ok=True)
        write_text(folder / split / "items.json", dumps(list(items), indent=1))


def read_splits(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Read what `write_splits` wrote."""
    files = sorted(folder.glob("*/items.json"))
    return {file.parent.name: json.loads(file.read_text(encoding="utf-8")) for file in files}


def _demonstrated(shop: Shop, seed: int) -> Iterator[Ticket]:
    return tickets(shop, grammar_wordings("train"), seed, named=NAMED)


def write_bank(path: Path, known: Sequence[Shop]) -> None:
    """Write a bank that holds one skill per shop: its sheet."""
    draft = path.with_name(f"draft.{path.name}")
    draft.unlink(missing_ok=True)
    with BankStore.open(draft) as store:
        store.adopt(Bank(1, tuple(map(sheet_skill, known))), reason="the sheets of shops", step=0)
    draft.replace(path)


def sheet_skill(shop: Shop) -> BankSkill:
    """Return a shop's sheet as a skill, which only its own tickets are given."""
    number = int(shop.name.removeprefix("shop "))
    return BankSkill(f"s{number:03}", "Desks", shop.sheet, "", SkillKind.GENERAL, scope=shop.name)


def _singles(known: Sequence[Shop], each: int, seed: int, split: str) -> list[dict[str, Any]]:
    wordings = grammar_wordings(split)
    drawn = [list(islice(tickets(shop, wordings, seed), each)) for shop in known]
    return [
        _item(f"{split}-{shop.name}-{number}", shop, [found[number]])
        for number in range(each)
        for shop, found in zip(known, drawn, strict=True)
    ]


def _item(name: str, shop: Shop, asked: Iterable[Ticket]) -> dict[str, Any]:
    found = list(asked)
    cluster = {"cluster": found[0].wording} if len(found) == 1 else {}
    return {
        "id": name.replace(" ", ""),
        "shop": shop.name,
        "tickets": [[one.text, one.desk] for one in found],
        "task_type": found[0].topic if len(found) == 1 else "several",
        "description": found[0].text,
        **cluster,
    }


NEW_SHOP = 700
"""The number of the one shop of its own: no other data of a seed go so far."""
TICKETS: Mapping[str, int] = {"train": 120, "val": 60, "test": 150}
SHORT_TICKETS: Mapping[str, int] = {"train": 4, "val": 2, "test": 2}


def new_shop(seed: int) -> Shop:
    """Return the shop that no weights were trained in: a sheet of its own is to be learned."""
    (shop,) = shops(1, seed, first=NEW_SHOP)
    return shop


def write_new_shop(folder: Path, seed: int, *, short: bool = False) -> None:
    """Write the new shop's tickets, and ``bank.sqlite`` with its sheet.

    Args:
        folder: Made here; what is there already is kept.
        seed: Gives the shop and its tickets.
        short: Few of them. Each text comes once, and no wording is in two splits.
    """
    if (folder / "bank.sqlite").exists():
        return
    shop, splits = new_shop(seed), {}
    for split, count in (SHORT_TICKETS if short else TICKETS).items():
        # Each text once: a ticket that comes twice is no second sample.
        drawn: dict[str, Ticket] = {}
        for one in tickets(shop, grammar_wordings(split), seed):
            drawn.setdefault(one.text, one)
            if len(drawn) == count:
                break
        items = enumerate(drawn.values())
        splits[split] = [_item(f"{split}-{at}", shop, [one]) for at, one in items]
    write_splits(folder, splits)
    write_bank(folder / "bank.sqlite", [shop])
