"""The skills of each version, of which only what changed is stored."""

import json
from typing import Any

from skillwright.bank.bank import Bank, SkillStats
from skillwright.bank.errors import BankError
from skillwright.bank.formats.items import item_of, skill_of
from skillwright.bank.store.file import BankFile
from skillwright.core import BankSkill, DataError
from skillwright.core.jsonio import dumps

# Of a group, SQLite takes the bare columns from the row that has the maximum.
_WORDINGS_AS_OF = """
    SELECT * FROM (
        SELECT skills.number, skills.id, content, body, max(version)
        FROM wordings JOIN skills ON skills.number = wordings.skill
        WHERE version <= ? GROUP BY wordings.skill
    ) WHERE body IS NOT NULL ORDER BY number
"""


class WordingTable:
    """The tables ``skills`` and ``wordings`` of a bank's file."""

    def __init__(self, file: BankFile) -> None:
        self._file = file

    def as_of(self, version: int) -> tuple[tuple[BankSkill, ...], dict[str, str]]:
        """Return the skills of a version, and their content digests by id.

        Raises:
            BankError: A skill cannot be read.
        """
        rows = self._file.rows(_WORDINGS_AS_OF, (version,))
        try:
            skills = tuple(_read(row["id"], row["body"], row["content"]) for row in rows)
        except (ValueError, DataError) as error:
            raise BankError(
                f"{self._file.path}: version {version} is damaged ({error}). Restore the file "
                "from a copy, or import the bank's last export into a new file."
            ) from error
        return skills, {row["id"]: row["content"] for row in rows}

    def keep(self, before: Bank, after: Bank) -> None:
        """Store what differs between a version and the next one."""
        old = {skill.id: skill for skill in before.skills}
        changed = [skill for skill in after.skills if old.get(skill.id) != skill]
        self._file.write_many(
            "INSERT OR IGNORE INTO skills (id) VALUES (?)", [(skill.id,) for skill in changed]
        )
        digests = after.content_digests
        rows: list[tuple[Any, ...]] = [
            (after.version, digests[skill.id], _written(skill), skill.id) for skill in changed
        ]
        rows += [(after.version, None, None, key) for key in old if key not in after]
        self._file.write_many(
            "INSERT INTO wordings (skill, version, content, body)"
            " SELECT number, ?, ?, ? FROM skills WHERE id = ?",
            rows,
        )


def _written(skill: BankSkill) -> str:
    item = item_of(skill, SkillStats())
    return dumps({key: value for key, value in item.items() if key not in ("id", "stats")})


def _read(skill_id: str, body: str, content: str) -> BankSkill:
    skill, _ = skill_of({"id": skill_id, **json.loads(body)}, f"skill {skill_id}")
    if skill.content_digest != content:
        raise DataError(f"skill {skill_id} does not have the digest that was kept")
    return skill
