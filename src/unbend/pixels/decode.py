"""Decode an image file to a square of pixels.

This file imports nothing of unbend: worker processes run it as a script, so that they start in a
fraction of a second, never load torch, and never run the user's own script again.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import signal
import stat
import struct
import sys
import warnings
from typing import IO, Any, NamedTuple

from PIL import Image, UnidentifiedImageError, features

__all__ = [
    "DECODING",
    "DEFAULT_SIZE",
    "EXTENSIONS",
    "Decoded",
    "crop_square",
    "decode",
    "content_hash",
    "is_regular",
    "open_image",
    "read_image",
]

# Increase when the same file would give different pixels, so that older caches are ignored.
DECODING = 1
DEFAULT_SIZE = 64
# Listed explicitly, so that a file can never start one of Pillow's rarer readers (PostScript etc.).
FORMATS: tuple[str, ...] = ("JPEG", "PNG", "WEBP", "BMP", "DIB", "TIFF", "GIF", "PPM")
EXTENSIONS: tuple[str, ...] = (
    ".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".pgm", ".ppm", ".pbm",
)  # fmt: skip
if "avif" in features.modules and features.check("avif"):  # part of newer versions of Pillow
    FORMATS, EXTENSIONS = (*FORMATS, "AVIF"), (*EXTENSIONS, ".avif")
if importlib.util.find_spec("pillow_heif") is not None:
    FORMATS, EXTENSIONS = (*FORMATS, "HEIF"), (*EXTENSIONS, ".heic", ".heif")
MAX_PIXELS = 178_956_970  # Pillow's own limit against decompression bombs
HASH = 16

_ROTATIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class Decoded(NamedTuple):
    """The result of decoding one file.

    ``content`` is the hash of its bytes, ``pixels`` the image (3, size, size) as bytes or None,
    ``reason`` says why there are none, and ``lasting`` whether the failure is permanent as long
    as the file does not change (a disk error or a missing permission may be temporary).
    """

    content: bytes
    pixels: bytes | None
    reason: str = ""
    lasting: bool = True


class Unreadable(Exception):
    """The file cannot be read as an image; the message is the reason."""


def read_image(path: str, size: int) -> Decoded:
    """Hash and decode one file; never raises, failures are returned as a reason."""
    content = b""
    try:
        if not is_regular(path):
            raise Unreadable("not a regular file")
        with open(path, "rb") as file:
            content = _hash(file)
            if file.tell() == 0:
                raise Unreadable("empty file")
            file.seek(0)
            return Decoded(content, decode(file, size))
    except OSError as error:
        # Pillow raises OSError without errno for bad content; system errors have one.
        return Decoded(content, None, _reason(error), lasting=error.errno is None)
    except MemoryError:
        return Decoded(content, None, "out of memory", lasting=False)
    except Exception as error:  # Pillow's readers raise almost anything on bad content
        return Decoded(content, None, _reason(error))


def decode(file: IO[bytes], size: int) -> bytes:
    """Decode an image, resize its shorter side to ``size``, crop the centre: RGB, planes first.

    The EXIF rotation is applied, transparent pixels become white, 16 bits are scaled to 8, and
    only the first frame of an animation is used.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns about metadata that we do not use
        with open_image(file) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise Unreadable(f"too many pixels ({width} x {height}, limit {MAX_PIXELS})")
            # JPEG decodes much faster at 1/2, 1/4 or 1/8 of its size. Twice the target size keeps
            # enough detail for the final resize.
            image.draft(None, (2 * size, 2 * size))
            return crop_square(image, size)


def open_image(file: str | os.PathLike[str] | IO[bytes]) -> Image.Image:
    """Open an image of one of the supported formats; its pixels are read later."""
    if "HEIF" in FORMATS and "HEIF" not in Image.OPEN:
        importlib.import_module("pillow_heif").register_heif_opener()
    return Image.open(file, formats=FORMATS)


