"""tau-bench's own words for its user: read from a copy of it, never run, never shipped."""

import hashlib
import sys

import pytest

from skillwright.core import Completion, DataError
from skillwright.worlds.tau_bench import UserSetting, read_config, upstream_words
from skillwright.worlds.tau_bench.upstream import fetch_tau_bench
from skillwright.worlds.tau_bench.upstream_words import PUBLISHED, template_of, user_words
from skillwright.worlds.tau_bench.user_model import ModelUser
from skillwright.worlds.tau_bench.users import GREETING
from tau_checkout import USER_PY, USER_WORDS, write_checkout
from tau_store import make_env, write_store


@pytest.fixture(autouse=True)
def nothing_is_remembered():
    upstream_words._found.cache_clear()


@pytest.fixture
def shop(tmp_path):
    return write_store(tmp_path / "shop")


def words(shop, **settings):
    return user_words(read_config({"data_dir": str(shop), "user_prompt": "tau-bench", **settings}))


def test_they_are_read_from_a_checkout_or_a_package_that_the_settings_name(shop, tmp_path):
    checkout = write_checkout(tmp_path / "checkout")
    for folder in (checkout, checkout / "tau_bench"):
        found = words(shop, tau_bench_dir=str(folder))
        assert found.template == USER_WORDS
        assert found.origin == str(checkout / "tau_bench" / "envs" / "user.py")
        assert not found.is_published


def test_the_fetch_puts_them_beside_the_data_and_there_they_are_found(tmp_path):
    checkout = write_checkout(tmp_path / "checkout")
    fetch_tau_bench(tmp_path / "data", str(checkout), any_version=True)
    found = words(tmp_path / "data")
    assert (found.template, found.origin) == (
        USER_WORDS,
        str(tmp_path / "data" / "user_prompt.txt"),
    )
    # They are no part of the data: its checksum is as it was before there were any.
    (tmp_path / "data" / "user_prompt.txt").unlink()
    upstream_words._found.cache_clear()
    with pytest.raises(DataError, match="not shipped"):
        words(tmp_path / "data")


def test_they_are_found_in_an_installed_package_without_importing_it(shop, tmp_path, monkeypatch):
    site = write_checkout(tmp_path / "site")
    (site / "tau_bench" / "__init__.py").write_text("raise RuntimeError('it was imported')\n")
    monkeypatch.syspath_prepend(str(site))
    assert words(shop).template == USER_WORDS
    assert "tau_bench" not in sys.modules


def test_where_there_are_none_the_message_names_three_ways(shop, tmp_path):
    with pytest.raises(DataError) as caught:
        words(shop)
    for way in ("skillwright data tau-bench", "tau_bench_dir", "install its package"):
        assert way in str(caught.value)
    with pytest.raises(DataError, match=r"holds neither 'tau_bench/envs/user\.py' nor"):
        words(shop, tau_bench_dir=str(tmp_path))


def test_an_environment_without_them_does_not_begin(shop):
    settings = {"user_prompt": "tau-bench", "user_strategy": "llm", "tools": "native"}
    with pytest.raises(DataError, match="not shipped"):
        make_env(shop, **settings)
    make_env(shop, user_prompt="tau-bench")  # its user is a script


class Listener:
    """A model that keeps what it was told."""

    identity = "listener"

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        self.heard = list(messages)
        return Completion("Hello.")


async def test_the_user_is_told_them_with_its_instruction_in_its_place(shop, tmp_path):
    checkout = write_checkout(tmp_path / "checkout")
    config = read_config(
        {"data_dir": str(shop), "user_prompt": "tau-bench", "tau_bench_dir": str(checkout)}
    )
    model = Listener()
    user = ModelUser(UserSetting(config, "test", 0), model)
    assert await user.areset("Ask for {instruction} and \\1.") == "Hello."
    role = USER_WORDS.replace("{instruction}", "Ask for {instruction} and \\1.")
    assert [one["content"] for one in model.heard] == [role, GREETING]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return open('/etc/passwd').read()", "Call stands where a text"),
        ("return instruction.upper()", "Call stands where"),
        ("return f'{instruction!r}'", "FormattedValue stands"),
        ("return f'{instruction:>9}'", "FormattedValue stands"),
        ("return unknown", "Name stands"),
        ("while True: pass", "While stands"),
        ("instruction += 'x'\n        return instruction", "AugAssign stands"),
        ("'only a comment'", "FunctionDef stands"),
        ("return 'no place for it'", "has the instruction 0 times"),
        ("return instruction + instruction", "has the instruction 2 times"),
        ("return (((", "is not Python"),
    ],
)
def test_a_file_that_only_running_could_tell_is_refused(body, why):
    head = "class LLMUserSimulationEnv:\n    def build_system_prompt(self, instruction):"
    source = f"{head}\n        {body}\n"
    with pytest.raises(DataError, match=why):
        template_of(source, "'user.py'")


@pytest.mark.parametrize("source", ["", "class Other: pass", "class LLMUserSimulationEnv: pass"])
def test_another_file_is_no_user_of_tau_bench(source):
    with pytest.raises(DataError, match=r"no user\.py of tau-bench"):
        template_of(source, "'user.py'")


def test_it_is_the_text_that_its_function_returns():
    space = {}
    exec(USER_PY.replace("from litellm import completion", ""), space)
    built = space["LLMUserSimulationEnv"]().build_system_prompt("Ask.")
    assert template_of(USER_PY, "here").replace("{instruction}", "Ask.") == built


def test_a_link_out_of_the_checkout_is_not_followed(tmp_path):
    checkout = write_checkout(tmp_path / "checkout")
    path = checkout / "tau_bench" / "envs" / "user.py"
    path.rename(tmp_path / "elsewhere.py")
    path.symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(DataError, match="leaves the checkout"):
        fetch_tau_bench(tmp_path / "data", str(checkout), any_version=True)


def test_the_published_words_are_known_by_their_digest_only():
    assert len(PUBLISHED) == 64
    assert hashlib.sha256(USER_WORDS.encode()).hexdigest() != PUBLISHED
