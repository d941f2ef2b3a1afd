"""The page of the service in a real browser: every view, by mouse and by keyboard, narrow and wide, dark and light."""

from __future__ import annotations

import gzip
import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
sync_api = pytest.importorskip("playwright.sync_api")
axe_module = pytest.importorskip("axe_playwright_python.sync_playwright")

from page_browser import Tab, new_tab  # noqa: E402
from page_service import HOSTILE, KEY, build_all, running  # noqa: E402

from segmax.serve import messages  # noqa: E402  # which needs the packages above

CHROMIUM = Path("/usr/bin/chromium")
PAGE = Path(messages.__file__).parent / "page"
VIEWS = {
    "search": "#/search?index=papers&q=copper+wave",
    "filtered": '#/search?index=papers&q=copper&in.lang=["en"]&min.year=1955&doc=p0',
    "why": "#/search?index=papers&q=copper+waveguide+&doc=p0&tab=why",
    "start": "#/search?index=papers",
    "nothing": "#/search?index=papers&q=zzzz",
    "words": "#/search?index=words&q=word1:2+word2",
    "compare": '#/compare?index=vectors&q={"1":2,"2":1,"3":1}&b.max_blocks=1',
    "inside": '#/inside?index=vectors&q={"1":2,"2":1,"3":1}&method=sequential&mu=0.7',
    "index": "#/index?index=notes",
    "hostile": "#/search?index=hostile&q=hostile",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Chromium at /usr/bin/chromium"),
]
expect = sync_api.expect


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service of all kinds of documents."""
    with running(*build_all(tmp_path_factory.mktemp("page")).values()) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, which has to run without its sandbox where tests run as root."""
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield found
        found.close()


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Tab]:
    """A tab in which nothing may go wrong."""
    found = new_tab(browser, address)
    yield found
    assert found.errors == []
    assert found.origins == {urlsplit(address).netloc}
    found.page.context.close()


@pytest.fixture
def failing_tab(browser: Any, address: str) -> Iterator[Tab]:
    """A tab for tests in which requests fail, which browsers report as errors."""
    found = new_tab(browser, address)
    yield found
    found.page.context.close()


# --- searching -------------------------------------------------------------------------------------------------------


def test_results_appear_while_typing(tab: Tab, record_property: Any) -> None:
    """Every key shows new results; the last word counts as the start of a word, and is marked where it was found."""
    page = tab.open("#/search?index=papers")
    page.evaluate(
        """() => {
            window.times = [];
            addEventListener("keydown", () => { window.pressed = performance.now(); }, true);
            const drawn = () => requestAnimationFrame(() => window.times.push(performance.now() - window.pressed));
            new MutationObserver(drawn).observe(document.querySelector(".status"), {childList: true});
        }"""
    )
    page.focus("#q")
    for number, key in enumerate("copper waveguide"):
        page.keyboard.press(key)
        page.wait_for_function("number => window.times.length > number", arg=number)
    times = page.evaluate("window.times")
    typical = statistics.median(times)
    record_property("key_to_result_ms", typical)
    print(f"from a key to results: median {typical:.1f} ms, longest {max(times):.1f} ms")  # noqa: T201
    assert typical < 1000
    tab.type("copper wavegu")
    expect(page.locator(".hit h3").first).to_contain_text("copper waveguide")
    assert set(page.locator(".hit mark").all_inner_texts()) >= {"copper", "waveguide"}
    expect(page.locator(".hit .about").first).to_contain_text("year")
    expect(page.locator(".status")).to_contain_text("Results 1 to 10")


def test_newer_answers_win(tab: Tab) -> None:
    """An answer that comes after a newer one is never shown."""
    page = tab.open("#/search?index=papers")
    held: list[Any] = []

    def hold_first(route: Any) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/search", hold_first)
    page.type("#q", "s")
    page.wait_for_timeout(100)
    page.type("#q", "ilver")
    expect(page.locator(".hit h3").first).to_contain_text("silver")
    shown = tab.ids()
    held[0].abort()
    page.wait_for_timeout(200)
    assert tab.ids() == shown
    expect(page.locator("#notice")).to_be_hidden()


def value(page: Any, text: str) -> Any:
    """Return a value of a field among the filters."""
    return page.locator(".value").filter(has=page.get_by_text(text, exact=True))


