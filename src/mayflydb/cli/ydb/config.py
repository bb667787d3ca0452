"""`config profile`: named sets of options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mayflydb.cli.ydb import profiles
from mayflydb.cli.ydb.faults import Misuse, OperationFailed

C = TypeVar("C", bound=Callable[..., Any])


@click.group()
def config() -> None:
    """Settings of the user."""


@config.group()
def profile() -> None:
    """Named sets of options."""


def _profile_options(command: C) -> C:
    for option in (
        click.option("--ca-file", metavar="PATH"),
        click.option("--password-file", metavar="PATH"),
        click.option("--user", metavar="NAME"),
        click.option("--token-file", metavar="PATH"),
        click.option("-d", "--database", metavar="PATH"),
        click.option("-e", "--endpoint", metavar="[grpc[s]://]HOST[:PORT]"),
    ):
        command = option(command)
    return click.argument("name")(command)


def _check_options(options: dict[str, str | None]) -> dict[str, str]:
    given = {key: value for key, value in options.items() if value is not None}
    if "password_file" in given and "user" not in given:
        raise Misuse("You cannot enter password-file without user")
    if "token_file" in given and "user" in given:
        raise Misuse(
            f"2 authentication methods were provided via options: TokenFile ({given['token_file']}) "
            f"User ({given['user']}). Choose exactly one of them"
        )
    return given


def _check_exists(kept: profiles.Profiles, name: str) -> None:
    if name not in kept.profiles:
        raise OperationFailed(
            f'No existing profile "{name}". Run "ydb config profile list" without arguments to see existing profiles'
        )


@profile.command()
@_profile_options
def create(name: str, **options: str | None) -> None:
    """Create a profile."""
    kept, given = profiles.read_profiles(), _check_options(options)
    if name in kept.profiles:
        raise OperationFailed(f'Profile "{name}" already exists. Consider using update, replace or delete command.')
    kept.profiles[name] = given
    profiles.write_profiles(kept)


@profile.command()
@_profile_options
def replace(name: str, **options: str | None) -> None:
    """Create a profile, or replace all its options."""
    kept = profiles.read_profiles()
    kept.profiles[name] = _check_options(options)
    profiles.write_profiles(kept)


@profile.command()
@click.option("--no-endpoint", is_flag=True, help="Remove the endpoint.")
@click.option("--no-database", is_flag=True, help="Remove the database.")
@click.option("--no-auth", is_flag=True, help="Remove user and token.")
@_profile_options
def update(name: str, no_endpoint: bool, no_database: bool, no_auth: bool, **options: str | None) -> None:
    """Change options of a profile."""
    kept, given = profiles.read_profiles(), _check_options(options)
    _check_exists(kept, name)
    forgotten = ["endpoint"] * no_endpoint + ["database"] * no_database
    # One way of authentication replaces the other.
    if no_auth or "user" in given or "token_file" in given:
        forgotten += ["user", "password_file", "token_file"]
    remaining = {key: value for key, value in kept.profiles[name].items() if key not in forgotten}
    kept.profiles[name] = remaining | given
    profiles.write_profiles(kept)


@profile.command()
@click.argument("name")
def get(name: str) -> None:
    """Print the options of a profile."""
    kept = profiles.read_profiles()
    _check_exists(kept, name)
    _show(kept.profiles[name])


def _show(options: dict[str, str]) -> None:
    for key in ("endpoint", "database", "token_file"):
        if key in options:
            click.echo(f"  {key.replace('_', '-')}: {options[key]}")
    if "user" in options:
        click.echo(f"  static-credentials\n    user: {options['user']}")
        if "password_file" in options:
            click.echo(f"    password file: {options['password_file']}")
    if "ca_file" in options:
        click.echo(f"  ca-file: {options['ca_file']}")


@profile.command("list")
@click.option("--with-content", is_flag=True, help="Print their options too.")
def list_(with_content: bool) -> None:
    """List all profiles."""
    kept = profiles.read_profiles()
    for name in sorted(kept.profiles):
        click.echo(f"{name}{' (active)' if name == kept.active else ''}{':' if with_content else ''}")
        if with_content:
            _show(kept.profiles[name])


@profile.command()
@click.argument("name")
def activate(name: str) -> None:
    """Make a profile the active one, which is used unless another is named."""
    kept = profiles.read_profiles()
    _check_exists(kept, name)
    if kept.active == name:
        click.echo(f'Profile "{name}" is already active.')
        return
    kept.active = name
    profiles.write_profiles(kept)
    click.echo(f'Profile "{name}" was activated.')


# Commands of YDB's program have second names, which scripts use.
profile.add_command(activate, "set")


@profile.command()
def deactivate() -> None:
    """Have no active profile any more."""
    kept = profiles.read_profiles()
    if not kept.active:
        click.echo("There is no profile active. Nothing is done.")
        return
    former, kept.active = kept.active, ""
    profiles.write_profiles(kept)
    click.echo(f'Profile "{former}" was deactivated.')


profile.add_command(deactivate, "unset")


@profile.command()
@click.argument("name")
@click.option("-f", "--force", is_flag=True, help="Do not ask, and accept a profile that does not exist.")
def delete(name: str, force: bool) -> None:
    """Delete a profile."""
    kept = profiles.read_profiles()
    if force and name not in kept.profiles:
        return
    _check_exists(kept, name)
    if not force and not click.confirm(f'Profile "{name}" will be permanently removed. Continue?'):
        click.echo("Nothing is done.")
        return
    del kept.profiles[name]
    if kept.active == name:
        kept.active = ""
    profiles.write_profiles(kept)
    if not force:
        click.echo(f'Profile "{name}" was removed.')


profile.add_command(delete, "remove")
