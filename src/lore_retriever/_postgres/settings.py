"""Settings of the built-in Postgres: decided here, as text, from what the machine has."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from lore_retriever.errors import InvalidInput

__all__ = [
    "access_rules",
    "access_users",
    "default_settings",
    "render",
    "shared_memory_bytes",
    "usable_memory_bytes",
]

MB = 1024 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
# Where the server is found and who may reach it, plus words that are directives in the file.
_OURS = frozenset(
    {
        *("data_directory", "config_file", "hba_file", "ident_file", "external_pid_file"),
        *(
            "listen_addresses",
            "port",
            "unix_socket_directories",
            "unix_socket_group",
            "unix_socket_permissions",
        ),
        *("include", "include_dir", "include_if_exists"),
    }
)
_HEADER = "# Written by lore-retriever at every start: edits are lost. Pass settings= instead.\n"


def default_settings(*, memory_bytes: int, shm_bytes: int | None) -> dict[str, str]:
    """What the server runs with unless told otherwise.

    Args:
        memory_bytes: Memory this process may use: the machine's, or the container's limit.
        shm_bytes: Size of `/dev/shm`; None where the system has no such folder.
    """
    shared = min(max(memory_bytes // 8, 128 * MB), 1024 * MB, memory_bytes // 4)
    return {
        "listen_addresses": "",
        "port": "5432",  # only names the socket
        # Relative to the data folder, so that neither the length of its path nor a parent folder that
        # the server's account may not enter matters.
        "unix_socket_directories": ".",
        "unix_socket_permissions": "0700",
        "cluster_name": "lore-retriever",
        "max_connections": "100",
        "shared_buffers": _mb(shared),
        "effective_cache_size": _mb(memory_bytes // 2),
        "maintenance_work_mem": _mb(min(max(memory_bytes // 16, 64 * MB), 512 * MB)),
        "work_mem": "32MB" if memory_bytes >= 8192 * MB else "16MB",
        "huge_pages": "try",
        "dynamic_shared_memory_type": _dynamic_shared_memory(shm_bytes),
        "wal_level": "replica",
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",  # a write that was acknowledged survives kill -9 and power loss
        # After a crash all files are synced first: with one call where the system has it.
        "recovery_init_sync_method": "syncfs" if sys.platform == "linux" else "fsync",
        "max_wal_size": "1GB",  # bounds recovery after a crash, and the disk that it needs
        "checkpoint_timeout": "15min",
        "random_page_cost": "1.1",
        "jit": "off",  # compiling costs more than a search of milliseconds takes
        # Starting a worker costs more than a search, and workers need dynamic shared memory, which
        # containers are short of. Index builds may still use workers.
        "max_parallel_workers_per_gather": "0",
        "timezone": "UTC",
        "log_timezone": "UTC",
        # What happens to the server, not what clients get wrong: errors and details quote stored text,
        # which would outlive its deletion here. The client receives both in full.
        "log_min_messages": "log",
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        "log_checkpoints": "off",
        "log_autovacuum_min_duration": "-1",
    }


def render(overrides: Mapping[str, str] | None, *, memory_bytes: int, shm_bytes: int | None) -> str:
    """Text of the settings file: the defaults, then the caller's own.

    Raises:
        InvalidInput: If a name is none, or belongs to how the server is reached; or a value is not one
            line of text.
    """
    for name, value in (overrides or {}).items():
        _check(name, value)
    settings = default_settings(memory_bytes=memory_bytes, shm_bytes=shm_bytes)
    settings |= {name.lower(): value for name, value in (overrides or {}).items()}
    return _HEADER + "".join(f"{name} = {_quoted(value)}\n" for name, value in settings.items())


def access_rules() -> str:
    """Text of `pg_hba.conf`: this machine's socket only, and only the users of `access_users`."""
    return _HEADER + "local all all peer map=lore\nlocal replication all peer map=lore\n"


def access_users(names: Iterable[str]) -> str:
    """Text of `pg_ident.conf`: these system users may connect as any database role."""
    lines = ('lore "{}" all\n'.format(name.replace('"', '""')) for name in sorted(set(names)))
    return _HEADER + "".join(lines)


def usable_memory_bytes() -> int:
    """Memory this process may use: the machine's, or less where a container limits it."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(limit).read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if text.isdigit() and int(text) > 0:
            found.append(int(text))
    return min(found)


def shared_memory_bytes() -> int | None:
    """Size of `/dev/shm`; None where the system has no such folder."""
    try:
        shm = os.statvfs("/dev/shm")
    except OSError:
        return None
    return shm.f_frsize * shm.f_blocks


def _dynamic_shared_memory(shm_bytes: int | None) -> str:
    # Containers get 64 MB of /dev/shm by default, and a parallel index build asks for all of
    # maintenance_work_mem. System V memory does not live there; macOS is short of that instead.
    if sys.platform != "linux" or (shm_bytes is not None and shm_bytes >= 1024 * MB):
        return "posix"
    return "sysv"


def _check(name: str, value: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(f"settings: {name!r} is not the name of a Postgres setting.")
    if name.lower() in _OURS:
        raise InvalidInput(
            f"settings: {name!r} decides where the built-in server is found and who may reach it, and is not "
            "open to change. For another set-up run a Postgres of your own and use MemoryStore.connect."
        )
    if not isinstance(value, str) or not value.isprintable():
        raise InvalidInput(f"settings: the value of {name!r} is {value!r}; give one line of text, such as '64MB'.")


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _mb(size: int) -> str:
    return f"{max(size // MB, 1)}MB"
