"""The Codex command line as an agent and as an optimizer, against a fake that may behave badly."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from exec_fixtures import CANARIES, MESSAGES, SKILL, fakes, turn
from test_exec_process import is_alive

from skillwright.core import (
    ConfigError,
    Message,
    ModelRefused,
    ModelTimeout,
    Purpose,
    ReplyInvalid,
    RequestRefused,
    Sampling,
)
from skillwright.models import ContextOverflow
from skillwright.plugins.executors.report import ExecFault, OutputFlood
from skillwright.plugins.executors.workspace import say_unfenced, why_no_fence

__all__ = ["fakes"]

NO_FENCE = why_no_fence(nested=False)


async def ask(model, sampling=Sampling(), messages=MESSAGES):
    return await model.complete(messages, sampling=sampling, purpose=Purpose.REFLECT)


def left_of(*folders):
    return [folder for folder in map(Path, folders) if folder.exists()]


def processes_with(variable):
    """Return the processes that have a variable in their environment."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if variable.encode() in environ.read_bytes() and is_alive(environ.parent.name):
                found.append(environ.parent.name)
    return found


async def test_an_agent_acts_on_the_mounted_skill_and_is_told_it_too(fakes):
    agent = fakes.make("codex_exec")
    [act] = await agent.act_batch([turn()])
    assert act.text == "4"
    assert (act.usage.calls, act.usage.input_tokens, act.usage.cached_tokens) == (1, 900, 600)
    assert act.usage.cost_usd is None
    [seen] = fakes.seen()
    assert SKILL in seen["skills"][0]
    assert SKILL in seen["prompt"]
    assert ".agents/skills/skillopt-target/SKILL.md" in seen["prompt"]
    assert not left_of(seen["cwd"])


async def test_without_a_skill_nothing_is_mounted(fakes):
    [act] = await fakes.make("codex_exec").act_batch([turn(skill=" ")])
    assert act.text == "1"
    assert fakes.seen()[0]["files"] == []


async def test_acts_are_in_the_order_of_their_contexts(fakes):
    agent = fakes.make("codex_exec", max_concurrent=2)
    skills = [f"In the attic take door {door}." for door in (3, 5, 2)]
    acts = await agent.act_batch([turn(skill) for skill in skills])
    assert [act.text for act in acts] == ["3", "5", "2"]


async def test_the_command_is_the_narrowest_and_the_prompt_is_not_in_it(fakes):
    await fakes.make("codex_exec", effort="low").act_batch([turn()])
    [seen] = fakes.seen()
    argv = seen["argv"]
    assert argv[:9] == [
        *("exec", "--json", "--color", "never", "--skip-git-repo-check", "--ephemeral"),
        *("--ignore-user-config", "--ignore-rules", "--sandbox"),
    ]
    assert argv[9] == "read-only"
    assert argv[-1] == "-"
    overrides = [argv[index + 1] for index, word in enumerate(argv) if word == "-c"]
    assert overrides == [
        'web_search="disabled"',
        'shell_environment_policy.inherit="core"',
        'model_reasoning_effort="low"',
    ]
    assert not [word for word in argv if "attic" in word]


async def test_wider_permissions_are_named_and_only_an_agent_has_them(fakes):
    model = fakes.make(
        "codex_exec", sandbox="workspace-write", network=True, web_search=True, isolation="none"
    )
    await model.act_batch([turn()])
    await ask(model)
    as_agent, as_optimizer = sorted(fakes.seen(), key=lambda seen: not seen["skills"])
    assert "workspace-write" in as_agent["argv"]
    assert "sandbox_workspace_write.network_access=true" in as_agent["argv"]
    assert 'web_search="live"' in as_agent["argv"]
    assert "read-only" in as_optimizer["argv"]
    assert 'web_search="disabled"' in as_optimizer["argv"]
    assert not [word for word in as_optimizer["argv"] if "network_access" in word]
    assert as_optimizer["files"] == []


