"""The settings of archives: the places to which people with rights to the admin API may send expired records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayflydb.config import values as read
from mayflydb.config.row import Row

ARCHIVE_ROWS: Final[Sequence[Row]] = (
    Row(
        "archive.dir",
        ("--archive-dir",),
        "",
        read.optional_path,
        "The directory below which archives may have their files. Default: none is allowed on this disk.",
        "DIR",
    ),
    Row(
        "archive.s3_credentials_file",
        ("--archive-s3-credentials-file",),
        "",
        read.optional_path,
        "File with the keys of S3, as AWS' programs have it; its section default is read with each file. Default: no S3.",
        "PATH",
    ),
    Row(
        "archive.s3_region",
        ("--archive-s3-region",),
        "us-east-1",
        read.region,
        "Region of S3, for which requests are signed.",
        "NAME",
    ),
    Row(
        "archive.s3_endpoint",
        ("--archive-s3-endpoint",),
        "",
        read.optional_collector,
        "Address of a service that speaks S3's protocol: https://HOST:PORT. Default: that of AWS in the region.",
        "URL",
    ),
)
