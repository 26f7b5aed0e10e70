"""A change of a bank that is decided from what the bank holds: nobody comes in between."""

import pytest

from bank_doors import bank_file, room_skill
from skillwright.bank import Add, BankError, BankStore
from skillwright.jobs.bank import import_and_approve as bank_moves


@pytest.fixture
def bank(tmp_path):
    return bank_file(tmp_path / "bank.sqlite", ["attic"])


@pytest.fixture
def intruder(bank, monkeypatch):
    """Have somebody else change the bank once what it holds was read; return whether they could."""
    came = []

    def intrude():
        try:
            with BankStore.open(bank, busy_timeout_s=0.01) as store:
                store.commit([Add(room_skill("hall"))], reason="somebody else")
        except BankError as error:
            came.append(str(error))

    def between(name):
        real = getattr(bank_moves, name)

        def call(before, *rest, **named):
            if before.version:
                intrude()
            return real(before, *rest, **named)

        monkeypatch.setattr(bank_moves, name, call)

    between("import_skills")
    between("apply")
    return came


def test_an_import_is_decided_and_written_in_one_piece(tmp_path, bank, intruder):
    (tmp_path / "more.md").write_text("# Skills\n\n## Signs\n- Read every sign aloud.\n")
    report = bank_moves.import_into(bank, str(tmp_path / "more.md"))
    assert report.bank.version == 2
    assert "another process is writing" in intruder[0]


def test_so_is_an_admission_without_a_gate(tmp_path, bank, intruder):
    (tmp_path / "more.md").write_text("# Skills\n\n## Signs\n- Read every sign aloud.\n")
    bank_moves.import_into(bank, str(tmp_path / "more.md"))
    report = bank_moves.approve_without_gate(bank, [], "seen")
    assert [one.id for one in report.bank.active] == ["t001", "g001"]
    assert len(intruder) == 2
