"""A program for tests: our server, or the same app under gunicorn's gthread, around an answerer that does as told."""

import sys
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from a2wsgi import ASGIMiddleware
from gunicorn.app.base import BaseApplication

from controlplane.server import wait_for
from poolwarden.logs import configure
from poolwarden.webhook.answer import Answer, allowed, denied, errored, patched, with_warnings
from poolwarden.webhook.patch import Operation
from poolwarden.webhook.review import Request
from poolwarden.webhook.server.app import App
from poolwarden.webhook.server.config import Application, Limits, ServerConfig
from poolwarden.webhook.server.lifecycle import Lifecycle
from poolwarden.webhook.server.metrics import Metrics
from poolwarden.webhook.server.run import serve

GTHREADS = 4


class Arguments(msgspec.Struct):
    """What the test wants. Files in `folder` steer the program while it runs."""

    folder: str
    tls: int
    plain: int
    kind: str = "ours"
    limits: Limits = Limits()
    waits: bool = False
    fails: bool = False


class Wish(msgspec.Struct):
    """The object under review says how it wants to be judged; `secret` must not get out."""

    wish: str
    secret: str = ""


def answer(request: Request) -> Answer:
    """Judge as told."""
    obj = msgspec.json.decode(request.object, type=Wish)
    match obj.wish:
        case "patch":
            changes = [Operation("/wish", "patched")]
            return with_warnings(patched(changes, {"changed": "wish"}), ["it was changed"])
        case "deny":
            return denied("wish: must not be deny")
        case "later":
            return errored(HTTPStatus.SERVICE_UNAVAILABLE, "knowledge is too old", retry_after=3)
        case "raise":
            raise ValueError(f"cannot make sense of {obj.secret}")
        case "nonsense":
            return patched([Operation("/wish", {obj.secret: object()})], {})
    return allowed()


def application(told: Arguments, metrics: Metrics) -> Application:
    """Set up, as slowly as told."""
    folder = Path(told.folder)
    if told.fails:
        raise RuntimeError("no kubeconfig")
    if told.waits:
        wait_for("leave to go on", (folder / "go").exists)
    metrics.certificate_ends("ca", 4102444800)

    def lines(name: str) -> Sequence[str]:
        file = folder / name
        return file.read_text().splitlines() if file.exists() else ()

    def close() -> None:
        (folder / "closed").touch()

    answerers = {"/mutate-pods": answer, "/validate-pods": answer}
    return Application(
        answerers,
        readiness={"store": partial(lines, "faults")},
        notes={"knowledge": partial(lines, "doubts")},
        close=close,
    )


class Gthread(BaseApplication):
    """The same app, but each connection that waits for its first request holds one of a few threads."""

    def __init__(self, told: Arguments, app: Any) -> None:
        self.told = told
        self.app = app
        super().__init__()

    def load_config(self) -> None:
        """Threads, and TLS by gunicorn itself."""
        folder = Path(self.told.folder)
        settings = {
            "bind": f"127.0.0.1:{self.told.tls}",
            "worker_class": "gthread",
            "threads": GTHREADS,
            "certfile": str(folder / "tls.crt"),
            "keyfile": str(folder / "tls.key"),
            "control_socket_disable": True,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """As WSGI."""
        return ASGIMiddleware(self.app)


async def no_pages(*_: Any) -> None:
    """Nothing but reviews."""


def main() -> int:
    """Serve until stopped."""
    told = msgspec.json.decode(sys.argv[1], type=Arguments)
    configure(verbose=False)
    if told.kind == "gthread":
        metrics, lifecycle = Metrics(), Lifecycle(lambda: ())
        app = App(no_pages, lifecycle, metrics, told.limits)
        made = application(told, metrics)
        app.serve(made.answerers)
        lifecycle.serve(made)
        Gthread(told, app).run()
    folder = Path(told.folder)
    config = ServerConfig(
        bind=f"127.0.0.1:{told.tls}",
        metrics_bind=f"127.0.0.1:{told.plain}",
        tls_cert=folder / "tls.crt",
        tls_key=folder / "tls.key",
        limits=told.limits,
    )
    return serve(config, lambda metrics: application(told, metrics))


if __name__ == "__main__":
    sys.exit(main())
