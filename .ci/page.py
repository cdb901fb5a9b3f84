"""Reads report pages in headless Chromium, over the DevTools protocol.

    page.py BROWSER SCREENSHOTS PAGE...

Checks that nothing is fetched and no error is logged, that the page fits narrow, middle and wide
windows and its figures fill them, that the first column of a table stays in view, that the token
microscope opens on a generation with drafts, that no texts of figures overlap or are cut off, that values appear under the pointer
and at the arrow keys, that filters and sorting work, that Tab reaches everything, that text has
the contrast of WCAG AA, and how the page prints. SCREENSHOTS is a folder for pictures, or empty.
"""

import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

from websockets.sync.client import connect

NARROW, MIDDLE, WIDE = 400, 1000, 1600

# The contrast of every visible text with what lies behind it, as the worst offenders.
CONTRAST = """(() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => {
      const x = part / 255;
      return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const wrong = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest('script, style, noscript')) continue;
    if (element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element);
    const paint = element instanceof SVGElement ? style.fill : style.color;
    const behind = ground(element);
    const [a, b] = [light(over(parse(paint), behind)), light(behind)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    seen += 1;
    if (ratio < (large ? 3 : 4.5)) {
      wrong.push(`${ratio.toFixed(2)} "${node.textContent.trim().slice(0, 30)}" ${paint}`);
    }
  }
  return { seen, wrong: wrong.slice(0, 5) };
})()"""

# Texts of figures that leave their drawing or lie on each other, in the fonts of this machine.
# Boxes of lines are a little higher than the distance between lines.
ILLEGIBLE = """(() => {
  const wrong = [];
  for (const drawing of document.querySelectorAll('figure svg')) {
    if (drawing.getClientRects().length === 0) continue;
    const [,, width, height] = drawing.getAttribute('viewBox').split(' ').map(Number);
    const texts = Array.from(drawing.querySelectorAll('text'), (text) => {
      const { x, y, width, height } = text.getBBox();
      return { said: text.textContent, left: x, top: y, right: x + width, bottom: y + height };
    });
    texts.forEach((one, i) => {
      if (one.left < 0 || one.top < 0 || one.right > width || one.bottom > height) {
        wrong.push(`${one.said} leaves the drawing`);
      }
      for (const other of texts.slice(i + 1)) {
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        if (across > 1 && down > 2) wrong.push(`${one.said} and ${other.said} overlap`);
      }
    });
  }
  return wrong.slice(0, 5);
})()"""

# Tables that are scrolled, and whose first column does not stay on top of the others.
UNSTUCK = """(() => {
  const wrong = [];
  let scrolled = 0;
  for (const region of document.querySelectorAll('section .scroll')) {
    const cell = region.querySelector('tbody tr:not([hidden]) td');
    cell.scrollIntoView({ block: 'center' });
    region.scrollLeft = 60;
    if (region.scrollLeft > 0) {
      scrolled += 1;
      const box = cell.getBoundingClientRect();
      const away = box.left - region.getBoundingClientRect().left;
      const top = document.elementFromPoint(box.left + 3, box.top + box.height / 2);
      if (Math.abs(away) > 1 || (top && top !== cell)) wrong.push(region.ariaLabel);
    }
    region.scrollLeft = 0;
  }
  return { scrolled, wrong };
})()"""

# Figures that leave more than a fifth of their frame empty.
UNFILLED = """Array.from(document.querySelectorAll('figure')).filter((figure) => {
  const drawing = Array.from(figure.querySelectorAll('svg'))
    .find((drawing) => drawing.getClientRects().length > 0);
  return drawing.getBoundingClientRect().width < 0.8 * figure.clientWidth;
}).map((figure) => figure.id)"""

# What Tab should reach.
FOCUSABLE = """Array.from(document.querySelectorAll(
  'a[href], button, select, input, [tabindex="0"]')).filter((element) =>
  element.getClientRects().length > 0 && !element.disabled)"""