def test_facets_filter(tab: Tab) -> None:
    """A click on a value of a field filters, chips show the filters and remove them, numbers take a range."""
    page = tab.open("#/search?index=papers&q=copper")
    german = value(page, "de")
    expect(german.locator(".number")).to_have_text("22")
    german.locator("input").check()
    tab.settle()
    assert tab.ids()
    assert {int(name[1:]) % 4 for name in tab.ids()} == {2}
    value(page, "en").locator("input").check()
    tab.settle()
    assert {int(name[1:]) % 4 for name in tab.ids()} == {0, 2}
    page.get_by_label("year: from").fill("1960")
    page.get_by_label("year: from").press("Enter")
    page.get_by_label("year: to").fill("1970")
    page.get_by_label("year: to").press("Enter")
    tab.settle()
    assert all(1960 <= 1950 + int(name[1:]) % 40 <= 1970 for name in tab.ids())
    assert page.locator(".chip").all_inner_texts() == ["lang de×", "lang en×", "year ≥ 1960×", "year ≤ 1970×"]
    page.locator(".chip", has_text="de").click()
    tab.settle()
    assert page.locator(".chips .chip").count() == 3
    page.get_by_role("button", name="Clear filters").click()
    tab.settle()
    assert page.locator(".chips").count() == 0
    assert len(tab.ids()) == 10


def test_counts_without_a_query(tab: Tab) -> None:
    """Filters can be set before anything is typed; the page says how many documents match them."""
    page = tab.open("#/search?index=papers")
    value(page, "waveguide").locator("input").check()
    expect(page.locator(".matching")).to_have_text("18 documents match the filters.")


def test_pages(tab: Tab) -> None:
    """Results come in pages; back and forward lead through them, and ranks go on counting."""
    page = tab.open("#/search?index=papers&q=described")
    first = tab.ids()
    page.get_by_role("link", name="Next").click()
    expect(page.locator(".rank").first).to_have_text("11")
    second = tab.ids()
    assert not set(first) & set(second)
    page.go_back()
    expect(page.locator(".rank").first).to_have_text("1")
    assert tab.ids() == first
    page.go_forward()
    expect(page.locator(".rank").first).to_have_text("11")
    assert tab.ids() == second


@pytest.mark.parametrize(
    ("index", "said"), [("papers", "90 of 90 documents scored"), ("notes", "5,024 documents scored")]
)
def test_no_more_documents_are_scored_than_there_are(tab: Tab, index: str, said: str) -> None:
    """Empty places of blocks do not count; deleted documents of a collection do, so it has no number of all."""

    def counted(route: Any) -> None:
        answer = route.fetch().json()
        answer["stats"] |= {"docs_scored": 5024, "swept": False}
        route.fulfill(json=answer)

    tab.page.route("**/search", counted)
    page = tab.open(f"#/search?index={index}&q=copper")
    expect(page.locator(".status").first).to_contain_text(said)
    expect(page.locator(".status").first).not_to_contain_text("5,024 of")


def test_back_leads_to_what_was_typed(tab: Tab) -> None:
    """After a pause in typing, the query before it is an entry of the history."""
    page = tab.open("#/search?index=papers")
    tab.type("silver")
    page.wait_for_timeout(1700)
    page.type("#q", " diode")
    tab.settle()
    page.wait_for_timeout(400)
    page.go_back()
    expect(page.locator("#q")).to_have_value("silver")
    page.go_forward()
    expect(page.locator("#q")).to_have_value("silver diode")


def test_settings(tab: Tab) -> None:
    """Method and options are in the address, and in what is asked of the service."""
    page = tab.open("#/search?index=vectors&q=%7B%221%22%3A2%7D")
    page.get_by_role("button", name="Settings").click()
    page.select_option("#set-method", "sequential")
    page.fill("#set-mu", "0.7")
    with page.expect_request("**/search") as request:
        page.press("#set-mu", "Enter")
    assert request.value.post_data_json["params"] == {"method": "sequential", "mu": 0.7}
    assert "method=sequential&mu=0.7" in page.url
    page.select_option("#set-method", "target")
    page.fill("#set-target_recall", "0.9")
    with page.expect_request("**/search") as request:
        page.press("#set-target_recall", "Enter")
    assert request.value.post_data_json["target_recall"] == 0.9
    assert "params" not in request.value.post_data_json


def test_partial_results_are_marked(tab: Tab) -> None:
    """Results that a limit cut short say so."""
    page = tab.open('#/search?index=vectors&q={"1":2,"2":1,"3":1}&max_blocks=1')
    expect(page.locator(".status .partial")).to_have_text("partial results")


# --- keys ------------------------------------------------------------------------------------------------------------


