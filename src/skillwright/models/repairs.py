r"""Repair slightly malformed JSON of models.

Only text that is not strict JSON is repaired. A repair must lose nothing: the result has the same
words as the text, in the same order, except for comments; otherwise there is no result.
"""

import ast
import html
import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree

import yaml

from skillwright.models.shapes import as_json, end_of_json

MOST_CHARS: Final = 200_000
"""Longer texts are not repaired."""
_DEEPEST: Final = 40
_MOST_JOINED: Final = 4
_MOST_ENCODED: Final = 3
_MOST_SPANS: Final = 20
_MOST_TRIPLES: Final = 60
_MOST_YAML: Final = 40_000
_NEAR: Final = 40
_SPOKEN_OF: Final = (re.compile(r"[^\W\d][ `]+\Z"), re.compile(r"[ `]+[^\W\dA-Z]"))

# The last mark before a reply's answer: the end of its reasoning, or a harmony channel.
_ANSWER: Final = re.compile(
    r"</(?:think|thinking|thoughts?|reasoning|scratchpad|reflection|analysis|seed:think)>"
    r"|<\|channel\|>\s*final\b[^<]{0,40}<\|message\|>|\[/THINK\]|<\|END_THINKING\|>|◁/think▷",
    re.IGNORECASE,
)
_MARKERS: Final = (
    r"(?:<\|[^|<>]{1,40}\|>|<\uff5c[^\uff5c<>]{1,40}\uff5c>|</?s>|<(?:end|start)_of_turn>|<eos>|\[/?INST\]"
    r"|\ufeff|\s)+"
)
_AROUND: Final = re.compile(rf"\A{_MARKERS}|(?<!\s){_MARKERS}\Z")
FENCE: Final = re.compile(r"^[ \t]*(?:```|~~~)[^\n`]*$", re.MULTILINE)


def answer_part(text: str) -> str:
    """Return a reply without its reasoning and the template markers around the answer."""
    if text.lstrip().startswith(">"):
        text = re.sub(r"^[ \t]*>[ \t]?", "", text, flags=re.MULTILINE)  # a quotation in Markdown
    if as_json(text) is not None or not (marks := list(_ANSWER.finditer(text))):
        return _AROUND.sub("", text)
    at, spans = marks[-1].start(), list(_spans(text))
    is_inside = any(start < at < end for start, end in spans if end is not None)
    if re.match(r"\W*(?:```\w*\s*)?[\[{]", text):  # it begins with an object, which may be a draft
        is_inside = is_inside or not any(end is not None and end <= at for _, end in spans)
    return _AROUND.sub("", text if is_inside else text[marks[-1].end() :])


class Found(NamedTuple):
    """An object or a list in a text.

    Attributes:
        value: Its value.
        is_fenced: Whether it is in a code block.
        is_repaired: Whether it was not strict JSON.
        follows: Whether only blanks or commas separate it from the previous value.
        in_sentence: Whether words before and after it, in one sentence, speak of it.
    """

    value: Any
    is_fenced: bool = False
    is_repaired: bool = False
    follows: bool = False
    in_sentence: bool = False


