"""Opens an SSH connection, and turns what can go wrong into words with a next step."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from mydyno.errors import HostError
from mydyno.model.definition.host_groups import SSH_PORT, Address

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
SYSTEM_KNOWN_HOSTS = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))
METHODS = "gssapi-with-mic,publickey"
"""Passwords are not entered interactively: there may be twenty hosts."""
FURTHER_HOST_KEYS = "+ssh-ed25519,ecdsa-sha2-nistp*,rsa-sha2-*"
"""Kinds of host keys that are offered after those of known_hosts, as ssh does: a host with a key of another kind shows
it, and its fingerprint can be named. Without them both sides hang up at the same moment, and which error is seen
depends on who was first."""


@dataclass(frozen=True)
class Login:
    """How to log in."""

    config_files: tuple[Path, ...] | None = None
    """None: ~/.ssh/config and /etc/ssh/ssh_config, the first value of each option counts."""
    timeout_s: float = 20.0
    """For the connection, and again for the login."""
    keepalive_s: float = 15.0
    keepalive_count: int = 3


class _Client(asyncssh.SSHClient):
    """Remembers the key of a host that is not in known_hosts."""

    def __init__(self) -> None:
        self.presented: asyncssh.SSHKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """Called for a key that is not known: never trusted."""
        self.presented = key
        return False


async def open_connection(address: str, login: Login) -> asyncssh.SSHClientConnection:
    """Log in. Raises HostError: what failed, and what to try; UserError for an impossible address."""
    return await _open(Address.parse(address), login, ())


async def _open(
    address: Address, login: Login, before: Sequence[str], via: asyncssh.SSHClientConnection | None = None
) -> asyncssh.SSHClientConnection:
    """`before`: the hosts whose jumps led to this one; `via`: the jump that it is reached by."""
    if address.text in before:
        raise HostError(f"{address.text}: ProxyJump leads back to {address.text}", "see ~/.ssh/config")
    client = _Client()
    given: dict[str, Any] = {
        "config": _config_files(login), "preferred_auth": METHODS, "client_factory": lambda: client,
        "username": () if address.user is None else address.user,
        "keepalive_interval": login.keepalive_s, "keepalive_count_max": login.keepalive_count,
        "connect_timeout": login.timeout_s, "login_timeout": login.timeout_s,
    }  # fmt: skip
    port = () if address.port is None else address.port
    try:
        options = await asyncssh.SSHClientConnectionOptions.construct(host=address.host, port=port, **given)
    except (asyncssh.ConfigParseError, OSError, ValueError) as error:  # also of keys
        raise _unusable(address, error) from error
    if not options.config.get("HostKeyAlgorithms"):
        given["server_host_key_algs"] = FURTHER_HOST_KEYS
    known_hosts = options.known_hosts
    if not known_hosts:
        # Without UserKnownHostsFile the usual files; with "none", which asyncssh takes for "trust any", none.
        known_hosts = b"" if known_hosts is None else _known_hosts_files() or b""
    jump: asyncssh.SSHClientConnection | None = None
    if isinstance(options.tunnel, str) and options.tunnel:
        for hop in options.tunnel.split(","):
            jump = await _open(Address.parse(hop.removeprefix("ssh://")), login, [*before, address.text], jump)
        given["tunnel"] = jump
    elif via is not None:
        given["tunnel"] = via
    try:
        connection = await asyncssh.connect(address.host, port, known_hosts=known_hosts, **given)
    except (asyncssh.Error, OSError, ValueError) as error:
        if jump is not None:
            jump.close()
        known = asyncssh.match_known_hosts(known_hosts, options.host_key_alias or options.host, "", options.port)[0]
        raise explained(address, error, client.presented, options, bool(known)) from error
    connection.set_tunnel(jump)
    return connection


def _config_files(login: Login) -> list[str]:
    files = login.config_files
    if files is None:
        files = (Path("~/.ssh/config").expanduser(), SYSTEM_CONFIG)
    return [str(path) for path in files if os.access(path, os.R_OK)]


def _known_hosts_files() -> list[str]:
    own = [Path("~/.ssh", name).expanduser() for name in ("known_hosts", "known_hosts2")]
    return [str(path) for path in (*own, *SYSTEM_KNOWN_HOSTS) if os.access(path, os.R_OK)]


def _unusable(address: Address, error: Exception) -> HostError:
    if isinstance(error, asyncssh.ConfigParseError):
        return HostError(f"{address.text}: the SSH configuration: {error}", "ssh -G HOST prints what ssh understands")
    if isinstance(error, asyncssh.KeyImportError | asyncssh.KeyEncryptionError):
        return HostError(
            f"{address.text}: a private key cannot be read: {error}", "a key with a passphrase: ssh-add, then again"
        )
    return HostError(f"{address.text}: SSH cannot be set up: {error}")


def explained(
    address: Address,
    error: Exception,
    presented: asyncssh.SSHKey | None,
    options: asyncssh.SSHClientConnectionOptions,
    known: bool,
) -> HostError:
    """The error for people: what happened, and what to try. `known`: known_hosts has some key of this host."""
    name = address.text
    ssh = "ssh " + (f"-p {address.port} " if address.port else "") + name.removesuffix(f":{address.port}")
    if isinstance(error, asyncssh.HostKeyNotVerifiable) and presented is not None and not known:
        return HostError(
            f"{name}: unknown host key {_words(presented)}",
            f"compare it with the host's own key, and accept it once with: {ssh}",
        )
    if isinstance(error, asyncssh.HostKeyNotVerifiable) and presented is None:
        return HostError(f"{name}: {error}", f"is it the right host? {ssh}")
    if isinstance(error, asyncssh.HostKeyNotVerifiable) or (
        isinstance(error, asyncssh.KeyExchangeFailed) and "host key" in str(error)
    ):
        found = f" {_words(presented)}" if presented is not None else ""
        place = options.host if options.port == SSH_PORT else f"'[{options.host}]:{options.port}'"
        return HostError(
            f"{name}: the host key{found} differs from that in known_hosts: "
            "another host answers, or this one was installed anew",
            f"only if you know which: ssh-keygen -R {place}, then {ssh}",
        )
    if isinstance(error, asyncssh.PermissionDenied):
        return HostError(
            f"{name}: login as {options.username} refused: no key was accepted",
            f"`{ssh}` must work without a question: ssh-copy-id installs a key, ssh-add unlocks one; "
            "mydyno uses no passwords",
        )
    return _unreachable(address, error, options, ssh)


def _unreachable(
    address: Address, error: Exception, options: asyncssh.SSHClientConnectionOptions, ssh: str
) -> HostError:
    name = address.text
    if isinstance(error, TimeoutError):
        return HostError(f"{name}: no answer within {options.connect_timeout:g} s", f"is the host up? {ssh}")
    if isinstance(error, socket.gaierror):
        return HostError(f"{name}: unknown host name {options.host}", f"see the spelling, DNS, ~/.ssh/config; {ssh}")
    if isinstance(error, ConnectionRefusedError):
        return HostError(f"{name}: port {options.port} refuses connections", f"does sshd run there? {ssh}")
    if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT):
        return HostError(f"{name}: not reachable: {os.strerror(error.errno)}", f"network, firewall, VPN? {ssh}")
    return HostError(f"{name}: no SSH connection: {error}", ssh)


def _words(key: asyncssh.SSHKey) -> str:
    return f"{key.get_algorithm()} {key.get_fingerprint()}"
