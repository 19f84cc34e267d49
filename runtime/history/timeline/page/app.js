// What a person does: zoom, move, filter, hover, select.
const $ = id => document.getElementById(id), tip = $('tip');

// put adds an element with a text, which is never parsed.
function put(parent, tag, text, name) {
  const x = document.createElement(tag);
  if (text !== undefined) x.textContent = text;
  if (name) x.className = name;
  parent.append(x);
  return x;
}

function show(from, to) {
  const least = 0.05, most = Math.max(T.length, 1), width = Math.min(Math.max(to - from, least), most * 1.04);
  const mid = (from + to) / 2, slack = most * 0.02;
  view.from = Math.min(Math.max(mid - width / 2, -slack), most + slack - width);
  view.to = view.from + width;
  redraw();
}
const zoom = (factor, at = (view.from + view.to) / 2) =>
  show(at - (at - view.from) * factor, at + (view.to - at) * factor);
const move = share => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
const fit = () => show(-T.length * 0.01, T.length * 1.01);

function apply() {
  filter.text = $('text').value;
  filter.group = $('pod').value === '' ? -1 : +$('pod').value;
  filter.container = $('container').value;
  filter.kind = $('kind').value;
  filter.alerts = $('alerts').checked;
  arrange();
  const all = E.filter(e => e.group >= 0).length;
  $('count').textContent = shown.length === all ? all + ' events' : shown.length + ' of ' + all + ' events';
  $('empty').hidden = shown.length > 0;
  size();
  if (selected < 0) select(-1);
  redraw();
}

// short distinguishes pods of one name.
const short = g => g.uid && T.groups.filter(o => o.name === g.name).length > 1 ? ' ' + g.uid.slice(0, 8) : '';

function choices(id, values) { for (const [value, text] of values) put($(id), 'option', text).value = value; }

// at returns what is under a place of the canvas.
function at(x, y) {
  if (y < AXIS) return {};
  const top = scroll.scrollTop, r = rows.find(r => y >= r.y - top + AXIS && y < r.y - top + AXIS + r.h);
  if (!r) return {};
  if (x < LEFT) return { row: r };
  let event = -1, best = 7;
  if (r.lane && r.lane.kind === 'events') for (const i of r.lane.marks || []) {
    const d = Math.abs(px(E[i].at) - x) - (E[i].alert ? 0.5 : 0);
    if (visible[i] && d < best) { best = d; event = i; }
  }
  if (event >= 0) return { row: r, event };
  const sub = Math.floor((y - (r.y - top + AXIS) - 2) / 17), place = placeAt(x), near = placeAt(x + 3) - place;
  let span = null;
  for (const s of r.lane && r.lane.spans || []) {
    if (s.begin > place + near) break;
    const narrower = !span || s.end - s.begin < span.end - span.begin || s.begin <= place && s.end >= place;
    if (s.end >= place - near && narrower && (s.row === sub || r.head || !s.row && r.lane.height < 24)) span = s;
  }
  return { row: r, span };
}

function brief(x, e) {
  const g = T.groups[e.group], where = g && g.kind === 'pod' && T.groups.length > 2 ? '  ' + g.name : '';
  const m = put(x, 'div', stamp(e).slice(11) + '  #' + e.seq + '  ' + e.event + where, 'meta');
  m.dataset.seq = e.seq;
  put(x, 'div', e.text, e.alert ? 'text alert' : 'text');
}

function hover(ev) {
  const box = canvas.getBoundingClientRect(), x = ev.clientX - box.left, y = ev.clientY - box.top, hit = at(x, y);
  canvas.classList.toggle('over', hit.event >= 0 || !!hit.span || !!hit.row && (x < LEFT && hit.row.head));
  tip.hidden = !(hit.event >= 0 || hit.span);
  if (tip.hidden) return;
  tip.replaceChildren();
  if (hit.span) {
    const s = hit.span, until = s.open ? 'still at #' + T.lastSeq : 'until #' + s.endSeq;
    put(tip, 'div', s.label + (s.count ? ' (' + s.count + ' merged)' : ''), s.class === 'fail' ? 'alert' : '');
    put(tip, 'div', took(s.end - s.begin) + ', ' + (s.before ? 'since before ' : 'from ') + '#' + s.beginSeq + ' ' + until, 'meta');
    if (s.queued > s.begin) put(tip, 'div', took(s.queued - s.begin) + ' of it in the queue', 'meta');
    if (s.event >= 0) brief(tip, E[s.event]); else if (s.text) put(tip, 'div', s.text);
  } else {
    brief(tip, E[hit.event]);
    const text = fieldsOf(hit.event, 0);
    if (text !== '{}') put(tip, 'div', text.length > 300 ? text.slice(0, 300) + '…' : text, 'meta');
  }
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, Math.min(x + 14, W - w - 8)) + 'px';
  tip.style.top = (y + 20 + h < H ? y + 20 : Math.max(4, y - h - 12)) + 'px';
}

