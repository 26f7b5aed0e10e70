"""The scripted retail agent: its rules, its tool calls and the order of its service."""

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

from skillwright.core import Completion, Message, Purpose, Sampling, ToolCall
from skillwright.models.scripted.teacher import ScriptedModel, skill_in

# Rules are recognized by words, sentence by sentence. A sentence that begins with a negation asks
# for nothing, unless it is about what must not be forgotten.


class RetailRule(StrEnum):
    """A rule that a skill may give the agent."""

    LOOK_UP_ORDERS = "look_up_orders"
    """Find an order whose number the customer does not know in the profile."""
    ASK_REASON = "ask_reason"
    """Ask for the reason of a cancellation."""
    ALL_AT_ONCE = "all_at_once"
    """Change all items of an order in one call."""
    NO_SUBSTITUTE = "no_substitute"
    """Offer only what is available, and let the customer choose another where it is not."""
    ASK_METHOD = "ask_method"
    """Use the payment method that the customer names."""
    TELL_FIGURES = "tell_figures"
    """Answer questions with the exact figures."""
    FINISH_ALL = "finish_all"
    """Ask for further wishes before closing."""
    TRANSFER_AT_ONCE = "transfer_at_once"
    """Harmful: hand the customer over as soon as something is refused."""


BAD_RULES: Final = frozenset({RetailRule.TRANSFER_AT_ONCE})

_TELLS: Final[Mapping[RetailRule, str]] = {
    RetailRule.LOOK_UP_ORDERS: (
        r"\border\b.*\b(not|n't|unknown|forgot\w*|missing|without)\b.*\b(profile|look|search)"
        r"|\b(not|n't|forgot\w*|without)\b.*\border\b.*\b(profile|look|search)"
        r"|\b(profile|look|search)\b.*\border\b.*\b(not|n't|forgot\w*|missing|unknown)\b"
    ),
    RetailRule.ASK_REASON: r"\breason\b|\bwhy\b.*\bcancel",
    RetailRule.ALL_AT_ONCE: (
        r"\b(all|every|both|several|each)\b.*\bitems?\b.*\b(once|one|single|same|together)\b"
        r"|\b(once|one|single|same|together)\b.*\b(all|every|both|several)\b.*\bitems?\b"
    ),
    RetailRule.NO_SUBSTITUTE: r"\b(un)?available\b|\bsold out\b|\bin stock\b|\bsubstitut",
    RetailRule.ASK_METHOD: (
        r"\b(payment|method|refund|pays?|card)\b.*\b(ask|names?|named|chooses?|chosen|wants?)\b"
        r"|\b(ask|names?|named|chooses?|chosen)\b.*\b(payment|method|refund|pays?|card)\b"
    ),
    RetailRule.TELL_FIGURES: (
        r"\b(tell|state|give|quote|answer|say)\b.*\b(amounts?|figures?|totals?|prices?|exact)\b"
        r"|\b(amounts?|figures?|totals?|prices?|exact)\b.*\b(tell|state|give|quote|answer|say)\b"
    ),
    RetailRule.FINISH_ALL: (
        r"\banything else\b|\bfurther (wish|request)"
        r"|\b(every|all|each)\b.*\b(requests?|wish(es)?)\b"
    ),
    RetailRule.TRANSFER_AT_ONCE: (
        r"\b(transfer|hand)\b.*\b(at once|immediately|right away|trouble|refused|fails?|doubt)\b"
    ),
}
_PATTERNS: Final = {rule: re.compile(text) for rule, text in _TELLS.items()}
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_NEGATED: Final = re.compile(r"[\s\-*\d.#]*(do not|don't|never|avoid)\b")


