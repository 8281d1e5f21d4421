"""The network, as the `kubernetes` package configures it: kubeconfig or service account, TLS, proxy, connection pool.

Import this module only where a cluster is to be reached: `kubernetes` imports itself whole, which takes 0.3 s.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from http.client import IncompleteRead
from pathlib import Path
from ssl import SSLCertVerificationError
from threading import Lock
from urllib.parse import urlencode

import urllib3
from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from urllib3 import exceptions

from poolwarden.cluster.interface import Doubt
from poolwarden.cluster.transport import Answer, Ended, NoAnswer, Request, Response, Stream

_PIECE = 1 << 20  # bytes read at most at once from one chunk of a stream: an object of a watch is seldom larger
_NEVER_SENT = (
    exceptions.NewConnectionError,
    exceptions.ConnectTimeoutError,
    exceptions.ProxyError,
    exceptions.LocationValueError,
)


class KubeTransport:
    """Talks to the cluster of a kubeconfig, or to the one whose pod this is.

    Without `kubeconfig`: the files of `$KUBECONFIG`, else `~/.kube/config` if it is there, else the pod's service
    account. Without `context`: the current one. Nothing is read before the first request, and everything is read anew
    after a 401 or a TLS failure, so rotated tokens, certificates and authorities are picked up. (The service account's
    token is re-read every minute besides: `InClusterConfigLoader._set_config` of the package.)
    """

    def __init__(self, *, kubeconfig: str = "", context: str = "") -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._lock = Lock()
        self._session: _Session | None = None

    def send(self, request: Request) -> Answer:
        """One exchange; a configuration that cannot be used is an answer that asking again will not change."""
        answer = self._begin(request, whole=True)
        return answer if isinstance(answer, NoAnswer) else _whole(answer)

    def stream(self, request: Request) -> Stream | Answer:
        """See `StreamingTransport`."""
        answer = self._begin(request, whole=False)
        if isinstance(answer, NoAnswer):
            return answer
        if answer.status == HTTPStatus.OK:
            return _Body(answer)
        try:
            return _whole(answer)
        except exceptions.HTTPError as error:
            return _no_answer(error)

    def _begin(self, request: Request, *, whole: bool) -> urllib3.BaseHTTPResponse | NoAnswer:
        """The answer; unless `whole`, its body is yet to be read."""
        try:
            session = self._opened()
            # Made per request: the package refreshes an ageing token here.
            headers = session.headers() | dict(request.headers)
        except Exception as error:  # noqa: BLE001 - the package raises whatever a malformed configuration makes of it
            return NoAnswer(f"no usable cluster configuration: {_line(error)}", sent=False, final=True)
        try:
            answer = session.exchange(request, headers, whole=whole)
        except exceptions.HTTPError as error:
            if isinstance(error, exceptions.SSLError):
                self._forget(session)
            return _no_answer(error)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._forget(session)
        return answer

    def _opened(self) -> "_Session":
        with self._lock:
            if self._session is None:
                self._session = _Session(_configuration(self._kubeconfig, self._context))
            return self._session

    def _forget(self, session: "_Session") -> None:
        with self._lock:
            if self._session is session:
                self._session = None


class _Session:
    """One reading of the configuration, with its connections."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        # Of the REST client only its pool: its own `request` re-encodes JSON bodies, and repeats requests.
        self._pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager

    def headers(self) -> dict[str, str]:
        headers = {"accept": "application/json", "user-agent": "poolwarden"}
        bearer = self._configuration.auth_settings().get("BearerToken")
        if bearer and bearer["value"]:
            headers[bearer["key"]] = bearer["value"]
        return headers

    def exchange(self, request: Request, headers: dict[str, str], *, whole: bool) -> urllib3.BaseHTTPResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        return self._pool.request(
            request.method,
            f"{self._configuration.host}{request.path}{query}",
            headers=headers,
            body=request.body or None,
            timeout=urllib3.Timeout(connect=request.connect_timeout, read=request.read_timeout),
            retries=False,  # urllib3 repeats a DELETE whose answer was lost unless told not to
            redirect=False,
            preload_content=whole,
        )


class _Body:
    """A `Stream`."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self._answer = answer
        self._pieces: Iterator[bytes] = iter(answer.stream(_PIECE))

    def read(self) -> bytes | Ended | NoAnswer:
        try:
            return next(self._pieces)
        except StopIteration:
            return Ended()
        except exceptions.HTTPError as error:
            return _no_answer(error)
        except (OSError, ValueError, AttributeError) as error:  # of a TLS socket that is cut while it is being read
            return NoAnswer(_line(error), sent=True)

    def close(self) -> None:
        self._answer.close()
        self._answer.release_conn()

    def cut(self) -> None:
        # It is no error that the answer has ended, or was closed, by itself.
        with suppress(OSError, ValueError, RuntimeError):
            self._answer.shutdown()


def _whole(answer: urllib3.BaseHTTPResponse) -> Response:
    return Response(answer.status, answer.data, {name.lower(): value for name, value in answer.headers.items()})


def _configuration(kubeconfig: str, context: str) -> Configuration:
    configuration = Configuration()
    environment = os.environ.get("KUBECONFIG", "")
    usual = Path("~/.kube/config").expanduser()
    if kubeconfig or environment or context or usual.exists():
        path = kubeconfig or environment or str(usual)
        config.load_kube_config(path, context or None, configuration)  # type: ignore[no-untyped-call] # it has no types
    else:
        config.load_incluster_config(configuration)  # type: ignore[no-untyped-call] # likewise
    return configuration


def _no_answer(error: exceptions.HTTPError) -> NoAnswer:
    unsent = isinstance(error, _NEVER_SENT) or _has(error, SSLCertVerificationError)
    doubt = Doubt.BROKEN if _has(error, IncompleteRead) else Doubt.UNAVAILABLE
    return NoAnswer(_line(error), sent=not unsent, doubt=doubt)


def _has(error: Exception, cause: type[Exception]) -> bool:
    """urllib3 carries the error it wraps as an argument."""
    return any(isinstance(argument, cause) for argument in error.args)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
