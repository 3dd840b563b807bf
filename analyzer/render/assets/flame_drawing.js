// The drawing of a flame graph: an SVG with its frames, the mark of the frame under the pointer, and the ring around
// the one that is selected by keyboard. Needs flame_tree.js, flame_layout.js, flame_labels.js.
'use strict';

/// `part`: that of flameGraph().
function flameDrawing(tree, part) {

const {draw} = flameElements;
const {BAR, MIN_WIDTH} = flameLayout;
const LABEL_ROOM = 22;     // narrower frames have no label
const MIN_ELEMENT = 8;     // narrower frames of one colour are drawn as one path: thousands of elements are slow
const GREY = 12;           // hue of frames without a module
const {data, functionOf} = tree;
const fit = flameLabels();

const svg = draw('svg', {tabindex: '0', role: 'application', 'aria-label':
  `Flame graph. Arrow keys move, Enter ${part ? 'selects a function and ' : ''}zooms in, Escape zooms out.`});
const ring = draw('rect', {class: 'ring', height: BAR, rx: 2});
const pointed = draw('rect', {class: 'pointed', height: BAR, rx: 2});
svg.append(draw('g', {}), pointed, ring);

const hundredth = x => Math.round(x * 100) / 100;
function hueClass(i) {
  if (data.was) return 'g' + data.grade[i];
  const entry = functionOf(i);
  if (part) return part.styleOf(entry);
  if (!entry) return `h${GREY}s0`;
  const [, , module, , shade] = entry;
  return `h${data.modules[module][1]}s${shade}`;
}

/// Draws these rows of a layout. `found`: what flameSearch() has found; null: there is no search.
function paint(layout, [first, last], zoomed, found) {
  const group = draw('g', {class: found ? 'searching' : ''});
  const paths = new Map();
  const wide = document.createDocumentFragment();
  for (let row = first; row <= last; ++row) {
    for (const box of layout.rows[row] || []) {
      const {i, x, w, n} = box;
      if (n > 0 && w < MIN_WIDTH) continue;
      const stub = n > 0;
      const lit = found && (stub ? found.countIn(i, i + n) > 0 : found.matches[i]);
      const shown = Math.max(w - (w > 2 ? 0.7 : w > 1 ? 0.3 : 0), 0.3);
      let style = stub ? 'stub' : hueClass(i);
      if (lit) style += ' lit';
      if (!stub && tree.isCaller(i, zoomed)) style += ' above';
      if (!stub && part && functionOf(i) && part.isSelected(functionOf(i))) style += ' chosen';
      if (w < MIN_ELEMENT) {
        const length = hundredth(shown);
        paths.set(style,
                  (paths.get(style) || '') + `M${hundredth(x)} ${layout.topOf(row)}h${length}v${BAR}h-${length}z`);
        continue;
      }
      if (!stub && tree.isInlined(i)) style += ' inl';
      const rect = draw('rect', {x: hundredth(x), y: layout.topOf(row), width: hundredth(shown), height: BAR, rx: 2,
                                 class: style});
      wide.append(rect);
      if (stub || w < LABEL_ROOM) continue;
      const label = fit(tree.labelOf(i), w - 9);
      if (!label) continue;
      const text = draw('text', {x: (x + 5).toFixed(2), y: layout.topOf(row) + BAR - 5,
                                 class: tree.isInlined(i) ? 'label inl' : 'label'});
      text.textContent = label;
      wide.append(text);
    }
  }
  for (const [style, d] of paths) group.append(draw('path', {class: style, d}));
  group.append(wide);
  svg.replaceChild(group, svg.firstChild);
}

/// Places a mark at a box; null: hides it.
function place(mark, layout, box, width) {
  mark.setAttribute('display', box ? 'inline' : 'none');
  if (!box) return;
  mark.setAttribute('x', box.x);
  mark.setAttribute('y', layout.topOf(box.row));
  mark.setAttribute('width', width);
}
function point(layout, box) {
  svg.style.cursor = box ? 'pointer' : 'default';
  place(pointed, layout, box, box && Math.max(box.w - 0.7, 1));
}
function placeRing(layout, box) { place(ring, layout, box, box && Math.max(box.w, 2)); }

return {svg, paint, point, placeRing};
}
