"""SkyRL-Gym's environments by name, `skyrl_gym:gsm8k`: trained, checked, and their faults ours."""

import json
import re
import socket
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from typer.testing import CliRunner

from mock_openai import answer_with
from served import served
from skillwright.cli.app import app
from skillwright.core import Completion, DataError, EnvError
from skillwright.envs import make, spec
from skillwright.plugins.skyrl import make_for_skyrl

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a package's own are not ours to mend
    skyrl_gym = pytest.importorskip("skyrl_gym", reason="skyrl-gym 0.4.0 is not installed")
    from skyrl_gym.envs.base_text_env import BaseTextEnv

ASK = [{"role": "user", "content": "How much is 3 + 4?"}]
ROW = {"prompt": ASK, "reward_spec": {"ground_truth": "7"}}


class Pupil:
    """Adds, and writes the answer in the form that its skill asks for."""

    identity = "scripted:pupil"

    async def complete(self, messages, *, purpose, tools=(), sampling=None):
        said = "\n".join(message["content"] for message in messages)
        if "## Trajectories" in said or "## Patches" in said:
            edit = {"op": "append", "content": "Write the answer as #### N."}
            return Completion(json.dumps({"patch": {"edits": [edit]}, "edits": [edit]}))
        found = re.search(r"How much is (\d+) \+ (\d+)\?", said)
        if found is None:
            return Completion("ready")
        total = int(found[1]) + int(found[2])
        return Completion(
            f"#### {total}" if "####" in messages[0]["content"] else f"It is {total}."
        )


def test_a_skill_is_trained_on_gsm8k_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for split, count in {"train": 6, "val": 12, "test": 6}.items():
        rows = [
            {
                "id": f"{split}-{n}",
                "prompt": [{"role": "user", "content": f"How much is {n} + {n}?"}],
                "data_source": "sums",
                "reward_spec": {"method": "rule", "ground_truth": str(2 * n)},
            }
            for n in range(count)
        ]
        (tmp_path / "sums" / split).mkdir(parents=True)
        (tmp_path / "sums" / split / "items.json").write_text(json.dumps(rows))
    with served(answer_with(Pupil())) as server:
        llm = {
            "backend": "openai_chat",
            "model": "pupil",
            "base_url": server.base_url,
            "api_key": server.api_key,
        }
        settings = {
            "models": {"target": llm, "optimizer": llm},
            "env": {"name": "alfworld", "data": {"kind": "split_dir", "path": "sums"}},
            "train": {"epochs": 1, "batch_size": 6},
        }
        settings["env"]["name"] = "skyrl_gym:aime"  # --env has the last word
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(settings))
        words = ["train", "c.yaml", "--env", "skyrl_gym:gsm8k", "--json"]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    tables = list(json.loads(result.stdout)["test"]["tables"].values())
    assert tables[0]["overall"]["success_rate"] == 0.0
    assert tables[-1]["overall"]["success_rate"] == 1.0


