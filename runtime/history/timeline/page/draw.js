// The canvas: labels on the left, a time axis on top, a row a lane.
const canvas = document.getElementById('canvas'), ctx = canvas.getContext('2d', { alpha: false });
const scroll = document.getElementById('scroll');
const AXIS = 34, FONT = '12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
let W = 0, H = 0, LEFT = 210, colours = {}, patterns = {}, drawn = { spans: 0, marks: 0, frame: 0 }, pending = false;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1.5e4, 3e4, 6e4, 1.2e5, 3e5, 6e5, 9e5, 1.8e6, 3.6e6,
  7.2e6, 1.08e7, 2.16e7, 4.32e7, 8.64e7, 1.728e8, 6.048e8, 2.4192e9];

function palette() {
  const style = getComputedStyle(document.documentElement), get = n => style.getPropertyValue('--' + n).trim();
  for (const n of ['back', 'panel', 'ink', 'muted', 'line', 'grid', 'accent', 'alert', 'band']) colours[n] = get(n);
  for (const c in WEIGHT) {
    colours[c] = get(c);
    colours[c + '-ink'] = get(c + '-ink');
    patterns[c] = ['fail', 'back-off', 'down', 'wait'].includes(c) ? hatch(c) : colours[c];
  }
}

// hatch draws the classes that have to differ without colour.
function hatch(c) {
  const p = document.createElement('canvas'), x = p.getContext('2d'), n = c === 'wait' ? 4 : 8;
  p.width = p.height = n;
  x.fillStyle = colours[c];
  x.fillRect(0, 0, n, n);
  x.strokeStyle = x.fillStyle = colours[c + '-ink'];
  x.globalAlpha = c === 'back-off' ? 0.13 : 0.2;
  x.lineWidth = 1.4;
  if (c === 'back-off') { x.translate(n, 0); x.scale(-1, 1); }
  if (c === 'wait') x.fillRect(1, 1, 1, 1);
  else {
    x.moveTo(-1, n + 1); x.lineTo(n + 1, -1);
    x.moveTo(-1, 1); x.lineTo(1, -1);
    x.moveTo(n - 1, n + 1); x.lineTo(n + 1, n - 1);
    x.stroke();
  }
  return ctx.createPattern(p, 'repeat');
}

const px = at => LEFT + (at - view.from) / (view.to - view.from) * (W - LEFT);
const placeAt = x => view.from + (x - LEFT) / (W - LEFT) * (view.to - view.from);

function size(printing) {
  const r = scroll.getBoundingClientRect(), dpr = printing ? 2 : devicePixelRatio || 1;
  W = printing ? 1000 : scroll.clientWidth;
  H = printing ? Math.min(AXIS + height + 8, 8000) : r.height;
  LEFT = W < 620 ? 118 : 210;
  canvas.width = Math.round(W * dpr);
  canvas.height = Math.round(H * dpr);
  canvas.style.height = H + 'px';
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  document.getElementById('space').style.height = Math.max(0, AXIS + height + 8 - H) + 'px';
}

function redraw() {
  if (!pending) { pending = true; requestAnimationFrame(() => { pending = false; draw(); }); }
}

function draw() {
  const began = performance.now(), top = scroll.scrollTop;
  drawn.spans = drawn.marks = 0;
  ctx.fillStyle = colours.back;
  ctx.fillRect(0, 0, W, H);
  ctx.font = FONT;
  ctx.textBaseline = 'middle';
  const ticks = grid();
  for (const r of rows) {
    const y = r.y - top + AXIS;
    if (y + r.h >= AXIS && y < H) row(r, y);
  }
  axis(ticks);
  links(top);
  drawn.frame = performance.now() - began;
}

function clipped(text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let n = Math.floor(text.length * width / ctx.measureText(text).width);
  while (n > 0 && ctx.measureText(text.slice(0, n) + '…').width > width) n--;
  return n > 0 ? text.slice(0, n) + '…' : '';
}

