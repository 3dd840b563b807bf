// The viewer of a heapprof flame graph: a picture of its own, or a part of a page. The frames come in preorder, one
// array per property (see write_flame_data() in flame_data.cpp). Only the frames that the window shows are drawn.
// Needs figures.js.
//
// flameGraph(data, part): `part` is null in a picture. In a page it has `host`, the element to fill;
// `styleOf(function)`, the class of a frame's colour; `flames`, whether the outermost frames are at the bottom;
// `mergedNote`, a sentence about merged frames; `isSelected(function)`, whether its frames are marked; `zoom`, the
// names of the frames from the outermost one to the one that fills the width, or their hash; `onZoom(names)`, called
// when that changes; `onSelect(function, names)`, called instead when a frame is chosen, with its entry of `functions`;
// and `kept`, an object for what the next graph in its place takes over, see analyzer/page/view_state.js.
// `data.figures`, if given, has each frame's figures as lines of [label, text...] for the tooltip.
'use strict';
function flameGraph(data, part) {

const SVG = 'http://www.w3.org/2000/svg';
const HTML = 'http://www.w3.org/1999/xhtml';
const ROW = 19;            // pixels from row to row
const BAR = 18;            // height of a frame
const MIN_WIDTH = 0.3;     // narrower frames are not drawn one by one
const LABEL_ROOM = 22;     // narrower frames have no label
const MIN_ELEMENT = 8;     // narrower frames of one colour are drawn as one path: thousands of elements are slow
const FONT = '11.5px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif';
const GREY = 12;           // hue of frames without a module

const root = part ? part.host :
  (document.currentScript && document.currentScript.closest('svg')) || document.documentElement;
const standalone = root === document.documentElement;

// ---- The tree -------------------------------------------------------------------------------------

const count = data.depth.length;
const depth = data.depth, value = data.value, fn = data.function;
const parent = new Int32Array(count).fill(-1);
const end = new Int32Array(count);       // one past the last frame below
const start = new Float64Array(count);   // value to the left
const self = Float64Array.from(value);
let rows = 0;
{
  const path = [];
  const next = [];
  for (let i = 0; i < count; ++i) {
    const d = depth[i];
    rows = Math.max(rows, d + 1);
    for (let k = path.length; k > d; --k) end[path[k - 1]] = i;
    path.length = d;
    if (d > 0) {
      const p = parent[i] = path[d - 1];
      start[i] = next[d - 1];
      next[d - 1] += value[i];
      self[p] -= value[i];
    }
    path.push(i);
    next[d] = start[i];
  }
  for (const i of path) end[i] = count;
}

const isMerged = i => fn[i] < 0 && i !== 0;
const nameOf = i => i === 0 ? 'all' : isMerged(i) ? plural(data.line[i], 'small frame') : data.functions[fn[i]][0];
const labelOf = i => {
  if (i === 0)
    return 'all: ' + (data.was ? `${humanNumber(data.was[0])} before, ${humanNumber(data.is[0])} after` : human(0));
  return isMerged(i) ? nameOf(i) : data.functions[fn[i]][1] || data.functions[fn[i]][0];
};
const moduleOf = i => fn[i] < 0 ? '' : data.modules[data.functions[fn[i]][2]][0];
const fileOf = i => fn[i] < 0 ? '' : data.files[data.functions[fn[i]][3]];
const isInlined = i => fn[i] >= 0 && data.functions[fn[i]][5] === 1;
const hueClass = i => {
  if (data.was) return 'g' + data.grade[i];
  if (part) return part.styleOf(fn[i] < 0 ? null : data.functions[fn[i]]);
  if (fn[i] < 0) return `h${GREY}s0`;
  const [, , module, , shade] = data.functions[fn[i]];
  return `h${data.modules[module][1]}s${shade}`;
};
const whereOf = i => {
  const file = fileOf(i), line = data.line[i];
  if (!file || isMerged(i)) return '';
  return line > 0 ? `${file}:${line}` : line < 0 ? `${file}:${-line} and other lines` : file;
};

// ---- Figures --------------------------------------------------------------------------------------

const {grouped, percent, plural} = figures;
function humanNumber(x) { return data.unit === 'bytes' ? figures.bytes(x) : grouped(x); }
function human(i) { return data.unit !== 'bytes' ? exact(i) : humanNumber(value[i]); }
function exact(i) { return grouped(data.exact[i] || value[i]); }
/// The change of a frame in a comparison.
function changed(i) {
  const by = data.is[i] - data.was[i];
  return by === 0 ? 'no change' : (by < 0 ? '\u2212' : '+') + humanNumber(Math.abs(by));
}

// ---- The page -------------------------------------------------------------------------------------

function make(tag, attributes, ...children) {
  const element = document.createElementNS(HTML, tag);
  for (const [key, text] of Object.entries(attributes || {})) element.setAttribute(key, text);
  element.append(...children);
  return element;
}
function draw(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  return element;
}

const input = make('input', {type: 'search', spellcheck: 'false', autocomplete: 'off',
                             'aria-label': 'Search functions',
                             placeholder: 'Search functions, module:name, file:name'});
const regexButton = make('button', {type: 'button', 'aria-pressed': 'false', title: 'Regular expression'}, '.*');
const searchBox = make('div', {class: 'search'}, input, regexButton);
const found = make('span', {class: 'found', role: 'status'});
const resetButton = make('button', {type: 'button', title: 'Show everything (Home)'}, 'Reset zoom');
const flipButton = make('button', {type: 'button', 'aria-pressed': 'false',
                                   title: 'Outermost frames at the bottom (f)'}, 'Flip');
const crumbs = make('nav', {class: 'crumbs', 'aria-label': 'Zoomed frame and its callers'});
const legend = make('div', {class: 'legend'});
const frames = draw('svg', {tabindex: '0', role: 'application', 'aria-label':
  `Flame graph. Arrow keys move, Enter ${part ? 'selects a function and ' : ''}zooms in, Escape zooms out.`});
const ring = draw('rect', {class: 'ring', height: BAR, rx: 2});
const pointed = draw('rect', {class: 'pointed', height: BAR, rx: 2});
frames.append(draw('g', {}), pointed, ring);
// How many levels are outside the window, at the edge where they are; a click scrolls there.
const outsideUp = make('button', {type: 'button', class: 'outside up', tabindex: '-1'});
const outsideDown = make('button', {type: 'button', class: 'outside down', tabindex: '-1'});
const chart = make('div', {class: 'chart'}, outsideUp, frames, outsideDown);
const hiddenNote = make('span', {});
const tip = make('div', {class: 'tip'});
const spoken = make('div', {class: 'unseen', 'aria-live': 'polite'});
const context = make('p', {class: 'context'});
for (const [label, text] of data.context)
  context.append(make('span', {}, label ? label + ' ' : '', make('b', {}, text)));
const keys = make('span', {});
for (const [key, text] of [['/', 'search'], ['\u2190\u2191\u2192\u2193', 'move'], ['Enter', 'zoom in'],
                           ['Esc', 'zoom out'], ['n', 'next match'], ['f', 'flip']])
  keys.append(make('kbd', {}, key), ' ' + text + '\u2002');

const page = make('div', {class: 'hp'},
  part ? '' : make('header', {},
    make('div', {}, make('h1', {}, data.title), context),
    make('div', {class: 'sum'}, make('b', {}, data.was ? changed(0) : human(0)), data.cost)),
  make('div', {class: 'bar'}, searchBox, found, make('span', {class: 'space'}), resetButton, flipButton),
  legend, crumbs, chart,
  make('footer', {}, hiddenNote, keys), tip, spoken);

if (data.was) {
  const levels = make('span', {class: 'note'});
  for (let grade = 0; grade < 9; ++grade) levels.append(make('i', {class: 'g' + grade}));
  legend.append(levels, make('span', {class: 'note'}, make('small', {},
    'red: more than before; blue: less; width: the larger of the two values')));
}
for (const [name, hue, own] of data.was || part ? [] : data.modules.slice(0, 9)) {
  const swatch = make('i', {class: `h${hue}l`});
  const text = name || 'unknown';
  const button = make('button', {type: 'button', title: `${humanNumber(own)} allocated by frames of ${text}`}, swatch,
                      text.length > 32 ? text.slice(0, 31) + '\u2026' : text,
                      make('small', {}, own > 0 ? percent(own, value[0]) : ''));
  button.addEventListener('click', () => {
    const query = `module:${name}`;
    search(input.value === query ? '' : query, false);
  });
  if (name) legend.append(button);
}
if (!data.was && data.functions.some(f => f[5] === 1))
  legend.append(make('span', {class: 'note'}, make('i', {class: 'inlined'}), make('small', {}, 'inlined')));

const drawing = root.querySelector('#drawing');
if (drawing) drawing.remove();
if (standalone) {
  root.removeAttribute('viewBox');
  root.setAttribute('width', '100%');
  root.setAttribute('height', '100%');
  root.style.position = 'fixed';
  root.style.inset = '0';
}
if (part) {
  root.append(page);
} else {
  const frame = draw('foreignObject', {x: 0, y: 0, width: '100%', height: '100%'});
  frame.append(page);
  root.append(frame);
}

// ---- State ----------------------------------------------------------------------------------------

let zoomed = 0;          // the frame that fills the width
let current = 0;         // the frame selected by keyboard
const former = part && part.kept.state ? part.kept.state() : null;   // the graph before, in the same place of a page
let flames = former ? former.flames : Boolean(part && part.flames);   // outermost frames at the bottom
let matches = null;      // Uint8Array by frame, or null without a search
let matchesBefore = null;  // Uint32Array: matches among the frames before each
let matchOrder = [];     // matched frames by falling value
let matchAt = -1;
let boxes = [];          // the boxes of the current zoom: {i, x, w, row, n}; n > 0: a stub in the place of n frames
let boxRows = [];        // boxes by row
let spareRows = 0;       // empty ones above them

const isAbove = i => i < zoomed && end[i] >= end[zoomed];
const chartWidth = () => Math.max(50, frames.clientWidth || chart.clientWidth - 32);
const sizeNow = () => `${chartWidth()} ${chart.clientHeight}`;
let laidOut = '';        // the size for which the boxes are laid out

/// Lays out the boxes that are wide enough to be drawn.
function layOut() {
  const width = chartWidth();
  const scale = value[zoomed] > 0 ? width / value[zoomed] : 0;
  let hiddenFrames = 0, hiddenValue = 0;
  boxes = [];
  for (let i = parent[zoomed]; i >= 0; i = parent[i]) boxes.push({i, x: 0, w: width, row: depth[i], n: 0});
  boxes.reverse();
  for (let i = zoomed; i < end[zoomed];) {
    const w = value[i] * scale, x = (start[i] - start[zoomed]) * scale;
    if (w >= MIN_WIDTH || i === zoomed) {
      boxes.push({i, x, w, row: depth[i], n: 0});
      ++i;
      continue;
    }
    // Siblings are in descending order: this one and all after it are too narrow. They become one stub.
    const up = parent[i];
    const last = end[up];
    const lost = start[up] + value[up] - self[up] - start[i];
    boxes.push({i, x, w: lost * scale, row: depth[i], n: last - i, v: lost});
    hiddenFrames += last - i;
    hiddenValue += lost;
    i = last;
  }
  boxRows = [];
  for (const box of boxes) (boxRows[box.row] || (boxRows[box.row] = [])).push(box);
  const parts = [];
  if (hiddenFrames > 0)
    parts.push(`${plural(hiddenFrames, 'frame')} too narrow to draw: ${humanNumber(hiddenValue)}, ` +
               `${percent(hiddenValue, value[zoomed])} of this view`);
  if (data.merged[0] > 0)
    parts.push(`${plural(data.merged[0], 'small frame')} merged ${part ? 'here' : 'in this file'}: ` +
               `${humanNumber(data.merged[1])}, ` +
               percent(data.merged[1], value[0]));
  hiddenNote.textContent = parts.join('. ') || plural(count - 1, 'frame') + ', all drawn';
  // With flames, the outermost frame is at the lower edge of the window.
  const room = flames ? Math.floor((chart.clientHeight - 20) / ROW) : 0;
  spareRows = Math.max(0, room - boxRows.length);
  frames.setAttribute('height', (Math.max(boxRows.length, 1) + spareRows) * ROW + 10);
  laidOut = sizeNow();
}

const rowTop = row => (flames ? spareRows + boxRows.length - 1 - row : row) * ROW;

const canvas = make('canvas').getContext('2d');
canvas.font = FONT;
const widths = new Map();
function textWidth(text) {
  let width = widths.get(text);
  if (width === undefined) widths.set(text, width = canvas.measureText(text).width);
  return width;
}
/// The positions after each scope of a name, outermost first: where there is little room, only the part after a scope
/// is the label. For an unresolved address that part is the offset; the colour shows the module.
function scopes(label) {
  const offset = label.search(/\+0x[0-9a-f]+$/);
  if (offset > 0) return [offset];
  const ends = [];
  let nested = 0;
  for (let i = 0; i + 2 < label.length; ++i) {
    const c = label[i];
    if ('<({'.includes(c)) ++nested;
    else if ('>)}'.includes(c)) --nested;
    else if (nested === 0 && c === ':' && label[i + 1] === ':') ends.push(i + 2);
  }
  return ends;
}
function fit(label, room) {
  const isNarrow = text => text.length * 12 < room || (text.length * 3 < room && textWidth(text) <= room);
  if (isNarrow(label)) return label;
  let inner = label;
  for (const end of scopes(label)) {
    inner = label.slice(end);
    if (isNarrow(inner)) return inner;
  }
  label = inner;
  let low = 0, high = Math.min(label.length - 1, Math.ceil(room / 3));
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (canvas.measureText(label.slice(0, middle) + '\u2026').width <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? label.slice(0, low) + '\u2026' : '';
}

function matchesIn(from, to) { return matches ? matchesBefore[to] - matchesBefore[from] : 0; }

/// Draws the visible rows and a few above and below.
let painted = '';
function paint(force) {
  const top = chart.scrollTop - 8 * ROW, bottom = chart.scrollTop + chart.clientHeight + 8 * ROW;
  let first = Math.floor(top / ROW), last = Math.ceil(bottom / ROW);
  if (flames) [first, last] = [spareRows + boxRows.length - 1 - last, spareRows + boxRows.length - 1 - first];
  first = Math.max(first, 0);
  last = Math.min(last, boxRows.length - 1);
  const key = first + ':' + last;
  showOutside();
  if (!force && key === painted) return;
  painted = key;
  const group = draw('g', {class: matches ? 'searching' : ''});
  const paths = new Map();
  const wide = document.createDocumentFragment();
  for (let row = first; row <= last; ++row) {
    for (const box of boxRows[row] || []) {
      const {i, x, w, n} = box;
      if (n > 0 && w < MIN_WIDTH) continue;
      const stub = n > 0;
      const lit = matches && (stub ? matchesIn(i, i + n) > 0 : matches[i]);
      const shown = Math.max(w - (w > 2 ? 0.7 : w > 1 ? 0.3 : 0), 0.3);
      let style = stub ? 'stub' : hueClass(i);
      if (lit) style += ' lit';
      if (!stub && isAbove(i)) style += ' above';
      if (!stub && part && fn[i] >= 0 && part.isSelected(data.functions[fn[i]])) style += ' chosen';
      if (w < MIN_ELEMENT) {
        const length = hundredth(shown);
        paths.set(style, (paths.get(style) || '') + `M${hundredth(x)} ${rowTop(row)}h${length}v${BAR}h-${length}z`);
        continue;
      }
      if (!stub && isInlined(i)) style += ' inl';
      const rect = draw('rect', {x: hundredth(x), y: rowTop(row), width: hundredth(shown), height: BAR, rx: 2,
                                 class: style});
      wide.append(rect);
      if (stub || w < LABEL_ROOM) continue;
      const label = fit(labelOf(i), w - 9);
      if (!label) continue;
      const text = draw('text', {x: (x + 5).toFixed(2), y: rowTop(row) + BAR - 5,
                                 class: isInlined(i) ? 'label inl' : 'label'});
      text.textContent = label;
      wide.append(text);
    }
  }
  for (const [style, d] of paths) group.append(draw('path', {class: style, d}));
  group.append(wide);
  frames.replaceChild(group, frames.firstChild);
  point(null);
  placeRing();
}

/// Shows how many levels are above and below the window.
function showOutside() {
  const levels = boxRows.length;
  const within = hidden => Math.max(0, Math.min(levels, hidden));
  const above = within(Math.round(chart.scrollTop / ROW) - spareRows);
  const below = within(spareRows + levels - Math.round((chart.scrollTop + chart.clientHeight) / ROW));
  for (const [button, hidden, sign] of [[outsideUp, above, '\u25b4'], [outsideDown, below, '\u25be']]) {
    button.classList.toggle('on', hidden > 0);
    if (hidden > 0) button.textContent = `${sign} ${grouped(hidden)} more level${hidden === 1 ? '' : 's'}`;
  }
}
function scrollByWindow(sign) {
  chart.scrollTop += sign * Math.max(ROW, chart.clientHeight - 3 * ROW);
  paint();
}

function hundredth(x) { return Math.round(x * 100) / 100; }

/// The box under the pointer, or null.
function boxAt(event) {
  const area = frames.getBoundingClientRect();
  const x = event.clientX - area.left;
  const drawn = Math.floor((event.clientY - area.top) / ROW);
  const row = boxRows[flames ? spareRows + boxRows.length - 1 - drawn : drawn];
  if (!row || event.clientY - area.top - drawn * ROW > BAR) return null;
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle].x <= x) low = middle + 1;
    else high = middle;
  }
  const box = row[low - 1];
  return box && x <= box.x + box.w ? box : null;
}