def crop_square(image: Image.Image, size: int) -> bytes:
    """Resize an open image and crop its centre, ``size`` pixels wide: RGB, planes first."""
    image.load()
    found = _to_rgb(_centre(_resizable(image), size))
    rotation = _ROTATIONS.get(_orientation(image))
    found = found.transpose(rotation) if rotation is not None else found
    return b"".join(plane.tobytes() for plane in found.split())


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(0x0112, 1))
    except Exception:  # ignore damaged metadata
        return 1


def _resizable(image: Image.Image) -> Image.Image:
    """Convert to a mode that can be resized; palette indices and single bits cannot."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _to_gray(image)
    if image.mode in ("P", "PA", "1") or "transparency" in image.info:
        return image.convert("RGBA" if image.has_transparency_data else "RGB")
    return image


def _centre(image: Image.Image, size: int) -> Image.Image:
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    box = (left, top, left + side, top + side)
    return image.resize((size, size), Image.Resampling.BICUBIC, box=box, reducing_gap=3.0)


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def _to_gray(image: Image.Image) -> Image.Image:
    """Convert wide gray values to 8 bits; Pillow's own conversion would clip them at 255.

    16-bit files span 0..65535. Wider integers and floats have no natural range: 0..1 (floats),
    0..255 and 0..65535 are recognised, all others are stretched from their minimum to maximum.
    """
    import numpy as np

    values = np.asarray(image).astype(np.float64)
    if not np.isfinite(values).all():
        raise Unreadable("pixels that are not finite")
    low, high = float(values.min()), float(values.max())
    if image.mode.startswith("I;16"):
        low, high = 0.0, 65535.0
    elif low >= 0:
        known = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
        fitting = [limit for limit in known if high <= limit]
        low, high = (0.0, fitting[0]) if fitting else (low, high)
    scaled = (values - low) * (255 / ((high - low) or 1.0))
    return Image.fromarray(np.rint(scaled).astype(np.uint8))


def is_regular(path: str | os.PathLike[str]) -> bool:
    """Whether reading the file will end; pipes and devices such as /dev/zero may not."""
    return stat.S_ISREG(os.stat(path).st_mode)


def content_hash(path: str | os.PathLike[str]) -> bytes:
    """Hash of a file's bytes; empty when it cannot be read."""
    try:
        if not is_regular(path):
            return b""
        with open(path, "rb") as file:
            return _hash(file)
    except OSError:
        return b""


def _hash(file: IO[bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=HASH)
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.digest()


def _reason(error: Exception) -> str:
    if isinstance(error, Unreadable):
        return str(error)
    if isinstance(error, UnidentifiedImageError):
        return "not an image of a known format"
    if isinstance(error, Image.DecompressionBombError):
        return f"too many pixels (limit {MAX_PIXELS})"
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or os.strerror(error.errno)
    text = " ".join(str(error).split())[:120]
    return text or type(error).__name__


# ---------------------------------------------------------------- the worker's side of the pipe

_HEAD = struct.Struct(f"<B{HASH}sI")


def encode_message(found: Decoded) -> bytes:
    """Serialise for the pipe."""
    body = found.pixels if found.pixels is not None else found.reason.encode(errors="replace")
    flags = (found.pixels is not None) | found.lasting << 1
    return _HEAD.pack(flags, found.content.ljust(HASH, b"\0"), len(body)) + body


def decode_message(pipe: IO[bytes]) -> Decoded:
    """Read back what :func:`encode_message` wrote; EOFError if the worker has exited."""
    flags, content, length = _HEAD.unpack(_exactly(pipe, _HEAD.size))
    body = _exactly(pipe, length)
    content = b"" if content == bytes(HASH) else content
    if flags & 1:
        return Decoded(content, body)
    return Decoded(content, None, body.decode(errors="replace"), bool(flags & 2))


def _exactly(pipe: IO[bytes], length: int) -> bytes:
    data = pipe.read(length)
    if len(data) != length:
        raise EOFError("the worker has exited")
    return data


def _serve(size: int) -> None:
    """Answer requests (a JSON list of paths per line) until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    answers: Any = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # stray prints must not mix with the answers
    for line in sys.stdin.buffer:
        for path in json.loads(line):
            answers.write(encode_message(read_image(path, size)))
        answers.flush()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
