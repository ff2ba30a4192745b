"""Pages in a headless Chromium: what they draw, what keys and buttons do, what they ask of the network."""

import base64
import re

import browser
import numpy as np
import pytest
from checked_headers import quick_params
from made_pages import DRAWN, every_drawn, needs_compiler, page_of, trained

from pufferlib.ocean import screen
from pufferlib.ocean.rendering import Drawing

pytestmark = [
    needs_compiler,
    pytest.mark.slow,
    pytest.mark.skipif(browser.PROGRAM is None, reason="needs Chromium"),
]
SECONDS = 120  # that a page may take for what takes a moment
MOMENTS = {3: 0.5, 40: 1.0, 110: 0.25}  # progress by step


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser.open_browser(str(tmp_path_factory.mktemp("browser"))) as tab:
        yield tab


def opened(tab, name, folder, hash="#seed=7", text=None, **shown):
    path = folder / "page.html"
    path.write_text(text or page_of(name))
    tab.show(**{"width": 1280, "height": 1000, **shown})
    tab.complaints.clear()
    tab.open(f"{path.as_uri()}{hash}")
    return path.as_uri()


def check_quiet(tab, uri):
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith((uri, "data:"))] == []


# --- pictures


@every_drawn
def test_pictures_are_those_of_the_window(name, tab, tmp_path):
    pytest.importorskip("raylib", reason="raylib is not installed")
    uri = opened(tab, name, tmp_path)
    env, _ = trained(name, num_envs=1)
    env.reset(seed=7)
    drawing = Drawing(name.removeprefix("puffer_"), env.binding.vec_env(env.handle, 0))
    width, height = drawing.size
    tab.run(f"puffer.advance = () => {{}}; const games = puffer.games; games.reset(0, 7n, 0n);"
            f"games.call.size_screen({width}, {height})")  # fmt: skip
    env.single_action_space.seed(0)
    opened_screen = screen.Screen(width, height, "test", is_visible=False)
    try:
        for step in range(1, max(MOMENTS) + 1):
            drawn = np.asarray([env.single_action_space.sample() for _ in range(env.num_agents)])
            actions = drawn.reshape(env.actions.shape).astype(env.actions.dtype)
            rows = actions.reshape(env.num_agents, -1).tolist()
            drawing.remember()
            env.step(actions)
            told = "{}.forEach((row, agent) => puffer.games.actionOf(agent).set(row)); puffer.games.step(1)"
            tab.run(told.format(rows))
            if step not in MOMENTS:
                continue
            opened_screen.begin()
            drawing.draw(progress=MOMENTS[step])
            expected = opened_screen.frame().astype(float)
            opened_screen.end()
            found = frame(tab, width, height, MOMENTS[step]).astype(float)
            assert abs(found - expected).mean() < 0.02 * 255, (step, abs(found - expected).mean())
            assert found.std() > 0.5 * expected.std()
    finally:
        opened_screen.close()
        env.close()
    check_quiet(tab, uri)


def frame(tab, width, height, progress):
    """What a page has drawn into its memory, `(height, width, 3)`."""
    text = tab.run(f"""(() => {{
        const games = puffer.games;
        games.call.draw(0, 0, 0, 1, {progress});
        const bytes = new Uint8Array(games.memory.buffer, games.at.pixels, {4 * width * height});
        let text = "";
        for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
        return btoa(text);
    }})()""")
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width, 4)[:, :, :3]


# --- playing


@every_drawn
def test_it_plays_without_a_complaint_or_a_request(name, tab, tmp_path):
    uri = opened(tab, name, tmp_path)
    wait(tab, "puffer.steps > 0")
    first = tab.picture()
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 3
    wait(tab, "puffer.steps > 12")
    for _ in range(100):
        if (tab.picture() != first).any():
            break
    else:
        pytest.fail("the picture stays the same")
    assert tab.run("document.getElementById('trouble').hidden")
    check_quiet(tab, uri)


