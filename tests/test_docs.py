"""The documentation tells the truth: names, signatures, commands, settings, links and examples."""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
import shlex
import textwrap
from pathlib import Path
from typing import NamedTuple, get_args

import griffe
import pytest
import typer
from typer.testing import CliRunner

import skillwright
from skillwright.cli.app import LazyCommand, app
from skillwright.config import load_config
from skillwright.core.jsonio import read_text
from skillwright.envs import spec
from skillwright.jobs.run import Sizes, make_splits
from skillwright.jobs.text import expected_episodes
from skillwright.worlds.alfworld import generated_tasks
from skillwright.worlds.alfworld.scripted import ScriptedHousehold

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "AGENTS.md",
    *sorted(DOCS.rglob("*.md")),
]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
CONTRACT = Path(__file__).with_name("benchmark_contract.pyi")
ROOMS_OF_THE_CONTRACT = ("envs", "datasets", "core", "evaluation", "textopt")
INNER_PACKAGES = (
    "skillwright.api",
    "skillwright.worlds.alfworld",
    "skillwright.worlds.search",
    "skillwright.envs.table",
    "skillwright.worlds.webshop",
    "skillwright.plugins.skillopt",
    "skillwright.plugins.skyrl",
    "skillwright.plugins.skyrl.generator",
    "skillwright.plugins.trl.rollouts",
    "skillwright.plugins.sessions",
    "skillwright.plugins.verifiers",
    "skillwright.models.scripted",
    "skillwright.policy.hf",
    "skillwright.policy.scorer",
)