const MOST_ALERTS = 50; // in the list, the newest first

function link(list, i) {
  const b = put(put(list, 'li'), 'button');
  b.type = 'button';
  brief(b, E[i]);
  if (i === selected) b.setAttribute('aria-current', 'true');
  b.onclick = () => select(i, true);
}

// select shows an event with its causes and what it led to; -1 shows nothing.
function select(i, reveal) {
  selected = i;
  chain = new Set();
  for (let c = i; c >= 0 && !chain.has(c); c = E[c].because) chain.add(c);
  const d = $('details');
  d.replaceChildren();
  if (i < 0) {
    const alerts = shown.filter(i => E[i].alert);
    put(d, 'h2', alerts.length ? 'What needs attention' : 'Nothing needs attention');
    put(d, 'div', 'Point at a bar or a mark to see its event. Select one to see what led to it, and what it led to.', 'meta');
    const list = put(d, 'ol', undefined, 'first');
    for (const i of alerts.slice(-MOST_ALERTS).reverse()) link(list, i);
    if (alerts.length > MOST_ALERTS) put(d, 'div', alerts.length - MOST_ALERTS + ' more before', 'meta');
    return redraw();
  }
  const e = E[i], g = T.groups[e.group];
  put(d, 'h2', e.text, e.alert ? 'alert' : '');
  put(d, 'div', stamp(e) + '  #' + e.seq + '  epoch ' + e.epoch, 'meta');
  put(d, 'div', e.event + ' of ' + (g && e.author === 'pod/' + g.uid ? 'pod ' + g.name : e.author), 'meta');
  const back = [...chain].reverse(), first = E[back[0]];
  put(d, 'h3', back.length > 1 ? 'Led to by' : 'Cause');
  if (back.length > 1) { const list = put(d, 'ol'); for (const c of back) link(list, c); }
  if (first.cause && first.because < 0) put(d, 'div', 'Further back: #' + first.cause + ', which this page does not hold.', 'meta');
  else put(d, 'div', back.length > 1 ? 'The first is a fact from outside.' : 'A fact from outside.', 'meta');
  if (LED[i].length) {
    put(d, 'h3', 'Led to');
    const list = put(d, 'ol');
    for (const c of LED[i].slice(0, 100)) link(list, c);
    if (LED[i].length > 100) put(d, 'div', LED[i].length - 100 + ' more', 'meta');
  }
  put(d, 'h3', 'Fields');
  put(d, 'pre', fieldsOf(i, 1).replace(/^[{}]\n?/gm, '').replace(/^ /gm, '').trim() || 'none');
  d.scrollTop = 0;
  if (reveal && e.group >= 0) {
    const width = view.to - view.from;
    if (e.at < view.from + width * 0.03 || e.at > view.to - width * 0.03) show(e.at - width / 2, e.at + width / 2);
    const p = spot(i, scroll.scrollTop);
    if (p && (p.y < AXIS + 12 || p.y > H - 12)) scroll.scrollTop += p.y - H / 2;
  }
  redraw();
}

// step selects the next or the previous event that the filter leaves.
function step(by) {
  const i = shown.findIndex(s => s >= selected), n = shown.length;
  if (!n) return;
  const next = selected < 0 ? (by > 0 ? 0 : n - 1) : i < 0 ? n - 1 : shown[i] === selected || by < 0 ? i + by : i;
  select(shown[Math.min(Math.max(next, 0), n - 1)], true);
}

function toggle(g) { g.open = !g.open; apply(); }
function toggleAll() {
  const pods = T.groups.filter(g => g.kind === 'pod'), open = pods.some(g => g.open);
  for (const g of pods) g.open = !open;
  $('fold').textContent = open ? 'Open all' : 'Close all';
  apply();
}