function boxOf(i) { return (boxRows[depth[i]] || []).find(box => box.i === i && box.n === 0); }

function placeRing() {
  const box = boxOf(current);
  ring.setAttribute('display', box ? 'inline' : 'none');
  if (!box) return;
  ring.setAttribute('x', box.x);
  ring.setAttribute('y', rowTop(box.row));
  ring.setAttribute('width', Math.max(box.w, 2));
}

function refresh() {
  layOut();
  paint(true);
  if (value[0] === 0 && !page.querySelector('.empty')) {
    frames.style.display = 'none';
    chart.append(make('div', {class: 'empty'}, 'Nothing to show: no ' + data.cost + '.'));
  }
}

// ---- Zoom, breadcrumbs ----------------------------------------------------------------------------

function zoom(i, remember = true) {
  if (isMerged(i)) return;
  const wasZoomed = zoomed;
  zoomed = i;
  current = i;
  resetButton.disabled = i === 0;
  const path = [];
  for (let p = i; p >= 0; p = parent[p]) path.unshift(p);
  // Long paths keep both ends.
  const shown = path.length > 9 ? [...path.slice(0, 2), -1, ...path.slice(-6)] : path;
  crumbs.replaceChildren();
  crumbs.style.display = i === 0 ? 'none' : '';
  shown.forEach((p, k) => {
    if (k > 0) crumbs.append('\u203a');
    if (p < 0) {
      crumbs.append(make('span', {}, (path.length - 8) + ' more'));
      return;
    }
    const crumb = make('button', {type: 'button', title: nameOf(p).slice(0, 400)},
                       p === 0 ? 'all' : labelOf(p).slice(0, 200));
    if (p === i) crumb.setAttribute('aria-current', 'true');
    crumb.addEventListener('click', () => zoom(p));
    crumbs.append(crumb);
  });
  hideTip();
  refresh();
  if (i !== wasZoomed) chart.scrollTop = flames ? chart.scrollHeight : Math.max(0, (depth[i] - 3) * ROW);
  paint();
  if (remember) saveState(true);
  if (remember && part && i !== wasZoomed) part.onZoom(namesTo(i));
}

