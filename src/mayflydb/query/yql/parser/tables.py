"""CREATE, ALTER and DROP of tables, with their columns, keys, indexes, families and change feeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.yql.definitions import (
    AddChangefeed,
    AddColumn,
    AddFamily,
    AddIndex,
    AlterColumn,
    AlterFamily,
    AlterIndex,
    AlterTable,
    ChangefeedSpec,
    ColumnSpec,
    CreateTable,
    DropChangefeed,
    DropColumn,
    DropIndex,
    DropTable,
    FamilySpec,
    IndexClause,
    RenameIndex,
    RenameTo,
    ResetSettings,
    SetSettings,
    Setting,
    TableAction,
)
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.parser.expressions import COMPARISON
from mayflydb.query.yql.parser.settings import Settings
from mayflydb.query.yql.syntax import At, Expression, TypeName

_COLUMN_OPTIONS: Final = frozenset({"FAMILY", "NOT", "NULL", "DEFAULT", "COMPRESSION", "ENCODING", "GENERATED", "AS"})


class Tables(Settings):
    def if_not_exists(self) -> bool:
        return self.accept_words("IF", "NOT", "EXISTS")

    def if_exists(self) -> bool:
        return self.accept_words("IF", "EXISTS")

    def object_path(self) -> str:
        """Parse the path of the object of a statement."""
        name = self.path()
        if self.kind == ".":
            self.refuse("A cluster before a name")
        return name

    # --- CREATE ---------------------------------------------------------------------------------------------------------

    def create_table(
        self, at: At, kind: str = "TABLE", or_replace: bool = False, temporary: bool = False
    ) -> CreateTable:
        """Parse the rest of `CREATE TABLE`."""
        if_not_exists = self.if_not_exists()
        table = self.object_path()
        parts: dict[str, list[Any]] = {
            each: [] for each in ("column", "key", "index", "family", "changefeed", "partition")
        }
        self.parse_in_parentheses(lambda: self._entry(parts))
        if len(parts["key"]) > 1:
            raise fault("PRIMARY KEY statement must be specified only once", at)
        if self.kind == "INHERITS":
            self.refuse("INHERITS")
        partition: tuple[str, ...] = tuple(name for each in parts["partition"] for name in each)
        if self.accept("PARTITION"):
            self.expect("BY", "HASH")
            partition = self.parse_in_parentheses(self.name)
        settings = self.with_settings()
        if self.kind == "TABLESTORE":
            self.refuse("TABLESTORE of a table")
        query = self.query() if self.accept("AS") else None
        return CreateTable(
            at,
            table,
            tuple(parts["column"]),
            parts["key"][0] if parts["key"] else None,
            tuple(parts["index"]),
            tuple(parts["family"]),
            tuple(parts["changefeed"]),
            settings,
            partition,
            if_not_exists,
            or_replace,
            temporary,
            kind,
            query,
        )

    def _entry(self, parts: dict[str, list[Any]]) -> None:
        kind, following = self.kind, self.next_kind
        # None of these words is reserved, so each may name a column: the tokens behind it decide.
        if kind == "PRIMARY" and following == "KEY":
            self.index += 2
            parts["key"].append(self.parse_in_parentheses(self.name))
        elif kind == "PARTITION" and following == "BY":
            self.index += 2
            parts["partition"].append(self.parse_in_parentheses(self.name))
        elif kind == "ORDER" and following == "BY":
            self.refuse("ORDER BY of a table")
        elif kind == "INDEX" and self.is_word(1) and self.kind_at(2) in ("GLOBAL", "LOCAL", "ON"):
            parts["index"].append(self.index_spec())
        elif kind == "FAMILY" and self.is_word(1) and self.kind_at(2) == "(":
            parts["family"].append(self.family_spec())
        elif kind == "CHANGEFEED" and self.is_word(1) and self.kind_at(2) == "WITH":
            parts["changefeed"].append(self.changefeed_spec())
        elif kind == "STATISTICS" and self.is_word(1) and self.kind_at(2) == "ON":
            self.refuse("STATISTICS of a table")
        else:
            parts["column"].append(self.column_spec(typed=following not in (",", ")")))

    def column_spec(self, typed: bool = True) -> ColumnSpec:
        """Parse `name Type NOT NULL DEFAULT value FAMILY name`, the options in any order; not `typed`: the type may be
        missing."""
        at = self.at()
        name = self.name()
        kind: TypeName | None = self.type_name() if typed else None
        not_null: bool | None = None
        default: Expression | None = None
        family: str | None = None
        # Options may also stand in parentheses with commas: `a Int32 (NOT NULL, DEFAULT 1)`.
        listed = typed and self.kind == "(" and self.next_kind in _COLUMN_OPTIONS
        if listed:
            self.index += 1
        while self.kind in _COLUMN_OPTIONS:
            word = self.kind
            if word == "FAMILY":
                self.index += 1
                family = self.name()
            elif word in ("NOT", "NULL"):
                not_null = self.accept("NOT")
                self.expect("NULL")
            elif word == "DEFAULT":
                self.index += 1
                # Without conditions: the NOT of `DEFAULT 1 NOT NULL` belongs to the column.
                default = self.expression(COMPARISON)
            else:
                self.refuse(f"{word} of a column")
            if listed and not self.accept(","):
                break
        if listed:
            self.expect(")")
        return ColumnSpec(at, name, kind, not_null, default, family)

    def index_spec(self) -> IndexClause:
        at = self.at()
        self.expect("INDEX")
        name = self.name()
        unique = asynchronous = local = False
        if self.accept("LOCAL"):
            local = True
        elif self.accept("GLOBAL"):
            unique = self.accept("UNIQUE")
            asynchronous = self.accept_any(("SYNC", "ASYNC")) == "ASYNC"
        else:
            self.fail("GLOBAL", "LOCAL")
        using = self.name() if self.accept("USING") else None
        self.expect("ON")
        columns = self.parse_in_parentheses(self.name)
        cover = self.parse_in_parentheses(self.name) if self.accept("COVER") else ()
        return IndexClause(at, name, columns, cover, unique, asynchronous, local, using, self.with_settings())

    def family_spec(self) -> FamilySpec:
        at = self.at()
        self.expect("FAMILY")
        name = self.name()
        if self.kind == "(" and self.next_kind == ")":
            self.index += 2
            return FamilySpec(at, name)
        return FamilySpec(at, name, self.settings_list())

    def changefeed_spec(self) -> ChangefeedSpec:
        at = self.at()
        self.expect("CHANGEFEED")
        name = self.name()
        self.expect("WITH")
        return ChangefeedSpec(at, name, self.settings_list())

    # --- ALTER ----------------------------------------------------------------------------------------------------------

    def alter_table(self, at: At) -> AlterTable:
        """Parse the rest of `ALTER TABLE`."""
        table = self.object_path()
        return AlterTable(at, table, self.parse_list(self._action, None))

    def _action(self) -> TableAction:
        read = _ACTIONS.get(self.kind)
        if read is not None:
            return read(self)
        if self.kind in ("COMPACT", "REBUILD"):
            self.refuse(f"ALTER TABLE {self.kind}")
        return self.fail(*_ACTIONS)

    def add_action(self) -> TableAction:
        at = self.at()
        self.index += 1
        kind = self.kind
        if kind == "INDEX" and self.is_word(1) and self.kind_at(2) in ("GLOBAL", "LOCAL", "ON"):
            return AddIndex(at, self.index_spec())
        if kind == "FAMILY" and self.kind_at(2) == "(":
            return AddFamily(at, self.family_spec())
        if kind == "CHANGEFEED" and self.kind_at(2) == "WITH":
            return AddChangefeed(at, self.changefeed_spec())
        if kind == "STATISTICS" and self.kind_at(2) == "ON":
            self.refuse("STATISTICS of a table")
        if kind == "COLUMN" and self.is_word(1):
            self.index += 1
        return AddColumn(at, self.column_spec())

    def drop_action(self) -> TableAction:
        at = self.at()
        self.index += 1
        kind = self.kind
        if self.is_word(1):
            if kind == "INDEX":
                self.index += 1
                return DropIndex(at, self.name())
            if kind == "CHANGEFEED":
                self.index += 1
                return DropChangefeed(at, self.name())
            if kind == "STATISTICS":
                self.refuse("STATISTICS of a table")
            if kind == "COLUMN":
                self.index += 1
        return DropColumn(at, self.name())

    def alter_action(self) -> TableAction:
        at = self.at()
        self.index += 1
        kind = self.expect_any(("COLUMN", "FAMILY", "INDEX", "CHANGEFEED"))
        if kind == "CHANGEFEED":
            self.refuse("ALTER CHANGEFEED", self.index - 1)
        name = self.name()
        if kind == "COLUMN":
            return self._alter_column(at, name)
        if kind == "FAMILY":
            self.expect("SET")
            return AlterFamily(at, name, (self._setting_without_sign(),))
        if self.kind == "RESET":
            reset = self.reset()
            return AlterIndex(at, name, (), reset.names)
        return AlterIndex(at, name, self.set_().settings)

    def _alter_column(self, at: At, name: str) -> AlterColumn:
        verb = self.expect_any(("DROP", "SET"))
        if self.accept("NOT"):
            self.expect("NULL")
            return AlterColumn(at, name, f"{verb} NOT NULL")
        if self.accept("DEFAULT"):
            return AlterColumn(at, name, f"{verb} DEFAULT", None, self.expression() if verb == "SET" else None)
        if verb == "SET" and self.accept("FAMILY"):
            return AlterColumn(at, name, "SET FAMILY", self.name())
        if self.kind in ("COMPRESSION", "ENCODING"):
            self.refuse(f"{self.kind} of a column")
        return self.fail("DEFAULT", "NOT", *(("FAMILY",) if verb == "SET" else ()))

    def set_(self) -> SetSettings:
        at = self.at()
        self.expect("SET")
        if self.kind == "(":
            return SetSettings(at, self.settings_list())
        return SetSettings(at, (self._setting_without_sign(),))

    def _setting_without_sign(self) -> Setting:
        """Parse `NAME value`, the older form."""
        at = self.at()
        name = self.name()
        return Setting(at, name, self.setting_value(name))

    def reset(self) -> ResetSettings:
        at = self.at()
        self.expect("RESET")
        return ResetSettings(at, self.parse_in_parentheses(self.name))

    def rename_action(self) -> TableAction:
        at = self.at()
        self.index += 1
        if self.accept("TO"):
            return RenameTo(at, self.name())
        if not self.accept("INDEX"):
            self.fail("INDEX", "TO")
        name = self.name()
        self.expect("TO")
        return RenameIndex(at, name, self.name())

    # --- DROP -----------------------------------------------------------------------------------------------------------

    def drop_table(self, at: At, kind: str = "TABLE") -> DropTable:
        """Parse the rest of `DROP TABLE`."""
        if_exists = self.if_exists()
        return DropTable(at, self.object_path(), if_exists, kind)


_ACTIONS: Final[dict[str, Callable[[Tables], TableAction]]] = {
    "ADD": Tables.add_action,
    "ALTER": Tables.alter_action,
    "DROP": Tables.drop_action,
    "RENAME": Tables.rename_action,
    "RESET": Tables.reset,
    "SET": Tables.set_,
}
