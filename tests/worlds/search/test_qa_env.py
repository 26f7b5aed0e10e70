"""One question, one answer, one reward; and questions of our own to train on offline."""

import pytest

from skillwright.config.run import validated
from skillwright.core import ConfigError, DataError
from skillwright.envs import check_env, make
from skillwright.jobs.run import make_splits
from skillwright.worlds.search import QaEnv, generated_questions
from skillwright.worlds.search.generate import SPLITS

EXTRAS = {
    "question": "Where was she born?",
    "passages": [{"title": "Ada", "text": "Ada was born in Old Town."}, "Another text."],
    "answers": ["Old Town", "in Old Town"],
}


def answered(reply, **env_config):
    env = QaEnv(env_config, dict(EXTRAS))
    env.init([])
    return env.step(reply), env.get_metrics()


def test_the_passages_are_numbered_and_the_question_comes_last():
    messages, metadata = make("qa", extras=dict(EXTRAS)).init([])
    assert [message["role"] for message in messages] == ["system", "user"]
    assert (
        messages[1]["content"]
        == metadata["observation"]
        == (
            "Passage 1: Ada\nAda was born in Old Town.\n\nPassage 2: Another text.\n\n"
            "Question: Where was she born?"
        )
    )


def test_the_right_answer_is_never_shown_before_it_is_given():
    messages, _ = QaEnv(None, {**EXTRAS, "answers": ["secret"]}).init([])
    assert "secret" not in str(messages)


@pytest.mark.parametrize(
    ("metric", "reply", "reward"),
    [
        ("em", "<answer>the old town</answer>", 1.0),
        ("em", "She was born in Old Town.", 0.0),
        ("f1", "She was born in Old Town.", 2 * 3 / (6 + 3)),
        ("f1", "Old Town", 1.0),
    ],
)
def test_the_metric_of_the_settings_is_the_reward_and_both_are_told(metric, reply, reward):
    step, metrics = answered(reply, metric=metric)
    assert step["done"]
    assert step["reward"] == metrics[metric] == pytest.approx(reward)
    assert set(metrics) == {"em", "f1"}


def test_who_learns_from_a_wrong_answer_is_told_the_right_one():
    step, _ = answered("<answer>New Town</answer>")
    said = 'Expected "Old Town", and you answered "New Town".'
    assert step["observations"][0]["content"] == said
    assert step["postprocessed_action"] == "New Town"


def test_no_more_of_the_passages_is_shown_than_the_settings_say():
    messages, _ = QaEnv({"max_context_chars": 30}, dict(EXTRAS)).init([])
    assert "Another" not in messages[1]["content"]


@pytest.mark.parametrize(
    ("env_config", "said"),
    [
        ({"metrics": "em"}, "Did you mean 'metric'"),
        ({"metric": "bleu"}, "use 'em' or 'f1'"),
        ({5: "em"}, "no setting 5"),
        ({"max_context_chars": 0}, "a number from 1"),
        ({"max_context_chars": True}, "a number from 1"),
        ("em", "write a mapping"),
    ],
)
def test_wrong_settings_are_refused(env_config, said):
    with pytest.raises(DataError) as raised:
        QaEnv(env_config, dict(EXTRAS))
    assert said in str(raised.value)


@pytest.mark.parametrize("metric", ["em", "f1"])
def test_it_keeps_its_contract_with_either_metric(metric):
    report = check_env("qa", env_config={"metric": metric}, fuzz=200)
    assert report.ok, report.to_dict()
    assert report.checks[-1].detail == "8 tasks solved"


# Questions of our own


def towns(tasks):
    return {passage["title"] for task in tasks for passage in task.extras["passages"]}


def test_no_town_is_in_two_splits_whatever_the_seeds():
    seen = [towns(generated_questions(split, 60, seed=seed)) for seed, split in enumerate(SPLITS)]
    assert not seen[0] & seen[1] | seen[1] & seen[2] | seen[0] & seen[2]


def test_questions_are_equal_for_equal_seeds_and_others_for_others():
    assert generated_questions("val", 8) == generated_questions("val", 8)
    ids = [task.id for seed in (0, 1) for task in generated_questions("val", 8, seed=seed)]
    assert len(set(ids)) == 16
    assert (
        generated_questions("val", 8)[0].extras != generated_questions("val", 8, seed=1)[0].extras
    )


@pytest.mark.parametrize("split", SPLITS)
def test_every_answer_stands_in_the_passage_about_the_town_of_the_question(split):
    tasks = generated_questions(split, 60)
    for task in tasks:
        (about,) = [p for p in task.extras["passages"] if p["title"] in task.extras["question"]]
        assert task.extras["answers"][0] in about["text"]
    assert {task.task_type for task in tasks} == {"office", "measure", "year", "place"}


def test_an_unknown_split_is_refused():
    with pytest.raises(DataError, match="Did you mean 'train'"):
        generated_questions("trian", 1)


def models(target="reader", optimizer="reader_analyst"):
    return {
        "target": {"backend": "scripted", "model": target},
        "optimizer": {"backend": "scripted", "model": optimizer},
    }


def test_a_configuration_that_names_qa_alone_has_questions_and_one_turn():
    config = validated({"env": {"name": "qa"}, "models": models()}, "test")
    splits = make_splits(config)
    assert config.env.max_turns == 1
    assert [len(splits.train.tasks), len(splits.val.tasks), len(splits.test)] == [40, 60, 60]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"env": {"name": "alfworld", "data": {"kind": "qa"}}}, "gives questions of 'qa'"),
        ({"env": {"name": "qa", "data": {"kind": "generated"}}}, "gives games of 'alfworld'"),
        ({"env": {"name": "qa", "data": {"val": 4}}}, "on 4 val tasks"),
        ({"models": models("reader_analyst")}, "cannot be the target"),
        ({"models": models("reader", "reader")}, "cannot be the optimizer"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, said):
    with pytest.raises(ConfigError) as raised:
        validated({"env": {"name": "qa"}, "models": models(), **settings}, "test")
    assert said in str(raised.value)


def test_the_record_of_a_reply_names_the_right_answer_and_the_scored_one():
    step, _ = answered("<answer>New Town</answer>")
    assert (step["metadata"]["expected"], step["metadata"]["answer"]) == ("Old Town", "New Town")
