"""The language server that editors use for YAML, with the files of a new project and without a network."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from enrich.init import write_project
from kit.project import ROOT

pytestmark = pytest.mark.world

SERVER = "yaml-language-server@1.25.0"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Install the server, and return its command; started without a network where the machine lets us."""
    if shutil.which("npm") is None:
        pytest.skip("THERE IS NO npm ON THIS MACHINE, so the schemas were not tried in a language server")
    home = tmp_path_factory.mktemp("server")
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), SERVER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"{SERVER} CANNOT BE INSTALLED, so the schemas were not tried in a language server")
    cut = ["unshare", "-n"]
    alone = shutil.which("unshare") and not subprocess.run([*cut, "true"], capture_output=True, check=False).returncode
    return [*(cut if alone else []), "node", str(home / "node_modules/.bin/yaml-language-server"), "--stdio"]


class Editor:
    """As much of an editor as the Language Server Protocol needs: it opens files and reads what is wrong with them."""

    def __init__(self, command: list[str], home: Path) -> None:
        self.home = home
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.timer = threading.Timer(PATIENCE, self.process.kill)  # a server that is silent ends, and the test with it
        self.timer.start()
        root: dict[str, Any] = {"processId": None, "rootUri": home.as_uri(), "capabilities": {}}
        self.send(method="initialize", id=1, params=root)
        next(message for message in self.messages() if message.get("id") == 1)
        self.send(method="initialized", params={})

    def send(self, **message: Any) -> None:
        assert self.process.stdin
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what the server says, and answer its own questions."""
        assert self.process.stdout
        while True:
            length = 0
            while line := self.process.stdout.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            message = json.loads(self.process.stdout.read(length))
            if "method" in message and "id" in message:
                items = message.get("params", {}).get("items", [])
                self.send(id=message["id"], result=[{} for _ in items] or None)
            else:
                yield message

    def find_faults(self, name: str) -> list[str]:
        """Open a file and return what the server says is wrong with it."""
        uri = (self.home / name).as_uri()
        text = (self.home / name).read_text()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.send(method="textDocument/didOpen", params={"textDocument": document})
        for message in self.messages():
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri:
                return [fault["message"] for fault in message["params"]["diagnostics"]]
        raise AssertionError("unreachable")

    def close(self) -> None:
        self.timer.cancel()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def editor(server: list[str], tmp_path: Path) -> Iterator[Editor]:
    write_project(tmp_path / "shop")
    opened = Editor(server, tmp_path / "shop")
    yield opened
    opened.close()


def test_the_server_finds_the_schemas_in_the_project(editor: Editor) -> None:
    for name in [*(editor.home / "jobs").glob("*.yml"), *(editor.home / "conf").glob("*.yml")]:
        assert editor.find_faults(str(name.relative_to(editor.home))) == []
    job = (editor.home / "jobs" / "baskets_with_products.yml").read_text()
    (editor.home / "jobs" / "wrong.yml").write_text(job.replace("kind: list", "kind: lists").replace("from:", "form:"))
    faults = editor.find_faults("jobs/wrong.yml")
    assert 'Missing property "from".' in faults
    assert "Property form is not allowed." in faults
    schema = json.loads((ROOT / "conf" / "schema" / "job.schema.json").read_text())
    kinds = ", ".join(f'"{kind}"' for kind in schema["definitions"]["Join"]["properties"]["kind"]["enum"])
    assert any(f"Valid values: {kinds}." in fault for fault in faults), faults
    (editor.home / "conf" / "wrong.yml").write_text(
        (editor.home / "conf" / "dev.yml").read_text().replace("lake:", "l:")
    )
    assert "Property l is not allowed." in editor.find_faults("conf/wrong.yml")
