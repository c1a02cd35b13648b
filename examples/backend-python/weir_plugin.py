"""A plugin of Weir in Python: the handshake, and the gRPC service for workers.

What the engine expects of a process is docs/authors/languages.md, the service is plugin.proto.
"""

import concurrent.futures
import json
import logging
import os
import signal
import stat
import sys
import tempfile
import threading

import grpc
from google.protobuf import json_format

import plugin_pb2 as pb
import weir_worker

COOKIE = ("WEIR_PLUGIN", "all-reduce-backend")
PROTOCOL_VERSION = 1
LIFELINE = 3  # a pipe of which the engine holds the other end
ALL_BYTES = [{"min": 1, "max": 2**63 - 1}]

log = logging.getLogger("weir")


class Backend:
    """One way to all-reduce, done by this process. Override what differs; methods may be called by several threads."""

    name = ""  # unique; lower-case letters, digits and '-'
    description = ""  # one line for people
    priority = 0  # backends that the configuration does not order are asked from high to low
    requirements = {"memories": ["host"], "scope": "one_host"}  # as plugin.proto's Requirements, checked by the engine
    slot_bytes = 256 << 10  # largest part of a message that is handed over at once; a multiple of 64
    slots = 2  # with several a rank fills one while this process works on another

    def accept(self, group, request_class, hypothetical):
        """A dict as plugin.proto's Verdict, for a group and class that meet the requirements. Ask, change nothing."""
        return {"kind": "accept", "ranges": ALL_BYTES}

    def reduce(self, tile):
        """Combines tile.inputs into tile.out (weir_worker.Tile). An exception ends the service of the group."""
        raise NotImplementedError


class _Service:
    """The calls of plugin.proto."""

    def __init__(self, name, version, backends):
        self.name, self.version = name, version
        self.backends = {b.name: b for b in backends}

    def handlers(self):
        def unary(method, request):
            return grpc.unary_unary_rpc_method_handler(
                method, request_deserializer=request.FromString, response_serializer=lambda m: m.SerializeToString()
            )

        return grpc.method_handlers_generic_handler(
            "weir.plugin.v1.PluginService",
            {
                "Describe": unary(self.describe, pb.DescribeRequest),
                "Accept": unary(self.accept, pb.AcceptRequest),
                "Plan": unary(self.plan, pb.PlanRequest),
                "Release": unary(self.release, pb.ReleaseRequest),
                "Attach": unary(self.attach, pb.AttachRequest),
                "Detach": unary(self.detach, pb.DetachRequest),
            },
        )

    def backend(self, name, context):
        if name not in self.backends:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"plugin {self.name} has no backend {name!r}")
        return self.backends[name]

    def describe(self, request, context):
        if request.settings.fields:
            unknown = ", ".join(sorted(request.settings.fields))
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"unknown settings {unknown}: the plugin has none")
        response = pb.DescribeResponse(name=self.name, version=self.version)
        for b in self.backends.values():
            advertised = {
                "name": b.name, "description": b.description, "kind": "worker", "priority": b.priority, "requirements": b.requirements
            }
            json_format.ParseDict(advertised, response.backends.add())
        return response

    def accept(self, request, context):
        b = self.backend(request.backend, context)
        verdict = b.accept(request.group, getattr(request, "class"), request.hypothetical)
        return pb.AcceptResponse(verdict=json_format.ParseDict(verdict, pb.Verdict()))

    def plan(self, request, context):
        b = self.backend(request.backend, context)
        return pb.PlanResponse(plan=pb.Plan(worker=pb.Worker(slot_bytes=b.slot_bytes, slots=b.slots)))

    def release(self, request, context):
        self.backend(request.backend, context)
        return pb.ReleaseResponse()

    def attach(self, request, context):
        b = self.backend(request.backend, context)
        try:
            group = weir_worker.Group(request.socket)
        except (OSError, ValueError) as e:
            context.abort(grpc.StatusCode.UNKNOWN, f"attach: {e}")
        threading.Thread(target=_serve_group, args=(b, request.group, group), daemon=True).start()
        return pb.AttachResponse()

    def detach(self, request, context):
        """Nothing to do: the service ends by itself when the engine lets the group's memory go."""
        self.backend(request.backend, context)
        return pb.DetachResponse()


