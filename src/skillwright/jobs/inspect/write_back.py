"""Write a trained skill back into the folder of the ``SKILL.md`` that its run began with."""

import difflib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from skillwright.bank.formats.agent_skills import EVIDENCE_FILE, why_live
from skillwright.config.load import load_config
from skillwright.core import RunError, UsageError
from skillwright.core.jsonio import read_text, write_text
from skillwright.core.skill_file import SKILL_FILE, read_skill_file
from skillwright.evaluation import gain_text
from skillwright.jobs.inspect.evidence import files_of, is_evidence, is_same_but_signed
from skillwright.jobs.inspect.export_skills import document_evidence, evidence_text
from skillwright.jobs.inspect.provenance import StoredSkill
from skillwright.jobs.run import KEPT_SKILL
from skillwright.jobs.text.state import restore
from skillwright.runs import RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME

_GIT_TIMEOUT_S = 30
_NOT_COPIED = (".git", "__pycache__")


@dataclass(frozen=True, slots=True)
class FolderExport:
    """The changes of an export to a folder.

    Attributes:
        folder: The folder of the skill.
        copied_from: The folder whose other files are copied first, if ``folder`` is new.
        changed: New contents by path in the folder; other files stay unchanged.
        diff: The change of the skill, as a unified diff.
        proof: What the evidence says, or why there is none.
        is_stale: Whether the evidence in the folder is of another version, and is removed.
    """

    folder: Path
    copied_from: Path | None
    changed: dict[str, str]
    diff: str
    proof: str = ""
    is_stale: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the export as a JSON object."""
        return {
            key: str(one) if isinstance(one, Path) else one for key, one in asdict(self).items()
        }

    def write(self) -> None:
        """Write the changed files, all or none.

        Raises:
            UsageError: The folder cannot be written.
        """
        try:
            if self.copied_from is not None:
                ignored = shutil.ignore_patterns(*_NOT_COPIED)
                shutil.copytree(
                    self.copied_from, self.folder, symlinks=True, ignore=ignored, dirs_exist_ok=True
                )
            write_files(self.folder, self.changed)
            if self.is_stale:
                (self.folder / EVIDENCE_FILE).unlink()
                with suppress(OSError):  # other files are in it
                    (self.folder / EVIDENCE_FILE).parent.rmdir()
        except OSError as error:
            raise UsageError(f"{str(self.folder)!r} cannot be written: {error}") from error


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files of a folder with their modes; if one cannot be written, put the others back.

    Raises:
        OSError: A file cannot be written.
    """
    before: dict[Path, bytes | None] = {}
    try:
        for name, text in texts.items():
            path = folder / name
            old, mode = (path.read_bytes(), path.stat().st_mode) if path.exists() else (None, None)
            write_text(path, text)
            before[path] = old
            if mode is not None:
                path.chmod(mode)
    except OSError:
        for path, old in before.items():
            with suppress(OSError):
                path.unlink() if old is None else path.write_bytes(old)
        raise


def began_with_folder(run: Path) -> bool:
    """Tell whether a run trains the body of a SKILL.md."""
    return (run / KEPT_SKILL / SKILL_FILE).is_file()


def folder_of(run: Path) -> Path:
    """Return the folder of the SKILL.md that a run began with."""
    init = Path(load_config(run / CONFIG_NAME).skill.init)
    return init.parent if init.name == SKILL_FILE else init


async def plan_folder_export(
    skill: StoredSkill, folder: Path, sign_with: Path | None = None
) -> FolderExport:
    """Compare a version of a skill and its evidence with a folder; nothing is written.

    Args:
        skill: The version to export.
        folder: The folder that the run began with, a copy of it, or a new one.
        sign_with: File of an Ed25519 key that signs the evidence.

    Raises:
        UsageError: The run did not begin with a SKILL.md, the folder holds something else, or there
            is no evidence to sign.
        RunError: The folder changed since the run began, or a client would run a new line.
    """
    plan, text = _text_export(skill, folder)
    source = plan.copied_from or folder
    after = files_of(source) | {name: body.encode() for name, body in text.items()}
    proof, written = await _evidence(skill, after, sign_with)
    old = _evidence_in(source)
    if written and sign_with is None and is_same_but_signed(written, old):
        written = old
    changed = dict(plan.changed)
    if written and (plan.copied_from or written != old):
        changed[EVIDENCE_FILE] = written
    return replace(plan, changed=changed, proof=proof, is_stale=bool(old and not written))