class Browser:
    """A headless browser with one page."""

    def __init__(self, program, profile):
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(
            [program, *arguments, f"--user-data-dir={profile}", "about:blank"], **quiet
        )
        port = pathlib.Path(profile) / "DevToolsActivePort"
        for _ in range(300):
            if port.exists() and len(port.read_text().split()) == 2:
                break
            time.sleep(0.1)
        number = port.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{number}/json/list") as answer:
            pages = [target for target in json.load(answer) if target["type"] == "page"]
        self.socket = connect(pages[0]["webSocketDebuggerUrl"], max_size=None)
        self.number = 0
        self.events = []
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def run(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script[:80]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def open(self, page):
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        for _ in range(600):
            if self.run("document.readyState") == "complete":
                return
            time.sleep(0.05)
        raise RuntimeError(f"{page} did not load")

    def size(self, width, height=1000):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def scheme(self, name):
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def mouse(self, element, click=False):
        """Moves the pointer to the middle of an element, and clicks it."""
        box = self.run(f"""(() => {{ const element = {element};
          element.scrollIntoView({{ block: 'center', inline: 'center' }});
          const box = element.getBoundingClientRect();
          return [box.left + box.width / 2, box.top + box.height / 2]; }})()""")
        place = {"x": box[0], "y": box[1]}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
        if click:
            for kind in ["mousePressed", "mouseReleased"]:
                button = {"button": "left", "clickCount": 1}
                self.call("Input.dispatchMouseEvent", type=kind, **place, **button)

    def key(self, name, code, text=""):
        common = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        kind = "keyDown" if text else "rawKeyDown"
        self.call("Input.dispatchKeyEvent", type=kind, text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def end(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait(timeout=30)


class Faults:
    """What is wrong with a page."""

    def __init__(self):
        self.found = []

    def check(self, holds, what):
        if not holds:
            self.found.append(what)


def logged(browser, faults):
    """No error was logged, and nothing but the page itself was asked for."""
    for event in browser.events:
        method, of = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            faults.check(False, f"exception: {of['exceptionDetails']}")
        if method == "Runtime.consoleAPICalled":
            faults.check(of["type"] != "error", f"console: {of['args']}")
        if method == "Log.entryAdded":
            faults.check(of["entry"]["level"] != "error", f"log: {of['entry']['text']}")
        if method == "Network.requestWillBeSent":
            url = of["request"]["url"]
            faults.check(url.startswith("file:") and url.endswith("report.html"), f"asks for {url}")


def pointing(browser, faults):
    """Values appear at the pointer and at the arrow keys."""
    spots = """Array.from(document.querySelectorAll('figure .spots rect'))
      .filter((spot) => spot.getClientRects().length > 0)"""
    if browser.run(f"{spots}.length"):
        browser.mouse(f"{spots}[0]")
        tip = browser.run("document.getElementById('tip').textContent")
        faults.check(any(c.isdigit() for c in tip), f"no value under the pointer: {tip!r}")
        browser.run(f"{spots}[0].closest('svg').focus()")
        browser.key("ArrowRight", 39)
        browser.key("ArrowRight", 39)
        tip = browser.run("document.getElementById('tip').textContent")
        faults.check(any(c.isdigit() for c in tip), f"no value at the arrow keys: {tip!r}")
        on = browser.run("document.querySelectorAll('.spots rect.on').length")
        faults.check(on == 1, f"{on} values are marked")
    cell = "document.querySelector('td[data-i]')"
    if browser.run(f"{cell} !== null"):
        browser.mouse(cell)
        tip = browser.run("document.getElementById('tip').textContent")
        faults.check("[" in tip, f"no exact value of a cell: {tip!r}")


def filtering(browser, faults):
    """A filter hides rows and marks, and Show all brings them back."""
    boxes = browser.run("document.querySelectorAll('.tools input').length")
    shown = "Array.from(document.querySelectorAll('tr[data-key]')).filter((r) => !r.hidden).length"
    marks = """Array.from(document.querySelectorAll('.spots rect[data-key]'))
      .filter((mark) => mark.style.display !== 'none').length"""
    if boxes == 0:
        return
    before = browser.run(shown), browser.run(marks)
    for box in range(boxes):
        browser.mouse(f"document.querySelectorAll('.tools input')[{box}]", click=True)
        faults.check(browser.run(shown) < before[0], f"filter {box} hides no row")
        browser.mouse("document.getElementById('every')", click=True)
        faults.check((browser.run(shown), browser.run(marks)) == before, "Show all does not")
    browser.run("document.querySelector('.tools input').focus()")
    browser.key(" ", 32, " ")
    faults.check(browser.run(shown) < before[0], "the space bar does not filter")
    faults.check(before[1] == 0 or browser.run(marks) < before[1], "no mark of a figure is hidden")
    browser.mouse("document.getElementById('every')", click=True)


def sorting(browser, faults):
    """A column is in order after a click, and in the opposite order after Enter."""
    table = """Array.from(document.querySelectorAll('table.sorts'))
      .find((table) => table.querySelector('td[data-i]') && table.tBodies[0].rows.length > 2)"""
    if not browser.run(f"Boolean({table})"):
        return
    column = browser.run(f"{table}.querySelector('td[data-i]').cellIndex")
    values = f"""Array.from({table}.tBodies[0].rows).map((row) =>
      parseFloat(row.cells[{column}].dataset.v ?? row.cells[{column}].textContent))
      .filter((value) => !Number.isNaN(value))"""
    button = f"{table}.tHead.rows[0].cells[{column}].querySelector('button')"
    browser.mouse(button, click=True)
    up = browser.run(values)
    faults.check(up == sorted(up), f"not in order: {up}")
    browser.run(f"{button}.focus()")
    browser.key("Enter", 13, "\r")
    down = browser.run(values)
    faults.check(down == sorted(down, reverse=True), f"not in reverse order: {down}")


def microscope(browser, faults):
    """It opens on a generation with drafts, and tokens say where they come from."""
    if not browser.run("document.querySelectorAll('#text .t').length > 0"):
        return
    drafted = "document.querySelectorAll('#text .accepted, #text .correction, #text .bonus').length"
    faults.check(browser.run(drafted) > 0, "it opens on a generation without drafts")
    opened = browser.run("document.getElementById('facts').textContent")
    faults.check("proposed" in opened, "no round is open")
    rejected = browser.run("document.querySelector('#text .correction.same') !== null")
    faults.check(not rejected or "✗" not in opened or "those of the rejected token" in opened, opened)
    browser.mouse("document.querySelector('#text .t')")
    tip = browser.run("document.getElementById('tip').textContent")
    faults.check("round 0" in tip, f"no origin under the pointer: {tip!r}")
    browser.mouse("document.querySelector('#text .t')", click=True)
    faults.check(browser.run("document.querySelector('#facts .time') !== null"), "no time line")
    browser.run("document.getElementById('facts').replaceChildren()")
    browser.run("document.getElementById('text').focus()")
    browser.key("ArrowRight", 39)
    browser.key("Enter", 13, "\r")
    faults.check(browser.run("document.querySelector('#facts .time') !== null"), "Enter does not")


def tabbing(browser, faults):
    """Tab reaches everything that can be used."""
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    browser.run(f"window.reached = new Set(); window.all = {FOCUSABLE}; window.all.length")
    browser.run("""addEventListener('focusin', (event) => window.reached.add(event.target))""")
    browser.run("document.querySelector('.skip').focus()")
    for _ in range(browser.run("window.all.length") + 2):
        browser.key("Tab", 9)
    missed = browser.run("""window.all.filter((element) => !window.reached.has(element))
      .map((element) => element.outerHTML.slice(0, 80))""")
    faults.check(not missed, f"Tab does not reach {missed[:5]}")


def looks(browser, faults, page, pictures):
    """The page fits, and its text can be read."""
    for width in [NARROW, MIDDLE, WIDE]:
        browser.size(width)
        wrong = browser.run(ILLEGIBLE)
        faults.check(not wrong, f"figures at {width}: {wrong}")
        unfilled = browser.run(UNFILLED)
        faults.check(not unfilled, f"figures at {width} are narrower than their frames: {unfilled}")
        unstuck = browser.run(UNSTUCK)
        faults.check(not unstuck["wrong"], f"first columns at {width} leave: {unstuck['wrong']}")
        faults.check(width != NARROW or unstuck["scrolled"] > 0, "no table was scrolled")
        for scheme in ["light", "dark"]:
            browser.scheme(scheme)
            wide = browser.run("document.documentElement.scrollWidth")
            faults.check(wide <= width, f"{wide} pixels wide in a window of {width}")
            contrast = browser.run(CONTRAST)
            faults.check(contrast["seen"] > 50, f"only {contrast['seen']} texts")
            faults.check(not contrast["wrong"], f"{scheme}, {width}: too faint {contrast['wrong']}")
            small = browser.run("""Array.from(document.querySelectorAll('figure svg text'))
              .filter((text) => text.getClientRects().length > 0)
              .filter((text) => text.getBoundingClientRect().height < 9).length""")
            faults.check(small == 0, f"{small} texts of figures are too small at {width}")
            if pictures:
                name = f"{page.parent.name}-{width}-{scheme}.png"
                picture(browser, pictures / name, width)


def picture(browser, file, width):
    height = browser.run("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, 16000), "scale": 1}
    shot = browser.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
    file.write_bytes(base64.b64decode(shot["data"]))


def printing(browser, faults):
    """On paper there are no tools, and everything is light."""
    browser.call("Emulation.setEmulatedMedia", media="print")
    tools = "getComputedStyle(document.querySelector('.tools')).display"
    faults.check(browser.run(tools) == "none", "tools are printed")
    pdf = browser.call("Page.printToPDF", printBackground=False)
    faults.check(len(pdf["data"]) > 10_000, "nothing is printed")
    browser.call("Emulation.setEmulatedMedia", media="")


def without_scripts(browser, faults, page):
    """The page is a readable document without its script."""
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page)
    tools = browser.run("getComputedStyle(document.querySelector('.tools')).display")
    faults.check(tools == "none", "tools without a script")
    rows = browser.run("""Array.from(document.querySelectorAll('main tr'))
      .filter((row) => row.getClientRects().length > 0).length""")
    faults.check(rows > 3, "no tables without a script")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


def read(browser, page, pictures):
    faults = Faults()
    browser.size(WIDE)
    browser.scheme("light")
    browser.open(page)
    steps = [pointing, filtering, sorting, microscope, tabbing]
    for step in steps:
        step(browser, faults)
    looks(browser, faults, page, pictures)
    printing(browser, faults)
    logged(browser, faults)
    without_scripts(browser, faults, page)
    return faults.found


def main():
    program, pictures, *pages = sys.argv[1:]
    pictures = pathlib.Path(pictures) if pictures else None
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    wrong = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            for page in map(pathlib.Path, pages):
                found = read(browser, page, pictures)
                wrong += len(found)
                size = page.stat().st_size / 1e6
                print(f"{page.parent.name}: {size:.2f} MB, {'fine' if not found else 'WRONG'}")
                for fault in found:
                    print(f"  {fault}")
        finally:
            browser.end()
    sys.exit(1 if wrong else 0)


main()