BLOCK = re.compile(r"^```(?P<head>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND_IN_TEXT = re.compile(r"`(skillwright [^`\n]+)`")


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    title: str
    body: str


def name_of(path):
    return str(path.relative_to(ROOT))


def blocks(path, language):
    found = []
    for match in BLOCK.finditer(path.read_text(encoding="utf-8")):
        head = match["head"]
        title = re.search(r'title="([^"]+)"', head)
        found.append(Block(head.split(" ")[0], title[1] if title else "", match["body"]))
    return [block for block in found if block.language == language]


def prose(path):
    return BLOCK.sub("", path.read_text(encoding="utf-8"))


# Reference pages


def test_every_exported_name_is_on_a_reference_page_and_nothing_else_is():
    packages = [
        f"skillwright.{found.name}"
        for found in pkgutil.iter_modules(skillwright.__path__)
        if found.ispkg
    ]
    texts = [path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md")]
    shown = [name for text in texts for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)]
    listed = griffe.load_extensions(DOCS / "public_names.py")
    loader = griffe.GriffeLoader(search_paths=[ROOT / "src"], extensions=listed)
    source = loader.load("skillwright")
    loader.resolve_aliases()
    exported = set()
    for package in (*packages, *INNER_PACKAGES):
        found = source[package.removeprefix("skillwright.")]
        names = set(found.exports or ())
        if package in shown:
            exported.add(package)
            names -= rendered(found)
        exported |= {f"{package}.{name}" for name in names}
    jobs = {name for name in shown if name.startswith("skillwright.jobs.")}
    assert sorted(set(shown) - jobs) == sorted(exported)
    for name in jobs:
        assert importlib.import_module(name).__doc__, name


def rendered(package):
    """Return the names on the page of a package: documented ones that its source lists."""
    members = {name: package.members[name] for name in package.exports or ()}
    return {name for name, one in members.items() if not one.is_module and one.has_docstring}


def documented():
    """Every class, function and alias of the contract."""
    nodes = ast.parse(CONTRACT.read_text(encoding="utf-8")).body
    return {
        node.targets[0].id if isinstance(node, ast.Assign) else node.name: node
        for node in nodes
        if isinstance(node, ast.Assign | ast.ClassDef | ast.FunctionDef)
    }


def in_code(name):
    rooms = (importlib.import_module(f"skillwright.{room}") for room in ROOMS_OF_THE_CONTRACT)
    return next(getattr(room, name) for room in rooms if hasattr(room, name))


def shape(node):
    """What a signature or a field says, without its body."""
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node)
    decorators = [ast.unparse(one) for one in node.decorator_list]
    returns = ast.unparse(node.returns) if node.returns else None
    return (decorators, ast.unparse(node.args), returns)


def members(node):
    """The fields and methods of a class, by name."""
    return {
        part.target.id if isinstance(part, ast.AnnAssign) else part.name: shape(part)
        for part in node.body
        if isinstance(part, ast.AnnAssign | ast.FunctionDef)
    }


def source_of(thing):
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


@pytest.mark.parametrize("name", sorted(documented()))
def test_the_documented_contract_is_the_one_in_the_code(name):
    page, thing = documented()[name], in_code(name)
    if isinstance(page, ast.Assign):
        assert ast.literal_eval(page.value.slice) == get_args(thing)
        return
    code = source_of(thing)
    if isinstance(page, ast.FunctionDef):
        assert shape(page) == shape(code)
        return
    assert [ast.unparse(d) for d in page.decorator_list] == [
        ast.unparse(d) for d in code.decorator_list
    ]
    assert [ast.unparse(base) for base in page.bases] == [ast.unparse(base) for base in code.bases]
    told, real = members(page), members(code)
    assert told == {part: real.get(part) for part in told}


@pytest.mark.parametrize("name", ["EnvAdapter", "BaseDataLoader", "LRScheduler"])
def test_the_contract_leaves_out_no_public_method_of_what_is_subclassed(name):
    real = {
        part
        for part, kind in inspect.getmembers(in_code(name), inspect.isfunction)
        if not part.startswith("_")
    }
    assert real == members(documented()[name]).keys() - {"__init__"}


@pytest.mark.parametrize("name", ["BatchSpec", "Edit", "GateResult", "Patch", "RolloutResult"])
def test_the_contract_leaves_out_no_field(name):
    assert list(in_code(name).__dataclass_fields__) == list(members(documented()[name]))


# Commands


def typed_lines(path):
    """Every ``skillwright ...`` line of a page's shell blocks, without comments."""
    lines = [line for block in blocks(path, "sh") for line in block.body.splitlines()]
    return [line.partition(" #")[0].strip() for line in lines if line.startswith("skillwright ")]


def is_synopsis(line):
    return "[--" in line


def loaded(command):
    return command.load() if isinstance(command, LazyCommand) else command


def resolve(words):
    """Walk down from the program to a command; returns it and the words that are left."""
    command = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", ()):
        command, words = loaded(command.commands[words[0]]), words[1:]
    return command, words


def options(command):
    names = (name for one in command.params for name in one.opts)
    return {name for name in names if name.startswith("--")} | {"--help"}


def all_commands(command, path=()):
    for name, inner in getattr(command, "commands", {}).items():
        yield from all_commands(loaded(inner), (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_command_line_on_a_page_can_be_typed(path):
    for line in filter(lambda line: not is_synopsis(line), typed_lines(path)):
        command, words = resolve(shlex.split(line)[1:])
        assert not hasattr(command, "commands"), f"{line}: no such command"
        command.make_context(line, words)  # parses the words, and runs nothing


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_command_that_a_page_speaks_of_is_there(path):
    for line in COMMAND_IN_TEXT.findall(prose(path)):
        command, words = resolve(shlex.split(line)[1:])
        named = {word for word in words if word.startswith("-")}
        assert named <= options(command), line
        assert named or not hasattr(command, "commands"), f"{line}: no such command"


def test_the_page_of_commands_names_every_command_with_all_its_options():
    told, common = {}, script("generate_cli").COMMON | {"--help"}
    page = DOCS / "reference" / "cli.md"
    for line in page.read_text(encoding="utf-8").partition("<!-- generated")[2].splitlines():
        if line.startswith("skillwright "):
            words = (word for word in line.split()[1:] if re.fullmatch(r"[a-z]+(-[a-z]+)*", word))
            told[tuple(words)] = set(re.findall(r"--[a-z-]+", line))
    program = typer.main.get_command(app)
    assert told == {path: options(command) - common for path, command in all_commands(program)}


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_make_target_on_a_page_is_one(path):
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = re.findall(r"(?:^|`)make ([a-z]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= set(targets)


# Settings


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_configuration_on_a_page_loads(path, tmp_path):
    for block in blocks(path, "yaml"):
        file = tmp_path / (block.title or "untitled.yaml")
        file.write_text(block.body, encoding="utf-8")
        load_config(file)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_override_on_a_page_is_accepted(path):
    lines = filter(lambda line: not is_synopsis(line), typed_lines(path))
    lines = [*lines, *COMMAND_IN_TEXT.findall(prose(path))]
    for line in lines:
        settings = re.findall(r"--set (\S+)", line)
        load_config(ROOT / "examples" / "alfworld_endpoint.yaml", settings)


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_every_example_configuration_loads(path):
    load_config(path)


def script(name):
    """A module of the folder with the pages."""
    found = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_page_of_commands_is_what_the_program_says():
    generator = script("generate_cli")
    page = generator.PAGE.read_text(encoding="utf-8")
    assert page == generator.page(), "run: python docs/generate_cli.py"


def test_the_page_of_settings_is_what_the_classes_say():
    generator = script("generate_configuration")
    pages = {
        generator.PAGE: generator.page(),
        generator.RL_PAGE: generator.page(generator.RL_PAGE, generator.RlConfig),
    }
    for path, page in pages.items():
        assert page == path.read_text(encoding="utf-8"), (
            "run: python docs/generate_configuration.py"
        )


def test_the_tutorial_counts_the_episodes_of_its_run(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text(blocks(DOCS / "tutorial.md", "yaml")[0].body, encoding="utf-8")
    config = load_config(file)
    data, train, gate = config.env.data, config.train, config.evaluation.gate
    sizes = Sizes(data.train, data.val, data.test)
    compared = (train.epochs - 1) * 2 * config.optimizer.slow_update_samples
    tested = 3 * data.test
    counts = (data.val, train.epochs * data.train, compared, tested)
    assert (*counts, config.decisions(data.train)) == (40, 160, 120, 180, 7)
    judged = 830 - sum(counts) - gate.release.expected_rollouts(data.val)  # without lines
    assert (judged, gate.release.expected_rollouts(data.val)) == (210, 120)
    page = read_text(DOCS / "tutorial.md", "page")
    assert "about 890 episodes" in page
    rows = re.findall(r"^\| .* \| (\d+) \|$", page.partition("| for | episodes |")[2], re.MULTILINE)
    assert rows == ["40", "160", "210", "120", "60", "120", "180"]
    assert "the gate, in up to 7 decisions" in page
    assert expected_episodes(config, sizes, starts_blank=True) == 890


@pytest.mark.parametrize("name", ["loop", "nights", "packages"])
def test_the_figure_is_what_its_script_draws(name):
    drawing = script(f"{name}_figure")
    assert drawing.FIGURE.read_text(encoding="utf-8") == drawing.figure(), (
        f"run: python docs/{name}_figure.py"
    )


def test_the_front_page_stays_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 130


# Links


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_relative_link_leads_to_a_file(path):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose(path))
    relative = [link for link in links if not link.startswith(("http://", "https://"))]
    assert not [link for link in relative if not (path.parent / link).exists()]


# Examples


@pytest.fixture
def guess(monkeypatch):
    monkeypatch.chdir(ROOT)
    return spec("examples/guess.py:Guess").load()


@pytest.mark.usefixtures("guess")
def test_the_example_environment_passes_its_check():
    result = CliRunner().invoke(app, ["env", "check", "examples/guess.py:Guess"])
    assert result.exit_code == 0, result.output


def test_a_page_that_shows_an_example_includes_its_file():
    shown = [one for path in PAGES for one in blocks(path, "") if one.title]
    assert [one.body for one in shown] == [f'--8<-- "{one.title}"\n' for one in shown]
    assert {one.title for one in shown} >= {"examples/guess.py", "examples/tickets.yaml"}
    assert not [one.title for one in shown if not (ROOT / one.title).is_file()]


@pytest.mark.usefixtures("guess")
def test_the_example_has_tasks_for_all_three_splits():
    splits = make_splits(load_config("examples/guess.yaml"))
    assert (len(splits.train.tasks), len(splits.val.tasks), len(splits.test)) == (16, 24, 24)


def wins(env_class, answer, numbers):
    """Play by halving a list of numbers, which the answer should be in."""
    env = env_class(extras={"answer": answer})
    env.init([])
    while numbers:
        middle = len(numbers) // 2
        reply = env.step(str(numbers[middle]))
        if reply["done"]:
            return reply["reward"] == 1.0
        higher = reply["observations"][0]["content"].startswith("Higher")
        numbers = numbers[middle + 1 :] if higher else numbers[:middle]
    return False


def test_the_example_can_be_won_with_its_skill_and_seldom_without(guess):
    every, sevens = list(range(1, 1001)), list(range(7, 1001, 10))
    assert sum(wins(guess, answer, every) for answer in every) == 127
    assert all(wins(guess, answer, sevens) for answer in sevens)


def test_a_text_environment_becomes_a_benchmark_as_the_page_says():
    (block,) = blocks(DOCS / "add_a_benchmark.md", "python")
    scope = {}
    exec(compile(block.body, "add_a_benchmark.md", "exec"), scope)
    adapter = scope["adapter"](ScriptedHousehold(), {"train": generated_tasks("train", 2)})
    assert len(adapter.build_train_env(batch_size=2, seed=1)) == 2
    assert len(adapter.get_task_types()) == 2