def focused(page: Any) -> str:
    """Return the id of the result that has the focus."""
    found: str = page.evaluate("document.activeElement.closest('.hit')?.dataset.id ?? document.activeElement.id")
    return found


def test_keys(tab: Tab) -> None:
    """Everything can be done with keys: search, move, open, explain, close, turn pages, change views, get help."""
    page = tab.open("#/search?index=papers&q=described+&k=10")
    ids = tab.ids()
    page.keyboard.press("/")
    assert focused(page) == "q"
    page.keyboard.press("ArrowDown")
    assert focused(page) == ids[0]
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    assert focused(page) == ids[1]
    page.keyboard.press("Enter")
    expect(page.locator("#panel-title")).to_contain_text(f"part {ids[1][1:]}")
    page.keyboard.press("j")
    expect(page.locator("#panel-title")).to_contain_text(f"part {ids[2][1:]}")
    page.keyboard.press("w")
    expect(page.locator("#panel .verdict")).to_contain_text("Rank 3")
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    assert focused(page) == ids[2]
    page.keyboard.press("w")
    expect(page.locator("#panel .verdict")).to_contain_text("Rank 3")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page.locator(".rank").first).to_have_text("11")
    page.keyboard.press("p")
    expect(page.locator(".rank").first).to_have_text("1")
    page.keyboard.press("3")
    expect(page.locator("h1")).to_have_text("Inside this search")
    page.keyboard.press("1")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    for key in ("/", "j", "Enter", "w", "Esc", "?", "n", "d"):
        assert page.locator("#help kbd", has_text=re.compile(f"^{re.escape(key)}$")).count()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("k")
    page.keyboard.press("ArrowUp")
    assert focused(page) == "q"
    page.keyboard.press("End")
    page.keyboard.type(" j?")
    expect(page.locator("#help")).to_be_hidden()
    expect(page.locator("#q")).to_have_value(re.compile(r" j\?$"))


def test_letters_can_be_switched_off(tab: Tab) -> None:
    """Who dictates or uses other shortcuts can switch single letters off; it is remembered."""
    page = tab.open("#/search?index=papers&q=described")
    page.click("#help-button")
    page.uncheck("#keys-on")
    page.keyboard.press("Escape")
    page.reload()
    tab.settle()
    page.locator("h1, .status").first.click()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_hidden()


# --- documents -------------------------------------------------------------------------------------------------------


def test_why(tab: Tab) -> None:
    """Why shows what each term added, the cluster's bounds against θ, and the reason in a sentence."""
    page = tab.open("#/search?index=papers&q=copper+waveguide+")
    best = tab.ids()[0]
    page.locator(".hit .why").first.click()
    expect(page.locator(".reason")).to_contain_text(f"Document '{best}'")
    expect(page.locator(".reason")).to_contain_text("is returned at rank 1")
    rows = page.locator(".terms tbody tr")
    added = [float(row.locator("td.number").inner_text()) for row in rows.all()]
    score = float(page.locator(".verdict b").inner_text())
    assert sum(added) == pytest.approx(score, abs=0.01)
    assert added == sorted(added, reverse=True)
    widths = [row.locator(".bar i").evaluate("bar => bar.offsetWidth") for row in rows.all()]
    assert widths == sorted(widths, reverse=True)
    assert page.locator(".bound dt").all_inner_texts() == ["BoundSum", "MaxSBound", "AvgSBound", "Score"]
    theta = page.locator(".threshold.theta")
    expect(theta).to_have_text(re.compile(r"^θ( then)? = [\d.]+$"))
    scale = page.evaluate(
        """() => {
            const track = document.querySelector(".bound dd").getBoundingClientRect();
            const bar = document.querySelector(".bound.own .bar i").getBoundingClientRect();
            const line = document.querySelector(".threshold.theta").getBoundingClientRect();
            return [(bar.right - track.left) / track.width, (line.left - track.left) / track.width];
        }"""
    )
    drawn_theta = float(theta.inner_text().split("=")[1])
    assert scale[1] / scale[0] == pytest.approx(drawn_theta / score, rel=0.05)


def test_why_not(tab: Tab) -> None:
    """Any document can be explained by its id, also one that is not in the list."""
    page = tab.open("#/search?index=papers&q=copper+waveguide+")
    page.fill("#why-not", "p1")
    page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_contain_text("Not returned")
    expect(page.locator(".reason")).to_contain_text("shares no term with the query")
    page.fill("#why-not-other", "p2")
    page.get_by_role("button", name="Explain").last.click()
    expect(page.locator("#panel-title")).to_contain_text("part 2")


