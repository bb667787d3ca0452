"""ydb-sqlalchemy's asynchronous engine: sessions of the ORM beside each other, streams, rows that die."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import selectinload
from sqlalchemy.pool import AsyncAdaptedQueuePool
from ydb_sqlalchemy import upsert

from mayflydb.embedded import RunningServer
from stores import STORES
from ydb_shop import LIFE, Base, Cart, Login, User

pytestmark = [
    pytest.mark.parametrize("ydb_server", STORES, indirect=True),
    pytest.mark.everywhere,
    # The dialect's asynchronous class has kept the old name of what imports its driver.
    pytest.mark.filterwarnings(r"ignore:The dbapi\(\) classmethod"),
]

Sessions = async_sessionmaker[AsyncSession]
Inside = Callable[[Callable[[Sessions], Awaitable[None]]], None]

ddl: Any = sa.DDL


@pytest.fixture
def inside(place: str) -> Inside:
    """Runs a test with what makes sessions, over empty tables."""

    def run(test: Callable[[Sessions], Awaitable[None]]) -> None:
        async def whole() -> None:
            engine = create_async_engine(f"yql+ydb_async://{place}/local", poolclass=AsyncAdaptedQueuePool)
            try:
                async with engine.connect() as connection:
                    await connection.run_sync(Base.metadata.create_all)
                    for text in LIFE:
                        await connection.execute(ddl(text))
                own = engine.execution_options(isolation_level="SERIALIZABLE")
                await test(async_sessionmaker(own, expire_on_commit=False))
                async with engine.connect() as connection:
                    await connection.run_sync(Base.metadata.drop_all)
            finally:
                await engine.dispose()

        asyncio.run(whole())

    return run


def test_sessions_beside_each_other(inside: Inside) -> None:
    async def test(sessions: Sessions) -> None:
        async def add(id: int) -> None:
            async with sessions() as session, session.begin():
                session.add(User(id=id, email=f"{id}@", carts=[Cart(id=1, open=True), Cart(id=2, open=False)]))

        await asyncio.gather(*(add(id) for id in range(5)))
        async with sessions() as session:
            users = (await session.scalars(sa.select(User).options(selectinload(User.carts)).order_by(User.id))).all()
            assert [(user.id, [cart.open for cart in user.carts]) for user in users] == [
                (id, [True, False]) for id in range(5)
            ]

    inside(test)


def test_one_of_two_that_add_to_the_same_row_tries_again(inside: Inside) -> None:
    async def test(sessions: Sessions) -> None:
        async with sessions() as session, session.begin():
            session.add(Cart(user=1, id=1, open=True, touched=0))
        refused: list[str] = []

        async def touch() -> None:
            while True:
                async with sessions() as session:
                    try:
                        cart = await session.get_one(Cart, (1, 1))
                        cart.touched = (cart.touched or 0) + 1
                        await session.commit()
                        return
                    except sa.exc.OperationalError as error:
                        refused.append(str(error))

        await asyncio.gather(*(touch() for _ in range(4)))
        async with sessions() as session:
            assert await session.scalar(sa.select(Cart.touched)) == 4
        assert all("Transaction locks invalidated" in each for each in refused)

    inside(test)


def test_rows_die(inside: Inside, ydb_server: RunningServer) -> None:
    async def test(sessions: Sessions) -> None:
        now = ydb_server.clock.now().replace(tzinfo=None)
        logins = [{"token": f"{hour:02}", "user": 1, "until": now + timedelta(hours=hour)} for hour in range(5)]
        async with sessions() as session, session.begin():
            await session.execute(upsert(Login.__table__), logins)
        await asyncio.to_thread(ydb_server.clock.advance, hours=3, minutes=1)
        async with sessions() as session:
            left = [row.token async for row in await session.stream_scalars(sa.select(Login).order_by(Login.token))]
        assert left[-1] == "04"
        assert "00" not in left

    inside(test)
