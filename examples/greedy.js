// An agent for Node.js: everyone takes the first step that brings the nearest exit nearer, if it does not burn.
"use strict";

const readline = require("node:readline");

const STEPS = { north: [-1, 0], south: [1, 0], east: [0, 1], west: [0, -1] };
const apart = (a, b) => Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]);

function decide(seen) {
  const { height, width, obstacles, exits } = seen.map;
  const shut = new Set([...obstacles, ...seen.burning].map(String));
  const isFree = (cell) =>
    cell[0] >= 0 && cell[0] < height && cell[1] >= 0 && cell[1] < width && !shut.has(String(cell));
  const actions = {};
  for (const person of seen.people) {
    if (person.status !== "active") continue;
    const here = person.position;
    const goal = exits.map((e) => e.position).reduce((a, b) => (apart(here, b) < apart(here, a) ? b : a));
    const better = Object.entries(STEPS).find(([, [down, right]]) => {
      const there = [here[0] + down, here[1] + right];
      return isFree(there) && apart(there, goal) < apart(here, goal);
    });
    actions[person.id] = better ? better[0] : "stay";
  }
  return { actions };
}

let greeted = false;
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const answer = greeted ? decide(JSON.parse(line)) : { agent_protocol_version: "1.0", name: "greedy-js", version: null };
  greeted = true;
  process.stdout.write(JSON.stringify(answer) + "\n");
});
