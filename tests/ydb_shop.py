"""A small application's tables for ydb-sqlalchemy: users, their sessions and carts. Sessions and carts end by themselves."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from ydb_sqlalchemy import types


class Base(DeclarativeBase):
    """The base class of the tables."""


class User(Base):
    """A user, with sessions and carts. YDB has no foreign keys, so joins name the columns."""

    __tablename__ = "users"
    __table_args__ = (sa.Index("by_email", "email"),)

    id: Mapped[int] = mapped_column(types.UInt64, primary_key=True, autoincrement=False)
    email: Mapped[str] = mapped_column(sa.Unicode)
    name: Mapped[str | None] = mapped_column(sa.Unicode)
    created: Mapped[datetime | None] = mapped_column(sa.TIMESTAMP)
    settings: Mapped[dict[str, object] | None] = mapped_column(sa.JSON)

    sessions: Mapped[list[Login]] = relationship(
        primaryjoin="User.id == foreign(Login.user)", order_by="Login.token", back_populates="owner"
    )
    carts: Mapped[list[Cart]] = relationship(
        primaryjoin="User.id == foreign(Cart.user)",
        order_by="Cart.id",
        back_populates="owner",
        cascade="all, delete-orphan",
    )


class Login(Base):
    """A session: gone when `until` is over."""

    __tablename__ = "app/sessions"

    token: Mapped[str] = mapped_column(sa.Unicode, primary_key=True)
    user: Mapped[int] = mapped_column(types.UInt64)
    until: Mapped[datetime | None] = mapped_column(sa.TIMESTAMP)
    secret: Mapped[bytes | None] = mapped_column(sa.LargeBinary)

    owner: Mapped[User | None] = relationship(
        primaryjoin="User.id == foreign(Login.user)", back_populates="sessions", viewonly=True
    )


class Cart(Base):
    """A cart: gone an hour after it was touched."""

    __tablename__ = "carts"

    user: Mapped[int] = mapped_column(types.UInt64, primary_key=True)
    id: Mapped[int] = mapped_column(types.UInt64, primary_key=True, autoincrement=False)
    touched: Mapped[int | None] = mapped_column(types.UInt32)
    open: Mapped[bool] = mapped_column(sa.Boolean)
    total: Mapped[Decimal | None] = mapped_column(sa.DECIMAL(22, 9))

    owner: Mapped[User] = relationship(primaryjoin="User.id == foreign(Cart.user)", back_populates="carts")


LIFE = (
    'ALTER TABLE `app/sessions` SET (TTL = Interval("PT0S") ON until)',
    'ALTER TABLE `carts` SET (TTL = Interval("PT1H") ON touched AS SECONDS)',
)
"""What the dialect has no words for."""
