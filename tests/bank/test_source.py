"""A bank as a source of skill texts: encoded once, equal for everybody, one version at a time."""

from dataclasses import replace

import numpy as np
import pytest
from bank_worlds import CATEGORIES, Drawn, skill, skills
from hypothesis import given

from skillwright.bank import (
    NOTHING,
    Add,
    Bank,
    BankSource,
    BankStore,
    Encoder,
    GrowthCaps,
    LexicalEmbedder,
    RetrievalSettings,
    apply,
)
from skillwright.core import (
    Act,
    ConfigError,
    EpisodeSpec,
    ModelError,
    SkillKind,
    SkillSource,
    SkillStatus,
    Task,
)
from skillwright.envs import TextEnv
from skillwright.rollout import LocalEngine
from skillwright.worlds.alfworld import generated_tasks

WIDE = RetrievalSettings(delta=-1.0)


def source(found, embedder=None, **fields):
    bank = found if isinstance(found, Bank) else Bank(1, tuple(found))
    options = {"categorize": lambda task: task.task_type, "scope": lambda _: "", **fields}
    return BankSource(bank, embedder or Drawn(), **options)


def task(number, category="heat"):
    return Task(f"task-{number}", "alfworld", task_type=category, description=f"do {number}")


def test_128_episodes_of_16_tasks_encode_16_texts_in_one_request():
    embedder = Drawn()
    asked = source([skill("t1")], embedder)
    tasks = [task(number % 16) for number in range(128)]
    contexts = asked.contexts(tasks)
    assert [len(texts) for texts in embedder.queries] == [16]
    assert contexts == [asked.context(one) for one in tasks]
    assert len(embedder.queries) == 1  # the second time nothing is encoded


@given(skills(least=1))
def test_asked_together_or_alone_a_task_is_told_the_same_bytes(bank):
    asked = source(bank, settings=WIDE)
    tasks = [task(number, CATEGORIES[number % 3]) for number in range(4)]
    together = asked.contexts(tasks)
    assert together == [source(bank, settings=WIDE).context(one) for one in tasks]
    for context in together:
        assert [f"[{one}]" in context.text for one in context.skill_ids] == [True] * len(
            context.scores
        )


def test_a_new_version_encodes_only_what_is_new_and_the_old_one_stays_as_it_is():
    embedder = Drawn()
    old = source([skill(f"t{number}") for number in range(50)], embedder, settings=WIDE)
    before = old.context(task(1))
    grown, _ = apply(
        old.bank,
        [Add(skill("x", name=f"New {n}", principle=f"Novel {n}.")) for n in range(3)],
        GrowthCaps(),
    )
    new = old.at(grown)
    assert [len(texts) for texts in embedder.skills] == [50, 3]
    fresh = {one.id for one in grown.skills} - {one.id for one in old.bank.skills}
    assert len(fresh) == 3
    everything = replace(new, settings=RetrievalSettings(k_task=60, delta=-1.0))
    assert fresh <= set(everything.context(task(1)).skill_ids)
    assert old.context(task(1)) == before
    assert before.version != new.context(task(1)).version == new.version


def test_vectors_are_kept_in_the_store_and_encoded_once_for_all_processes(tmp_path):
    bank = [skill("t1"), skill("t2", SkillKind.LESSON), skill("g1", SkillKind.GENERAL)]
    store = BankStore.open(tmp_path / "bank.sqlite")
    first, second, other = Drawn(), Drawn(), Drawn("another encoder")
    told = source(bank, first, store=store, settings=WIDE).context(task(1))
    assert sorted(map(len, first.skills)) == [1, 1]
    assert source(bank, second, store=store, settings=WIDE).context(task(1)) == told
    assert second.skills == []
    source(bank, other, store=store)
    assert sorted(map(len, other.skills)) == [1, 1]  # its vectors are others
    store.close()


def test_the_query_that_was_not_used_for_longest_is_forgotten_first():
    embedder = Drawn()
    encoder = Encoder(embedder, most_queries=2)
    for text in ("a", "b", "a", "c", "a"):
        encoder.queries([text])
    assert embedder.queries == [["a"], ["b"], ["c"]]
    encoder.queries(["b", "d", "b", "e"])  # more at once than are kept
    assert embedder.queries[3:] == [["b", "d", "e"]]


