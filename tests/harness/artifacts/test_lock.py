import json
from pathlib import Path

import pytest

from harness.artifacts.cache import Cache
from harness.artifacts.cores import Core, resolve_cores
from harness.artifacts.lock import Lock, read_lock
from harness.artifacts.locking import write_lock
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
    sha256,
)

LINUX_TAGS = "cp311-cp311-manylinux_2_28_x86_64"
OLD_LINUX_TAGS = "cp310-cp310-manylinux_2_28_x86_64"
WINDOWS_TAGS = "cp312-cp312-win_amd64"


def wheel_name(version: str, tags: str = LINUX_TAGS) -> str:
    return f"onnxruntime-{version}-{tags}.whl"


def matrix(specifier: str = ">=1.24,<1.33", select: str = "all") -> Matrix:
    source = CoreSource.model_validate({"releases": specifier, "select": select})
    return Matrix(cores=[source])


def publish(site: Site, *versions: str) -> None:
    wheels = {}
    for version in versions:
        wheels[wheel_name(version)] = core_wheel(version)
        wheels[wheel_name(version, OLD_LINUX_TAGS)] = b"not chosen"
        wheels[wheel_name(version, WINDOWS_TAGS)] = core_wheel(version, WINDOWS)
    site.publish("onnxruntime", wheels)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "matrix.lock.json"


def write(
    cache: Cache, path: Path, target: Target = LINUX, specifier: str = ">=1.24,<1.33"
) -> Lock:
    return write_lock(matrix(specifier), path.parent, cache, path, target=target)


def resolve(
    cache: Cache,
    lock: Lock | None,
    *selectors: str,
    refresh: bool = False,
    target: Target = LINUX,
    select: str = "all",
) -> list[Core]:
    return resolve_cores(
        matrix(select=select),
        Path(),
        cache,
        lock=lock,
        selectors=selectors,
        refresh=refresh,
        target=target,
    )


def error(core: Core) -> str:
    assert core.error is not None
    assert core.library is None
    return core.error


def edited(path: Path, version: str, **change: object) -> Lock:
    text = json.loads(path.read_text())
    for wheel in text["packages"]["onnxruntime"][version]["wheels"]:
        if wheel["file"] == wheel_name(version):
            wheel.update(change)
    path.write_text(json.dumps(text))
    lock = read_lock(path)
    assert lock is not None
    return lock


def test_a_lock_names_each_platforms_wheel_and_this_ones_library(
    site: Site, cache: Cache, path: Path
) -> None:
    publish(site, "1.24.4")
    lock = write(cache, path)
    assert read_lock(path) == lock
    assert json.loads(path.read_text()) == {
        "schema_version": 1,
        "packages": {
            "onnxruntime": {
                "1.24.4": {
                    "wheels": [
                        {
                            "file": wheel_name("1.24.4"),
                            "sha256": sha256(core_wheel("1.24.4")),
                            "library": {
                                "name": "libonnxruntime.so.1.24.4",
                                "sha256": sha256(core_file("1.24.4")[1]),
                            },
                        },
                        {
                            "file": wheel_name("1.24.4", WINDOWS_TAGS),
                            "sha256": sha256(core_wheel("1.24.4", WINDOWS)),
                        },
                    ]
                }
            }
        },
    }


def test_what_another_platform_locked_stays(site: Site, cache: Cache, path: Path) -> None:
    publish(site, "1.24.4")
    write(cache, path)
    lock = write(cache, path, target=WINDOWS)
    libraries = [
        wheel.library and wheel.library.name
        for wheel in lock.packages["onnxruntime"]["1.24.4"].wheels
    ]
    assert libraries == ["libonnxruntime.so.1.24.4", "onnxruntime.dll"]


def test_only_the_releases_of_the_lock_are_used(site: Site, cache: Cache, path: Path) -> None:
    publish(site, "1.24.4", "1.25.0")
    lock = write(cache, path)
    publish(site, "1.24.4", "1.25.0", "1.26.0")
    assert [core.id for core in resolve(cache, None, refresh=True)] == [
        "1.24.4",
        "1.25.0",
        "1.26.0",
    ]
    assert [core.id for core in resolve(cache, lock)] == ["1.24.4", "1.25.0"]
    assert [core.id for core in resolve(cache, lock, "1.25.0")] == ["1.25.0"]
    with pytest.raises(SelectionError, match=r"Known: 1\.24\.4, 1\.25\.0") as caught:
        resolve(cache, lock, "1.26.0")
    assert "ort-ep-matrix lock" in caught.value.hint


def test_latest_patch_holds_with_a_lock(site: Site, cache: Cache, path: Path) -> None:
    publish(site, "1.31.0", "1.31.1")
    lock = write(cache, path)
    assert [core.id for core in resolve(cache, lock, select="latest-patch")] == ["1.31.1"]