@lru_cache(maxsize=512)
def read_rules(text: str) -> frozenset[RetailRule]:
    """Return the rules in a text; of two sentences about one rule the later counts."""
    given: dict[RetailRule, bool] = {}
    for sentence in _SENTENCE.split(text.lower()):
        for rule, pattern in _PATTERNS.items():
            if pattern.search(sentence):
                # "Never close before every request is settled" asks; only harm can be forbidden.
                given[rule] = rule not in BAD_RULES or not _NEGATED.match(sentence)
    return frozenset(rule for rule, wanted in given.items() if wanted)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Say:
    """A message to the customer."""

    text: str

    def written(self) -> str:
        """Return the turn as the environment takes it."""
        return self.text


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    name: str
    arguments: dict[str, Any]

    def written(self) -> str:
        """Return the turn as the environment takes it."""
        call = {"name": self.name, "arguments": self.arguments}
        return f"<tool_call>{json.dumps(call)}</tool_call>"


Service = Generator[Say | Call, str, T]
"""Yields moves, receives the result of each, and returns its finding."""


def call(name: str, **arguments: Any) -> Service[str]:
    """Call a tool and return its result."""
    result = yield Call(name, arguments)
    return result.replace("<tool_response>", "").replace("</tool_response>", "").strip()


def look(name: str, **arguments: Any) -> Service[dict[str, Any] | None]:
    """Call a tool that shows a record; return ``None`` if there is none."""
    result = yield from call(name, **arguments)
    try:
        record = json.loads(result)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def heard(messages: Sequence[Message]) -> list[str]:
    """Return what the agent read: the opening, then the result of each of its turns."""
    return [message["content"] for message in messages if message["role"] != "system"][::2]


def next_move(service: Service[None], replies: Sequence[str]) -> Say | Call:
    """Replay a service on the results of its moves so far, and return the next move."""
    try:
        move = next(service)
        for reply in replies:
            move = service.send(reply)
    except StopIteration:
        return Say("Goodbye.")
    return move


Record = dict[str, Any]

MORE: Final = "Is there anything else that I can do for you?"
SORRY: Final = "I am sorry, that is not possible."
_NUMBER: Final = r"(#W\d+)"
_WISH: Final = re.compile(
    r"the ([A-Z][A-Za-z ]+?) (?:for one )?(?:with ([a-z]+) (.+?)|for the (cheapest) one)"
    r"(?= and the [A-Z]|[.,]| that is|$)"
)
_ADDRESS: Final = re.compile(
    r"\b(\d+ [A-Z][^,]+), ([^,]+), ([^,]+), ([A-Z]{2}) (\d{5}), (\w+)",
)


def serve(opening: str, rules: frozenset[RetailRule]) -> Service[None]:
    """Serve a customer from the opening message on."""
    user_id = yield from _identify()
    agent = Agent(user_id, rules)
    request = opening
    while True:
        outcome = yield from agent.handle(request)
        if "sorry" in outcome and RetailRule.TRANSFER_AT_ONCE in rules:
            yield Call("transfer_to_human_agents", {"summary": outcome})
        close = MORE if RetailRule.FINISH_ALL in rules else "Goodbye."
        request = yield Say(f"{outcome} {close}")