def test_the_version_of_a_context_names_the_bank_and_what_it_says():
    one, other = source([skill("t1")]), source([skill("t1", principle="Otherwise.")])
    version, digest = one.context(task(1)).version.split(":")
    assert version == "1"
    assert one.bank.digest.startswith(digest)
    assert one.version != other.version


def test_an_empty_bank_says_so():
    context = source([]).context(task(1))
    assert (context.text, context.skill_ids, context.scores) == (NOTHING, (), ())
    retired = skill("t1", status=SkillStatus.RETIRED)
    assert source([retired]).context(task(1)).text == NOTHING


def test_categories_and_places_come_from_the_environment_of_the_task():
    bank = [
        *(skill(f"t{n}", category=one) for n, one in enumerate(("heat", "cool", "pick_two"))),
        skill("t7", category="heat", scope="household 7"),
        skill("t8", category="heat", scope="household 8"),
    ]
    asked = BankSource(Bank(1, tuple(bank)), Drawn(), settings=WIDE)
    here = {one.task_type: one for one in generated_tasks("train", 6, household=7)}
    heat, two = here["pick_heat_then_place_in_recep"], here["pick_two_obj_and_place"]
    assert set(asked.context(heat).skill_ids) == {"t0", "t7"}
    assert set(asked.context(two).skill_ids) == {"t2"}
    (retrieved,) = asked.retrieve([heat])
    assert (retrieved.category, retrieved.scope) == ("heat", "household 7")


def test_an_environment_without_rules_of_its_own_is_asked_for_its_task_type():
    bank = [skill("t1", category="riddle"), skill("t2", category="sum")]
    found = BankSource(Bank(1, tuple(bank)), Drawn(), settings=WIDE)
    own = Task("a", "guess_for_banks:Nothing", task_type="sum")
    own = replace(own, env=f"{__name__}:Foreign")
    assert found.context(own).skill_ids == ("t2",)


class Foreign:
    """What another library calls an environment."""

    def init(self, prompt):
        raise NotImplementedError

    def step(self, action):
        raise NotImplementedError


def test_only_the_lexical_embedder_answers_at_once():
    told: SkillSource = source([], LexicalEmbedder())
    assert not told.waits
    assert source([], Drawn()).waits


class Nod(TextEnv):
    """Over after one turn."""

    def init(self, prompt):
        return [{"role": "system", "content": "Nod."}], {}

    def step(self, action):
        return self.finish("Thank you.", reward=1.0)


class Nodding:
    """Nods."""

    identity = "nodding"

    async def act_batch(self, contexts):
        return [Act("nod") for _ in contexts]


@pytest.mark.parametrize("embedder", [LexicalEmbedder(), Drawn()], ids=["at_once", "waits"])
async def test_an_engine_plays_with_a_bank_and_results_name_its_version(embedder):
    asked = source([skill("g1", SkillKind.GENERAL)], embedder)
    specs = [EpisodeSpec(task(number), seed=number) for number in range(3)]
    results = await LocalEngine(Nodding(), lambda _: Nod()).run(specs, asked)
    assert {result.skill_version for result in results} == {asked.version}
    assert all("[g1]" in result.trajectory.turns[0].prompt[0]["content"] for result in results)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_vector_that_is_no_vector_is_a_fault_and_is_not_kept(wrong, tmp_path):
    embedder = Drawn()
    embedder._rows = lambda texts: np.full((len(texts), 8), wrong, dtype=np.float32)
    with BankStore.open(tmp_path / "bank.db") as store:
        with pytest.raises(ModelError, match="one row of finite numbers per text"):
            source([skill("t001")], embedder, store=store)
        assert store.vectors("drawn") == {}


def test_another_model_behind_the_same_name_is_refused_with_the_next_move(tmp_path):
    with BankStore.open(tmp_path / "bank.db") as store:
        source([skill("t001")], Drawn(dimensions=8), store=store)
        with pytest.raises(ConfigError, match=r"gives 16 numbers per text.* have 8: another model"):
            source([skill("t001"), skill("t002")], Drawn(dimensions=16), store=store)
        late = source([skill("t001")], Drawn(dimensions=16), store=store)
        with pytest.raises(ConfigError, match="another model"):
            late.context(Task("t", env="alfworld", description="heat some apple"))