/// The names of the frame's callers and of itself, outermost first, without the root.
function namesTo(i) {
  const path = [];
  for (let p = i; p > 0; p = parent[p]) path.push(nameOf(p));
  return path.reverse();
}
/// The frame with these names, or the last one of them that is found; or the one with their flameGraph.hashOf().
function frameAt(path) {
  if (typeof path === 'number') return frameWith(path);
  let to = 0;
  for (const name of path) {
    let next = to + 1;
    while (next < end[to] && (isMerged(next) || nameOf(next) !== name)) next = end[next];
    if (next >= end[to]) break;
    to = next;
  }
  return to;
}
/// Zooms to such a frame.
function zoomTo(path) {
  const to = frameAt(path);
  if (to !== zoomed) zoom(to, false);
}
/// The frame whose path has this hash: of several, the zoomed one; 0 if there is none.
function frameWith(hash) {
  if (flameGraph.hashOf(namesTo(zoomed)) === hash) return zoomed;
  const hashes = new Int32Array(count);
  for (let i = 1; i < count; ++i) {
    if (isMerged(i)) continue;
    hashes[i] = flameGraph.nextHash(hashes[parent[i]], nameOf(i));
    if (hashes[i] === hash) return i;
  }
  return 0;
}
/// Zooms to the widest frame that `isWanted` (of an entry of `functions`) accepts. Frames within such a frame do not
/// count. Returns {frames, share}: how many there are, and the share of their values that this one has; null: none.
function zoomToFunction(isWanted) {
  const wanted = data.functions.map(isWanted);
  let widest = -1, frames = 0, total = 0;
  for (let i = 1; i < count;) {
    if (fn[i] < 0 || !wanted[fn[i]]) {
      ++i;
      continue;
    }
    if (widest < 0 || value[i] > value[widest]) widest = i;
    ++frames;
    total += value[i];
    i = end[i];
  }
  if (widest < 0) return null;
  zoom(widest, false);
  return {frames, share: total > 0 ? value[widest] / total : 1};
}

