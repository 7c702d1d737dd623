import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.artifacts.cache import Cache
from harness.artifacts.plugins import Plugin, resolve_plugin
from harness.artifacts.target import Target
from harness.config import Matrix, PluginEntry
from harness.errors import ArtifactError, PluginError
from tests.harness.artifacts.building import (
    LINUX,
    MACOS,
    WINDOWS,
    Site,
    sha256,
    write_folder,
    zipped,
)
from tests.harness.artifacts.native_files import CORE_EXPORTS, elf, macho, pe

PYTHON = sys.executable
TOP = Path(__file__).parents[3]
LIBRARY = "fast_ep/libfast_ep.so"
PLUGIN = elf(needed=("libhelper.so",))
HELPER = elf(("help_me",))


def wheel(version: str, **files: bytes) -> bytes:
    return zipped(
        {
            "fast_ep/__init__.py": b"",
            LIBRARY: PLUGIN,
            "fast_ep/libhelper.so": HELPER,
            f"fast_ep-{version}.dist-info/METADATA": version.encode(),
            **files,
        }
    )


def wheel_name(version: str, tags: str = "py3-none-manylinux_2_28_x86_64") -> str:
    return f"fast_ep-{version}-{tags}.whl"


def publish(site: Site, *versions: str) -> None:
    site.publish("fast-ep", {wheel_name(version): wheel(version) for version in versions})


def entries(**plugins: dict[str, object]) -> Matrix:
    made = {name: PluginEntry.model_validate(entry) for name, entry in plugins.items()}
    return Matrix(plugins=made, plugin=next(iter(made), None))


def resolve(
    text: str | None,
    cache: Cache,
    matrix: Matrix | None = None,
    *,
    base: Path = Path(),
    refresh: bool = False,
    target: Target = LINUX,
    shipped: Path | None = None,
) -> Plugin:
    return resolve_plugin(
        matrix or Matrix(), base, cache, text, refresh=refresh, target=target, shipped=shipped
    )


def test_an_entry_with_a_requirement(site: Site, cache: Cache) -> None:
    publish(site, "0.3.0", "0.4.0", "0.5.0")
    matrix = entries(fast={"requirement": "fast-ep==0.4.0", "registration_name": "Fast"})
    plugin = resolve(None, cache, matrix)
    assert (plugin.name, plugin.version, plugin.registration_name) == ("fast", "0.4.0", "Fast")
    assert plugin.entry is matrix.plugins["fast"]
    assert plugin.library.is_absolute()
    assert plugin.library.read_bytes() == PLUGIN
    assert plugin.sha256 == sha256(PLUGIN)
    assert plugin.source == f"package index: {wheel_name('0.4.0')}"
    assert (plugin.library.parent / "libhelper.so").read_bytes() == HELPER
    assert resolve("fast", cache, matrix) == plugin


def test_a_bare_requirement_has_no_entry(site: Site, cache: Cache) -> None:
    publish(site, "0.4.0")
    matrix = entries(fast={"requirement": "fast-ep==0.4.0", "registration_name": "Fast"})
    plugin = resolve("fast-ep==0.4.0", cache, matrix)
    assert (plugin.name, plugin.registration_name) == ("fast-ep", "fast-ep")
    assert plugin.entry is None
    assert plugin.version == "0.4.0"


def test_the_newest_final_version_that_fits_is_taken(site: Site, cache: Cache) -> None:
    publish(site, "0.3.0", "0.4.1", "0.5.0", "0.6.0rc1")
    assert resolve("fast-ep>0", cache).version == "0.5.0"
    assert resolve("fast-ep<0.5", cache).version == "0.4.1"
    assert resolve("fast-ep>=0.6.0rc1", cache).version == "0.6.0rc1"


def test_a_version_published_since_the_index_was_asked_is_found(site: Site, cache: Cache) -> None:
    publish(site, "0.4.0")
    resolve("fast-ep>0", cache)
    publish(site, "0.4.0", "0.5.0")
    assert resolve("fast-ep==0.5.0", cache).version == "0.5.0"


def test_a_warm_cache_starts_and_asks_nothing_and_reads_no_library(
    site: Site, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(site, "0.4.0")
    first = resolve("fast-ep==0.4.0", cache)
    asked = len(site.asked)
    code = (
        "import sys; from pathlib import Path; from harness.config import Matrix; "
        "from harness.artifacts.cache import default_cache; "
        "from harness.artifacts.plugins import resolve_plugin; "
        "from tests.harness.artifacts.building import LINUX; "
        "import subprocess; del subprocess.Popen; "
        "p = resolve_plugin(Matrix(), Path(), default_cache(), 'fast-ep==0.4.0', target=LINUX); "
        "print(p.library, 'lief' in sys.modules, 'unearth' in sys.modules)"
    )
    monkeypatch.setenv("ORT_EP_MATRIX_CACHE", str(cache.root))
    monkeypatch.setenv("PYTHONPATH", str(TOP))
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True, cwd=TOP)
    assert done.stdout.split() == [str(first.library), "False", "False"]
    assert len(site.asked) == asked


