"""kill -9 at any moment loses at most the act that was not confirmed yet."""

import json
import multiprocessing
import os
import signal
import threading
import time
from http.client import HTTPConnection, HTTPException

import numpy as np
import pytest

from unbend.explore import read_curation
from unbend.explore.serve import explore

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs fork and kill -9")


def _serve(run, pipe):
    explore(run, port=0, open_browser=False, started=lambda served: pipe.send(served.address))


def act_until_killed(run, rng, first):
    """Rename as fast as possible until the server dies; the numbers that it confirmed."""
    context = multiprocessing.get_context("fork")  # no second import of torch
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(run, there))
    server.start()
    base, token = here.recv().removeprefix("http://").split("/#token=")
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    confirmed, number = [], first
    timer = threading.Timer(rng.uniform(0.02, 0.25), os.kill, [server.pid, signal.SIGKILL])
    connection = HTTPConnection(base, timeout=30)
    try:
        while True:
            act = {"act": "rename", "group": number % 5, "name": f"name {number}"}
            connection.request("POST", "/api/act", json.dumps(act), headers)
            answer = connection.getresponse()
            assert json.loads(answer.read())["revision"] == number + 1
            confirmed.append(number)
            number += 1
            if len(confirmed) == 1:
                timer.start()
    except (OSError, HTTPException):  # killed
        pass
    timer.join()
    server.join()
    return confirmed


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_no_confirmed_act_is_lost(run, digits, kills, capsys):
    _, _, labels, _ = digits
    rng, expected, lost, start = np.random.default_rng(0), [], 0, time.perf_counter()
    extra = 0
    for _ in range(kills):
        confirmed = act_until_killed(run, rng, len(expected))
        expected += confirmed
        lines = (run / "curation.jsonl").read_bytes().splitlines() if expected else []
        whole = [json.loads(line) for line in lines[1 : len(expected) + 1]]
        found = [int(act["name"].removeprefix("name ")) for act in whole]
        lost += len(set(expected) - set(found))
        curation = read_curation(run, labels) if expected else None
        if curation is not None and curation.count > len(expected):
            extra += 1  # written, and killed before it was confirmed
            expected = list(range(curation.count))
        assert curation is None or curation.count == len(expected)
    with capsys.disabled():
        seconds = time.perf_counter() - start
        print(
            f"\n{kills} kills, {len(expected)} acts, {lost} confirmed acts lost, "
            f"{extra} written but not yet confirmed, {seconds:.0f} s"
        )
    assert lost == 0
    assert len(expected) >= kills
