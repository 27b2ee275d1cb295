"""A PostgreSQL server of Debian's, on loopback and on a Unix socket, in a folder of its own."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.support.certificates import Certificate
from tests.support.process import free_port
from tests.support.waiting import wait_until

PASSWORD: Final = "sesame of the database"
SECONDS: Final = 60.0


def find_programs() -> Path | None:
    """The folder of the newest version's programs; None without PostgreSQL, or a user who may run it."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    return folders[-1].parent if folders and _user() != "root" else None


def _user() -> str:
    """Who runs it: root must not."""
    me = pwd.getpwuid(os.getuid()).pw_name
    known = {entry.pw_name for entry in pwd.getpwall()}
    return me if me != "root" else next((name for name in ("postgres", "nobody") if name in known), me)


class PostgresServer:
    """One server with a database `devices`, whose user `sluice` needs PASSWORD by TCP, and none by the socket."""

    def __init__(self, programs: Path, certificate: Certificate) -> None:
        """Create its files."""
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-postgres-"))
        self.port = free_port()
        self._programs = programs
        self._user = _user()
        self._process: subprocess.Popen[bytes] | None = None
        word = self.folder / "password"
        word.write_text(PASSWORD)
        for name, path in (("server.pem", certificate.certfile), ("server.key", certificate.keyfile)):
            shutil.copyfile(path, self.folder / name)
            (self.folder / name).chmod(0o600)
        if os.getuid() == 0:
            for path in (self.folder, *self.folder.iterdir()):
                shutil.chown(path, self._user)
        arguments = ["--username=sluice", f"--pwfile={word}", "--auth-local=trust", "--auth-host=scram-sha-256"]
        self._run("initdb", "-D", str(self.folder / "data"), "--no-sync", "--encoding=UTF8", *arguments)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            "fsync": "off",
            "ssl": "on",
            "ssl_cert_file": self.folder / "server.pem",
            "ssl_key_file": self.folder / "server.key",
        }
        flags = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *flags]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, user=self._other_user(), stderr=log, stdout=log)
        wait_until(self._answers, "PostgreSQL answers", SECONDS)

    def stop(self) -> None:
        """Stop it; clients are disconnected."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._run("pg_ctl", "stop", "-D", str(self.folder / "data"), "-m", "fast")
                self._process.wait(SECONDS)
            self._process = None

    def remove(self) -> None:
        """Stop it for ever."""
        self.stop()
        shutil.rmtree(self.folder)

    def sql(self, text: str, database: str = "devices") -> str:
        """Run statements."""
        return self._run("psql", *self._place(), "-v", "ON_ERROR_STOP=1", "-Atqc", text, database)

    def _answers(self) -> bool:
        try:
            self._run("psql", *self._place(), "-c", "select 1", "postgres")
        except subprocess.CalledProcessError:
            return False
        return True

    def _place(self) -> list[str]:
        return ["-X", "-h", str(self.folder), "-p", str(self.port), "-U", "sluice"]

    def _run(self, program: str, *arguments: str) -> str:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, user=self._other_user(), capture_output=True, text=True, check=True
        )
        return done.stdout

    def _other_user(self) -> str | None:
        return self._user if os.getuid() == 0 else None
