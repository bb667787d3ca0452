"""The places that archives may have, from the settings."""

from __future__ import annotations

from mayflydb.admin.archive_places import ArchiveSites, S3Site
from mayflydb.config.settings import Settings


def archive_sites(settings: Settings) -> ArchiveSites:
    """Return the places to which people with rights to the admin API may send records."""
    archive, file = settings.archive, settings.archive.s3_credentials_file
    endpoint = archive.s3_endpoint or f"https://s3.{archive.s3_region}.amazonaws.com"
    return ArchiveSites(archive.dir, None if file is None else S3Site(endpoint, archive.s3_region, file))