function pointer() {
  let from = null;
  canvas.onpointerdown = ev => {
    if (ev.button) return;
    from = { x: ev.clientX, y: ev.clientY, top: scroll.scrollTop, a: view.from, b: view.to, moved: false };
    canvas.setPointerCapture(ev.pointerId);
  };
  canvas.onpointermove = ev => {
    if (!from) return hover(ev);
    const dx = ev.clientX - from.x, dy = ev.clientY - from.y;
    if (!from.moved && Math.hypot(dx, dy) < 4) return;
    from.moved = true;
    tip.hidden = true;
    canvas.classList.add('drag');
    const by = dx / (W - LEFT) * (from.b - from.a);
    if (ev.pointerType === 'mouse') scroll.scrollTop = from.top - dy;
    show(from.a - by, from.b - by);
  };
  canvas.onpointerup = ev => {
    const click = from && !from.moved, box = canvas.getBoundingClientRect();
    from = null;
    canvas.classList.remove('drag');
    if (!click) return;
    const hit = at(ev.clientX - box.left, ev.clientY - box.top);
    if (hit.event >= 0) select(hit.event);
    else if (hit.span && hit.span.event >= 0) select(hit.span.event);
    else if (hit.row && hit.row.head) toggle(hit.row.group);
    else select(-1);
  };
  canvas.onpointercancel = () => { from = null; canvas.classList.remove('drag'); };
  canvas.onpointerleave = () => { tip.hidden = true; };
  canvas.ondblclick = ev => zoom(0.4, placeAt(ev.clientX - canvas.getBoundingClientRect().left));
  canvas.addEventListener('wheel', ev => {
    const sideways = Math.abs(ev.deltaX) > Math.abs(ev.deltaY) || ev.shiftKey, fits = AXIS + height + 8 <= H;
    if (!ev.ctrlKey && !sideways && !fits) return; // it scrolls the rows
    ev.preventDefault();
    tip.hidden = true;
    if (sideways && !ev.ctrlKey) return move((ev.deltaX || ev.deltaY) / 1000);
    zoom(Math.exp(Math.max(-1, Math.min(1, ev.deltaY / 300))), placeAt(ev.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
}

const KEYS = {
  ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15), '+': () => zoom(0.6), '=': () => zoom(0.6), '-': () => zoom(1.6),
  ArrowUp: () => scroll.scrollBy(0, -60), ArrowDown: () => scroll.scrollBy(0, 60), 0: fit, Home: fit,
  n: () => step(1), p: () => step(-1), Escape: () => select(-1), '/': () => $('text').focus(),
  Enter: () => { if (selected >= 0 && E[selected].group >= 0) toggle(T.groups[E[selected].group]); },
};

function start() {
  const pods = T.groups.filter(g => g.kind === 'pod');
  $('title').textContent = (pods.length === 1 ? pods[0].name + ' on ' : '') + 'node ' + T.node +
    (pods.length > 1 ? ', ' + pods.length + ' pods' : '');
  const range = () => {
    $('range').textContent = stamp({ time: T.firstTime }) + ' to ' + stamp({ time: T.lastTime }) + (utc ? ' UTC' : '') +
      ', ' + took(T.length) + ', records #' + T.firstSeq + ' to #' + T.lastSeq;
  };
  range();
  for (const n of T.notes) put($('notes'), 'li', n);
  const seen = new Set();
  T.groups.forEach(g => g.lanes.forEach(l => (l.spans || []).forEach(s => seen.add(s.class))));
  choices('pod', T.groups.map((g, i) => [i, g.kind === 'node' ? 'the node' : g.name + short(g)]));
  choices('container', [...new Set(E.map(e => e.container).filter(c => c))].sort().map(c => [c, c]));
  choices('kind', [...new Set(E.map(e => e.kind))].sort().map(k => [k, k]));
  $('fold').hidden = pods.length < 2;
  $('fold').textContent = pods.some(g => g.open) ? 'Close all' : 'Open all';
  palette();
  for (const c in MEANING) if (seen.has(c)) {
    const li = put($('legend'), 'li'), sample = put(li, 'canvas');
    li.dataset.class = c;
    put(li, 'span', MEANING[c]);
    sample.width = 44;
    sample.height = 24;
  }
  const legend = () => document.querySelectorAll('#legend li').forEach(li => {
    const x = li.firstChild.getContext('2d');
    x.fillStyle = patterns[li.dataset.class];
    x.fillRect(0, 0, 44, 24);
  });
  legend();
  for (const id of ['text', 'pod', 'container', 'kind', 'alerts']) $(id).addEventListener('input', apply);
  $('tools').onsubmit = ev => ev.preventDefault();
  $('clear').onclick = () => { $('tools').reset(); apply(); };
  $('in').onclick = () => zoom(0.6);
  $('out').onclick = () => zoom(1.6);
  $('fit').onclick = fit;
  $('fold').onclick = toggleAll;
  $('zone').onclick = () => { utc = !utc; $('zone').textContent = utc ? 'UTC' : 'local time'; range(); select(selected); };
  canvas.addEventListener('keydown', ev => {
    const f = ev.ctrlKey || ev.altKey || ev.metaKey ? null : KEYS[ev.key];
    if (f) { ev.preventDefault(); f(); }
  });
  scroll.addEventListener('scroll', () => { tip.hidden = true; redraw(); });
  pointer();
  new ResizeObserver(() => { size(); redraw(); }).observe(scroll);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { palette(); legend(); redraw(); });
  const print = on => {
    document.documentElement.classList.toggle('print', on);
    palette();
    size(on);
    draw();
  };
  addEventListener('beforeprint', () => print(true));
  addEventListener('afterprint', () => print(false));
  fit();
  apply();
  select(-1);
  draw();
  window.journalet = { view, drawn, draw, zoom, select, spot: i => spot(i, scroll.scrollTop), events: E, painted: performance.now() };
}
start();
