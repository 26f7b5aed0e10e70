"""One item for another variant of the same product: before an order is sent, or after it came."""

from typing import Final

from skillwright.envs.tau_bench.built_in.case import (
    Case,
    Impossible,
    Record,
    Request,
    act,
    listed,
    look,
    named,
)

_TOOLS: Final = {
    "pending": "modify_pending_order_items",
    "delivered": "exchange_delivered_order_items",
}
_WANTED: Final = {
    "pending": "In your order {order} you want to change {wishes}.",
    "delivered": "You have received your order {order} and want to exchange {wishes}.",
}
_SETTLED: Final = "You want to settle any difference in price with {method}."
_UNCHANGED: Final = "All else should stay as it is."


def swap_of(case: Case, order: Record, *, count: int, sold_out_first: bool = False) -> Request:
    """Ask for items of an order in another color, size or the like."""
    wishes, fallbacks, pairs = [], [], []
    for item in order["items"][:count]:
        near = case.neighbours(item)
        case.rng.shuffle(near)
        there = [(option, one) for option, one in near if one["available"]]
        gone = [(option, one) for option, one in near if not one["available"]]
        if not there or (sold_out_first and not gone):
            raise Impossible
        if sold_out_first:
            wishes.append(_wish(item, *gone[0]))
            option, variant = there[0]
            fallbacks.append(
                f"If that cannot be had, you want the {item['name']} with "
                f"{option} {variant['options'][option]}, all else as you have it."
            )
        else:
            wishes.append(_wish(item, *there[0]))
        pairs.append((item, there[0][1]))
    return _request(case, order, wishes, pairs, (_UNCHANGED, *fallbacks))


def exchange_cheapest(case: Case) -> Request:
    """Exchange an item for the cheapest variant that there is; a cheaper one is sold out."""
    order = case.order("delivered")
    item = order["items"][0]
    variants = sorted(case.variants(item), key=lambda one: one["price"])
    there = [one for one in variants if one["available"]]
    if not there or variants[0]["available"] or there[0]["price"] >= item["price"]:
        raise Impossible
    cheapest = there[0]
    wish = f"the {item['name']} for the cheapest one that is available"
    return _request(case, order, [wish], [(item, cheapest)], ("Its options do not matter to you.",))


def exchange_one(case: Case) -> Request:
    """Exchange an item."""
    return swap_of(case, case.order("delivered"), count=1)


def exchange_two(case: Case) -> Request:
    """Exchange two items of an order, which must happen at once."""
    return swap_of(case, case.order("delivered", least=2), count=2)


def _wish(item: Record, option: str, variant: Record) -> str:
    return f"the {item['name']} for one with {option} {variant['options'][option]}"


def _request(
    case: Case,
    order: Record,
    wishes: list[str],
    pairs: list[tuple[Record, Record]],
    more: tuple[str, ...],
) -> Request:
    difference = round(sum(new["price"] - old["price"] for old, new in pairs), 2)
    methods = case.methods(worth=difference)
    if not methods:
        raise Impossible
    method = case.rng.choice(methods)
    status, order_id = order["status"], order["order_id"]
    said = _WANTED[status].format(order=order_id, wishes=listed(wishes))
    return Request(
        (said, *more, _SETTLED.format(method=named(method))),
        (
            look(order),
            *(act("get_product_details", product_id=old["product_id"]) for old, _ in pairs),
            act(
                _TOOLS[status],
                order_id=order_id,
                item_ids=[old["item_id"] for old, _ in pairs],
                new_item_ids=[new["item_id"] for _, new in pairs],
                payment_method_id=method["id"],
            ),
        ),
    )
