"""A password for MySQL's caching_sha2_password and sha256_password over plain TCP: encrypted with the server's RSA key.

RSAES-OAEP with SHA-1 and MGF1 (RFC 8017 §7.1.1, §B.2.1) over the password mixed with the server's nonce, as MySQL's own
client sends it. PyMySQL leaves it to the package `cryptography`, which is not needed for anything else here. Only
encryption with a public key, so no secret key is handled; what it protects is a study's random password.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from itertools import cycle

HASH_BYTES = 20
NONCE_BYTES = 20
INTEGER, BIT_STRING, SEQUENCE = 0x02, 0x03, 0x30
"""Tags of DER (X.690)."""


def encrypted_password(password: bytes, salt: bytes, public_key: bytes) -> bytes:
    """What goes to the server in place of the password; `salt` is the server's nonce, the key is in PEM.

    Raises ValueError for what is no RSA key in PEM.
    """
    mixed = bytes(byte ^ mask for byte, mask in zip(password + b"\0", cycle(salt[:NONCE_BYTES]), strict=False))
    modulus, exponent = read_public_key(public_key)
    size = (modulus.bit_length() + 7) // 8
    padded = _oaep(mixed, size)
    return pow(int.from_bytes(padded, "big"), exponent, modulus).to_bytes(size, "big")


def read_public_key(pem: bytes) -> tuple[int, int]:
    """(modulus, exponent) of a SubjectPublicKeyInfo (RFC 5280). Raises ValueError."""
    lines = [line for line in pem.strip().splitlines() if not line.startswith(b"-----")]
    info, _ = _element(base64.b64decode(b"".join(lines)), SEQUENCE)
    _, rest = _element(info, SEQUENCE)  # the algorithm
    bits, _ = _element(rest, BIT_STRING)
    key, _ = _element(bits[1:], SEQUENCE)
    modulus, rest = _element(key, INTEGER)
    exponent, _ = _element(rest, INTEGER)
    return int.from_bytes(modulus, "big"), int.from_bytes(exponent, "big")


def _element(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """(content, what follows) of the DER element that the data begin with."""
    if len(data) < 2 or data[0] != tag:
        raise ValueError("the server's public key is no RSA key in PEM")
    length, begin = data[1], 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(data[2:begin], "big")
    return data[begin : begin + length], data[begin + length :]


def _oaep(message: bytes, size: int) -> bytes:
    room = size - 2 * HASH_BYTES - 2
    if len(message) > room:
        raise ValueError(f"a password of {len(message)} bytes is too long for this RSA key ({room} bytes)")
    block = hashlib.sha1(b"").digest() + bytes(room - len(message)) + b"\1" + message
    seed = secrets.token_bytes(HASH_BYTES)
    masked = _xor(block, _mask(seed, len(block)))
    return b"\0" + _xor(seed, _mask(masked, HASH_BYTES)) + masked


def _mask(seed: bytes, length: int) -> bytes:
    """MGF1."""
    rounds = range(-(-length // HASH_BYTES))
    return b"".join(hashlib.sha1(seed + count.to_bytes(4, "big")).digest() for count in rounds)[:length]


def _xor(first: bytes, second: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(first, second, strict=True))
