"""Measures the source and writes docs/house.md: sizes, import circles, names, sentences, duplicates.

`house.py` writes the file. `house.py PACKAGE...` prints what is counted against these packages (`frontends/mongo`, `engine`).
`tests/test_tidy.py` holds the upper bounds and uses the same functions.
"""

from __future__ import annotations

import ast
import io
import keyword
import re
import statistics
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
REPORT = ROOT / "docs" / "house.md"

TOP = "mayflydb"
HEART = ("expiry", "engine", "store", "model", "clock")
DIVIDED = ("frontends", "query")
"""Packages whose children are measured one by one."""
NO_PACKAGE = "(root)"

# --- names -----------------------------------------------------------------------------------------------------------


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


IRREGULAR = words(
    """
    beaten begun bitten born bought bound broken brought built caught chosen dealt done drawn driven eaten fallen felt
    forgotten found frozen given gone gotten grown heard held hidden hung kept known laid led left lent lost made meant
    met paid risen said sat seen sent shaken shown slept sold sought spent spoken stolen stood struck stuck sworn taken
    taught thought thrown told torn understood won worn woven written
    """
)
NO_PARTICIPLES = words(
    "bed bleed breed changefeed embed exceed feed hundred indeed need proceed red seed shed speed weed"
)
STATES = words("aborted committed expired locked not_found unsigned unsupported")
CALLBACKS = words("buffer_updated connection_lost connection_made data_received eof_received")
FIELDS_TERMS = STATES | CALLBACKS
"""Names that end in a participle and are the field's own: states of records and transactions, and what asyncio calls."""
RELATIONS = words("as can has if is not of on or was why with without")
VERBS = words(
    """
    add apply build check clear close collect compare compile copy count delete describe drop encode end filter find
    forget get index insert keep list load lock log make mark merge parse print purge raise read refuse release remember
    remove replace report resolve restore return rewrite scan send set shelve show skip sort split store sweep take
    undo update warn write
    """
)
LEADING = RELATIONS | VERBS
"""First words after which a participle at the end is an object or a state: `is_locked`, `drop_unfinished`."""


def is_participle(word: str) -> bool:
    return word in IRREGULAR or (len(word) > 3 and word.endswith("ed") and word not in NO_PARTICIPLES)


def is_bare_participle(name: str) -> bool:
    """Whether a function's name says no more than what has happened: `gathered`, `_linked`, `sessions_ended`."""
    plain = name.strip("_")
    first, *others = plain.split("_")
    if plain in FIELDS_TERMS or not is_participle(others[-1] if others else first):
        return False
    return not others or first not in LEADING


# --- sentences -------------------------------------------------------------------------------------------------------

OPENINGS = re.compile(r"\s*(?:What|Who|Whoever|How|Whether|It|They|Somebody|Nobody)\b")
PRONOUNS = re.compile(r"\b(?:whoever|somebody|nobody)\b", re.IGNORECASE)


def is_vague(docstring: str) -> bool:
    """Whether a sentence begins with a question word or pronoun, or names no one where it means someone."""
    return bool(OPENINGS.match(docstring) or PRONOUNS.search(docstring))


# --- one module ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    name: str
    line: int
    lines: int
    is_property: bool


@dataclass(frozen=True)
class Import:
    """`from module import name`, or `import module` without a name."""

    module: str
    name: str
    line: int
    deferred: bool
    """Inside a function, or for type checkers only: nothing that happens when the module is loaded."""


