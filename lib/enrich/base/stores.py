"""Tell how a bucket of S3 is reached without Spark: what ``spark.conf`` says of Hadoop's S3A, in the words of delta-rs.

So one place in ``conf/`` serves both. What it does not say comes from the environment (``AWS_ACCESS_KEY_ID`` ...) or
from the platform, where both look by themselves. Nothing is kept but in this process's memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

PREFIX = "spark.hadoop.fs.s3a."
SECRET = re.compile(
    r"spark\.hadoop\.fs\.(s3a\..*(access\.key|secret\.key|session\.token)"
    r"|azure\.(account\.key|account\.oauth2\.client\.secret|sas)\b.*"
    r"|gs\.(auth\.(service\.account\.private\.key|client\.secret|refresh\.token)|proxy\.password))"
)
"""Settings of Hadoop's drivers for S3, Azure and Google Cloud Storage that may only come from the environment."""

_SAME = {
    "endpoint.region": "aws_region",
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
}
_known: dict[str, Mapping[str, str]] = {}
"""Bucket -> the settings of the project that names it; ``""``: those of the project that was read last."""


def remember_settings(uris: Iterable[str], settings: Mapping[str, str]) -> None:
    """Let the tables of a project be reached as its Spark settings say, from here on and in the whole process.

    Tables elsewhere (a catalog's) are taken to be like those of the last project.
    """
    for bucket in {urlsplit(uri).netloc for uri in uris if uri.startswith("s3a://")} | {""}:
        _known[bucket] = settings


def find_options(uri: str) -> dict[str, str]:
    """Return the storage options of delta-rs for a table; none for what is not in S3."""
    if not uri.startswith("s3a://"):
        return {}
    bucket = urlsplit(uri).netloc
    return derive_options(_known.get(bucket) or _known.get("") or {}, bucket)


def derive_options(settings: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Return the storage options of delta-rs that mean what settings of S3A say; a bucket's own come first."""

    def get(name: str) -> str:
        return (settings.get(f"{PREFIX}bucket.{bucket}.{name}") or settings.get(PREFIX + name) or "").strip()

    options = {theirs: value for ours, theirs in _SAME.items() if (value := get(ours))}
    if get("aws.credentials.provider").endswith("AnonymousAWSCredentialsProvider"):
        options["aws_skip_signature"] = "true"
    endpoint = get("endpoint")
    host = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}").hostname or ""
    if host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
        # delta-rs knows where Amazon's buckets are; an address like s3.eu-central-1.amazonaws.com names the region.
        parts = host.split(".")
        return {"aws_region": parts[1], **options} if parts[0] == "s3" and parts[2:3] == ["amazonaws"] else options
    if endpoint:
        secure = get("connection.ssl.enabled").lower() != "false"
        whole = endpoint if "://" in endpoint else f"{'https' if secure else 'http'}://{endpoint}"
        if get("path.style.access").lower() != "true":
            whole = whole.replace("://", f"://{bucket}.", 1)
            options["aws_virtual_hosted_style_request"] = "true"
        options["aws_endpoint_url"] = whole
        options["aws_allow_http"] = str(whole.startswith("http:")).lower()
    return options
