"""Runs of a town of errands in SkillOpt itself and here, from one configuration file.

Neither the town (`skillopt_adapters/town.py`) nor the `Teacher` knows chance, and both teachers see
the same facts in the other's words, so the two programs must end with the same text. Called as
``python parity_runs.py CONFIG``, this is SkillOpt's side, in a process of its own.
"""

import json
import re
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
TOWN = f"{HERE / 'skillopt_adapters' / 'town.py'}:TownAdapter"
SKILL = "# Errands\n\n# Rules\n\n- Be careful.\n"
SIZES = {"train": 24, "val": 20, "test": 12}
SLOW_OFF = {"use_slow_update": False}
CASES: dict[str, dict[str, dict[str, Any]]] = {
    "hard": {},
    "soft": {
        "train": {"accumulation": 2},
        "optimizer": {"learning_rate": 6, "min_learning_rate": 1, "lr_scheduler": "cosine"},
        "evaluation": {"gate_metric": "soft"},
    },
    "untested": {
        "train": {"accumulation": 2, "num_epochs": 2},
        "evaluation": {"gate_metric": "mixed", "gate_mixed_weight": 0.3, "eval_test": False},
    },
    "gated_slow": {
        "train": {"seed": 10},
        "optimizer": {"slow_update_gate_with_selection": True},
    },
    "open": {"evaluation": {"use_gate": False}},
    "changed": {"train": {"seed": 5}, "optimizer": {"longitudinal_pair_policy": "changed"}},
    "suggestions": {
        "optimizer": {"skill_update_mode": "rewrite_from_suggestions", **SLOW_OFF},
        "evaluation": {"gate_metric": "soft"},
    },
    "full_rewrite": {"optimizer": {"skill_update_mode": "full_rewrite_minibatch", **SLOW_OFF}},
    "autonomous": {
        "train": {"seed": 7},
        "gradient": {"failure_only": True},
        "optimizer": {"lr_control_mode": "autonomous", "longitudinal_pair_policy": "unchanged"},
    },
    # Further ones: the same settings with the gate that accepts everything, and nothing to compare.
    "open_untested": {"evaluation": {"use_gate": False, "eval_test": False}},
    "open_gated_slow": {
        "optimizer": {"slow_update_gate_with_selection": True},
        "evaluation": {"use_gate": False},
    },
    "no_pairs": {
        "train": {"seed": 2},
        "optimizer": {"longitudinal_pair_policy": "changed", "slow_update_samples": 2},
        "evaluation": {"gate_metric": "soft"},
    },
}


def digest(*facts: object) -> int:
    return int(sha256("|".join(map(str, facts)).encode()).hexdigest()[:8], 16)


def write_case(folder: Path, name: str) -> Path:
    """Write the data of the town, and SkillOpt's file of a case."""
    for split, size in SIZES.items():
        items = [
            {"id": f"{split}{number:02d}", "kind": f"k{digest(split, number) % 8}"}
            for number in range(size)
        ]
        for item in items:
            item["level"] = digest("level", item["id"]) % 4
        (folder / "data" / split).mkdir(parents=True, exist_ok=True)
        (folder / "data" / split / "items.json").write_text(json.dumps(items), encoding="utf-8")
    (folder / "skill.md").write_text(SKILL, encoding="utf-8")
    config: dict[str, dict[str, Any]] = {
        "model": {"backend": "openai_chat", "optimizer": "analyst", "target": "town"},
        "train": {"num_epochs": 3, "batch_size": 6, "accumulation": 1, "seed": 3},
        "gradient": {"minibatch_size": 3, "merge_batch_size": 3, "analyst_workers": 1},
        "optimizer": {
            "learning_rate": 3,
            "min_learning_rate": 1,
            "lr_scheduler": "constant",
            "use_slow_update": True,
            "slow_update_samples": 8,
            "slow_update_gate_with_selection": False,
            "use_meta_skill": True,
        },
        "evaluation": {
            "use_gate": True,
            "gate_metric": "hard",
            "sel_env_num": 0,
            "test_env_num": 0,
            "eval_test": True,
        },
        "env": {
            "name": "town",
            "skill_init": str(folder / "skill.md"),
            "split_mode": "split_dir",
            "split_dir": str(folder / "data"),
            "out_root": str(folder / "theirs"),
        },
    }
    for section, values in CASES[name].items():
        config[section] |= values
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