def test_why_not_unknown(failing_tab: Tab) -> None:
    """An id that is not there is said to be not there."""
    page = failing_tab.open("#/search?index=papers&q=copper&doc=nobody&tab=why")
    expect(page.locator("#panel [role=alert]")).to_have_text("No document has the id 'nobody'.")


def test_why_counts_the_start_of_a_word(tab: Tab) -> None:
    """An explanation is of the query on the screen, whose last word may be the start of others."""
    page = tab.open("#/search?index=papers&q=wavegu")
    page.locator(".hit .why").first.click()
    expect(page.locator(".terms th[scope=row]")).to_have_text("waveguid")
    expect(page.locator(".verdict")).to_contain_text("Rank 1")


def test_documents(tab: Tab) -> None:
    """A document opens with its text, its metadata and the words of the query marked."""
    page = tab.open("#/search?index=papers&q=copper+waveguide")
    page.locator(".hit a.open").first.click()
    expect(page.locator("#panel .metadata")).to_contain_text("year")
    expect(page.locator("#panel .long")).to_contain_text("is described")
    assert "copper" in page.locator("#panel mark").all_inner_texts()


def test_ids_that_are_large_numbers(tab: Tab) -> None:
    """Ids beyond 2^53, which JavaScript rounds, are the ids that they are."""
    page = tab.open('#/search?index=vectors&q={"1":2}')
    best = tab.ids()[0]
    assert int(best) > 2**60
    page.locator(".hit a.open").first.click()
    expect(page.locator("#panel")).to_contain_text("This index stores vectors only")
    page.keyboard.press("w")
    expect(page.locator(".reason")).to_contain_text(f"Document {best}")
    expect(page.locator(".verdict")).to_contain_text("Rank 1")


def test_hostile_documents(tab: Tab) -> None:
    """Markup runs nowhere, controls are written out, long texts are cut, and nothing leaves its place."""
    page = tab.open(VIEWS["hostile"])
    page.evaluate("() => { window.hacked = () => { throw new Error('hacked'); }; }")
    expect(page.locator(".hit")).to_have_count(3)
    expect(page.locator(".hit h3", has_text="<script>hacked()</script>")).to_be_visible()
    assert {"\\x1b", "\\u202e"} <= set(page.locator(".hit .escape").all_inner_texts())
    assert page.locator("main script, main img, main svg, main [onclick], main [onload]").count() == 0
    assert max(item.bounding_box()["height"] for item in page.locator(".hit").all()) < 400
    for hostile in HOSTILE:
        page.locator(f".hit[data-id={json.dumps(hostile['id'])}] a.open").click()
        tab.settle()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("#panel script, #panel img").count() == 0
    page.locator('.hit[data-id="big"] a.open').click()
    more = page.get_by_role("button", name="Show more (997,008 characters left)")
    more.click()
    assert page.locator("#panel .long").evaluate("text => text.textContent.length") == 30_000
    page = tab.open("#/compare?index=hostile&q=hostile")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# --- other queries ---------------------------------------------------------------------------------------------------


def test_choosing_an_index(tab: Tab) -> None:
    """Another of the served indexes can be chosen; the query stays."""
    page = tab.open("#/search?index=papers&q=copper")
    page.select_option("#index", "notes")
    expect(page.locator(".hit h3").first).to_contain_text("Note")
    assert "index=notes" in page.url
    expect(page.locator("#q")).to_have_value("copper")


def test_unknown_index(tab: Tab) -> None:
    """An address that names an index which is not served leads to those that are."""
    page = tab.open("#/search?index=gone&q=copper")
    expect(page.locator("main")).to_contain_text("There is no index gone here")
    page.get_by_role("link", name="papers").click()
    expect(page.locator(".hit")).to_have_count(10)


def test_words_with_weights(tab: Tab) -> None:
    """An index without an encoder takes words with weights, and says so in a sentence."""
    page = tab.open("#/search?index=words")
    expect(page.locator("#hint")).to_contain_text("This index has no encoder")
    with page.expect_request("**/search", timeout=5000) as request:
        page.fill("#q", "word1:2 word7 word7:0.5")
    assert request.value.post_data_json["terms"] == {"word1": 2, "word7": 1.5}
    expect(page.locator(".hit")).to_have_count(10)
    page.locator(".hit .why").first.click()
    expect(page.locator(".terms th[scope=row]").first).to_contain_text("word")