function zoomOut() { zoom(zoomed > 0 ? parent[zoomed] : 0); }

// ---- Search ---------------------------------------------------------------------------------------

function search(text, isRegex, remember = true) {
  if (input.value !== text) input.value = text;
  regexButton.setAttribute('aria-pressed', String(isRegex));
  searchBox.classList.remove('bad');
  searchBox.title = '';
  matches = null;
  matchOrder = [];
  matchAt = -1;
  found.replaceChildren();
  // The search of a page is for the same text in all of its views.
  const [, field, wanted] = part ? [text, undefined, text] : /^(?:(module|file):)?([^]*)$/.exec(text);
  let test = null;
  if (wanted !== '' || field === 'module') {
    // A search with capital letters is case-sensitive.
    const exactCase = wanted !== wanted.toLowerCase();
    if (isRegex) {
      try {
        const pattern = new RegExp(wanted, exactCase ? '' : 'i');
        test = name => pattern.test(name);
      } catch (error) {
        searchBox.classList.add('bad');
        searchBox.title = error.message;
        found.append('invalid regular expression');
      }
    } else if (field === 'module' && data.modules.some(m => m[0] === wanted)) {
      test = name => name === wanted;
    } else {
      const needle = exactCase ? wanted : wanted.toLowerCase();
      test = name => (exactCase ? name : name.toLowerCase()).includes(needle);
    }
  }
  if (test) {
    const wordOf = {module: f => data.modules[f[2]][0], file: f => data.files[f[3]]}[field] || (f => f[0]);
    const hits = data.functions.map(f => test(wordOf(f)));
    matches = new Uint8Array(count);
    matchesBefore = new Uint32Array(count + 1);
    let total = 0, covered = 0;
    for (let i = 0; i < count; ++i) {
      matchesBefore[i + 1] = matchesBefore[i];
      if (fn[i] < 0 || !hits[fn[i]]) continue;
      matches[i] = 1;
      ++matchesBefore[i + 1];
      matchOrder.push(i);
      // A match inside another match is already in its sum.
      if (i >= covered) {
        total += value[i];
        covered = end[i];
      }
    }
    matchOrder.sort((a, b) => value[b] - value[a] || a - b);
    if (matchOrder.length === 0) found.append('no match');
    else found.append(make('b', {}, percent(total, value[0])),
                      ` ${humanNumber(total)} in ${plural(matchOrder.length, 'frame')}`);
  }
  refresh();
  if (remember) saveState();
}

