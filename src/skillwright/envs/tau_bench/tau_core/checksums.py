"""What every data file must be, to the byte: a score over other data is another score."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skillwright.core import DataError
from skillwright.core.jsonio import read_text
from skillwright.envs.tau_bench.tau_core.location import DATA_VARIABLE, FETCH_COMMAND

MANIFEST: Final = "SHA256SUMS"
"""A data set of one's own brings this file, as ``sha256sum *`` writes it."""

UPSTREAM: Final[Mapping[str, str]] = {
    "orders.json": "2598a12586d28f2d6bd16bc86f4c800029b6af18e0abb5c475ef5c869c11ced1",
    "products.json": "a9eabcc1a9742c5f5288c2779acce52b9308423383ed24706bbaf0889f762a0f",
    "rules.json": "9fdb9bd32797e10585ee77096e9ba184403b0ab7d32108e31210e2cddbcaf01a",
    "tasks_dev.json": "2132891e3f01e736f38ee972274c972f2cd4a57f822066d2968ee42b751cde44",
    "tasks_test.json": "7f452f9380a11c91254c9ab13e15ceb8a4f222175cc274d4243fd744eed9eb67",
    "tasks_train.json": "3e36fd821dead3767f1f456efdeb4d62c824b7d2cf280971ce0689797f8071c6",
    "tools.json": "da43b49f4783a9aa82f97f125b2f4c9b56d053cc27e09903ad0ae075026d72ac",
    "users.json": "6f4fd104cc5e80b92166c4035315c31532c6cea52a90dcdf18425ee7f87c2b82",
    "wiki.md": "d539fd2a46a8b8dd2e934ff9ed92f43e9f6b56bc7a718db8d2803ba8ad8f6bf7",
}
"""The retail data of tau-bench at commit 59a200c, converted to JSON."""


def manifest_of(folder: Path) -> Mapping[str, str]:
    """Return file name -> SHA-256: from the folder's own manifest, else tau-bench's."""
    path = folder / MANIFEST
    if not path.is_file():
        return UPSTREAM
    sums: dict[str, str] = {}
    for number, line in enumerate(read_text(path, "checksum file").splitlines(), 1):
        digest, _, name = line.partition(" ")
        if len(digest) != 64 or not name.lstrip(" *"):
            raise DataError(f"{str(path)!r}, line {number}: not '<sha256>  <file>' but {line!r}")
        sums[name.lstrip(" *")] = digest.lower()
    return sums


def checked_bytes(folder: Path, name: str, manifest: Mapping[str, str]) -> bytes:
    """Read a data file and compare it with its checksum."""
    path, again = folder / name, f"run `{FETCH_COMMAND}`"
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(
            f"tau-bench data: there is no {str(path)!r}; {again}, or set {DATA_VARIABLE} (or "
            "env_config.data_dir) to a folder that has it"
        ) from error
    except OSError as error:
        raise DataError(f"tau-bench data {str(path)!r} cannot be read: {error.strerror}") from error
    expected, found = manifest.get(name), hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DataError(
            f"tau-bench data {str(path)!r} is not what it must be: SHA-256 {found}, expected "
            f"{expected or 'one in the ' + MANIFEST + ' beside it'}. It is damaged or was changed; "
            f"{again}. Data of your own needs a {MANIFEST} file (`sha256sum * > {MANIFEST}`)."
        )
    return content
