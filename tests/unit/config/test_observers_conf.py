"""What conf files may say of those who watch the runs, and what a message says of what they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from enrich.project.settings import load_settings
from enrich.project.yamlfile import load_tree


def faults(text: str) -> list[str]:
    tree = load_tree(f"lake: ./l\n{text}\n", "conf/dev.yml")
    settings, found = load_settings(tree, Path("/project"), {"SECRET": "s3cret"})
    assert (settings is None) == bool(found)
    return [str(fault) for fault in found]


@pytest.mark.parametrize(
    "text",
    [
        "lineage: {file: a.jsonl}",
        "lineage: {url: 'http://host:5000', endpoint: x/y, api_key: {file: ./key}, namespace: shop, timeout: 300}",
        "metrics: {file: ./a/b.prom}",
        "notify: {}",
        "notify: {a: {url: {env: A}}, b: {url: {file: /run/secrets/b}, on: [block, failure], repeat: false}}",
        "notify: {a: {url: {env: A}, text: 'no field {'}}",
    ],
)
def test_right_settings(text: str) -> None:
    assert faults(text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lineage: {namespace: a}", "2: 'lineage' needs either 'file' or 'url'"),
        ("lineage: {file: a, url: 'https://h'}", "2: 'lineage' needs either 'file' or 'url'"),
        ("lineage:\n  url: 'https://u:p@h/'", "3: 'lineage.url' must be http://host/... or https://host/..., without"),
        ("lineage:\n  url: ftp://h/", "3: 'lineage.url' must be http"),
        ("lineage:\n  file: a\n  api_key: {env: A}", "2: 'lineage' has an 'api_key', which is for a server"),
        ("lineage:\n  file: s3a://b/a", "3: 'lineage.file' must be a path on this machine, no URI"),
        ("lineage:\n  file: a\n  timeout: 0", "4: 'lineage.timeout': "),
        ("lineage:\n  fil: a", "3: unknown key 'fil'; did you mean 'file'?"),
        ("metrics:\n  file: a.txt", "3: 'metrics.file' must end in .prom; node exporter reads no other files"),
        ("metrics:\n  file: ~/a.prom", "3: 'metrics.file' must be a path on this machine, no URI and without '~'"),
        ("notify:\n  a:\n    url: https://h", "4: 'notify.a.url' is a secret: write where it is, {env: NAME} or"),
        ("notify:\n  a:\n    url: ${SECRET}", "4: 'notify.a.url' is a secret: write where it is, {env: NAME} or"),
        ("notify:\n  a:\n    url: {}", "4: 'notify.a.url' needs either 'env' or 'file'"),
        ("notify:\n  a:\n    url: {env: A, file: b}", "4: 'notify.a.url' needs either 'env' or 'file'"),
        ("notify:\n  a:\n    url: {enf: A}", "4: unknown key 'enf'; did you mean 'env'?"),
        ("notify:\n  a:\n    on: block", "3: 'url' is missing in 'notify.a'"),
        (
            "notify:\n  a:\n    url: {env: A}\n    on: []",
            "5: 'notify.a.on': Value should have at least 1 item",
        ),
        ("notify:\n  a:\n    url: {env: A}\n    on: fail", "5: 'notify.a.on' (item 1) is 'fail', but must be one of"),
        (
            "notify:\n  a:\n    url: {env: A}\n    headers: {A b: {env: C}}",
            "3: 'notify.a' has headers that HTTP cannot have: 'A b'",
        ),
        (
            "notify:\n  a:\n    url: {env: A}\n    headers:\n      A: s3cret",
            "6: 'notify.a.headers.A' is a secret: write where it is",
        ),
        (
            "notify:\n  a:\n    url: {env: A}\n    text: '{job}'",
            "5: 'notify.a.text' contains {job}; did you mean 'jobs'?",
        ),
        (
            "notify:\n  a:\n    url: {env: A}\n    text: '{zzz}'",
            "5: 'notify.a.text' contains {zzz}; it can contain {event}",
        ),
    ],
)
def test_wrong_settings_are_told_with_their_line(text: str, said: str) -> None:
    found = faults(text)
    assert len(found) == 1, found
    assert found[0].startswith(f"conf/dev.yml:{said}"), found
    assert "s3cret" not in found[0]
