"""Reaching the package index and fetching files from it, the way the user's pip would."""

from __future__ import annotations

import contextlib
import hashlib
import os
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.artifacts.pipconfig import PipConfig, read_pip_config
from harness.artifacts.progress import Progress, no_progress
from harness.errors import ArtifactError

if TYPE_CHECKING:
    import httpx2
    from unearth.fetchers import PyPIClient

__all__ = ["Network", "open_client"]

# A wheel is compressed already, and its hash is that of the file as it lies there.
_HEADERS = {"Accept-Encoding": "identity"}
_ATTEMPTS = 3
_RETRY_PAUSE_S = 0.5
_PASSING_TROUBLE = {408, 425, 429, 500, 502, 503, 504, 520, 527}


class Network:
    """Everything that leaves this machine. pip is asked, and a connection made, on first use.

    Args:
        config: where packages come from; pip is asked for it when left out.
    """

    def __init__(self, config: PipConfig | None = None) -> None:
        self._config = config
        self._client: PyPIClient | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    @property
    def config(self) -> PipConfig:
        """Where packages come from."""
        with self._lock:
            if self._config is None:
                self._config = read_pip_config()
            return self._config

    @property
    def client(self) -> PyPIClient:
        """One client for all threads."""
        config = self.config
        with self._lock:
            if self._client is None:
                self._client = open_client(config)
            return self._client

    def pause(self, attempt: int) -> bool:
        """Wait before trying again, longer each time; False when the run was ended meanwhile."""
        return not self._stopped.wait(_RETRY_PAUSE_S * attempt)

    def stop(self) -> None:
        """End the downloads that are under way; they raise ArtifactError."""
        self._stopped.set()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def download(self, url: str, path: Path, *, name: str, progress: Progress = no_progress) -> str:
        """Fetch a file, https:, http: or file:, over what the path already holds.

        Args:
            url: of the file.
            path: where its bytes go; a part of them may be there after an error.
            name: of the download, for the progress and for messages.
            progress: told of every attempt.

        Returns:
            The sha256 of what arrived.

        Raises:
            ArtifactError: it cannot be had, or arrived cut short, three times in a row.
        """
        import httpx2

        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._attempt(url, path, name, progress)
            except httpx2.HTTPStatusError as error:
                status = error.response.status_code
                passing, trouble = status in _PASSING_TROUBLE, f"the server answered {status}"
            except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
                passing, trouble = True, _describe(error)
            except OSError as error:
                raise ArtifactError(
                    f"{name} could not be stored: {error.strerror or error}.",
                    "Make room, or choose another folder with ORT_EP_MATRIX_CACHE.",
                ) from None
            if not passing or attempt == _ATTEMPTS or not self.pause(attempt):
                break
        raise ArtifactError(
            f"{name} could not be downloaded: {trouble}.",
            'Check the connection and pip\'s proxy, then try again; "ort-ep-matrix fetch" asks '
            "the package index anew.",
        )

    def _attempt(self, url: str, path: Path, name: str, progress: Progress) -> str:
        digest = hashlib.sha256()
        with (
            path.open("wb") as target,
            self.client.stream("GET", url, headers=_HEADERS, follow_redirects=True) as response,
        ):
            response.raise_for_status()
            if url.startswith("https:") and response.url.scheme != "https":
                raise ArtifactError(f"{name} was redirected from https to {response.url.scheme}.")
            size = response.headers.get("Content-Length", "")
            progress.started(name, int(size) if size.isdecimal() else None)
            try:
                for chunk in response.iter_bytes():
                    if self._stopped.is_set():
                        raise ArtifactError(f"{name} was not downloaded: the run was ended.")
                    target.write(chunk)
                    digest.update(chunk)
                    progress.advanced(name, len(chunk))
            finally:
                progress.finished(name)
        return digest.hexdigest()


def open_client(
    config: PipConfig, on_response: Callable[[httpx2.Response], None] | None = None
) -> PyPIClient:
    """A client that honours pip's proxy, certificates, trusted hosts, timeout and credentials.

    Args:
        config: where packages come from.
        on_response: told of every response, redirects and refusals included.

    Raises:
        ArtifactError: a certificate file that pip's configuration names cannot be used.
    """
    import httpx2
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    urls = [url for url in (config.index_url, *config.extra_index_urls) if url]
    with _certificate_errors(config):
        verify = _ssl_context(config)
        # A proxy holds for trusted hosts too, which the client would otherwise reach directly.
        mounts: dict[str, httpx2.BaseTransport] = {
            f"all://{host}": httpx2.HTTPTransport(verify=False, proxy=_proxy(config))
            for host in config.trusted_hosts
        }
        return PyPIClient(
            trusted_hosts=config.trusted_hosts,
            verify=verify,
            timeout=httpx2.Timeout(config.timeout_s),
            proxy=config.proxy,
            mounts=mounts,
            follow_redirects=True,
            event_hooks={"response": [on_response] if on_response else []},
            # Nobody may be there to answer a prompt.
            auth=MultiDomainBasicAuth(prompting=False, index_urls=urls),
        )


@contextlib.contextmanager
def _certificate_errors(config: PipConfig) -> Iterator[None]:
    try:
        yield
    except (OSError, ssl.SSLError, ValueError) as error:
        named = ", ".join(filter(None, (config.cert, config.client_cert, config.proxy)))
        raise ArtifactError(
            f"The certificates or proxy of pip's configuration ({named}) cannot be used: {error}.",
            'Look at "pip config list" and mend them there.',
        ) from None


def _ssl_context(config: PipConfig) -> ssl.SSLContext | bool:
    environ = os.environ
    cert = config.cert or environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE")
    if not cert and not config.client_cert:
        return True
    context = ssl.create_default_context()
    if cert:
        path = Path(cert).expanduser()
        context = (
            ssl.create_default_context(capath=path)
            if path.is_dir()
            else ssl.create_default_context(cafile=path)
        )
    if config.client_cert:
        context.load_cert_chain(Path(config.client_cert).expanduser())
    return context


def _proxy(config: PipConfig) -> str | None:
    found = urllib.request.getproxies()
    return config.proxy or found.get("https") or found.get("http") or found.get("all")


def _describe(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__