@pytest.mark.parametrize("name", ["gsm8k", "gsm8k_multi_turn", "aime"])
def test_an_environment_is_checked_by_name(name):
    words = ["env", "check", f"skyrl_gym:{name}", "--fuzz", "50"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_an_unknown_name_has_a_nearest():
    with pytest.raises(DataError, match="Did you mean 'gsm8k'"):
        spec("skyrl_gym:gsm8").load()


def test_a_negative_reward_is_no_less_than_nothing():
    row = {"prompt": ASK, "reward_model": {"ground_truth": "7"}}
    wrong, right = make("skyrl_gym:aime", extras=row), make("skyrl_gym:aime", extras=row)
    out = wrong.step("Answer: 8")
    assert (out["reward"], out["metadata"]["gym_reward"]) == (0.0, -1.0)
    assert right.step("Answer: 7")["reward"] == 1.0


def test_rewards_of_many_turns_come_to_one_at_most():
    env = make("skyrl_gym:gsm8k_multi_turn", extras={**ROW, "max_turns": 4})
    env.init([])
    rewards = [env.step("#### 8")["reward"], env.step("#### 7")["reward"]]
    assert rewards[0] == pytest.approx(0.05)
    assert sum(rewards) == pytest.approx(1.0)
    assert env.get_metrics() == {"steps": 2.0}
    env.close()
    env.close()


class Breaking(BaseTextEnv):
    def __init__(self, env_config=None, extras=None):
        super().__init__()
        self.max_turns = 99

    def step(self, action):
        if action == "boom":
            raise RuntimeError("the simulator died")
        reward = float("nan") if action == "nan" else 0.0
        metadata = {"seen": action}
        return {"observations": [], "reward": reward, "done": False, "metadata": metadata}


@pytest.fixture
def breaking():
    skyrl_gym.register("breaking", entry_point=Breaking)
    yield "skyrl_gym:breaking"
    skyrl_gym.registry.pop("breaking")


def test_what_an_environment_raises_is_an_environments_fault(breaking):
    env = make(breaking, extras={"prompt": "Continue.", "max_turns": 2})
    assert env.init([])[0] == [{"role": "user", "content": "Continue."}]
    with pytest.raises(EnvError, match="simulator died"):
        env.step("boom")
    with pytest.raises(EnvError, match="nan"):
        env.step("nan")


def test_the_turn_limit_of_the_episode_holds(breaking):
    env = make(breaking, extras={"prompt": "Continue.", "max_turns": 2})
    first, last = env.step("a"), env.step("b")
    assert (first["done"], first["metadata"]["truncated"]) == (False, False)
    assert (last["done"], last["metadata"]["truncated"], last["metadata"]["seen"]) == (
        True,
        True,
        "b",
    )


SEARCH = {"prompt": ASK, "reward_spec": {"ground_truth": {"target": ["Paris"]}}, "max_turns": 3}


def test_search_says_which_endpoint_is_missing():
    with pytest.raises(DataError, match=r"env\.config\.search_url"):
        make("skyrl_gym:search", extras=SEARCH)
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/retrieve"
        with pytest.raises(DataError, match=r"nothing answers there.*search_url") as caught:
            make("skyrl_gym:search", {"search_url": url}, SEARCH)
    assert url in str(caught.value)


@pytest.fixture
def library():
    """A retrieval server that answers what it is told to."""
    answers = [(200, b"{}")]

    class Library(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            status, body = answers[0]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Library)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/retrieve", answers
    for pool in skyrl_gym.tools.SearchToolGroup._session_pool.values():
        pool.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_search_is_played_and_a_lost_server_is_no_observation(library):
    url, answers = library
    env = make("skyrl_gym:search", {"search_url": url}, SEARCH)
    env.init([])
    found = [[{"document": {"contents": "Paris is the capital."}, "score": 1.0}]]
    answers[0] = (200, json.dumps({"result": found}).encode())
    seen = env.step("<search>capital</search>")
    assert "Paris is the capital." in seen["observations"][0]["content"]
    answers[0] = (422, b"no such query")  # the agent's own
    assert "422" in env.step("<search>?</search>")["observations"][0]["content"]
    again = make("skyrl_gym:search", {"search_url": url}, SEARCH)
    answers[0] = (200, b"this is no JSON")
    with pytest.raises(EnvError, match=re.escape(url)):
        again.step("<search>capital</search>")


def test_columns_of_skyrls_data_do_not_disturb_an_environment_of_ours():
    row = {"generated": {"split": "train", "index": 0}, "data_source": "alfworld", "extra_info": {}}
    env = make_for_skyrl("alfworld", {}, {**row, "reward_spec": {}, "max_turns": 5})
    assert env.init([])[0]
    with pytest.raises(DataError, match="max_turn"):
        make_for_skyrl("alfworld", {}, {**row, "max_turn": 5})
