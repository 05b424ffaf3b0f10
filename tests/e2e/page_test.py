"""The page at / in a real browser (Debian's chromium), driven over the WebDriver protocol by chromedriver.

FORESAY_SCREENSHOTS   a folder: pictures of the page are written there (docs/pictures comes from it)
"""

import base64
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import httpx
import pytest

PROMPT = "Count: one, two, three, one, two, three, one, two, three, one, two,"


class Browser:
    """A chromium without a window. js() runs a function body and returns its value."""

    def __init__(self, width: int, height: int):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                break
        else:
            raise AssertionError("chromedriver did not start")
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{found.group(1)}", timeout=60)
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", f"--window-size={width},{height}"]}
        reply = self.http.post("/session", json={"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        assert reply.status_code == 200, reply.text
        self.session = "/session/" + reply.json()["value"]["sessionId"]

    def call(self, path: str, **body):
        reply = self.http.post(self.session + path, json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()["value"]

    def open(self, url: str) -> None:
        self.call("/url", url=url)

    def js(self, code: str, *args):
        return self.call("/execute/sync", script=code, args=list(args))

    def wait(self, code: str, seconds: float = 60):
        """Until the expression holds: the page gives no events to a driver."""
        end = time.monotonic() + seconds
        while not (value := self.js(f"return {code}")):
            assert time.monotonic() < end, f"not within {seconds} s: {code}\n{self.js('return document.body.innerText')}"
            time.sleep(0.1)
        return value

    def keys(self, text: str) -> None:
        """Types into what has the focus."""
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.call("/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def log(self, kind: str):
        return self.call("/se/log", type=kind)

    def picture(self, name: str) -> None:
        folder = os.environ.get("FORESAY_SCREENSHOTS")
        if folder:
            shot = self.http.get(self.session + "/screenshot").json()["value"]
            Path(folder, f"{name}.png").write_bytes(base64.b64decode(shot))

    def close(self) -> None:
        self.http.delete(self.session)
        self.driver.terminate()
        self.driver.wait(timeout=10)


@pytest.fixture(scope="module")
def drafting(binary, clean_env, smollm):
    """SmolLM2 that drafts from its own text: tokens of every kind but from no second model."""
    from conftest import Server
    command = [str(binary), "serve", "--port", "0", "-m", str(smollm), "-c", "2048", "-np", "2", "--spec-type", "ngram-simple",
               "--spec-ngram-simple-size-n", "2", "--spec-ngram-simple-size-m", "6", "--spec-draft-n-max", "6", "--no-spec-draft-adaptive"]
    running = Server(command, clean_env).wait()
    yield running
    running.stop()


@pytest.fixture(params=[(1280, 900), (400, 800)], ids=["desktop", "phone"])
def browser(request):
    if not shutil.which("chromedriver"):
        pytest.skip("no chromedriver: apt-get install chromium chromium-driver")
    running = Browser(*request.param)
    running.name = request.node.callspec.id
    yield running
    running.close()


ENTER, ESCAPE, LEFT = "\ue007", "\ue00c", "\ue012"


def test_the_page_chats_with_the_keyboard_and_marks_tokens(browser, drafting):
    browser.open(drafting.url + "/")
    browser.wait("document.getElementById('spec').textContent.includes('ngram-simple')")
    assert browser.js("return document.activeElement.id") == "input"
    browser.js("const s = document.getElementById('relaxed'); s.value = 5; s.dispatchEvent(new Event('input'));"
               "document.getElementById('n_predict').value = 60")
    assert browser.js("return document.getElementById('relaxed_out').textContent") == "5"
    browser.keys(PROMPT + ENTER)
    browser.wait("document.querySelector('.turn.assistant[data-done]')", 120)
    tokens = browser.js("return [...document.querySelectorAll('.turn .t')].map(t => ({kind: t.mark.kind, text: t.textContent, mark: t.mark}))")
    assert len(tokens) > 10
    kinds = {t["kind"] for t in tokens}
    assert "plain" in kinds and "exact" in kinds, kinds
    for t in tokens:
        mark = t["mark"]
        assert 0 <= mark["p"] <= 1.0001 and 0 <= mark["p_target"] <= 1.0001
        if mark["kind"] == "exact":
            assert mark["draft"] == mark["id"] == mark["target"]
        if mark["kind"] == "relaxed":
            assert mark["draft"] == mark["id"] != mark["target"] and 1 <= mark["rank"] < 5
    # What the page shows is the text of the answer: the same request without a stream gives it.
    shown = browser.js("return document.querySelector('.turn.assistant .text').textContent")
    assert shown == "".join(t["text"] for t in tokens)
    assert "%" in browser.js("return document.getElementById('acceptance').textContent")
    assert "tok/s" in browser.js("return document.querySelector('.figures').textContent")
    # A token's figures, by the keyboard alone.
    browser.js("document.getElementById('log').focus()")
    browser.keys(LEFT * 3)
    hint = browser.js("return document.getElementById('hint').textContent")
    assert "target's pick" in hint and "rank" in hint and "probability" in hint
    browser.js("document.getElementById('measure').click()")
    browser.wait("!document.getElementById('measure').disabled && Number(document.getElementById('plain').textContent) > 0")
    browser.picture(f"page-{browser.name}")
    assert not browser.js("return document.documentElement.scrollWidth > document.documentElement.clientWidth"), "scrolls sideways"
    assert [e for e in browser.log("browser") if e["level"] == "SEVERE" and "apply-template" not in e["message"]] == []
    urls = set(re.findall(r'"url":"(https?://[^"]+)"', "".join(e["message"] for e in browser.log("performance"))))
    assert all(url.startswith(drafting.url) for url in urls), urls


def test_escape_stops_an_answer_and_frees_the_slot(browser, drafting):
    browser.open(drafting.url + "/")
    browser.js("document.getElementById('n_predict').value = 1500")
    browser.keys(PROMPT + ENTER)
    browser.wait("document.querySelectorAll('.turn .t').length > 3", 120)
    browser.keys(ESCAPE)
    browser.wait("document.querySelector('.turn.assistant[data-done]')", 10)
    end = time.monotonic() + 2
    while any(slot["is_processing"] for slot in drafting.client.get("/slots").json()):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_text_of_a_model_is_text(browser, drafting):
    browser.open(drafting.url + "/")
    browser.js("const t = turn('assistant').text; append(t, {content: '<img src=x onerror=document.title=1><script>document.title=2</script>'})")
    assert browser.js("return document.title") == "Foresay"
    assert browser.js("return document.querySelector('.turn img')") is None


def test_the_page_can_be_turned_off(start_server, smollm):
    server = start_server("-m", smollm, "-c", "256", "--no-webui")
    assert server.client.get("/").status_code == 404


def test_the_page_is_whole_and_guarded(drafting):
    reply = drafting.client.get("/")
    assert reply.status_code == 200 and reply.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert not re.search(r'(src|href)="(?!data:)', reply.text), "the page must need no other file"