def test_vectors(tab: Tab) -> None:
    """An index of numbers takes vectors as JSON, in either form; what is not JSON yet is no error."""
    page = tab.open("#/search?index=vectors")
    expect(page.locator("#mode")).to_be_hidden()
    page.type("#q", '{"indices": [1, 2], ')
    expect(page.locator(".intro")).to_contain_text("not a vector as JSON yet")
    page.keyboard.press("End")
    page.keyboard.type('"values": [2, 1]}')
    expect(page.locator(".hit")).to_have_count(10)
    ids = tab.ids()
    tab.type('{"1": 2, "2": 1}')
    assert tab.ids() == ids


# --- compare, inside, index ------------------------------------------------------------------------------------------


def test_compare(tab: Tab) -> None:
    """Two settings side by side: what was lost, gained and moved, recall, work, and times of searches run again."""
    page = tab.open(VIEWS["compare"])
    a = page.locator(".list-a li a").all_inner_texts()
    b = page.locator(".list-b li a").all_inner_texts()
    recall = len(set(a) & set(b)) / len(a)
    assert 0 < recall < 1
    expect(page.locator(".recall")).to_contain_text(f"{100 * recall:.0f}% recall@10")
    assert set(page.locator(".list-a .lost a").all_inner_texts()) == set(a) - set(b)
    assert set(page.locator(".list-b .gained a").all_inner_texts()) == set(b) - set(a)
    assert page.locator(".lines path").count() == len(set(a) & set(b))
    expect(page.locator(".summary")).to_contain_text("B is partial")
    rows = page.locator(".work tbody tr").all()
    work = {row.locator("th").inner_text(): row.locator("td .number").all_inner_texts() for row in rows}
    assert work["Blocks scored"][1] == "1"
    assert list(work)[:2] == ["Time in the service", "Time in the core"]
    assert list(work)[2:] == ["Clusters visited", "Blocks scored", "Documents scored", "Postings read"]
    page.get_by_role("button", name="Run again ×20").click()
    expect(page.locator(".medians")).to_contain_text("of 21 searches", timeout=30_000)
    expect(page.get_by_role("button", name="Run again ×20")).to_be_visible()
    assert page.locator(".latency path.side-a").get_attribute("d").count("M") == 21


def test_compare_settings_and_indexes(tab: Tab) -> None:
    """Presets, options and another index change one side; the address has both."""
    page = tab.open("#/compare?index=papers&q=copper")
    page.get_by_role("button", name="exhaustive").click()
    tab.settle()
    assert "b.method=exhaustive" in page.url
    expect(page.locator(".recall")).to_contain_text("100%")
    page.select_option("#b-index", "notes")
    tab.settle()
    assert "b.index=notes" in page.url
    expect(page.locator(".list-b li a").first).to_contain_text("Note")
    expect(page.locator(".summary")).to_contain_text("10 lost, 10 gained")


def test_compare_starts_with_one_difference(tab: Tab) -> None:
    """With the same index, B has other settings than A; with another index, both are exact until somebody chooses."""
    page = tab.open("#/compare?index=papers&q=copper")
    expect(page.locator("#b-eta")).to_have_value("0.9")
    page.select_option("#b-index", "notes")
    tab.settle()
    assert "b.eta" not in page.url
    expect(page.locator("#b-eta")).to_have_value("")
    page.locator("#b-eta").fill("0.8")
    page.locator("#b-eta").press("Enter")
    tab.settle()
    assert "b.eta=0.8" in page.url
    assert "b.index=notes" in page.url
    page.select_option("#b-index", "papers")
    tab.settle()
    assert "b.index" not in page.url
    expect(page.locator("#b-eta")).to_have_value("0.8")


def test_inside_counts_the_start_of_a_word(tab: Tab) -> None:
    """The picture is of the query on the screen, whose last word may be the start of others."""
    page = tab.open("#/inside?index=papers&q=wavegu")
    expect(page.locator(".legend li b", has_text="visited")).to_be_visible()


