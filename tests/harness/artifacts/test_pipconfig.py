import os
import sys
from pathlib import Path

import pytest

from harness.artifacts.pipconfig import PipConfig, fingerprint, parse_pip_config, read_pip_config
from harness.errors import ArtifactError


def test_an_empty_configuration_is_the_default() -> None:
    assert parse_pip_config("") == PipConfig()


def test_every_option_is_read() -> None:
    text = r"""
global.cert='/ca.pem'
global.client-cert='/me.pem'
global.extra-index-url='\nhttps://b.example/simple\nhttps://c.example/simple'
global.find-links='/wheels https://d.example/page.html'
global.index-url='https://a.example/simple'
global.no-index='true'
global.proxy='http://proxy.example:3128'
global.timeout='60'
global.trusted-host='a.example b.example:8080'
"""
    assert parse_pip_config(text) == PipConfig(
        index_url="https://a.example/simple",
        extra_index_urls=("https://b.example/simple", "https://c.example/simple"),
        find_links=("/wheels", "https://d.example/page.html"),
        no_index=True,
        proxy="http://proxy.example:3128",
        cert="/ca.pem",
        client_cert="/me.pem",
        trusted_hosts=("a.example", "b.example:8080"),
        timeout_s=60.0,
    )


def test_a_command_wins_over_global_and_the_environment_over_both() -> None:
    text = """
:env:.index-url='https://env.example'
download.extra-index-url='https://download.example'
freeze.index-url='https://freeze.example'
global.extra-index-url='https://global.example'
global.find-links='/global'
global.index-url='https://global.example'
install.extra-index-url='https://install.example'
install.index-url='https://install.example'
"""
    config = parse_pip_config(text)
    assert config.index_url == "https://env.example"
    assert config.extra_index_urls == ("https://install.example",)
    assert config.find_links == ("/global",)


def test_an_empty_variable_is_no_value() -> None:
    text = "global.index-url='https://a.example'\n:env:.index-url=''"
    assert parse_pip_config(text).index_url == "https://a.example"


def test_the_other_spelling_of_the_timeout_counts() -> None:
    assert parse_pip_config(":env:.default-timeout='180'").timeout_s == 180.0
    assert parse_pip_config("global.timeout='soon'").timeout_s == 15.0


@pytest.mark.usefixtures("real_pip")
def test_the_real_pip_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nextra-index-url = https://one.example/s\n  https://two.example/s\n"
        "[install]\ntrusted-host = one.example\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_PROXY", "http://proxy.example:1")
    config = read_pip_config()
    assert config.extra_index_urls == ("https://one.example/s", "https://two.example/s")
    assert config.trusted_hosts == ("one.example",)
    assert config.proxy == "http://proxy.example:1"
    assert config.no_index


@pytest.mark.usefixtures("real_pip")
def test_a_broken_pip_configuration_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("this is no configuration\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    with pytest.raises(ArtifactError, match="pip config list"):
        read_pip_config()


def test_without_a_pip_its_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://a.example/it's")
    assert not Path(sys.executable).exists()
    assert read_pip_config().index_url == "https://a.example/it's"


def test_the_fingerprint_follows_variables_and_files(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://a.example\n")
    plain = fingerprint({})
    assert plain == fingerprint({"PATH": "/elsewhere", "PIP_TIMEOUT": "3"})
    other_index = fingerprint({"PIP_INDEX_URL": "https://b.example"})
    with_file = fingerprint({"PIP_CONFIG_FILE": str(file)})
    file.write_text("[global]\nindex-url = https://c.example\n")
    changed_file = fingerprint({"PIP_CONFIG_FILE": str(file)})
    assert len({plain, other_index, with_file, changed_file}) == 4
    assert os.environ["PIP_CONFIG_FILE"] == os.devnull