def _text_export(skill: StoredSkill, folder: Path) -> tuple[FolderExport, dict[str, str]]:
    """Return the export without the evidence, and the files of the version."""
    if not began_with_folder(skill.run):
        raise UsageError(
            f"{skill.run.name} did not begin with a SKILL.md, so there is no folder to write it "
            "back to; --output DIR makes a new one"
        )
    first = read_skill_file(skill.run / KEPT_SKILL)
    old = {name: _content(first.path.parent / name) or "" for name in first.names}
    new = old | first.with_text(skill.text)
    copied_from = None
    if (folder / SKILL_FILE).is_file():
        now: dict[str, str | None] = {name: _content(folder / name) for name in new}
        with RunStore.open(skill.run / STORE_NAME, read_only=True) as store:
            texts = [store.skill(one.version) for one in store.skills()]
        _refuse_changed(folder, now, [old | first.with_text(text) for text in texts], skill.run)
        _refuse_overwriting(
            folder, {name: text for name, text in now.items() if text != new[name]}, old
        )
    else:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{str(folder)!r} holds no skill, and other files; name a new folder")
        copied_from = folder_of(skill.run)
        if not copied_from.is_dir():
            raise UsageError(
                f"{str(copied_from)!r}, whose other files would be copied, is gone; restore it, or "
                "export the skill alone with --name NAME"
            )
        now = dict(old)
    diff = "".join(_diff(name, now[name] or "", text) for name, text in new.items())
    changed = {name: text for name, text in new.items() if copied_from or text != now[name]}
    before = "\n".join(old.values())
    for line in diff.splitlines():
        is_new = line.startswith("+") and not line.startswith("+++ ")
        if is_new and (live := why_live(line[1:])) and live not in before:
            raise RunError(
                f"a client would expand or run {live!r}, which training put into the skill; with "
                "--name NAME it is exported as text in a new folder"
            )
    return FolderExport(folder, copied_from, changed, diff), new


async def _evidence(
    skill: StoredSkill, files: Mapping[str, bytes], sign_with: Path | None
) -> tuple[str, str]:
    """Return what the evidence of a folder says, or why there is none; and its text.

    Raises:
        UsageError: There is none to sign, or the key cannot be read.
    """
    with RunStore.open(skill.run / STORE_NAME, read_only=True) as store:
        config = load_config(skill.run / CONFIG_NAME)
        found, _ = await document_evidence(config, store, skill.run, skill.version)
        against = restore(config, store).caveats_of(skill.version)
    if isinstance(found, str):
        if sign_with is not None:
            raise UsageError(f"there is no evidence to sign: {found}")
        return f"not proven, so without evidence: {found}", ""
    said = (
        f"proven: {found.text.name} gained {gain_text(found.result.effect or 0)} over "
        f"{found.compared_with.name} in its test on {len(found.scores)} val tasks"
        f"{''.join(f'. {one}' for one in against.values())}"
    )
    return said, evidence_text(found, files, skill.text, sign_with)


def _evidence_in(folder: Path) -> str:
    """Return the text of the evidence in a folder, or "".

    Raises:
        UsageError: The file is not ours.
    """
    text = _content(folder / EVIDENCE_FILE) or ""
    if text and not is_evidence(text):
        raise UsageError(
            f"{str(folder / EVIDENCE_FILE)!r} is a file of yours, and the evidence has this name; "
            "give yours another one"
        )
    return text


def _content(path: Path) -> str | None:
    return read_text(path, "skill") if path.is_file() else None


def _refuse_changed(
    place: Path, now: Mapping[str, str | None], versions: Sequence[Mapping[str, str]], run: Path
) -> None:
    """Refuse a folder with files that equal no version of the run.

    Raises:
        RunError: A file changed meanwhile; the message names it.
    """
    for name, text in now.items():
        if all(text != files[name] for files in versions):
            what = "is gone" if text is None else "changed"
            raise RunError(
                f"{str(place / name)!r} {what} since {run.name} began, so the export would "
                "undo that; write it to a new folder with --output DIR, and merge the two by hand"
            )


def _refuse_overwriting(
    folder: Path, replaced: Mapping[str, str | None], first: Mapping[str, str]
) -> None:
    """Refuse to replace a link, or a text from before the run that git does not hold.

    Raises:
        RunError: The file is a link, or has changes from before the run that are not committed.
    """
    for name, text in replaced.items():
        path = folder / name
        if path.is_symlink():
            raise RunError(
                f"{str(path)!r} is a link, which the export would replace; export to the folder "
                f"that holds {str(path.resolve())!r}, or to a new one with --output DIR"
            )
        if text == first[name] and _is_uncommitted(path):
            raise RunError(
                f"{str(path)!r} has changes of yours that git does not hold, so the change by "
                "training could not be distinguished; commit or stash them first"
            )


def _is_uncommitted(path: Path) -> bool:
    """Tell whether git follows a file and holds another text of it."""
    # A repository's own monitor is not started.
    command = ["git", "-c", "core.fsmonitor=false", "status", "--porcelain"]
    command += ["--untracked-files=no", "--", path.name]
    try:
        done = subprocess.run(
            command, cwd=path.parent, capture_output=True, check=True, timeout=_GIT_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):  # no git, or no repository
        return False
    return bool(done.stdout.strip())


def _diff(name: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"a/{name}", f"b/{name}", lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)