function nextMatch(step) {
  if (matchOrder.length === 0) return;
  matchAt = (matchAt + step + matchOrder.length) % matchOrder.length;
  const i = matchOrder[matchAt];
  // If the frame is outside the current zoom, zoom out first, then in until it is wide enough.
  if (i < zoomed || i >= end[zoomed]) zoom(0, false);
  let to = zoomed;
  if (value[i] / Math.max(value[zoomed], 1) * chartWidth() < 12) to = parent[i] > 0 ? parent[i] : i;
  if (to !== zoomed) zoom(to);
  select(i);
}

// ---- Tooltip --------------------------------------------------------------------------------------

function describe(box) {
  const {i, n} = box;
  tip.replaceChildren();
  const total = data.total;
  if (n > 0) {
    tip.append(make('strong', {}, plural(n, 'frame') + ' too narrow to draw'),
               make('div', {class: 'where'},
                    `${humanNumber(box.v)}, ${percent(box.v, total)} of the total. Zoom in to see them.`));
    return;
  }
  const name = nameOf(i);
  const title = make('strong', {}, name.length > 500 ? name.slice(0, 500) + '\u2026' : name);
  if (isInlined(i)) title.append(make('span', {class: 'tag'}, 'inlined'));
  tip.append(title);
  if (isMerged(i))
    tip.append(make('div', {class: 'where'},
                    part ? part.mergedNote : 'merged in this file; --format folded has all frames'));
  const where = [moduleOf(i), whereOf(i)].filter(Boolean).join('\u2002\u00b7\u2002');
  if (where) tip.append(make('div', {class: 'where'}, where));
  const table = make('table');
  const line = (label, ...cells) =>
    table.append(make('tr', {}, make('td', {}, label), ...cells.map(cell => make('td', {class: 'n'}, cell))));
  if (data.was) {
    line('before', humanNumber(data.was[i]), percent(data.was[i], data.was[0]));
    line('after', humanNumber(data.is[i]), percent(data.is[i], data.is[0]));
    line('change', changed(i), data.was[i] > 0 && data.is[i] !== data.was[i] ?
      (data.is[i] > data.was[i] ? '+' : '\u2212') + percent(Math.abs(data.is[i] - data.was[i]), data.was[i]) : '');
    tip.append(table);
    return;
  }
  if (data.unit === 'bytes') line('bytes', human(i), exact(i));
  else line('count', exact(i));
  const own = Math.max(0, self[i]);
  if (end[i] > i + 1 && own > 0) line('self', humanNumber(own), percent(own, value[i]));
  line('of total', percent(value[i], total));
  if (i > 0 && parent[i] > 0) line('of caller', percent(value[i], value[parent[i]]));
  if (zoomed > 0 && i > zoomed) line('of zoomed', percent(value[i], value[zoomed]));
  for (const cells of data.figures ? data.figures(i) : []) line(...cells);
  tip.append(table);
}

