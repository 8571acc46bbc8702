"""What is shipped: wheel and sdist hold the SQL, the data and the licence, byte for byte, and nothing of the tests."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def build(folder: Path, target: Path, kind: str) -> Path:
    """Build a wheel or sdist of a source folder; needs no network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [built] = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")


def files_of(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def source(folder: Path, prefix: str) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {f"{prefix}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in paths}


def test_the_wheel_holds_the_sql_byte_for_byte(wheel: Path) -> None:
    shipped = {name: text for name, text in files_of(wheel).items() if name.startswith("lore_retriever/sql/")}
    assert shipped == source(ROOT / "sql", "lore_retriever/sql")
    assert "lore_retriever/sql/migrations/0001_roles.sql" in shipped


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = {name for name in files_of(wheel) if not name.startswith("lore_retriever/sql/")}
    metadata = {name for name in names if ".dist-info/" in name}
    assert names - metadata == set(source(ROOT / "src" / "lore_retriever", "lore_retriever"))
    assert "lore_retriever/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in metadata)


def test_the_wheel_names_its_command_and_extras(wheel: Path) -> None:
    files = files_of(wheel)
    [entry_points] = [text.decode() for name, text in files.items() if name.endswith("entry_points.txt")]
    [metadata] = [text.decode() for name, text in files.items() if name.endswith("/METADATA")]
    assert "lore-retriever = lore_retriever.cli:main" in entry_points
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in project["optional-dependencies"]:
        assert f"Provides-Extra: {extra}\n" in metadata
    plain = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    # Neither a framework nor a model nor torch comes with the package itself.
    assert {line.split()[1].split("<")[0].split(">")[0] for line in plain} == {"psycopg", "psycopg-pool", "pydantic"}
    assert f"Version: {project['version']}\n" in metadata


def test_the_version_is_the_same_everywhere() -> None:
    import lore_retriever

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert lore_retriever.__version__ == project["version"]


def test_a_wheel_built_from_the_sdist_is_the_same(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [unpacked] = [path for path in tmp_path.iterdir() if path.is_dir()]
    for needed in ("tests", "sql", "docs", "scripts", "Makefile", "README.md", "CHANGELOG.md", "LICENSE"):
        assert (unpacked / needed).exists(), needed
    rebuilt = files_of(build(unpacked, tmp_path / "again", "wheel"))
    first = files_of(wheel)
    assert set(rebuilt) == set(first)
    assert [name for name in first if rebuilt[name] != first[name] and not name.endswith("RECORD")] == []


def test_an_editable_checkout_finds_the_sql_beside_the_source() -> None:
    from lore_retriever.queries import sql_folder

    assert sql_folder() == ROOT / "sql"


def test_an_installed_package_finds_the_sql_inside_itself(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "from lore_retriever.queries import sql_folder; from lore_retriever.migrations import known_migrations; print(sql_folder(), len(known_migrations()))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    folder, count = done.stdout.split()
    assert Path(folder) == tmp_path / "lore_retriever" / "sql"
    assert int(count) == len(list((ROOT / "sql" / "migrations").glob("*.sql")))


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    forbidden = [
        "pytest." + word for word in ("skip", "importorskip", "xfail", "mark.skip", "mark.xfail", "mark.skipif")
    ]
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert not [word for word in forbidden if word in text], path.name
