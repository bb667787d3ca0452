"""URLs of PostgreSQL as libpq has them: read strictly, made whole for the driver, and shown without what is secret.

https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final
from urllib.parse import quote, unquote

import msgspec

SCHEME: Final = "postgresql://"
FORM: Final = "postgresql://user:password@host:port/database"
SOCKET_FORM: Final = "postgresql:///database?host=/run/postgresql"
PORT: Final = 5432

_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslnegotiation": ("postgres", "direct"),
    # Mayfly writes: a server that takes no writes is none for it.
    "target_session_attrs": ("any", "read-write", "primary"),
}
_PLACES: Final = ("host", "port", "dbname", "user", "password")
PARAMETERS: Final = (
    *_PLACES,
    *_CHOICES,
    "passfile",
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslrootcert",
    "sslcrl",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
)
_PARTS: Final = re.compile(r"postgres(?:ql)?://(?P<place>[^/?]*)(?P<path>/[^?]*)?(?:\?(?P<query>.*))?")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/?]+)(?::(\d*))?")
_MOST_HOSTS: Final = 64


class PostgresUrl(msgspec.Struct, frozen=True):
    """`hosts`: names, addresses (IPv6 in brackets) or directories of sockets, each with its port, in the order in which they are
    tried. `login`: `user:password` with special characters as %40, or nothing; so are `database` and the values of `options`.
    """

    hosts: tuple[tuple[str, int], ...]
    database: str
    login: str
    options: tuple[tuple[str, str], ...]

    @property
    def for_driver(self) -> str:
        """The whole URL: no port is left to the surroundings, and the driver reads it as libpq would."""
        login = f"{self.login}@" if self.login else ""
        # Of several hosts in the usual place it reads no addresses in brackets.
        if len(self.hosts) == 1 and not self._has_sockets:
            return f"{SCHEME}{login}{self._places}/{self.database}{_query(self.options)}"
        return f"{SCHEME}{login}/{self.database}{_query((*self._named, self._ports, *self.options))}"

    @property
    def shown(self) -> str:
        """Hosts, ports and database: no user, no password, no options."""
        if not self._has_sockets:
            return f"{SCHEME}{self._places}/{self.database}"
        ports = () if {port for _, port in self.hosts} == {PORT} else (self._ports,)
        return f"{SCHEME}/{self.database}{_query((*self._named, *ports))}"

    @property
    def _has_sockets(self) -> bool:
        return any(host.startswith("/") for host, _ in self.hosts)

    @property
    def _places(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.hosts)

    @property
    def _named(self) -> tuple[tuple[str, str]]:
        return (("host", ",".join(quote(host, safe="/[]:") for host, _ in self.hosts)),)

    @property
    def _ports(self) -> tuple[str, str]:
        return "port", ",".join(str(port) for _, port in self.hosts)


def _query(options: Iterable[tuple[str, str]]) -> str:
    written = "&".join(f"{name}={value}" for name, value in options)
    return f"?{written}" if written else ""


def parse(url: str) -> PostgresUrl:
    """ValueError for what a driver would guess at, what a password with bare special characters is taken for, and unknown
    parameters, by name. No error repeats a value, which may be a password."""
    if re.search(r"[\s\x00-\x1f#]", url):
        raise ValueError("a PostgreSQL URL holds no spaces and no #; write %20 and %23")
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise _unreadable()
    login, _, place = parts["place"].rpartition("@")
    given = _parameters(parts["query"] or "") if parts["path"] else {}
    hosts = tuple(_hosts(place, given.get("host", ""), given.get("port", "")))
    database = (parts["path"] or "").removeprefix("/")
    named = given.pop("dbname", "")
    if database and named:
        raise ValueError("the database is named twice: leave out dbname")
    if not database and not named:
        raise ValueError(f"the URL names no database; write {FORM}")
    if database and not re.fullmatch(r"[^/:@]+", database):
        raise ValueError("the database cannot be read; write special characters of user, password and database as %40")
    options = tuple((name, quote(value, safe="/")) for name, value in given.items() if name not in _PLACES)
    return PostgresUrl(hosts, database or quote(named, safe=""), _login(login, given), options)


def _unreadable() -> ValueError:
    return ValueError(f"host or port cannot be read; write {FORM}, special characters as %40, or {SOCKET_FORM}")


def _parameters(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in query.split("&") if query else ():
        name, equals, value = each.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]{1,40}", name):
            raise ValueError("a parameter of the PostgreSQL URL cannot be read; write ?name=value&name=value")
        if name not in PARAMETERS:
            raise ValueError(f"{name} is no parameter of a PostgreSQL URL that is supported: {', '.join(PARAMETERS)}")
        if name in found:
            raise ValueError(f"{name} stands twice in the PostgreSQL URL")
        # As libpq has it, a plus is a plus.
        found[name] = unquote(value)
        if found[name] not in _CHOICES.get(name, (found[name],)):
            raise ValueError(f"{name} is one of {', '.join(_CHOICES[name])}")
    return found


def _login(login: str, given: dict[str, str]) -> str:
    user, _, password = login.partition(":")
    for name, written in (("user", user), ("password", password)):
        if written and given.get(name):
            raise ValueError(f"the {name} stands twice in the PostgreSQL URL")
    user = user or quote(given.get("user", ""), safe="")
    password = password or quote(given.get("password", ""), safe="")
    # The driver ends a password at the first @, and reads brackets as an address.
    return re.sub(r"[@\[\]]", lambda found: quote(found[0], safe=""), f"{user}{':' if password else ''}{password}")


def _hosts(place: str, named: str, ports: str) -> Iterator[tuple[str, int]]:
    """From `host:port,host:port`, or from the parameters `host` and `port`, which are lists too."""
    if bool(place) == bool(named):
        raise ValueError("the host stands twice in the PostgreSQL URL") if place else _unreadable()
    hosts = place.split(",") if place else [_add_brackets(each) for each in named.split(",")]
    numbers = ports.split(",") if ports else []
    if len(hosts) > _MOST_HOSTS or len(numbers) not in (0, 1, len(hosts)):
        raise ValueError("the PostgreSQL URL has more hosts than it may, or another number of ports than of hosts")
    each_port = [*numbers, *repeat(numbers[0] if numbers else "", len(hosts) - len(numbers))]
    for host, number in zip(hosts, each_port, strict=True):
        if host.startswith("/"):
            yield host, _port(number)
            continue
        found = _HOST.fullmatch(host)
        if found is None:
            raise _unreadable()
        if found[2] and number:
            raise ValueError("a port stands twice in the PostgreSQL URL")
        yield unquote(found[1]), _port(found[2] or number)


def _add_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith(("/", "[")) else host


def _port(text: str) -> int:
    if not re.fullmatch(r"\d{0,5}", text) or not 0 < int(text or PORT) < 65536:
        raise _unreadable()
    return int(text or PORT)
