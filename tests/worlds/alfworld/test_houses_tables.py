"""The class tables say what the published facts say."""

import json
from types import SimpleNamespace

import pytest

from skillwright.worlds.alfworld import tables


@pytest.fixture(scope="module")
def facts(reference_data):
    path = reference_data / "alfworld" / "affordances.json"
    return SimpleNamespace(**json.loads(path.read_text(encoding="utf-8")))


def lower(names):
    return {name.lower() for name in names}


def test_classes_and_traits_are_the_published_ones(facts):
    assert lower(facts.receptacle_classes) == tables.RECEPTACLES
    assert lower(facts.object_classes_placeable) == tables.PLACEABLE
    assert lower(facts.openable) == tables.OPENABLE
    assert lower(facts.movable_receptacle_classes) == tables.TRAITS["receptacle"]
    for trait in ("cleanable", "heatable", "coolable", "sliceable", "toggleable"):
        assert lower(getattr(facts, trait)) == tables.TRAITS[trait]
    assert set(tables.TYPE_NAMES.values()) == {
        f"{name}Type"
        for name in [
            *facts.receptacle_classes,
            *facts.object_classes_placeable,
            *facts.toggleable,
        ]
    }


def test_what_holds_what_is_the_published_list(facts):
    published = {
        name.lower(): lower(content)
        for name, content in facts.can_contain.items()
        if name not in facts.movable_receptacle_classes
    }
    assert published == tables.CAN_CONTAIN


def test_families_are_the_published_ones(facts):
    for ours, theirs in zip(tables.ALL_TASK_TYPES, facts.task_families, strict=True):
        assert ours.name == theirs["task_type"]
        slots = [template.replace("{recep}", "{target}") for template in theirs["templates"]]
        assert list(ours.templates) == slots
        assert {room.replace(" ", "") for room in ours.rooms} == lower(theirs["rooms"])


def test_room_statistics_are_the_published_ones(facts):
    assert {room.replace(" ", "") for room in tables.ROOMS} == lower(facts.room_profiles)
    for name, theirs in facts.room_profiles.items():
        ours = next(
            room for key, room in tables.ROOMS.items() if key.replace(" ", "") == name.lower()
        )
        presence = {c.lower(): n for c, n in theirs["receptacle_class_presence"].items()}
        assert {c: place.scenes for c, place in ours.receptacles.items()} == presence
        counts = {c.lower(): span[1:] for c, span in theirs["receptacle_counts"].items()}
        for cls, place in ours.receptacles.items():
            assert [place.fewest, place.most] == counts.get(cls, [1, 1])
        objects = {c.lower(): n for c, n in theirs["object_class_presence"].items()}
        assert ours.objects == objects


def test_every_object_of_a_room_has_at_most_one_use():
    for room in tables.ROOMS.values():
        for cls in room.objects:
            assert sum(cls in group for group in tables.USES) <= 1
