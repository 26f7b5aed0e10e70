"""Read edits that name their fields or operation differently, if the meaning is unambiguous."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from skillwright.core.edits import EDIT_OPS
from skillwright.models.leftovers import REMARK, quoted
from skillwright.models.shapes import as_json, same_operation, says_nothing, snake_case

_OP_KEYS = ("operation", "action", "edit_op", "edit_type", "op_type", "command",
    "method", "mode", "type", "kind", "name")  # fmt: skip
_NO_OP_EITHER = ("method", "mode", "type", "kind", "name")  # these may say something else
_FIELDS: Mapping[str, str] = {
    "content": "content text new value replacement addition insertion rule line lines body replace"
    " replace_with with revised updated modified proposed improved to contenido contenu inhalt"
    " 内容 新内容 文本 替换为 新しい内容",
    "target": "target old find search match original current existing previous from anchor location"
    " after objetivo cible ziel 目标 原文 原内容 锚点 対象 元の内容",
}
"""Names of an edit's fields, without the endings below; some models translate them."""
_FIELD_ENDING = re.compile(
    r"(?<=\w)_(?:text|content|string|str|value|rule|lines?|bullet|passage|section|version)$"
)
_TRANSLATED: Mapping[str, str] = {
    word: meant
    for meant, words in {
        "op": "操作 操作类型 动作 種類 operación opération",
        "append": "追加 添加 新增 añadir agregar ajouter anhängen hinzufügen",
        "insert": "插入 挿入 insertar insérer einfügen",
        "replace": "替换 修改 置換 変更 reemplazar remplacer ersetzen",
        "delete": "删除 移除 削除 eliminar supprimer löschen entfernen",
    }.items()
    for word in words.split()
}
_NO_OLD_TEXT = ("anchor", "location", "after_text")
_EARLIER = re.compile(r"(?:at |to )?(?:the )?(?:very )?(?:before|above|start|top|beginning)\b")
_OP_ENDINGS = (
    "_text", "_content", "_rule", "_new_rule", "_rules", "_line", "_lines", "_bullet", "_item",
    "_block", "_section", "_paragraph", "_edit", "_to_end", "_at_end", "_to_skill",
)  # fmt: skip


_INSERTIONS = (
    "insert", "inserts", "insertion", "insertions", "insert_after", "append_after",
    "add", "adds", "addition", "additions", "add_after",
)  # fmt: skip
"""Words for an edit that goes behind its target, or to the end without one."""


def with_known_names(item: Any, repairs: list[str]) -> Any:
    """Rename an edit's fields and operation to known names; append changes to ``repairs``."""
    if isinstance(item, str):
        said, item = item, as_json(item, dict) or item
        repairs += ["it was a JSON text"] if item is not said else []
    if not isinstance(item, Mapping):
        return item
    item = _plain_names(item)
    item = _with_operation(_without_wrapper(item, repairs), repairs)
    _set_operation(item, _rename_fields(item, repairs), repairs)
    for name in ("content", "target"):
        text = _as_text(item.get(name))
        if text is not None:
            repairs.append(f"its {name} was read from a {type(item[name]).__name__}")
            item[name] = text
    if item.get("op") == "delete" and not item.get("target") and item.get("content"):
        item["target"] = item.pop("content")
        repairs.append("content was read as target")
    return item


def _plain_names(item: Mapping[Any, Any]) -> dict[str, Any]:
    names = [snake_case(str(name)) for name in item]
    plain = {
        _TRANSLATED.get(name, name): value
        for name, value in zip(names, item.values(), strict=True)
        if value is not None
    }
    return plain if len(plain) == sum(one is not None for one in item.values()) else dict(item)


def _without_wrapper(item: dict[str, Any], repairs: list[str]) -> dict[str, Any]:
    """Read an edit that lies below a key, or whose fields do: ``{"op": .., "params": {..}}``."""
    if any(_field(name) for name in item) or any(name in item for name in EDIT_OPS):
        return item
    inner = {
        name: as_json(value, dict) if isinstance(value, str) else value
        for name, value in item.items()
        if name != "op"
    }
    found = [name for name, value in inner.items() if isinstance(value, Mapping)]
    if len(found) != 1:
        return item
    repairs.append(f"it was read from below {found[0]}")
    around = {name: value for name, value in item.items() if name != found[0]}
    return {**around, **_plain_names(inner[found[0]])}


