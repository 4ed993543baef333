"""A receiver of HTTP calls on loopback, which counts them by key."""

import json
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HttpReceiver:
    """Answers each call with `{"charged": BODY}`, or as `answer` (key, path, body) says: status and text."""

    def __init__(self, answer=None):
        self.lock = threading.Lock()
        self.bodies: dict[str, list[str]] = defaultdict(list)
        self.headers: list[dict] = []
        self.answer = answer or (lambda key, path, body: (200, json.dumps({"charged": body})))
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer in one piece, at once.
            wbufsize = -1
            disable_nagle_algorithm = True

            def do_POST(self):
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length).decode()
                if len(body) < length:
                    return  # the caller died in the middle
                key = self.headers.get("Idempotency-Key", "")
                with receiver.lock:
                    receiver.bodies[key].append(body)
                    receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, text = receiver.answer(key, self.path, body)
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass  # callers are killed in these tests

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def counts(self) -> dict[str, int]:
        """How often each key was called."""
        with self.lock:
            return {key: len(bodies) for key, bodies in self.bodies.items()}

    def done(self) -> list[str]:
        """What a receiver that honours keys has done. No key may have come with two bodies."""
        with self.lock:
            for key, bodies in self.bodies.items():
                assert len(set(bodies)) == 1, f"{key} came with {set(bodies)}"
            return [bodies[0] for bodies in self.bodies.values()]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