class Teacher:
    """The optimizer of both programs: what it says follows from the text that it is shown."""

    def answer(self, stage: str, user: str) -> dict[str, Any]:
        """Answer a question; stages have SkillOpt's names."""
        skill, facts = _parted(user)
        lost, won = (sorted(re.findall(rf"\b{word}-(k\d)", facts)) for word in ("LOST", "WON"))
        match stage:
            case "analyst":
                return self._analysis(skill, lost, won)
            case "merge":
                return self._merged(facts)
            case "ranking":
                return {"selected_indices": list(range(40))[::-1]}
            case "lr_autonomous":
                size = 1 + digest("size", skill) % 3
                return {"learning_rate": size, "edit_budget": size}
            case "rewrite":
                orders = {one["instruction"] for one in _objects(facts) if "instruction" in one}
                text = _made(skill, map(json.loads, sorted(orders)))
                return {"new_skill": text, "change_summary": ["c"]}
            case "slow_update":
                return {"slow_update_content": self._guidance(lost)}
        return {"meta_skill_content": "A note."}

    mode = "patch"

    def _analysis(self, skill: str, lost: list[str], won: list[str]) -> dict[str, Any]:
        kinds = sorted(set(lost), key=lambda kind: (-lost.count(kind), kind))
        edits = [_mending(kind, skill) for kind in kinds]
        if not lost:
            edits = [edit for kind in sorted(set(won)) for edit in _spoiling(kind, skill)]
        if self.mode == "full_rewrite_minibatch":
            made = {"title": "t", "change_summary": ["c"], "new_skill": _made(skill, edits[:2])}
            return {"patch": {"skill_candidates": [made]}}
        if self.mode == "rewrite_from_suggestions":
            items = [
                {"type": "add_rule", "title": "t", "instruction": json.dumps(edit, sort_keys=True)}
                for edit in edits
            ]
            return {"patch": {"revise_suggestions": items}}
        return {"patch": {"edits": edits}}

    def _merged(self, facts: str) -> dict[str, Any]:
        names = ("op", "target", "content", "type", "title", "instruction", "new_skill")
        found: dict[str, dict[str, Any]] = {}
        for one in _objects(facts):
            fields = {name: one[name] for name in names if one.get(name)}
            same = found.setdefault(json.dumps(fields, sort_keys=True), {**fields, "sources": []})
            same["sources"] += [one["id"]] if "id" in one else []
        merged = [found[key] for key in sorted(found)]
        if self.mode == "full_rewrite_minibatch":
            whole = [{**one, "change_summary": ["c"]} for one in merged]
            return {"skill_candidates": whole[:1]}
        key = "edits" if self.mode == "patch" else "revise_suggestions"
        return {key: merged}

    def _guidance(self, lost: list[str]) -> str:
        if not lost:
            return "All is well."
        kinds = sorted(set(lost))
        return f"- {kinds[0]}: {'right' if digest('slow', *kinds) % 3 else 'wrong'}"


