"""The scripted retail agent where nothing of what is asked for can be had."""

import json

from skillwright.worlds.tau_bench.scripted import RetailRule
from skillwright.worlds.tau_bench.scripted.agent import SORRY, Agent

CAREFUL = frozenset({RetailRule.NO_SUBSTITUTE})
LAMP = {"item_id": "11", "name": "Lamp", "product_id": "lamp", "options": {}, "price": 1.0}
SOLD_OUT = {"variants": {"12": {"item_id": "12", "available": False, "price": 2.0, "options": {}}}}
SHOWN = {
    "list_all_product_types": {"Lamp": "lamp"},
    "get_product_details": SOLD_OUT,
    "get_order_details": {"order_id": "#W1", "status": "pending", "items": [LAMP]},
}


def told(request):
    """Serve a request in a shop where every tool shows what it has; return what is told."""
    service = Agent("ann", CAREFUL).handle(request)
    try:
        move = next(service)
        while True:
            move = service.send(json.dumps(SHOWN[move.name]))
    except StopIteration as end:
        return end.value


def test_the_price_of_what_is_sold_out_is_not_told():
    assert told("I want to know what the cheapest Lamp costs") == SORRY


def test_the_cheapest_of_what_is_sold_out_is_not_offered():
    wish = "In my order #W1 I want to change the Lamp for the cheapest one."
    assert told(wish) == "I am sorry, such a Lamp is not available."
