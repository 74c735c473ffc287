"""Folders to and from the Hugging Face hub, by its own client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["download_model", "upload_model"]

# Only these are fetched: whatever else a repository holds, such as a pickle, stays there.
_FILES = ["model.json", "model.safetensors"]


def upload_model(
    folder: Path, repo: str, *, private: bool | None, token: str | None, message: str
) -> str:
    """Upload a folder as one commit, create the repository if needed, and return its address."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        raise ValueError(f"cannot upload to {repo!r}: a name must be OWNER/NAME")
    hub = _client()
    api = hub.HfApi(token=token, library_name="unbend")
    with _explained(f"cannot upload to {repo!r}"):
        url = api.create_repo(repo, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=url.repo_id, folder_path=folder, commit_message=message, token=token
        )
    return str(url)


def download_model(repo: str, *, revision: str | None, token: str | None) -> Path:
    """Download the model of a repository into the client's cache and return its folder."""
    hub = _client()
    with _explained(f"cannot get the model {repo!r}"):
        found = hub.snapshot_download(
            repo, revision=revision, token=token, allow_patterns=_FILES, library_name="unbend"
        )
    missing = [name for name in _FILES if not (Path(found) / name).is_file()]
    if missing:
        raise ValueError(f"the repository {repo!r} holds no model of unbend: no {missing[0]}")
    return Path(found)


def _client() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError("the hub needs pip install 'unbend[hub]'") from error
    return huggingface_hub


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn the errors of the client into one line with a remedy."""
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    network: tuple[type[Exception], ...] = (
        *(HfHubHTTPError, LocalEntryNotFoundError, ConnectionError),
        *_transport(),
    )
    try:
        yield
    except RepositoryNotFoundError as error:
        raise ValueError(
            f"{what}: no such repository, or no access; check the name, or log in: hf auth login"
        ) from error
    except HFValidationError as error:
        raise ValueError(f"{what}: a name must be OWNER/NAME ({error})") from error
    except network as error:
        raise OSError(f"{what}: {_first_line(error)}; check the network and the token") from error


def _transport() -> tuple[type[Exception], ...]:
    """Errors of the library below the client, which lets them through when there is no network."""
    found = []
    for name in ("httpx", "httpx2"):
        try:
            found.append(import_module(name).TransportError)
        except (ImportError, AttributeError):
            continue
    return tuple(found)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
