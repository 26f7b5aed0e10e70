"""Evidence is signed with a key, and only what that key signed passes `verify --key`."""

import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from doors import ALL_RULES, Coach, Walker, doors_config, trained

PRIVATE, PUBLIC = serialization.PrivateFormat, serialization.PublicFormat
PEM, OPEN = serialization.Encoding.PEM, serialization.NoEncryption()


@pytest.fixture
async def run(tmp_path):
    path, _ = await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES]]))
    return path


@pytest.fixture
def keys(tmp_path):
    """Files with keys: mine.pem, other.pem and their public keys, in the forms that tools write."""
    for name, seed in (("mine", 1), ("other", 2)):
        key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))
        raw = key.public_key().public_bytes_raw()
        ssh = (serialization.Encoding.OpenSSH, PUBLIC.OpenSSH)
        pem = (PEM, PUBLIC.SubjectPublicKeyInfo)
        files = {
            f"{name}.pem": key.private_bytes(PEM, PRIVATE.PKCS8, OPEN),
            f"{name}.ssh": key.private_bytes(PEM, PRIVATE.OpenSSH, OPEN),
            f"{name}.pub": key.public_key().public_bytes(*pem),
            f"{name}.line": key.public_key().public_bytes(*ssh) + b" me@home\n",
            f"{name}.hex": raw.hex().encode(),
        }
        for file, body in files.items():
            (tmp_path / file).write_bytes(body)
    locked = serialization.BestAvailableEncryption(b"secret")
    (tmp_path / "locked.pem").write_bytes(key.private_bytes(PEM, PRIVATE.PKCS8, locked))
    other = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    (tmp_path / "rsa.pem").write_bytes(other.private_bytes(PEM, PRIVATE.PKCS8, OPEN))
    (tmp_path / "rsa.pub").write_bytes(
        other.public_key().public_bytes(PEM, PUBLIC.SubjectPublicKeyInfo)
    )
    (tmp_path / "text.pem").write_text("no key")
    return tmp_path


def checked(cli, *words, code=0):
    (found,) = json.loads(cli("verify", "out", *words, "--json", code=code).stdout)
    return {one["name"]: (one["outcome"], one["said"]) for one in found["checks"]}


@pytest.mark.parametrize("private", ["mine.pem", "mine.ssh"])
@pytest.mark.parametrize("public", ["mine.pub", "mine.line", "mine.hex"])
def test_what_a_key_signed_passes_with_its_public_key(cli, run, keys, private, public):
    cli("skill", "export", run, "--output", "out", "--sign", keys / private)
    assert checked(cli, "--key", keys / public)["signature"][0] == "pass"
    assert checked(cli)["signature"][0] == "pass"
    shown = cli("verify", "out").stdout
    assert "whose key it is; --key FILE accepts one key alone" in " ".join(shown.split())


def test_another_key_is_refused_by_its_name(cli, run, keys):
    cli("skill", "export", run, "--output", "out", "--sign", keys / "other.pem")
    outcome, said = checked(cli, "--key", keys / "mine.pub", code=1)["signature"]
    assert outcome == "fail"
    assert f"signed with another key, {(keys / 'other.hex').read_text()}" in said


def test_a_folder_that_changed_after_it_was_signed_is_refused(cli, run, keys):
    cli("skill", "export", run, "--output", "out", "--sign", keys / "mine.pem")
    file = keys / "out" / "doors-doors" / "SKILL.md"
    file.write_text(file.read_text().replace("door 4", "door 3"))
    outcome, said = checked(cli, "--key", keys / "mine.pub", code=1)["evidence"]
    assert (outcome, said[:39]) == ("fail", "SKILL.md was changed after the evidence")


def test_what_is_not_signed_does_not_pass_with_a_key(cli, run, keys):
    cli("skill", "export", run, "--output", "out")
    assert checked(cli, "--key", keys / "mine.pub", code=1)["signature"] == (
        "fail",
        "it is not signed",
    )
    (keys / "mine.md").write_text("- Look.\n")
    cli("skill", "export", "mine.md", "--output", "bare", "--name", "mine")
    cli("verify", "bare", "--key", keys / "mine.pub", code=1)


def test_an_export_without_a_key_keeps_the_signature_of_equal_evidence(cli, tmp_path, keys):
    import asyncio

    folder = tmp_path / "skills" / "doors"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: doors\ndescription: Opens doors.\n---\n# Doors\n")
    config = doors_config(tmp_path, skill={"init": str(folder)})
    run, _ = asyncio.run(trained(config, Walker(), Coach([[ALL_RULES]]), skill="# Doors\n"))
    cli("skill", "export", run, "--to", folder, "--sign", keys / "mine.pem")
    again = cli("skill", "export", run, "--to", folder)
    assert "nothing changes" in again.stderr + again.stdout
    assert cli("verify", folder, "--key", keys / "mine.pub").stdout
    # A version that nothing proved takes the evidence of another one away.
    cli("skill", "export", f"{run}@0", "--to", folder)
    assert not (folder / "references").exists()


@pytest.mark.parametrize(
    ("private", "said"),
    [
        ("locked.pem", "has a password; sign with a key without one"),
        ("rsa.pem", "is no Ed25519 key; `openssl genpkey -algorithm ed25519"),
        ("text.pem", "is no private key"),
        ("mine.pub", "is no private key"),
        ("nothing.pem", "there is no such file"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_before_anything_is_written(
    cli, run, keys, private, said
):
    wrong = cli("skill", "export", run, "--output", "out", "--sign", keys / private, code=2)
    assert said in wrong.stderr
    assert not (keys / "out").exists()


@pytest.mark.parametrize(
    ("public", "said"),
    [
        ("mine.pem", "is a private key, which stays with its owner"),
        ("rsa.pub", "is no Ed25519 key"),
        ("text.pem", "is no public key"),
        ("nothing.pub", "there is no such file"),
    ],
)
def test_a_file_that_is_no_public_key_is_refused(cli, run, keys, public, said):
    cli("skill", "export", run, "--output", "out")
    assert said in cli("verify", "out", "--key", keys / public, code=2).stderr


def test_a_file_of_the_users_own_is_not_replaced_by_evidence(cli, tmp_path):
    import asyncio

    folder = tmp_path / "skills" / "doors"
    (folder / "references").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: doors\ndescription: Opens doors.\n---\n# Doors\n")
    (folder / "references" / "evidence.json").write_text('{"mine": 1}')
    config = doors_config(tmp_path, skill={"init": str(folder)})
    run, _ = asyncio.run(trained(config, Walker(), Coach([[ALL_RULES]]), skill="# Doors\n"))
    said = cli("skill", "export", run, "--to", folder, code=2).stderr
    assert "is a file of yours, and the evidence has this name" in said
    assert (folder / "references" / "evidence.json").read_text() == '{"mine": 1}'
    assert "door 4" not in (folder / "SKILL.md").read_text()