async def test_no_key_of_another_reaches_the_program_and_its_homes_are_fresh(fakes):
    await fakes.make("codex_exec").act_batch([turn()])
    [seen] = fakes.seen()
    assert not [value for value in CANARIES.values() if value in json.dumps(seen)]
    env = seen["env"]
    assert env["CODEX_API_KEY"] == "own-codex_api_key-0123456789"
    assert "own-anthropic" not in json.dumps(env)
    assert not left_of(env["HOME"], env["CODEX_HOME"], env["TMPDIR"])
    allowed = {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "HOME", "TMPDIR", "CODEX_HOME"}
    allowed |= {"CODEX_API_KEY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"}
    left = {name for name in env if not name.startswith("FAKE_")} - allowed
    assert {name for name in left if "proxy" not in name.lower() and "CERT" not in name} == set()


@pytest.mark.parametrize(
    ("behavior", "kind", "match"),
    [
        ("fails_quietly", ExecFault, "exit code 0.*at capacity.*Gave up after 2 attempts"),
        ("silent_limit", ExecFault, "used up looks"),
        ("crash", ExecFault, "exit code 101.*panicked"),
        ("half_a_line", ExecFault, "breaks off"),
        ("flood", OutputFlood, "more than 16 MB"),
        ("unauthorized", ModelRefused, "401 .*<redacted>.*Sign in"),
        ("plan_used_up", ModelRefused, "usage limit.*wait for its reset"),
        ("too_long", ContextOverflow, "Shorten"),
        ("empty", ReplyInvalid, "2 times without an answer"),
    ],
)
async def test_every_bad_end_is_a_typed_failure(behavior, kind, match, fakes):
    agent = fakes.make("codex_exec", behavior)
    with pytest.raises(kind, match=match) as caught:
        await agent.act_batch([turn()])
    assert type(caught.value) is kind
    runs = 1 if issubclass(kind, ModelRefused) else 2
    assert len(fakes.seen()) == runs


@pytest.mark.parametrize("behavior", ["reconnects", "noisy_exit", "no_usage"])
async def test_noise_around_a_completed_turn_is_no_failure(behavior, fakes):
    [act] = await fakes.make("codex_exec", behavior).act_batch([turn()])
    assert act.text == "4"
    assert act.usage.cost_usd is None


async def test_an_empty_answer_is_asked_for_again_and_both_runs_are_counted(fakes):
    [act] = await fakes.make("codex_exec", "empty_once").act_batch([turn()])
    assert act.text == "4"
    assert (act.usage.calls, act.usage.input_tokens) == (2, 1800)


async def test_a_program_that_hangs_is_killed_with_its_child(fakes):
    agent = fakes.make("codex_exec", "hang", timeout_s=1.5, max_attempts=1)
    with pytest.raises(ModelTimeout, match=r"ran past 1\.5 s"):
        await agent.act_batch([turn()])
    assert processes_with(f"FAKE_NOTES={fakes.notes}") == []


async def test_a_program_that_does_not_end_behind_its_result_is_read(fakes, monkeypatch, caplog):
    monkeypatch.setattr("skillwright.plugins.executors.model._LINGERS_S", 0.2)
    completion = await ask(fakes.make("codex_exec", "lingers"))
    assert (completion.text, completion.usage.output_tokens) == ("1", 40)
    assert "printed its result and did not end; it is ended" in caplog.text
    assert processes_with(f"FAKE_NOTES={fakes.notes}") == []


async def test_a_program_that_chatters_behind_its_result_is_read_at_its_timeout(fakes):
    [act] = await fakes.make("codex_exec", "chatters", timeout_s=1.5).act_batch([turn()])
    assert act.text == "4"
    assert processes_with(f"FAKE_NOTES={fakes.notes}") == []


async def test_a_failure_that_is_told_is_not_waited_out(fakes, monkeypatch):
    monkeypatch.setattr("skillwright.plugins.executors.model._LINGERS_S", 0.2)
    with pytest.raises(ExecFault, match="at capacity"):
        await ask(fakes.make("codex_exec", "fails_and_lingers", max_attempts=1))
    assert processes_with(f"FAKE_NOTES={fakes.notes}") == []


