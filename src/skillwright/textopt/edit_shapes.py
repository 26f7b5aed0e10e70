"""Read edits that name their fields or operation differently, if the meaning is unambiguous."""

from collections.abc import Mapping
from typing import Any

from skillwright.core.edits import EDIT_OPS
from skillwright.models.shapes import as_json, same_operation, snake_case

_OP_KEYS = ("operation", "action", "edit_op", "edit_type", "command", "type", "kind")
_TEXT_KEYS: Mapping[str, tuple[str, ...]] = {
    "content": ("text", "new_text", "new_content", "new", "value", "replacement", "new_string",
        "new_str", "new_value", "addition", "rule", "lines", "body", "replace", "replace_with",
        "with"),
    "target": ("old", "old_text", "old_content", "old_string", "old_str", "old_value", "find",
        "search", "match", "original", "anchor", "location", "after_text"),
}  # fmt: skip
"""Other names of an edit's fields."""
_NO_OLD_TEXT = ("anchor", "location", "after_text")
_EARLIER = ("before", "above", "start", "top", "beginning")
_OP_ENDINGS = (
    "_text", "_content", "_rule", "_new_rule", "_rules", "_line", "_lines", "_bullet", "_item",
    "_block", "_section", "_paragraph", "_edit", "_to_end", "_at_end", "_to_skill",
)  # fmt: skip


def with_known_names(item: Any, repairs: list[str]) -> Any:
    """Rename an edit's fields and operation to known names; append changes to ``repairs``."""
    if isinstance(item, str):
        said, item = item, as_json(item, dict) or item
        repairs += ["it was a JSON text"] if item is not said else []
    if not isinstance(item, Mapping):
        return item
    if len(item) == 1 and isinstance(item.get("edit"), Mapping):
        item = without_nulls(item["edit"])
        repairs.append("it was read from below edit")
    plain = {snake_case(str(name)): value for name, value in item.items()}
    item = plain if len(plain) == len(item) else dict(item)
    item = _with_operation(item, repairs)
    _set_operation(item, _rename_fields(item, repairs), repairs)
    content = item.get("content")
    if isinstance(content, list) and all(isinstance(line, str) for line in content):
        item["content"] = "\n".join(content)
        repairs.append("its list of lines was read as a text")
    if item.get("op") == "delete" and not item.get("target") and item.get("content"):
        item["target"] = item.pop("content")
        repairs.append("content was read as target")
    return item


def _rename_fields(item: dict[str, Any], repairs: list[str]) -> str | None:
    """Rename an edit's fields as they are known; return the name that its target had."""
    pairs = [pair for pair in (("before", "after"), ("from", "to")) if item.keys() >= set(pair)]
    renamed = dict(zip(("target", "content"), pairs[0], strict=True)) if pairs else {}
    if "after" in item and "before" not in item:
        renamed["target"] = "after"
    for name, others in _TEXT_KEYS.items():
        there = [other for other in others if other in item]
        if len(there) == 1:
            renamed.setdefault(name, there[0])
    for name, other in renamed.items():
        if name not in item:
            item[name] = item.pop(other)
            repairs.append(f"{other} was read as {name}")
    return renamed.get("target")


def _with_operation(item: dict[str, Any], repairs: list[str]) -> dict[str, Any]:
    """Read an operation that is a key: ``{"append": "..."}``, ``{"replace": old, "with": new}``."""
    ops = [name for name in EDIT_OPS if name in item]
    if "op" in item or len(ops) != 1:
        return item
    said = item.pop(ops[0])
    has_new = not item.keys().isdisjoint(("content", *_TEXT_KEYS["content"]))
    text = {"target" if has_new or ops[0] == "delete" else "content": said}
    repairs.append(f"its operation was read as {ops[0]!r}")
    return {**(said if isinstance(said, Mapping) else text), **item, "op": ops[0]}


def _set_operation(item: dict[str, Any], target_was: str | None, repairs: list[str]) -> None:
    """Name an edit's operation as it is known, if the edit says one or the old text to replace."""
    if "op" not in item:
        said = [name for name in _OP_KEYS if name in item]
        known = {_operation(item[name], item) for name in said} - {None}
        if len(known) == 1:
            item["op"] = known.pop()
            repairs.append(f"its operation was read as {item['op']!r}")
        elif known or (said and said[0] not in ("type", "kind")):
            item["op"] = " or ".join(str(item[name]) for name in said)
        elif target_was == "after":
            item["op"] = "insert_after"
        elif target_was is not None and target_was not in _NO_OLD_TEXT:
            item["op"] = "replace"
        return
    op = _operation(item["op"], item)
    if op is not None and op != item["op"]:
        repairs.append(f"op {str(item['op'])[:40]!r} was read as {op!r}")
        item["op"] = op


def _operation(word: Any, item: Mapping[str, Any]) -> str | None:
    """Return the operation that a word means for an edit, or ``None``."""
    if not isinstance(word, str):
        return None
    word = snake_case(word)
    if word in ("insert", "add", "insert_after", "add_after", "append_after"):
        if str(item.get("position")).lower() in _EARLIER:
            return None  # there is no operation that inserts before a text
        return "insert_after" if item.get("target") or item.get("after") else "append"
    for part in (word, *(word.removesuffix(end) for end in _OP_ENDINGS if word.endswith(end))):
        meant = part if part in EDIT_OPS else same_operation(part, ("append", "replace", "delete"))
        if meant is not None:
            return meant
    return None


def is_item(value: Any) -> bool:
    """Return whether a value looks like an edit, a suggestion or a rewritten skill."""
    if not isinstance(value, Mapping) or "role" in value:
        return False
    item = with_known_names(value, [])
    if "instruction" in item or "new_skill" in item:
        return True
    is_known = _operation(item.get("op"), item) is not None
    return is_known and bool({"content", "target"} & item.keys())


def without_nulls(item: Any) -> Any:
    """Drop null fields, which models write for absent values."""
    if not isinstance(item, Mapping):
        return item
    return {name: value for name, value in item.items() if value is not None}
