"""Fixtures of several rooms."""

import pytest


@pytest.fixture(scope="module")
def browser():
    """Chromium, for tests of pages."""
    from tests.browser import launched

    with launched() as chromium:
        yield chromium
