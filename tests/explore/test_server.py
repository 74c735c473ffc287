"""The server: what it answers, what it refuses, one writer, tabs that see each other."""

import json
import socket
import threading

import numpy as np
import pytest

from unbend.disk import Locked
from unbend.explore import read_curation
from unbend.explore.guard import HEADERS, LARGEST_BODY


def test_every_question(serve, run, digits):
    _, _, labels, Z = digits
    _, ask = serve(run)
    assert ask("run")["n"] == 600
    state = ask("state")
    assert {g["id"]: g["size"] for g in state["groups"]} == dict(
        enumerate(np.bincount(labels).tolist())
    )
    assert np.frombuffer(ask("labels"), "<i4").tolist() == labels.tolist()
    assert len(ask("points")) == 600 * 4
    assert len(ask("column?number=0")) == 600
    nearest = ask("nearest?row=7")
    power = np.square(Z @ Z[7])
    power[7] = -1
    assert nearest["rows"][0] == int(power.argmax())
    assert nearest["groups"][0]["id"] == labels[7]
    queue = ask("queue")
    assert len(queue) == 500
    tiles = ask("tiles", {"rows": [1, 2, 3], "side": 64})
    assert tiles[:4] == b"RIFF"
    assert ask("search?text=digit_599")["rows"] == [599]
    assert len(ask("tree")) == 9
    for order in ("typical", "confident", "unsure", "outliers", "name"):
        rows = np.frombuffer(ask(f"members?group=3&order={order}"), "<i4")
        assert sorted(rows.tolist()) == np.flatnonzero(labels == 3).tolist()


def test_typical_is_the_mean_of_squared_cosines(serve, run, digits):
    _, _, labels, Z = digits
    _, ask = serve(run)
    rows = np.frombuffer(ask("members?group=3&order=typical"), "<i4")
    members = np.flatnonzero(labels == 3)
    mean = np.square(Z[rows].astype(float) @ Z[members].T.astype(float)).mean(1)
    assert (np.diff(mean) <= 1e-5).all()


