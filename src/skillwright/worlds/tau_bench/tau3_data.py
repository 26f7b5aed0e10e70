"""Convert the data of tau2-bench 1.0.1 (tau3): records get the fields that its models give them.

The source is a checkout, a folder with the domains, or the installed package ``inspect-evals``.
"""

import ast
import gzip
import importlib.util
import json
import re
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from skillwright.core import DataError
from skillwright.core.jsonio import read_text
from skillwright.worlds.tau_bench.tau_core.banking import (
    BANKING,
    DISCOVERABLE,
    DOCUMENTS,
    MANUALS,
    RETRIEVALS,
)
from skillwright.worlds.tau_bench.tau_core.domain import Domain
from skillwright.worlds.tau_bench.tau_core.store import data_dir, open_store
from skillwright.worlds.tau_bench.tau_core.telecom_phone import PHONE, WORDS
from skillwright.worlds.tau_bench.upstream_words import parse

COMMIT: Final = "a2c0247"
REPOSITORY: Final = "https://github.com/sierra-research/tau2-bench"
ARCHIVE: Final = f"{REPOSITORY}/archive/{COMMIT}.tar.gz"
INSPECT_EVALS: Final = "inspect-evals"
BANK_EDITION: Final = f"{INSPECT_EVALS} 0.26"

_RECORDS: Final[Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("tau3_records.json").read_text(encoding="utf-8")
)
_LARGEST: Final = 256 << 20
_LEFT_OUT: Final = "full"  # telecom's 2,285 tasks, of which the other splits are parts


def installed_data() -> Path:
    """Return the data folder of the installed package ``inspect-evals``; it is not imported."""
    found = importlib.util.find_spec("inspect_evals")
    if found is None or not found.submodule_search_locations:
        raise DataError(
            f"--from {INSPECT_EVALS}: the package is not installed here; run `pip install "
            f"{INSPECT_EVALS}`, or name its folder tau2/data"
        )
    return Path(next(iter(found.submodule_search_locations))) / "tau2" / "data"


def convert_tau3(source: Path, into: Path, domain: Domain) -> None:
    """Write the files of a data set.

    Raises:
        DataError: The source lacks a file, or a record lacks a field.
    """
    is_bank = domain.name == BANKING.name
    name = "banking_knowledge" if is_bank else domain.name.removeprefix("tau3_")
    places = ("data/tau2/domains", "domains", ".")
    folder = next((at for one in places if (at := source / one / name).is_dir()), source)
    parts: dict[str, Any] = {}
    try:
        parts |= {f"tasks_{split}": of for split, of in _tasks(folder).items()}
        parts |= _bank(folder, source) if is_bank else _tables(folder, domain)
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{str(folder)!r} is no domain of tau2-bench: {error!r}") from error
    if is_bank:
        policy = parts["prompts"][RETRIEVALS[0]]
    elif PHONE in domain.tables:
        main, manual = (_text(folder, stem) for stem in ("main_policy", "tech_support_manual"))
        policy = f"<main_policy>\n{main}\n</main_policy>\n<tech_support_policy>\n{manual}\n"
        policy += "</tech_support_policy>\n"
    else:
        policy = _text(folder, "policy")
    (into / "wiki.md").write_text(policy, encoding="utf-8")
    if (terms := _read(source, "LICENSE")) is not None:
        (into / "LICENSE").write_bytes(terms)
    for part, value in parts.items():
        text = json.dumps(value, indent=1, default=str)
        (into / f"{part}.json").write_text(f"{text}\n", encoding="utf-8")


def _tasks(folder: Path) -> dict[str, list[Any]]:
    """Return the tasks by split."""
    splits = _json(folder, "split_tasks") or {}
    found: dict[str, list[Any]] = {}
    if (small := _json(folder, "tasks_small")) is not None:
        found["small"] = small
    if (every := _listed(folder, "tasks")) is not None:
        by_id = {str(task["id"]): task for task in every}
        lost = [one for ids in splits.values() for one in ids if str(one) not in by_id]
        if lost:
            raise DataError(f"{str(folder)!r}: split_tasks.json names no task: {lost[0]!r}")
        for split, ids in (splits or {"base": by_id}).items():
            if split != _LEFT_OUT:
                wanted = {str(one) for one in ids}
                found[split] = [task for number, task in by_id.items() if number in wanted]
    if not any(found.values()):
        raise DataError(f"{str(folder)!r} has no tasks.json of tau2-bench, or no task in it")
    return found


