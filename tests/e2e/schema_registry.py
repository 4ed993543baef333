"""A small registry of schemas on loopback, with the part of Confluent's API that is asked."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Optional
from urllib.parse import unquote, urlparse


class SchemaRegistry:
    """Holds Avro schemas by subject; the newest is the last. `failures` requests get a 503 first."""

    def __init__(self, user: Optional[str] = None):
        self.subjects: dict[str, list[int]] = {}
        self.schemas: list[str] = []
        self.asked: list[str] = []
        self.failures = 0
        self.authorization = f"Basic {base64.b64encode(user.encode()).decode()}" if user else None
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                registry.asked.append(self.path)
                self.reply(*registry.answer(self.headers.get("Authorization"), self.path))

            def reply(self, status: int, body: dict) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def register(self, subject: str, schema: dict) -> int:
        self.schemas.append(json.dumps(schema))
        self.subjects.setdefault(subject, []).append(len(self.schemas))
        return len(self.schemas)

    def answer(self, authorization: Optional[str], path: str) -> tuple[int, dict]:
        if authorization != self.authorization:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.failures > 0:
            self.failures -= 1
            return 503, {"error_code": 50301, "message": "not the primary"}
        parts = [unquote(part) for part in urlparse(path).path.strip("/").split("/")]
        if parts[:2] == ["schemas", "ids"]:
            number = int(parts[2])
            if 0 < number <= len(self.schemas):
                return 200, {"schema": self.schemas[number - 1]}
            return 404, {"error_code": 40403, "message": "Schema not found"}
        if parts[0] == "subjects" and parts[2:] == ["versions", "latest"]:
            ids = self.subjects.get(parts[1])
            if ids:
                newest = {"id": ids[-1], "version": len(ids), "schema": self.schemas[ids[-1] - 1]}
                return 200, {"subject": parts[1]} | newest
            return 404, {"error_code": 40401, "message": "Subject not found"}
        return 404, {"error_code": 404, "message": "not here"}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