def test_inside(tab: Tab) -> None:
    """The picture has a bar for every cluster, lines for θ and θ/μ, a legend, figures on request, and a table."""
    page = tab.open(VIEWS["inside"])
    assert page.locator(".clusters .sum").get_attribute("d").count("M") == 40
    drawn = sum(path.get_attribute("d").count("M") for path in page.locator(".clusters .max").all())
    assert drawn == 40
    assert [text.split(" = ")[0] for text in page.locator("text.theta").all_text_contents()] == ["θ", "θ/μ"]
    assert page.locator("line.theta").count() == 2
    legend = page.locator(".legend li b").all_inner_texts()
    assert set(legend) <= {"visited", "pruned", "stopped", "tied", "limited", "zero"}
    assert "visited" in legend
    expect(page.locator(".tiles")).to_contain_text("Blocks looked at")
    expect(page.locator(".tiles")).to_contain_text("of 2,000")
    page.locator(".chart").hover(position={"x": 60, "y": 200})
    expect(page.locator(".readout")).to_contain_text("number 1 by bound")
    page.locator(".chart").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".readout")).to_contain_text("number 2 by bound")
    assert "number 2 of 40" in page.locator(".chart").get_attribute("aria-valuetext")
    page.get_by_text("The same as a table").click()
    rows = page.locator("table.figures tbody tr")
    expect(rows).to_have_count(40)
    bounds = [float(row.locator("td").nth(3).inner_text().replace(",", "")) for row in rows.all()]
    assert bounds == sorted(bounds, reverse=True)
    page.get_by_role("link", name="first 30").click()
    tab.settle()
    assert page.locator(".clusters .sum").get_attribute("d").count("M") == 30


def test_inside_counts_documents_and_no_empty_places(tab: Tab) -> None:
    """No more documents were scored than were searched."""

    def counted(route: Any) -> None:
        answer = route.fetch().json()
        answer["stats"]["docs_scored"] = 2024
        route.fulfill(json=answer)

    tab.page.route("**/inside", counted)
    page = tab.open(VIEWS["inside"])
    expect(page.locator(".tiles")).to_contain_text("2,000 of 2,000, 100%")
    expect(page.get_by_role("status").filter(has_text="2,000 documents scored")).to_have_count(1)