/// Shows the tooltip near (x, y), in pixels of the page.
function showTip(box, x, y) {
  describe(box);
  const area = page.getBoundingClientRect();
  const width = tip.offsetWidth, height = tip.offsetHeight;
  let left = x - area.left + 14, top = y - area.top + 18;
  if (left + width > area.width - 8)
    left = Math.max(8, Math.min(area.width - width - 8, x - area.left - width - 10));
  if (top + height > area.height - 8) top = Math.max(8, y - area.top - height - 12);
  tip.style.left = left + 'px';
  tip.style.top = top + 'px';
  tip.classList.add('on');
}
function hideTip() { tip.classList.remove('on'); }

function point(box) {
  pointed.setAttribute('display', box ? 'inline' : 'none');
  frames.style.cursor = box ? 'pointer' : 'default';
  if (!box) return;
  pointed.setAttribute('x', box.x);
  pointed.setAttribute('y', rowTop(box.row));
  pointed.setAttribute('width', Math.max(box.w - 0.7, 1));
}

// While the tooltip is that of a finger, movements of the mouse are those that the browser makes when it is lifted.
let isHeld = false;
frames.addEventListener('pointermove', ({pointerType}) => { if (pointerType === 'mouse') isHeld = false; });
frames.addEventListener('mousemove', event => {
  if (isHeld) return;
  const box = boxAt(event);
  point(box);
  if (box) showTip(box, event.clientX, event.clientY);
  else hideTip();
});
frames.addEventListener('mouseleave', () => {
  if (isHeld) return;
  point(null);
  hideTip();
});
function holdTip() {
  isHeld = true;
  document.addEventListener('pointerdown', () => {
    isHeld = false;
    mouse = null;
    point(null);
    hideTip();
  }, {once: true, capture: true});
}
flameGraph.onHold(frames, ({clientX, clientY}) => {
  const box = boxAt({clientX, clientY});
  if (!box) return false;
  mouse = {clientX, clientY};
  point(box);
  showTip(box, clientX, clientY);
  holdTip();
  return true;
});
/// Zooms to a frame; out of it, if it is the zoomed one. A page selects its function in the same step.
function choose(i) {
  const isSelected = part && fn[i] >= 0;
  zoom(i === zoomed ? Math.max(parent[i], 0) : i, !isSelected);
  if (isSelected) part.onSelect(data.functions[fn[i]], namesTo(zoomed));
}

frames.addEventListener('click', event => {
  chart.classList.remove('keys');
  const box = boxAt(event);
  if (!box) return;
  if (box.n === 0) choose(box.i);
  // A stub: zoom to the caller, where its frames are wider.
  else zoom(parent[box.i] === zoomed ? box.i : parent[box.i]);
});

