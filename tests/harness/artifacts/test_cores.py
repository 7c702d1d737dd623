import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from packaging.version import Version

from harness.artifacts.cache import Cache, default_cache
from harness.artifacts.cores import Core, resolve_cores
from harness.artifacts.target import Target
from harness.config import CoreSource, Matrix
from harness.errors import ArtifactError, ConfigError, SelectionError
from tests.harness.artifacts.building import (
    LINUX,
    MACOS,
    WINDOWS,
    Site,
    core_file,
    core_wheel,
    install,
    sha256,
    tgz,
    write_folder,
    zipped,
)
from tests.harness.artifacts.native_files import CORE_EXPORTS, elf, macho

PYTHON = sys.executable
TOP = Path(__file__).parents[3]
TAGS = "cp311-cp311-manylinux_2_28_x86_64"


def wheel_name(version: str, tags: str = TAGS) -> str:
    return f"onnxruntime-{version}-{tags}.whl"


def releases(specifier: str = ">=1.24.4,<1.33", **more: str) -> Matrix:
    return Matrix(cores=[CoreSource.model_validate({"releases": specifier, **more})])


def matrix_of(*sources: dict[str, object]) -> Matrix:
    return Matrix(cores=[CoreSource.model_validate(source) for source in sources])


def resolve(
    matrix: Matrix,
    cache: Cache,
    *,
    base: Path = Path(),
    selectors: Sequence[str] = (),
    refresh: bool = False,
    target: Target = LINUX,
) -> list[Core]:
    return resolve_cores(
        matrix, base, cache, lock=None, selectors=selectors, refresh=refresh, target=target
    )


def content(core: Core) -> bytes:
    assert core.error is None
    assert core.library is not None
    assert core.library.is_absolute()
    found = core.library.read_bytes()
    assert core.sha256 == hashlib.sha256(found).hexdigest()
    return found


def failure(core: Core) -> str:
    assert core.library is None
    assert core.sha256 is None
    assert core.error is not None
    return core.error


def on_disk(cache: Cache) -> list[str]:
    return sorted(
        path.name for path in cache.cores.rglob("*") if path.is_file() and path.suffix != ".lock"
    )


def publish(site: Site, *versions: str) -> None:
    site.publish("onnxruntime", {wheel_name(version): core_wheel(version) for version in versions})


