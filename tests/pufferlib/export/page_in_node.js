// Runs what a page carries, without a browser: node page_in_node.js PAGE REQUEST, which prints JSON.
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const vm = require("vm");

function partsOf(path) {
    const text = fs.readFileSync(path, "utf8");
    const part = (id) => text.match(new RegExp(`<script[^>]*id="${id}">([^<]*)</script>`))[1];
    vm.runInThisContext(text.match(/<script>([^]*?)<\/script>/)[1]);
    return {facts: JSON.parse(part("facts")), payload: part("payload")};
}

const bytesOf = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);

// The hash of a rollout of many environments, by actions from a file: [steps][rows][numbers].
function rollout(games, {seeds, steps, actions}) {
    const {agents} = games, rows = seeds.length * agents, given = fs.readFileSync(actions), size = 4 * games.action;
    const kinds = [["observations", games.observation, games.facts.observation.type], ["rewards", 1, "float32"],
        ["terminals", 1, "uint8"], ["truncations", 1, "uint8"]];
    const history = Array.from({length: steps + 1}, () => kinds.map(() => []));
    const keep = (moment, count) => kinds.forEach(([name, width, type], i) => {
        for (let agent = 0; agent < count * agents; agent++) {
            history[moment][i].push(Buffer.from(bytesOf(games.rows(name, agent, width, type))));
        }
    });
    for (let first = 0; first < seeds.length; first += games.games) {
        const batch = seeds.slice(first, first + games.games);
        batch.forEach(([seed, index], game) => games.reset(game, BigInt(seed), BigInt(index)));
        keep(0, batch.length);
        for (let step = 0; step < steps; step++) {
            for (let agent = 0; agent < batch.length * agents; agent++) {
                const begin = (step * rows + first * agents + agent) * size;
                bytesOf(games.actionOf(agent)).set(given.subarray(begin, begin + size));
            }
            games.step(batch.length);
            keep(step + 1, batch.length);
        }
    }
    const hash = crypto.createHash("sha256"), masks = Buffer.alloc(rows, 1);
    for (const moment of history) {
        for (const parts of moment) parts.forEach((bytes) => hash.update(bytes));
        hash.update(masks);
    }
    return hash.digest("hex").slice(0, 16);
}

// What the likeliest actions of the agent lead to: a file with the observations and the actions of every step.
function play(games, {seed, count, steps, output, players}) {
    if (players) games.open(players);
    for (let game = 0; game < count; game++) games.reset(game, BigInt(seed), BigInt(game));
    const file = fs.openSync(output, "w"), rows = count * games.agents;
    for (let step = 0; step < steps; step++) {
        games.act(count, false);
        for (let agent = 0; agent < rows; agent++) {
            fs.writeSync(file, bytesOf(games.observationOf(agent)));
            fs.writeSync(file, bytesOf(games.actionOf(agent)));
        }
        games.step(count);
    }
    fs.closeSync(file);
}

// What is logged of the first episodes of each game, and the first return of every agent.
function scores(games, {seed, episodes, isSampled, mostSteps}) {
    const {games: count} = games, logged = [], left = Array.from({length: count}, (_, i) => Math.ceil((episodes - i) / count));
    const returns = Array(count * games.agents).fill(0), isOver = Array(count * games.agents).fill(false);
    for (let game = 0; game < count; game++) games.reset(game, BigInt(seed), BigInt(game));
    games.call.begin(BigInt(seed));
    for (let step = 0; step < mostSteps && (left.some((n) => n > 0) || isOver.includes(false)); step++) {
        games.act(count, isSampled);
        games.step(count, false);
        for (let agent = 0; agent < count * games.agents; agent++) {
            if (isOver[agent]) continue;
            returns[agent] += games.rewardOf(agent);
            isOver[agent] = games.hasEnded(agent);
        }
        for (let game = 0; game < count; game++) {
            const finished = games.finished(game);
            if (finished !== null && left[game] > 0) {
                logged.push(finished);
                left[game] -= finished.n;
            }
        }
    }
    return {logged, returns};
}

// Steps a second of environments alone, by sets of actions from a file in turn, and decisions of the policy.
function speeds(games, {steps, actions}) {
    for (let game = 0; game < games.games; game++) games.reset(game, 1n, BigInt(game));
    const given = new Uint8Array(fs.readFileSync(actions)), rows = games.games * games.agents;
    const place = bytesOf(games.rows("actions", 0, rows * games.action, games.actionType)), {length} = place;
    const sets = Array.from({length: given.length / length}, (_, i) => given.slice(i * length, (i + 1) * length));
    const once = (work) => {
        const begin = process.hrtime.bigint();
        for (let step = 0; step < steps; step++) work(step);
        return Number(process.hrtime.bigint() - begin) / 1e9;
    };
    const work = {
        steps: (step) => {
            place.set(sets[step % sets.length]);
            games.step(games.games, false);
        },
        decisions: () => games.act(games.games, true),
    };
    return Object.fromEntries(Object.entries(work).map(([name, each]) => {
        once(each);
        return [name, steps * rows / Math.min(once(each), once(each), once(each))];
    }));
}

const formats = (games, {cases}) => cases.map(([format, kinds, ...values]) => {
    const view = new DataView(games.memory.buffer), begin = games.at.pixels;
    let at = begin;
    values.forEach((value, i) => {
        const size = kinds[i] === "d" ? 8 : 4;
        at = Math.ceil(at / size) * size;
        if (kinds[i] === "d") view.setFloat64(at, value, true);
        else view.setInt32(at, value, true);
        at += size;
    });
    return globalThis.Puffer.formatted(games.memory, format, begin);
});

const keyActions = (games, {cases}) => {
    const keys = new globalThis.Puffer.Keys(games.facts);
    return cases.map(([held, last]) => keys.action(held, last));
};

const pictures = (games, {cases}) => cases.map((observation) => globalThis.Puffer.pictureOf(observation));

(async () => {
    const {facts, payload} = partsOf(process.argv[2]), request = JSON.parse(process.argv[3]);
    const games = await globalThis.Puffer.Games.make(await globalThis.Puffer.unpack(payload, facts), facts);
    const does = {rollout, play, scores, speeds, formats, keyActions, pictures}[request.does];
    console.log(JSON.stringify(does(games, request) ?? null));
})();
