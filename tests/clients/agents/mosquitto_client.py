"""mosquitto_pub and mosquitto_sub: command line clients, one process for each action."""

import asyncio
import subprocess
import threading

from tests.clients.agents.base import CALM, Agent, Link, RefusedError, numbered, serve

LINE = r"message %q %r %x %t"


REFUSED = "Connection error: "
CODES = {
    "Connection Refused: bad user name or password": 0x86,
    "Connection Refused: not authorised": 0x87,
    "Bad User Name or Password": 0x86,
    "Not authorized": 0x87,
}
"""What the commands print of a return code, or a reason code; before release 2.1 with a full stop."""


def _refused(said: str) -> RefusedError:
    first = said.splitlines()[0].removeprefix(REFUSED)
    return RefusedError(next((code for words, code in CODES.items() if words in first), -1), first)


class Mosquitto(Agent):
    """An agent for the commands; mosquitto_sub has the lasting connection."""

    _subscriber: subprocess.Popen[str] | None = None

    async def connect(self, link: Link) -> None:
        """Only remember how: each command connects by itself."""
        self._link = link
        self._refused = ""
        self.begin()
        if link.filter:
            await self.subscribe(link.filter, 1)

    async def subscribe(self, filter: str, qos: int) -> None:  # noqa: A002  # the field of the order
        """Start mosquitto_sub in place of the one before, and wait until it reports that it is subscribed."""
        self.disconnect()
        self.leaving = False
        link = self._link
        command = ["mosquitto_sub", *self._options(qos), "-i", link.client_id, "-t", filter, "-F", LINE]
        if not link.clean:
            command += ["-c", *(["-x", str(link.expiry)] if link.version == 5 else [])]
        ready = self._started([*command, *self._will()])
        assert await asyncio.to_thread(ready.wait, CALM), "mosquitto_sub does not get subscribed"
        if self._refused:
            self.disconnect()
            raise _refused(self._refused)

    def publish(self, topic: str, payload: str, qos: int, retain: bool) -> None:
        """Publish with a mosquitto_pub."""
        client_id = f"{self._link.client_id}-publisher"
        command = ["mosquitto_pub", *self._options(qos), *self._will(), "-i", client_id, "-t", topic]
        command.append("-s" if payload else "-n")
        self._run([*command, "-r"] if retain else command, bytes.fromhex(payload))

    def burst(self, topic: str, count: int, size: int, qos: int) -> None:
        """Hand all lines to one `mosquitto_pub -l`, which disconnects by itself."""
        command = ["mosquitto_pub", *self._options(qos), *self._will(), "-t", topic, "-l"]
        self._run(command, b"\n".join(numbered(count, size)) + b"\n")
        self.disconnect()

    def disconnect(self) -> None:
        """End mosquitto_sub, which disconnects on SIGTERM (in MQTT 5 with its will)."""
        self.leaving = True
        if self._subscriber:
            self._subscriber.terminate()
            self._subscriber.wait(CALM)
            self._subscriber = None

    def _started(self, command: list[str]) -> threading.Event:
        """Start mosquitto_sub; returns an event that is set when it is subscribed, or refused."""
        # -d makes it report that; stdbuf, at once
        command = ["stdbuf", "-oL", *command, "-d"]
        self._subscriber = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ready = threading.Event()
        threading.Thread(target=self._read, args=(self._subscriber, ready), daemon=True).start()
        return ready

    @staticmethod
    def _run(command: list[str], given: bytes) -> None:
        done = subprocess.run(command, input=given, capture_output=True, check=False)
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode and said.startswith(REFUSED):
            raise _refused(said)
        assert (done.returncode, said) == (0, ""), f"{command[0]} ended with {done.returncode}: {said}"

    def _read(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("message "):
                qos, retain, data, topic = line.rstrip("\n").split(" ", 4)[1:]
                self.received(topic, bytes.fromhex(data), int(qos), retain == "1")
            elif line.startswith("Subscribed "):
                ready.set()
            elif line.startswith(REFUSED) or (not ready.is_set() and line.startswith("Error: ")):
                self._refused = line.strip()
                ready.set()
            elif not line.startswith(("Client ", "Subscribing")):
                self.gone(line.strip())
        if process is self._subscriber:
            self.gone("mosquitto_sub has ended")
            if not ready.is_set():
                self._refused = "mosquitto_sub has ended"
                ready.set()

    def _options(self, qos: int) -> list[str]:
        link = self._link
        options = ["-h", link.host, "-p", str(link.port), "-q", str(qos)]
        options += ["-V", "mqttv5" if link.version == 5 else "mqttv311"]
        if link.cafile:
            options += ["--cafile", link.cafile]
        if link.certfile:
            options += ["--cert", link.certfile, "--key", link.keyfile]
        if link.username:
            options += ["-u", link.username, *(["-P", link.password] if link.password else [])]
        return options

    def _will(self) -> list[str]:
        link = self._link
        if not link.will_topic:
            return []
        options = ["--will-topic", link.will_topic, "--will-payload", link.will.decode()]
        return [*options, "--will-qos", str(link.will_qos), *(["--will-retain"] if link.will_retain else [])]


if __name__ == "__main__":
    serve(Mosquitto)
