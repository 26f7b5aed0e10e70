"""Our environments behind `skyrl_gym.make`, and skyrl-gym's own in our engine."""

import json
import sqlite3
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from skillwright.core import Act, DataError, EpisodeSpec, PlainSkill, Task
from skillwright.plugins.skyrl import SkyRLGymEnv, register_with_skyrl, tau_bench_rows
from skillwright.rollout import LocalEngine
from tau_airline import write_airline
from tau_store import CANCEL, OPENING, tool_call, write_store

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a package's own are not ours to mend
    skyrl_gym = pytest.importorskip("skyrl_gym", reason="skyrl-gym 0.4.0 is not installed")
    from omegaconf import OmegaConf
    from skyrl_gym.envs.base_text_env import BaseTextEnv


@pytest.fixture
def registered():
    before = dict(skyrl_gym.registry)
    yield register_with_skyrl()
    skyrl_gym.registry.clear()
    skyrl_gym.registry.update(before)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("shop"))


def made(shop, **extras):
    config = {"data_dir": str(shop), "user_strategy": "scripted", "user_replies": [OPENING]}
    row = {"task_index": 0, "task_split": "test", "max_turns": 5, **extras}
    return skyrl_gym.make("tau_bench", env_config=OmegaConf.create(config), extras=row)


# Ours in theirs


def test_skyrl_gym_makes_the_airline_by_its_setting(registered, tmp_path):
    script = {"user_strategy": "scripted", "user_replies": [OPENING]}
    config = {"domain": "airline", "data_dir": str(write_airline(tmp_path)), **script}
    (row, *_) = tau_bench_rows("test", config)
    extras = {name: row[name] for name in row if name not in ("prompt", "env_class")}
    env_config = OmegaConf.create(config)
    with skyrl_gym.make(row["env_class"], env_config=env_config, extras=extras) as env:
        env.init(row["prompt"])
        env.step(tool_call("cancel_reservation", reservation_id="AAA111"))
        assert env.step("It is cancelled.")["reward"] == 1.0


def test_skyrl_gym_makes_our_environment_and_drives_it_to_its_reward(registered, shop):
    assert "tau_bench" in registered
    with made(shop) as env:
        assert isinstance(env, BaseTextEnv)
        assert env.spec.id == "tau_bench"
        messages, metadata = env.init([{"role": "user", "content": "a placeholder"}])
        assert [message["role"] for message in messages] == ["system", "user"]
        assert metadata == {"task_index": 0}
        read = env.step(tool_call(CANCEL[0], **CANCEL[1]))
        assert (read["reward"], read["done"]) == (0.0, False)
        assert [message["role"] for message in read["observations"]] == ["user"]
        last = env.step("It is cancelled.")
        assert (last["reward"], last["done"], last["observations"]) == (1.0, True, [])
        assert env.get_metrics()["success"] == 1.0


def test_metrics_are_averaged_by_its_trainer(registered, shop):
    rows = [{"success": 1.0}, {"success": 0.0}]
    assert type(made(shop)).aggregate_metrics(rows) == {"success": 0.5}


def test_the_last_turn_is_counted_by_the_row(registered, shop):
    env = made(shop, max_turns=1)
    env.init([])
    assert env.step("Hello?")["done"]


def test_a_wrong_row_is_refused_by_the_constructor(registered, shop):
    with pytest.raises(DataError, match="0 to 2"):
        made(shop, task_index=99)


def test_registering_twice_changes_nothing(registered):
    assert register_with_skyrl() == registered
    assert register_with_skyrl(["tau_bench"]) == register_with_skyrl("tau_bench") == ["tau_bench"]


def test_a_name_that_is_taken_there_is_left_alone(registered):
    skyrl_gym.registry.pop("alfworld")
    skyrl_gym.register("alfworld", entry_point="somebody:Else")
    assert "alfworld" not in register_with_skyrl()
    with pytest.raises(DataError, match="already"):
        register_with_skyrl(["alfworld"])


