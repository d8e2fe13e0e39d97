"""Certificates of one study, made by openssl: an authority, and a server's certificate for its addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.local import LocalHost

DAYS = 30
KEYS = {
    "rsa-2048": ["-newkey", "rsa:2048"],
    "ecdsa-p256": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
}


@dataclass(frozen=True)
class Certificates:
    """PEM files in one folder."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate, which a client trusts."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / "server-cert.pem"

    @property
    def key(self) -> Path:
        """The server's private key."""
        return self.folder / "server-key.pem"


async def make_certificates(folder: Path, key: str, addresses: Sequence[str], host: LocalHost) -> Certificates:
    """Make them in a folder that exists; existing files are kept. Raises HostError with openssl's message."""
    made = Certificates(folder)
    if made.certificate.is_file():
        return made
    names = ",".join(f"IP:{address}" for address in addresses)
    new_authority = ["openssl", "req", "-x509", "-nodes", *KEYS[key], "-keyout", str(folder / "ca-key.pem"),
                     "-out", str(made.authority), "-days", str(DAYS), "-subj", "/CN=mydyno authority"]  # fmt: skip
    request = str(folder / "server.csr")
    new_request = ["openssl", "req", "-nodes", *KEYS[key], "-keyout", str(made.key), "-out", request,
                   "-subj", "/CN=mydyno server"]  # fmt: skip
    extensions = folder / "server.ext"
    # Version 3 with names: what a verifying client looks at.
    extensions.write_text(f"subjectAltName={names},DNS:localhost\nextendedKeyUsage=serverAuth\n")
    signed = ["openssl", "x509", "-req", "-in", request, "-CA", str(made.authority),
              "-CAkey", str(folder / "ca-key.pem"), "-CAcreateserial", "-out", str(made.certificate),
              "-days", str(DAYS), "-extfile", str(extensions)]  # fmt: skip
    for command in (new_authority, new_request, signed):
        done = await host.run(command, timeout_s=60)
        if done.exit_code:
            raise HostError(f"{' '.join(command[:2])} failed: {done.output.strip()[-300:]}", "is openssl installed?")
    (folder / "ca-key.pem").unlink()  # nothing more is signed
    return made