def _field(name: str) -> str | None:
    """Return the field that a name means: ``new_text`` is the content, ``old_text`` the target."""
    bases = {name, _FIELD_ENDING.sub("", name)}
    return next((field for field, words in _FIELDS.items() if bases & {*words.split()}), None)


def _as_text(value: Any) -> str | None:
    """Return the text of a list of lines, or of an object with one text; of others ``None``."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, text),) = value.items()
        return text if isinstance(text, str) and _field(snake_case(str(name))) else None
    is_lines = isinstance(value, list) and all(isinstance(line, str) for line in value)
    return "\n".join(value) if is_lines else None


def _rename_fields(item: dict[str, Any], repairs: list[str]) -> str | None:
    """Rename an edit's fields as they are known; return the name that its target had."""
    pairs = [pair for pair in (("before", "after"), ("from", "to")) if item.keys() >= set(pair)]
    renamed = dict(zip(("target", "content"), pairs[0], strict=True)) if pairs else {}
    if "after" in item and "before" not in item:
        renamed["target"] = "after"
    for field in _FIELDS:
        there = [name for name in item if _field(name) == field]
        if len(there) == 1:
            renamed.setdefault(field, there[0])
    for field, name in renamed.items():
        if field not in item:
            item[field] = item.pop(name)
            repairs.append(f"{name} was read as {field}")
    return renamed.get("target")


def _with_operation(item: dict[str, Any], repairs: list[str]) -> dict[str, Any]:
    """Read an operation that is a key: ``{"append": "..."}``, ``{"replace": old, "with": new}``."""
    ops = [name for name in EDIT_OPS if name in item]
    if "op" in item or len(ops) != 1:
        return item
    said = item.pop(ops[0])
    has_new = any(_field(name) == "content" for name in item)
    text = {"target" if has_new or ops[0] == "delete" else "content": said}
    repairs.append(f"its operation was read as {ops[0]!r}")
    return {**(said if isinstance(said, Mapping) else text), **item, "op": ops[0]}


def _set_operation(item: dict[str, Any], target_was: str | None, repairs: list[str]) -> None:
    """Name an edit's operation as it is known, if the edit says one or the old text to replace."""
    if "op" not in item:
        names = [name for name in _OP_KEYS if name in item]
        known = {_operation(item[name], item) for name in names} - {None}
        if len(known) == 1:
            item["op"] = known.pop()
            repairs.append(f"its operation was read as {item['op']!r}")
        elif known or (names and names[0] not in _NO_OP_EITHER):
            item["op"] = " or ".join(str(item[name]) for name in names)
        elif target_was == "after":
            item["op"] = "insert_after"
        elif target_was is not None and target_was not in _NO_OLD_TEXT:
            item["op"] = "replace"
        return
    said: Any = item["op"]
    if isinstance(said, list | Mapping) and len(said) == 1:  # ["append"], {"type": "append"}
        said = said[0] if isinstance(said, list) else next(iter(said.values()))
    op = _operation(said, item)
    if op is not None and op != item["op"]:
        repairs.append(f"op {str(item['op'])[:40]!r} was read as {op!r}")
        item["op"] = op


def _operation(word: Any, item: Mapping[str, Any]) -> str | None:
    """Return the operation that a word means for an edit, or ``None``."""
    if not isinstance(word, str):
        return None
    word = snake_case(word)
    word = _TRANSLATED.get(word, word)
    if word in _INSERTIONS:
        places = [str(item.get(name)).lower() for name in _PLACES]
        if "before" in item or any(map(_EARLIER.match, places)):
            return None  # there is no operation that inserts before a text
        return "insert_after" if item.get("target") or item.get("after") else "append"
    for part in (word, *(word.removesuffix(end) for end in _OP_ENDINGS if word.endswith(end))):
        meant = part if part in EDIT_OPS else same_operation(part, ("append", "replace", "delete"))
        if meant is not None:
            return meant
    return None


def gathered(value: Any) -> list[Any] | None:
    """List the edits of a value that holds nothing else, or return ``None``.

    It is an edit, or lists of edits: below ``edits``, numbered, or below their operations.
    """
    value = (as_json(value) or value) if isinstance(value, str) else value
    plain = _plain_names(value) if isinstance(value, Mapping) else {}
    are_lists = plain and all(isinstance(one, list | Mapping) for one in plain.values())
    if are_lists and len(plain) > 1 and (found := by_operation(plain)) is not None:
        return found
    if is_item(value):
        return [value]
    if isinstance(value, Mapping):
        if (found := by_operation(plain)) is not None:
            return found
        if plain and all(name[-1:].isdigit() for name in plain):
            value = list(plain.values())
        else:
            return next((gathered(plain[key]) for key in ("patch", "edits") if key in plain), None)
    if not isinstance(value, list):
        return None
    parts = [gathered(one) for one in value]
    return None if None in parts else [item for part in parts for item in part or ()]