// ---- Keyboard -------------------------------------------------------------------------------------

/// Selects a frame by keyboard, scrolls to it and announces it.
function select(i) {
  current = i;
  chart.classList.add('keys');
  const box = boxOf(i);
  if (!box) return;
  const top = rowTop(box.row);
  const bottom = top + ROW + 16 - chart.clientHeight;
  if (top < chart.scrollTop) chart.scrollTop = top;
  else if (bottom > chart.scrollTop) chart.scrollTop = bottom;
  paint();
  placeRing();
  const area = frames.getBoundingClientRect();
  showTip(box, area.left + Math.min(box.x + Math.min(box.w, 120), area.width - 40), area.top + top + 2);
  const figures = data.was ?
    `${humanNumber(data.was[i])} before, ${humanNumber(data.is[i])} after, ${changed(i)}` :
    `${human(i)}, ${percent(value[i], data.total)} of total`;
  spoken.textContent = nameOf(i).slice(0, 300) + (isInlined(i) ? ', inlined' : '') + ', ' + figures;
}

function neighbour(key) {
  const here = boxOf(current) ? current : zoomed;
  if (key === 'out') return parent[here];
  if (key === 'in') return here + 1 < end[here] && boxOf(here + 1) ? here + 1 : -1;
  const row = (boxRows[depth[here]] || []).filter(box => box.n === 0);
  const at = row.findIndex(box => box.i === here);
  const to = row[at + (key === 'right' ? 1 : -1)];
  return to ? to.i : -1;
}

frames.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = {ArrowLeft: 'left', ArrowRight: 'right',
                ArrowUp: flames ? 'in' : 'out', ArrowDown: flames ? 'out' : 'in'};
  if (keys[event.key]) {
    const to = neighbour(keys[event.key]);
    if (to >= 0) select(to);
  } else if (event.key === 'Enter' || event.key === ' ') {
    const i = current;
    choose(i);
    select(i);
  } else return;
  event.preventDefault();
});
let isRestoring = false;
frames.addEventListener('focus', () => { if (!isRestoring && frames.matches(':focus-visible')) select(current); });
/// For a graph that is drawn again: no tooltip and no announcement, which would come with each update of a program.
function restoreFocus() {
  isRestoring = true;
  frames.focus({preventScroll: true});
  isRestoring = false;
}
frames.addEventListener('blur', () => { chart.classList.remove('keys'); hideTip(); });

// In a page these keys act where the graph has the focus; Escape then undoes the page's steps where there is no step
// of the graph to undo.
(part ? page : document).addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'Escape') {
    if (part && zoomed === 0) return;
    if (tip.classList.contains('on') && event.target !== frames) hideTip();
    // The page's own field ends its search.
    if (!part && input.value !== '') search('', regexButton.getAttribute('aria-pressed') === 'true');
    else if (event.target === input) frames.focus();
    else zoomOut();
  } else if (event.target === input) {
    if (event.key === 'Enter') nextMatch(event.shiftKey ? -1 : 1);
    else return;
  } else if (event.key === '/' && !part) {   // a page has its own field
    input.focus();
    input.select();
  } else if (event.key === 'Home') zoom(0);
  else if (event.key === 'f') setFlames(!flames);
  else if (event.key === 'n' || event.key === 'N') nextMatch(event.key === 'n' ? 1 : -1);
  else return;
  event.preventDefault();
  if (part) event.stopPropagation();
});

// ---- Controls and the address ---------------------------------------------------------------------

function setFlames(on, remember = true) {
  flames = on;
  flipButton.setAttribute('aria-pressed', String(on));
  hideTip();
  refresh();
  chart.scrollTop = on ? chart.scrollHeight : 0;
  paint();
  if (remember) saveState();
}

let typing = 0;
input.addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => search(input.value, regexButton.getAttribute('aria-pressed') === 'true'), 120);
});
regexButton.addEventListener('click', () => search(input.value, regexButton.getAttribute('aria-pressed') !== 'true'));
resetButton.addEventListener('click', () => zoom(0));
flipButton.addEventListener('click', () => setFlames(!flames));
outsideUp.addEventListener('click', () => scrollByWindow(-1));
outsideDown.addEventListener('click', () => scrollByWindow(1));
chart.addEventListener('scroll', () => requestAnimationFrame(() => paint()));
// Not a listener of the window: a page draws graphs again and again, and each would stay in memory with its data.
new ResizeObserver(() => {
  if (page.isConnected && sizeNow() !== laidOut) requestAnimationFrame(refresh);
}).observe(chart);