def test_a_version_that_is_not_there_is_told_with_those_that_are(site: Site, cache: Cache) -> None:
    publish(site, "0.3.0", "0.4.0")
    with pytest.raises(PluginError, match=r'"fast-ep==9\.0".*0\.3\.0, 0\.4\.0'):
        resolve("fast-ep==9.0", cache)


def test_a_distribution_that_is_not_there_is_told_with_the_entries(
    site: Site, cache: Cache
) -> None:
    with pytest.raises(PluginError, match="was taken for a requirement") as caught:
        resolve("no-such-thing==1.0", cache, entries(fast={"path": "x.so"}))
    assert caught.value.hint == "Entries of the matrix: fast."
    assert site.asked


def test_a_misspelt_entry_is_answered_and_never_fetched(site: Site, cache: Cache) -> None:
    site.publish("webgpuu", {"webgpuu-1.0-py3-none-any.whl": wheel("1.0")})
    with pytest.raises(PluginError) as caught:
        resolve("webgpuu", cache, entries(webgpu={"path": "x.so"}))
    assert 'Perhaps you meant the entry "webgpu"?' in caught.value.hint
    assert site.asked == []


@pytest.mark.parametrize("text", ["numpy", "numpy[x]", "numpy; python_version > '3'"])
def test_a_name_without_version_is_never_fetched(text: str, site: Site, cache: Cache) -> None:
    # What is fetched is loaded as native code, and the name may be a stranger's.
    site.publish("numpy", {"numpy-2.0-py3-none-any.whl": wheel("2.0")})
    with pytest.raises(PluginError) as caught:
        resolve(text, cache, entries(mine={"path": "x.so"}))
    assert caught.value.message == (
        f'--plugin "{text}" is no entry of the matrix and no path that exists.'
    )
    assert caught.value.hint == (
        'Entries of the matrix: mine. To take it for a requirement, give a version: "numpy==1.0".'
    )
    assert site.asked == []


def test_an_entry_of_the_shipped_matrix_alone_is_told_with_its_place(
    site: Site, cache: Cache, tmp_path: Path
) -> None:
    shipped = tmp_path / "shipped.yaml"
    shipped.write_text("plugins: {fast: {path: x.so}}\n")
    hints = []
    for name in ("fast", "numpy"):
        with pytest.raises(PluginError) as caught:
            resolve(name, cache, entries(mine={"path": "x.so"}), shipped=shipped)
        hints.append(caught.value.hint)
    assert hints[0].startswith(
        f'The matrix in use replaces the shipped one, {shipped}, which has an entry "fast": '
    )
    # A version would fetch the package of that name, which is another's.
    assert "==" not in hints[0]
    assert hints[1].startswith("Entries of the matrix: mine.")
    assert site.asked == []


def test_a_shipped_matrix_that_cannot_be_read_does_not_hide_the_mistake(
    site: Site, cache: Cache, tmp_path: Path
) -> None:
    with pytest.raises(PluginError, match="is no entry of the matrix"):
        resolve("fast", cache, shipped=tmp_path / "gone.yaml")
    assert site.asked == []


