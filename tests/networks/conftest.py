import pytest
import torch


@pytest.fixture(autouse=True)
def seeded_layers():
    """Layers built directly draw from the global state: fix it for the test, put it back after."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