def many_clusters(number: int) -> dict[str, Any]:
    """An answer about many clusters, as the service would give it."""
    decisions = ["visited", "tied", "limited", "pruned", "stopped", "zero"]
    clusters = [
        {
            "cluster": place, "num_docs": 8, "bound_sum": 2.0 * (number - place), "max_bound": 1.5 * (number - place),
            "avg_bound": 1.0 * (number - place), "best_score": 0.9 * (number - place),
            "decision": decisions[min(5, place * 6 // number)], "threshold": None, "num_hits": int(place < 10),
        }
        for place in range(number)
    ]  # fmt: skip
    counts = dict.fromkeys(messages.Stats.__struct_fields__, 1)
    return {
        "method": "asc", "clusters": clusters, "num_clusters": number, "final_threshold": 1.2 * number,
        "num_docs": 8 * number, "num_blocks": number, "part": None,
        "stats": {**counts, "budget_hit": False, "swept": False},
    }  # fmt: skip


@pytest.mark.parametrize("number", [1, 20_000])
def test_inside_of_few_and_many_clusters(tab: Tab, number: int) -> None:
    """One cluster and twenty thousand both make a picture that can be read, explored, and is there in no time."""
    tab.page.route("**/inside", lambda route: route.fulfill(json=many_clusters(number)))
    page = tab.open("#/inside?index=papers&q=copper")
    expect(page.locator(".clusters .sum")).to_have_attribute("d", re.compile("^M"))
    assert page.locator(".clusters .sum").get_attribute("d").count("M") <= 600
    page.locator(".chart").focus()
    page.keyboard.press("End")
    assert f"number {number:,} of {number:,}" in page.locator(".chart").get_attribute("aria-valuetext")
    if number > 1:
        expect(page.locator(".legend li b")).to_have_text(["visited", "tied", "limited", "pruned", "stopped", "zero"])
        page.get_by_text("The same as a table").click()
        expect(page.locator("table.figures tbody tr")).to_have_count(50)


def test_index_figures(tab: Tab) -> None:
    """The view of the index shows its sizes, bytes by component and clusters; of a collection also parts and log."""
    page = tab.open("#/index?index=vectors")
    expect(page.locator(".tiles")).to_contain_text("2,000")
    assert page.locator(".components tbody tr").count() > 5
    assert page.locator(".sizes .size").get_attribute("d").count("M") == 40
    page = tab.open("#/index?index=notes")
    expect(page.locator("main")).to_contain_text("Parts")
    expect(page.locator("main")).to_contain_text("Log")


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
def test_addresses_reproduce_the_screen(browser: Any, tab: Tab, address: str, view: str) -> None:
    """Whoever opens a copied address sees the same."""
    page = tab.open(VIEWS[view])
    shown = tab.text()
    assert len(shown) > 100
    other = new_tab(browser, address)
    other.page.goto(page.url)
    other.settle()
    assert other.text() == shown
    other.page.context.close()


def test_addresses_follow_what_is_done(browser: Any, tab: Tab, address: str) -> None:
    """After a walk through the page by mouse and keys, its address reproduces where the walk ended."""
    page = tab.open()
    page.select_option("#index", "papers")
    tab.type("silver amplifier ")
    value(page, "en").locator("input").check()
    page.get_by_role("button", name="Settings").click()
    page.select_option("#set-k", "20")
    page.fill("#set-eta", "0.8")
    page.press("#set-eta", "Enter")
    tab.settle()
    page.get_by_role("button", name="Settings").click()
    page.locator(".hit .why").nth(1).click()
    expect(page.locator(".verdict")).to_contain_text("Rank 2")
    tab.settle()
    other = new_tab(browser, address)
    other.page.goto(page.url)
    other.settle()
    assert other.text() == tab.text()
    other.page.context.close()


def test_broken_addresses(tab: Tab) -> None:
    """An address that somebody cut or mistyped still shows a page."""
    page = tab.open("#/nowhere?index=papers&q=copper&page=-3&k=x&in.lang=[&min.year=old&mu=2x&doc=")
    expect(page.locator(".hit")).to_have_count(10)


# --- keys of the service, and failures -------------------------------------------------------------------------------


def test_key_dialog(browser: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A service with keys is asked with one: the page asks for it, says when it is wrong, and keeps it for the tab."""
    keys = tmp_path / "keys.txt"
    keys.write_text(f"read {KEY}\n")
    keys.chmod(0o600)
    index = build_all(tmp_path_factory.mktemp("keys"))["papers"]
    with running(index, "--api-keys", keys) as address:
        tab = new_tab(browser, address)
        page = tab.open("#/search?index=papers&q=copper")
        expect(page.locator("#key")).to_be_visible()
        page.fill("#key-input", "wrong-wrong-wrong-wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#key-message")).to_contain_text("does not accept this key")
        page.fill("#key-input", KEY)
        page.keyboard.press("Enter")
        expect(page.locator(".hit")).to_have_count(10)
        expect(page.locator("#key")).to_be_hidden()
        assert KEY not in page.url
        page.reload()
        expect(page.locator(".hit")).to_have_count(10)
        page.evaluate("sessionStorage.clear()")
        page.reload()
        expect(page.locator("#key")).to_be_visible()
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#notice")).to_contain_text("This service needs a key.")
        page.get_by_role("button", name="Enter a key").click()
        expect(page.locator("#key")).to_be_visible()
        assert {urlsplit(address).netloc} == tab.origins
        page.context.close()


def test_problems_are_shown(failing_tab: Tab) -> None:
    """What the service says is wrong can be read, and what was there before stays."""
    page = failing_tab.open("#/search?index=papers&q=copper")
    page.get_by_role("button", name="Settings").click()
    page.select_option("#set-method", "sequential")
    page.fill("#set-eta", "0.5")
    page.press("#set-eta", "Enter")
    expect(page.locator("#notice")).to_contain_text("mu <= eta")
    expect(page.locator(".hit")).to_have_count(10)
    page.fill("#set-mu", "0.5")
    page.press("#set-mu", "Enter")
    expect(page.locator("#notice")).to_be_hidden()


def busy(route: Any) -> None:
    """Answer as a service does that has too much to do."""
    problem = {"type": "urn:segmax:problem:overloaded", "title": "Busy", "status": 503}
    body = json.dumps({**problem, "detail": "the service is overloaded."})
    route.fulfill(status=503, headers={"retry-after": "1"}, content_type="application/problem+json", body=body)


def test_busy_services_are_asked_again(failing_tab: Tab) -> None:
    """A service that is busy is asked once more without a word; after that, the page says so and offers to retry."""
    page = failing_tab.open("#/search?index=papers")
    asked: list[Any] = []

    def once(route: Any) -> None:
        asked.append(route)
        if len(asked) == 1:
            busy(route)
        else:
            route.continue_()

    page.route("**/search", once)
    page.fill("#q", "copper")
    expect(page.locator(".hit")).to_have_count(10)
    expect(page.locator("#notice")).to_be_hidden()
    assert len(asked) == 2
    page.unroute("**/search")
    page.route("**/search", busy)
    page.fill("#q", "silver")
    expect(page.locator("#notice")).to_contain_text("The service is overloaded. It asks to wait 1 s.")
    page.unroute("**/search")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator(".hit h3").first).to_contain_text("silver")


def test_unreachable_services(failing_tab: Tab) -> None:
    """Without a service the page says so, and goes on when it is back."""
    page = failing_tab.open("#/search?index=papers&q=copper")
    page.context.set_offline(True)
    page.fill("#q", "silver")
    expect(page.locator("#notice")).to_contain_text("The service cannot be reached. This device is offline.")
    expect(page.locator(".hit")).to_have_count(10)
    page.context.set_offline(False)
    expect(page.locator(".hit h3").first).to_contain_text("silver")
    expect(page.locator("#notice")).to_be_hidden()
    page.route("**/v1/**", lambda route: route.abort())
    page.reload()
    expect(page.locator("#notice")).to_contain_text("The service cannot be reached.")
    expect(page.locator("main")).not_to_be_empty()
    page.unroute("**/v1/**")
    expect(page.locator(".hit h3").first).to_contain_text("silver", timeout=10_000)


# --- looks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [360, 768, 1280, 2560])
def test_widths(browser: Any, address: str, width: int) -> None:
    """From a phone to a wide screen, nothing is wider than the window, in any view."""
    tab = new_tab(browser, address, viewport={"width": width, "height": 800})
    for view, place in VIEWS.items():
        page = tab.open(place)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
    assert tab.errors == []
    page.context.close()


def test_phones_have_filters_and_panels(browser: Any, address: str) -> None:
    """On a phone, filters fold away, and a document covers the page until it is closed."""
    tab = new_tab(browser, address, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = tab.open("#/search?index=papers&q=copper")
    expect(page.locator(".value").first).to_be_hidden()
    page.get_by_role("button", name="Filters").tap()
    value(page, "de").tap()
    expect(page.locator(".chip")).to_contain_text("de")
    page.locator(".hit a.open").first.tap()
    box = page.locator("#panel").bounding_box()
    assert (box["x"], box["width"], box["height"]) == (0, 360, 740)
    page.get_by_role("button", name="Close").tap()
    expect(page.locator("#panel")).to_be_hidden()
    page.context.close()


def lightness(page: Any) -> float:
    """Return how light the background is, from 0 to 255."""
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return statistics.mean(float(part) for part in re.findall(r"[\d.]+", color)[:3])


def test_themes(browser: Any, address: str) -> None:
    """The page follows the system's theme until somebody chooses one, which is remembered."""
    tab = new_tab(browser, address, color_scheme="dark")
    page = tab.open("#/search?index=papers&q=copper")
    assert lightness(page) < 60
    page.click("#theme")
    assert lightness(page) > 200
    page.reload()
    assert lightness(page) > 200
    expect(page.locator("#theme")).to_have_attribute("aria-pressed", "false")
    page.locator(".status").click()
    page.keyboard.press("d")
    assert lightness(page) < 60
    page.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_accessibility(browser: Any, address: str, theme: str, width: int) -> None:
    """Axe finds nothing serious in any view, in either theme, on a phone or a desk."""
    tab = new_tab(browser, address, color_scheme=theme, viewport={"width": width, "height": 900})
    axe = axe_module.Axe()
    for view, place in {**VIEWS, "help": "#/search?index=papers&q=copper"}.items():
        page = tab.open(place)
        if view == "help":
            page.click("#help-button")
        if view == "inside":
            page.get_by_text("The same as a table").click()
        found = axe.run(page).response["violations"]
        bad = [one for one in found if one["impact"] in ("serious", "critical")]
        assert not bad, (view, [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in bad])
    page.context.close()


def test_assets_are_small() -> None:
    """All files of the page together take less than 150 kB compressed, and no file refers to another site."""
    files = [file for file in PAGE.iterdir() if file.suffix in {".html", ".js", ".css", ".svg"}]
    sizes = {file.name: len(gzip.compress(file.read_bytes(), 9)) for file in files}
    print(f"{sum(sizes.values()) / 1000:.1f} kB compressed")  # noqa: T201
    assert {"index.html", "app.js", "style.css", "icon.svg"} <= set(sizes)
    assert sum(sizes.values()) < 150_000
    for file in files:
        others = re.findall(r"https?://[^\s\"'`)]+", file.read_text())
        assert set(others) <= {"http://www.w3.org/2000/svg"}, file.name


def test_modules_are_loaded_at_once() -> None:
    """The page names every module up front, so that none waits for another."""
    named = set(re.findall(r'modulepreload" href="page/(\w+\.js)"', (PAGE / "index.html").read_text()))
    assert named == {file.name for file in PAGE.glob("*.js")} - {"app.js", "theme.js"}