def test_a_split_finds_the_blocks(serve, tmp_path):
    from tests.explore.conftest import subspaces, write_run

    fine = np.repeat(np.arange(4), 50)
    run = write_run(tmp_path / "run", fine // 2, subspaces(fine, 4))
    _, ask = serve(run)
    found = ask("split", {"group": 1, "parts": 2})
    assert sorted(part["size"] for part in found["parts"]) == [50, 50]
    ask("act", {"act": "split", "key": found["key"]})
    labels = np.frombuffer(ask("labels"), "<i4")
    assert {tuple(np.unique(fine[labels == g])) for g in (1, 2)} == {(2,), (3,)}
    assert "no longer known" in ask("act", {"act": "split", "key": "x"}, 400)["problem"]
    assert "2 to 12 parts" in ask("split", {"group": 1, "parts": 60}, 400)["problem"]


def test_merge_costs_name_the_pair_that_is_one(serve, tmp_path):
    from tests.explore.conftest import subspaces, write_run

    fine = np.repeat(np.arange(4), 60)
    labels = fine.copy()
    labels[(fine == 3) & (np.arange(240) % 2 == 0)] = 4  # cluster 3 was cut in two at random
    run = write_run(tmp_path / "run", labels, subspaces(fine, 4))
    _, ask = serve(run)
    first = ask("tree")[0]
    assert {first["a"], first["b"]} == {3, 4}
    # for any two clusters, by the formula of the tree: its first merge is the cheapest pair
    costs = {g: ask(f"costs?group={g}") for g in range(5)}
    assert costs[3][0]["id"] == 4
    assert min(c["cost"] for entries in costs.values() for c in entries) == first["cost"]
    assert all(len(entries) == 4 for entries in costs.values())
    assert ask("costs?group=-1") == []


def test_the_groups_that_fit_best_are_those_of_the_largest_mean_square(serve, run, digits):
    _, _, labels, Z = digits
    found = serve(run)[1]("nearest?row=7")["groups"]
    power = np.square(Z.astype(float) @ Z[7].astype(float))
    means = np.array([power[labels == q].mean() for q in range(10)])
    assert [g["id"] for g in found] == np.argsort(-means)[:4].tolist()


def test_a_tree_that_does_not_fit_into_memory_says_so(serve, run, monkeypatch):
    monkeypatch.setattr("unbend.explore.looking._MOMENTS", 10)
    _, ask = serve(run)
    assert "a tree of 10 clusters" in ask("tree", status=400)["problem"]
    assert len(ask("nearest?row=7")["groups"]) == 4


def test_acts_are_saved_before_they_are_confirmed(serve, run, digits):
    _, _, labels, _ = digits
    _, ask = serve(run)
    ask("act", {"act": "merge", "groups": [1, 2], "into": 1})
    assert not (read_curation(run, labels).labels() == 2).any()
    ask("act", {"act": "rename", "group": 1, "name": "<b>ones & twos</b>"})
    assert read_curation(run, labels).name(1) == "<b>ones & twos</b>"
    ask("act", {"act": "undo"})
    ask("act", {"act": "undo"})
    assert read_curation(run, labels).labels().tolist() == labels.tolist()
    problem = ask("act", {"act": "rename", "group": 1, "name": "x", "revision": 1}, 400)
    assert "another tab" in problem["problem"]


def test_tabs_see_each_other(serve, run):
    _, ask = serve(run)
    heard = []
    tab = threading.Thread(target=lambda: heard.append(ask("changes?since=0")))
    tab.start()
    ask("act", {"act": "rename", "group": 0, "name": "cats"})
    tab.join()
    assert heard[0]["revision"] == 1


def test_one_server_writes_others_read(serve, run):
    _, ask = serve(run)
    with pytest.raises(Locked, match="--read-only"):
        serve(run)
    _, look = serve(run, read_only=True)
    assert look("run")["read_only"]
    assert "read-only" in look("act", {"act": "rename", "group": 0, "name": "x"}, 403)["problem"]
    assert "read-only" in look("keep", {}, 403)["problem"]
    ask("act", {"act": "rename", "group": 0, "name": "cats"})


def test_columns_and_texts(serve, run, tmp_path):
    table = tmp_path / "table.csv"
    lines = [f"{i % 3},{i / 7},{'dog bark' if i % 2 else 'cat purr'} {i}" for i in range(600)]
    table.write_text("kind,weight,body\n" + "\n".join(lines) + "\n")
    _, ask = serve(run, columns=table, text="body")
    columns = {c["name"]: c for c in ask("run")["columns"]}
    assert columns["kind"]["categories"] == ["0", "1", "2"]
    assert columns["weight"]["kind"] == "number"
    assert ask("search?text=cat+purr+598")["rows"] == [598]
    assert ask("samples", {"rows": [4]})[0]["text"] == "cat purr 4"
    short = tmp_path / "short.csv"
    short.write_text("kind\n1\n")
    with pytest.raises(ValueError, match="has 1 rows, the run 600"):
        serve(run, columns=short)
    with pytest.raises(ValueError, match="no column 'nothing'"):
        serve(run, columns=table, text="nothing")


# ---------------------------------------------------------------------- hostile requests


def hostile_requests(host, token):
    """Method, path, headers, body, and the answers that are right."""
    good = {"host": host, "authorization": f"Bearer {token}", "content-type": "application/json"}
    act = json.dumps({"act": "rename", "group": 0, "name": "x"})

    def but(**changes):
        kept = {k: v for k, v in good.items() if k not in changes or changes[k] is not None}
        return kept | {k.replace("_", "-"): v for k, v in changes.items() if v is not None}

    port = host.rpartition(":")[2]
    yield "GET", "/api/state", but(authorization=""), None, 401
    yield "GET", "/api/state", but(authorization="Bearer "), None, 401
    yield "GET", "/api/state", but(authorization=f"Bearer {token}x"), None, 401
    yield "GET", "/api/state", but(authorization=f"Basic {token}"), None, 401
    yield "GET", f"/api/state?token={token}", but(authorization=""), None, 401
    yield "GET", "/api/labels", but(authorization="Bearer \xff\xfe"), None, 401
    yield "POST", "/api/act", but(authorization=""), act, 401
    yield "POST", "/api/act", but(authorization="", cookie=f"token={token}"), act, 401
    yield "GET", "/", but(host=f"evil.example:{port}"), None, 421  # DNS rebinding
    yield "GET", "/api/state", but(host=f"evil.example:{port}"), None, 421
    yield "GET", "/api/state", but(host="127.0.0.1"), None, 421
    yield "GET", "/api/state", but(host=f"127.0.0.1.evil.example:{port}"), None, 421
    yield "GET", "/api/state", but(host=f"192.168.0.7:{port}"), None, 421
    yield "POST", "/api/act", but(origin="http://evil.example"), act, 403
    yield "POST", "/api/act", but(origin="null"), act, 403
    yield "POST", "/api/act", but(origin=f"https://{host}"), act, 403
    yield "POST", "/api/act", but(origin="http://127.0.0.1:1"), act, 403
    yield "POST", "/api/act", but(sec_fetch_site="cross-site"), act, 403
    yield "POST", "/api/act", but(sec_fetch_site="same-site"), act, 403
    yield "POST", "/api/act", but(content_type="text/plain"), act, 415  # a form of another site
    form = "application/x-www-form-urlencoded"
    yield "POST", "/api/act", but(content_type=form), "act=undo", 415
    yield "POST", "/api/act", but(content_type="multipart/form-data; boundary=x"), "--x--", 415
    yield "POST", "/api/act", but(content_length=str(LARGEST_BODY + 1)), None, 413
    yield "POST", "/api/act", good, "{" * 100_000, 400
    yield "POST", "/api/act", good, '{"act": "move", "rows": [NaN], "to": 0}', 400
    yield "POST", "/api/act", good, '{"act": "move", "rows": [1e999], "to": 0}', 400
    yield "POST", "/api/act", good, "[" * 5000 + "]" * 5000, 400
    yield "POST", "/api/samples", good, json.dumps({"rows": ["/etc/passwd"]}), 400
    yield "POST", "/api/tiles", good, json.dumps({"rows": [0], "side": 100_000}), 400
    yield "POST", "/api/tiles", good, json.dumps({"rows": list(range(513)), "side": 64}), 400
    yield "POST", "/api/samples", good, json.dumps({"rows": [10**30]}), 400
    yield "GET", "/../../etc/passwd", good, None, 404
    yield "GET", "/%2e%2e/%2e%2e/etc/passwd", good, None, 404
    yield "GET", "/..%5c..%5clabels.csv", good, None, 404
    yield "GET", "/labels.csv", good, None, 404
    yield "GET", "/curation.jsonl", good, None, 404
    yield "GET", "/explore.js/../app.py", good, None, 404
    yield "GET", "/api/members?group=../../etc", good, None, 400
    yield "GET", "/api/members?group=0&order=__import__", good, None, 400
    yield "GET", "/api/column?number=999", good, None, 400
    yield "GET", "/api/nearest?row=-1", good, None, 400
    yield "GET", "/api/search?text=" + "x" * 5000, good, None, 414
    yield "DELETE", "/api/act", good, None, 405
    yield "PUT", "/api/act", good, act, 405
    yield "TRACE", "/", good, None, 405
    yield "OPTIONS", "/api/act", but(origin="http://evil.example"), None, 403
    yield "GET", "/api/act", good, None, 405


def test_hostile_requests_are_refused(serve, run):
    served, ask = serve(run)
    tried = 0
    for method, path, headers, body, expected in hostile_requests(ask.host, ask.token):
        code, found, data = ask.raw(method, path, body, headers)
        assert code == expected, (method, path, headers, data)
        assert b"Traceback" not in data
        assert b"root:" not in data
        if code != 400 or found.get("content-security-policy"):
            assert found["content-security-policy"] == HEADERS["content-security-policy"]
        assert "access-control-allow-origin" not in found
        tried += 1
    assert tried >= 30
    assert served.session.revision == 0
    assert not (run / "curation.jsonl").exists()


def test_a_body_without_a_length_is_limited(serve, run):
    _, ask = serve(run)
    name, port = ask.host.split(":")
    with socket.create_connection((name, int(port))) as wire:
        head = (
            f"POST /api/act HTTP/1.1\r\nHost: {ask.host}\r\nAuthorization: Bearer {ask.token}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        wire.sendall(head.encode())
        chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
        try:
            for _ in range(40):
                wire.sendall(chunk)
            answer = wire.recv(200)
        except (ConnectionResetError, BrokenPipeError):
            answer = b"HTTP/1.1 413 closed"
    assert answer.startswith(b"HTTP/1.1 413")


def test_the_server_listens_on_this_machine_only(serve, run):
    served, _ = serve(run)
    host = served.address.split("//")[1].split(":")[0]
    assert host == "127.0.0.1"
    hello = [i[4][0] for i in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    outside = [a for a in hello if not a.startswith("127.")]
    port = int(served.address.split(":")[2].split("/")[0])
    for address in outside:
        with pytest.raises((ConnectionError, TimeoutError)):
            socket.create_connection((address, port), timeout=2)


def test_a_taken_port_is_named(serve, run):
    from unbend.explore.serve import serving

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port}"), serving(run, port=port):
            pass