/// The address has the state, so that a view can be bookmarked and Back undoes a zoom. Browsers may refuse to change
/// the address of a local file; the viewer does not need it.
let saved = '';
function saveState(asStep) {
  const parts = [];
  if (input.value) parts.push('search=' + encodeURIComponent(input.value));
  if (input.value && regexButton.getAttribute('aria-pressed') === 'true') parts.push('regex=1');
  if (zoomed > 0) parts.push('zoom=' + zoomed);
  if (flames) parts.push('view=flame');
  const state = parts.join('&');
  if (state === saved || !standalone) return;
  saved = state;
  try {
    if (asStep) location.hash = state;
    else location.replace('#' + state);
  } catch (error) { /* see above */ }
}
function loadState() {
  const state = location.hash.slice(1);
  if (state === saved) return;
  saved = state;
  const wanted = {};
  for (const part of state.split('&')) {
    const at = part.indexOf('=');
    try {
      if (at > 0) wanted[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1));
    } catch (error) { /* not written by saveState() */ }
  }
  search(wanted.search || '', wanted.regex === '1', false);
  setFlames(wanted.view === 'flame', false);
  const to = Number(wanted.zoom);
  zoom(Number.isInteger(to) && to > 0 && to < count ? to : 0, false);
}
if (standalone) window.addEventListener('hashchange', loadState);
zoom(0, false);
if (part && part.zoom) zoomTo(part.zoom);
flipButton.setAttribute('aria-pressed', String(flames));
if (flames) {
  // The outermost frame, of whose callers or callees the graph is, is at the bottom.
  chart.scrollTop = chart.scrollHeight;
  paint();
}
if (!part) loadState();

/// A page draws the graph of a running program again and again: the frame that is selected by keyboard, and the
/// tooltip, stay. They are not announced again.
let mouse = null;      // where it is over the frames
let isByKeys = false;  // frames are selected by keyboard
if (part) {
  frames.addEventListener('mousemove', ({clientX, clientY}) => { if (!isHeld) mouse = {clientX, clientY}; });
  frames.addEventListener('mouseleave', () => { if (!isHeld) mouse = null; });
  frames.addEventListener('keydown', () => { isByKeys = true; });
  frames.addEventListener('focus', () => { isByKeys = frames.matches(':focus-visible'); });
  frames.addEventListener('pointerdown', () => { isByKeys = false; });
  part.kept.state = () => ({flames, mouse, isHeld, isByKeys, path: namesTo(current)});
  part.kept.restore = () => {
    part.kept.restore = null;
    if (!former) return;
    const {scrollTop} = chart;
    [mouse, isByKeys, current] = [former.mouse, former.isByKeys, frameAt(former.path)];
    if (former.isHeld) holdTip();
    chart.classList.remove('keys');
    hideTip();
    placeRing();
    if (isByKeys && document.activeElement === frames) {
      select(current);
      spoken.textContent = '';
      chart.scrollTop = scrollTop;
      paint();
    } else if (mouse) {
      const box = boxAt(mouse);
      point(box);
      if (box) showTip(box, mouse.clientX, mouse.clientY);
    }
  };
}
return {search: text => search(text, false), zoomTo, zoomToFunction, restoreFocus, repaint: () => paint(true),
        drawn: () => frames};
}

/// The hash of a path whose last name is `name`, from the hash of the path before it (FNV-1a).
flameGraph.nextHash = (hash, name) => {
  const PRIME = 0x01000193, END = 0x10000;   // END is no character
  for (let i = 0; i < name.length; ++i) hash = Math.imul(hash ^ name.charCodeAt(i), PRIME);
  return Math.imul(hash ^ END, PRIME);
};
/// A number for a path whose names are too long to be kept.
flameGraph.hashOf = path => path.reduce((hash, name) => flameGraph.nextHash(hash, name), 0);

/// For tooltips where nothing hovers: calls `show(event)` when a finger is held on the element, with the event of its
/// press. `show` returns whether it has shown something; then the click that may follow is none.
flameGraph.onHold = (element, show) => {
  const HOLD_MS = 400;   // a browser selects text, or opens a menu, a little later
  const MOVES = 10;      // pixels by which a finger that is held may move
  let timer = 0, pressed = null, isShown = false;
  const listen = (kind, listener) => element.addEventListener(kind, listener, true);
  const end = () => {
    clearTimeout(timer);
    pressed = null;
  };
  listen('pointerdown', event => {
    end();
    isShown = false;
    if (event.pointerType === 'mouse' || !event.isPrimary) return;
    pressed = event;
    timer = setTimeout(() => { isShown = show(event); }, HOLD_MS);
  });
  listen('pointermove', ({clientX, clientY}) => {
    if (pressed && Math.hypot(clientX - pressed.clientX, clientY - pressed.clientY) > MOVES) end();
  });
  for (const kind of ['pointerup', 'pointercancel']) listen(kind, end);
  listen('click', event => {
    if (!isShown || event.detail === 0) return;   // 0: of a key
    isShown = false;
    event.preventDefault();
    event.stopImmediatePropagation();
  });
};

// A picture contains its frames; a page that includes this file calls flameGraph() itself.
{
  const picture = document.currentScript && document.currentScript.closest('svg') || document.documentElement;
  if (picture.localName === 'svg')
    flameGraph(JSON.parse(picture.querySelector('script[type="application/json"]').textContent), null);
}