@dataclass
class Module:
    """What one parse of a file gives. `name` is dotted, `file` a path below the repository."""

    name: str
    file: str
    lines: int
    functions: list[Function] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    docstrings: list[tuple[int, str]] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    documented: int = 0

    @property
    def package(self) -> str:
        """`engine`, `frontends/mongo`; a file in the root that is part of the heart is a package of its own."""
        parts = self.name.split(".")[1:]
        if not parts:
            return NO_PACKAGE
        if len(parts) == 1 and not self.file.endswith("__init__.py"):
            return parts[0] if parts[0] in HEART else NO_PACKAGE
        return "/".join(parts[:2]) if parts[0] in DIVIDED else parts[0]

    @property
    def named(self) -> list[Function]:
        """Functions and methods whose names should be verbs."""
        return [function for function in self.functions if not function.is_property]

    @property
    def participles(self) -> list[str]:
        return [f"{self.file}:{one.line} {one.name}" for one in self.named if is_bare_participle(one.name)]

    @property
    def vague(self) -> list[str]:
        return [f"{self.file}:{line} {text.splitlines()[0]}" for line, text in self.docstrings if is_vague(text)]


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE if path.is_relative_to(SOURCE) else ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def measure(path: Path, text: str, tree: ast.Module) -> Module:
    module = Module(module_name(path), path.relative_to(ROOT).as_posix(), len(text.splitlines()))
    _measure_body(module, tree.body, deferred=False)
    return module


