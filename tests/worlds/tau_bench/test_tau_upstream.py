"""The repository of tau-bench becomes data: read, never run, and compared to the byte."""

import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest

from skillwright.core import DataError
from skillwright.datasets import FetchError, FetchSettings
from skillwright.worlds.tau_bench import DOMAINS, TauBenchEnv, open_store, upstream
from skillwright.worlds.tau_bench.upstream import fetch_tau_bench
from tau_checkout import INFO, RETAIL, python_tasks, write_archive, write_checkout
from tau_store import TABLES, TASKS


@pytest.fixture
def checkout(tmp_path):
    return write_checkout(tmp_path / "checkout")


@pytest.fixture
def take(tmp_path):
    """Convert whatever version, into a folder of its own."""

    def take(source, into="made"):
        return fetch_tau_bench(tmp_path / into, str(source), any_version=True)

    return take


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_checkout_becomes_a_data_set_that_can_be_played(checkout, take, tmp_path):
    made = take(checkout)
    assert made.tasks == {"dev": 0, "test": 3, "train": 1}
    assert not made.is_pinned
    store = open_store(made.folder)
    assert store.checksum == made.checksum
    assert json.loads((tmp_path / "made" / "tasks_test.json").read_text()) == [
        {"index": index, **task} for index, task in enumerate(TASKS)
    ]
    assert store.rules == ("Be kind.",)
    assert store.tool_schemas == (INFO,)
    assert (tmp_path / "made" / "orders.json").read_text() == json.dumps(TABLES["orders"])
    assert (tmp_path / "made" / "LICENSE").read_text() == "A license.\n"
    TauBenchEnv(
        {"data_dir": made.folder, "user_strategy": "scripted", "user_replies": ["Hi."]},
        {"task_index": 0},
    ).init([])
    assert left_in(tmp_path) == ["checkout", "made"]


def test_the_official_data_comes_out_as_it_is_known(reference_data, tmp_path):
    official = reference_data / "tau_retail"
    names = ("users", "products", "orders")

    def read(name):
        return json.loads((official / f"{name}.json").read_text())

    checkout = write_checkout(
        tmp_path / "checkout",
        tables={name: (official / f"{name}.json").read_text() for name in names},
        tasks={split: read(f"tasks_{split}") for split in ("test", "train", "dev")},
        rules=read("rules"),
        tools=read("tools"),
    )
    shutil.copy(official / "wiki.md", checkout / RETAIL / "wiki.md")
    made = fetch_tau_bench(tmp_path / "made", str(checkout))
    assert made.is_pinned
    assert made.tasks == {"dev": 20, "test": 115, "train": 500}
    assert left_in(tmp_path / "made") == sorted(
        [*DOMAINS["retail"].upstream, "LICENSE", "user_prompt.txt"]
    )
    for name in DOMAINS["retail"].upstream:
        assert (tmp_path / "made" / name).read_bytes() == (official / name).read_bytes()

    assert fetch_tau_bench(tmp_path / "made").was_there, "what is there is not asked for again"
    (tmp_path / "made" / "wiki.md").write_text("damaged")
    assert not fetch_tau_bench(tmp_path / "made", str(checkout)).was_there
    assert fetch_tau_bench(tmp_path / "made").was_there


def test_another_version_is_refused_unless_asked_for(checkout, tmp_path):
    with pytest.raises(DataError, match=r"not tau-bench at 59a200c: orders\.json.*--any-version"):
        fetch_tau_bench(tmp_path / "made", str(checkout))
    assert left_in(tmp_path) == ["checkout"]


def test_an_archive_is_as_good_and_only_what_is_wanted_is_unpacked(checkout, take, tmp_path):
    evil = [("../evil", b"x"), ("/tmp/evil_skillwright", b"x"), ("tau-bench-abc/../evil", b"x")]
    evil.append((f"tau-bench-abc/elsewhere/{RETAIL / 'wiki.md'}", b"# Another policy"))
    archive = write_archive(tmp_path / "archive.tar.gz", checkout, evil)
    assert take(archive, "a").checksum == take(checkout, "b").checksum
    assert left_in(tmp_path) == ["a", "archive.tar.gz", "b", "checkout"]


@pytest.mark.parametrize("keep", [0, 40, 400])
def test_a_damaged_archive_is_told_and_nothing_is_left(checkout, take, tmp_path, keep):
    archive = write_archive(tmp_path / "archive.tar.gz", checkout)
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"not a whole \.tar\.gz archive.*--from FILE"):
        take(archive)
    assert left_in(tmp_path) == ["archive.tar.gz", "checkout"]


def packed(path, *members):
    """Write an archive of made-up members, each a name, a kind and what is in it or how much."""
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, body in members:
            member = tarfile.TarInfo(f"tau-bench-abc/{name}")
            member.type = kind
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                member.linkname = body
            elif isinstance(body, bytes):
                member.size = len(body)
            elif body is not None:
                member.pax_headers = {"comment": "x" * body}
            tar.addfile(member, io.BytesIO(body) if isinstance(body, bytes) else None)
    return path


