"""Small data in the formats of SkillOpt's six benchmarks, and an agent that plays them.

Every second question is easy. The others the agent gets wrong until its skill holds `RULE`, which
the optimizer proposes: so a run begins at one half and ends at one, and a benchmark that scores
zeros by mistake does neither.
"""

import csv
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from mock_openai import completion
from official_games import to_game_json
from skillwright.worlds.alfworld import World, generate_problem, plan

RULE = "Answer exactly as asked."
COUNTS = {"train": 4, "val": 4, "test": 6}
PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class Question:
    """One task.

    Attributes:
        id: Its id, which its text quotes.
        split: Where it belongs.
        number: Its place there; even ones are easy.
    """

    id: str
    split: str
    number: int

    @property
    def is_easy(self) -> bool:
        return self.number % 2 == 0


@dataclass
class Benchmark:
    """One of the six, with its data on disk.

    Attributes:
        adapter: How it is named.
        env: Its settings in a file of SkillOpt's.
        answer: Returns what the agent says: the text of all messages, whether it may win, and the
            request, to a text or to a whole completion.
        prompts: The prompt files that it needs, for a package that came without.
        files: Further files that it needs, by their path below its folder.
        environ: Environment variables that it needs.
    """

    adapter: str
    env: dict[str, Any]
    answer: Callable[[str, bool, dict[str, Any]], Any]
    prompts: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.adapter.split(".")[2]


def questions() -> Iterator[Question]:
    for split, size in COUNTS.items():
        for number in range(size):
            yield Question(f"{split}-{number}", split, number)


def agent(benchmark: Benchmark):
    """Return a handler of chat requests that plays a benchmark."""

    async def handle(body: dict[str, Any]) -> Any:
        said = "\n".join(map(_text, body["messages"]))
        found = benchmark.answer(said, RULE in said, body)
        return found if isinstance(found, dict) else str(found)

    return handle


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part.get("text", "")) for part in parts)


def _right(said: str, has_rule: bool) -> str | None:
    """Return the id of the question that is asked, where it will be answered well."""
    found = re.search(r"\[(train|val|test)-(\d+)\]", said)
    if found is None or (int(found[2]) % 2 and not has_rule):
        return None
    return f"{found[1]}-{found[2]}"


def _answer(said: str, has_rule: bool, body: dict[str, Any]) -> str:
    del body
    return f"<answer>word of {_right(said, has_rule) or 'nothing'}</answer>"


SYSTEM = {"rollout_system": "{skill_section}Answer the question."}


def searchqa(folder: Path) -> Benchmark:
    for split in COUNTS:
        items = [
            {
                "id": one.id,
                "question": f"[{one.id}] Which word?",
                "context": "[DOC] Words.",
                "answers": [f"word of {one.id}"],
            }
            for one in questions()
            if one.split == split
        ]
        _write_json(folder / split / "items.json", items)
    return Benchmark(
        "skillopt.envs.searchqa.adapter:SearchQAAdapter", _split_dir(folder), _answer, SYSTEM
    )


def docvqa(folder: Path) -> Benchmark:
    (folder / "page.png").parent.mkdir(parents=True, exist_ok=True)
    (folder / "page.png").write_bytes(PIXEL)
    rows = [
        {
            "split": one.split,
            "questionId": one.id,
            "question": f"[{one.id}] Which word? document_path: {folder / 'page.png'}",
            "answer": f"['word of {one.id}']",
        }
        for one in questions()
    ]
    _write_csv(folder, rows)
    return Benchmark(
        "skillopt.envs.docvqa.adapter:DocVQAAdapter", _split_dir(folder), _seen_answer, SYSTEM
    )


def _seen_answer(said: str, has_rule: bool, body: dict[str, Any]) -> str:
    parts = [
        part for m in body["messages"] if isinstance(m["content"], list) for part in m["content"]
    ]
    images = [part for part in parts if part.get("type") == "image_url"]
    if "[" in said and not images:
        return "<answer>I see no image</answer>"
    return _answer(said, has_rule, body)