def is_quoted(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text is a string of another notation, which has own escapes."""
    return text[start - 1 : start] in ("'", '"') and text[start - 1 : start] == text[end : end + 1]


def near_values(text: str, *, is_cut: bool, in_strings: bool = False) -> Iterator[Found]:
    """List the outermost objects and lists in a text, repaired if needed.

    Args:
        text: A reply, or a part of one.
        is_cut: Whether it ended at the token limit. Then no bracket is added, and a value that is
            followed by another bracket is ignored, because it may be a draft.
        in_strings: Whether to read values in quotes too.
    """
    if len(text) > MOST_CHARS:
        return
    inner = _decoded_whole(text)
    text = inner or text
    marks = [found.end() for found in FENCE.finditer(text)]
    before = 0
    for start, closed in list(_spans(text))[-_MOST_SPANS:]:
        end = closed or len(text)
        follows = not FENCE.sub("", text[before:start]).strip(" \t\r\n,;")
        before = end
        if is_cut and re.search(r"[\[{]", text[end:]):
            continue
        if is_quoted(text, start, end) and not in_strings:
            continue
        is_fenced = sum(mark <= start for mark in marks) % 2 == 1
        span = text[start:end]
        if (value := as_json(span)) is not None:
            before_it = text[max(start - _NEAR, 0) : start]
            speaks = _SPOKEN_OF[0].search(before_it) and _SPOKEN_OF[1].match(text, end)
            yield Found(value, is_fenced, bool(inner), follows, bool(speaks))
            continue
        if _is_inside(text[end:]):  # odd quotes hid the true end
            span = text[start:]
        if (value := _repaired(_without_fence(span), may_close=not is_cut)) is not None:
            yield Found(value, is_fenced, is_repaired=True, follows=follows)


def unreadable_parts(text: str) -> Iterator[str]:
    """List the parts of a reply that are written like objects of texts but cannot be read."""
    for start, end in list(_spans(text))[-_MOST_SPANS:] if len(text) <= MOST_CHARS else ():
        span = text[start:end]
        is_object = re.search(r"""["']\w+["']\s*:\s*["'\[{]""", span)
        if (
            is_object
            and as_json(span) is None
            and _repaired(_without_fence(span), may_close=True) is None
        ):
            yield span


def _decoded_whole(text: str) -> str:
    """Return a text whose JSON is encoded as a whole once more, or an empty text."""
    found = ""
    for _ in range(_MOST_ENCODED):
        inner: str = as_json(found or text, str) or ""
        if not inner:
            break
        found = inner
    if '"' not in text and re.search("&(?:quot|#34|#x22);", text):
        found = html.unescape(text)
    if '"' not in text and "\uff02" in text:
        found = text.replace("\uff02", '"')
    if "{" not in text and "\uff5b" in text:
        strings = f"({_STRINGS[chr(34)]})|[\uff5b\uff5d\uff3b\uff3d\uff1a\uff0c]"
        found = re.sub(
            strings, lambda one: one[1] or one[0].translate(_WIDE), found or text, flags=re.DOTALL
        )
    return found


_TAG_LINE: Final = re.compile(r"^<(\w{1,40})>[ \t]*$", re.MULTILINE)
_FIRST_KEY: Final = re.compile(r"(?<=\n\n)(?:- )?\w+:(?:[ \t][^\n]*)?\n")


def other_notations(text: str) -> Iterator[tuple[Any, str]]:
    """List the values of a text or its code blocks in other notations, with the notation's name."""
    edges = [0, *(edge for found in FENCE.finditer(text) for edge in found.span()), len(text)]
    parts = [text[a:b] for a, b in zip(edges[2::4], edges[3::4], strict=False)]
    if tag := _TAG_LINE.search(text):
        parts.append(text[tag.end() : text.rfind(f"</{tag[1]}>")])
    parts += [text[found.start() :] for found in [_FIRST_KEY.search(text)] if found]
    for part in dict.fromkeys([*parts, FENCE.sub("", text)]):
        for read, notation in ((_yaml, "YAML"), (_xml, "XML"), (_toml, "TOML")):
            value = read(part)
            if isinstance(value, dict | list):
                yield value, notation


# LaTeX: a model that forgets to double its backslashes writes escapes that JSON reads otherwise.

_LATEX: Final = frozenset(
    """
    backslash bar because begin beta between bf big bigcap bigcup bigg binom bm bmod boldsymbol
    bot bowtie box boxed breve bullet fbox flat footnote forall frac frown nabla natural ne neg
    neq nexists ngeq ni nleq nmid nolimits nonumber norm not notin nparallel nsubseteq nu rangle
    rbrace rbrack rceil ref rfloor rho right rightarrow rightleftharpoons rm root tag tan tanh
    tau tbinom text textbf textit textrm textsc textsf texttt tfrac therefore theta thickapprox
    tilde times to top triangle triangleq
    """.split()  # noqa: SIM905 - a list would be five times as long
)
# Here the letters after the first could also begin a line or a column: `\ne` is "≠", or a line
# that begins with the Italian "e".
_COULD_BE_WORDS: Final = frozenset(
    ("ne", "neg", "ni", "not", "nu", "tag", "tan", "tau", "to", "top")
)
_BACKSLASH: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|([A-Za-z]+)|(.))", re.DOTALL)
_CERTAIN_LATEX: Final = re.compile(
    r"(?<!\\)(?:\\\\)*\\(?:[()\[]|(?:[ac-eg-mo-qsv-zA-Z][a-z]+|"
    + "|".join(sorted(_LATEX - _COULD_BE_WORDS))
    + r")(?![A-Za-z]))"
)
_UNDOUBLED: Final = re.compile(
    r"(?<!\\)(?:\\\\)*\\(?:"
    + "|".join(w for w in sorted(_LATEX) if w[0] in "bf")
    + r")(?![a-zA-Z])"
)
_LOST: Final = {
    control: re.compile(
        control
        + "("
        + "|".join(w[1:] for w in sorted(_LATEX - _COULD_BE_WORDS) if w[0] == letter)
        + ")(?![A-Za-z])"
    )
    for control, letter in (("\t", "t"), ("\n", "n"), ("\r", "r"))
}


def holds_undoubled_latex(text: str) -> bool:
    r"""Return whether JSON would read a LaTeX command as a backspace or a form feed."""
    return _UNDOUBLED.search(text) is not None


def with_doubled_backslashes(text: str) -> str:
    r"""Double the backslashes of a text in JSON that JSON would refuse, or take from LaTeX.

    A backspace or a form feed is never meant; a line break, a return or a tab is, unless a LaTeX
    command stands there. ``\_`` is Markdown's underscore where the text has no LaTeX.
    """
    has_latex = _CERTAIN_LATEX.search(text) is not None

    def doubled(found: re.Match[str]) -> str:
        word, sign = found.groups()
        if word is None and sign is None:  # a Unicode escape
            return found.group()
        if word is None:
            if sign in "\"\\'":
                return found.group()
            if sign in "\n/`" or (sign == "_" and not has_latex):
                return "" if sign == "\n" else sign
            return "\\" + found.group()
        if word[0] not in "nrt":
            return "\\" + found.group()
        before = text[max(found.start() - 1, 0) : found.start()]
        is_command = word in _LATEX and (
            has_latex or word not in _COULD_BE_WORDS or before in set(" $({[=+-^_|,")
        )
        return "\\" + found.group() if is_command else found.group()

    return _BACKSLASH.sub(doubled, text)


def restored_latex(text: str) -> str:
    r"""Give a decoded text the backslashes back that JSON took from LaTeX commands."""
    text = text.replace("\b", r"\b").replace("\f", r"\f")
    for control, letter in (("\t", "t"), ("\n", "n"), ("\r", "r")):
        text = _LOST[control].sub(rf"\\{letter}\1", text)
    return text


_ESCAPED_BREAK: Final = re.compile(r"(?<!\\)\\n(?=\\n|[ \t]*(?:[-*+#>|]|\d+[.)])[ #]|\s*\Z)")


def restored_line_breaks(text: str) -> str:
    r"""Give a text of one line the line breaks of a list that was escaped twice: ``- a\\n- b``."""
    if "\n" in text.strip() or "`" in text or not _ESCAPED_BREAK.search(text):
        return text
    return re.sub(r"(?<!\\)\\n(?![a-z])", "\n", text)


_CURLED: Final = "\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019\u300c\u300d"
_PAIRS: Final = {
    "\u201c": "\u201d",
    "\u201d": "\u201d",
    "\u201e": "\u201c\u201d",
    "\u00ab": "\u00bb",
    "\u2018": "\u2019",
    "\u300c": "\u300d",
}
"""Quotes that open a string, with those that close it."""
_COLON, _COMMA = "\uff1a", "\uff0c"  # as wide as a Chinese character
_WIDE: Final = str.maketrans("\uff5b\uff5d\uff3b\uff3d\uff1a\uff0c", "{}[]:,")
_OPENING: Final = re.compile(
    rf"""\{{\s*(?:["'`}}\\\w{_CURLED}]|//|/\*|\#)|\[\s*(?:[{{\[]|//|/\*|\#)""", re.VERBOSE
)
_STRINGS: Final = {
    '"': r'"[^"\\]*(?:\\.[^"\\]*)*"?',
    "'": r"""(?:"[^"\\]*(?:\\.[^"\\]*)*"?|(?<!\w)'[^'\\]*(?:\\.[^'\\]*)*'?)""",
}
_ANY_QUOTE: Final = re.compile(f"[\"'`{_CURLED}]")
_COMMENT: Final = r"(?:(?<=[\s,{\[}\]\"'\d])(?://[^\n]*|\#[^\n]*)|/\*.*?\*/)"
_KEY: Final = r"(?<!\\)[\"']\s*:\s*"
_BARE_KEY: Final = r"[{,]\s*\w+\s*:\s*"
_TRIPLE: Final = r"(\"{3}|'{3}|`)(.*?)\2(?=\s*[,}\]])"
_CURLED_VALUE: Final = re.compile(r'(?<=":)\s*\u201c([^"\\\u201c\u201d]*)\u201d(?=\s*[,}\]])')
_JOINED: Final = re.compile(
    r"""(:\s*(["'])(?:(?!\2)[^\\]|\\.)*)\2(?:\s*\+\s*|\s+)\2(?=(?:(?!\2)[^\\]|\\.)*\2\s*[,}+"'])""",
    re.DOTALL,
)
_PLAIN_KEY: Final = re.compile(r"[\w .$/-]{1,80}")


def _spans(text: str) -> Iterator[tuple[int, int | None]]:
    """List the spans that may hold malformed JSON; an unclosed one has no end."""
    start = unclosed = 0
    while unclosed < 4 and (found := _OPENING.search(text, start)):
        end = _end(text, found.start())
        yield found.start(), end
        if end is None and not found.group()[-1].isalpha():
            return  # complete objects inside of one that breaks off are not the answer
        unclosed += end is None
        start = end or found.end()


def _is_inside(rest: str) -> bool:
    """Return whether brackets are closed in what follows that it does not open."""
    is_odd = any(rest.count(one) > rest.count(other) for one, other in ("}{", "]["))
    return re.match(r"\s*[,:]", rest) is not None or (
        is_odd and re.search(r"[\w\"']", rest) is not None
    )


def _end(text: str, start: int) -> int | None:
    """Return the end of near JSON, or ``None``; comments and strings in its quotes are skipped."""
    tokens = re.compile(f"{_STRINGS[_quote(text, start)]}|{_COMMENT}|[][{{}}]", re.DOTALL)
    return end_of_json(text, start, tokens)


def _quote(text: str, start: int = 0) -> str:
    first = _ANY_QUOTE.search(text, start)
    return "'" if first is not None and first.group() == "'" else '"'


def _without_fence(text: str) -> str:
    """Cut what follows the last bracket: a closing fence, or words, but not a comma."""
    last = max(text.rfind("}"), text.rfind("]"))
    is_whole = last > 0 and '"' not in text[last:] and not re.match(r"\s*[,:]", text[last + 1 :])
    return text[: last + 1] if is_whole else text


def _repaired(text: str, *, may_close: bool) -> Any:
    if re.match(r'[\[{]\s*(?:\\n\s*)*\\"', text):  # a JSON string without its quotes
        return as_json(as_json(f'"{text}"', str) or "")
    if any(mark in text for mark in _SEALED.values()):
        return None
    if (value := _python(text)) is not None:
        return value
    text = _with_plain_quotes(with_doubled_backslashes(_with_whole_letters(text)))
    text = re.sub(r"\\(.)", lambda found: _SEALED.get(found[1], found[0]), text, flags=re.DOTALL)
    if _quote(text) == "'":
        text = re.sub(r"(?<=\w)'(?=\w)", _SEALED["'"], text)  # an apostrophe within a word
    is_closed = _end(text, 0) is not None
    if _is_deep(text) or not (is_closed or (may_close and _ends_between_strings(text))):
        return None
    import json_repair  # only where there is something to repair: it takes 20 ms to load

    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError, IndexError):
        return None
    is_whole = isinstance(value, dict | list) and _has_plain_keys(value)
    return _unsealed(value) if is_whole and _says_the_same(text, value, is_closed) else None


def _python(text: str) -> Any:
    """Return the value of a Python literal, with lists for tuples, or ``None``."""
    if _is_deep(text) or _CERTAIN_LATEX.search(text):
        return None
    try:
        value = ast.literal_eval(text)
        return json.loads(json.dumps(value, allow_nan=False))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


_SEALED: Final = {"\\": "\ue000", '"': "\ue001", "'": "\ue002"}
"""What escaped characters are written as while the rest is repaired."""


def _unsealed(value: Any) -> Any:
    if isinstance(value, dict):
        return {_unsealed(key): _unsealed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unsealed(item) for item in value]
    if isinstance(value, str):
        for character, mark in _SEALED.items():
            value = value.replace(mark, character)
    return value


def _says_the_same(text: str, value: Any, is_closed: bool) -> bool:
    """Return whether a value has the words and the brackets of a text, but for its comments."""
    strings = _STRINGS[_quote(text)]
    said = re.sub(f"({strings})|{_COMMENT}", lambda found: found[1] or " ", text, flags=re.DOTALL)
    if re.search(r"\.\.\.|\u2026", re.sub(strings, "", said, flags=re.DOTALL)):
        return False  # something was left out
    said, written = _decoded(said), json.dumps(value, ensure_ascii=False, default=str)
    if any(said.count(one) != written.count(one) for one in ("{[}]" if is_closed else "{[")):
        return False
    inside = list(_texts(value))
    if not is_closed and any(
        one.count("}") > one.count("{") or one.count("]") > one.count("[") for one in inside
    ):
        return False  # a string has swallowed the brackets behind it
    return _words(said) == _words(" ".join(inside))


def _with_whole_letters(text: str) -> str:
    """Join the halves of letters that are written as two escapes."""
    halves = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    return re.sub(rf"(?<!\\){halves}", lambda found: json.loads(f'"{found.group()}"'), text)


def _with_plain_quotes(text: str) -> str:
    """Write strings between the quotes of JSON that stand between typographic or triple ones."""

    def quoted(found: re.Match[str]) -> str:
        body = re.sub(r'(?<!\\)"', r"\"", found.group(3)).replace("\n", "\\n")
        return f'{found.group(1)}"{body}"'

    text = _CURLED_VALUE.sub(lambda found: json.dumps(found[1], ensure_ascii=False), text)
    if sum(map(text.count, ('"""', "'''", "`"))) <= _MOST_TRIPLES:
        key = _KEY if re.search(_KEY, text) else _BARE_KEY
        text = re.sub(f"({key}){_TRIPLE}", quoted, text, flags=re.DOTALL)
    first = _ANY_QUOTE.search(text)
    if first is not None and first.group() in _PAIRS:
        text = _from_pairs(text, first.group(), _PAIRS[first.group()])
    if re.search(rf'(?<!\\)"\s*(?:{_COLON}|=>)', text):
        text = re.sub(rf'(?<!\\)"\s*(?:{_COLON}|=>)', '":', text)
        text = re.sub(rf'(?<=["\d}}\]])\s*{_COMMA}(?=\s*["}}\]])', ",", text)
    for _ in range(_MOST_JOINED):
        text = _JOINED.sub(r"\1", text)
    return text


def _from_pairs(text: str, opening: str, closing: str) -> str:
    """Put JSON's quotes in the place of outer pairs of others; inner pairs stay."""
    depth, found = 0, []
    for one in text:
        if one == opening and (opening not in closing or not depth):
            depth += 1
            found.append('"' if depth == 1 else one)
        elif one in closing and depth:
            depth -= 1
            found.append(one if depth else '"')
        elif depth and one in '"\n':
            found.append("\\n" if one == "\n" else '\\"')
        else:
            found.append(one)
    return "".join(found)


def _ends_between_strings(text: str) -> bool:
    """Return whether only brackets are missing at the end: no string and no value is open."""
    quotes = len(re.findall(r'(?<!\\)(?:\\\\)*"', text))
    last = text.rstrip()[-1:]
    return last in set("}]") or (last == '"' and _quote(text) == '"' and quotes % 2 == 0)


def _is_deep(text: str) -> bool:
    depth = 0
    for bracket in re.findall(r"[][{}]", text):
        depth += 1 if bracket in "[{" else -1
        if depth > _DEEPEST:
            return True
    return False


def _has_plain_keys(value: Any) -> bool:
    """Return whether no key and no item has swallowed, or lost, what was behind it."""
    if isinstance(value, dict):
        return all(
            isinstance(key, str) and _PLAIN_KEY.fullmatch(key) and _has_plain_keys(item)
            for key, item in value.items()
        )
    if not isinstance(value, list):
        return True
    is_mixed = any(isinstance(one, dict) for one in value) and not all(
        isinstance(one, dict) for one in value
    )
    return not is_mixed and all(map(_has_plain_keys, value))


def _decoded(text: str) -> str:
    """Return near JSON with its escapes decoded, well enough to count its words."""
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    return re.sub(r"\\([nrt])|\\(.)", lambda found: " " if found[1] else found[2], text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)


def _words(text: str) -> list[str]:
    """List a text's words in order, without numbers and JSON's constants."""
    found = re.findall(r"[^\W\d_]+", re.sub(r"\b\d[\w.+-]*", " ", text))
    return [word for word in found if word.lower() not in ("none", "null", "true", "false")]


class _Loader(yaml.BaseLoader):
    """Reads every scalar as text; an alias would let a short text stand for a long one."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)


def _yaml(text: str) -> Any:
    if len(text) > _MOST_YAML or not re.search(r"^\s*(?:-\s+)?\w+:(?:\s|$)", text, re.MULTILINE):
        return None
    try:
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    bare = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    said = _decoded(" ".join(_texts(value)))
    return value if _words(_decoded(bare)) == _words(said) else None


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _xml(text: str) -> Any:
    start, end = text.find("<"), text.rfind(">")
    if start < 0 or len(text) > MOST_CHARS or "<!" in text.replace("<![CDATA[", ""):
        return None
    body = re.sub(r"<\?xml[^>]*\?>", "", text[start : end + 1])
    if "<![CDATA[" not in body:
        body = re.sub(r"&(?!\w{1,8};|#)", "&amp;", body)
    try:
        return _element(ElementTree.fromstring(f"<reply>{body}</reply>"))
    except (ElementTree.ParseError, ValueError, RecursionError):
        return None


def _element(element: ElementTree.Element) -> Any:
    """Return an element as JSON: its text, the list of its like children, or an object."""
    children, said = list(element), (element.text or "").strip()
    if not children and not element.attrib:
        return said
    if (said and children) or any((child.tail or "").strip() for child in children):
        raise ValueError("words stand between the elements")
    tags = [child.get("name") or child.tag for child in children]
    values = [_element(child) for child in children]
    if children and len(set(tags)) == 1 and (len(tags) > 1 or element.tag == tags[0] + "s"):
        return values
    if len(set(tags)) < len(tags):
        raise ValueError("an element has two values")
    found = {**element.attrib, **dict(zip(tags, values, strict=True))}
    found.pop("name", None) if element.get("name") and not said else None
    return {**found, "content": said} if said else found