def read(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    return measure(path, text, ast.parse(text, str(path)))


def _measure_body(module: Module, body: Iterable[ast.stmt], deferred: bool) -> None:
    """Goes through statements, and never into expressions: all that is measured stands in statements."""
    for node in body:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                module.docstrings.append((node.lineno, text))
            case ast.Import():
                module.imports += [Import(alias.name, "", node.lineno, deferred) for alias in node.names]
            case ast.ImportFrom():
                module.imports += [Import(node.module or "", one.name, node.lineno, deferred) for one in node.names]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                module.functions.append(Function(node.name, node.lineno, lines, _is_property(node)))
                module.documented += ast.get_docstring(node, clean=False) is not None
                _measure_body(module, node.body, deferred=True)
            case ast.ClassDef():
                module.classes.append(node.name)
                module.documented += ast.get_docstring(node, clean=False) is not None
                _measure_body(module, node.body, deferred)
            case _:
                inside = deferred or (isinstance(node, ast.If) and _last_name(node.test) == "TYPE_CHECKING")
                for inner in _bodies(node):
                    _measure_body(module, inner, inside)


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = [_last_name(one) for one in function.decorator_list]
    return any(name == "setter" or name.endswith("property") for name in names)


def _last_name(node: ast.expr) -> str:
    """`x` of `x`, `a.x`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield handler.body


# --- imports between modules -----------------------------------------------------------------------------------------


def imported(modules: Sequence[Module], with_deferred: bool) -> dict[str, set[str]]:
    """The modules that each module imports; without the packages around them."""
    names = {module.name for module in modules}
    edges: dict[str, set[str]] = {}
    for module in modules:
        wanted = [one for one in module.imports if with_deferred or not one.deferred]
        targets = {inner if (inner := f"{one.module}.{one.name}") in names else one.module for one in wanted}
        edges[module.name] = targets & names - {module.name}
    return edges


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module, the largest first."""
    left = _without_ends(edges)
    reached = {name: _reach(left, name) for name in left}
    found = {frozenset(other for other in reached[name] if name in reached[other]) for name in left}
    return sorted((sorted(circle) for circle in found if len(circle) > 1), key=lambda one: (-len(one), one))


def _without_ends(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leaves out, again and again, modules that import none of the others or are imported by none."""
    left = edges
    while True:
        targets = {target for name in left for target in left[name]}
        kept = {name for name in left if name in targets and left[name]}
        if len(kept) == len(left):
            return left
        left = {name: left[name] & kept for name in kept}


def _reach(edges: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = edges[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def store_imports(modules: Sequence[Module]) -> list[str]:
    """Import statements of front ends that name the store; they should reach data through the engine."""
    found = (
        f"{module.file}:{one.line} {one.module}"
        for module in modules
        for one in module.imports
        if module.package.startswith("frontends/") and f"{one.module}.{one.name}.".startswith(f"{TOP}.store.")
    )
    return list(dict.fromkeys(found))


def common_classes(modules: Sequence[Module]) -> dict[str, list[str]]:
    """Names of classes that are defined in more than two modules, with the files."""
    places: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for name in module.classes:
            places[name].add(module.file)
    return {name: sorted(files) for name, files in sorted(places.items()) if len(files) > 2}


# --- lines of one shape ----------------------------------------------------------------------------------------------

WINDOW = 6
"""So many consecutive lines of equal shape are a duplicate."""
THICK_TOKENS = 6
THICK_LINES = 3
"""So many lines of a window have at least THICK_TOKENS tokens: lists of fields and lone calls are alike by nature."""
COMMON = 8
"""A window that stands in more places is a form of the language."""
LAYOUT = frozenset(
    {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}
)

Place = tuple[str, int]


@dataclass(frozen=True)
class Lines:
    """Code lines of a file as (number, tokens with names, strings and numbers blanked), and how many comments it has."""

    shapes: list[tuple[int, tuple[str, ...]]]
    comments: int


def read_lines(path: Path) -> Lines:
    text = path.read_text(encoding="utf-8")
    left_out = _imports_and_sentences(ast.parse(text, str(path)))
    rows: dict[int, list[str]] = defaultdict(list)
    comments = depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        comments += kind == "COMMENT"
        if token.type in LAYOUT or kind == "COMMENT" or token.start[0] in left_out:
            continue
        # From Python 3.12 on, an f-string is several tokens.
        depth -= kind == "FSTRING_END"
        if depth == 0 and kind != "FSTRING_END":
            rows[token.start[0]].append(_blanked(kind, token.string))
        depth += kind == "FSTRING_START"
    shapes = [(line, tuple(row)) for line, row in rows.items() if any(one[0].isalnum() for one in row)]
    return Lines(shapes, comments)


def _imports_and_sentences(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        sentence = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if sentence or isinstance(node, ast.Import | ast.ImportFrom):
            assert isinstance(node, ast.stmt)
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _blanked(kind: str, text: str) -> str:
    if kind == "NAME":
        return text if keyword.iskeyword(text) else "name"
    return {"STRING": "string", "FSTRING_START": "string", "NUMBER": "0"}.get(kind, text)


def duplicates(shapes: dict[str, list[tuple[int, tuple[str, ...]]]]) -> list[tuple[Place, Place, int]]:
    """Pairs of files, or of places in one, that share windows: the first place of each, and how many windows."""
    places: dict[tuple[tuple[str, ...], ...], list[tuple[str, int]]] = defaultdict(list)
    for file, rows in shapes.items():
        for start in range(len(rows) - WINDOW + 1):
            window = tuple(shape for _, shape in rows[start : start + WINDOW])
            if sum(len(shape) >= THICK_TOKENS for shape in window) >= THICK_LINES:
                places[window].append((file, start))
    shared: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], tuple[Place, Place]] = {}
    for spots in places.values():
        for one, other in combinations(spots if len(spots) <= COMMON else (), 2):
            pair = one[0], other[0]
            if pair[0] != pair[1] or other[1] - one[1] >= WINDOW:
                shared[pair] += 1
                first.setdefault(pair, ((one[0], shapes[one[0]][one[1]][0]), (other[0], shapes[other[0]][other[1]][0])))
    return [(*first[pair], count) for pair, count in shared.most_common()]


# --- the report ------------------------------------------------------------------------------------------------------


def spread(values: Iterable[int]) -> str:
    """median / 90th percentile / maximum"""
    ordered = sorted(values)
    return f"{statistics.median_low(ordered)} / {ordered[len(ordered) * 9 // 10]} / {ordered[-1]}"


def by_package(names: Iterable[str], modules: Sequence[Module]) -> Counter[str]:
    packages = {module.name: module.package for module in modules} | {module.file: module.package for module in modules}
    return Counter(packages[name.partition(":")[0]] for name in names)


def report(modules: Sequence[Module], lines: dict[str, Lines]) -> str:
    loading, all_circles = (circles(imported(modules, deferred)) for deferred in (False, True))
    classes = common_classes(modules)
    named = sum(len(module.named) for module in modules)
    participles = [one for module in modules for one in module.participles]
    vague = [one for module in modules for one in module.vague]
    sentences = sum(len(module.docstrings) for module in modules)
    total = sum(module.lines for module in modules)
    heart = sum(module.lines for module in modules if module.package in HEART)
    definitions = sum(len(module.functions) + len(module.classes) for module in modules)
    pairs = duplicates({file: one.shapes for file, one in lines.items()})
    figures = [
        ("files, lines", f"{len(modules)}, {total:,}"),
        (f"the heart ({', '.join(HEART)})", f"{heart:,} lines, {percent(heart, total)}"),
        ("lines of a file, median / p90 / max", spread(module.lines for module in modules)),
        (
            "lines of a function, median / p90 / max",
            spread(one.lines for module in modules for one in module.functions),
        ),
        ("import circles when loading, in files", sizes(loading)),
        ("import circles with types and lazy imports, in files", sizes(all_circles)),
        ("imports `frontends -> store`", len(store_imports(modules))),
        ("comments per 100 lines", f"{100 * sum(one.comments for one in lines.values()) / total:.1f}"),
        ("functions and classes with a docstring", percent(sum(module.documented for module in modules), definitions)),
        ("docstrings that begin vaguely, or speak of whoever", f"{len(vague)}, {percent(len(vague), sentences)}"),
        ("functions named by a bare participle", f"{len(participles)}, {percent(len(participles), named)}"),
        ("class names in more than two modules", f"{len(classes)} ({commonest(classes)})" if classes else 0),
        (f"pairs of places with {WINDOW} lines of one shape", len(pairs)),
    ]
    table = [f"| {name} | {value} |" for name, value in figures]
    rows = package_rows(modules, participles, vague, [name for circle in all_circles for name in circle])
    return "\n".join([HEAD, "| | |", "|---|---|", *table, "", PACKAGES, *rows, ""])


HEAD = """# The house in figures

`make house` writes this file; `make house ARGS=frontends/mongo` prints what is counted against a package. `tools/house.py` says
how each figure is taken, and `tests/test_tidy.py` holds the upper bounds, which only shrink.
"""
PACKAGES = """| package | files | lines | share | in circles | participles | vague docstrings |
|---|---|---|---|---|---|---|"""


def package_rows(
    modules: Sequence[Module], participles: Iterable[str], vague: Iterable[str], circled: Iterable[str]
) -> Iterator[str]:
    counts = [by_package(names, modules) for names in (circled, participles, vague)]
    total = sum(module.lines for module in modules)
    for package in sorted({module.package for module in modules}):
        inside = [module.lines for module in modules if module.package == package]
        figures = (len(inside), f"{sum(inside):,}", percent(sum(inside), total), *(count[package] for count in counts))
        yield f"| {package} | {' | '.join(map(str, figures))} |"


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def sizes(found: Sequence[Sequence[str]]) -> str:
    return ", ".join(str(len(circle)) for circle in found) or "0"


def commonest(classes: dict[str, list[str]]) -> str:
    return ", ".join(
        f"{name} {len(files)}" for name, files in sorted(classes.items(), key=lambda one: -len(one[1]))[:6]
    )


def complaints(package: str, modules: Sequence[Module], lines: dict[str, Lines]) -> Iterator[str]:
    """What is counted against a package, a line each."""
    inside = {module.name: module for module in modules if module.package == package}
    files = {module.file for module in inside.values()}
    for circle in circles(imported(modules, with_deferred=True)):
        if inside.keys() & circle:
            yield f"circle of {len(circle)}: {' '.join(circle)}"
    for module in inside.values():
        yield from (f"participle {one}" for one in module.participles)
        yield from (f"vague {one}" for one in module.vague)
    yield from (f"store {one}" for one in store_imports(list(inside.values())))
    for name, places in common_classes(modules).items():
        if files.intersection(places):
            yield f"class {name}: {' '.join(places)}"
    for (one, start), (other, again), count in duplicates({file: found.shapes for file, found in lines.items()}):
        if one in files or other in files:
            yield f"duplicate {one}:{start} {other}:{again} ({count} windows)"


def main(packages: Sequence[str]) -> None:
    if "--help" in packages:
        print(__doc__)
        return
    paths = sorted(SOURCE.rglob("*.py"))
    modules = [read(path) for path in paths]
    lines = {path.relative_to(ROOT).as_posix(): read_lines(path) for path in paths}
    if packages:
        for package in packages:
            print(*complaints(package, modules, lines), sep="\n")
    else:
        REPORT.write_text(report(modules, lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
