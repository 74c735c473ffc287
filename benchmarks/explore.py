"""The page of `unbend explore` at 100,000 and 1,000,000 samples, in headless Chromium.

``python -m benchmarks.explore [n ...]`` prints, for each n, the first paint, the time until the
page can be used, frames per second while the map is dragged, and the time of one act from the
click to "saved". The frames of an empty page, measured the same way, are the ceiling of the
machine. The map itself is computed once per run, before the page opens, and timed by itself.
Processor seconds of the page's main thread say what an idle machine would need, if others work on
this one.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from unbend.explore.serve import Served, serving
from unbend.runs import LabelRows, labels_file, npy_file

_K, _DIM = 30, 32
_SECONDS = 3.0
# Drag the map by one event per frame and count the frames.
_DRAG = """async (seconds) => {
  const canvas = document.getElementById("points"), box = canvas.getBoundingClientRect();
  const send = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, {
    pointerId: 1, button: 0, clientX: box.left + x, clientY: box.top + y, bubbles: true }));
  canvas.setPointerCapture = () => {};
  const frame = () => new Promise(requestAnimationFrame);
  send("pointerdown", 300, 300);
  const start = performance.now();
  let frames = 0;
  while (performance.now() - start < 1000 * seconds) {
    send("pointermove", 300 + 80 * Math.sin(frames / 9), 300 + 60 * Math.cos(frames / 7));
    await frame();
    frames += 1;
  }
  const spent = (performance.now() - start) / 1000;
  send("pointerup", 300, 300);
  return frames / spent;
}"""
_IDLE = """async (seconds) => {
  const start = performance.now(); let frames = 0;
  while (performance.now() - start < 1000 * seconds) { await new Promise(requestAnimationFrame); frames += 1; }
  return frames / ((performance.now() - start) / 1000);
}"""  # noqa: E501


def write_run(path: Path, n: int) -> None:
    """A run of n vectors in orthogonal planes, as `unbend cluster` would write it."""
    rng = np.random.default_rng(0)
    labels = rng.integers(_K, size=n)
    angle = rng.uniform(0, 2 * np.pi, n)
    Z = 0.08 * rng.standard_normal((n, _DIM), dtype=np.float32)
    Z[np.arange(n), labels % _DIM] += np.cos(angle)
    Z[np.arange(n), (labels + 1) % _DIM] += np.sin(angle)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    path.mkdir()
    names = [f"folder/sample_{i:07d}" for i in range(n)]
    with labels_file(path / "labels.parquet") as write:
        write(LabelRows(names, labels, rng.beta(9, 1, n), rng.random(n)))
    with npy_file(path / "features.npy", Z.shape) as put:
        put(Z)
    manifest = {"format": 2, "data": {"name": f"{n:,} vectors", "kind": "vectors"}}
    (path / "manifest.json").write_text(json.dumps(manifest))


def measure(served: Served, browser: Any) -> dict[str, float]:
    """Open the page and use it."""
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.set_default_timeout(300_000)
    wire = page.context.new_cdp_session(page)
    wire.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto("about:blank")
    ceiling = page.evaluate(_IDLE, _SECONDS)
    page.goto(served.address)
    page.wait_for_selector("html[data-ready]")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    ready = float(page.get_attribute("html", "data-ready"))
    loading = _processor_seconds(wire)
    page.wait_for_timeout(1500)
    before = _processor_seconds(wire)
    frames = page.evaluate(_DRAG, _SECONDS)
    dragging = _processor_seconds(wire) - before
    start = time.perf_counter()
    page.keyboard.press("Escape")
    page.check("[data-mark='1']")
    page.check("[data-mark='2']")
    page.click("#merge-go")
    page.wait_for_selector("html[data-revision='1']")
    act = time.perf_counter() - start
    page.close()
    return {
        "first paint (s)": paint / 1000,
        "usable (s)": ready / 1000,
        "processor until then (s)": loading,
        "frames/s while dragged": frames,
        "processor per frame (ms)": 1000 * dragging / (frames * _SECONDS),
        "frames/s of an empty page": ceiling,
        "merge by mouse (s)": act,
    }


def _processor_seconds(wire: Any) -> float:
    """What the page's main thread has used since its navigation."""
    found = {m["name"]: m["value"] for m in wire.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def main(sizes: list[int]) -> None:
    """Print a table."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {load:.1f}")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        os.environ["UNBEND_CACHE"] = f"{folder}/cache"
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for n in sizes:
            run = Path(folder) / f"run-{n}"
            write_run(run, n)
            start = time.perf_counter()
            with serving(run, port=0):
                first = time.perf_counter() - start
            start = time.perf_counter()
            with serving(run, port=0) as served:
                again = time.perf_counter() - start
                thread = threading.Thread(target=served.run)
                thread.start()
                found = measure(served, browser)
                served.stop()
                thread.join()
            found = {"server, first time (s)": first, "server, later (s)": again, **found}
            print(f"\nn = {n:,}")
            for name, value in found.items():
                print(f"  {name:28s} {value:8.2f}")
        browser.close()


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [100_000, 1_000_000])
