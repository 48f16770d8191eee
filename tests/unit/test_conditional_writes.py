"""Whether a server of S3 knows conditional writes, asked of small servers that do, that do not, or that refuse."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from enrich.base import stores as known
from enrich.base.errors import EnvironmentFault
from enrich.delta.locks import require_conditional_writes
from enrich.delta.stores import write_object

TABLE = "s3a://box/lake/t"
PROBE = "/box/lake/_enrich/conditional_writes"


class Server(ThreadingHTTPServer):
    """Keeps what is put into it, in memory."""

    knows_conditions = True
    refuses = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        exists = self.path in self.server.objects
        if self.server.refuses:
            return self.answer(403)
        if self.server.knows_conditions and exists and self.headers["If-None-Match"] == "*":
            return self.answer(412)
        self.server.objects[self.path] = body
        return self.answer(200)

    def do_DELETE(self) -> None:
        self.server.objects.pop(self.path, None)
        self.answer(204)

    def do_POST(self) -> None:  # a DELETE of several objects
        self.server.objects.clear()
        self.answer(200, b"<DeleteResult><Deleted><Key>lake/_enrich/conditional_writes</Key></Deleted></DeleteResult>")

    def answer(self, code: int, body: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("ETag", '"tag"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tell nobody."""


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    with serving(Server()) as found:
        address = f"http://127.0.0.1:{found.server_address[1]}"
        s3a = {"endpoint": address, "path.style.access": "true", "endpoint.region": "north"}
        monkeypatch.setattr(known, "_known", {"box": {known.PREFIX + name: value for name, value in s3a.items()}})
        yield found


def test_a_server_with_conditional_writes_is_asked_once_and_accepted(server: Server) -> None:
    require_conditional_writes(TABLE)
    assert list(server.objects) == [PROBE]
    require_conditional_writes(TABLE)


def test_a_server_that_ignores_conditions_is_refused(server: Server) -> None:
    server.knows_conditions = False
    with pytest.raises(EnvironmentFault, match="has no conditional writes"):
        require_conditional_writes(TABLE)
    assert server.objects == {}


def test_a_server_that_refuses_is_told_with_the_place(server: Server) -> None:
    server.refuses = True
    with pytest.raises(EnvironmentFault, match=r"cannot write s3a://box/lake/_enrich/conditional_writes") as told:
        require_conditional_writes(TABLE)
    assert "canary" not in str(told.value)


def test_an_object_is_written_whole_over_the_one_before(server: Server) -> None:
    write_object("s3a://box/state", "reports/latest.html", "one")
    write_object("s3a://box/state", "reports/latest.html", "two")
    assert server.objects == {"/box/state/reports/latest.html": b"two"}


def test_a_store_without_conditional_writes_has_no_place_for_files() -> None:
    with pytest.raises(EnvironmentFault, match="cannot write files to hdfs:"):
        write_object("hdfs://host/state", "x", "y")
