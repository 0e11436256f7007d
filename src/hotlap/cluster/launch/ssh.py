"""Members by ssh: the system's OpenSSH with the user's own configuration, so that jump hosts, users, keys and certificates are honoured;
where there is none, asyncssh, by a program of ours that stands in ssh's place.

Host keys are always checked, and nobody is asked for anything: a host that is not known, or whose key has changed, is refused.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass

from hotlap.cluster import agent, hosts
from hotlap.cluster.launch.base import AgentProcess, AtOnce, last_line, old_python, popen
from hotlap.cluster.record import Member, State
from hotlap.core.errors import MachineError, Unavailable

OPTIONS = (
    "BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=20", "ServerAliveInterval=5", "ServerAliveCountMax=3",
    "ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "PermitLocalCommand=no", "RemoteCommand=none", "LogLevel=INFO",
)  # fmt: skip
# What OpenSSH says (readconf.c, sshconnect.c of 9.x), and what it means here. The first that is found decides.
SAID: tuple[tuple[str, State, str], ...] = (
    ("HOST IDENTIFICATION HAS CHANGED", "refused", "its host key has changed: compare it with the machine's, then ssh-keygen -R its name"),
    ("Host key verification failed", "refused", "its host key is not known: compare it with the machine's, and log in once by hand"),
    ("Permission denied", "refused", "it takes none of the keys: log in once by hand, or name a configuration by --ssh-config"),
    ("Could not resolve hostname", "never started", "its name cannot be resolved"),
    ("Connection refused", "never started", "nothing listens there: connection refused"),
    ("No route to host", "never started", "there is no route to it"),
    ("timed out", "never started", "it does not answer: the connection timed out"),
    ("Bad owner or permissions", "refused", "ssh does not take its own configuration: bad owner or permissions"),
)
CLIENTS = ("openssh", "asyncssh")
BRIDGED: dict[str, tuple[State, str]] = {  # what ssh_bridge's FAILURES mean here
    "changed key": SAID[0][1:], "unknown key": SAID[1][1:], "no key taken": SAID[2][1:], "no name": SAID[3][1:],
    "refused connection": SAID[4][1:], "no answer": SAID[6][1:],
}  # fmt: skip


@dataclass(frozen=True)
class SshLauncher(AtOnce):
    """`hosts` as `hosts.parse` takes them, `config` a file for ssh's -F or "", `client` one of CLIENTS."""

    hosts: str
    python: str = "python3"
    config: str = ""
    client: str = "openssh"
    name: str = "ssh"

    def members(self) -> list[Member]:
        """Raises Unavailable without the client."""
        self.argv("", "")
        return [Member(name=_name(host), index=index, address=host) for index, host in enumerate(hosts.parse(self.hosts))]

    def start(self, member: Member) -> AgentProcess:
        remote = f"exec {shlex.quote(self.python)} -I -S -c {shlex.quote(self.bootstrap(member))}"
        try:
            return popen(self.argv(member.address, remote))
        except OSError as error:
            raise MachineError(f"ssh cannot be run: {error.strerror}") from None

    def argv(self, address: str, remote: str) -> list[str]:
        """The client's command. Raises Unavailable without it."""
        if self.client == "asyncssh":
            if not importlib.util.find_spec("asyncssh"):
                remedy = "pip install 'asyncssh>=2.24', or leave --ssh out for OpenSSH"
                raise Unavailable("--ssh asyncssh needs the package asyncssh", remedy)
            return [sys.executable, "-P", "-m", "hotlap.cluster.launch.ssh_bridge", address, self.config, remote]
        if not shutil.which("ssh"):
            raise Unavailable("there is no ssh on this machine", "install OpenSSH's client, or give --ssh asyncssh")
        configured = ["-F", self.config] if self.config else []
        options = [word for option in OPTIONS for word in ("-o", option)]
        return ["ssh", *configured, *options, "-T", "--", address, remote]

    def bootstrap(self, member: Member) -> str:
        """What its Python begins with."""
        return agent.BOOTSTRAP

    def stop(self, member: Member, process: AgentProcess, mark: str) -> None:
        """The agent reads the end of its input, or its guard sees it die; what cannot be reached is swept when the campaign goes on."""
        with suppress(OSError):
            process.kill()
        process.wait()

    def ending(self, errors: str) -> str:
        told = bridged(errors)
        return told[1] if told else last_line(errors)

    def failure(self, code: int, errors: str) -> tuple[State, str]:
        if told := bridged(errors):
            return BRIDGED.get(told[0], ("never started", told[1]))
        for text, state, meaning in SAID:
            if text in errors:
                return state, meaning
        if old := old_python(code, errors):
            return "refused", old
        if code in (126, 127):
            return "refused", f"'{self.python}' cannot be run there: name another by --python ({last_line(errors)})"
        return "never started", last_line(errors) or f"ssh ended with {code} before the agent said hello"


def bridged(errors: str) -> tuple[str, str] | None:
    """Kind and detail of ssh_bridge's failure, from the end of its standard error; None where it says nothing."""
    try:
        told = json.loads(next((line for line in reversed(errors.splitlines()) if line.strip()), ""))
        return str(told["bridge"]), str(told["detail"])
    except (ValueError, KeyError, TypeError):
        return None


def _name(host: str) -> str:
    """A member's name, which is a folder's too: without the user."""
    return host.rpartition("@")[2].replace("%", "_").replace(":", "_")
