"""`config profile`: options that are kept under a name."""

from __future__ import annotations

import click

from mayflydb.cli.ydb import profiles
from mayflydb.cli.ydb.faults import Misuse
from mayflydb.cli.ydb.place import place_of


@click.group()
def config() -> None:
    """What is kept for the user."""


@config.group()
def profile() -> None:
    """Options that are kept under a name."""


@profile.command()
@click.argument("name")
@click.option("-e", "--endpoint", metavar="[grpc[s]://]HOST[:PORT]")
@click.option("-d", "--database", metavar="PATH")
@click.option("--token-file", metavar="PATH")
@click.option("--user", metavar="NAME")
@click.option("--password-file", metavar="PATH")
@click.option("--ca-file", metavar="PATH")
def create(name: str, **options: str | None) -> None:
    """Keep options under a name, instead of those that there were."""
    given = {key: value for key, value in options.items() if value is not None}
    if not given:
        raise Misuse("A profile has to say something: name at least an endpoint or a database.")
    kept = profiles.read()
    kept.profiles[name] = given
    profiles.write(kept)


@profile.command()
@click.argument("name")
def get(name: str) -> None:
    """What a profile says."""
    for key, value in profiles.found(profiles.read(), name).items():
        click.echo(f"  {key.replace('_', '-')}: {value}")


@profile.command("list")
def list_() -> None:
    """All profiles, by name."""
    kept = profiles.read()
    for name in sorted(kept.profiles):
        click.echo(f"{name} (active)" if name == kept.active else name)


@profile.command()
@click.argument("name", required=False)
@click.pass_context
def activate(ctx: click.Context, name: str | None) -> None:
    """The profile that is meant where none is named."""
    chosen = name or place_of(ctx).given.profile
    if not chosen:
        raise Misuse("Profile name is not given")
    kept = profiles.read()
    profiles.found(kept, chosen)
    kept.active = chosen
    profiles.write(kept)
    click.echo(f'Profile "{chosen}" was activated.')


@profile.command()
def deactivate() -> None:
    """None is meant any more where none is named."""
    kept = profiles.read()
    if not kept.active:
        raise Misuse("There is no profile currently active.")
    former, kept.active = kept.active, ""
    profiles.write(kept)
    click.echo(f'Profile "{former}" was deactivated.')


@profile.command()
@click.argument("name")
@click.option("-f", "--force", is_flag=True, help="Do not ask.")
def delete(name: str, force: bool) -> None:
    """Forget a profile."""
    kept = profiles.read()
    profiles.found(kept, name)
    if not force and not click.confirm(f'Profile "{name}" will be permanently removed. Continue?', err=True):
        return
    del kept.profiles[name]
    if kept.active == name:
        kept.active = ""
    profiles.write(kept)
    click.echo(f'Profile "{name}" was removed.')
