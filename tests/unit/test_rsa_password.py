"""The password that MySQL takes over plain TCP, decrypted again by openssl."""

from __future__ import annotations

import subprocess
from itertools import cycle
from pathlib import Path

import pytest

from mydyno.servers import sql
from mydyno.servers.rsa_password import encrypted_password, read_public_key


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "key.pem"
    subprocess.run(["openssl", "genrsa", "-out", str(path), "2048"], check=True, capture_output=True)
    return path


def public(key: Path) -> bytes:
    return subprocess.run(["openssl", "rsa", "-in", str(key), "-pubout"], check=True, capture_output=True).stdout


@pytest.mark.parametrize("password", [b"", b"secret", "пароль".encode(), b"x" * 200])
def test_openssl_decrypts_what_was_sent(key: Path, password: bytes) -> None:
    nonce = bytes(range(1, 21)) + b"\0"
    sent = encrypted_password(password, nonce, public(key))
    command = ["openssl", "pkeyutl", "-decrypt", "-inkey", str(key), "-pkeyopt", "rsa_padding_mode:oaep"]
    mixed = subprocess.run(command, input=sent, check=True, capture_output=True).stdout
    assert bytes(a ^ b for a, b in zip(mixed, cycle(nonce[:20]), strict=False)) == password + b"\0"
    assert sent != encrypted_password(password, nonce, public(key)), "each time another seed"


def test_what_is_no_key_and_what_is_too_long_are_refused(key: Path) -> None:
    with pytest.raises(ValueError, match="no RSA key"):
        read_public_key(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    with pytest.raises(ValueError, match="too long"):
        encrypted_password(b"x" * 300, bytes(20), public(key))


def test_sessions_use_it_without_the_package_that_pymysql_asks_for() -> None:
    assert vars(sql.pymysql._auth)["sha2_rsa_encrypt"] is encrypted_password
