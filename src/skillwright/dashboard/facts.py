"""What a run was made of: models, data, scorer, configuration and date; and tables as CSV."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from skillwright.dashboard.reading import RunReader, plain
from skillwright.jobs.inspect import RunSummary
from skillwright.runs.folder import CONFIG_NAME

_FORMULA = re.compile(r"[=+@\t\r-]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def config_text(folder: Path) -> str:
    """Return the stored configuration of a run, or ""."""
    path = folder / CONFIG_NAME
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def facts_of(summary: RunSummary, reader: RunReader) -> list[tuple[str, str]]:
    """Return the models, data, scorer, configuration and date of a run, as far as it has them."""
    try:
        config = yaml.safe_load(config_text(reader.folder))
    except yaml.YAMLError:
        config = None
    found = [("date", f"{summary.started} UTC")] if summary.started else []
    if isinstance(config, Mapping):
        found += list(_of_config(config, reader))
    return found


def _of_config(config: Mapping[str, Any], reader: RunReader) -> Iterator[tuple[str, str]]:
    for role, llm in _mapping(config, "models").items():
        if isinstance(llm, Mapping) and llm.get("backend"):
            where = f" at {llm['base_url']}" if llm.get("base_url") else ""
            yield plain(role), f"{llm['backend']}:{llm.get('model', '')}{where}"
    env = _mapping(config, "env")
    data, settings = _mapping(env, "data"), _mapping(env, "config")
    rows = reader.database.rows(
        "SELECT split, count(DISTINCT task_id) AS n FROM episodes WHERE split != '' GROUP BY split"
    )
    played = {row["split"]: row["n"] for row in rows}
    order = ("train", "val", "test")
    sizes = ", ".join(f"{played[split]:,} {split}" for split in order if split in played)
    kind = data.get("path") or plain(data.get("kind", ""))
    yield "environment", str(env.get("name", ""))
    yield "data", f"{kind}" + (f"; tasks played: {sizes}" if sizes else "")
    scorer = settings.get("scorer")
    if isinstance(scorer, Mapping):
        scorer = scorer.get("function") or scorer.get("kind")
    least = env.get("success_threshold")
    solved = "" if least is None else f"solved from {least:g}"
    yield "scorer", ", ".join(filter(None, (str(scorer or "the environment's reward"), solved)))
    gate = _mapping(_mapping(config, "evaluation"), "gate").get("kind")
    train = _mapping(config, "train")
    parts = (
        f"{gate} gate" if gate else "",
        f"{train['epochs']} epoch{'' if train['epochs'] == 1 else 's'}"
        if "epochs" in train
        else "",
        f"seed {_mapping(config, 'run')['seed']}" if "seed" in _mapping(config, "run") else "",
    )
    yield "configuration", ", ".join(filter(None, parts))


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if isinstance(found, Mapping) else {}


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write rows as CSV; a text that a spreadsheet would run as a formula begins with ``'``."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"
