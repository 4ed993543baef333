"""Real database servers on loopback, their own clients, and a proxy that loses what it is told to."""

import json
import os
import random
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from typing import Callable

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def clean_env() -> dict:
    return {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}


class DatabaseServer:
    """What `scripts/postgres.sh serve` or `scripts/mariadb.sh serve` runs; it ends with this process.
    Its data lie below `folder`, if one is given; with `tls` it wants sessions to be encrypted."""

    def __init__(self, kind: str, tls: bool = False, folder: Path | None = None):
        self.kind = kind
        env = clean_env()
        if tls:
            env["DATABASE_TLS"] = "yes"
        if folder is not None:
            env["TMPDIR"] = str(folder)
        self.script = subprocess.Popen(
            [str(SCRIPTS / f"{kind}.sh"), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=env,
        )
        line = self.script.stdout.readline()
        assert line, f"{kind}.sh ended"
        self.about = json.loads(line)
        self.port: int = self.about["port"]

    def tell(self, command: str) -> None:
        self.script.stdin.write(command + "\n")
        self.script.stdin.flush()
        answer = self.script.stdout.readline().strip()
        assert answer == "done", answer

    def close(self) -> None:
        self.script.stdin.close()
        self.script.wait(60)

    def url(self, port: int | None = None) -> str:
        port = self.port if port is None else port
        if self.kind == "postgres":
            return f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=onefold"
        return f"jdbc:mariadb://127.0.0.1:{port}/onefold"

    def options(self, port: int | None = None) -> dict[str, str]:
        login = {name: self.about[name] for name in ("user", "password") if name in self.about}
        return {"url": self.url(port)} | login

    def sql(self, text: str) -> list[list[str]]:
        """Rows of a statement, by the database's own client."""
        if self.kind == "postgres":
            command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "onefold"]
            command += ["-d", "postgres", "-XAtq", "-v", "ON_ERROR_STOP=1", "-F", "\t", "-c", text]
        else:
            command = ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", str(self.port)]
            command += ["-u", "onefold", f"-p{self.about['password']}", "-N", "-B", "onefold"]
            command += [*(["--ssl", "--skip-ssl-verify-server-cert"] if self.about["tls"] else [])]
            command += ["-e", text]
        assert shutil.which(command[0]), f"{command[0]} is missing"
        done = subprocess.run(command, capture_output=True, text=True, env=clean_env())
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def ids(self, table: str) -> list[int]:
        return [int(row[0]) for row in self.sql(f"SELECT id FROM {table} ORDER BY id")]

    def staging_tables(self) -> list[str]:
        where = "table_name LIKE 'onefold_s_%'"
        rows = self.sql(f"SELECT table_name FROM information_schema.tables WHERE {where}")
        return [row[0] for row in rows]


class CommitProxy:
    """A proxy before a server. Of the statements COMMIT that pass it, a share is lost by chance:
    `request` before it reaches the server, `reply` after the server has done it, `both` somewhere between.
    Then `strike` is called: before the statement is sent, while it is under way, or once it is done.
    `most` is how often, at most."""

    def __init__(
        self,
        port: int,
        fault: str,
        chance: float,
        rng: random.Random,
        strike: Callable[[], None] = lambda: None,
        most: int | None = None,
    ):
        self.upstream, self.fault, self.chance, self.rng = port, fault, chance, rng
        self.strike, self.most = strike, most
        self.commits = self.faults = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.upstream))
            except OSError:
                # It is down at the moment.
                client.close()
                continue
            mute = threading.Event()
            for run in (self._requests, self._replies):
                threading.Thread(target=run, args=(client, server, mute), daemon=True).start()

    def _strikes(self, data: bytes) -> bool:
        if b"COMMIT" not in data or b"INSERT" in data:
            return False
        with self.lock:
            self.commits += 1
            if self.faults == self.most or self.rng.random() >= self.chance:
                return False
            self.faults += 1
            return True

    def _requests(self, client: socket.socket, server: socket.socket, mute) -> None:
        try:
            while data := client.recv(1 << 16):
                if self._strikes(data):
                    mute.set()
                    if self.fault == "request":
                        self.strike()
                        break
                    server.sendall(data)
                    if self.fault == "both":
                        self.strike()
                        break
                    continue
                server.sendall(data)
        except OSError:
            pass
        finally:
            hang_up(server)
            if not (mute.is_set() and self.fault == "reply"):
                hang_up(client)

    def _replies(self, client: socket.socket, server: socket.socket, mute) -> None:
        try:
            while data := server.recv(1 << 16):
                if mute.is_set():
                    if self.fault == "reply":
                        self.strike()
                    break
                client.sendall(data)
        except OSError:
            pass
        finally:
            hang_up(client)
            hang_up(server)


def hang_up(side: socket.socket) -> None:
    try:
        side.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