def test_an_unknown_name_is_refused_with_the_nearest(registered):
    with pytest.raises(DataError, match="tau_bench"):
        register_with_skyrl(["tau_bnch"])


# Theirs in ours


class Saying:
    """Says the same things in every episode, turn by turn."""

    identity = "scripted:saying"

    def __init__(self, *texts):
        self._texts = texts
        self.shown = []

    async def act_batch(self, contexts):
        self.shown += [context.messages for context in contexts]
        turns = [sum(m["role"] == "assistant" for m in context.messages) for context in contexts]
        return [Act(self._texts[turn]) for turn in turns]


async def played(agent, config, row):
    def make_env(task):
        return SkyRLGymEnv(config, dict(task.extras))

    task = Task("one", "skyrl", {"prompt": [{"role": "user", "content": "Continue."}], **row})
    (result,) = await LocalEngine(agent, make_env).run([EpisodeSpec(task, 1)], PlainSkill("Think."))
    assert result.failure is None, result.failure
    return result


@pytest.mark.parametrize(("answer", "reward"), [("#### 72", 1.0), ("#### 71", 0.0)])
async def test_gsm8k_is_played(answer, reward):
    agent = Saying(f"Let me see. {answer}")
    row = {"reward_spec": {"method": "rule", "ground_truth": "72"}}
    result = await played(agent, {"env_class": "gsm8k"}, row)
    assert result.reward == reward
    assert "Continue." in str(agent.shown)
    assert "Think." in str(agent.shown)


@pytest.fixture
def sql_data(tmp_path):
    folder = tmp_path / "spider" / "database" / "zoo"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "zoo.sqlite") as database:
        database.execute("CREATE TABLE animals (name TEXT, legs INTEGER)")
        database.execute("INSERT INTO animals VALUES ('ant', 6), ('bat', 2)")
    database.close()
    return tmp_path


@pytest.mark.parametrize(("legs", "reward"), [(6, 1.0), (2, 0.0)])
async def test_text2sql_is_played(sql_data, legs, reward):
    look = "<think>Look first.</think><sql>SELECT name FROM animals</sql>"
    solve = f"<think>Now.</think><solution>SELECT name FROM animals WHERE legs = {legs}</solution>"
    row = {
        "db_id": "zoo",
        "data": "spider",
        "reward_spec": {"ground_truth": "SELECT name FROM animals WHERE legs = 6"},
    }
    config = {"env_class": "text2sql", "config": {"db_path": str(sql_data)}}
    result = await played(Saying(look, solve), config, row)
    assert result.reward == reward
    assert "ant" in result.trajectory.turns[0].observation


class Library(BaseHTTPRequestHandler):
    """Finds one document for everything."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        found = [[{"document": {"contents": "Paris is the capital of France."}, "score": 1.0}]]
        body = json.dumps({"result": found}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def library():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Library)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/retrieve"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("answer", "reward"), [("Paris", 1.0), ("Rome", 0.0)])
async def test_search_is_played(library, answer, reward):
    agent = Saying("<search>capital of France</search>", f"<answer>{answer}</answer>")
    config = {"search_url": library, "topk": 3, "timeout": 30, "log_requests": False}
    row = {"env_class": "search", "reward_spec": {"ground_truth": {"target": ["Paris"]}}}
    result = await played(agent, {"config": config}, {**row, "max_turns": 3})
    assert result.reward == reward
    assert "Paris is the capital" in result.trajectory.turns[0].observation
    for pool in skyrl_gym.tools.SearchToolGroup._session_pool.values():
        pool.close()


def test_a_row_that_it_refuses_says_why():
    with pytest.raises(DataError, match="reward_spec field is required"):
        SkyRLGymEnv({"env_class": "gsm8k"}, {"prompt": []})
    with pytest.raises(DataError, match="gsm8k"):
        SkyRLGymEnv({"env_class": "gsm8"}, {"prompt": []})
    with pytest.raises(DataError, match="prompt"):
        SkyRLGymEnv({"env_class": "gsm8k"}, {})
