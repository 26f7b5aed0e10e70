"""Check a SKILL.md by the Agent Skills standard, and advise on what it leaves open.

What the standard's validator refuses is an error. Everything else is advice: clients differ in it,
or the standard only recommends it.

Source: agentskills.io, and its validator (``skills-ref`` 0.1.1 on PyPI), which reads StrictYAML:
block style only, without anchors and tags, and every value is a text.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import yaml
from markdown_it import MarkdownIt
from yaml import MappingNode, Node, ScalarNode

from skillwright.bank.formats.agent_skills import LONGEST_FRONTMATTER, NAME_LIMIT, split_frontmatter
from skillwright.bank.triggers import DESCRIPTION_LIMIT
from skillwright.core import DataError
from skillwright.core.fence import hidden_at
from skillwright.core.skill import with_line_feeds
from skillwright.core.skill_file import is_inside

COMPATIBILITY_LIMIT: Final = 500
_BODY_LINES, _BODY_CHARACTERS = 500, 20_000
_KEYS: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_TEXTS: Final = ("name", "description", "license", "compatibility", "allowed-tools")
_TEXT: Final = "tag:yaml.org,2002:str"
_MARK: Final = "---"
_OLD_BREAKS: Final = re.compile("[\x85\u2028\u2029]")
_NO_VALUES: Final = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")  # << and =
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)


def errors(text: str, folder: Path) -> list[str]:
    """Return what the standard's validator refuses in a SKILL.md.

    Args:
        text: The file.
        folder: Its folder, whose name is the skill's name.
    """
    if text.startswith("\ufeff"):
        return ["it begins with a byte order mark, so clients find no frontmatter; save it without"]
    if not text.startswith(_MARK):
        return ["its first line is not ---, so it has no frontmatter"]
    # The validator ends the frontmatter at the next three hyphens, wherever they are.
    parts = with_line_feeds(text).split(_MARK, 2)
    if len(parts) < 3:
        return ["its frontmatter has no last line ---"]
    if len(parts[1]) > LONGEST_FRONTMATTER:
        return [f"its frontmatter is longer than {LONGEST_FRONTMATTER:,} characters"]
    try:
        fields, problems = _fields(parts[1])
    except yaml.MarkedYAMLError as error:
        return [_unreadable(error)]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return [f"clients drop it, as they cannot read its frontmatter: {error}"]
    return problems or list(_broken_rules(fields, folder))


def advice(text: str) -> Iterator[str]:
    """Yield what clients may read otherwise than it was meant, and what the standard advises."""
    try:
        written, body = split_frontmatter(text, "the file")
        fields, _ = _fields(written)
    except (DataError, yaml.YAMLError, ValueError, RecursionError):
        return
    if _MARK in written:
        yield "a value holds ---, where some clients end the frontmatter; write another dash"
    for name in _TEXTS:
        yield from _not_text(name, fields.get(name))
    if isinstance(node := fields.get("description"), ScalarNode):
        yield from _misread_description(node, written)
    if (node := fields.get("metadata")) is not None and not _maps_texts(node):
        yield "metadata is no map of texts to texts; put its values in quotes"
    lines = body.count("\n")
    if lines >= _BODY_LINES or len(body) >= _BODY_CHARACTERS:
        yield (
            f"the body has {lines:,} lines and {len(body):,} characters; at most {_BODY_LINES} "
            "lines and 5,000 tokens are recommended: move parts to references/"
        )
    if not body.strip():
        yield "the body is empty"


def _not_text(name: str, node: Node | None) -> Iterator[str]:
    if isinstance(node, ScalarNode) and node.tag != _TEXT:
        kind = node.tag.rpartition(":")[2]
        yield f"clients may read {name} {node.value!r} as {kind}; put it in quotes"
    elif node is not None and not isinstance(node, ScalarNode):
        yield f"{name} is no text"


def _misread_description(node: ScalarNode, written: str) -> Iterator[str]:
    if any(one in node.value for one in "<>") or hidden_at(node.value):
        yield "the description has angle brackets or hidden characters, which some clients refuse"
    cut = re.match(r"[ \t]+#[^\n]*", written[node.end_mark.index :])
    if node.style is None and cut:
        yield (
            f"clients read the description only up to {node.value!r}: what follows a blank "
            f"and #, {cut[0].strip()!r}, is a comment; put the description in quotes"
        )


def broken_links(folder: Path, body: str) -> Iterator[str]:
    """Yield the links of a body that lead nowhere, out of the folder, or deep into it.

    Links in code do not count.
    """
    for link in _links(body):
        if _SCHEME.match(link):
            continue
        name = unquote(link.partition("#")[0].removeprefix("./"))
        path = folder / name
        if name.startswith("/") or not is_inside(path, folder):
            yield f"{link} leads out of the folder"
        elif not path.exists():
            yield f"{link} is not there"
        elif name.rstrip("/").count("/") > 1:
            yield f"{link} lies deeper than one level"


def _links(body: str) -> Iterator[str]:
    for block in MarkdownIt("commonmark").parse(body):
        for token in block.children or ():
            target = token.attrs.get("href" if token.type == "link_open" else "src")
            if token.type in ("link_open", "image") and isinstance(target, str):
                yield target


def _fields(written: str) -> tuple[dict[str, Node], list[str]]:
    """Compose the fields of a frontmatter, without reading types, and list what is refused."""
    # In YAML 1.2 these are no line breaks; PyYAML reads 1.1.
    written = _OLD_BREAKS.sub(" ", written)
    root = yaml.compose(written, yaml.SafeLoader)
    if not isinstance(root, MappingNode):
        return {}, ["the frontmatter is no map of keys to values"]
    problems = list(_refused_marks(written)) or list(_refused_maps(root))
    return {key.value: value for key, value in root.value}, problems


def _refused_marks(written: str) -> Iterator[str]:
    for event in yaml.parse(written, yaml.SafeLoader):
        line = f"line {event.start_mark.line + 1}" if event.start_mark else ""
        if getattr(event, "flow_style", None):
            yield f"{line}: brackets and braces are refused; write one item per line, or quotes"
        if getattr(event, "anchor", None):
            yield f"{line}: anchors (& and *) are refused; put the value in quotes"
        if tag := getattr(event, "tag", None):
            yield f"{line}: the tag {tag!r} is refused; put the value in quotes"


def _refused_maps(root: MappingNode) -> Iterator[str]:
    """Say which maps are refused; there are no anchors, so no node is in itself."""
    open_nodes: list[Node] = [root]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, MappingNode):
            keys = Counter(str(key.value) for key, _ in node.value)
            yield from (f"the key {key!r} is there twice" for key, n in keys.items() if n > 1)
            inner = [value for _, value in node.value if isinstance(value, MappingNode)]
            if len({value.start_mark.column for value in inner}) > 1:
                yield "maps within a map are indented differently"
            open_nodes += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            open_nodes += node.value


def _unreadable(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    line = f" in line {mark.line + 1}" if mark else ""
    problem = error.problem or error.context or ""
    is_tab = "\\t" in problem
    move = "write a blank in the place of the tab" if is_tab else "put the value in quotes"
    return f"clients drop it, as they cannot read its frontmatter{line}: {problem}; {move}"


def _broken_rules(fields: dict[str, Node], folder: Path) -> Iterator[str]:
    if unknown := sorted(map(str, fields.keys() - set(_KEYS))):
        known = ", ".join(_KEYS)
        yield f"unknown keys {', '.join(unknown)}; the standard has {known}"
    yield from _wrong_name(_text(fields, "name"), folder.resolve().name)
    size = len(_text(fields, "description"))
    if not _text(fields, "description").strip() or size > DESCRIPTION_LIMIT:
        yield f"the description has {size:,} characters; 1 to {DESCRIPTION_LIMIT:,} are allowed"
    if "compatibility" in fields:
        if not isinstance(fields["compatibility"], ScalarNode):
            yield "compatibility is no text"
        elif (size := len(_text(fields, "compatibility"))) > COMPATIBILITY_LIMIT:
            yield f"compatibility has {size:,} characters; {COMPATIBILITY_LIMIT} are allowed"


def _wrong_name(given: str, folder: str) -> Iterator[str]:
    name = unicodedata.normalize("NFKC", given.strip())
    is_wrong = name != name.lower() or name.strip("-") != name or "--" in name
    if is_wrong or not name or len(name) > NAME_LIMIT or not name.replace("-", "a").isalnum():
        yield f"name {name!r} is not 1 to {NAME_LIMIT} lowercase letters, digits and single hyphens"
    elif name != unicodedata.normalize("NFKC", folder):
        yield f"name {name!r} is not the folder's name, {folder!r}"


def _text(fields: dict[str, Node], name: str) -> str:
    node = fields.get(name)
    is_text = isinstance(node, ScalarNode) and node.tag not in _NO_VALUES
    return str(node.value) if is_text and node is not None else ""


def _maps_texts(node: Node) -> bool:
    return isinstance(node, MappingNode) and all(
        isinstance(one, ScalarNode) and one.tag == _TEXT for pair in node.value for one in pair
    )
