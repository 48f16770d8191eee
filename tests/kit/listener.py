"""A real HTTP server on loopback that notes what it is sent, and answers what a test tells it to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Listener:
    """What was received, and what is answered.

    Attributes:
        answers: HTTP codes, one for each request; the last one for all that follow.
        delay: Seconds before each answer.
        received: Path, headers and body of each request.
    """

    answers: Sequence[int] = (200,)
    delay: float = 0.0
    received: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON of each request."""
        return [json.loads(body) for _, _, body in self.received]


@contextmanager
def listen(*answers: int, delay: float = 0.0) -> Iterator[Listener]:
    """Serve until the block ends."""
    listener = Listener(answers or (200,), delay)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            listener.received.append((self.path, dict(self.headers), body))
            time.sleep(listener.delay)
            code = listener.answers[min(len(listener.received), len(listener.answers)) - 1]
            self.send_response(code)
            if code in (301, 302, 307, 308):
                self.send_header("Location", f"{listener.url}elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        listener.url = f"http://127.0.0.1:{server.server_address[1]}/"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield listener
        finally:
            server.shutdown()
            thread.join()
