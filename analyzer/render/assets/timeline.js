// Values under the pointer of a heapprof timeline: a vertical line, and the legend shows the live bytes at that time
// instead of those at the peak. The picture is complete without this script. Needs figures.js.
(() => {
const {bytes, percent, time: seconds} = figures;

const root = (document.currentScript && document.currentScript.closest('svg')) || document.documentElement;
const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
if (root === document.documentElement) {
  root.setAttribute('width', '100%');
  root.setAttribute('height', '100%');
}

const SVG = 'http://www.w3.org/2000/svg';
const field = root.querySelector('#field');
const pointer = root.querySelector('#pointer');
const dot = pointer.querySelector('.dot');
const when = root.querySelector('.when');
const areas = root.querySelector('.areas');
const rows = new Map(Array.from(root.querySelectorAll('.row'), row => [row.dataset.key, row]));
const count = data.time.length;
if (count === 0) return;

// ---- Bubble ---------------------------------------------------------------------------------------

const bubble = document.createElementNS(SVG, 'g');
bubble.setAttribute('class', 'bubble');
const box = document.createElementNS(SVG, 'rect');
box.setAttribute('rx', '6');
box.setAttribute('height', '44');
const lines = [0, 1].map(i => {
  const text = document.createElementNS(SVG, 'text');
  text.setAttribute('x', '10');
  text.setAttribute('y', 18 + 17 * i);
  return text;
});
lines[1].setAttribute('class', 'muted');
bubble.append(box, ...lines);
pointer.append(bubble);
field.style.cursor = 'crosshair';

function lastAt(times, time) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
const within = (spans, time) => spans.some(([from, to]) => from < time && time < to);

function setRow(row, value, total) {
  if (!row) return;
  row.querySelector('.value').textContent = value === null ? '\u2013' : bytes(value);
  const share = row.querySelector('.share');
  if (share) share.textContent = percent(value, total);
}

/// Shows the point `i`; -1: hides the pointer and restores the legend, which has the peak.
const drawn = new Map(Array.from(root.querySelectorAll('.when, .row .value, .row .share'),
                                 text => [text, text.textContent]));
let at = -1;
function show(i) {
  at = i;
  if (i < 0) {
    pointer.setAttribute('visibility', 'hidden');
    for (const [text, words] of drawn) text.textContent = words;
    return;
  }
  const time = data.time[i], live = data.live[i];
  const x = data.left + (data.right - data.left) * (time - data.from) / (data.to - data.from);
  const y = data.lower - (data.lower - data.upper) * Math.min(1, live / data.top);
  pointer.setAttribute('visibility', 'visible');
  pointer.setAttribute('transform', `translate(${x.toFixed(1)} 0)`);
  dot.setAttribute('cy', y.toFixed(1));
  when.textContent = time === data.peak[0] ? drawn.get(when) : 'At ' + seconds(time);
  let rest = live;
  data.sites.forEach((site, k) => {
    setRow(rows.get(String(k)), site.bytes[i], live);
    rest -= site.bytes[i];
  });
  setRow(rows.get('other'), Math.max(rest, 0), live);
  const sample = lastAt(data.rssTime, time);
  const idle = within(data.idle, time);
  const resident = sample < 0 || within(data.unsampled, time) ? null : data.rss[sample];
  setRow(rows.get('rss'), resident, 0);
  lines[0].textContent = `${bytes(live)} live at ${seconds(time)}`;
  lines[1].textContent = idle ? 'idle (no events)' : within(data.pauses, time) ? 'paused: lower bound' :
    resident === null ? '' : `${bytes(resident)} resident`;
  const width = Math.max(...lines.map(line => line.getComputedTextLength())) + 20;
  box.setAttribute('width', width);
  const left = x + width + 14 > data.right ? -width - 10 : 10;
  bubble.setAttribute('transform', `translate(${left} ${Math.max(data.upper, y - 56).toFixed(1)})`);
}

field.addEventListener('mousemove', event => {
  const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(root.getScreenCTM().inverse());
  const time = (place.x - data.left) / (data.right - data.left) * (data.to - data.from) + data.from;
  let i = Math.max(0, lastAt(data.time, time));
  if (i + 1 < count && data.time[i + 1] - time < time - data.time[i]) ++i;
  show(i);
});
field.addEventListener('mouseleave', () => show(-1));
field.addEventListener('blur', () => show(-1));
field.addEventListener('keydown', event => {
  const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20}[event.key];
  if (step) show(Math.min(count - 1, Math.max(0, (at < 0 ? data.time.indexOf(data.peak[0]) : at) + step)));
  else if (event.key === 'Home') show(0);
  else if (event.key === 'End') show(count - 1);
  else if (event.key === 'Escape') show(-1);
  else return;
  event.preventDefault();
});

// Highlights the area of the legend row under the pointer.
rows.forEach((row, key) => {
  const area = areas && areas.querySelector(key === 'other' ? '.other' : '.site' + key);
  if (!area) return;
  const pick = on => {
    areas.classList.toggle('picking', on);
    area.classList.toggle('picked', on);
  };
  row.addEventListener('mouseenter', () => pick(true));
  row.addEventListener('mouseleave', () => pick(false));
});

// For screenshots: #at=SECONDS.
const wanted = /^#at=([\d.]+)$/.exec(location.hash);
if (wanted) show(Math.max(0, lastAt(data.time, Number(wanted[1]) * 1e9)));
})();
