"""Secrets are taken out, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core.secrets import REDACTED, environment_secrets, is_secret_name
from skillwright.runs import Redactor, redact

SECRET_NAMES = [
    "api_key",
    "apiKey",
    "APIKey",
    "x-api-key",
    "OPENAI_API_KEY",
    "azure_openai_api_key",
    "qwen_chat_api_key",
    "openai_key",
    "secret_access_key",
    "private_key",
    "api_keys",
    "token",
    "HF_TOKEN",
    "auth_token",
    "accessToken",
    "access_tokens",
    "password",
    "db_password",
    "passwd",
    "client_secret",
    "secrets",
    "credentials",
    "Authorization",
    "Cookie",
]
HARMLESS_NAMES = [
    "",
    "key",
    "keys",
    "episode_key",
    "primary_key",
    "api_key_env",
    "api_key_file",
    "token_count",
    "tokens",
    "max_tokens",
    "input_tokens",
    "max_completion_tokens",
    "tokens_per_s",
    "eos_token",
    "pad_token",
    "tokenizer",
    "token_type",
    "monkey",
    "keyboard",
    "author",
    "secretary",
    "auth_mode",
    "azure_openai_auth_mode",
    "pass_1",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_secret_name_hides_its_value(name):
    assert redact({name: "abc"}) == {name: REDACTED}
    assert redact({name: {"inner": ["abc", None, True]}}) == {
        name: {"inner": [REDACTED, None, True]}
    }
    assert redact(f'{name}: "abc", n=1') == f'{name}: "{REDACTED}", n=1'
    assert redact(f"{name}=abc") == f"{name}={REDACTED}"


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_a_harmless_name_keeps_its_value(name):
    assert not is_secret_name(name)
    assert redact({name: "abc"}) == {name: "abc"}
    assert redact(f"{name}: abc, n=1") == f"{name}: abc, n=1"


@pytest.mark.parametrize("empty", ["", None, True, False, "${OPENAI_API_KEY}", "null"])
def test_what_is_no_secret_under_a_secret_name_stays(empty):
    assert redact({"api_key": empty}) == {"api_key": empty}


def test_a_number_is_a_count_under_token_and_a_secret_under_password():
    assert redact({"token": 7, "password": 7}) == {"token": 7, "password": REDACTED}
    assert redact("token=7 password=7") == f"token=7 password={REDACTED}"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Wrong API key: sk-proj-abcd1234efgh.", f"Wrong API key: {REDACTED}."),
        ("sk-ant-api03-abcdefghijkl", REDACTED),
        ("ghp_" + "a1" * 18, REDACTED),
        ("hf_" + "aB" * 17, REDACTED),
        ("AIza" + "x" * 35, REDACTED),
        ("AKIA" + "ABCD" * 4, REDACTED),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", REDACTED),
        ("'Authorization: Bearer abc123def456'", f"'Authorization: {REDACTED} {REDACTED}'"),
        ("sent bearer abc123def456 to it", f"sent bearer {REDACTED} to it"),
        ("Authorization: Basic dXNlcjpw", f"Authorization: {REDACTED} {REDACTED}"),
        ("https://me:hunter2@host:80/v1?x=1", f"https://{REDACTED}@host:80/v1?x=1"),
        ("https://host/v1?key=AbCdEf0123456789xyz&alt=1", f"https://host/v1?key={REDACTED}&alt=1"),
        ("run --api-key abc --name x", f"run --api-key {REDACTED} --name x"),
        ("Config(api_key='abc', n=1)", f"Config(api_key='{REDACTED}', n=1)"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", REDACTED),
    ],
)
def test_a_value_that_looks_like_a_secret_is_taken_out_of_any_text(text, clean):
    assert redact(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "Put the task-lamp on desk-lamp-stand-12 with key=short.",
        "The bearer credentials were refused.",
        "max_tokens=100 exceeds the limit of 50 tokens: ask for less",
        "go to cabinet 1; the key: none",
        "see https://example.com/a:b?c=d",
        "step 3: reject (0.42 -> 0.40, p = 0.61)",
    ],
)
def test_ordinary_text_stays_as_it_is(text):
    assert redact(text) == text


def test_a_value_keeps_its_shape():
    value = {"a": [1, 2.5, None, True, ("x", "y")], "b": {"api_key": "z"}}
    assert redact(value) == {"a": [1, 2.5, None, True, ["x", "y"]], "b": {"api_key": REDACTED}}


@pytest.mark.parametrize("word", ["a", "a.", "-a", "a=", "key='", "bearer ", "://a", "eyJ", "sk-"])
def test_long_text_is_searched_in_time_linear_in_its_length(word):
    text = word * 100_000  # took minutes where every letter began a search of its own
    assert isinstance(redact(text), str)


NAMES = ["api_key", "password", "token", "Authorization", "key=", "Bearer ", "Bearer", "--"]
VALUES = ["sk-", "abcdefgh1234", "${A}", "7", "null", REDACTED]
MARKS = [":", "=", '"', "'", "@", "://", ",", "{", "}", " ", "\n"]
PIECES = st.sampled_from([*NAMES, *VALUES, *MARKS])


@given(st.lists(PIECES, max_size=12).map("".join))
def test_redacting_twice_changes_nothing_more(text):
    once = redact(text)
    assert redact(once) == once


def test_known_secrets_are_replaced_wherever_they_stand():
    redactor = Redactor(["hunter2hunter2", "hunter2hunter2-long", 'with"quote'])
    assert redactor.exact("a hunter2hunter2-long b") == f"a {REDACTED} b"
    assert redactor.exact('{"x": "with\\"quote"}') == f'{{"x": "{REDACTED}"}}'
    assert redactor.exact("?q=with%22quote") == f"?q={REDACTED}"
    assert redactor.clean({"said": ["hunter2hunter2", {"n": 1}], "api_key": "k"}) == {
        "said": [REDACTED, {"n": 1}],
        "api_key": REDACTED,
    }


def test_the_environment_holds_secrets_by_name_and_by_look(tmp_path):
    held = {
        "HF_TOKEN": "canary-0123456789",
        "AWS_SECRET_ACCESS_KEY": "/abcDEF123+xyz/0123456789",
        "DB_PASSWORD": " tr0ub4dor&3 ",
        "MY_SETTING": "sk-proj-0123456789",
        "OTHER": "ghp_0123456789abcdefghijABCDEFGHIJ",
    }
    others = {
        "PWD": str(tmp_path),
        "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path),
        "HOME": "/root",
        "POSTGRES_PASSWORD": "postgres",
        "MY_TOKEN": "1234567890",
        "AN_API_KEY": "EMPTY",
        "SOME_SECRET": "two words of it",
        "MAX_TOKENS": "4096-and-more",
    }
    found = environment_secrets({**held, **others})
    assert found == [value.strip() for value in held.values()]


def test_the_environment_of_the_process_is_the_one_that_is_looked_at(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "canary-0123456789")
    assert "canary-0123456789" in environment_secrets()


def test_a_redactor_without_secrets_or_with_tiny_ones_changes_no_text():
    for redactor in (Redactor(), Redactor(["", "a", "go to"])):
        assert redactor.exact("api_key: go to cabinet 1") == "api_key: go to cabinet 1"


@given(st.text(min_size=6).filter(lambda t: len(t.strip()) >= 6), st.text(), st.text())
def test_no_known_secret_survives(secret, before, after):
    hidden = Redactor([secret]).exact(f"{before}{secret}{after}")
    assert secret.strip() not in hidden.replace(REDACTED, "\0")