def _identify() -> Service[str]:
    reply = yield Say("Gladly. What is your email, or else your name and your zip code?")
    email = re.search(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", reply)
    if email:
        return (yield from call("find_user_id_by_email", email=email[0]))
    name = re.search(r"I am (\w+) (\w+)", reply)
    zip_code = re.search(r"\b\d{5}\b", reply)
    if not name or not zip_code:
        return ""
    return (
        yield from call(
            "find_user_id_by_name_zip", first_name=name[1], last_name=name[2], zip=zip_code[0]
        )
    )


class Agent:
    """Handles one customer's requests in order, by the rules of the skill."""

    def __init__(self, user_id: str, rules: frozenset[RetailRule]) -> None:
        self._user_id = user_id
        self._rules = rules
        self._order: Record | None = None
        self._address: Record = {}

    def handle(self, request: str) -> Service[str]:
        """Handle a message; return the answer to the customer."""
        for pattern, serve_it in _REQUESTS.items():
            found = re.search(pattern, request)
            if found:
                return (yield from serve_it(self, found))
        return SORRY

    def cancel(self, found: re.Match[str]) -> Service[str]:
        """Cancel an order, named by its number or its items."""
        order = yield from self._find(found[1], found[2])
        if order is None:
            return SORRY
        if order["status"] != "pending":
            return f"I am sorry, the order is {order['status']} and cannot be cancelled any more."
        reason = "no longer needed"
        if RetailRule.ASK_REASON in self._rules:
            reply = yield Say("What is the reason: not needed any more, or a mistake?")
            reason = "ordered by mistake" if "mistake" in reply else reason
        written = self._write(
            "cancel the order", "cancel_pending_order", order_id=order["order_id"], reason=reason
        )
        return (yield from written)

    def pay(self, found: re.Match[str]) -> Service[str]:
        """Pay an order by another method."""
        yield from self._find(found[1])
        method = yield from self._method(found[2])
        written = self._write(
            "change how it is paid",
            "modify_pending_order_payment",
            order_id=found[1],
            payment_method_id=method,
        )
        return (yield from written)

    def send(self, found: re.Match[str]) -> Service[str]:
        """Send an order to an address in the message, or to the previous one."""
        address = _read_address(found[0]) or self._address
        written = self._write(
            "change where it is sent", "modify_pending_order_address", order_id=found[1], **address
        )
        return (yield from written)

    def move(self, found: re.Match[str]) -> Service[str]:
        """Change the address in the profile."""
        self._address = _read_address(found[0])
        written = self._write(
            "change your address", "modify_user_address", user_id=self._user_id, **self._address
        )
        return (yield from written)

    def swap(self, found: re.Match[str]) -> Service[str]:
        """Change or exchange items of a named order or the last one."""
        number, wishes = (found[1], found[2]) if found.re.groups > 1 else (None, found[1])
        order = (yield from self._find(number)) if number else self._order
        asked = _WISH.findall(wishes)
        if order is None or not asked:
            return SORRY
        pairs = []
        for name, option, value, cheapest in asked:
            item = next((one for one in order["items"] if one["name"] == name), None)
            variant = (yield from self._variant(item, option, value, cheapest)) if item else None
            if item is None or variant is None:
                return f"I am sorry, such a {name} is not available."
            pairs.append((item["item_id"], variant["item_id"]))
        if RetailRule.ALL_AT_ONCE not in self._rules:
            del pairs[1:]  # one at a time; the second time the order refuses
        is_pending = order["status"] == "pending"
        method = yield from self._method(
            "", "Which payment method settles the difference in price?"
        )
        written = self._write(
            "swap " + ", ".join(name for name, *_ in asked),
            "modify_pending_order_items" if is_pending else "exchange_delivered_order_items",
            order_id=order["order_id"],
            item_ids=[old for old, _ in pairs],
            new_item_ids=[new for _, new in pairs],
            payment_method_id=method,
        )
        return (yield from written)

    def other_product(self, found: re.Match[str]) -> Service[str]:
        """Refuse to change an item into another product."""
        yield from self._find(found[1])
        return "I am sorry, an item cannot be changed to another product."

    def _variant(
        self, item: Record, option: str, value: str, cheapest: str
    ) -> Service[Record | None]:
        product = yield from look("get_product_details", product_id=item["product_id"])
        others: list[Record] = [
            one
            for one in (product or {"variants": {}})["variants"].values()
            if one["item_id"] != item["item_id"]
        ]
        there = [one for one in others if one["available"]]
        is_careful = RetailRule.NO_SUBSTITUTE in self._rules
        if cheapest:
            choice = there if is_careful else others
            return min(choice, key=lambda one: float(one["price"]), default=None)
        wanted = {**item["options"], option: value}
        fitting = [one for one in there if one["options"] == wanted]
        if not fitting and not is_careful:
            return there[-1] if there else None
        return fitting[0] if fitting else None

    def returns(self, found: re.Match[str]) -> Service[str]:
        """Return items of a named order, or all of the last one."""
        number, names = found["number"], found["names"] or ""
        order = (yield from self._find(number)) if number else self._order
        if order is None:
            return SORRY
        wanted = re.split(r", | and ", names.removeprefix("the "))
        items = [one for one in order["items"] if not names or one["name"] in wanted]
        method = yield from self._method("", "Which payment method should get the refund?")
        written = self._write(
            "return these items",
            "return_delivered_order_items",
            order_id=order["order_id"],
            item_ids=[one["item_id"] for one in items],
            payment_method_id=method,
        )
        return (yield from written)

    def tracking(self, found: re.Match[str]) -> Service[str]:
        """State the tracking number of a named order, or of the last one."""
        order = (yield from self._find(found[1])) if found[1] else self._order
        if order is None or not order["fulfillments"]:
            return SORRY
        return self._figure("The tracking number is", order["fulfillments"][0]["tracking_id"][0])

    def tell_refund(self, found: re.Match[str]) -> Service[str]:
        """State the refund of a return."""
        del found
        if self._order is None:
            return SORRY
        total = yield from self._sum([item["price"] for item in self._order["items"]])
        return self._figure("You will get back", total)

    def tell_pending(self, found: re.Match[str]) -> Service[str]:
        """State the total price of all pending orders."""
        del found
        if RetailRule.LOOK_UP_ORDERS not in self._rules:
            return "I am sorry, without the order numbers I cannot tell."
        orders = yield from self._all_orders()
        paid = [one["payment_history"][0]["amount"] for one in orders if one["status"] == "pending"]
        return self._figure("Together you paid", (yield from self._sum(paid)))

    def tell_price(self, found: re.Match[str]) -> Service[str]:
        """State the price of the cheapest variant of a product."""
        products = (yield from look("list_all_product_types")) or {}
        product = yield from look("get_product_details", product_id=products.get(found[1], ""))
        if product is None:
            return SORRY
        is_careful = RetailRule.NO_SUBSTITUTE in self._rules
        variants = product["variants"].values()
        prices = [one["price"] for one in variants if one["available"] or not is_careful]
        return self._figure("The cheapest one costs", f"{min(prices):.2f}") if prices else SORRY

    def hand_over(self, found: re.Match[str]) -> Service[str]:
        """Transfer the customer to a person."""
        yield Call("transfer_to_human_agents", {"summary": found[0]})
        return "A colleague will take over."

    def leave(self, found: re.Match[str]) -> Service[str]:
        """Do nothing."""
        del found
        yield from ()
        return "Very well, everything stays as it is."

    def _find(self, number: str | None, content: str | None = None) -> Service[Record | None]:
        if number:
            self._order = yield from look("get_order_details", order_id=number)
            return self._order
        if RetailRule.LOOK_UP_ORDERS not in self._rules:
            reply = yield Say("Please tell me the order number.")
            named = re.search(_NUMBER, reply)
            return (yield from self._find(named[1])) if named else None
        orders = yield from self._all_orders()
        fitting = [one for one in orders if content in {item["name"] for item in one["items"]}]
        self._order = fitting[0] if fitting else None
        return self._order

    def _all_orders(self) -> Service[list[Record]]:
        profile = yield from look("get_user_details", user_id=self._user_id)
        orders = []
        for number in (profile or {"orders": ()})["orders"]:
            order = yield from look("get_order_details", order_id=number)
            if order:
                orders.append(order)
        return orders

    def _method(self, reply: str, question: str = "") -> Service[str]:
        """Return the id of the customer's payment method, or of any if none is named."""
        profile = yield from look("get_user_details", user_id=self._user_id)
        methods = list((profile or {"payment_methods": {}})["payment_methods"].values())
        if RetailRule.ASK_METHOD in self._rules:
            if question:
                reply = yield Say(question)
            methods = [one for one in methods if _is_named(one, reply)] or methods
        return str(methods[0]["id"]) if methods else ""

    def _write(self, what: str, tool: str, **arguments: Any) -> Service[str]:
        reply = yield Say(f"I will {what}. Do you confirm that (yes/no)?")
        if "yes" not in reply.lower():
            return "Very well, I leave it."
        result = yield from call(tool, **arguments)
        if result.startswith("Error"):
            return f"{SORRY} ({result})"
        return "That is done."

    def _sum(self, amounts: list[float]) -> Service[str]:
        expression = " + ".join(f"{amount:.2f}" for amount in amounts) or "0"
        return (yield from call("calculate", expression=expression))

    def _figure(self, what: str, figure: str) -> str:
        if RetailRule.TELL_FIGURES in self._rules:
            return f"{what} {figure}."
        return "You will find that in the email that we sent you."


def _is_named(method: Record, reply: str) -> bool:
    if method["source"] == "credit_card":
        return str(method["last_four"]) in reply
    return str(method["source"]).replace("_", " ") in reply.lower()


def _read_address(text: str) -> Record:
    found = _ADDRESS.search(text)
    names = ("address1", "address2", "city", "state", "zip", "country")
    return dict(zip(names, found.groups(), strict=True)) if found else {}


_REQUESTS: Final[Mapping[str, Callable[[Agent, re.Match[str]], Service[str]]]] = {
    rf"cancel (?:my order {_NUMBER}|the order with the ([\w ]+))": Agent.cancel,
    rf"pay for my order {_NUMBER} with (.+) instead": Agent.pay,
    rf"my order {_NUMBER} to be sent to .+": Agent.send,
    r"address in my profile to be changed to .+": Agent.move,
    rf"In my order {_NUMBER} I want to change the .+ to a .+": Agent.other_product,
    rf"In my order {_NUMBER} I want to change (.+)": Agent.swap,
    rf"my order {_NUMBER} and want to exchange (.+)": Agent.swap,
    r"I want (the [A-Z][\w ]+ with .+), all else": Agent.swap,
    rf"return everything in (?:my order (?P<number>{_NUMBER[1:-1]})|it)(?P<names>)": Agent.returns,
    rf"return (?P<names>.+) of my order (?P<number>{_NUMBER[1:-1]})": Agent.returns,
    rf"know (?:the tracking number of my order {_NUMBER}|its tracking number)": Agent.tracking,
    r"know how much I will get back": Agent.tell_refund,
    r"know how much I paid for all my pending orders": Agent.tell_pending,
    r"know what the cheapest ([\w ]+) costs": Agent.tell_price,
    r"human agent": Agent.hand_over,
    r"keep it all": Agent.leave,
}
"""Pattern of a request -> the method that handles it; the first match counts."""


class ScriptedRetail(ScriptedModel):
    """Serves the built-in store's customers by the rules that it recognizes in its skill.

    It understands only users of the strategy ``rule_based`` on the built-in tasks, and ignores the
    seed. Without a skill it does little of what good service needs.
    """

    identity = "scripted:retail"

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer with one tool call, natively if tools are offered, or with a message."""
        answer = await super().complete(messages, sampling=sampling, purpose=purpose)
        move = _move(messages) if tools else Say(answer.text)
        if isinstance(move, Say):
            return answer
        turn = len(heard(messages)) - 1
        call = ToolCall(f"call_{turn}", move.name, json.dumps(move.arguments))
        return replace(answer, text="", finish_reason="tool_calls", tool_calls=(call,))

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return a tool call in ``<tool_call>`` tags, or a message."""
        del seed
        return _move(messages).written()


def _move(messages: Sequence[Message]) -> Say | Call:
    opening, *replies = heard(messages) or [""]
    try:
        move = next_move(serve(opening, read_rules(skill_in(messages))), replies)
        move.written()
    except (KeyError, TypeError, ValueError, AttributeError):
        # With other data than the built-in store's it does not know what to do, and says so.
        return Say("I am sorry, I cannot help you with that. Goodbye.")
    return move
