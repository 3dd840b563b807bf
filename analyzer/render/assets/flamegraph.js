// The viewer of a heapprof flame graph: a picture of its own, or a part of a page. Only the frames that the window
// shows are drawn. This file has the graph's state and the functions that change it. Its parts are in flame_*.js:
// the tree is laid out as boxes, which are drawn; pointer, keyboard, search and address call the functions here.
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

const {draw} = flameElements;
const {ROW} = flameLayout;
const root = part ? part.host :
  (document.currentScript && document.currentScript.closest('svg')) || document.documentElement;
const standalone = root === document.documentElement;

const tree = flameTree(data);
const {count, depth, value, fn, parent, end, namesTo} = tree;
const drawing = flameDrawing(tree, part);
const frames = drawing.svg;
const tip = flameTooltip(tree, part ? part.mergedNote : 'merged in this file; --format folded has all frames');
const controls = flameControls(tree, part, frames, tip.element,
                               query => search(controls.input.value === query ? '' : query, false));
const {page, chart} = controls;
const address = flameAddress(standalone);

const picture = root.querySelector('#drawing');
if (picture) picture.remove();
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

// ---- What is shown --------------------------------------------------------------------------------

const former = part && part.kept.state ? part.kept.state() : null;   // the graph before, in the same place of a page
const shown = {
  zoomed: 0,       // the frame that fills the width
  current: 0,      // the frame selected by keyboard
  flames: former ? former.flames : Boolean(part && part.flames),   // outermost frames at the bottom
  found: null,     // of flameSearch(), or null without a search
  layout: null,    // of flameLayout()
};
let matchAt = -1;  // index into found.order

const chartWidth = () => Math.max(50, frames.clientWidth || chart.clientWidth - 32);
const sizeNow = () => `${chartWidth()} ${chart.clientHeight}`;
let laidOut = '';  // the size for which the boxes are laid out

function layOut() {
  const boxes = flameBoxes(tree, shown.zoomed, chartWidth());
  controls.showHidden(boxes, shown.zoomed);   // may change the height of the chart
  shown.layout = flameLayout(tree, boxes, shown.flames, chart.clientHeight);
  frames.setAttribute('height', shown.layout.height);
  laidOut = sizeNow();
}

/// Draws the visible rows and a few above and below.
let painted = '';
function paint(force) {
  const {layout, zoomed, found} = shown;
  const rows = layout.rowsBetween(chart.scrollTop - 8 * ROW, chart.scrollTop + chart.clientHeight + 8 * ROW);
  const key = rows.join(':');
  controls.showOutside(layout.levelsOutside(chart.scrollTop, chart.clientHeight));
  if (!force && key === painted) return;
  painted = key;
  drawing.paint(layout, rows, zoomed, found);
  drawing.point(layout, null);
  placeRing();
}
function placeRing() { drawing.placeRing(shown.layout, shown.layout.boxOf(shown.current)); }

function refresh() {
  layOut();
  paint(true);
  if (value[0] === 0) controls.showNothing();
}

function scrollByWindow(sign) {
  chart.scrollTop += sign * Math.max(ROW, chart.clientHeight - 3 * ROW);
  paint();
}
chart.addEventListener('scroll', () => requestAnimationFrame(() => paint()));
// Not a listener of the window: a page draws graphs again and again, and each would stay in memory with its data.
new ResizeObserver(() => {
  if (page.isConnected && sizeNow() !== laidOut) requestAnimationFrame(refresh);
}).observe(chart);

// ---- What changes it ------------------------------------------------------------------------------

function zoom(i, remember = true) {
  if (tree.isMerged(i)) return;
  const wasZoomed = shown.zoomed;
  shown.zoomed = i;
  shown.current = i;
  controls.showPath(i, zoom);
  tip.hide();
  refresh();
  if (i !== wasZoomed) chart.scrollTop = shown.flames ? chart.scrollHeight : Math.max(0, (depth[i] - 3) * ROW);
  paint();
  if (remember) saveState(true);
  if (remember && part && i !== wasZoomed) part.onZoom(namesTo(i));
}
/// Zooms to the frame with these names, see frameAt().
function zoomTo(path) {
  const to = tree.frameAt(path, shown.zoomed);
  if (to !== shown.zoomed) zoom(to, false);
}
/// Zooms to the widest frame that `isWanted` accepts, and returns what widestOf() does.
function zoomToFunction(isWanted) {
  const found = tree.widestOf(isWanted);
  if (found) zoom(found.widest, false);
  return found;
}
/// Zooms to a frame; out of it, if it is the zoomed one. A page selects its function in the same step.
function choose(i) {
  const isSelected = part && fn[i] >= 0;
  zoom(i === shown.zoomed ? Math.max(parent[i], 0) : i, !isSelected);
  if (isSelected) part.onSelect(data.functions[fn[i]], namesTo(shown.zoomed));
}

function search(text, isRegex, remember = true) {
  // The search of a page is for the same text in all of its views.
  const found = flameSearch(tree, text, isRegex, !part);
  controls.showSearch(text, isRegex, found);
  shown.found = found && !found.error ? found : null;
  matchAt = -1;
  refresh();
  if (remember) saveState();
}
function nextMatch(step) {
  const {order} = shown.found || {order: []};
  if (order.length === 0) return;
  matchAt = (matchAt + step + order.length) % order.length;
  const i = order[matchAt];
  // If the frame is outside of the zoomed one, everything is shown; or its caller, if that makes it wide enough.
  let to = i < shown.zoomed || i >= end[shown.zoomed] ? 0 : shown.zoomed;
  if (value[i] / Math.max(value[to], 1) * chartWidth() < 12) to = parent[i] > 0 ? parent[i] : i;
  if (to !== shown.zoomed) zoom(to);
  select(i);
}

