import json
import logging
from pathlib import Path

import pytest

from harness.artifacts.cache import Cache
from harness.artifacts.index import PackageNotFoundError, ask_index, listing, read_listing
from harness.artifacts.network import Network, open_client
from harness.artifacts.pipconfig import PipConfig
from harness.errors import ArtifactError
from tests.harness.artifacts.building import Site, sha256, write_folder

NAME = "thing-1.0-py3-none-any.whl"
OTHER = "thing-2.0-py3-none-any.whl"


def files(config: PipConfig) -> list[str]:
    answer = ask_index("thing", Network(config))
    return [wheel.file for wheels in answer.wheels.values() for wheel in wheels]


def simple(folder: Path, package: str, page: str) -> str:
    (folder / package).mkdir(parents=True)
    (folder / package / "index.html").write_text(page)
    return folder.as_uri()


def test_an_index_on_the_web_is_read(site: Site) -> None:
    site.publish("thing", {NAME: b"one", OTHER: b"two"}, hashes={OTHER: None}, yanked=(OTHER,))
    answer = ask_index("thing", Network(PipConfig(index_url=f"{site.url}/simple")))
    (first,), (second,) = answer.wheels["1.0"], answer.wheels["2.0"]
    assert (first.sha256, first.yanked) == (sha256(b"one"), False)
    assert (second.sha256, second.yanked) == (None, True)
    assert first.url == f"{site.url}/files/{NAME}"


def test_source_distributions_and_other_packages_are_left_out(site: Site) -> None:
    site.publish(
        "thing", {NAME: b"", "thing-1.0.tar.gz": b"", "thing_more-1.0-py3-none-any.whl": b""}
    )
    assert files(PipConfig(index_url=f"{site.url}/simple")) == [NAME]


def test_folders_and_local_indexes_and_missing_ones(tmp_path: Path) -> None:
    local = simple(tmp_path / "local", "thing", f'<a href="files/{OTHER}#sha256={"a" * 64}">x</a>')
    folder = write_folder(tmp_path / "wheels with space", {NAME: b"one"})
    config = PipConfig(
        index_url=(tmp_path / "gone").as_uri(),
        extra_index_urls=(local, (tmp_path / "no more").as_uri()),
        find_links=(str(folder), str(tmp_path / "missing"), "no/such/folder"),
    )
    assert files(config) == [NAME, OTHER]
    assert files(PipConfig(no_index=True, index_url=local, find_links=(folder.as_uri(),))) == [NAME]


def test_a_local_index_without_the_package_is_an_answer(tmp_path: Path) -> None:
    local = simple(tmp_path / "local", "another", "")
    folder = write_folder(tmp_path / "wheels", {NAME: b"one"})
    assert files(PipConfig(index_url=local, find_links=(str(folder),))) == [NAME]


def test_a_published_hash_wins_over_none(site: Site, tmp_path: Path) -> None:
    site.publish("thing", {NAME: b"one"}, hashes={NAME: None})
    local = simple(tmp_path / "local", "thing", f'<a href="{NAME}#sha256={"A" * 64}">x</a>')
    config = PipConfig(index_url=f"{site.url}/simple", extra_index_urls=(local,))
    ((wheel,),) = ask_index("thing", Network(config)).wheels.values()
    assert wheel.sha256 == "a" * 64


def test_an_index_without_the_package_is_told(site: Site) -> None:
    with pytest.raises(PackageNotFoundError, match='No wheel of "thing" was found'):
        ask_index("thing", Network(PipConfig(index_url=f"{site.url}/simple")))


def test_an_index_that_fails_once_is_asked_again(site: Site) -> None:
    site.publish("thing", {NAME: b"one"})
    site.statuses["/simple/thing/"] = [503]
    assert files(PipConfig(index_url=f"{site.url}/simple")) == [NAME]


@pytest.mark.parametrize("status", [401, 403, 500])
def test_one_index_that_does_not_answer_fails_the_whole(
    status: int, site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site.publish("thing", {NAME: b"one"})
    site.statuses["/simple/thing/"] = [status] * 3
    folder = write_folder(tmp_path / "wheels", {OTHER: b"two"})
    config = PipConfig(
        index_url=site.url.replace("//", "//user:secret@") + "/simple", find_links=(str(folder),)
    )
    with pytest.raises(ArtifactError, match=f"could not be asked.*{status}") as caught:
        ask_index("thing", Network(config))
    assert "secret" not in str(caught.value)
    assert "secret" not in caplog.text


def test_an_index_out_of_reach_is_told() -> None:
    with pytest.raises(ArtifactError, match="could not be asked"):
        ask_index("thing", Network(PipConfig(index_url="http://127.0.0.1:9/simple")))


def test_an_index_over_plain_http_needs_a_trusted_host() -> None:
    with pytest.raises(ArtifactError, match="not being trusted"):
        ask_index("thing", Network(PipConfig(index_url="http://index.invalid/simple")))


def test_credentials_are_sent_and_not_kept(
    site: Site, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.publish("thing", {NAME: b"one"})
    monkeypatch.setenv("PIP_INDEX_URL", site.url.replace("//", "//user:secret@") + "/simple")
    listing("thing", cache, Network())
    assert any("Authorization" in headers for headers in site.headers)
    (kept,) = cache.listings.iterdir()
    assert "secret" not in kept.read_text()


def test_an_answer_is_remembered_until_it_is_refreshed(site: Site, cache: Cache) -> None:
    site.publish("thing", {NAME: b"one"})
    first = listing("thing", cache, Network())
    asked = len(site.asked)
    site.publish("thing", {NAME: b"one", OTHER: b"two"})
    assert listing("Thing", cache, Network()) == first
    assert len(site.asked) == asked
    assert list(listing("thing", cache, Network(), refresh=True).wheels) == ["1.0", "2.0"]
    assert list(listing("thing", cache, Network()).wheels) == ["1.0", "2.0"]


def test_an_old_answer_serves_when_asking_anew_fails(
    site: Site, cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    site.publish("thing", {NAME: b"one"})
    first = listing("thing", cache, Network())
    site.statuses["/simple/thing/"] = [403]
    with caplog.at_level(logging.WARNING):
        assert listing("thing", cache, Network(), refresh=True) == first
    assert first.made in caplog.text


def test_another_index_is_another_answer(
    site: Site, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.publish("thing", {NAME: b"one"})
    listing("thing", cache, Network())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://other.invalid/simple")
    assert read_listing("thing", cache) is None


def test_a_damaged_answer_is_asked_for_again(site: Site, cache: Cache) -> None:
    site.publish("thing", {NAME: b"one"})
    first = listing("thing", cache, Network())
    (kept,) = cache.listings.iterdir()
    kept.write_text(json.dumps({"schema_version": 1}))
    assert listing("thing", cache, Network()).wheels == first.wheels


def test_a_certificate_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"certificates or proxy.*gone\.pem"):
        open_client(PipConfig(cert=str(tmp_path / "gone.pem")))


def test_a_proxy_is_used(site: Site) -> None:
    site.files["http://index.invalid/simple/thing/"] = f'<a href="{NAME}">x</a>'.encode()
    config = PipConfig(
        index_url="http://index.invalid/simple",
        proxy=site.url,
        trusted_hosts=("index.invalid",),
    )
    with pytest.raises(ArtifactError, match="Content-Type unsupported: application/zip"):
        ask_index("thing", Network(config))
    assert site.asked == ["http://index.invalid/simple/thing/"]
