"""What a memcached is started with, native or inside mysqld; set by the memcached treatment."""

from __future__ import annotations

from dataclasses import dataclass

from mydyno.hosts.network.ports import LOOPBACK

MIB = 1 << 20
SPARE_CONNECTIONS = 64


@dataclass(frozen=True)
class MemcachedOptions:
    """Port, memory and threads of one memcached."""

    port: int
    memory_bytes: int = 64 * MIB
    """memcached's own default, the plugin's too."""
    threads: int = 4
    connections: int = 1024
    """Connections that it takes, mydyno's own among them."""
    listen: str = LOOPBACK
    """The one address on which it listens."""

    @property
    def words(self) -> list[str]:
        """As memcached's command line and daemon_memcached_option take them; one address, no UDP."""
        memory = str(self.memory_bytes // MIB)
        return [
            "-l", self.listen, "-p", str(self.port), "-U", "0",
            "-m", memory, "-t", str(self.threads), "-c", str(self.connections),
        ]  # fmt: skip