async def test_a_child_that_outlives_the_program_is_killed_and_the_answer_kept(fakes):
    [act] = await fakes.make("codex_exec", "forks").act_batch([turn()])
    assert act.text == "4"
    assert not is_alive(fakes.orphan())


async def test_an_optimizer_may_ask_for_a_schema_and_is_refused_what_there_is_not(fakes):
    model = fakes.make("codex_exec")
    completion = await ask(model, Sampling(max_tokens=99, seed=1, json_schema={"type": "object"}))
    assert completion.text
    argv = fakes.seen()[0]["argv"]
    assert argv[argv.index("--output-schema") + 1].endswith("schema.json")
    with pytest.raises(RequestRefused, match="takes no temperature"):
        await ask(model, Sampling(temperature=0.5))
    with pytest.raises(RequestRefused, match="takes no tools"):
        await model.complete([Message(role="user", content="x")], tools=[{}], purpose=Purpose.JUDGE)


async def test_a_key_of_openai_is_priced_by_its_list_and_a_gateway_is_not(fakes):
    [act] = await fakes.make("codex_exec", model="gpt-6.1-sol").act_batch([turn()])
    assert act.usage.cost_usd == pytest.approx((300 * 2.0 + 600 * 0.1 + 40 * 10.0) / 1e6)
    gateway = fakes.make("codex_exec", model="gpt-6.1-sol", base_url="http://localhost:1/v1")
    [act] = await gateway.act_batch([turn()])
    assert act.usage.cost_usd is None
    assert 'model_provider="skillwright"' in str([seen["argv"] for seen in fakes.seen()])


async def test_output_is_kept_for_people_without_the_key(fakes, tmp_path):
    agent = fakes.make("codex_exec", "unauthorized", keep_output=str(tmp_path / "kept"))
    with pytest.raises(ModelRefused):
        await agent.act_batch([turn()])
    files = sorted((tmp_path / "kept").rglob("*.txt"))
    assert [file.name for file in files] == [
        *("codex_prompt.txt", "codex_raw.txt", "codex_stderr.txt", "codex_trace_summary.txt")
    ]
    assert not [file for file in files if "own-codex" in file.read_text()]


async def test_a_secret_of_the_environment_is_in_nothing_that_is_kept(fakes, tmp_path):
    settings = {"keep_output": str(tmp_path / "kept"), "pass_env": ("HF_TOKEN",)}
    asked = [{"role": "user", "content": f"Is it {CANARIES['HF_TOKEN']}?"}]
    answer = await ask(fakes.make("codex_exec", "tells", **settings), messages=asked)
    assert answer.text == "It is <redacted>."
    kept = "".join(file.read_text() for file in (tmp_path / "kept").rglob("*.txt"))
    assert "Is it <redacted>?" in kept
    assert CANARIES["HF_TOKEN"] not in kept


async def test_of_many_runs_only_the_latest_that_failed_may_be_kept(fakes, tmp_path):
    kept = tmp_path / "kept"
    settings = {"keep_output": str(kept), "keep_failures": 2}
    await fakes.make("codex_exec", **settings).act_batch([turn()])
    assert list(kept.iterdir()) == []
    broken = fakes.make("codex_exec", "unauthorized", **settings)
    for _ in range(3):
        with pytest.raises(ModelRefused):
            await broken.act_batch([turn()])
    assert len(list(kept.iterdir())) == 2


def test_the_identity_names_program_model_and_settings(fakes):
    identity = fakes.make("codex_exec").identity
    assert identity.startswith("codex_exec:m-1@codex-cli 0.169.0#")
    assert fakes.make("codex_exec", timeout_s=9).identity == identity
    assert fakes.make("codex_exec", effort="high").identity != identity
    assert fakes.make("codex_exec", web_search=True).identity != identity


def test_a_program_that_is_missing_or_no_program_is_a_configuration_error(fakes, tmp_path):
    with pytest.raises(ConfigError, match=r"'/no/codex', which is not there.*Install it"):
        fakes.make("codex_exec", path="/no/codex")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(ConfigError, match="gives no version"):
        fakes.make("codex_exec", path=str(broken))


