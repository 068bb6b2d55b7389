"""A PostgreSQL primary with a synchronous standby, which can be promoted. Debian's binaries, or those of a directory that is given."""

import os
import pwd
import re
import shutil
import subprocess
import time
from pathlib import Path

from processes import CommandFailed, Process, free_port, wait_until

DATABASE = "tepui"
STANDBY = "standby"


class Missing(Exception):
    """It cannot be had here."""


def find_binaries(given=None):
    """The directory with initdb and the rest: the one given, that of the newest version of Debian's, or that on the path."""
    if given is not None:
        if not (Path(given) / "initdb").is_file():
            raise Missing(f"no initdb in {given}")
        return Path(given)
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise Missing("there is no PostgreSQL (Debian's package postgresql, or --postgres-binaries)")
    return Path(on_path).resolve().parent


def unprivileged_user():
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise Missing("PostgreSQL does not run as root, and there is no user `nobody`")


class Server:
    """One PostgreSQL server with a port of its own, primary or standby."""

    def __init__(self, name, binaries, folder, user):
        self.name = name
        self.binaries = binaries
        self.folder = folder
        self.data = folder / name
        self.user = user
        self.port = free_port()
        self.process = None

    def run(self, program, *arguments, seconds=120):
        """Runs one of PostgreSQL's programs to its end, and returns what it prints."""
        done = subprocess.run(
            [str(self.binaries / program), *map(str, arguments)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            user=self.user,
        )
        if done.returncode != 0:
            raise CommandFailed(f"{program} of {self.name}: {done.stdout.decode(errors='replace')[-2000:]}")
        return done.stdout.decode()

    def initialize(self):
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "tepui", "--encoding=UTF8", "--locale=C", "--no-sync")

    def copy_of(self, primary):
        """Makes it a standby, from nothing."""
        shutil.rmtree(self.data, ignore_errors=True)
        source = f"host=127.0.0.1 port={primary.port} user=tepui application_name={STANDBY}"
        self.run("pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", source)
        # A standby is not to wait for one when it is promoted.
        automatic = self.data / "postgresql.auto.conf"
        lines = automatic.read_text().splitlines()
        automatic.write_text("\n".join(line for line in lines if not re.match(r"synchronous_standby_names|primary_slot_name", line)) + "\n")

    def start(self):
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "64MB",
            "max_wal_senders": "8",
            "wal_sender_timeout": "5s",
            "wal_receiver_timeout": "5s",
            # A standby looks so often whether there is more to replay, also before it is promoted.
            "wal_retrieve_retry_interval": "200ms",
            "log_min_messages": "warning",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [self.binaries / "postgres", "-D", self.data, "-p", self.port, *options]
        self.process = Process(self.name, command, self.folder, user=self.user).start()
        wait_until(lambda: self.ask("SELECT 1", "postgres") == "1", f"PostgreSQL {self.name}", self.process)

    def ask(self, sql, database=DATABASE, seconds=30):
        """What a statement returns, as psql prints it: one row a line, fields with bars between them."""
        return self.run(
            "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", self.port, "-U", "tepui", "-d", database, "-c", sql,
            seconds=seconds,
        ).strip()  # fmt: skip

    def promote(self):
        self.run("pg_ctl", "promote", "-w", "-D", self.data)

    @property
    def takes_writes(self):
        return self.ask("SELECT pg_is_in_recovery()", "postgres") == "f"


class PostgresPair:
    """A primary and its synchronous standby. Both keep their ports, whichever of them is the primary."""

    name = "postgres"

    def __init__(self, folder, binaries=None):
        self.folder = Path(folder) / "postgres"
        self.folder.mkdir()
        user = unprivileged_user()
        if user is not None:
            shutil.chown(self.folder, user)
            # Whoever runs PostgreSQL must reach its data.
            os.chmod(folder, 0o711)
        binaries = find_binaries(binaries)
        self.servers = [Server(name, binaries, self.folder, user) for name in ("a", "b")]

    @property
    def primary(self):
        return self.servers[0]

    @property
    def standby(self):
        return self.servers[1]

    def start(self):
        self.primary.initialize()
        self.primary.start()
        self.primary.ask(f"CREATE DATABASE {DATABASE}", "postgres")
        self.make_standby()

    def make_standby(self):
        """Makes the other server a synchronous standby of the primary, from nothing."""
        self.standby.copy_of(self.primary)
        self.standby.start()
        self.primary.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'", "postgres")
        self.primary.ask("SELECT pg_reload_conf()", "postgres")
        wait_until(lambda: self.is_synchronous, "a synchronous standby", self.standby.process)

    @property
    def is_synchronous(self):
        return self.primary.ask("SELECT sync_state FROM pg_stat_replication", "postgres") == "sync"

    def promote(self):
        """Makes the standby the primary. The other one must be dead, or fenced off for ever. Returns when it takes writes."""
        self.standby.promote()
        self.servers.reverse()
        wait_until(lambda: self.primary.takes_writes, "the new primary", self.primary.process)
        return time.monotonic()

    def rebuild(self):
        """After a promotion: the old primary is made the new standby."""
        self.standby.process.kill()
        self.make_standby()

    def stop(self):
        for server in self.servers:
            if server.process is not None:
                server.process.kill()

    def url(self, ports=None):
        """The address for a node, with both servers; through other ports, if they are given by the real ones."""
        ports = ports or {}
        hosts = ",".join(f"127.0.0.1:{ports.get(server.port, server.port)}" for server in sorted(self.servers, key=lambda server: server.name))
        return f"postgres://tepui@{hosts}/{DATABASE}?target_session_attrs=read-write"

    def rows(self):
        """How many rows there are, by their key space."""
        table = self.primary.ask("SELECT to_regclass('tepui_rows')")
        if not table:
            return {}
        lines = self.primary.ask("SELECT get_byte(p, 0), count(*) FROM tepui_rows WHERE v IS NOT NULL GROUP BY 1").splitlines()
        return {int(space): int(count) for space, count in (line.split("|") for line in lines)}

    def keys(self, space):
        """The keys of one key space."""
        lines = self.primary.ask(f"SELECT encode(p || t, 'hex') FROM tepui_rows WHERE v IS NOT NULL AND get_byte(p, 0) = {space}").splitlines()
        return [bytes.fromhex(line) for line in lines]
