// SPDX-License-Identifier: Apache-2.0
// A player, or one who watches: connects, walks, says so, and shows what it hears.

import {colours, drawMap, drawWorld} from './draw.js';
import {Players} from './players.js';
import {Squares} from './squares.js';
import {Walker} from './walker.js';
import {World} from './world.js';

/** Seconds between two events of this player: keys that are pressed together are one change. */
const PAUSE = 0.1;
/** Seconds between two readings of the overlay, of its rates, and that a piece of news is shown. */
const READING = 0.5, RATE = 3, NEWS = 6;
/** News on screen at a time, and that tests can look at. */
const NEWS_MAX = 5, TOLD_MAX = 20;

const by = (id) => document.getElementById(id);
const asked = new URLSearchParams(location.search);
const watches = asked.has('watch');
const node = Number(asked.get('node') ?? 1);
const seconds = () => performance.now() / 1000;

async function post(path, body) {
  const answer = await fetch(path, {method: 'POST', body: JSON.stringify(body)});
  if (!answer.ok) throw new Error(`${path}: ${answer.status}: ${await answer.text()}`);
  return answer;
}

const visit = {node, team: asked.get('team'), watch: watches};
const session = await (await post('/session', visit)).json();
const {user, team, token, rules} = session;
const world = new World(rules);
const players = new Players(rules);
const client = new Centrifuge(session.url, {token});
const squares = new Squares(client, world, hear);
const [startX, startY] = asked.has('at')
  ? asked.get('at').split(',').map(Number)
  : [0, 0].map(() => (Math.random() * 2 - 1) * rules.square);
const walker = new Walker(startX, startY, rules.speed);
const counts = {in: 0, out: 0};
const said = {at: -Infinity, vx: 0, vy: 0, channel: ''};
let colour = colours(), steppedAt = seconds(), scale = 1;

function hear(publication) {
  counts.in++;
  const info = publication.info;
  if (info.user !== user) players.hear(info.user, info.connInfo.team, publication.data, seconds());
}

function view() {
  return {
    x: walker.x, y: walker.y,
    width: innerWidth / scale, height: innerHeight / scale,
  };
}

function step() {
  const now = seconds();
  walker.walk(Math.min(now - steppedAt, 1));
  steppedAt = now;
  scale = world.scale(innerWidth, innerHeight);
  squares.follow(view());
  if (!watches) say(now);
  players.forget(now, (x, y) => squares.isHeard(world.channelAt(x, y)));
}

/** Publishes an event, if the others cannot know what it says. */
function say(now) {
  const {x, y, vx, vy} = walker, channel = world.channelAt(x, y), silence = now - said.at;
  const turned = vx !== said.vx || vy !== said.vy;
  // Those who see the square that it enters need not have seen the one that it leaves.
  const needed = turned ? silence > PAUSE : channel !== said.channel || silence > rules.keepAlive;
  if (needed && squares.publish(channel, {x, y, vx, vy, t: Date.now()})) {
    Object.assign(said, {at: now, vx, vy, channel});
    counts.out++;
  }
}

function everybody() {
  const others = players.shown(seconds());
  if (watches) return others;
  const {x, y, vx, vy} = walker;
  return [...others, {user, team, x, y, vx, vy, opacity: 1, isMe: true}];
}

function frame() {
  step();
  drawWorld(by('world'), world, view(), scale, everybody(), colour);
  requestAnimationFrame(frame);
}

const readings = [{at: seconds(), in: 0, out: 0}];

function readOverlay() {
  const heard = squares.heard(), before = readings[0], now = {at: seconds(), ...counts};
  readings.push(now);
  if (readings.length > RATE / READING) readings.shift();
  for (const way of ['in', 'out']) {
    by(way).textContent = ((now[way] - before[way]) / (now.at - before.at)).toFixed(1);
  }
  by('square').textContent = world.channelAt(walker.x, walker.y);
  by('subscriptions').textContent = heard.length;
  by('seen').textContent = players.players.size;
  drawMap(by('map'), world, view(), heard, everybody(), colour);
}

// The routing service's messages: to this user, its team, everybody, or those who watch.

const told = [];

function tell(text) {
  told.push(text);
  if (told.length > TOLD_MAX) told.shift();
  const line = document.createElement('p');
  line.textContent = text;
  by('news').append(line);
  if (by('news').childElementCount > NEWS_MAX) by('news').firstElementChild.remove();
  setTimeout(() => line.remove(), NEWS * 1000);
}

const MESSAGES = {
  greeting: ({text}) => tell(text),
  shout: (shout) => tell(`${shout.user}: ${shout.text}`),
  census: ({count}) => { by('count').textContent = count; },
  nodes: ({nodes}) => {
    by('count').textContent = Object.values(nodes).join(' + ');
  },
};

client.on('message', ({data}) => {
  counts.in++;
  MESSAGES[data.type]?.(data.payload);
});
client.on('connected', ({client: id}) => {
  post('/arrive', {token, client: id}).catch((error) => console.warn(error.message));
});
client.on('connecting', ({code, reason}) => { if (code) tell(`Connecting again: ${reason}`); });
client.on('disconnected', ({reason}) => tell(`Disconnected: ${reason}. Load the page again.`));

addEventListener('keydown', (event) => {
  const shouting = document.activeElement === by('shout');
  if (event.key === 'Enter' && !shouting) {
    by('shouting').hidden = false;
    by('shout').focus();
    walker.stop();
    event.preventDefault();
  } else if (event.key === 'Escape' && shouting) {
    by('shouting').hidden = true;
  } else if (!shouting && !event.ctrlKey && !event.metaKey && walker.press(event.code)) {
    event.preventDefault();
  }
});
addEventListener('keyup', (event) => walker.release(event.code));
addEventListener('blur', () => walker.stop());
by('shouting').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = by('shout').value.trim();
  if (text) post('/shout', {token, text}).catch((error) => tell(error.message));
  by('shout').value = '';
  by('shouting').hidden = true;
});

function walkTo({clientX, clientY}) {
  const {x, y, width, height} = view();
  walker.goal = {x: x - width / 2 + clientX / scale, y: y - height / 2 + clientY / scale};
}

by('world').addEventListener('pointerdown', (event) => {
  by('world').setPointerCapture(event.pointerId);
  walkTo(event);
});
by('world').addEventListener('pointermove', (event) => { if (event.buttons) walkTo(event); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  colour = colours();
});

by('user').textContent = watches ? `${user}, watching` : user;
by('team').style.background = watches ? '' : `var(--${team})`;
by('node').textContent = node;
client.connect();
requestAnimationFrame(frame);
// Frames stop while the page is hidden, and the player must not go.
setInterval(() => { if (document.hidden) step(); }, 1000);
setInterval(readOverlay, READING * 1000);

/** What tests look at. */
window.grid = {
  world,
  get me() { return {user, team, node, x: walker.x, y: walker.y, vx: walker.vx, vy: walker.vy}; },
  get others() { return players.shown(seconds()); },
  get subscriptions() { return squares.heard(); },
  get shown() { return [...world.channels(view())]; },
  get view() { return view(); },
  get counts() { return {...counts}; },
  get complete() { return squares.complete; },
  get late() { return squares.late; },
  get told() { return [...told]; },
};
