// The tooltip of a flame graph: the figures of a frame. Needs flame_tree.js, flame_elements.js.
'use strict';

/// `mergedNote`: a sentence about merged frames.
function flameTooltip(tree, mergedNote) {

const {percent, plural} = figures;
const {make} = flameElements;
const {data, value, parent, end, self, nameOf, humanNumber} = tree;
const element = make('div', {class: 'tip'});

function describe({i, n, v}, zoomed) {
  element.replaceChildren();
  const total = data.total;
  if (n > 0) {
    element.append(make('strong', {}, plural(n, 'frame') + ' too narrow to draw'),
                   make('div', {class: 'where'},
                        `${humanNumber(v)}, ${percent(v, total)} of the total. Zoom in to see them.`));
    return;
  }
  const name = nameOf(i);
  const title = make('strong', {}, name.length > 500 ? name.slice(0, 500) + '\u2026' : name);
  if (tree.isInlined(i)) title.append(make('span', {class: 'tag'}, 'inlined'));
  element.append(title);
  if (tree.isMerged(i)) element.append(make('div', {class: 'where'}, mergedNote));
  const where = [tree.moduleOf(i), tree.whereOf(i)].filter(Boolean).join('\u2002\u00b7\u2002');
  if (where) element.append(make('div', {class: 'where'}, where));
  const table = make('table');
  const line = (label, ...cells) =>
    table.append(make('tr', {}, make('td', {}, label), ...cells.map(cell => make('td', {class: 'n'}, cell))));
  if (data.was) {
    line('before', humanNumber(data.was[i]), percent(data.was[i], data.was[0]));
    line('after', humanNumber(data.is[i]), percent(data.is[i], data.is[0]));
    line('change', tree.changed(i), data.was[i] > 0 && data.is[i] !== data.was[i] ?
      (data.is[i] > data.was[i] ? '+' : '\u2212') + percent(Math.abs(data.is[i] - data.was[i]), data.was[i]) : '');
    element.append(table);
    return;
  }
  if (data.unit === 'bytes') line('bytes', tree.human(i), tree.exact(i));
  else line('count', tree.exact(i));
  const own = Math.max(0, self[i]);
  if (end[i] > i + 1 && own > 0) line('self', humanNumber(own), percent(own, value[i]));
  line('of total', percent(value[i], total));
  if (i > 0 && parent[i] > 0) line('of caller', percent(value[i], value[parent[i]]));
  if (zoomed > 0 && i > zoomed) line('of zoomed', percent(value[i], value[zoomed]));
  for (const cells of data.figures ? data.figures(i) : []) line(...cells);
  element.append(table);
}

return {
  element,
  /// Shows the tooltip of a box near (x, y), in pixels of the window, while the frame `zoomed` fills the width.
  show(box, zoomed, x, y) {
    describe(box, zoomed);
    const area = element.parentElement.getBoundingClientRect();
    const width = element.offsetWidth, height = element.offsetHeight;
    let left = x - area.left + 14, top = y - area.top + 18;
    if (left + width > area.width - 8)
      left = Math.max(8, Math.min(area.width - width - 8, x - area.left - width - 10));
    if (top + height > area.height - 8) top = Math.max(8, y - area.top - height - 12);
    element.style.left = left + 'px';
    element.style.top = top + 'px';
    element.classList.add('on');
  },
  hide() { element.classList.remove('on'); },
};
}