class Ear:
    """A progress that remembers what it was told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, int | None]] = []

    def started(self, name: str, total_bytes: int | None) -> None:
        self.events.append(("started", name, total_bytes))

    def advanced(self, name: str, count_bytes: int) -> None:
        self.events.append(("advanced", name, count_bytes))

    def finished(self, name: str) -> None:
        self.events.append(("finished", name, None))


def test_all_releases_in_the_range_are_fetched(site: Site, cache: Cache) -> None:
    publish(site, "1.24.3", "1.24.4", "1.25.0", "1.32.0", "1.33.0", "1.32.1rc1")
    ear = Ear()
    cores = resolve_cores(releases(), Path(), cache, lock=None, progress=ear, target=LINUX)
    assert [core.id for core in cores] == ["1.24.4", "1.25.0", "1.32.0"]
    for core in cores:
        name, expected = core_file(core.version)
        assert content(core) == expected
        assert core.library is not None
        assert core.library.name == Path(name).name
        assert core.source == f"package index: {wheel_name(core.version)}"
    size = len(core_wheel("1.25.0"))
    mine = [event for event in ear.events if event[1] == wheel_name("1.25.0")]
    assert mine[0] == ("started", wheel_name("1.25.0"), size)
    assert sum(count or 0 for kind, _, count in mine if kind == "advanced") == size
    assert mine[-1] == ("finished", wheel_name("1.25.0"), None)


def test_only_the_library_is_kept(site: Site, cache: Cache) -> None:
    publish(site, "1.24.4")
    resolve(releases(), cache)
    assert on_disk(cache) == ["libonnxruntime.so.1.24.4", "record.json"]


@pytest.mark.parametrize(
    ("target", "tags", "name"),
    [
        (MACOS, "cp312-cp312-macosx_14_0_arm64", "libonnxruntime.1.30.0.dylib"),
        (WINDOWS, "cp312-cp312-win_amd64", "onnxruntime.dll"),
    ],
)
def test_other_platforms_get_their_own_library(
    target: Target, tags: str, name: str, site: Site, cache: Cache
) -> None:
    wheels = {
        wheel_name("1.30.0"): core_wheel("1.30.0"),
        wheel_name("1.30.0", tags): core_wheel("1.30.0", target),
    }
    site.publish("onnxruntime", wheels)
    (core,) = resolve(releases(), cache, target=target)
    assert content(core) == core_file("1.30.0", target)[1]
    assert core.library is not None
    assert core.library.name == name


def test_a_warm_cache_needs_no_index_and_no_pip(
    site: Site, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(site, "1.24.4", "1.25.0")
    first = resolve(releases(), cache)
    asked = len(site.asked)

    def nothing_starts(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", nothing_starts)
    assert resolve(releases(), cache) == first
    assert [core.id for core in resolve(releases(), cache, selectors=["1.25.0"])] == ["1.25.0"]
    assert len(site.asked) == asked


def test_a_new_release_is_seen_after_a_refresh(site: Site, cache: Cache) -> None:
    publish(site, "1.24.4")
    resolve(releases(), cache)
    publish(site, "1.24.4", "1.25.0")
    assert [core.id for core in resolve(releases(), cache)] == ["1.24.4"]
    refreshed = resolve(releases(), cache, refresh=True)
    assert [core.id for core in refreshed] == ["1.24.4", "1.25.0"]
    assert site.downloads() == [f"/files/{wheel_name(v)}" for v in ("1.24.4", "1.25.0")]


def test_selectors_filter_before_anything_is_downloaded(site: Site, cache: Cache) -> None:
    publish(site, "1.24.4", "1.29.0", "1.30.0", "1.31.0", "1.31.1")
    cores = resolve(releases(), cache, selectors=["1.29.0", ">=1.31"])
    assert [core.id for core in cores] == ["1.29.0", "1.31.0", "1.31.1"]
    assert len(site.downloads()) == 3


def test_a_selector_that_matches_nothing_lists_the_known_versions(site: Site, cache: Cache) -> None:
    publish(site, "1.24.4", "1.25.0", "1.26.0rc1")
    with pytest.raises(SelectionError, match=r"1\.40\.0.*Known: 1\.24\.4, 1\.25\.0\.") as caught:
        resolve(releases(), cache, selectors=["1.24.4", "1.40.0"])
    assert "ort-ep-matrix fetch" in caught.value.hint
    assert site.downloads() == []


def test_a_prerelease_of_the_range_is_taken_when_named(site: Site, cache: Cache) -> None:
    publish(site, "1.31.0", "1.32.0rc1")
    assert [core.id for core in resolve(releases(), cache)] == ["1.31.0"]
    assert [c.id for c in resolve(releases(), cache, selectors=["1.32.0rc1"])] == ["1.32.0rc1"]


def test_latest_patch_takes_one_of_each_minor(site: Site, cache: Cache) -> None:
    publish(site, "1.25.0", "1.25.1", "1.31.0", "1.31.1")
    cores = resolve(releases(select="latest-patch"), cache)
    assert [core.id for core in cores] == ["1.25.1", "1.31.1"]


def test_a_range_without_releases_is_an_error_of_the_matrix(site: Site, cache: Cache) -> None:
    publish(site, "1.24.4")
    with pytest.raises(ConfigError, match=r'"==9\.9" matches no release'):
        resolve(releases("==9.9"), cache)
    with pytest.raises(SelectionError, match="no core"):
        resolve(Matrix(), cache)


def test_without_an_index_and_an_earlier_answer_there_is_nothing(cache: Cache) -> None:
    with pytest.raises(ArtifactError, match="no index at all"):
        resolve(releases(), cache)


def test_a_wrong_hash_costs_its_own_core_alone(site: Site, cache: Cache) -> None:
    wheels = {wheel_name(version): core_wheel(version) for version in ("1.24.4", "1.25.0")}
    site.publish("onnxruntime", wheels, hashes={wheel_name("1.24.4"): "0" * 64})
    bad, good = resolve(releases(), cache)
    told = failure(bad)
    assert sha256(wheels[wheel_name("1.24.4")]) in told
    assert "0" * 64 in told
    assert content(good)
    assert on_disk(cache) == ["libonnxruntime.so.1.25.0", "record.json"]


def test_a_download_cut_short_is_tried_again_and_told(site: Site, cache: Cache) -> None:
    publish(site, "1.24.4", "1.25.0")
    path = f"/files/{wheel_name('1.24.4')}"
    site.cut_short[path] = 100
    bad, good = resolve(releases(), cache)
    assert "could not be downloaded" in failure(bad)
    assert site.asked.count(path) == 3
    assert content(good)
    site.cut_short.clear()
    assert all(map(content, resolve(releases(), cache)))


def test_a_download_that_fails_once_succeeds(site: Site, cache: Cache) -> None:
    publish(site, "1.24.4")
    site.statuses[f"/files/{wheel_name('1.24.4')}"] = [503]
    assert all(map(content, resolve(releases(), cache)))


def test_a_file_that_is_gone_from_the_index_is_told_at_once(site: Site, cache: Cache) -> None:
    publish(site, "1.24.4", "1.25.0")
    del site.files[f"/files/{wheel_name('1.25.0')}"]
    good, bad = resolve(releases(), cache)
    assert "the server answered 404" in failure(bad)
    assert "ort-ep-matrix fetch" in failure(bad)
    assert site.asked.count(f"/files/{wheel_name('1.25.0')}") == 1
    assert content(good)


def test_a_wheel_without_the_library_is_told(site: Site, cache: Cache) -> None:
    site.publish("onnxruntime", {wheel_name("1.24.4"): zipped({"onnxruntime/capi/other.so": b"x"})})
    (core,) = resolve(releases(), cache)
    assert "holds no core library for linux-x86_64" in failure(core)


def test_an_index_that_publishes_no_hash_is_accepted_and_told(site: Site, cache: Cache) -> None:
    wheels = {wheel_name("1.24.4"): core_wheel("1.24.4")}
    site.publish("onnxruntime", wheels, hashes={wheel_name("1.24.4"): None})
    first = resolve(releases(), cache)
    assert "publishes no sha256" in first[0].source
    assert content(first[0])
    assert resolve(releases(), cache) == first
    assert len(site.downloads()) == 1


def test_wheels_of_a_local_folder_are_used(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "wheels", {wheel_name("1.24.4"): core_wheel("1.24.4")})
    monkeypatch.setenv("PIP_FIND_LINKS", f"{folder} {tmp_path / 'missing'}")
    first = resolve(releases(), cache)
    assert content(first[0]) == core_file("1.24.4")[1]
    assert resolve(releases(), cache) == first
    rebuilt = zipped({core_file("1.24.4")[0]: elf(CORE_EXPORTS, filler=b"built anew")})
    (folder / wheel_name("1.24.4")).write_bytes(rebuilt)
    assert content(resolve(releases(), cache)[0]).endswith(b"built anew")


def test_a_cached_core_with_one_flipped_byte_is_refused_and_replaced(
    site: Site, cache: Cache
) -> None:
    publish(site, "1.24.4", "1.25.0")
    first = resolve(releases(), cache)
    library = first[0].library
    assert library is not None
    whole = library.read_bytes()
    library.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    bad, good = resolve(releases(), cache)
    told = failure(bad)
    assert f"{library} no longer matches its recorded sha256" in told
    assert '"ort-ep-matrix fetch" replaces it' in told
    assert content(good)
    assert resolve(releases(), cache, refresh=True) == first
    assert resolve(releases(), cache) == first


def test_a_cached_core_that_is_gone_is_fetched_again(site: Site, cache: Cache) -> None:
    publish(site, "1.24.4")
    first = resolve(releases(), cache)
    assert first[0].library is not None
    first[0].library.unlink()
    assert resolve(releases(), cache) == first


def test_a_damaged_record_is_made_anew(site: Site, cache: Cache) -> None:
    publish(site, "1.24.4")
    first = resolve(releases(), cache)
    (record,) = cache.cores.rglob("record.json")
    record.write_text("{")
    assert resolve(releases(), cache) == first


def test_the_linux_archive_by_path_in_the_matrix(cache: Cache, tmp_path: Path) -> None:
    core = core_file("1.27.1")[1]
    top = "onnxruntime-linux-x64-1.27.1"
    archive = tgz(
        {f"{top}/lib/libonnxruntime.so.1.27.1": core},
        {f"{top}/lib/libonnxruntime.so": "libonnxruntime.so.1.27.1"},
    )
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / f"{top}.tgz").write_bytes(archive)
    matrix = matrix_of({"archive": f"archives/{top}.tgz", "sha256": sha256(archive)})
    (got,) = resolve(matrix, cache, base=tmp_path)
    assert (got.id, got.source) == ("1.27.1", f"archive {top}.tgz")
    assert content(got) == core
    shutil.rmtree(tmp_path / "archives")
    assert resolve(matrix, cache, base=tmp_path) == [got]


def test_an_archive_with_another_hash_is_refused(cache: Cache, tmp_path: Path) -> None:
    archive = tgz({"t/lib/libonnxruntime.so.1.27.1": core_file("1.27.1")[1]})
    (tmp_path / "ort-1.27.1.tgz").write_bytes(archive)
    matrix = matrix_of({"archive": "ort-1.27.1.tgz", "sha256": "1" * 64})
    told = failure(resolve(matrix, cache, base=tmp_path)[0])
    assert sha256(archive) in told
    assert "1" * 64 in told


def test_a_missing_archive_is_an_error_of_its_core(cache: Cache, tmp_path: Path) -> None:
    matrix = matrix_of({"archive": "gone-1.27.1.tgz", "sha256": "1" * 64})
    assert "gone-1.27.1.tgz cannot be read" in failure(resolve(matrix, cache, base=tmp_path)[0])


def test_an_archive_tells_its_version_by_its_library_or_is_asked_for_it(
    cache: Cache, tmp_path: Path
) -> None:
    told = tgz({"t/lib/libonnxruntime.so.1.28.3": core_file("1.28.3")[1]})
    untold = tgz({"t/lib/libonnxruntime.so": core_file("1.28.3")[1]})
    for name, archive in (("told.tgz", told), ("untold.tgz", untold)):
        (tmp_path / name).write_bytes(archive)
    matrix = matrix_of({"archive": "told.tgz", "sha256": sha256(told)})
    assert resolve(matrix, cache, base=tmp_path)[0].version == "1.28.3"
    source: dict[str, object] = {"archive": "untold.tgz", "sha256": sha256(untold)}
    with pytest.raises(ConfigError, match=r"untold\.tgz does not tell its version") as caught:
        resolve(matrix_of(source), cache, base=tmp_path)
    assert '"version:"' in caught.value.hint
    given = matrix_of({**source, "version": "1.28.3"})
    assert resolve(given, cache, base=tmp_path)[0].version == "1.28.3"


def test_an_archive_of_another_machine_is_refused(cache: Cache, tmp_path: Path) -> None:
    core = elf(CORE_EXPORTS, machine="aarch64")
    archive = tgz({"t/lib/libonnxruntime.so.1.27.1": core})
    (tmp_path / "a.tgz").write_bytes(archive)
    matrix = matrix_of({"archive": "a.tgz", "sha256": sha256(archive), "version": "1.27.1"})
    told = failure(resolve(matrix, cache, base=tmp_path)[0])
    assert "built for aarch64, and this process runs on x86_64" in told


@pytest.mark.parametrize("folder", ["", "lib", "onnxruntime/capi", "runtimes/linux-x64/native"])
def test_a_folder_that_holds_a_core(folder: str, cache: Cache, tmp_path: Path) -> None:
    home = tmp_path / "build" / folder
    home.mkdir(parents=True)
    library = home / "libonnxruntime.so.1.28.3"
    library.write_bytes(core_file("1.28.3")[1])
    if os.name == "posix":
        (home / "libonnxruntime.so").symlink_to(library.name)
    else:
        shutil.copyfile(library, home / "libonnxruntime.so")
    (got,) = resolve(matrix_of({"path": "build"}), cache, base=tmp_path)
    assert (got.version, got.library) == ("1.28.3", library.resolve())


def test_a_folder_with_none_or_two_cores_is_refused(cache: Cache, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="holds no core library"):
        resolve(matrix_of({"path": "."}), cache, base=tmp_path)
    for version in ("1.27.0", "1.28.0"):
        (tmp_path / f"libonnxruntime.so.{version}").write_bytes(core_file(version)[1])
    with pytest.raises(ArtifactError, match=r"more than one.*1\.27\.0.*1\.28\.0"):
        resolve(matrix_of({"path": "."}), cache, base=tmp_path)


def test_a_missing_path_with_a_version_costs_its_own_core(
    site: Site, cache: Cache, tmp_path: Path
) -> None:
    publish(site, "1.24.4")
    matrix = matrix_of({"path": "gone.so", "version": "1.27.1"}, {"releases": ">=1.24"})
    good, bad = resolve(matrix, cache, base=tmp_path)
    assert (good.id, bad.id) == ("1.24.4", "1.27.1")
    assert "gone.so" in failure(bad)


def test_a_path_with_a_hash_is_held_to_it(cache: Cache, tmp_path: Path) -> None:
    name, core = core_file("1.27.1")
    (tmp_path / Path(name).name).write_bytes(core)
    source: dict[str, object] = {"path": Path(name).name}
    good = resolve(matrix_of({**source, "sha256": sha256(core)}), cache, base=tmp_path)
    assert content(good[0]) == core
    bad = resolve(matrix_of({**source, "sha256": "2" * 64}), cache, base=tmp_path)
    assert "2" * 64 in failure(bad[0])


@pytest.mark.parametrize(
    ("core", "reason"),
    [
        (b"hello", 'it starts with "hello"'),
        (b"", "it is empty"),
        (elf(("main",)), "it does not export OrtGetApiBase"),
        (macho(CORE_EXPORTS), "library for macOS"),
    ],
)
def test_a_path_that_is_no_core_is_told(
    core: bytes, reason: str, cache: Cache, tmp_path: Path
) -> None:
    (tmp_path / "libonnxruntime.so.1.27.1").write_bytes(core)
    (got,) = resolve(matrix_of({"path": "libonnxruntime.so.1.27.1"}), cache, base=tmp_path)
    assert reason in failure(got)


def test_a_folder_of_an_unpacked_archive_tells_the_version(cache: Cache, tmp_path: Path) -> None:
    library = tmp_path / "onnxruntime-win-x64-1.27.1" / "lib" / "onnxruntime.dll"
    library.parent.mkdir(parents=True)
    library.write_bytes(core_file("1.27.1", WINDOWS)[1])
    (got,) = resolve(
        matrix_of({"path": "onnxruntime-win-x64-1.27.1"}), cache, base=tmp_path, target=WINDOWS
    )
    assert got.version == "1.27.1"


def test_a_library_tells_its_version_itself(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "libonnxruntime.dylib").write_bytes(macho(CORE_EXPORTS, version=(1, 30, 1)))
    matrix = matrix_of({"path": "libonnxruntime.dylib"})
    assert resolve(matrix, cache, base=tmp_path, target=MACOS)[0].version == "1.30.1"


def test_a_path_selector_replaces_the_matrix_and_joins_versions(
    site: Site, cache: Cache, tmp_path: Path
) -> None:
    publish(site, "1.24.4", "1.25.0")
    library = tmp_path / "libonnxruntime.so.1.99.0"
    library.write_bytes(core_file("1.99.0")[1])
    alone = resolve(releases(), cache, selectors=[str(library)])
    assert [core.version for core in alone] == ["1.99.0"]
    assert site.asked == []
    joined = resolve(releases(), cache, selectors=[str(library), "1.25.0"])
    assert [core.version for core in joined] == ["1.25.0", "1.99.0"]


def test_an_archive_selector_needs_no_hash_and_reports_the_cores(
    cache: Cache, tmp_path: Path
) -> None:
    archive = tmp_path / "onnxruntime-linux-x64-1.27.1.tgz"
    core = core_file("1.27.1")[1]
    archive.write_bytes(tgz({"t/lib/libonnxruntime.so.1.27.1": core}))
    (got,) = resolve(releases(), cache, selectors=[str(archive)])
    assert content(got) == core


@pytest.mark.parametrize(
    "prepare", [lambda p: p.mkdir(), lambda p: p.write_bytes(elf(CORE_EXPORTS))]
)
def test_a_path_selector_that_names_no_core_is_refused(
    prepare: Callable[[Path], object], cache: Cache, tmp_path: Path
) -> None:
    prepare(tmp_path / "thing")
    with pytest.raises(SelectionError):
        resolve(releases(), cache, selectors=[str(tmp_path / "thing")])


def test_installed_is_refused_where_nothing_is_installed(cache: Cache) -> None:
    with pytest.raises(SelectionError, match="--core installed names nothing"):
        resolve(releases(), cache, selectors=["installed"], target=WINDOWS)


def test_the_installed_core_is_used_without_importing_it(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, core = core_file("1.31.1")
    install(tmp_path, "onnxruntime", "1.31.1", name, "onnxruntime/__init__.py")
    (tmp_path / name).write_bytes(core)
    monkeypatch.syspath_prepend(str(tmp_path))
    (got,) = resolve(releases(), cache, selectors=["installed"])
    assert content(got) == core
    assert (got.id, got.source) == ("1.31.1", "installed: onnxruntime 1.31.1")
    assert resolve(matrix_of({"installed": True}), cache) == [got]
    wrong = resolve(matrix_of({"installed": True, "version": "1.30.0"}), cache)
    assert "1.31.1 is installed, but matrix.yaml says 1.30.0" in failure(wrong[0])
    assert "onnxruntime" not in sys.modules


def test_the_same_core_from_two_sources_is_one(site: Site, cache: Cache, tmp_path: Path) -> None:
    publish(site, "1.24.4", "1.25.0")
    library = tmp_path / "libonnxruntime.so.1.24.4"
    library.write_bytes(core_file("1.24.4")[1])
    matrix = matrix_of({"releases": ">=1.24"}, {"releases": "<1.25"}, {"path": library.name})
    cores = resolve(matrix, cache, base=tmp_path)
    assert [core.id for core in cores] == ["1.24.4", "1.25.0"]


def test_two_builds_of_one_version_are_told_apart(site: Site, cache: Cache, tmp_path: Path) -> None:
    publish(site, "1.24.4")
    own = elf(CORE_EXPORTS, filler=b"my own build")
    (tmp_path / "libonnxruntime.so.1.24.4").write_bytes(own)
    matrix = matrix_of({"releases": ">=1.24"}, {"path": "libonnxruntime.so.1.24.4"})
    cores = resolve(matrix, cache, base=tmp_path)
    digits = sorted([sha256(own)[:8], sha256(core_file("1.24.4")[1])[:8]])
    assert [core.id for core in cores] == [f"1.24.4@{each}" for each in digits]


def test_a_cache_that_cannot_be_written_is_told(site: Site, tmp_path: Path) -> None:
    publish(site, "1.24.4")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArtifactError, match="cannot be written") as caught:
        resolve(releases(), Cache(tmp_path / "file"))
    assert "ORT_EP_MATRIX_CACHE" in caught.value.hint


def test_the_variable_chooses_the_cache(tmp_path: Path) -> None:
    assert default_cache({"ORT_EP_MATRIX_CACHE": str(tmp_path)}).root == tmp_path.resolve()
    assert default_cache({"ORT_EP_MATRIX_CACHE": ""}) == default_cache({})


FILL = """
import sys
from pathlib import Path
from harness.artifacts.cache import default_cache
from harness.artifacts.cores import resolve_cores
from harness.config import CoreSource, Matrix
from tests.harness.artifacts.building import LINUX
matrix = Matrix(cores=[CoreSource(releases=">=1")])
cores = resolve_cores(matrix, Path(), default_cache(), lock=None, target=LINUX)
print(*(core.sha256 or core.error for core in cores), sep="\\n")
"""


def start_filling(cache: Cache) -> "subprocess.Popen[str]":
    environment = {**os.environ, "ORT_EP_MATRIX_CACHE": str(cache.root), "PYTHONPATH": str(TOP)}
    return subprocess.Popen(
        [PYTHON, "-c", FILL], env=environment, stdout=subprocess.PIPE, text=True, cwd=TOP
    )


def test_two_runs_fill_one_cache_at_once(site: Site, cache: Cache) -> None:
    versions = ["1.24.4", "1.25.0", "1.26.0"]
    publish(site, *versions)
    # Both are under way before the first file arrives.
    site.late = {f"/files/{wheel_name(version)}": 2.0 for version in versions}
    runs = [start_filling(cache) for _ in range(2)]
    expected = [sha256(core_file(version)[1]) for version in versions]
    for run in runs:
        out, _ = run.communicate(timeout=60)
        assert out.split() == expected
    assert sorted(site.downloads()) == [f"/files/{wheel_name(version)}" for version in versions]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_run_killed_in_mid_download_leaves_a_usable_cache(site: Site, cache: Cache) -> None:
    publish(site, "1.24.4", "1.25.0")
    slow = f"/files/{wheel_name('1.25.0')}"
    site.slow.add(slow)
    run = start_filling(cache)
    deadline = time.monotonic() + 60
    while not (slow in site.asked and "libonnxruntime.so.1.24.4" in on_disk(cache)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.2)
    run.kill()
    run.communicate()
    left = [name for name in on_disk(cache) if name.endswith(".part")]
    assert left
    site.slow.clear()
    assert all(map(content, resolve(releases(), cache)))
    assert on_disk(cache) == [
        "libonnxruntime.so.1.24.4",
        "libonnxruntime.so.1.25.0",
        "record.json",
        "record.json",
    ]


@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
def test_ctrl_c_ends_a_download_at_once(site: Site, cache: Cache) -> None:
    publish(site, "1.25.0")
    slow = f"/files/{wheel_name('1.25.0')}"
    site.slow.add(slow)
    run = start_filling(cache)
    deadline = time.monotonic() + 60
    while slow not in site.asked:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.2)
    run.send_signal(signal.SIGINT)
    started = time.monotonic()
    run.communicate(timeout=60)
    assert time.monotonic() - started < 3
    assert run.returncode != 0


@pytest.mark.cores
@pytest.mark.usefixtures("real_pip")
def test_a_real_release_of_the_real_index(cache: Cache) -> None:
    matrix = releases("==1.24.4")
    (core,) = resolve_cores(matrix, Path(), cache, lock=None)
    assert core.error is None
    assert core.library is not None
    assert Version(core.version) == Version("1.24.4")
    assert core.library.stat().st_size > 10_000_000
    (named,) = resolve_cores(matrix, Path(), cache, lock=None, selectors=[str(core.library)])
    assert (named.sha256, named.version) == (core.sha256, "1.24.4")