@pytest.mark.parametrize("name", quick_params(DRAWN))
def test_its_keys_act(name, tab, tmp_path):
    uri = opened(tab, name, tmp_path)
    if not tab.run("puffer.keys !== null"):
        assert not tab.run("document.getElementById('lacking').hidden")
        return
    assert not tab.run("puffer.isPlaying")
    key = tab.run("puffer.keys.alone.find((name) => puffer.keys.action([name], null) !== null)")
    if key is None:
        pytest.skip("each of its actions takes two keys")
    expected = tab.run(f"[...puffer.keys.action(['{key}'], null)]")
    tab.run(f"""puffer.press({key!r}); puffer.isRunning = false;
        puffer.games.step = ((step) => (...given) => {{
            globalThis.taken ??= [...puffer.games.actionOf(0)];
            step.apply(puffer.games, given);
        }})(puffer.games.step);
        document.getElementById("step").click();  // to the end of the step that is shown
        document.getElementById("step").click()""")
    wait(tab, "globalThis.taken !== undefined")
    np.testing.assert_allclose(tab.run("taken"), expected, rtol=1e-6)
    check_quiet(tab, uri)


def wait(tab, truth):
    tab.run(
        f"new Promise((done, fail) => {{const look = () => {truth} ? done() : setTimeout(look, 20); look();"
        f"setTimeout(() => fail(new Error('waited too long')), {1000 * SECONDS})}})"
    )


def test_a_keyboard_alone_plays_and_controls(tab, tmp_path):
    uri = opened(tab, "puffer_breakout", tmp_path)
    tab.press("p", 80)
    assert not tab.run("puffer.isRunning")
    steps = tab.run("puffer.steps")
    tab.press(".", 190)
    wait(tab, "puffer.stopAt === null")
    assert tab.run("puffer.steps") <= steps + 1
    tab.press("+", 187)
    assert tab.run("puffer.speed") == 2
    tab.press("-", 189)
    tab.press("-", 189)
    assert tab.run("document.getElementById('speed').textContent") == "1/2×"
    tab.press("ArrowLeft", 37)
    assert tab.run("puffer.isPlaying && document.getElementById('play').getAttribute('aria-pressed')") == "true"
    tab.press("r", 82)
    assert tab.run("puffer.steps") == 0
    check_quiet(tab, uri)


def choose(tab, **players):
    for name, who in players.items():
        tab.run(f"(({{element}}) => {{element('{name}').value = '{who}';"
                f"element('{name}').dispatchEvent(new Event('change'))}})(puffer)")  # fmt: skip


def test_two_people_play_by_turns_at_one_keyboard(tab, tmp_path):
    uri = opened(tab, "puffer_connect4", tmp_path)
    choose(tab, first="person", second="person")
    assert tab.run("[...puffer.people, puffer.games.agents]") == [0, 1, 2]
    for count, (key, code) in enumerate([("4", 52), ("5", 53), ("4", 52)], start=1):
        wait(tab, "puffer.waits")
        moves = tab.run("document.querySelector('.moves select').id")
        assert moves == ("first" if tab.run("puffer.games.hasTurn(0)") else "second")
        tab.press(key, code)
        wait(tab, f"puffer.steps === {count}")
    discs = tab.run("[...puffer.games.observationOf(0)]")
    assert sorted(disc for disc in discs if disc) in ([1, 1, 2], [1, 2, 2])
    check_quiet(tab, uri)


def test_the_agent_plays_the_side_that_is_not_a_persons(tab, tmp_path):
    uri = opened(tab, "puffer_connect4", tmp_path)
    choose(tab, second="person")
    wait(tab, "puffer.steps > 0 || puffer.waits")
    wait(tab, "puffer.waits && puffer.games.hasTurn(1)")
    steps = tab.run("puffer.steps")
    tab.press("1", 49)
    wait(tab, f"puffer.steps >= {steps} + 2")  # the agent has answered
    assert tab.run("puffer.shown === 0 && puffer.element('first').value") == "agent"
    choose(tab, first="agent", second="bot")
    assert tab.run("[puffer.people.size, puffer.games.agents]") == [0, 1]
    wait(tab, "puffer.ended.length > 0")
    check_quiet(tab, uri)


def test_where_all_move_at_once_the_keys_are_one_persons(tab, tmp_path):
    opened(tab, "puffer_tron", tmp_path)
    choose(tab, first="person")
    choose(tab, second="person")
    assert tab.run("[...puffer.people]") == [1]
    assert tab.run("puffer.element('first').value") == "agent"
    choose(tab, second="agent")
    wait(tab, "puffer.ended.length > 0")
    assert tab.run("puffer.games.agents") == 2