def _parted(user: str) -> tuple[str, str]:
    """Part a question into the skill, without tags and markers, and everything else."""
    found = re.search(r"## Current (?:Epoch's )?[Ss]kill\n(.*?)(?=\n## |\Z)", user, re.DOTALL)
    text = found[1] if found else ""
    rest = user.replace(text, "") if text else user
    shown = re.split(r"(?m)^## .*rajector.*$", rest)[-1]
    skill = re.sub(r"</?skill>", "", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    return skill.strip() + "\n", shown


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Return the edits in a text, in order, wherever JSON holds them."""
    decoder, at = json.JSONDecoder(), 0
    while found := re.compile(r"[\[{]").search(text, at):
        try:
            value, at = decoder.raw_decode(text, found.start())
        except ValueError:
            at = found.end()
            continue
        todo = [value]
        while todo:
            match todo.pop():
                case dict() as one if {"op", "instruction", "new_skill"} & one.keys():
                    yield one
                case dict() as one:
                    todo += reversed(list(one.values()))
                case list() as several:
                    todo += reversed(several)


def _rules(skill: str) -> list[tuple[str, str]]:
    return re.findall(r"^- (k\d): (right|nearly|wrong)$", skill, re.MULTILINE)


def _mending(kind: str, skill: str) -> dict[str, str]:
    """Propose an edit for a kind that was lost; not all of them are good, or have an anchor."""
    rules = dict(_rules(skill))
    choice = digest(kind, len(_rules(skill))) % 10
    match rules.get(kind):
        case "wrong" if choice < 6:
            return {"op": "delete", "target": f"- {kind}: wrong"}
        case "wrong" | "nearly" as now:
            return {"op": "replace", "target": f"- {kind}: {now}", "content": f"- {kind}: right"}
    if choice < 4:
        return {"op": "append", "content": f"- {kind}: right"}
    if choice < 6:
        return {"op": "insert_after", "target": "# Rules", "content": f"- {kind}: nearly"}
    if choice < 8:
        return {"op": "insert_after", "target": "# Nowhere", "content": f"- {kind}: right"}
    return {"op": "append", "content": f"- {kind}: wrong"}


def _spoiling(kind: str, skill: str) -> list[dict[str, str]]:
    """Propose what successes seem to teach, if anything."""
    right, choice = f"- {kind}: right", digest("won", kind, len(_rules(skill))) % 5
    if choice == 0 and (kind, "right") in _rules(skill):
        return [{"op": "replace", "target": right, "content": f"- {kind}: wrong"}]
    return [{"op": "append", "content": f"- Keep {kind}."}] if choice == 1 else []


def _made(skill: str, edits: Any) -> str:
    """Apply edits as a model would that rewrites the document."""
    for edit in edits:
        target, content = edit.get("target", ""), edit.get("content", "")
        if edit["op"] in ("delete", "replace"):
            skill = skill.replace(target, content, 1)
        elif target and target in skill:
            skill = skill.replace(target, f"{target}\n{content}", 1)
        else:
            skill = f"{skill.rstrip()}\n{content}"
    return skill.rstrip() + "\n"


def original(path: Path) -> dict[str, Any]:
    """Run SkillOpt on a file, its model answered by the `Teacher`; return what it decided."""
    import skillopt.model
    import skillopt.prompts

    # What it would read from files that its distribution lacks; the teacher does without.
    skillopt.prompts.load_prompt = lambda name, env=None: name
    teacher = Teacher()

    def chat_optimizer(system: str, user: str, *, stage: str, **settings: Any) -> Any:
        return json.dumps(teacher.answer(stage, user)), {}

    skillopt.model.chat_optimizer = chat_optimizer
    from skillopt.config import flatten_config, load_config
    from skillopt.engine.trainer import ReflACTTrainer
    from skillopt.gradient import aggregate, reflect

    # It takes results as they come; here in the order of the requests.
    aggregate.as_completed = reflect.as_completed = list
    sys.path.insert(0, str(HERE / "skillopt_adapters"))
    from town import TownAdapter

    flat = flatten_config(load_config(str(path)))
    teacher.mode = flat.get("skill_update_mode", "patch")
    names = ("analyst_workers", "failure_only", "minibatch_size", "edit_budget", "seed")
    given = {name: flat[name] for name in names if name in flat}
    ReflACTTrainer(flat, TownAdapter(split_dir=flat["split_dir"], **given)).train()
    out = Path(flat["out_root"])
    steps = json.loads((out / "history.json").read_text(encoding="utf-8"))
    return {
        "best_skill": (out / "best_skill.md").read_text(encoding="utf-8"),
        "actions": [step["action"] for step in steps],
        "scores": [step.get("candidate_gate_score") for step in steps],
    }


if __name__ == "__main__":
    found = original(Path(sys.argv[1]))
    sys.stdout.write("\n" + json.dumps(found) + "\n")
