"""Encoders compared with their bare networks, and where the time goes.

Run as ``python -m benchmarks.encode [--quick] [--ways] [--threads N] [--json PATH]``. The bare
network gets random tensors of the right shape and layout, by the fastest engine there is for it
(torch or onnxruntime); the encoder gets bytes; all take turns in this process. On one thread, the
default, time is that of the processor, so that other work on the machine does not count. With
``--ways`` also the ways to run one network on this machine. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import copy
import io
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.harness import Target, time_in_turns, write_json
from unbend.networks import Encoder, load_encoder
from unbend.networks.encoders.onnx import OnnxNetwork, onnx_installed
from unbend.networks.resnet import ResNet18

SIDES = (32, 256)  # pixels of the pictures: enlarged for every encoder, and shrunk
BATCH = 16
MAIN = "lite2"  # the target holds here


def encoders(quick: bool) -> Iterator[Encoder]:
    """Those that this machine can load; speed does not depend on whether weights are trained."""
    yield load_encoder("lite0", device="cpu")
    yield load_encoder("lite2", device="cpu")
    if quick:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet18.pth"
        torch.save(ResNet18(3, 64).state_dict(), path)
        yield load_encoder(path, device="cpu")
        if find_spec("transformers") is not None:
            yield load_encoder(_small_vit(Path(folder) / "vit"), device="cpu")


def _small_vit(folder: Path) -> Path:
    """DINOv2-small with random weights."""
    from transformers import Dinov2Config, Dinov2Model

    config = Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14)
    Dinov2Model(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        '{"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}'
    )
    return folder


def pictures(side: int, n: int = BATCH) -> NDArray[np.uint8]:
    """Smooth pictures with noise, as photographs are for a resizer and a decoder."""
    rng = np.random.default_rng(0)
    coarse = torch.from_numpy(rng.uniform(0, 255, (n, 3, 8, 8)).astype(np.float32))
    smooth = nn.functional.interpolate(coarse, (side, side), mode="bicubic").numpy()
    return np.clip(smooth + rng.normal(0, 4, smooth.shape), 0, 255).astype(np.uint8)


def measure_encoder(encoder: Encoder, rounds: int) -> dict[str, Any]:
    """Seconds per batch of the bare network, of the encoder, and of each part of the way."""
    size = encoder.preprocess.size
    assert size is not None
    x = torch.randn(BATCH, 3, *size).contiguous(memory_format=torch.channels_last)
    runs: dict[str, Callable[[], object]] = {"bare torch": partial(_infer, encoder.module, x)}
    if encoder.engine == "onnx":
        runs["bare onnx"] = partial(encoder.network, x.contiguous())
    for side in SIDES:
        images = pictures(side)
        files = [_jpeg(image) for image in images]
        runs[f"encode {side}"] = partial(encoder.encode, images, BATCH)
        runs[f"preprocess {side}"] = partial(_infer, encoder.preprocess, torch.from_numpy(images))
        runs[f"decode {side}"] = partial(_decode, files)
    seconds = time_in_turns(runs, rounds, clock=_clock())
    seconds["bare"] = min(s for name, s in seconds.items() if name.startswith("bare "))
    return {
        "encoder": encoder.name if len(encoder.name) < 20 else Path(encoder.name).stem,
        "resolution": encoder.resolution,
        "engine": encoder.engine,
        "seconds": seconds,
        "images_per_second": {name: BATCH / s for name, s in seconds.items()},
        "of_bare": {side: seconds["bare"] / seconds[f"encode {side}"] for side in SIDES},
    }


def measure_ways(name: str, rounds: int) -> dict[str, float]:
    """Images per second of one network, run in every way that this machine has."""
    encoder = load_encoder(name, device="cpu")
    folded: Any = encoder.module
    side = encoder.resolution
    x = torch.randn(BATCH, 3, side, side)  # type: ignore[arg-type]
    last = x.contiguous(memory_format=torch.channels_last)
    plain = copy.deepcopy(folded).to(memory_format=torch.contiguous_format)
    runs: dict[str, Callable[[], object]] = {
        "folded": partial(_infer, plain, x),
        "folded, channels last": partial(_infer, folded, last),
        "folded, channels last, bf16": partial(_infer_bf16, folded, last),
    }
    compiled = _compiled(folded, last)
    if compiled is not None:
        runs["folded, channels last, torch.compile"] = partial(_infer, compiled, last)
    if onnx_installed():
        runs["folded, onnxruntime"] = partial(OnnxNetwork(plain, (side, side)), x)  # type: ignore[arg-type]
    else:
        print("onnxruntime is left out: onnx or onnxruntime is not installed", file=sys.stderr)
    seconds = time_in_turns(runs, rounds, clock=_clock())
    return {way: BATCH / s for way, s in seconds.items()}


def _infer(module: Callable[[Tensor], Any], x: Tensor) -> Any:
    with torch.inference_mode():
        return module(x)


def _infer_bf16(module: Callable[[Tensor], Any], x: Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return _infer(module, x)


def _compiled(module: nn.Module, x: Tensor) -> Any:
    """Return None if there is no compiler."""
    try:
        compiled = torch.compile(module)
        _infer(compiled, x)
    except Exception as error:  # whatever a missing or an old compiler raises
        print(f"torch.compile is left out: {type(error).__name__}", file=sys.stderr)
        return None
    return compiled


def _clock() -> Callable[[], float]:
    """Processor time adds up over threads, so use wall time with more than one thread."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def _jpeg(image: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image.transpose(1, 2, 0)).save(file, "JPEG", quality=90)
    return file.getvalue()