def test_the_seed_in_the_address_is_the_game(tab, tmp_path):
    seen = []
    for seed in (11, 11, 12):
        opened(tab, "puffer_breakout", tmp_path, f"#seed={seed}")
        tab.run("puffer.advance = () => {}; puffer.restart(puffer.seed); for (let i = 0; i < 60; i++) puffer.step()")
        assert tab.run("location.hash") == f"#seed={seed}"
        seen.append(tab.run("[...puffer.games.observationOf(0)]"))
    assert seen[0] == seen[1] != seen[2]


def test_several_games_are_drawn_side_by_side(tab, tmp_path):
    uri = opened(tab, "puffer_breakout", tmp_path, "#seed=7&games=16")
    wait(tab, "puffer.steps > 5")
    picture = tab.picture()
    rows, columns = picture.shape[0] // 4, picture.shape[1] // 4
    for index in range(16):
        part = picture[index // 4 * rows :, index % 4 * columns :][:rows, :columns]
        assert part.std() > 10, index
    assert tab.run("document.getElementById('count').value") == "16"
    check_quiet(tab, uri)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("is_dark", [False, True])
def test_it_fits_screens_in_light_and_dark(width, is_dark, tab, tmp_path):
    opened(tab, "puffer_breakout", tmp_path, width=width, height=844, is_dark=is_dark, is_phone=width == 390)
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.getElementById('keys').getBoundingClientRect().bottom") <= 844 or width > 390
    ground = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == is_dark


def test_a_finger_holds_a_key(tab, tmp_path):
    uri = opened(tab, "puffer_breakout", tmp_path, width=390, height=844, is_phone=True)
    place = tab.run("(({x, y}) => [x + 9, y + 9])(document.querySelector('#keys button').getBoundingClientRect())")
    point = [{"x": place[0], "y": place[1]}]
    tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=point)
    assert tab.run("puffer.isPlaying && [...puffer.held]") == ["left"]
    tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert tab.run("[...puffer.held]") == []
    check_quiet(tab, uri)


def test_a_gamepad_plays(tab, tmp_path):
    opened(tab, "puffer_breakout", tmp_path)
    pad = "{axes: [%s, 0], buttons: Array.from({length: 16}, () => ({pressed: false}))}"
    tab.run(f"navigator.getGamepads = () => [{pad % 1}]; puffer.gamepad()")
    assert tab.run("puffer.isPlaying && [...puffer.held]") == ["right"]
    tab.run(f"navigator.getGamepads = () => [{pad % 0}]; puffer.gamepad()")
    assert tab.run("[...puffer.held]") == []


def test_every_control_has_a_name(tab, tmp_path):
    opened(tab, "puffer_breakout", tmp_path)
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    roles = ("button", "textbox", "combobox", "checkbox", "image")
    found = [node for node in nodes if not node["ignored"] and node["role"]["value"] in roles]
    assert len(found) > 10
    assert [node for node in found if not node.get("name", {}).get("value")] == []


# --- bad files


@pytest.mark.parametrize("damage", ["cut", "changed", "other sizes"])
def test_a_damaged_file_says_so(damage, tab, tmp_path):
    text = page_of("puffer_squared")
    place = text.index('id="payload"') + 5000
    changed = {
        "cut": text[:place],
        "changed": f"{text[:place]}AAAAAAAA{text[place + 8 :]}",
        "other sizes": text.replace('"sizes": [', '"sizes": [1'),
    }[damage]
    opened(tab, "puffer_squared", tmp_path, text=changed)
    assert re.search("get the file once more", tab.run("document.getElementById('trouble').textContent"))
    assert not tab.run("document.getElementById('trouble').hidden") and tab.run(
        "document.getElementById('game').hidden"
    )


def test_a_browser_that_lacks_what_it_takes_is_told(tab, tmp_path):
    text = page_of("puffer_squared").replace("<head>", "<head><script>delete globalThis.DecompressionStream</script>")
    opened(tab, "puffer_squared", tmp_path, text=text)
    assert "open it in one of 2023 or later" in tab.run("document.getElementById('trouble').textContent")
