"""The part of the hub's HTTP interface that its client uses here, in memory, on loopback."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

TOKEN = "hf_standin"


class Hub:
    """Repositories by name, each a dict of files; ``requests`` lists what was asked."""

    def __init__(self):
        self.repos, self.private, self.requests = {}, set(), []

    def commit(self, repo):
        files = self.repos[repo]
        return hashlib.sha1(json.dumps(sorted(files)).encode() + b"".join(files.values()))

    def info(self, repo):
        return {
            "id": repo,
            "modelId": repo,
            "sha": self.commit(repo).hexdigest(),
            "private": repo in self.private,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [{"rfilename": name} for name in self.repos[repo]],
        }


def handler(hub):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            path = unquote(urlsplit(self.path).path)
            hub.requests.append((self.command, path))
            if path.startswith("/api/models/"):
                return self._about(path.removeprefix("/api/models/"))
            repo, _, name = path[1:].partition("/resolve/")
            name = name.partition("/")[2]
            if name not in hub.repos.get(repo, {}):
                code = "EntryNotFound" if repo in hub.repos else "RepoNotFound"
                return self._send(404, {"error": code}, {"X-Error-Code": code})
            content = hub.repos[repo][name]
            headers = {
                "ETag": f'"{hashlib.sha1(content).hexdigest()}"',
                "X-Repo-Commit": hub.commit(repo).hexdigest(),
            }
            return self._send(200, content, headers)

        def do_POST(self):
            path = unquote(urlsplit(self.path).path)
            hub.requests.append((self.command, path))
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self._send(401, {"error": "Invalid token"}, {})
            if path == "/api/repos/create":
                wanted = json.loads(body)
                owner = wanted.get("organization") or "me"
                repo = f"{owner}/{wanted['name']}"
                if repo in hub.repos:
                    url = f"{self.server.address}/{repo}"
                    return self._send(409, {"error": "exists", "url": url}, {})
                hub.repos[repo] = {".gitattributes": b""}
                if wanted.get("private") or wanted.get("visibility") == "private":
                    hub.private.add(repo)
                return self._send(200, {"url": f"{self.server.address}/{repo}", "name": repo}, {})
            if path == "/api/validate-yaml":
                return self._send(200, {"errors": [], "warnings": []}, {})
            repo, action = self._split(path)
            if action == "preupload":
                files = [
                    {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for f in json.loads(body)["files"]
                ]
                return self._send(200, {"files": files}, {})
            if action == "commit":
                for line in body.decode().splitlines():
                    entry = json.loads(line)
                    if entry["key"] == "file":
                        content = base64.b64decode(entry["value"]["content"])
                        hub.repos[repo][entry["value"]["path"]] = content
                oid = hub.commit(repo).hexdigest()
                url = f"{self.server.address}/{repo}/commit/{oid}"
                return self._send(200, {"commitUrl": url, "commitOid": oid}, {})
            return self._send(404, {"error": f"no {path}"}, {})

        def _split(self, path):
            owner, name, action = path.removeprefix("/api/models/").split("/")[:3]
            return f"{owner}/{name}", action

        def _about(self, rest):
            parts = rest.split("/")
            repo = "/".join(parts[:2])
            if repo not in hub.repos:
                return self._send(404, {"error": "none"}, {"X-Error-Code": "RepoNotFound"})
            if "tree" in parts:
                tree = [
                    {
                        "type": "file",
                        "path": name,
                        "size": len(content),
                        "oid": hashlib.sha1(content).hexdigest(),
                    }
                    for name, content in hub.repos[repo].items()
                ]
                return self._send(200, tree, {})
            return self._send(200, hub.info(repo), {})

        def _send(self, code, content, headers):
            kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(code)
            headers = {"Content-Type": kind, "Content-Length": str(len(data)), **headers}
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    return Handler


@contextmanager
def serve():
    """A hub and its address."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(hub))
    server.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub, server.address
    finally:
        server.shutdown()
        server.server_close()