def officeqa(folder: Path) -> Benchmark:
    docs = folder / "docs"
    docs.mkdir(parents=True)
    for one in questions():
        (docs / f"{one.id}.txt").write_text(f"The word is: word of {one.id}\n", encoding="utf-8")
    rows = [
        {
            "split": one.split,
            "uid": one.id,
            "question": f"[{one.id}] Which word?",
            "ground_truth": f"word of {one.id}",
            "source_files": json.dumps([f"{one.id}.txt"]),
        }
        for one in questions()
    ]
    _write_csv(folder / "split", rows)
    env = {**_split_dir(folder / "split"), "data_dirs": [str(docs)], "max_tool_turns": 4}
    return Benchmark("skillopt.envs.officeqa.adapter:OfficeQAAdapter", env, _read_answer, SYSTEM)


def _read_answer(said: str, has_rule: bool, body: dict[str, Any]) -> Any:
    """Read the document first, and answer by what it says."""
    found = [m for m in body["messages"] if m["role"] == "tool"]
    asked = re.search(r"\[((?:train|val|test)-\d+)\]", said)
    if found or asked is None:
        word = re.search(r"The word is: (.*)", _text(found[0])) if found else None
        right = _right(said, has_rule) and word
        return f"<answer>{right[1] if right else 'nothing'}</answer>"
    document = re.search(r"^- (.*\.txt)$", said, re.MULTILINE)
    arguments = json.dumps({"pattern": "word", "path": document[1] if document else "?"})
    function = {"name": "grep", "arguments": arguments}
    call = {"id": "call_1", "type": "function", "function": function}
    return completion(None, tool_calls=[call], finish_reason="tool_calls")


def livemathematicianbench(folder: Path) -> Benchmark:
    for split in COUNTS:
        items = [
            {
                "id": f"202602:{one.number}-{split}",
                "question": f"[{one.id}] Which holds?",
                "choices": [{"label": label, "text": f"claim {label}"} for label in "ABC"],
                "correct_choice": {"label": "B", "text": "claim B"},
                "theorem_type": ["bound"],
            }
            for one in questions()
            if one.split == split
        ]
        _write_json(folder / split / "items.json", items)
    name = "skillopt.envs.livemathematicianbench.adapter:LiveMathematicianBenchAdapter"
    return Benchmark(name, _split_dir(folder), _choice, SYSTEM)


def _choice(said: str, has_rule: bool, body: dict[str, Any]) -> str:
    """Choose by the text, because the labels are shuffled."""
    del body
    claim = "claim B" if _right(said, has_rule) else "claim A"
    found = re.search(rf"^([A-G])\. {claim}$", said, re.MULTILINE)
    return f"<answer>{found[1] if found else '?'}</answer>"


def spreadsheetbench(folder: Path) -> Benchmark:
    import openpyxl

    def sheet(path: Path, value: str) -> None:
        book = openpyxl.Workbook()
        book.active.title = "Sheet1"
        book.active["A1"] = "word"
        book.active["B1"] = value
        book.save(path)

    for split in COUNTS:
        items = []
        for one in (one for one in questions() if one.split == split):
            place = folder / "books" / one.id
            place.mkdir(parents=True)
            sheet(place / f"1_{one.id}_input.xlsx", "")
            sheet(place / f"1_{one.id}_answer.xlsx", f"word of {one.id}")
            items.append(
                {
                    "id": one.id,
                    "instruction": f"[{one.id}] Put the word into B1.",
                    "spreadsheet_path": one.id,
                    "instruction_type": "Cell-Level Manipulation",
                    "answer_position": "Sheet1!B1",
                }
            )
        _write_json(folder / split / "items.json", items)
    env = {**_split_dir(folder), "data_root": str(folder / "books"), "mode": "single"}
    prompts = {
        "codegen_system": "Write Python that changes a workbook.",
        "react_system": "{critical_rules}\n{skill_section}Change a workbook.",
        "critical_rules": "Change nothing else.",
    }
    name = "skillopt.envs.spreadsheetbench.adapter:SpreadsheetBenchAdapter"
    return Benchmark(name, env, _code, prompts)


def _code(said: str, has_rule: bool, body: dict[str, Any]) -> str:
    del body
    return (
        "```python\nimport openpyxl\nbook = openpyxl.load_workbook(INPUT_PATH)\n"
        f"book['Sheet1']['B1'] = 'word of {_right(said, has_rule) or 'nothing'}'\n"
        "book.save(OUTPUT_PATH)\n```"
    )