def _tables(folder: Path, domain: Domain) -> dict[str, Any]:
    spec = _RECORDS[domain.name]
    raw = _toml(folder, "db") if PHONE in domain.tables else _json(folder, "db")
    if raw is None:
        raw = _original_tables(domain, spec)
    tables: dict[str, Any] = {}
    for table, fields in spec["fields"].items():
        records = raw.get(table)
        if records is None:
            raise DataError(f"{str(folder)!r}: the database has no {table}")
        key = f"{table[:-1]}_id"
        listed = records if isinstance(records, dict) else {one.get(key): one for one in records}
        tables[table] = {
            name: _record(record, fields, spec, f"{table}/{name}")
            for name, record in listed.items()
        }
    if PHONE in domain.tables:
        phone = _toml(folder, "user_db")
        tables[PHONE] = {
            part: _filled(phone.get(part, {}), usual) for part, usual in WORDS["fresh"].items()
        }
    return tables


_TEMPLATES: Final = ("grep_only", "full_kb", "required_docs", "no_knowledge")
_COMPONENT: Final = re.compile(r"\{\{component:(\w+)\}\}")
_PARAMETER: Final = re.compile(r"^\s*(\w+)\s*(?:\(([^)]+)\))?\s*:\s*(.+?)$", re.MULTILINE)


def _bank(folder: Path, source: Path) -> dict[str, Any]:
    """Return the bank's tables, documents and manuals of tools, and the policies' templates."""
    raw, documents = _json(folder, "db"), _listed(folder, DOCUMENTS)
    if raw is None or not documents:
        raise DataError(f"{str(folder)!r} has no {'db.json' if raw is None else 'documents'}")
    tables = {name: (raw.get(name) or {}).get("data", {}) for name in BANKING.tables}
    if lost := [name for name, of in BANKING.tables.items() if "user_id" in of and name not in raw]:
        raise DataError(f"{str(folder)!r}: the database has no {lost[0]}")
    tables[DOCUMENTS] = {one["id"]: {k: one[k] for k in ("title", "content")} for one in documents}
    tables[MANUALS] = {
        name: manual for path in _code(folder, source) for name, manual in _manuals(path)
    }
    prompts = folder / "prompts"
    texts = (_text(prompts, stem) for stem in _TEMPLATES)
    return {
        **tables,
        "prompts": {
            name: _COMPONENT.sub(lambda found: _text(prompts / "components", found[1]), text)
            for name, text in zip(RETRIEVALS, texts, strict=True)
        },
    }


def _code(folder: Path, source: Path) -> list[Path]:
    """Return the files in which a bank's tools describe what they take."""
    inspect_evals = sorted((source.parent / "banking").glob("Banking*Tools.py"))
    named = (source / "src" / "tau2" / "domains" / folder.name / "tools.py", folder / "tools.py")
    found = inspect_evals or [path for path in named if path.is_file()][:1]
    if not found:
        raise DataError(f"{str(source)!r} has no src/tau2/domains/{folder.name}/tools.py")
    return found


