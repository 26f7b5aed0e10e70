"""What the scoring policy sees: tokens, segments, and what is named twice."""

import numpy as np
import pytest

from skillwright.core import ContractError, TurnContext
from skillwright.policy.scorer import Reading, Vocabulary, read_turn
from skillwright.policy.scorer.encoding import (
    BITS,
    SEGMENT,
    SEGMENTS,
    UNKNOWN,
    WORD,
    Encoder,
    collate,
    tokenize,
)
from skillwright.worlds.alfworld import AlfworldEnv
from skillwright.worlds.alfworld.generate import household_tasks

SKILL = "### Skills\n- [t001] Mugs: Every mug is kept in cabinet 3. (Apply when at home.)"


def words(text):
    return [(token.word, token.number - 1 if token.number else None) for token in tokenize(text)]


def reading(**changes):
    offered = {
        "task": "Your task is to: put a mug in fridge.",
        "skill": SKILL,
        "scene": "You see a cabinet 3, and a fridge 1.",
        "held": "nothing",
        "here": "",
        "visited": "",
        "latest": "",
        "commands": ("go to cabinet 3", "go to fridge 1", "look"),
    }
    return Reading(**{**offered, **changes})


def encoder(*texts):
    return Encoder(Vocabulary.of((*texts, "a mug", "go to cabinet 3")))


def bits_of(table, vocabulary, word):
    (row,) = [row for row in table if row[WORD] == vocabulary.ids[word]]
    names, kinds = SEGMENTS, [f"{segment} kind" for segment in SEGMENTS]
    return {name for bit, name in enumerate([*names, *kinds]) if row[BITS] >> bit & 1}


def test_a_thing_and_its_number_are_one_token():
    assert words("Go to Cabinet 3.") == [("go", None), ("to", None), ("cabinet", 3), (".", None)]


def test_the_tags_of_a_bank_are_not_words():
    assert words("- [t014] Hold it: now") == [
        ("hold", None),
        ("it", None),
        (".", None),
        ("now", None),
    ]


def test_words_that_no_vocabulary_knows_are_still_equal_to_themselves():
    one, other = tokenize("frobnicator 2")[0], tokenize("the frobnicator 2")[1]
    assert one == other
    assert one.name != tokenize("frobnicator 3")[0].name
    assert one.kind == tokenize("frobnicator 3")[0].kind


def test_a_vocabulary_is_the_same_whatever_the_order_of_its_texts():
    one, other = Vocabulary.of(["a mug 2", "A pan."]), Vocabulary.of(["a pan", "mug 1 ."])
    assert one.words == (".", "a", "mug", "pan")
    assert one.digest == other.digest


def test_a_conversation_tells_what_is_held_seen_and_visited():
    env = AlfworldEnv(None, dict(household_tasks("train", 1, homes=[3])[0].extras))
    messages, offered = env.init([])
    opening = offered["observation"]
    for _ in range(40):
        takes = [c for c in offered["admissible_commands"] if c.startswith(("take ", "open "))]
        goes = [c for c in offered["admissible_commands"] if c.startswith("go to ")]
        command = (takes or goes[len(messages) % len(goes) :])[0]
        out = env.step(command)
        messages += [{"role": "assistant", "content": command}, *out["observations"]]
        offered = out["metadata"]
        if command.startswith("take "):
            break
    seen = read_turn(TurnContext(messages, 0, offered, SKILL))
    assert opening.endswith(seen.task)
    assert seen.task.startswith("Your task is to")
    assert seen.skill == SKILL
    assert f"take {seen.held} from {seen.here.partition('.')[0]}" == command
    assert "commands" not in seen.here
    assert seen.latest.endswith(command)
    assert seen.here.partition(".")[0] in seen.visited.split(". ")
    assert seen.commands == tuple(offered["admissible_commands"])


def test_an_environment_that_lists_no_commands_is_refused():
    with pytest.raises(ContractError, match="admissible_commands"):
        read_turn(TurnContext([{"role": "user", "content": "hello"}], 0))


def test_what_is_named_twice_is_marked_where_it_stands():
    read = encoder(SKILL, "put a mug in fridge")
    turn = read.encode(reading(latest="go to fridge 1"))
    skill = turn.fixed.prompt[[row[2] == 1 for row in turn.fixed.prompt]]
    assert bits_of(skill, read.vocabulary, "mug") == {"task", "task kind"}
    cabinet = bits_of(turn.words, read.vocabulary, "cabinet")
    assert cabinet == {"skill", "skill kind", "scene", "scene kind"}
    # The task says "fridge", without a number: the same word, not the same name.
    fridge = bits_of(turn.words, read.vocabulary, "fridge")
    assert {"task kind", "latest"} <= fridge
    assert "task" not in fridge


def test_a_token_does_not_count_itself():
    read = encoder()
    once = read.encode(reading(latest="go to cabinet 3"))
    twice = read.encode(reading(latest="go to cabinet 3. go to cabinet 3"))
    for turn, counts in ((once, False), (twice, True)):
        rows = [row for row in turn.prompt if row[WORD] == read.vocabulary.ids["cabinet"]]
        assert all(bool(row[BITS] >> SEGMENTS.index("latest") & 1) == counts for row in rows)


def test_turns_of_one_episode_share_what_does_not_change():
    read = encoder()
    one, other = read.encode(reading()), read.encode(reading(latest="look", visited="fridge 1"))
    assert one.fixed is other.fixed
    batch = collate([one, other])
    assert len(batch.scenes) == 2  # one, and the empty one


def test_a_sentence_ends_with_its_full_stop_or_its_segment():
    read = encoder()
    turn = read.encode(reading(task="Put a mug in fridge", skill="Mugs: here. Open it", here="a."))
    assert list(turn.fixed.sentences) == [5, 2, 2, 2]  # the task; "mugs ." "here ." "open it"
    assert list(turn.sentences) == [1, 2]  # "nothing", "a ."


def test_every_token_of_a_batch_has_a_sentence_and_parts_share_none():
    read = encoder()
    batch = collate([read.encode(reading()), read.encode(reading(skill="", latest="look"))])
    assert batch.sentences.sum() == len(batch.tokens) == len(batch.sentence_of)
    assert batch.sentences.min() > 0
    for sentence in range(len(batch.sentences)):
        tokens = batch.tokens[batch.sentence_of == sentence]
        assert len(set(tokens[:, SEGMENT].tolist())) == 1
        assert len(tokens) == batch.sentences[sentence]


def test_unknown_words_are_unknown_and_long_skills_are_cut():
    read = encoder()
    turn = read.encode(reading(skill="gizmo " * 5000))
    assert np.sum(turn.fixed.prompt[:, WORD] == UNKNOWN) > 100
    assert len(turn.fixed.prompt) == 1024