def _decode(files: list[bytes]) -> list[NDArray[np.uint8]]:
    return [np.asarray(Image.open(io.BytesIO(file)).convert("RGB")) for file in files]


def targets(result: dict[str, Any]) -> list[Target]:
    """Compare with the bound set beforehand."""
    main = next(row for row in result["encoders"] if row["encoder"] == MAIN)
    return [
        Target(
            f"{MAIN}, {side} pixels: speed of encoding / bare", main["of_bare"][side], 0.85, True
        )
        for side in SIDES
    ]


def show(result: dict[str, Any], console: Console) -> None:
    """Print speeds, shares, then targets."""
    table = Table(
        title=f"images/s, threads: {result['threads']}, batches of {BATCH}; "
        "shares of the time of a JPEG file"
    )
    headings = (
        "encoder",
        "engine",
        "pixels",
        "bare",
        "encode",
        "/ bare",
        "decoding",
        "preparing",
        "network",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("encoder", "engine") else "right")
    for row in result["encoders"]:
        for side in SIDES:
            seconds, speed = row["seconds"], row["images_per_second"]
            parts = [seconds[f"decode {side}"], seconds[f"preprocess {side}"], seconds["bare"]]
            cells = [f"{row['encoder']}@{row['resolution']}", row["engine"], str(side)]
            cells += [
                f"{speed['bare']:.1f}",
                f"{speed[f'encode {side}']:.1f}",
                f"{row['of_bare'][side]:.0%}",
            ]
            table.add_row(*cells, *(f"{part / sum(parts):.1%}" for part in parts))
    console.print(table)
    for way, speed in result.get("ways", {}).items():
        console.print(f"{MAIN}, {way}: {speed:.1f} images/s")
    words = {True: "pass", False: "FAIL", None: "not measured"}
    for target in result["targets"]:
        verdict = words[target["passed"]]
        console.print(f"{target['name']}: {target['measured']:.3f} >= {target['bound']} {verdict}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="EfficientNet-Lite only, few rounds")
    parser.add_argument("--ways", action="store_true", help="compare the ways to run one network")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--json", metavar="PATH", help="write figures, machine and commit here")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    console = Console(width=110)
    rounds = 3 if options.quick else 9
    result: dict[str, Any] = {"threads": options.threads, "encoders": []}
    for encoder in encoders(options.quick):
        console.print(f"{encoder.name} ...")
        result["encoders"].append(measure_encoder(encoder, rounds))
    if options.ways:
        console.print(f"ways to run {MAIN} ...")
        result["ways"] = measure_ways(MAIN, rounds)
    result["targets"] = [target.as_dict() for target in targets(result)]
    show(result, console)
    if options.json:
        write_json(options.json, result)
    return 1 if any(target["passed"] is False for target in result["targets"]) else 0


if __name__ == "__main__":
    sys.exit(main())