def test_a_variable_that_is_named_and_not_set_is_refused(fakes, monkeypatch, tmp_path):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    (tmp_path / "auth.json").write_text("{}")
    for backend in ("codex_exec", "claude_code_exec"):
        with pytest.raises(ConfigError, match=r"MY_KEY \(api_key_env\), which is not set"):
            fakes.make(backend, api_key_env="MY_KEY")


async def test_without_a_key_the_login_is_used_and_without_both_it_is_said(fakes, monkeypatch):
    monkeypatch.delenv("CODEX_API_KEY")
    monkeypatch.setenv("CODEX_HOME", str(fakes.folder / "mine"))
    with pytest.raises(ConfigError, match=r"neither a key nor a login: set .* CODEX_API_KEY"):
        fakes.make("codex_exec")
    (fakes.folder / "mine").mkdir()
    (fakes.folder / "mine" / "auth.json").write_text("{}")
    [act] = await fakes.make("codex_exec").act_batch([turn()])
    assert act.text == "4"
    assert not fakes.seen()[0]["env"]["CODEX_HOME"].endswith("mine")


@pytest.mark.skipif(bool(NO_FENCE), reason=f"no bubblewrap: {NO_FENCE}")
@pytest.mark.parametrize(
    ("sandbox", "could"), [("danger-full-access", "work home"), ("read-only", "home")]
)
async def test_inside_a_fence_the_run_s_own_folder_is_all_that_can_be_written(
    sandbox, could, fakes, monkeypatch
):
    # Codex's own sandbox needs a fence that nests; the fake has none.
    monkeypatch.setattr("skillwright.plugins.executors.codex.CodexExec.nests", lambda *_: False)
    agent = fakes.make("codex_exec", "writes", sandbox=sandbox, isolation="bwrap")
    [act] = await agent.act_batch([turn()])
    assert act.text == could
    assert list(fakes.outside.iterdir()) == []


@pytest.mark.skipif(bool(NO_FENCE), reason=f"no bubblewrap: {NO_FENCE}")
async def test_a_fenced_program_that_hangs_is_killed_too(fakes):
    agent = fakes.make(
        "codex_exec",
        "hang",
        timeout_s=1.5,
        max_attempts=1,
        sandbox="danger-full-access",
        isolation="bwrap",
    )
    with pytest.raises(ModelTimeout):
        await agent.act_batch([turn()])
    assert processes_with(f"FAKE_NOTES={fakes.notes}") == []


def test_a_fence_that_is_demanded_and_cannot_be_built_is_said(fakes):
    fakes.unfence()
    with pytest.raises(ConfigError, match=r"here: no bwrap\. Let it stand alone"):
        fakes.make("codex_exec", isolation="bwrap")
    with pytest.raises(ConfigError, match=r"here: no bwrap\. Install it"):
        fakes.make("claude_code_exec", isolation="auto", sandbox="workspace-write")
    assert fakes.make("codex_exec", isolation="auto")


@pytest.mark.parametrize(
    ("backend", "sandbox", "open_"),
    [
        ("codex_exec", "read-only", "writes only where its own sandbox lets it"),
        ("codex_exec", "danger-full-access", "can write wherever you can"),
        ("claude_code_exec", "read-only", "has tools that only read"),
        ("claude_code_exec", "danger-full-access", "can write wherever you can"),
    ],
)
def test_what_is_not_fenced_is_said_once_at_the_start(fakes, caplog, backend, sandbox, open_):
    fakes.unfence()
    say_unfenced.cache_clear()
    for _ in range(2):
        fakes.make(backend, isolation="auto", sandbox=sandbox)
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"{backend} runs without bubblewrap (no bwrap): it can read what you")
    assert f"your keys and this process's environment included, and {open_}." in said


def test_where_going_without_is_meant_nothing_is_said(fakes, caplog):
    fakes.unfence()
    say_unfenced.cache_clear()
    fakes.make("codex_exec", isolation="none")
    assert caplog.records == []