def _serve_group(backend, name, group):
    try:
        group.serve(backend.reduce)
    except Exception:
        log.exception("the service of group %s has ended", name)


def serve(name, version, backends):
    """Serves the backends to the engine that started this process, until it stops it or is gone. It never returns.

    Started by hand with the cookie in its environment, the process waits for `weir run --attach`.
    """
    if os.environ.get(COOKIE[0]) != COOKIE[1]:
        sys.exit(
            f"{name} {version} is a plugin of Weir. The engine starts it: name its path in weir.yaml, with tls: false. To run it under "
            f"a debugger set {COOKIE[0]}={COOKIE[1]} and have `weir run --attach` find it."
        )
    versions = os.environ.get("PLUGIN_PROTOCOL_VERSIONS")
    by_hand = versions is None  # an engine says which it speaks
    _log_to_stderr(by_hand)
    if not by_hand and str(PROTOCOL_VERSION) not in versions.split(","):
        sys.exit(f"the engine speaks versions {versions} of the plugin protocol, this plugin {PROTOCOL_VERSION}")
    over = threading.Event()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=16))
    server.add_generic_rpc_handlers((_Service(name, version, backends).handlers(), *_host_handlers(over)))
    folder = os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or tempfile.mkdtemp(prefix="weir")  # one that nobody else may enter
    address = os.path.join(folder, f"plugin{os.getpid()}")
    server.add_insecure_port("unix:" + address)
    server.start()
    print(f"1|{PROTOCOL_VERSION}|unix|{address}|grpc", flush=True)
    if by_hand:
        print(f"{name} waits for `weir run --attach {name}={address}`", file=sys.stderr, flush=True)
        signal.signal(signal.SIGTERM, lambda *_: over.set())
    else:
        os.dup2(2, 1)  # what is printed from now on is no part of the handshake
        for s in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(s, signal.SIG_IGN)  # the engine decides when a plugin is done
        _watch_lifeline(over)
    try:
        over.wait()
    except KeyboardInterrupt:
        pass
    server.stop(0.2).wait()
    for remove, path in ((os.unlink, address), (os.rmdir, folder)):
        try:
            remove(path)
        except OSError:
            pass  # gRPC removes the socket itself
    os._exit(0)  # whatever threads still do


def _host_handlers(over):
    """What go-plugin's hosts ask of every plugin: its health, and to end. Both messages are short enough to write down."""

    def unary(method):
        return grpc.unary_unary_rpc_method_handler(method)  # bytes in, bytes out

    def shutdown(request, context):
        over.set()
        return b""  # plugin.Empty

    return (
        grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health", {"Check": unary(lambda request, context: b"\x08\x01")}  # status: SERVING
        ),
        grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": unary(shutdown)}),
    )


def _watch_lifeline(over):
    """Ends the plugin when the engine is gone, however it ended."""
    try:
        if not stat.S_ISFIFO(os.fstat(LIFELINE).st_mode):
            return
    except OSError:
        return
    os.set_inheritable(LIFELINE, False)

    def watch():
        while os.read(LIFELINE, 1):
            pass
        over.set()

    threading.Thread(target=watch, daemon=True).start()


class _JSONLines(logging.Formatter):
    """One JSON object a line, with the names that go-plugin's hosts know, so that the engine's log keeps the level."""

    def format(self, record):
        level = {"WARNING": "warn", "CRITICAL": "error"}.get(record.levelname, record.levelname.lower())
        return json.dumps({"@level": level, "@message": super().format(record), "@module": record.name})


def _log_to_stderr(by_hand):
    handler = logging.StreamHandler(sys.stderr)
    if not by_hand:
        handler.setFormatter(_JSONLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