/// Selects a frame by keyboard, scrolls to it and announces it.
function select(i) {
  shown.current = i;
  chart.classList.add('keys');
  const box = shown.layout.boxOf(i);
  if (!box) return;
  const top = shown.layout.topOf(box.row);
  const bottom = top + ROW + 16 - chart.clientHeight;
  if (top < chart.scrollTop) chart.scrollTop = top;
  else if (bottom > chart.scrollTop) chart.scrollTop = bottom;
  paint();
  placeRing();
  const area = frames.getBoundingClientRect();
  tip.show(box, shown.zoomed, area.left + Math.min(box.x + Math.min(box.w, 120), area.width - 40),
           area.top + top + 2);
  controls.speak(i);
}

function setFlames(on, remember = true) {
  shown.flames = on;
  controls.setFlipped(on);
  tip.hide();
  refresh();
  chart.scrollTop = on ? chart.scrollHeight : 0;
  paint();
  if (remember) saveState();
}

// ---- The user -------------------------------------------------------------------------------------

const pointer = flamePointer(frames, {
  boxAt({clientX, clientY}) {
    const area = frames.getBoundingClientRect();
    return shown.layout.boxAt(clientX - area.left, clientY - area.top);
  },
  point(box, clientX, clientY) {
    drawing.point(shown.layout, box);
    if (box) tip.show(box, shown.zoomed, clientX, clientY);
    else tip.hide();
  },
  onClick(box) {
    chart.classList.remove('keys');
    if (!box) return;
    if (box.n === 0) choose(box.i);
    // A stub: zoom to the caller, where its frames are wider.
    else zoom(parent[box.i] === shown.zoomed ? box.i : parent[box.i]);
  },
});

flameKeyboard(tree, shown, {svg: frames, page, input: controls.input, isPart: Boolean(part)}, {
  select, choose, zoom, nextMatch, setFlames, hideTip: tip.hide, endSearch: () => search('', controls.isRegex()),
});
let isRestoring = false;
frames.addEventListener('focus', () => {
  if (!isRestoring && frames.matches(':focus-visible')) select(shown.current);
});
/// For a graph that is drawn again: no tooltip and no announcement, which would come with each update of a program.
function restoreFocus() {
  isRestoring = true;
  frames.focus({preventScroll: true});
  isRestoring = false;
}
frames.addEventListener('blur', () => {
  chart.classList.remove('keys');
  tip.hide();
});

let typing = 0;
controls.input.addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => search(controls.input.value, controls.isRegex()), 120);
});
controls.regexButton.addEventListener('click', () => search(controls.input.value, !controls.isRegex()));
controls.resetButton.addEventListener('click', () => zoom(0));
controls.flipButton.addEventListener('click', () => setFlames(!shown.flames));
controls.outsideUp.addEventListener('click', () => scrollByWindow(-1));
controls.outsideDown.addEventListener('click', () => scrollByWindow(1));

// ---- The address ----------------------------------------------------------------------------------

function saveState(asStep) {
  address.save({search: controls.input.value, isRegex: controls.isRegex(), zoomed: shown.zoomed,
                flames: shown.flames}, asStep);
}
function loadState() {
  const state = address.load();
  if (!state) return;
  search(state.search, state.isRegex, false);
  setFlames(state.flames, false);
  zoom(state.zoomed < count ? state.zoomed : 0, false);
}
if (standalone) window.addEventListener('hashchange', loadState);
zoom(0, false);
if (part && part.zoom) zoomTo(part.zoom);
controls.setFlipped(shown.flames);
if (shown.flames) {
  // The outermost frame, of whose callers or callees the graph is, is at the bottom.
  chart.scrollTop = chart.scrollHeight;
  paint();
}
if (!part) loadState();

/// A page draws the graph of a running program again and again: the frame that is selected by keyboard, and the
/// tooltip, stay. They are not announced again.
let isByKeys = false;  // frames are selected by keyboard
if (part) {
  frames.addEventListener('keydown', () => { isByKeys = true; });
  frames.addEventListener('focus', () => { isByKeys = frames.matches(':focus-visible'); });
  frames.addEventListener('pointerdown', () => { isByKeys = false; });
  part.kept.state = () => ({flames: shown.flames, ...pointer.state(), isByKeys, path: namesTo(shown.current)});
  part.kept.restore = () => {
    part.kept.restore = null;
    if (!former) return;
    const {scrollTop} = chart;
    isByKeys = former.isByKeys;
    shown.current = tree.frameAt(former.path, shown.zoomed);
    pointer.takeOver(former);
    chart.classList.remove('keys');
    tip.hide();
    placeRing();
    if (isByKeys && document.activeElement === frames) {
      select(shown.current);
      controls.speakNothing();
      chart.scrollTop = scrollTop;
      paint();
    } else {
      pointer.showAgain();
    }
  };
}
return {search: text => search(text, false), zoomTo, zoomToFunction, restoreFocus, repaint: () => paint(true),
        drawn: () => frames};
}

// A picture contains its frames; a page that includes this file calls flameGraph() itself.
{
  const picture = document.currentScript && document.currentScript.closest('svg') || document.documentElement;
  if (picture.localName === 'svg')
    flameGraph(JSON.parse(picture.querySelector('script[type="application/json"]').textContent), null);
}
