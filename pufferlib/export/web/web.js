// web.js - plays an environment by its agent or a person in a page. Games and Keys know nothing of the page, and run in
// Node as well; `start` at the end is the page.
"use strict";

const ARRAYS = {float32: Float32Array, uint8: Uint8Array, int8: Int8Array, int32: Int32Array, int16: Int16Array};
const ADDRESSES = ["observations", "actions", "rewards", "terminals", "truncations", "pixels", "logits", "values", "title", "logged", "weights", "turns"];
const NUMBERS = ["games", "agents", "observation", "action", "logits", "logitsRow", "maxPixels", "width", "height", "numLogged"];
const ASCENT = 1900, LINE = 2400, EM = 2048;  // of the font; raylib's sizes are from line to line
const LETTERS = [...Array.from({length: 95}, (_, i) => 32 + i), 0xB0, 0xB1, 0xB7, 0xD7, 0x2013, 0x2026];

// The module, the font and the weights out of the page's text.
async function unpack(payload, facts) {
    const packed = Uint8Array.from(atob(payload), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    let place = 0;
    const [module, font, low, high, whole] = facts.sizes.map((size) => bytes.slice(place, place += size));
    if (bytes.length !== place) throw new Error("its parts have other sizes than it says");
    return {module, font, low, high, whole: new Float32Array(whole.buffer)};
}

// What C's printf writes: the conversions that pictures use.
function formatted(memory, format, at) {
    const view = new DataView(memory.buffer);
    const next = (size) => {  // the place of the next argument
        at = Math.ceil(at / size) * size + size;
        return at - size;
    };
    return format.replace(/%([-+ 0#]*)(\d+|\*)?(?:\.(\d+|\*))?(?:hh|h|ll|l|z)?([diucsxXfgeG%])/g, (all, flags, width, precision, kind) => {
        if (kind === "%") return "%";
        if (width === "*") width = view.getInt32(next(4), true);
        if (precision === "*") precision = view.getInt32(next(4), true);
        const isLong = /ll/.test(all);
        let text, sign = "";
        if (kind === "s") text = textAt(memory, view.getUint32(next(4), true)).slice(0, precision);
        else if (kind === "c") text = String.fromCharCode(view.getInt32(next(4), true));
        else if ("diuxX".includes(kind)) {
            let number = isLong ? view.getBigInt64(next(8), true) : view.getInt32(next(4), true);
            if (!"di".includes(kind) && !isLong) number >>>= 0;
            sign = number < 0 ? "-" : "";
            text = (number < 0 ? -number : number).toString("xX".includes(kind) ? 16 : 10);
            if (kind === "X") text = text.toUpperCase();
        } else {
            const number = view.getFloat64(next(8), true);
            sign = number < 0 || Object.is(number, -0) ? "-" : "";
            text = decimal(Math.abs(number), kind, precision === undefined ? 6 : +precision);
        }
        if (!sign && "dfgeG".includes(kind)) sign = flags.includes("+") ? "+" : flags.includes(" ") ? " " : "";
        const room = Math.max(0, (+width || 0) - sign.length);
        if (flags.includes("-")) return (sign + text).padEnd(+width || 0);
        return flags.includes("0") && kind !== "s" ? sign + text.padStart(room, "0") : (sign + text).padStart(+width || 0);
    });
}

function decimal(number, kind, precision) {
    if (!isFinite(number)) return isNaN(number) ? "nan" : "inf";
    if (kind === "f") return number.toFixed(precision);
    if (kind === "e") return number.toExponential(precision).replace(/e([-+])(\d)$/, "e$10$2");
    const exponent = number === 0 ? 0 : +number.toExponential(Math.max(precision, 1) - 1).split("e")[1];
    if (exponent >= -4 && exponent < precision) return String(+number.toFixed(Math.max(precision, 1) - 1 - exponent));
    return number.toExponential(Math.max(precision, 1) - 1).replace(/\.?0*e([-+])(\d)$/, "e$10$2");
}

function textAt(memory, at) {
    const bytes = new Uint8Array(memory.buffer, at);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
}

// Several games of one environment, stepped together.
class Games {
    // `glyphs(pixels)` returns a letter's {code, advance, left, top, width, height, coverage} for each of LETTERS.
    static async make(parts, facts, glyphs = null) {
        const games = new Games();
        const drawn = new Map();
        const functions = {
            remainder: (x, y) => x % y,
            format: (to, size, format, given) => {
                const bytes = new TextEncoder().encode(formatted(games.memory, textAt(games.memory, format), given));
                new Uint8Array(games.memory.buffer).set([...bytes.slice(0, size - 1), 0], to);
            },
            glyphs: (pixels) => {
                if (glyphs === null) return 0;
                if (!drawn.has(pixels)) drawn.set(pixels, games.keepGlyphs(glyphs(pixels)));
                return drawn.get(pixels);
            },
        };
        const mathematics = Object.fromEntries(Object.getOwnPropertyNames(Math).map((name) => [name, Math[name]]));
        const made = await WebAssembly.instantiate(parts.module, {Math: mathematics, page: functions});
        games.call = made.instance.exports;
        games.memory = games.call.memory;
        games.facts = facts;
        games.open(facts.players);
        games.at = Object.fromEntries(ADDRESSES.map((name, i) => [name, games.call.address(i)]));
        games.title = textAt(games.memory, games.at.title);
        games.logged = textAt(games.memory, games.at.logged).trim().split(" ");
        games.stepsPerSecond = games.call.steps_per_second();
        games.setWeights(parts, facts.tables);
        games.call.begin(0n);
        return games;
    }

    // Makes the games anew. Those for several players have 1 agent, who plays against the bot, or 2 and more.
    open(players) {
        if (this.call.open(players ?? 0) !== 0) throw new Error("the environment is not that of the policy");
        this.reset(0, 0n, 0n);
        NUMBERS.forEach((name, i) => this[name] = this.call.number(i));
    }

    setWeights({low, high, whole}, tables) {
        let short = 0, long = 0;
        for (const [offset, count, scale] of tables) {
            const weights = new Float32Array(this.memory.buffer, this.at.weights + 4 * offset, count);
            for (let i = 0; i < count; i++) {
                weights[i] = scale === 0 ? whole[long++] : scale * ((low[short] | high[short++] << 8) << 16 >> 16);
            }
        }
    }

    keepGlyphs(glyphs) {
        const bytes = glyphs.reduce((sum, glyph) => sum + glyph.coverage.length, 28 * glyphs.length);
        const at = this.memory.grow(Math.ceil(bytes / 65536)) * 65536;
        const view = new DataView(this.memory.buffer);
        let place = at + 28 * glyphs.length;
        glyphs.forEach((glyph, i) => {
            const numbers = [glyph.code, glyph.advance, glyph.left, glyph.top, glyph.width, glyph.height, place];
            numbers.forEach((number, j) => view.setInt32(at + 28 * i + 4 * j, number, true));
            new Uint8Array(this.memory.buffer).set(glyph.coverage, place);
            place += glyph.coverage.length;
        });
        return at;
    }

    rows(name, agent, width, type) {
        const array = ARRAYS[type];
        return new array(this.memory.buffer, this.at[name] + agent * width * array.BYTES_PER_ELEMENT, width);
    }

    get actionType() { return this.facts.is_box ? "float32" : "int32"; }
    observationOf(agent) { return this.rows("observations", agent, this.observation, this.facts.observation.type); }
    actionOf(agent) { return this.rows("actions", agent, this.action, this.actionType); }
    logitsOf(agent) { return this.rows("logits", agent, this.logitsRow, "float32").subarray(0, this.logits); }
    valueOf(agent) { return this.rows("values", agent, 1, "float32")[0]; }
    rewardOf(agent) { return this.rows("rewards", agent, 1, "float32")[0]; }
    hasTurn(agent) { return this.at.turns === 0 || this.rows("turns", agent, 1, "uint8")[0] === 1; }
    hasEnded(agent) { return this.rows("terminals", agent, 1, "uint8")[0] + this.rows("truncations", agent, 1, "uint8")[0] > 0; }

    // A game begins with the random numbers of environment `index` of a vector with that seed.
    reset(game, seed, index) { this.call.reset(game, seed, index); }
    act(games, isSampled) { this.call.act(games, isSampled ? 1 : 0); }
    step(games, isKept = true) { this.call.step(games, isKept ? 1 : 0); }

    // What a game says of the episodes that ended since the last call: their means and their number n; or null.
    finished(game) {
        const log = new Float32Array(this.memory.buffer, this.call.log_of(game), this.numLogged + 1), n = log[this.numLogged];
        if (n === 0) return null;
        const found = Object.fromEntries(this.logged.map((name, i) => [name, log[i] / n]));
        log.fill(0);
        return {...found, n};
    }
}

const ARROWS = {w: "up", a: "left", s: "down", d: "right"};

// The actions of one agent by the keys that are held.
class Keys {
    constructor(facts) {
        this.facts = facts;
        this.chords = facts.keys.actions;  // the keys of each, and a row of the action space
        const used = new Set(this.chords.flatMap(([names]) => names));
        this.arrows = Object.fromEntries(Object.entries(ARROWS).filter(([letter, arrow]) => !used.has(letter) && used.has(arrow)));
        this.alone = this.chords.filter(([names]) => names.length === 1).map(([names]) => names[0]);
        this.names = new Set([...used, ...Object.keys(this.arrows)]);
        this.waits = facts.keys.waits;
        this.isChoice = facts.parts.length === 1;
        this.idle = facts.keys.idle;
        if (!this.idle.length && !this.isChoice) this.idle = [this.chords[0][1].map(() => 0)];
    }

    // A row of the action space; null where nothing moves without a key.
    action(held, last) {
        const down = new Set([...held].map((name) => this.arrows[name] || name));
        for (const pair of [["left", "right"], ["up", "down"]]) {
            if (pair.every((name) => down.has(name))) pair.forEach((name) => down.delete(name));
        }
        let chords = this.chords.filter(([names]) => names.every((name) => down.has(name)));
        const isIn = (one, other) => one.length < other.length && one.every((name) => other.includes(name));
        chords = chords.filter(([names]) => !chords.some(([others]) => isIn(names, others)));
        if (!chords.length) return this.without(last);
        if (this.isChoice) return chords.reduce((best, chord) => chord[0].length > best[0].length ? chord : best)[1];
        const idle = this.idle[0], row = [...idle];
        for (const [, action] of chords) {
            action.forEach((number, i) => {
                if (number !== idle[i]) row[i] = this.facts.is_box ? number + row[i] - idle[i] : number;
            });
        }
        return this.facts.is_box ? row.map((x, i) => Math.min(Math.max(x, this.facts.low[i]), this.facts.high[i])) : row;
    }

    without(last) {
        if (this.waits) return null;
        if (!this.idle.length) return last || this.chords[0][1];
        const turn = this.idle.findIndex((row) => last && row.every((number, i) => number === last[i]));
        return this.idle[(turn + 1) % this.idle.length];
    }
}

// ------------------------------------------------------------------------------------------------------------- page

const SLOWEST = 1 / 8, FASTEST = 64, MAX_STEPS = 64, TRACES = 134;
const KEY_NAMES = {ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", " ": "space", Enter: "enter",
    PageUp: "page_up", PageDown: "page_down"};
const DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const SIGNS = {left: "◀", right: "▶", up: "▲", down: "▼", ...Object.fromEntries(DIGITS.map((name, i) => [name, String(i)]))};

function keyName(event) {
    return KEY_NAMES[event.key] || (/^\d$/.test(event.key) ? DIGITS[event.key] : event.key.toLowerCase());
}

// Letters as raylib has them: boxes of whole pixels, advances cut to whole pixels.
function letterMaker() {
    const canvas = document.createElement("canvas");
    const context = canvas.getContext("2d", {willReadFrequently: true});
    return (pixels) => {
        const cell = Math.ceil(1.4 * pixels) + 4, columns = 12, margin = Math.ceil(0.2 * pixels) + 1;
        canvas.width = cell * columns;
        canvas.height = cell * Math.ceil(LETTERS.length / columns);
        const font = (size) => context.font = `${size}px puffer`;
        font(EM);
        const advances = LETTERS.map((code) => Math.floor(context.measureText(String.fromCharCode(code)).width * pixels / LINE));
        font(pixels * EM / LINE);
        const base = Math.floor(ASCENT * pixels / LINE);
        LETTERS.forEach((code, i) => {
            context.fillText(String.fromCharCode(code), i % columns * cell + margin, Math.floor(i / columns) * cell + base + 1);
        });
        return LETTERS.map((code, i) => {
            const {data} = context.getImageData(i % columns * cell, Math.floor(i / columns) * cell, cell, cell);
            const coverage = data.filter((_, j) => j % 4 === 3);
            return {code, advance: advances[i], left: -margin, top: -1, width: cell, height: cell, coverage};
        });
    };
}

// Where an observation is a picture, as the window has it: its size, and how far apart its numbers lie; else null.
function pictureOf({type, shape}) {
    const [first, second, third] = shape;
    let picture = null;
    if (shape.length === 2) picture = {rows: first, columns: second, row: second, column: 1, channel: 0, begin: 0};
    else if (shape.length === 3 && (third === 1 || third === 3)) {
        picture = {rows: first, columns: second, row: second * third, column: third, channel: third === 3 ? 1 : 0, begin: 0};
    } else if (shape.length === 3 && first <= 4) {  // colours before each other, or the newest of several pictures
        const size = second * third, isColored = first === 3;
        picture = {rows: second, columns: third, row: third, column: 1, channel: isColored ? size : 0, begin: isColored ? 0 : (first - 1) * size};
    }
    return type === "uint8" && picture !== null && Math.min(picture.rows, picture.columns) >= 16 ? picture : null;
}

function drawPicture(canvas, seen, {rows, columns, row, column, channel, begin}) {
    const image = new ImageData(columns, rows);
    for (let i = 0; i < rows * columns; i++) {
        const at = begin + Math.floor(i / columns) * row + i % columns * column;
        image.data.set([seen[at], seen[at + channel], seen[at + 2 * channel], 255], 4 * i);
    }
    Object.assign(canvas, {width: columns, height: rows});
    canvas.getContext("2d").putImageData(image, 0, 0);
}

function softmax(logits) {
    const most = Math.max(...logits);
    if (most === -Infinity) return Array.from(logits, () => 0);  // of an agent that waits
    const shares = Array.from(logits, (logit) => Math.exp(logit - most));
    const sum = shares.reduce((total, share) => total + share, 0);
    return shares.map((share) => share / sum);
}

class Page {
    constructor(games, facts, element) {
        Object.assign(this, {games, facts, element});
        this.canvas = element("screen");
        this.context = this.canvas.getContext("2d", {alpha: false});
        this.keys = facts.keys === null ? null : new Keys(facts);
        this.held = new Set();
        this.touched = new Set();
        this.pressed = [];  // in a game of turns: keys that are still to be played, a step each
        this.people = new Set();  // the agents of the first game whose actions are a person's
        Object.assign(this, {count: 1, speed: 1, isRunning: true, isSampled: true, last: null, players: facts.players});
        this.name = `pufferlib ${games.title}`;
        this.metric = games.logged.includes("score") ? "score" : games.logged[0];
        this.controls();
        if (parent !== globalThis) element("panel").open = false;  // within another page there is little room
        const asked = new URLSearchParams(location.hash.slice(1));
        this.choose(Number(asked.get("games")) || 1);
        this.restart(/^\d{1,18}$/.test(asked.get("seed") || "") ? BigInt(asked.get("seed")) : BigInt(Math.floor(Math.random() * 1e6)));
        new ResizeObserver(() => this.fit()).observe(element("stage"));
        let before = performance.now();
        const frame = (now) => {
            this.advance(Math.min(Math.max(now - before, 0) / 1000, 0.1));  // the first frame may be of before
            before = now;
            requestAnimationFrame(frame);
        };
        requestAnimationFrame(frame);
    }

    // -------------------------------------------------------------------------------------------------------- games

    restart(seed) {
        this.seed = seed;
        for (let game = 0; game < this.count; game++) this.games.reset(game, seed, BigInt(game));
        this.games.call.begin(seed);
        Object.assign(this, {position: 0, steps: 0, running: Array(this.count).fill(0), ended: [], traces: [], last: null, stopAt: null});
        this.element("seed").value = String(seed);
        history.replaceState(null, "", `#seed=${seed}${this.count > 1 ? `&games=${this.count}` : ""}`);
        this.fit();
        this.tell();
    }

    choose(count) {
        this.count = Math.min(Math.max(1, Math.floor(count)), this.games.games);
        this.element("count").value = String(this.count);
    }

    get isPlaying() { return this.people.size > 0; }
    get waits() { return this.isPlaying && this.keys.waits && !this.pressed.length && this.movers().length > 0; }

    // Whether agents play against each other, so that all their rewards together say nothing.
    get isMatch() { return this.games.agents > 1 && this.games.at.turns !== 0; }

    // The agent that the panel tells of.
    get shown() { return this.games.agents > 1 && this.people.has(0) && !this.people.has(1) ? 1 : 0; }

    // The people whose turn it is.
    movers() { return [...this.people].filter((agent) => this.games.hasTurn(agent)); }

    // Lets time pass: makes the steps that are due, and draws the moment.
    advance(seconds) {
        this.gamepad();
        const isStepping = this.stopAt !== null;
        if (this.isRunning || isStepping) {
            const wanted = this.position + seconds * this.speed * this.games.stepsPerSecond;
            const limit = this.waits ? Math.min(wanted, this.steps) : wanted;
            this.position = isStepping ? Math.min(limit, this.stopAt) : limit;
            if (isStepping && this.position >= this.stopAt) this.stopAt = null;
            let made = 0;
            for (; this.steps < Math.ceil(this.position) && made < MAX_STEPS && !this.waits; made++) this.step();
            this.position = Math.min(this.position, this.steps);
            if (made > 0) this.tell();
        }
        this.draw();
    }

    step() {
        const {games} = this;
        games.act(this.count, this.isSampled);
        this.trace();
        this.actByKeys();
        games.step(this.count);
        this.steps += 1;
        for (let game = 0; game < this.count; game++) this.score(game);
    }

    // Puts a person's action in the place of the agent's.
    actByKeys() {
        const movers = this.movers();
        if (!movers.length) return;
        const keys = this.keys.waits ? [this.pressed.shift()] : this.held.size ? this.held : this.touched;
        const action = this.keys.action(keys, this.last);
        this.touched = new Set();
        if (action === null) return;
        this.last = action;
        for (const agent of movers) this.games.actionOf(agent).set(action);
    }

    score(game) {
        const {games, isMatch} = this, first = game * games.agents, counted = isMatch ? 1 : games.agents;
        for (let agent = first; agent < first + counted; agent++) this.running[game] += games.rewardOf(agent);
        const finished = games.finished(game);
        if (finished === null) return;
        const score = isMatch ? this.running[game] : finished[this.metric];
        this.ended.push(score);
        if (game === 0 && this.isPlaying && !isMatch) this.keepHigh(score);
        this.running[game] = 0;
    }

    keepHigh(score) {
        const high = this.high();
        try {
            if (high === null || score > high) localStorage.setItem(this.name, String(score));
        } catch { /* a page that may keep nothing has no high score */ }
    }

    high() {
        try {
            const found = localStorage.getItem(this.name);
            return found === null || !isFinite(found) ? null : Number(found);
        } catch {
            return null;
        }
    }

    // ------------------------------------------------------------------------------------------------------ picture

    // Makes the screen as large as its place on the page, or as memory allows; several games lie in rows.
    fit() {
        const {games} = this, columns = Math.ceil(Math.sqrt(this.count)), rows = Math.ceil(this.count / columns);
        const gap = this.count > 1 ? 8 : 0, wide = columns * (games.width + gap) - gap, high = rows * (games.height + gap) - gap;
        const room = Math.min(this.element("stage").clientWidth, 0.8 * Math.max(innerHeight, 300) * wide / high, Math.max(wide, 640));
        const dense = Math.min(devicePixelRatio || 1, 2) * room / wide;
        const scale = Math.min(dense, Math.sqrt(0.98 * games.maxPixels / (wide * high)));
        this.layout = {columns, scale, gap};
        const width = Math.max(1, Math.ceil(wide * scale)), height = Math.max(1, Math.ceil(high * scale));
        if (!games.call.size_screen(width, height)) throw new Error("the screen is too large");
        if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, {width, height});
        this.canvas.style.width = `${room}px`;
        this.image = null;
        this.draw();
    }

    draw() {
        if (!this.layout) return;
        const {games, layout: {columns, scale, gap}} = this;
        const progress = this.steps === 0 ? 1 : Math.max(0, 1 - (this.steps - this.position));
        for (let game = 0; game < this.count; game++) {
            const x = game % columns * (games.width + gap) * scale, y = Math.floor(game / columns) * (games.height + gap) * scale;
            games.call.draw(game, Math.round(x), Math.round(y), scale, progress);
        }
        const {width, height} = this.canvas;
        if (this.image === null || this.image.data.buffer !== games.memory.buffer) {
            const pixels = new Uint8ClampedArray(games.memory.buffer, games.at.pixels, 4 * width * height);
            this.image = new ImageData(pixels, width, height);
        }
        this.context.putImageData(this.image, 0, 0);
    }

    // -------------------------------------------------------------------------------------------------------- words

    trace() {
        this.traces.push(this.games.valueOf(this.shown));
        if (this.traces.length > TRACES) this.traces.shift();
    }

    tell() {
        const {games, element} = this, number = (x) => String(+Number(x).toPrecision(5));
        const mean = this.ended.slice(-20).reduce((sum, score) => sum + score, 0) / Math.min(this.ended.length, 20);
        const high = this.high();
        element("return").textContent = number(this.running[0] || 0);
        element("last").textContent = this.ended.length ? number(this.ended[this.ended.length - 1]) : "–";
        element("mean").textContent = this.ended.length ? `${number(mean)} of ${Math.min(this.ended.length, 20)}` : "–";
        element("high").textContent = high === null ? "–" : number(high);
        element("pause").textContent = this.isRunning ? "Pause" : "Resume";
        element("speed").textContent = `${this.speed >= 1 ? this.speed : `1/${1 / this.speed}`}×`;
        element("play").textContent = this.isPlaying ? "Let the agent play" : "Play yourself";
        element("play").setAttribute("aria-pressed", String(this.isPlaying));
        document.body.classList.toggle("playing", this.isPlaying);
        const turn = this.facts.players === null ? "" : this.tellPlayers();
        const told = `${games.title}, ${this.isPlaying ? "you play" : "the agent plays"}${turn}; ${this.ended.length} episodes ended`;
        if (element("told").textContent !== told) element("told").textContent = told;
        if (this.traces.length && element("panel").open) this.panel();
    }

    // Shows who plays, and whose turn it is, which it returns in words.
    tellPlayers() {
        const {element, games} = this, turn = this.isMatch && this.keys.waits ? [0, 1].findIndex((agent) => games.hasTurn(agent)) : -1;
        ["first", "second"].forEach((name, agent) => {
            element(name).value = this.people.has(agent) ? "person" : agent > 0 && this.players === 1 ? "bot" : "agent";
            element(name).parentElement.classList.toggle("moves", agent === turn);
        });
        return turn < 0 ? "" : `, player ${turn + 1} is to move`;
    }

    panel() {
        const {games, element, facts, shown} = this;
        const brush = (name) => {
            const canvas = element(name), dense = devicePixelRatio || 1, style = getComputedStyle(canvas);
            Object.assign(canvas, {width: canvas.clientWidth * dense, height: canvas.clientHeight * dense});
            const context = canvas.getContext("2d");
            context.scale(dense, dense);
            return {context, width: canvas.clientWidth, height: canvas.clientHeight, color: style.color, muted: style.borderTopColor};
        };
        const bars = ({context, width, height, color, muted}, numbers, taken = -1) => {
            const most = Math.max(1e-9, ...numbers.map(Math.abs)), isSigned = numbers.some((x) => x < 0), wide = width / numbers.length;
            const zero = isSigned ? height / 2 : height, reach = isSigned ? height / 2 : height;
            numbers.forEach((number, i) => {
                const tall = reach * Math.abs(number) / most;
                context.fillStyle = i === taken ? muted : color;
                context.fillRect(i * wide, number < 0 ? zero : zero - tall, Math.max(wide - (wide > 3 ? 1 : 0), 0.5), Math.max(tall, 0.5));
            });
        };
        const seen = games.observationOf(shown), picture = pictureOf(facts.observation);
        element("seen").classList.toggle("picture", picture !== null);
        if (picture === null) bars(brush("seen"), this.pooled(seen, 256));
        else drawPicture(element("seen"), seen, picture);
        const logits = games.logitsOf(shown), action = games.actionOf(shown), lines = [];
        let place = 0;
        facts.parts.forEach((choices, part) => {
            const shares = softmax(logits.subarray(place, place += choices));
            const ranked = shares.map((chance, i) => [chance, i]).sort((one, other) => other[0] - one[0]).slice(0, facts.parts.length > 1 ? 3 : 8);
            const shown = choices <= 8 ? ranked.sort((one, other) => one[1] - other[1]) : ranked;
            shown.forEach(([chance, i]) => lines.push([this.actionName(part, i), chance, action[part] === i]));
        });
        if (facts.is_box) action.forEach((x, i) => lines.push([`${i}: ${x.toFixed(2)}`, (x - facts.low[i]) / (facts.high[i] - facts.low[i]), false]));
        const list = element("chances");
        while (list.children.length > lines.length) list.lastChild.remove();
        while (list.children.length < lines.length) list.append(document.createElement("li"));
        lines.forEach(([name, chance, isTaken], i) => {
            const line = list.children[i];
            line.textContent = facts.is_box ? name : `${name} ${(100 * chance).toFixed(0)}%`;
            line.style.setProperty("--share", String(Math.min(Math.max(chance, 0), 1)));
            line.classList.toggle("taken", isTaken);
        });
        const values = brush("values"), low = Math.min(...this.traces), high = Math.max(...this.traces);
        element("value").textContent = this.traces[this.traces.length - 1].toFixed(3);
        values.context.strokeStyle = values.color;
        values.context.beginPath();
        this.traces.forEach((value, i) => {
            const y = values.height - 2 - (values.height - 4) * (high > low ? (value - low) / (high - low) : 0.5);
            values.context.lineTo(i / (TRACES - 1) * values.width, y);
        });
        values.context.stroke();
    }

    // At most so many numbers: of neighbours that share a place the furthest from 0, beside the largest that it was so far.
    pooled(seen, most) {
        const share = Math.ceil(seen.length / most), heights = [];
        this.largest ??= new Float64Array(seen.length);
        seen.forEach((x, i) => {
            const size = Math.abs(x), place = Math.floor(i / share);
            if (size > this.largest[i]) this.largest[i] = size;
            const height = size > 0 && isFinite(size) ? x / this.largest[i] : 0;
            if (!(Math.abs(height) <= Math.abs(heights[place]))) heights[place] = height;
        });
        return heights;
    }

    actionName(part, choice) {
        if (this.keys === null || this.facts.parts.length > 1) return this.facts.parts.length > 1 ? `${part}.${choice}` : String(choice);
        const found = this.keys.chords.find(([, row]) => row[0] === choice);
        return found ? found[0].join("+") : this.keys.idle.some((row) => row[0] === choice) ? "none" : String(choice);
    }

    // ----------------------------------------------------------------------------------------------------- controls

    controls() {
        const {element} = this;
        const commands = {
            play: () => this.take(!this.isPlaying),
            pause: () => this.isRunning = !this.isRunning,
            step: () => {
                this.isRunning = false;
                this.stopAt = Math.floor(this.stopAt === null ? this.position + 1e-6 : this.stopAt) + 1;
            },
            slower: () => this.speed = Math.max(this.speed / 2, SLOWEST),
            faster: () => this.speed = Math.min(this.speed * 2, FASTEST),
            restart: () => this.restart(this.seed),
        };
        this.shortcuts = {p: "pause", ".": "step", "-": "slower", "+": "faster", "=": "faster", r: "restart"};
        const run = (name) => {
            commands[name]();
            this.tell();
        };
        for (const name of Object.keys(commands)) element(name).addEventListener("click", () => run(name));
        element("count").addEventListener("change", (event) => {
            this.choose(Number(event.target.value));
            this.restart(this.seed);
        });
        element("seed").addEventListener("change", (event) => {
            if (/^\d{1,18}$/.test(event.target.value)) this.restart(BigInt(event.target.value));
            else event.target.value = String(this.seed);
        });
        element("sampled").addEventListener("change", (event) => this.isSampled = event.target.checked);
        for (const name of ["first", "second"]) element(name).addEventListener("change", () => this.seat(name));
        element("panel").addEventListener("toggle", () => this.tell());
        addEventListener("hashchange", () => {
            const asked = new URLSearchParams(location.hash.slice(1)).get("seed");
            if (/^\d{1,18}$/.test(asked || "") && BigInt(asked) !== this.seed) this.restart(BigInt(asked));
        });
        addEventListener("blur", () => this.held.clear());
        addEventListener("keyup", (event) => this.held.delete(keyName(event)));
        addEventListener("keydown", (event) => {
            if (event.ctrlKey || event.altKey || event.metaKey) return;
            const name = keyName(event), tag = event.target.tagName || "";
            if (tag === "INPUT" || tag === "SELECT") return;
            if (["BUTTON", "SUMMARY"].includes(tag) && ["space", "enter"].includes(name)) return;
            const isOfGame = this.keys !== null && this.keys.names.has(name);
            if (isOfGame) {
                event.preventDefault();
                this.press(name, event.repeat);
            } else if (this.shortcuts[event.key.toLowerCase()] && !event.repeat) run(this.shortcuts[event.key.toLowerCase()]);
        });
        element("play").hidden = this.keys === null;
        element("players").hidden = this.facts.players === null || this.keys === null;
        element("lacking").hidden = this.keys !== null;
        if (this.keys !== null) this.touchKeys();
    }

    // Has those play whom the page names. Where nobody waits for a turn, the keys are one person's.
    seat(chosen) {
        const [first, second] = ["first", "second"].map((name) => this.element(name).value);
        const isPerson = (name, who) => who === "person" && (this.keys.waits || name === chosen || (first === "person") !== (second === "person"));
        this.take(false);
        if (isPerson("first", first)) this.people.add(0);
        if (isPerson("second", second)) this.people.add(1);
        const players = second === "bot" ? 1 : 2;
        if (players !== this.players) {
            this.games.open(this.players = players);
            this.restart(this.seed);
        }
        this.tell();
    }

    take(isPlaying) {
        this.people = new Set(isPlaying && this.keys !== null ? [0] : []);
        this.pressed = [];
        this.last = null;
    }

    press(name, isRepeated = false) {
        if (!this.isPlaying) {
            this.take(true);
            this.tell();
        }
        if (!isRepeated) this.touched.add(name);
        this.held.add(name);
        const isTurn = this.keys.waits && this.movers().length > 0;
        if (isTurn && this.pressed.length < 2 && this.keys.action([name], null) !== null) this.pressed.push(name);
    }

    touchKeys() {
        for (const name of this.keys.alone) {
            const button = document.createElement("button");
            button.textContent = SIGNS[name] || name.replace("_", " ");
            button.setAttribute("aria-label", `key ${name.replace("_", " ")}`);
            const down = (event) => {
                event.preventDefault();
                this.press(name);
            };
            const up = () => this.held.delete(name);
            button.addEventListener("pointerdown", down);
            for (const kind of ["pointerup", "pointercancel", "pointerleave"]) button.addEventListener(kind, up);
            button.addEventListener("click", (event) => {
                if (event.detail === 0) {  // by a keyboard or a screen reader
                    this.press(name);
                    up();
                }
            });
            button.addEventListener("contextmenu", (event) => event.preventDefault());
            this.element("keys").append(button);
        }
    }

    gamepad() {
        const pads = this.keys === null || !navigator.getGamepads ? [] : [...navigator.getGamepads()].filter(Boolean);
        const [pad] = pads, others = this.keys === null ? [] : this.keys.alone.filter((name) => !["left", "right", "up", "down"].includes(name));
        if (!pad) return;
        const down = (i) => Boolean(pad.buttons[i] && pad.buttons[i].pressed);
        const state = {left: pad.axes[0] < -0.5 || down(14), right: pad.axes[0] > 0.5 || down(15), up: pad.axes[1] < -0.5 || down(12),
            down: pad.axes[1] > 0.5 || down(13), ...Object.fromEntries(others.slice(0, 8).map((name, i) => [name, down(i)]))};
        for (const [name, isDown] of Object.entries(state)) {
            const was = this.padState && this.padState[name];
            if (isDown && !was && this.keys.names.has(name)) this.press(name);
            if (!isDown && was) this.held.delete(name);
        }
        this.padState = state;
    }
}

// Shows a sentence in place of the game.
function complain(sentence) {
    document.getElementById("trouble").textContent = sentence;
    document.getElementById("trouble").hidden = false;
    document.getElementById("game").hidden = true;
}

async function start() {
    const element = (name) => document.getElementById(name);
    if (typeof WebAssembly === "undefined" || typeof DecompressionStream === "undefined") {
        return complain("This browser has no WebAssembly or cannot unpack what this page carries; open it in one of 2023 or later.");
    }
    let parts, facts;
    try {
        facts = JSON.parse(element("facts").textContent);
        parts = await unpack(element("payload").textContent.trim(), facts);
    } catch (error) {
        return complain(`This page is damaged (${error.message || "what it carries cannot be unpacked"}); get the file once more.`);
    }
    try {
        const face = new FontFace("puffer", parts.font.buffer);
        document.fonts.add(await face.load());
        const games = await Games.make(parts, facts, letterMaker());
        element("trouble").hidden = true;
        element("game").hidden = false;
        globalThis.puffer = new Page(games, facts, element);
        performance.mark("first picture");
    } catch (error) {
        complain(`The game cannot run in this browser (${error.message}); open the page in one of 2023 or later, which has WebAssembly with SIMD.`);
    }
}

globalThis.Puffer = {unpack, Games, Keys, formatted, pictureOf};
if (typeof document !== "undefined") start();