function row(r, y) {
  if (r.head) {
    ctx.fillStyle = colours.band;
    ctx.fillRect(0, y, W, r.h - 1);
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(LEFT, Math.max(AXIS, y), W - LEFT, H);
  ctx.clip();
  if (r.lane && r.lane.kind !== 'events') spans(r.lane, y + (r.head ? 4 : 2), r.head ? 17 : 17);
  if (r.lane && r.lane.kind === 'events') { if (r.lane.spans) spans(r.lane, y + 6, 9); marks(r.lane, y + r.h / 2); }
  ctx.restore();
  ctx.fillStyle = r.head ? colours.ink : colours.muted;
  ctx.font = r.head ? '600 ' + FONT : FONT;
  const indent = r.head ? 22 : r.lane.kind === 'probe' ? 36 : 24, mid = y + (r.head ? r.h / 2 : 11);
  const name = clipped(r.head ? r.group.name : r.lane.name, LEFT - indent - 8), end = indent + ctx.measureText(name).width;
  ctx.fillText(name, indent, mid);
  ctx.font = FONT;
  ctx.fillStyle = colours.muted;
  if (r.head) ctx.fillText(clipped(short(r.group), LEFT - end - 8), end, mid);
  if (r.head) {
    ctx.beginPath();
    if (r.group.open) { ctx.moveTo(8, mid - 3); ctx.lineTo(16, mid - 3); ctx.lineTo(12, mid + 3); }
    else { ctx.moveTo(9, mid - 4); ctx.lineTo(15, mid); ctx.lineTo(9, mid + 4); }
    ctx.fill();
  }
}

function spans(lane, y, h) {
  const last = [], text = filter.text.trim().toLowerCase();
  for (const s of lane.spans || []) {
    if (s.end < view.from) continue;
    if (s.begin > view.to) break;
    let a = px(s.begin), b = Math.max(px(s.end), a + (WEIGHT[s.class] > 5 ? 3 : 2));
    const l = last[s.row] || (last[s.row] = { b: -1, w: -1 });
    if (b <= l.b + 0.5 && WEIGHT[s.class] <= l.w) continue; // behind what this pixel shows already
    l.b = b;
    l.w = WEIGHT[s.class];
    drawn.spans++;
    a = Math.max(a, LEFT - 4);
    b = Math.min(b, W + 4);
    const top = y + s.row * 17, dim = s.count && lane.kind !== 'events' || text && !(s.label + ' ' + (s.text || '')).toLowerCase().includes(text);
    ctx.globalAlpha = dim ? 0.4 : 1;
    ctx.fillStyle = patterns[s.class];
    if (b - a > 6) { ctx.beginPath(); ctx.roundRect(a, top, b - a - 1, h - 1, 3); ctx.fill(); }
    else ctx.fillRect(a, top, Math.max(1.5, b - a - 0.5), h - 1);
    if (s.queued > s.begin) { // it waited for its slot
      ctx.fillStyle = colours.back;
      ctx.globalAlpha *= 0.55;
      ctx.fillRect(a, top, Math.min(b, px(s.queued)) - a, h - 1);
    }
    ctx.globalAlpha = dim ? 0.4 : 1;
    if (chain.has(s.event)) { ctx.strokeStyle = colours.accent; ctx.lineWidth = 2; ctx.strokeRect(a + 0.5, top, b - a - 2, h - 1); }
    const room = b - Math.max(a, LEFT) - 10, words = s.label + (s.count ? ' ×' + s.count : '');
    ctx.globalAlpha = dim ? 0.8 : 1;
    if (room > 24 && h > 12) {
      ctx.fillStyle = colours[s.class + '-ink'];
      ctx.fillText(clipped(words, room), Math.max(a, LEFT) + 5, top + h / 2);
    }
  }
  ctx.globalAlpha = 1;
}

function marks(lane, y) {
  let last = -9, alert = false;
  for (const i of lane.marks || []) {
    const e = E[i];
    if (!visible[i] || e.at < view.from || e.at > view.to) continue;
    const x = px(e.at);
    if (x - last < 1.5 && (alert || !e.alert)) continue;
    last = x;
    alert = e.alert;
    drawn.marks++;
    ctx.fillStyle = e.alert ? colours.alert : e.cause ? colours.muted : colours.accent;
    if (e.alert) { ctx.beginPath(); ctx.moveTo(x, y - 7); ctx.lineTo(x + 5, y); ctx.lineTo(x, y + 7); ctx.lineTo(x - 5, y); ctx.fill(); }
    else if (e.cause) ctx.fillRect(x - 0.75, y - 5, 1.5, 10);
    else { ctx.beginPath(); ctx.arc(x, y, 3, 0, 7); ctx.fill(); }
  }
}

// grid draws the lines of the axis below everything, and returns its ticks.
function grid() {
  const perMs = (W - LEFT) / (view.to - view.from), step = STEPS.find(s => s * perMs >= 92) || STEPS[STEPS.length - 1];
  const wall = date(view.from).getTime(), ticks = [];
  ctx.strokeStyle = colours.grid;
  ctx.lineWidth = 1;
  for (let at = view.from + Math.ceil(wall / step) * step - wall; at <= view.to; at += step) {
    const x = Math.round(px(at)) + 0.5, d = date(at);
    ticks.push({ x, day: day(d), text: step >= 8.64e7 ? day(d).slice(5) : clock(d, step < 1e3 ? 3 : 0) });
    ctx.beginPath();
    ctx.moveTo(x, AXIS);
    ctx.lineTo(x, H);
    ctx.stroke();
  }
  return ticks;
}

function axis(ticks) {
  ctx.fillStyle = colours.back;
  ctx.fillRect(0, 0, W, AXIS);
  ctx.fillStyle = colours.muted;
  ctx.strokeStyle = colours.muted;
  ctx.fillText(clipped(day(date(Math.max(0, view.from))), LEFT - 30), 22, 13);
  for (const t of ticks) {
    ctx.beginPath();
    ctx.moveTo(t.x, AXIS - 8);
    ctx.lineTo(t.x, AXIS - 2);
    ctx.stroke();
    if (t.x + 8 + ctx.measureText(t.text).width < W) ctx.fillText(t.text, t.x + 4, 13);
    const crowded = T.clockSteps.some(s => Math.abs(px(s.at) - t.x) < 220);
    if (!crowded && t !== ticks[0] && t.day !== ticks[ticks.indexOf(t) - 1].day) ctx.fillText(t.day.slice(5), t.x + 4, 26);
  }
  for (const s of T.clockSteps) if (s.at >= view.from && s.at <= view.to) {
    ctx.strokeStyle = ctx.fillStyle = colours.alert;
    ctx.setLineDash([4, 3]);
    ctx.beginPath();
    ctx.moveTo(px(s.at), 18);
    ctx.lineTo(px(s.at), H);
    ctx.stroke();
    ctx.setLineDash([]);
    const back = s.shift < 0, text = 'clock set ' + (back ? 'back ' : 'forward ') + took(Math.abs(s.shift) / 1e6);
    ctx.fillText(text, Math.min(px(s.at) + 4, W - 150), 26);
  }
  ctx.strokeStyle = colours.line;
  ctx.beginPath();
  ctx.moveTo(0, AXIS - 0.5);
  ctx.lineTo(W, AXIS - 0.5);
  ctx.moveTo(LEFT - 0.5, AXIS);
  ctx.lineTo(LEFT - 0.5, H);
  ctx.stroke();
}

// spot returns where an event is on the canvas, null if its row is not shown.
function spot(i, top) {
  const e = E[i], of = rows.filter(r => r.at === e.group), r = of.find(r => r.lane && r.lane.kind === 'events') || of[0];
  return e.group < 0 || !r ? null : { x: px(e.at), y: r.y - top + AXIS + r.h / 2 };
}

// links draws the chain of causes of the selected event.
function links(top) {
  if (selected < 0) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(LEFT, AXIS, W - LEFT, H);
  ctx.clip();
  ctx.strokeStyle = colours.accent;
  ctx.lineWidth = 1.5;
  let to = null;
  for (const i of chain) { // from the selected event back
    const at = spot(i, top);
    if (!at) continue;
    ctx.beginPath();
    ctx.arc(at.x, at.y, i === selected ? 8 : 6, 0, 7);
    ctx.stroke();
    if (to && (to.x !== at.x || to.y !== at.y)) {
      ctx.globalAlpha = 0.7;
      ctx.beginPath();
      ctx.moveTo(at.x, at.y);
      ctx.bezierCurveTo(at.x + (to.x - at.x) / 2, at.y, at.x + (to.x - at.x) / 2, to.y, to.x, to.y);
      ctx.stroke();
      ctx.globalAlpha = 1;
    }
    to = at;
  }
  ctx.restore();
}