ALFWORLD_FOLDERS = {"train": "train", "val": "valid_seen", "test": "valid_unseen"}
MOST_STEPS = 12
ALFWORLD_PROMPTS = {
    "rollout_no_history": "{current_observation}\nYou may: {admissible_actions}",
    "rollout_with_history": (
        "Your task is to: {task_description}\nSteps so far: {step_count} (the last {history_length}"
        " of them: {action_history})\nStep {current_step}.\n{current_observation}\n"
        "You may: {admissible_actions}"
    ),
    "rollout_with_memory": "unused",
}
ALFWORLD_CONFIG = {
    "env": {
        "type": "AlfredTWEnv",
        "goal_desc_human_anns_prob": 0,
        "task_types": [1, 2, 3, 4, 5, 6],
        "domain_randomization": False,
        "expert_type": "handcoded",
    },
    "dataset": {
        "data_path": "$ALFWORLD_DATA/json_2.1.1/train",
        "eval_id_data_path": "$ALFWORLD_DATA/json_2.1.1/valid_seen",
        "eval_ood_data_path": "$ALFWORLD_DATA/json_2.1.1/valid_unseen",
        "num_train_games": -1,
        "num_eval_games": -1,
    },
    "general": {"training_method": "dqn"},
    "rl": {"training": {"max_nb_steps_per_episode": 50}},
}


def alfworld(folder: Path, domain: str = "", grammar: str = "") -> Benchmark:
    """Write houses of our own as official games; without their grammar, only we can play them."""
    plans: dict[str, tuple[bool, list[str]]] = {}
    houses = _short_houses()
    for split, kept in ALFWORLD_FOLDERS.items():
        items = []
        for one in (one for one in questions() if one.split == split):
            task, problem, commands = next(houses)
            place = f"json_2.1.1/{kept}/{problem.task_type}-{one.number}/game.tw-pddl"
            _write_json(folder / place, to_game_json(problem, domain, grammar))
            about = {"task_type": problem.task_type}
            _write_json(folder / place.replace("game.tw-pddl", "traj_data.json"), about)
            plans[task] = (one.is_easy, commands)
            items.append({"id": one.id, "gamefile": place, "task_type": problem.task_type})
        _write_json(folder / "split" / split / "items.json", items)

    def act(said: str, has_rule: bool, body: dict[str, Any]) -> str:
        del body
        task = re.search(r"Your task is to: (.*)", said)
        if task is None:
            return "ready"
        is_easy, commands = plans[task[1].strip()]
        step = re.search(r"^Steps so far: (\d+)", said, re.MULTILINE)
        at = int(step[1]) if step else 0
        wins = (is_easy or has_rule) and at < len(commands)
        return f"<think>so</think><action>{commands[at] if wins else 'look'}</action>"

    env = {**_split_dir(folder / "split"), "max_steps": MOST_STEPS, "max_api_workers": 2}
    return Benchmark(
        "skillopt.envs.alfworld.adapter:ALFWorldAdapter",
        env,
        act,
        ALFWORLD_PROMPTS,
        {"vendor/config_tw.yaml": yaml.safe_dump(ALFWORLD_CONFIG)},
        {"ALFWORLD_DATA": str(folder)},
    )


def _short_houses() -> Iterator[tuple[str, Any, list[str]]]:
    """Return houses that can be won soon, each with another task, so that the task tells which."""
    seen: set[str] = set()
    for index in count():
        problem = generate_problem("train", index)
        commands = plan(problem)
        task = World(problem).intro().partition("Your task is to: ")[2].strip()
        if task not in seen and len(commands) < MOST_STEPS:
            seen.add(task)
            yield task, problem, commands


def _split_dir(folder: Path) -> dict[str, Any]:
    return {"split_mode": "split_dir", "split_dir": str(folder)}


def _write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def _write_csv(folder: Path, rows: list[dict[str, str]]) -> None:
    for split in COUNTS:
        (folder / split).mkdir(parents=True)
        with (folder / split / "items.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(row for row in rows if row["split"] == split)