def by_operation(plain: Mapping[str, Any]) -> list[Any] | None:
    """Read edits below their operations: ``{"append": [..], "deletions": [..]}``."""
    found: list[Any] = []
    for name, said in plain.items():
        op = _operation(name, {})
        if op == "replace" and isinstance(said, Mapping) and not any(map(_field, said)):
            said = [{"target": old, "content": new} for old, new in said.items()]
        if op is None and name != "reasoning":
            return None
        for one in said if isinstance(said, list) else [said] if op else ():
            if isinstance(one, str) and says_nothing(one):
                continue
            text = {"target" if op == "delete" else "content": one}
            fields = one if isinstance(one, Mapping) else text
            found.append(with_known_names({"op": name, **fields}, []))
    return found if found and all(map(is_item, found)) else None


_PLACES = ("position", "where", "placement")
_READ = (*_PLACES, "op", "target", "content", "support_count", "source_type")


def unread_fields(item: Mapping[str, Any]) -> Iterator[str]:
    """Say which fields of an edit have words that are not used."""
    for name, value in item.items():
        is_known = name in (*_READ, *_OP_KEYS) or REMARK.fullmatch(name)
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if not is_known and isinstance(value, str | list | Mapping) and " " in said.strip():
            yield f"an edit has no field {name!r}: {quoted(said)}"


def is_item(value: Any) -> bool:
    """Return whether a value looks like an edit, a suggestion or a rewritten skill."""
    if not isinstance(value, Mapping) or "role" in value:
        return False
    item = with_known_names(value, [])
    if "instruction" in item or "new_skill" in item:
        return True
    is_known = _operation(item.get("op"), item) is not None
    return is_known and any(isinstance(item.get(name), str) for name in _FIELDS)


def without_nulls(item: Any) -> Any:
    """Drop null fields, which models write for absent values."""
    if not isinstance(item, Mapping):
        return item
    return {name: value for name, value in item.items() if value is not None}


_MARKUP = "*_`"
_UNSTABLE = re.compile(
    r"""[\s*_`'"+\-\u00b4\u00ab\u00bb\u2010-\u201f\u2022\u2032\u2033\u2212\u300c-\u300f]"""
)
"""What models change when they quote: blanks, quotes, dashes, bullets and emphasis."""
_BULLET = re.compile(r"[-*+\u2022]\s")
_SHORTEST = 6


def passage(skill: str, quoted: str) -> str | None:
    """Return the only passage of a skill that a quotation means, or ``None``.

    They may differ in case, blanks, line breaks, quotes, dashes, bullets and emphasis.
    """
    wanted, _ = _stable(quoted)
    text, places = _stable(skill)
    at = text.find(wanted)
    if len(wanted) < _SHORTEST or at < 0 or text.find(wanted, at + 1) >= 0:
        return None
    start, end = places[at], places[at + len(wanted) - 1] + 1
    if _splits_a_word(skill, start) or _splits_a_word(skill, end):
        return None
    if _UNSTABLE.match(quoted.lstrip()):
        line = skill.rfind("\n", 0, start) + 1
        lead = skill[line:start]
        if _BULLET.match(quoted.lstrip()) and any(map(str.isalpha, lead)):
            return None  # the end of a line is not the line: `- twice` of `- Never twice`
        start -= len(lead.lstrip()) if all(map(_UNSTABLE.match, lead)) else 0
    while skill[start - 1 : start] in _MARKUP and start:
        start -= 1
    while skill[end : end + 1] in _MARKUP and end < len(skill):
        end += 1
    return skill[start:end]


def _stable(text: str) -> tuple[str, list[int]]:
    """Return a text without what models change, and the position of each character."""
    found = [
        (part, at)
        for at, one in enumerate(text)
        if not _UNSTABLE.match(one) and unicodedata.category(one) != "Cf"
        for part in unicodedata.normalize("NFKC", one).casefold()
    ]
    return "".join(part for part, _ in found), [at for _, at in found]


def _splits_a_word(text: str, at: int) -> bool:
    around = text[max(at - 1, 0) : at + 1]
    return at > 0 and len(around) == 2 and around.isascii() and around.isalnum()
