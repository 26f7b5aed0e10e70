"""A server that others wrote, `transformers serve`, with a tiny random model made on the spot."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from doors import doors_config, evaluated, look
from skillwright.core import ModelRefused, Purpose, Sampling
from skillwright.jobs import EvalPlan
from skillwright.jobs.run.turn_ends import NotMeasured
from skillwright.models import HttpClient, OpenAIChatConfig, make_model

NEEDED = {"train": ("torch", "transformers", "tokenizers"), "dev": ("fastapi", "uvicorn", "openai")}
MISSING = [
    f"{name} (extra {extra})"
    for extra, names in NEEDED.items()
    for name in names
    if importlib.util.find_spec(name) is None
]
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]


def make_tiny_model(folder):
    """Write a model of some thousand random weights that reads and writes bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: index for index, letter in enumerate([*alphabet, "<end>"])}
    bytewise = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytewise, eos_token="<end>", pad_token="<end>", chat_template=TEMPLATE
    )
    tokenizer.save_pretrained(folder)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=512,
            bos_token_id=None,
            eos_token_id=vocabulary["<end>"],
            pad_token_id=vocabulary["<end>"],
        )
    )
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def third_party(tmp_path_factory):
    """Give the address of the server and the model's name."""
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny_model(folder)
    program = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder)]
    options = ["--host", "127.0.0.1", "--port", "0", "--device", "cpu", "--log-level", "info"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home")}
    server = subprocess.Popen(
        [*program, *options],
        env=environment,
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
    )
    said = []
    try:
        for line in server.stdout:  # ends when it is ready or when the server has died
            said.append(line)
            found = re.search(r"running on (http://127\.0\.0\.1:\d+)", line)
            if found:
                yield f"{found[1]}/v1", str(folder)
                break
        else:
            pytest.fail("the server did not start:\n" + "".join(said))
    finally:
        server.kill()
        server.communicate()


async def test_our_client_is_answered_by_a_server_that_others_wrote(third_party):
    base_url, name = third_party
    config = OpenAIChatConfig(model=name, base_url=base_url, max_attempts=2)
    async with HttpClient() as client:
        model = make_model(config, client)
        answer = await model.complete(
            HELLO, sampling=Sampling(max_tokens=8, temperature=0.0, seed=1), purpose=Purpose.CHECK
        )
        again = await model.complete(
            HELLO, sampling=Sampling(max_tokens=8, temperature=0.0, seed=1), purpose=Purpose.CHECK
        )
    assert answer.text == again.text
    assert answer.finish_reason in ("length", "stop")
    assert 0 < answer.usage.output_tokens <= 8
    assert answer.usage.input_tokens > len("hello")
    assert answer.usage.failed_calls == 0


async def test_it_streams_to_us_as_well(third_party):
    base_url, name = third_party
    config = OpenAIChatConfig(model=name, base_url=base_url, stream=True, max_attempts=2)
    async with HttpClient() as client:
        answer = await make_model(config, client).complete(
            HELLO, sampling=Sampling(max_tokens=8), purpose=Purpose.CHECK
        )
    assert answer.finish_reason in ("length", "stop")
    assert 0 < answer.usage.output_tokens <= 8


async def test_what_it_does_not_know_is_refused_with_its_own_words(third_party):
    base_url, name = third_party
    config = OpenAIChatConfig(model=name, base_url=f"{base_url}/nowhere", max_attempts=2)
    async with HttpClient() as client:
        with pytest.raises(ModelRefused, match="base_url"):
            await make_model(config, client).complete(HELLO, purpose=Purpose.CHECK)


async def test_an_episode_is_played_against_it(third_party, tmp_path):
    base_url, name = third_party
    tiny = {"backend": "openai_chat", "model": name, "base_url": base_url, "max_tokens": 8}
    config = doors_config(tmp_path, models={"target": tiny}, evaluation={"test_tasks": 1})
    async with HttpClient() as client:
        target = make_model(config.models.target, client)
        # The model's weights are random: it fills its eight tokens, and cut answers are no score.
        with pytest.raises(NotMeasured, match=r"100\.0% cut at max_tokens"):
            await evaluated(config, EvalPlan("test", 1), target)
    (path,) = (file.parent for file in tmp_path.rglob("run.sqlite"))
    with look(path) as store:
        (episode,) = store.episodes(split="test")
    assert (episode.reward is not None, episode.failure) == (True, None)
