"""What delta-rs is told of a bucket: the settings of Hadoop's S3A in its own words."""

from __future__ import annotations

import pytest

from enrich.base import stores
from enrich.base.stores import derive_options, find_options, remember_settings

S3A = "spark.hadoop.fs.s3a."
STYLE, PLAIN = "aws_virtual_hosted_style_request", "aws_allow_http"


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_known", {})


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {}),
        (
            {"endpoint": "http://127.0.0.1:9000", "path.style.access": "true"},
            {"aws_endpoint_url": "http://127.0.0.1:9000", PLAIN: "true"},
        ),
        (
            {"endpoint": "store:9000", "path.style.access": "TRUE", "connection.ssl.enabled": "false"},
            {"aws_endpoint_url": "http://store:9000", PLAIN: "true"},
        ),
        (
            {"endpoint": "store.example", "endpoint.region": "north"},
            {"aws_endpoint_url": "https://box.store.example", STYLE: "true", PLAIN: "false", "aws_region": "north"},
        ),
        ({"endpoint": "s3.eu-central-1.amazonaws.com"}, {"aws_region": "eu-central-1"}),
        ({"endpoint": "s3.amazonaws.com", "endpoint.region": "eu-west-1"}, {"aws_region": "eu-west-1"}),
        (
            {"access.key": "a", "secret.key": "b", "session.token": "c"},
            {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_session_token": "c"},
        ),
        (
            {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
            {"aws_skip_signature": "true"},
        ),
        ({"endpoint.region": "one", "bucket.box.endpoint.region": "two"}, {"aws_region": "two"}),
        ({"endpoint.region": "one", "bucket.other.endpoint.region": "two"}, {"aws_region": "one"}),
    ],
)
def test_settings_of_s3a_mean_the_same_to_delta_rs(settings: dict[str, str], options: dict[str, str]) -> None:
    assert derive_options({S3A + name: value for name, value in settings.items()}, "box") == options


def test_two_projects_with_buckets_of_their_own_keep_their_settings() -> None:
    remember_settings(["s3a://one/lake", "/lake"], {f"{S3A}endpoint.region": "north"})
    remember_settings(["s3a://two/lake"], {f"{S3A}endpoint.region": "south"})
    assert find_options("s3a://one/lake/t") == {"aws_region": "north"}
    assert find_options("s3a://two/lake/t") == {"aws_region": "south"}
    assert find_options("s3a://a-catalog-knows/t") == {"aws_region": "south"}
    assert find_options("/lake/t") == find_options("gs://one/t") == {}