def test_a_locked_and_cached_core_needs_no_index(
    site: Site, cache: Cache, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(site, "1.24.4")
    lock = write(cache, path)
    monkeypatch.setenv("PIP_INDEX_URL", "https://other.invalid/simple")
    (core,) = resolve(cache, lock)
    assert core.sha256 == sha256(core_file("1.24.4")[1])


def test_a_locked_core_is_fetched_into_an_empty_cache(
    site: Site, cache: Cache, path: Path, tmp_path: Path
) -> None:
    publish(site, "1.24.4")
    lock = write(cache, path)
    (core,) = resolve(Cache(tmp_path / "another"), lock)
    assert core.sha256 == sha256(core_file("1.24.4")[1])


def test_another_platform_takes_its_own_wheel_from_the_lock(
    site: Site, cache: Cache, path: Path
) -> None:
    publish(site, "1.24.4")
    (core,) = resolve(cache, write(cache, path), target=WINDOWS)
    assert core.sha256 == sha256(core_file("1.24.4", WINDOWS)[1])


def test_a_platform_that_is_not_in_the_lock_is_told(site: Site, cache: Cache, path: Path) -> None:
    publish(site, "1.24.4")
    (core,) = resolve(cache, write(cache, path), target=MACOS)
    assert "The lock has no wheel of onnxruntime 1.24.4 for macos-aarch64" in error(core)
    assert "ort-ep-matrix lock" in error(core)


def test_a_published_hash_that_differs_is_refused(
    site: Site, cache: Cache, path: Path, tmp_path: Path
) -> None:
    publish(site, "1.24.4", "1.25.0")
    lock = write(cache, path)
    replaced = core_wheel("1.24.4") + b"replaced"
    files = {wheel_name("1.24.4"): replaced, wheel_name("1.25.0"): core_wheel("1.25.0")}
    site.publish("onnxruntime", files)
    for cores in (resolve(Cache(tmp_path / "empty"), lock), resolve(cache, lock, refresh=True)):
        bad, good = cores
        assert sha256(core_wheel("1.24.4")) in error(bad)
        assert sha256(replaced) in error(bad)
        assert good.error is None


def test_a_downloaded_hash_that_differs_is_refused(
    site: Site, cache: Cache, path: Path, tmp_path: Path
) -> None:
    publish(site, "1.24.4")
    lock = write(cache, path)
    changed = core_wheel("1.24.4") + b"changed on the way"
    site.files[f"/files/{wheel_name('1.24.4')}"] = changed
    (core,) = resolve(Cache(tmp_path / "empty"), lock)
    assert sha256(core_wheel("1.24.4")) in error(core)
    assert sha256(changed) in error(core)
    assert "the lock" in error(core)


def test_a_cached_library_that_differs_is_refused(site: Site, cache: Cache, path: Path) -> None:
    publish(site, "1.24.4")
    write(cache, path)
    library = {"name": "libonnxruntime.so.1.24.4", "sha256": "3" * 64}
    (core,) = resolve(cache, edited(path, "1.24.4", library=library))
    assert "3" * 64 in error(core)
    assert sha256(core_file("1.24.4")[1]) in error(core)


def test_a_locked_file_that_the_index_lost_is_told(
    site: Site, cache: Cache, path: Path, tmp_path: Path
) -> None:
    publish(site, "1.24.4")
    lock = write(cache, path)
    site.publish("onnxruntime", {wheel_name("1.25.0"): core_wheel("1.25.0")})
    (core,) = resolve(Cache(tmp_path / "empty"), lock)
    assert f"does not have {wheel_name('1.24.4')}" in error(core)


def test_a_locked_core_without_cache_and_index_is_told(
    site: Site, cache: Cache, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(site, "1.24.4")
    lock = write(cache, path)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    (core,) = resolve(Cache(tmp_path / "empty"), lock)
    assert "could not be asked" in error(core)


def test_a_lock_without_a_release_of_the_range_is_told(
    site: Site, cache: Cache, path: Path
) -> None:
    publish(site, "1.24.4", "1.40.0")
    lock = write(cache, path, specifier="==1.40.0")
    with pytest.raises(ConfigError, match="matches no release of onnxruntime in the lock"):
        resolve(cache, lock)


def test_a_lock_is_not_written_when_a_core_cannot_be_had(
    site: Site, cache: Cache, path: Path
) -> None:
    publish(site, "1.24.4", "1.25.0")
    del site.files[f"/files/{wheel_name('1.25.0')}"]
    with pytest.raises(ArtifactError, match="The lock was not written"):
        write(cache, path)
    assert not path.exists()


def test_a_lock_asks_the_index_even_with_a_warm_cache(site: Site, cache: Cache, path: Path) -> None:
    publish(site, "1.24.4")
    write(cache, path)
    publish(site, "1.24.4", "1.25.0")
    assert list(write(cache, path).packages["onnxruntime"]) == ["1.24.4", "1.25.0"]


def test_a_matrix_without_releases_has_nothing_to_lock(cache: Cache, path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to lock"):
        write_lock(Matrix(), path.parent, cache, path, target=LINUX)


def test_there_may_be_no_lock(path: Path) -> None:
    assert read_lock(path) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "JSON"),
        ('{"schema_version": 2, "packages": {}}', "schema_version"),
        ('{"schema_version": 1, "package": {}}', "packages"),
        (
            '{"schema_version": 1, "packages": {"a": {"1": {"wheels": [{"sha256": "1"}]}}}}',
            r"packages\.a\.1\.wheels\.0\.file",
        ),
    ],
)
def test_a_broken_lock_is_told(text: str, told: str, path: Path) -> None:
    path.write_text(text)
    with pytest.raises(ConfigError, match=told) as caught:
        read_lock(path)
    assert str(path) in caught.value.message
    assert "ort-ep-matrix lock" in caught.value.hint


def test_a_broken_lock_is_replaced(site: Site, cache: Cache, path: Path) -> None:
    publish(site, "1.24.4")
    path.write_text("{")
    assert write(cache, path) == read_lock(path)
