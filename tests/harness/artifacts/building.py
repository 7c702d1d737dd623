"""Wheels, indexes and a web server that behave as a test wants them to."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.artifacts.target import Target
from tests.harness.artifacts.native_files import CORE_EXPORTS, elf, macho, pe

__all__ = [
    "LINUX",
    "MACOS",
    "WINDOWS",
    "Site",
    "core_file",
    "core_wheel",
    "install",
    "serve",
    "sha256",
    "tgz",
    "write_folder",
    "zipped",
]

LINUX = Target(
    "linux",
    "x86_64",
    ("manylinux_2_36_x86_64", "manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "linux_x86_64"),
)
MACOS = Target(
    "macos", "aarch64", ("macosx_14_0_arm64", "macosx_13_0_arm64", "macosx_13_0_universal2")
)
WINDOWS = Target("windows", "x86_64", ("win_amd64",))
DIST_INFO = "fake-1.0.dist-info/METADATA"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def core_file(version: str, target: Target = LINUX) -> tuple[str, bytes]:
    """The name in a wheel, and the content, of a core that differs with its version."""
    mark = f"core {version} ".encode()
    if target.os == "linux":
        content = elf(CORE_EXPORTS, filler=mark)
        return f"onnxruntime/capi/libonnxruntime.so.{version}", content
    if target.os == "macos":
        return f"onnxruntime/capi/libonnxruntime.{version}.dylib", macho(CORE_EXPORTS) + mark
    return "onnxruntime/capi/onnxruntime.dll", pe(CORE_EXPORTS) + mark


def zipped(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as container:
        for name, content in files.items():
            # A fixed date gives the same bytes on every run.
            container.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content)
    return stream.getvalue()


def tgz(files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        for name, points_to in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, points_to
            tar.addfile(entry)
    return stream.getvalue()


def core_wheel(version: str, target: Target = LINUX) -> bytes:
    name, content = core_file(version, target)
    return zipped(
        {
            "onnxruntime/__init__.py": b"raise ImportError('nobody imports me')",
            name: content,
            "onnxruntime/capi/libonnxruntime_providers_shared.so": elf(("Provider_GetHost",)),
            DIST_INFO: version.encode(),
        }
    )


@dataclass
class Site:
    """What a web server answers, and what it was asked.

    Args:
        cut_short: paths whose content ends early; how many bytes are sent.
        late: paths that are answered only after so many seconds.
        slow: paths whose content comes a byte at a time after the first half.
        statuses: paths that are answered with a status alone.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cut_short: dict[str, int] = field(default_factory=dict)
    late: dict[str, float] = field(default_factory=dict)
    slow: set[str] = field(default_factory=set)
    statuses: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def publish(
        self,
        package: str,
        wheels: Mapping[str, bytes],
        *,
        hashes: Mapping[str, str | None] | None = None,
        yanked: tuple[str, ...] = (),
    ) -> None:
        """Put wheels on a simple index. A hash of None is not published."""
        lines = []
        for name, content in wheels.items():
            self.files[f"/files/{name}"] = content
            given = (hashes or {}).get(name, sha256(content))
            fragment = f"#sha256={given}" if given else ""
            mark = ' data-yanked="broken"' if name in yanked else ""
            lines.append(f'<a href="/files/{name}{fragment}"{mark}>{name}</a>')
        self.files[f"/simple/{package}/"] = "<br>".join(lines).encode()

    def downloads(self) -> list[str]:
        return [path for path in self.asked if path.startswith("/files/")]


@contextlib.contextmanager
def serve() -> Iterator[Site]:
    """A web server on the loopback interface."""
    site = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            site.headers.append(dict(self.headers))
            time.sleep(site.late.get(self.path, 0))
            statuses = site.statuses.get(self.path)
            status = statuses.pop(0) if statuses else 200
            content = site.files.get(self.path)
            if status != 200 or content is None:
                self.send_error(status if status != 200 else 404)
                return
            self.send_response(200)
            page = self.path.startswith("/simple/")
            self.send_header("Content-Type", "text/html" if page else "application/zip")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            # A client that was killed is no trouble of the server.
            with contextlib.suppress(OSError):
                self._send(content)

        def _send(self, content: bytes) -> None:
            if self.path in site.slow:
                self.wfile.write(content[: len(content) // 2])
                for byte in content[len(content) // 2 :]:
                    time.sleep(0.05)
                    self.wfile.write(bytes([byte]))
                return
            self.wfile.write(content[: site.cut_short.get(self.path, len(content))])

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        site.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


def write_folder(folder: Path, wheels: Mapping[str, bytes]) -> Path:
    """A folder of wheels for find-links."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in wheels.items():
        (folder / name).write_bytes(content)
    return folder


def install(site: Path, name: str, version: str, *files: str) -> None:
    """An installed distribution, as its metadata tells of it."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file in files:
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_bytes(b"library")
