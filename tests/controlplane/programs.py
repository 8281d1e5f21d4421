"""The programs of a control plane: their files, their flags, and the order in which they start and stop."""

from __future__ import annotations

import base64
import secrets
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from controlplane import kwok
from controlplane.build import KWOK_STAGES
from controlplane.client import ADMIN, NAMESPACES, Client
from controlplane.server import Server, free_ports


class Programs:
    """etcd and kube-apiserver, by choice with kube-controller-manager and kwok. All their files are in the folder."""

    def __init__(
        self, paths: Mapping[str, Path], folder: Path, tokens: Mapping[str, str], *, controllers: bool, kubelets: bool
    ) -> None:
        self._paths = paths
        self._folder = folder
        self._tokens = tokens
        self._etcd_port, self._peer_port, self._port = free_ports(3)
        self._data = folder / "etcd"
        self._certificates = folder / "certificates"  # the API server makes its own at its first start
        self._key = folder / "service-account.key"
        self._token_file = folder / "tokens.csv"
        self._kubeconfig = folder / "kubeconfig-controllers.yaml"
        self._stages = {paths["kwok"].parent / file: folder / Path(file).name for file in KWOK_STAGES.files}
        self.client = Client(f"https://127.0.0.1:{self._port}", self._certificates / "apiserver.crt", tokens)
        self._etcd = self._server("etcd", *self._etcd_flags())
        self._apiserver = self._server("kube-apiserver", *self._apiserver_flags())
        self._controllers = self._server("kube-controller-manager", *self._controller_flags()) if controllers else None
        self._kwok = self._server("kwok", *self._kwok_flags()) if kubelets else None
        self._stack = ExitStack()

    @property
    def pids(self) -> list[int]:
        """The process ids of all programs that run now."""
        servers = (self._etcd, self._apiserver, self._controllers, self._kwok)
        return [server.pid for server in servers if server and server.pid]

    def start(self) -> None:
        """Starts everything; should that fail, stops what was started."""
        with ExitStack() as stack:
            self._write_files()
            stack.callback(shutil.rmtree, self._data, ignore_errors=True)  # etcd reserves 128 MB; the logs stay
            stack.callback(self._etcd.stop)
            self._etcd.start()
            self._etcd.wait_until(lambda: self.client.answers(f"http://127.0.0.1:{self._etcd_port}/health"))
            stack.callback(self.stop_apiserver)
            self.start_apiserver()
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Stops everything that was started."""
        self._stack.close()

    def start_apiserver(self) -> None:
        """Starts the API server, then what works through it."""
        self._apiserver.start()
        self._apiserver.wait_until(lambda: self.client.answers(f"{self.client.url}/readyz"))
        if self._controllers:
            self._controllers.start()
            account = f"{NAMESPACES}/default/serviceaccounts/default"
            self._controllers.wait_until(lambda: self.client.find(account) is not None)
        if self._kwok:
            self._kwok.start()
            with kwok.probe(self.client) as reacted:
                self._kwok.wait_until(reacted)

    def stop_apiserver(self) -> None:
        """Stops the API server, and before it what works through it."""
        self.client.close()
        for server in (self._kwok, self._controllers, self._apiserver):
            if server:
                server.stop()

    def _write_files(self) -> None:
        """Writes all that the programs read."""
        self._folder.mkdir(parents=True, exist_ok=True)
        groups = {ADMIN: ",system:masters"}
        lines = [f"{token},{user},{user}{groups.get(user, '')}\n" for user, token in self._tokens.items()]
        self._token_file.write_text("".join(lines))
        self._key.write_text(_private_key())
        self.client.write_kubeconfig(self._kubeconfig, ADMIN)
        for stage, copy in self._stages.items() if self._kwok else ():
            copy.write_text(kwok.adapted(stage))

    def _server(self, program: str, *flags: str) -> Server:
        return Server([str(self._paths[program]), *flags], self._folder / f"{program}.log")

    def _etcd_flags(self) -> list[str]:
        clients = f"http://127.0.0.1:{self._etcd_port}"
        peers = f"http://127.0.0.1:{self._peer_port}"
        return [
            f"--data-dir={self._data}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
        ]

    def _apiserver_flags(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--cert-dir={self._certificates}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._key}",
            f"--service-account-signing-key-file={self._key}",
            f"--token-auth-file={self._token_file}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        ]

    def _controller_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self._kubeconfig}",
            f"--service-account-private-key-file={self._key}",
            "--use-service-account-credentials=false",
            "--leader-elect=false",
            "--controllers=*,-node-lifecycle-controller",
            "--secure-port=0",
        ]

    def _kwok_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self._kubeconfig}",
            f"--manage-nodes-with-label-selector={kwok.LABEL}={kwok.RUNNING}",
            "--cidr=10.244.0.0/16",
            *(f"--config={copy}" for copy in self._stages.values()),
        ]


def _private_key() -> str:
    """Makes a private key on the curve P-256: any 32 random bytes (in practice), in the DER of RFC 5915."""
    der = bytes.fromhex("30310201010420") + secrets.token_bytes(32) + bytes.fromhex("a00a06082a8648ce3d030107")
    return f"-----BEGIN EC PRIVATE KEY-----\n{base64.b64encode(der).decode()}\n-----END EC PRIVATE KEY-----\n"