def _manuals(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tools of a Python file by name; it is parsed, never executed."""
    tree = parse(read_text(path, "file of tools"), str(path))
    for holder in (one for one in tree.body if isinstance(one, ast.ClassDef)):
        side = "user" if "User" in holder.name else "assistant"
        for one in (one for one in holder.body if isinstance(one, ast.FunctionDef)):
            text = ast.get_docstring(one)
            if text and one.name in DISCOVERABLE:
                yield one.name, {"side": side, **_manual(text)}


def _manual(text: str) -> dict[str, Any]:
    about, _, rest = text.partition("\nArgs:\n")
    parameters = {}
    for name, given, described in _PARAMETER.findall(rest.partition("\nReturns:\n")[0]):
        kind = re.sub(r",?\s*optional", "", given, flags=re.IGNORECASE).strip() or "string"
        is_required = "optional" not in given.lower()
        parameters[name] = {"type": kind, "description": described, "required": is_required}
    return {"description": about.strip(), "parameters": parameters}


def _record(record: Any, fields: Mapping[str, Any], spec: Any, where: str) -> Any:
    lacking = [one for one, usual in fields.items() if usual == "required" and one not in record]
    if lacking:
        raise DataError(f"the database of tau2-bench: {where} lacks {', '.join(lacking)}")
    whole = {**fields, **record}
    for name in spec["times"]:
        if isinstance(whole.get(name), str):
            whole[name] = whole[name].replace("T", " ")  # as observations show them
    return _with_decimals(whole, spec["decimals"], where.partition("/")[0])


def _with_decimals(value: Any, names: list[str], table: str, key: str = "") -> Any:
    if isinstance(value, dict):
        ranks = _RECORDS["key_order"]  # of the fields in the original's models
        keys = sorted(value, key=ranks.index) if value.keys() <= {*ranks} else value
        return {name: _with_decimals(value[name], names, table, name) for name in keys}
    if isinstance(value, list | tuple):
        return [_with_decimals(one, names, table, key) for one in value]
    is_decimal = key in names or f"{table}.{key}" in names
    return float(value) if is_decimal and type(value) is int else value


def _filled(given: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part of a phone with the keys that it leaves out."""
    return {
        **usual,
        **{
            name: _filled(value, usual[name])
            if isinstance(value, dict) and usual.get(name)
            else value
            for name, value in given.items()
        },
    }


def _original_tables(domain: Domain, spec: Any) -> dict[str, Any]:
    """Return the tables of tau-bench's data, which tau2-bench took over and corrected."""
    base = domain.name.removeprefix("tau3_")
    source = data_dir(None, base)
    if source.origin == "built-in":
        raise DataError(
            f"the source has no db.json, and tau-bench's data, which has the same {base} database, "
            f"is not here; run `skillwright data tau-bench --domain {base}`, or name another source"
        )
    tables: dict[str, Any] = json.loads(json.dumps(open_store(source.path, base).tables.records))
    for key, user in tables["users"].items():
        user["user_id"] = key
    for *path, last, value in spec.get("corrections", ()):
        holder = tables
        for one in path:
            holder = holder[one]
        holder[last] = value
    return tables


def _read(folder: Path, *names: str) -> bytes | None:
    for name in names:
        path = folder / name
        if path.is_file() and path.stat().st_size < _LARGEST:
            content = path.read_bytes()
            try:
                return gzip.decompress(content) if name.endswith(".gz") else content
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise DataError(f"{str(path)!r} is no whole gzip file: {error}") from error
    return None


def _text(folder: Path, stem: str) -> str:
    found = _read(folder, f"{stem}.md", f"{stem}.txt")
    if found is None:
        raise DataError(f"{str(folder)!r} has no {stem}.md of tau2-bench")
    return found.decode("utf-8", "replace")


def _json(folder: Path, stem: str) -> Any:
    found = _read(folder, f"{stem}.json", f"{stem}.json.gz")
    try:
        return None if found is None else json.loads(found)
    except ValueError as error:
        raise DataError(f"{str(folder / stem)!r}.json is not JSON: {error}") from error


def _listed(folder: Path, stem: str) -> Any:
    """Return the objects of a folder's files, or of one file."""
    if not (folder / stem).is_dir():
        return _json(folder, stem)
    return [_json(folder / stem, path.stem) for path in sorted((folder / stem).glob("*.json"))]


def _toml(folder: Path, stem: str) -> dict[str, Any]:
    found = _read(folder, f"{stem}.toml")
    try:
        return tomllib.loads((found or b"").decode("utf-8"))
    except ValueError as error:
        raise DataError(f"{str(folder / stem)!r}.toml is not TOML: {error}") from error
