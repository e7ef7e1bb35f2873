"""Make docs/inside.png, the picture of the inspection page in the README: `make picture`.

It shows a real trace in a real browser.
"""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from transduce.decode.load import load
from transduce.inspection.page_export import export_html
from transduce.inspection.trace import trace

TEXT = "I love you very much"
WIDTH = 1060
SWITCHES = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
]


def main() -> None:
    """Open the page offline at step 3 and save it from the title to the end of the first figure."""
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        path = Path(temporary) / "inside.html"
        path.write_text(export_html(trace(load(), TEXT)), encoding="utf-8")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=SWITCHES
        )
        size = {"width": WIDTH, "height": 1200}
        page = browser.new_page(
            viewport=size, device_scale_factor=1.5, offline=True, color_scheme="light"
        )
        page.goto(path.as_uri())
        page.locator(".said .chip", has_text="molto").click()
        page.mouse.move(0, 0)
        view = page.locator("#station-sentence figure").bounding_box()
        assert view is not None, "the first view is there"
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": view["y"] + view["height"] + 24}
        page.screenshot(path=Path(__file__).with_name("inside.png"), clip=clip)
        browser.close()


if __name__ == "__main__":
    main()
