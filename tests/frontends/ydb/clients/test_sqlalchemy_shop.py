"""ydb-sqlalchemy with a small application: its rows live, are changed in transactions, and die when the clock says so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, joinedload, selectinload
from ydb_sqlalchemy import upsert

from mayflydb.embedded import RunningServer
from stores import STORES
from ydb_shop import Cart, Login, User

pytestmark = [
    pytest.mark.parametrize("ydb_server", STORES, indirect=True),
    pytest.mark.everywhere,
]

Shop = Callable[[], Session]


def people(shop: Shop) -> None:
    with shop() as session:
        session.add_all(
            [
                User(id=1, email="ada@example.org", name="Ada", settings={"theme": "dark", "page": 20}),
                User(id=2, email="bob@example.org", name=None),
                User(id=3, email="cy@example.org", name="Cy", settings=None),
            ]
        )
        session.commit()


def rows(session: Session, query: sa.Select[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.execute(query)]


def test_what_was_added_is_read_again(shop: Shop, ydb_server: RunningServer) -> None:
    people(shop)
    now = ydb_server.clock.now().replace(tzinfo=None)
    with shop() as session:
        ada = session.get_one(User, 1)
        ada.created = now
        ada.carts = [Cart(id=7, touched=int(now.timestamp()), open=True, total=Decimal("12.500000001"))]
        ada.sessions = [Login(token="t1", until=now + timedelta(hours=1), secret=b"\0\xff")]
        session.commit()
    with shop() as session:
        ada = session.scalars(sa.select(User).where(User.email == "ada@example.org")).one()
        assert (ada.name, ada.created, ada.settings) == ("Ada", now, {"theme": "dark", "page": 20})
        assert [(cart.id, cart.open, cart.total) for cart in ada.carts] == [(7, True, Decimal("12.500000001"))]
        assert [(each.token, each.secret, each.owner) for each in ada.sessions] == [("t1", b"\0\xff", ada)]


def test_rows_are_gone_when_their_time_is_over(shop: Shop, ydb_server: RunningServer) -> None:
    people(shop)
    now = ydb_server.clock.now().replace(tzinfo=None)
    with shop() as session:
        for user, minutes in ((1, 30), (2, 90), (3, None)):
            until = None if minutes is None else now + timedelta(minutes=minutes)
            session.add(Login(token=f"t{user}", user=user, until=until))
            session.add(Cart(user=user, id=1, touched=int(now.timestamp()) + 3600 * user, open=True))
        session.commit()
    gone = []
    for _ in range(4):
        ydb_server.clock.advance(hours=1, minutes=1)
        with shop() as session:
            tokens = session.scalars(sa.select(Login.token).order_by(Login.token)).all()
            carts = session.scalars(sa.select(Cart.user).order_by(Cart.user)).all()
            gone.append((list(tokens), list(carts)))
    assert gone[0] == (["t2", "t3"], [1, 2, 3])
    assert gone[-1] == (["t3"], [])
    assert all(set(after[0]) <= set(before[0]) for before, after in pairwise(gone))


def test_a_row_that_was_touched_lives_on(shop: Shop, ydb_server: RunningServer) -> None:
    people(shop)
    now = ydb_server.clock.now().replace(tzinfo=None)
    with shop() as session:
        session.add_all([Login(token=each, user=1, until=now + timedelta(minutes=30)) for each in "ab"])
        session.commit()
    with shop() as session:
        session.get_one(Login, "a").until = now + timedelta(days=1)
        session.commit()
    ydb_server.clock.advance(hours=2)
    with shop() as session:
        assert session.scalars(sa.select(Login.token)).all() == ["a"]


@pytest.mark.parametrize("how", [joinedload, selectinload, None])
def test_relationships_are_loaded(shop: Shop, how: Any) -> None:
    people(shop)
    with shop() as session:
        session.add_all([Cart(user=user, id=id, open=id == 1) for user in (1, 3) for id in (1, 2)])
        session.commit()
    with shop() as session:
        query = sa.select(User).order_by(User.id)
        if how is not None:
            query = query.options(how(User.carts))
        found = session.scalars(query).unique().all()
        assert [(user.id, [cart.id for cart in user.carts]) for user in found] == [(1, [1, 2]), (2, []), (3, [1, 2])]


def test_a_user_takes_the_carts_along(shop: Shop) -> None:
    people(shop)
    with shop() as session:
        session.add_all([Cart(user=user, id=id, open=True) for user in (1, 3) for id in (1, 2)])
        session.commit()
        session.delete(session.get_one(User, 1))
        session.commit()
        assert rows(session, sa.select(Cart.user, Cart.id).order_by(Cart.id)) == [(3, 1), (3, 2)]
        assert session.scalar(sa.select(sa.func.count()).select_from(User)) == 2


def test_upserts(shop: Shop) -> None:
    people(shop)
    with shop() as session:
        session.execute(upsert(User.__table__).values(id=2, email="bob@example.com"))
        session.execute(upsert(User.__table__), [{"id": id, "email": f"{id}@", "name": "n"} for id in (3, 4)])
        session.commit()
        query = sa.select(User.id, User.email, User.name).order_by(User.id)
        assert rows(session, query) == [
            (1, "ada@example.org", "Ada"),
            (2, "bob@example.com", None),
            (3, "3@", "n"),
            (4, "4@", "n"),
        ]


def test_pages(shop: Shop) -> None:
    with shop() as session:
        session.execute(upsert(User.__table__), [{"id": id, "email": f"{id:03}"} for id in range(25)])
        session.commit()
        pages, start = [], 0
        while page := session.scalars(sa.select(User.id).where(User.id >= start).order_by(User.id).limit(10)).all():
            pages.append(page)
            start = page[-1] + 1
        assert [len(page) for page in pages] == [10, 10, 5]
        assert session.scalars(sa.select(User.id).order_by(User.email.desc()).limit(3).offset(20)).all() == [4, 3, 2]


def test_what_is_rolled_back_never_was(shop: Shop) -> None:
    people(shop)
    with shop() as session:
        session.get_one(User, 1).name = "Eve"
        session.add(User(id=9, email="x"))
        session.flush()
        assert session.scalar(sa.select(sa.func.count()).select_from(User)) == 4
        session.rollback()
        assert session.get_one(User, 1).name == "Ada"
        assert session.get(User, 9) is None


def test_who_comes_second_is_refused(shop: Shop) -> None:
    people(shop)
    with shop() as first, shop() as second:
        for session, name in ((first, "first"), (second, "second")):
            session.get_one(User, 1).name = name
        second.commit()
        with pytest.raises(sa.exc.OperationalError, match="Transaction locks invalidated"):
            first.commit()
        first.rollback()
        assert first.get_one(User, 1, populate_existing=True).name == "second"


def test_a_key_that_is_taken(shop: Shop) -> None:
    people(shop)
    with shop() as session:
        session.add(User(id=1, email="again"))
        with pytest.raises(sa.exc.IntegrityError, match="Conflict with existing key"):
            session.commit()