WIKI = str(RETAIL / "wiki.md")
HOSTILE_MEMBERS = {
    "a hard link out": (WIKI, tarfile.LNKTYPE, "/etc/passwd"),
    "a link to itself": (WIKI, tarfile.LNKTYPE, f"tau-bench-abc/{WIKI}"),
    "a symbolic link out": (WIKI, tarfile.SYMTYPE, "/etc/passwd"),
    "a pipe": (WIKI, tarfile.FIFOTYPE, None),
    "a device": (WIKI, tarfile.CHRTYPE, None),
    "a folder": (WIKI, tarfile.DIRTYPE, None),
}


@pytest.mark.parametrize("kind", HOSTILE_MEMBERS)
def test_what_is_no_file_is_not_unpacked(tmp_path, take, kind):
    archive = packed(tmp_path / "archive.tar.gz", HOSTILE_MEMBERS[kind])
    with pytest.raises(DataError, match="no checkout of tau-bench"):
        take(archive)
    assert left_in(tmp_path) == ["archive.tar.gz"]


BOMBS = {
    "one large member": ([("other", tarfile.REGTYPE, bytes(3_000_000))], "unpacks to more than"),
    "many wanted ones": (
        [(f"{RETAIL}/tools/t{n}.py", tarfile.REGTYPE, bytes(90_000)) for n in range(30)],
        "unpacks to more than 2,000,000 bytes",
    ),
    "a long header": ([("other", tarfile.REGTYPE, 200_000)], "a part of more than 100,000 bytes"),
    "many members": (
        [(f"other/{n}", tarfile.REGTYPE, b"") for n in range(300)],
        "more than 200 members",
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_archive_unpacks_to_no_more_than_a_checkout_has(tmp_path, take, monkeypatch, bomb):
    members, why = BOMBS[bomb]
    for name, bound in (("_LARGEST", 100_000), ("_MOST_BYTES", 2_000_000), ("_MOST_MEMBERS", 200)):
        monkeypatch.setattr(upstream, name, bound)
    with pytest.raises(DataError, match=f"is no archive of tau-bench: it .*{why}.*--from FILE"):
        take(packed(tmp_path / "archive.tar.gz", *members))
    assert left_in(tmp_path) == ["archive.tar.gz"]


def test_a_link_in_an_archive_is_not_followed(checkout, take, tmp_path):
    (tmp_path / "secret").write_text("# A secret\n")
    wiki = checkout / RETAIL / "wiki.md"
    wiki.unlink()
    wiki.symlink_to(tmp_path / "secret")
    with pytest.raises(DataError, match=r"lacks .*wiki\.md"):
        take(write_archive(tmp_path / "archive.tar.gz", checkout))


def test_without_a_network_the_way_out_is_told(tmp_path):
    at_once = FetchSettings(attempts=1)
    with pytest.raises(FetchError, match=r"127\.0\.0\.1:9/x.*refused.*git clone.*59a200c"):
        fetch_tau_bench(tmp_path / "made", "http://127.0.0.1:9/x", settings=at_once)
    assert left_in(tmp_path) == []


MARK = "import pathlib; pathlib.Path('executed').touch()"


@pytest.mark.parametrize(
    "task",
    [
        'Task(user_id=__import__("os").getcwd(), instruction="", actions=[], outputs=[])',
        f'Task(user_id=exec("{MARK}"), instruction="", actions=[], outputs=[])',
        'Task(user_id=f"{1 + 1}", instruction="", actions=[], outputs=[])',
        'Task(user_id=(lambda: "x")(), instruction="", actions=[], outputs=[])',
        'Task(user_id="x", instruction="", actions=[x for x in ()], outputs=[])',
        'Task(user_id="x", instruction="", actions=[], outputs=[open])',
        'Task(user_id="x", instruction="", actions=[], outputs=[*()])',
        'Task(user_id=b"x", instruction="", actions=[], outputs=[])',
        'Task(**{"user_id": "x"})',
    ],
)
def test_what_only_running_could_tell_is_refused_with_its_line(
    checkout, take, task, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = checkout / RETAIL / "tasks_test.py"
    path.write_text(f"{MARK}\n\nTASKS_TEST = [{task}]\n")
    with pytest.raises(DataError, match=r"tasks_test\.py.*line 3.*read, not run"):
        take(checkout)
    assert left_in(tmp_path) == ["checkout"]


def test_code_around_the_tasks_is_not_executed(checkout, take, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in (checkout / RETAIL).rglob("*.py"):
        path.write_text(f"{MARK}\n{path.read_text()}\n{MARK}\nraise SystemExit(1)\n")
    assert take(checkout).tasks["test"] == 3
    assert not (tmp_path / "executed").exists()


TASK = 'Task(user_id="x", instruction="y", actions=[{}], outputs=[])'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("TASKS_TEST = [", "is not Python"),
        ("TASKS_TEST = []\nTASKS_TEST = []", "2 times"),
        ("", "0 times"),
        ("TASKS_TEST: list", "0 times"),
        ("TASKS_TEST = {}", "is not a list"),
        ("TASKS_TEST = [1]", r"task 0: a Task\(...\) is expected"),
        (f"TASKS_TEST = [{TASK.format('Task(name=1)')}]", r"an? Action\(...\) is expected"),
        (f"TASKS_TEST = [{TASK.format('Action(name=1)')}]", "kwargs"),
        ('TASKS_TEST = [Task(user_id="x")]', "must have"),
        (f"TASKS_TEST = [{TASK.format('')[:-1]}, more=1)]", "more"),
        (f"TASKS_TEST = [{TASK.format('Action(name=1, kwargs=[2])')}]", "kwargs"),
        (
            f"TASKS_TEST = [{TASK.format('Action(name=1, kwargs=dict(a=Task()))')}]",
            "JSON cannot hold",
        ),
        (f"TASKS_TEST = [{TASK.format('Action(name=1, kwargs={2: 3})')}]", "read, not run"),
        (
            f"TASKS_TEST = [{TASK.format('Action(name=1, kwargs=dict(a=1e999))')}]",
            "JSON cannot hold",
        ),
        (f"TASKS_TEST = [{TASK.format('Action(name=1, kwargs=1.5)')}]", "lacks what a task has"),
        (f"TASKS_TEST = {'[' * 5000}{']' * 5000}", "nested|not Python"),
        (f"TASKS_TEST = {'-' * 90000}1", "nested|not Python|read, not run"),
        ("TASKS_TEST = '\0'", "is not Python"),
    ],
)
def test_a_damaged_task_file_is_told(checkout, take, text, told, tmp_path):
    (checkout / RETAIL / "tasks_test.py").write_text(text)
    with pytest.raises(DataError, match=told):
        take(checkout)
    assert left_in(tmp_path) == ["checkout"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("rules.py", b"RULES = [1]", "RULES is not a list of texts"),
        ("rules.py", b"\xff", "not UTF-8"),
        ("data/orders.json", b"[]", "not an object of records"),
        ("data/users.json", b"{", "is not JSON"),
        ("tools/tool_00.py", b"def get_info(): return 1", "get_info"),
        ("tools/tool_00.py", b"def get_info(): pass", "get_info"),
        ("tools/tool_00.py", b"def get_info(): return make()", "get_info"),
    ],
)
def test_other_damage_is_told(checkout, take, name, content, told, tmp_path):
    (checkout / RETAIL / name).write_bytes(content)
    with pytest.raises(DataError, match=told):
        take(checkout)
    assert left_in(tmp_path) == ["checkout"]


def test_a_missing_file_is_told(checkout, take, tmp_path):
    (checkout / RETAIL / "wiki.md").unlink()
    with pytest.raises(DataError, match=r"lacks .*wiki\.md"):
        take(checkout)
    with pytest.raises(DataError, match=r"no folder tau_bench/envs/retail"):
        take(tmp_path)


def test_texts_in_several_pieces_are_joined(checkout, take, tmp_path):
    text = 'TASKS_TEST = [Task(user_id="a" "b", instruction=("c" + f"d"), actions=[], outputs=[])]'
    (checkout / RETAIL / "tasks_test.py").write_text(text)
    task = open_store(take(checkout).folder).task("test", 0)
    assert (task.user_id, task.instruction) == ("ab", "cd")


def test_what_is_no_data_set_is_not_replaced(checkout, take, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letters.txt").write_text("Dear")
    with pytest.raises(DataError, match="other things"):
        take(checkout, "mine")
    with pytest.raises(DataError, match="is a file"):
        take(checkout, "mine/letters.txt")
    assert (tmp_path / "mine" / "letters.txt").read_text() == "Dear"


def test_a_failed_refresh_leaves_what_was_there(checkout, take, tmp_path):
    first = take(checkout).checksum
    entries = python_tasks("test", TASKS[:1])
    (checkout / RETAIL / "tasks_test.py").write_text(entries)
    (checkout / RETAIL / "tasks_dev.py").write_text("TASKS_DEV = [")
    with pytest.raises(DataError, match="is not Python"):
        take(checkout)
    assert (tmp_path / "made" / "SHA256SUMS").exists()
    (checkout / RETAIL / "tasks_dev.py").write_text("TASKS_DEV = []")
    assert take(checkout).checksum != first
    assert left_in(tmp_path) == ["checkout", "made"]


def test_what_was_there_comes_back_where_the_new_cannot_be_put_in_its_place(
    checkout, take, tmp_path, monkeypatch
):
    first = take(checkout).checksum
    rename = Path.rename

    def refusing(self, target):
        if self.name.endswith(".new"):
            raise PermissionError(13, "Permission denied", str(target))
        return rename(self, target)

    (checkout / RETAIL / "wiki.md").write_text("# Another policy")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refusing)
        with pytest.raises(PermissionError):
            take(checkout)
    assert open_store(tmp_path / "made").checksum == first
    assert left_in(tmp_path) == ["checkout", "made"]