def test_an_index_out_of_reach_is_infrastructure(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(ArtifactError, match="could not be asked"):
        resolve("fast-ep==0.4.0", cache)


@pytest.mark.parametrize("text", ["no plugin!", "./gone.so", "gone.dll", "a/b", "==1.0"])
def test_what_names_nothing_is_told(text: str, cache: Cache) -> None:
    with pytest.raises(PluginError) as caught:
        resolve(text, cache, entries(fast={"path": "x.so"}))
    assert f'--plugin "{text}"' in caught.value.message
    assert "fast" in caught.value.hint


def test_without_any_plugin_one_is_asked_for(cache: Cache) -> None:
    with pytest.raises(PluginError, match="No plugin was named"):
        resolve(None, cache)


def test_an_entry_wins_over_a_file_of_its_name(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fast").write_bytes(elf(filler=b"the file"))
    (tmp_path / "entry.so").write_bytes(PLUGIN)
    matrix = entries(fast={"path": "entry.so", "version": "0.7"})
    plugin = resolve("fast", cache, matrix, base=tmp_path)
    assert (plugin.sha256, plugin.version) == (sha256(PLUGIN), "0.7")
    assert resolve("./fast", cache, matrix, base=tmp_path).sha256 != sha256(PLUGIN)


def test_the_path_of_an_entry_starts_from_the_matrix_and_a_bare_one_from_here(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "matrix").mkdir()
    (tmp_path / "matrix" / "p.so").write_bytes(PLUGIN)
    (tmp_path / "here" / "p.so").write_bytes(elf(filler=b"here"))
    monkeypatch.chdir(tmp_path / "here")
    matrix = entries(fast={"path": "p.so"})
    entry = resolve("fast", cache, matrix, base=tmp_path / "matrix")
    assert entry.library == (tmp_path / "matrix" / "p.so").resolve()
    bare = resolve("p.so", cache, matrix, base=tmp_path / "matrix")
    assert bare.library == (tmp_path / "here" / "p.so").resolve()


@pytest.mark.parametrize(
    ("file", "content", "target", "name"),
    [
        ("libonnxruntime_providers_fast.so", PLUGIN, LINUX, "onnxruntime_providers_fast"),
        ("libfast.so.1.2", PLUGIN, LINUX, "fast"),
        ("fast_ep.dll", pe(), WINDOWS, "fast_ep"),
        ("libfast.dylib", macho(), MACOS, "fast"),
        ("lib", PLUGIN, LINUX, "lib"),
    ],
)
def test_a_bare_path_is_named_after_its_file(
    file: str, content: bytes, target: Target, name: str, cache: Cache, tmp_path: Path
) -> None:
    (tmp_path / file).write_bytes(content)
    plugin = resolve(str(tmp_path / file), cache, target=target)
    assert (plugin.name, plugin.registration_name, plugin.version) == (name, name, None)
    assert plugin.entry is None
    assert plugin.source == f"path {(tmp_path / file).resolve()}"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            b"#!/usr/bin/env python\n",
            'is not a shared library: it starts with "#!/usr/bin/env python"',
        ),
        (b"", "is not a shared library: it is empty"),
        (PLUGIN[:100], "is damaged"),
        (elf(machine="aarch64"), "it is built for aarch64, and this process runs on x86_64"),
        (pe(), r"it is a library for Windows \(PE\), and this is linux-x86_64"),
        (elf(program=True), "it is a program or an object file"),
        (elf(("add", "mul")), "does not export CreateEpFactories.*It exports: add, mul"),
        (elf(()), "does not export CreateEpFactories.*It exports nothing"),
        (elf(tuple(f"f{n}" for n in range(50))), "It exports 50 others, such as f0"),
        (elf(("CreateEpFactories",)), "does not export ReleaseEpFactory"),
    ],
)
def test_a_file_that_is_no_plugin_is_told(
    content: bytes, told: str, cache: Cache, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plugin.so"
    path.write_bytes(content)
    with pytest.raises(PluginError, match=told) as caught:
        resolve(str(path), cache)
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2
    assert capfd.readouterr() == ("", "")


def test_a_core_given_as_a_plugin_is_told(cache: Cache, tmp_path: Path) -> None:
    path = tmp_path / "libonnxruntime.so"
    path.write_bytes(elf(CORE_EXPORTS))
    with pytest.raises(PluginError) as caught:
        resolve(str(path), cache)
    assert "--core" in caught.value.hint


def test_a_folder_and_a_missing_entry_are_told(cache: Cache, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="is a folder"):
        resolve(str(tmp_path), cache)
    with pytest.raises(PluginError, match=r'The plugin "fast": There is no .*gone\.so'):
        resolve("fast", cache, entries(fast={"path": "gone.so"}), base=tmp_path)


def test_a_wheel_file_is_a_path(cache: Cache, tmp_path: Path) -> None:
    path = tmp_path / wheel_name("0.9.0")
    path.write_bytes(wheel("0.9.0"))
    plugin = resolve(str(path), cache)
    assert (plugin.name, plugin.version, plugin.sha256) == ("fast-ep", "0.9.0", sha256(PLUGIN))
    (tmp_path / "odd.whl").write_bytes(wheel("0.9.0"))
    with pytest.raises(PluginError, match="is not the name of a wheel"):
        resolve(str(tmp_path / "odd.whl"), cache)


def test_a_requirement_with_an_address(cache: Cache, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "d", {wheel_name("0.9.0"): wheel("0.9.0")})
    address = (folder / wheel_name("0.9.0")).as_uri()
    good = resolve(f"fast-ep @ {address}#sha256={sha256(wheel('0.9.0'))}", cache)
    assert good.version == "0.9.0"
    assert resolve(f"fast-ep @ {address}", cache).library == good.library
    with pytest.raises(ArtifactError, match="4" * 64):
        resolve(f"fast-ep @ {address}#sha256={'4' * 64}", cache)
    with pytest.raises(PluginError, match="does not name a wheel"):
        resolve("fast-ep @ http://x.invalid/fast_ep-1-py3-none-any.whl", cache)


def test_a_marker_that_does_not_hold_is_told(cache: Cache) -> None:
    with pytest.raises(PluginError, match="marker"):
        resolve('fast-ep==1.0; python_version < "3"', cache)


def test_a_wheel_without_a_plugin_names_its_libraries(site: Site, cache: Cache) -> None:
    files = {"a/libone.so": HELPER, "a/two.so": b"text", "a/three.txt": b"x"}
    site.publish("fast-ep", {wheel_name("1.0"): zipped(files)})
    with pytest.raises(
        PluginError, match=r"no library that exports CreateEpFactories.*a/libone\.so"
    ):
        resolve("fast-ep==1.0", cache)


def test_a_wheel_with_two_plugins_asks_for_a_path(site: Site, cache: Cache) -> None:
    site.publish(
        "fast-ep", {wheel_name("1.0"): wheel("1.0", **{"b/libother.so": elf(filler=b"b")})}
    )
    with pytest.raises(PluginError, match=rf"more than one.*b/libother\.so, {LIBRARY}") as caught:
        resolve("fast-ep==1.0", cache)
    assert str(cache.plugins) in caught.value.hint


def test_a_wheel_for_all_platforms_gives_the_fitting_library(site: Site, cache: Cache) -> None:
    arm = elf(machine="aarch64")
    files = {
        "x/linux-arm64/libep.so": arm,
        "x/linux-x64/libep.so": PLUGIN,
        "x/win-x64/ep.dll": pe(),
    }
    site.publish("fast-ep", {wheel_name("1.0", "py3-none-any"): zipped(files)})
    any_linux = Target("linux", "x86_64", ("any",))
    assert resolve("fast-ep==1.0", cache, target=any_linux).library.parent.name == "linux-x64"
    risc = Target("linux", "riscv64", ("any",))
    with pytest.raises(PluginError, match="built for aarch64, and this process runs on riscv64"):
        resolve("fast-ep==1.0", cache, target=risc)


@pytest.mark.parametrize(
    "name",
    [
        "../evil.so",
        "/evil.so",
        "a/../../evil.so",
        "C:/evil.so",
        pytest.param(
            "a\\evil.so",
            marks=pytest.mark.skipif(os.sep == "\\", reason="zipfile mends the name there"),
        ),
    ],
)
def test_a_wheel_that_leads_out_of_its_folder_is_refused(
    name: str, site: Site, cache: Cache
) -> None:
    site.publish("fast-ep", {wheel_name("1.0"): wheel("1.0", **{name: PLUGIN})})
    with pytest.raises(ArtifactError, match="would lie outside its folder"):
        resolve("fast-ep==1.0", cache)
    assert not list(cache.root.rglob("evil.so"))


def test_a_wheel_with_a_wrong_hash_is_refused(site: Site, cache: Cache) -> None:
    site.publish("fast-ep", {wheel_name("1.0"): wheel("1.0")}, hashes={wheel_name("1.0"): "5" * 64})
    with pytest.raises(ArtifactError, match=f"{sha256(wheel('1.0'))}.*{'5' * 64}"):
        resolve("fast-ep==1.0", cache)
    assert not list(cache.plugins.rglob("*.so"))


def test_an_index_without_hashes_is_accepted_and_told(site: Site, cache: Cache) -> None:
    site.publish("fast-ep", {wheel_name("1.0"): wheel("1.0")}, hashes={wheel_name("1.0"): None})
    first = resolve("fast-ep==1.0", cache)
    assert "publishes no sha256" in first.source
    assert resolve("fast-ep==1.0", cache) == first
    assert len(site.downloads()) == 1


@pytest.mark.parametrize("file", [LIBRARY, "fast_ep/libhelper.so"])
def test_a_cached_file_that_was_changed_is_refused_and_replaced(
    file: str, site: Site, cache: Cache
) -> None:
    publish(site, "0.4.0")
    first = resolve("fast-ep==0.4.0", cache)
    changed = first.library.parents[1] / file
    changed.write_bytes(changed.read_bytes() + b"!")
    with pytest.raises(ArtifactError, match="no longer matches its recorded sha256") as caught:
        resolve("fast-ep==0.4.0", cache)
    assert str(changed) in caught.value.message
    assert "ort-ep-matrix fetch" in caught.value.hint
    assert resolve("fast-ep==0.4.0", cache, refresh=True) == first
    assert resolve("fast-ep==0.4.0", cache) == first


def test_a_cached_file_that_is_gone_is_unpacked_again(site: Site, cache: Cache) -> None:
    publish(site, "0.4.0")
    first = resolve("fast-ep==0.4.0", cache)
    (first.library.parent / "libhelper.so").unlink()
    assert resolve("fast-ep==0.4.0", cache) == first
    assert (first.library.parent / "libhelper.so").is_file()
    (entry,) = (path for path in cache.plugins.iterdir() if path.is_dir())
    assert sorted(path.name for path in entry.iterdir()) == ["content", "record.json"]
