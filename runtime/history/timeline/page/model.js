'use strict';
// The data of the page, and which of it the filter leaves. Every text in it may come from a container: it reaches the
// document by textContent and the canvas by fillText only.
const T = JSON.parse(document.getElementById('data').textContent);
const E = T.events, LED = E.map(() => []);
const WEIGHT = { done: 0, ok: 1, run: 2, wait: 3, busy: 4, stop: 5, down: 6, 'back-off': 7, fail: 8 };
const MEANING = {
  ok: 'ready, running, passing', run: 'running, not ready', wait: 'waiting', busy: 'in progress', stop: 'stopping',
  'back-off': 'back-off', fail: 'failed, failing', done: 'ended', down: 'not known',
};
// Lanes that a kind of event is about.
const LANES = {
  status: ['phase'], admission: ['phase', 'start'], container: ['container', 'sandbox'], call: ['calls', 'sandbox'],
  image: ['pull'], probe: ['probe', 'gates'], resize: ['resize'], agent: ['agent', 'runtime', 'journal', 'quarantine'],
};
const MOST_ROWS = 6; // of spans that overlap in one lane
const view = { from: 0, to: Math.max(T.length, 1) };
const filter = { text: '', group: -1, container: '', kind: '', alerts: false };
let rows = [], height = 0, shown = [], visible = new Uint8Array(E.length), selected = -1, chain = new Set();
let utc = false;

// fieldsOf returns the fields of an event, as JSON with an indent: none until the page is loaded.
let fields = null;
function fieldsOf(i, indent) {
  if (document.readyState !== 'loading') fields = fields || JSON.parse(document.getElementById('fields').textContent);
  return JSON.stringify(fields && fields[i] || {}, null, indent);
}

E.forEach((e, i) => { if (e.because >= 0) LED[e.because].push(i); });
for (const g of T.groups) {
  g.open = T.groups.length <= 9 || g.kind === 'node';
  for (const l of g.lanes) {
    const ends = [];
    for (const s of l.spans || []) {
      s.row = 0;
      if (!['calls', 'start', 'pull'].includes(l.kind)) continue;
      while (s.row < MOST_ROWS - 1 && ends[s.row] > s.begin) s.row++;
      ends[s.row] = Math.max(ends[s.row] || 0, s.end);
    }
    l.height = 21 + Math.max(0, ends.length - 1) * 17;
  }
}

// matches reports whether the filter leaves an event.
function matches(e, text) {
  return e.group >= 0 && (filter.group < 0 || e.group === filter.group) && (!filter.alerts || e.alert) &&
    (!filter.kind || e.kind === filter.kind) && (!filter.container || e.container === filter.container) &&
    (!text || '#' + e.seq === text || e.text.toLowerCase().includes(text) || e.event.includes(text) ||
      e.author.toLowerCase().includes(text));
}

// arrange applies the filter and computes the rows.
function arrange() {
  const text = filter.text.trim().toLowerCase(), hits = new Uint8Array(T.groups.length);
  shown = [];
  E.forEach((e, i) => {
    visible[i] = matches(e, text) ? 1 : 0;
    if (visible[i]) { shown.push(i); hits[e.group] = 1; }
  });
  const narrow = text || filter.alerts || filter.kind || filter.container;
  rows = [];
  height = 0;
  const add = (row, h) => { row.y = height; row.h = h; height += h; rows.push(row); };
  T.groups.forEach((g, i) => {
    const chosen = filter.group < 0 || filter.group === i || g.kind === 'node' && !narrow;
    if (!chosen || narrow && !hits[i]) return;
    add({ group: g, at: i, lane: g.lanes.find(l => ['phase', 'agent'].includes(l.kind)), head: true }, 26);
    if (!g.open) return;
    for (const l of g.lanes) {
      const wanted = l.kind === 'events' || (!filter.kind || (LANES[filter.kind] || []).includes(l.kind)) &&
        (!filter.container || !l.container || l.container === filter.container);
      if (wanted && !(l.kind === 'phase' || l.kind === 'agent')) add({ group: g, at: i, lane: l }, l.height);
    }
    height += 6;
  });
}

// date returns the time that was recorded at a place of the axis.
function date(at) {
  let ms = Date.parse(T.firstTime) + at;
  for (const s of T.clockSteps) if (s.at <= at) ms += s.shift / 1e6;
  return new Date(utc ? ms : ms - new Date(ms).getTimezoneOffset() * 6e4); // its UTC fields are the ones to show
}
const two = n => String(n).padStart(2, '0');
function clock(d, digits) {
  const ms = digits ? '.' + String(d.getUTCMilliseconds()).padStart(3, '0').slice(0, digits) : '';
  return two(d.getUTCHours()) + ':' + two(d.getUTCMinutes()) + ':' + two(d.getUTCSeconds()) + ms;
}
const day = d => d.getUTCFullYear() + '-' + two(d.getUTCMonth() + 1) + '-' + two(d.getUTCDate());
function stamp(e) {
  const ms = Date.parse(e.time), d = new Date(utc ? ms : ms - new Date(ms).getTimezoneOffset() * 6e4);
  return day(d) + ' ' + clock(d, 3);
}
function took(ms) {
  if (ms >= 6e4) ms = Math.round(ms / 1e3) * 1e3;
  if (ms >= 3.6e6) return Math.floor(ms / 3.6e6) + 'h ' + Math.floor(ms % 3.6e6 / 6e4) + 'm';
  if (ms >= 6e4) return Math.floor(ms / 6e4) + 'm ' + Math.round(ms % 6e4 / 1e3) + 's';
  return ms >= 1e3 ? (ms / 1e3).toFixed(ms < 1e4 ? 2 : 1) + ' s' : ms.toFixed(ms < 10 ? 1 : 0) + ' ms';
}
