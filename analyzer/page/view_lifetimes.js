// How long blocks live, by size; short-lived allocations by call site; buffers that grow by realloc.
'use strict';

const viewLifetimes = (() => {
const {make, draw} = elements;

const UNITS = {size: {'': 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40},
               lifetime: {'': 1e9, ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 6e10, min: 6e10, h: 3.6e12}};
/// Bytes or nanoseconds of a filter's value: "4K", "4KiB", "20us". NaN: it is not valid.
function limitOf(option, text) {
  const parts = /^([\d.]+)\s*([a-z]*?)(?:i?b)?$/.exec(text.toLowerCase());
  return parts ? parts[1] * UNITS[option.split('-')[1]][parts[2]] : NaN;
}

/// Selects the blocks of a class, of those that are selected: filters with narrower limits stay. `limits`: by option;
/// null: the class has none.
function narrow(limits) {
  const isKept = ({option, value}) => !Object.hasOwn(limits, option) || limits[option] === null ||
    (option.startsWith('min-') && limitOf(option, value) > limits[option]) ||
    (option.startsWith('max-') && limitOf(option, value) < limits[option]);
  const kept = selection.now().filters.filter(isKept);
  const added = Object.entries(limits)
    .filter(([option, limit]) => limit !== null && !kept.some(filter => filter.option === option))
    .map(([option, limit]) => ({option, value: option.endsWith('lifetime') ? `${limit}ns` : String(limit)}));
  selection.change({filters: [...kept, ...added]});
}
const isRange = () => Boolean(selection.now().from || selection.now().to);
const sizesOf = part => ({'min-size': part.from_bytes, 'max-size': part.to_bytes});
/// Of freed blocks. A maximum excludes those that are not freed, but not those that are freed after the range.
const lifetimesOf = ({from_ns: from, below_ns: below}) => ({'min-lifetime': from || null,
  'max-lifetime': below === null ? null : below - 1, freed: below === null || isRange() ? 'yes' : null});
const LEFT = {'min-lifetime': null, 'max-lifetime': null, freed: 'no'};

const sizeText = part => part.from_bytes === part.to_bytes ? figures.bytes(part.from_bytes) :
  `${figures.bytes(part.from_bytes)} to ${figures.bytes(part.to_bytes)}`;
/// In seconds, which need less space than minutes.
const shortTime = ns => ns < 60e9 ? figures.time(ns) : `${figures.count(ns / 1e9)} s`;
/// Of consecutive parts: each begins where the one before ends.
const lifeText = part => part.below_ns === null ? `from ${shortTime(part.from_ns)}` :
  `below ${shortTime(part.below_ns)}`;
const leftText = () => isRange() ? 'not freed' : 'never freed';
const timeOfCell = cell => cell.from_ns === null ? leftText() : lifeText(cell);
/// For the last line of the page: of what the figures are.
const sentenceOf = (bytes, allocations) => [selection.isNarrowed() ? 'Selection: ' : 'Whole recording: ',
  make('b', {}, figures.bytes(bytes)), ` in ${figures.plural(allocations, 'allocation')}`];

/// A distribution as rows: [label, count, bytes, limits that a click selects, if there are blocks].
function distribution(title, parts, unit) {
  const most = Math.max(1, ...parts.map(part => part[1]));
  return make('table', {class: 'distribution'}, make('caption', {}, title),
    make('thead', {}, make('tr', {}, make('th', {scope: 'col'}, unit), make('th', {scope: 'col', class: 'n'},
        'Blocks'),
                           make('th', {scope: 'col', class: 'n'}, 'Bytes'))),
    make('tbody', {}, ...parts.map(([label, count, bytes, limits]) => make('tr', {},
      make('th', {scope: 'row'}, count ? elements.button(label, () => narrow(limits), {class: 'plain'}) : label),
      make('td', {class: 'n', title: figures.grouped(count)}, elements.bar(count / most), figures.count(count)),
      make('td', {class: 'n', title: figures.grouped(bytes) + ' bytes'}, figures.bytes(bytes))))));
}

/// "1.5M", for a narrow cell.
function shortBytes(bytes) {
  let value = bytes, unit = 0;
  for (; value >= 999.5 && unit < 4; ++unit) value /= 1024;
  return value.toFixed(unit > 0 && value < 9.95 ? 1 : 0) + ['', 'K', 'M', 'G', 'T'][unit];
}
/// Pixels that a cell of the heat map has or needs.
const CELL = {min: 14, max: 110, forShort: 32, forLabel: 56, forHeading: 84};
const NARROW = 600;   // pixels; then the sizes have short labels

const DIRECTIONS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
/// The position of the nearest cell to the left or right of `from` in its row, or above or below it in the next row
/// that has cells; -1: there is none.
function nearest(places, from, [right, down]) {
  let found = -1, least = Infinity;
  places.forEach(({column, row}, i) => {
    const across = column - from.column;
    const ahead = down ? down * (row - from.row) : row === from.row ? right * across : 0;
    const distance = 1000 * ahead + (down ? Math.abs(across) : 0);
    if (ahead > 0 && distance < least) [found, least] = [i, distance];
  });
  return found;
}

/// Lifetimes by size: a column for each lifetime, a row for each size, darker for more bytes. It is as wide as its
/// place; where cells are narrow, their labels are short or left to the tooltips, and headings are upright. Tab
/// reaches one cell, arrow keys the others.
function heatMap(cells) {
  const distinct = (key, text) => [...new Map(cells.map(cell => [cell[key], text(cell)])).entries()]
    .sort((a, b) => (a[0] === null) - (b[0] === null) || a[0] - b[0]);
  const sizes = distinct('from_bytes', sizeText), shortSizes = distinct('from_bytes', part =>
    `to ${figures.bytes(part.to_bytes)}`);
  const lives = distinct('from_ns', timeOfCell);
  const most = Math.log1p(Math.max(1, ...cells.map(cell => cell.bytes)));
  const chart = draw('svg', {class: 'heat', role: 'group',
                             'aria-label': 'Bytes by size and lifetime of their blocks; the tables below have ' +
                               'sums. Arrow keys move, Enter selects.'});
  const choose = cell => narrow({...sizesOf(cell), ...cell.from_ns === null ? LEFT : lifetimesOf(cell)});
  const places = cells.map(cell => ({column: lives.findIndex(([key]) => key === cell.from_ns),
                                     row: sizes.findIndex(([key]) => key === cell.from_bytes)}));
  const nameOf = cell => `${cell.from_bytes} ${cell.from_ns}`;
  const kept = viewState.of('heat map');   // {name}
  let fields = [];   // the elements of the cells
  let current = Math.max(0, cells.findIndex(cell => nameOf(cell) === kept.name));   // the one that Tab reaches
  function moveTo(i) {
    fields[current].setAttribute('tabindex', '-1');
    current = i;
    fields[current].setAttribute('tabindex', '0');
    fields[current].focus();
  }
  chart.addEventListener('focusin', event => { kept.name = event.target.dataset.name; });
  chart.addEventListener('keydown', event => {
    const at = fields.indexOf(event.target);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Enter' || event.key === ' ') {
      choose(cells[at]);
    } else if (Object.hasOwn(DIRECTIONS, event.key)) {
      const next = nearest(places, places[at], DIRECTIONS[event.key]);
      if (next >= 0) moveTo(next);
    } else return;
    event.preventDefault();
  });
  function paint(width) {
    const rows = width < NARROW ? shortSizes : sizes;
    const left = width < NARROW ? 84 : 136;
    const cellWidth = Math.max(CELL.min, Math.min(CELL.max, Math.floor((width - left) / lives.length)));
    const isUpright = cellWidth < CELL.forHeading;
    const cellHeight = 20, top = isUpright ? 98 : 22;
    chart.setAttribute('width', left + lives.length * cellWidth);
    chart.setAttribute('height', top + sizes.length * cellHeight + 4);
    const isFocused = fields.includes(document.activeElement);
    chart.replaceChildren();
    fields = [];
    lives.forEach(([, label], i) => {
      const x = left + (i + 0.5) * cellWidth + (isUpright ? 4 : 0), y = isUpright ? top - 6 : 14;
      chart.append(draw('text', {class: 'axis', x, y, 'text-anchor': isUpright ? 'start' : 'middle',
                                 transform: isUpright ? `rotate(-90 ${x} ${y})` : null}, label));
    });
    rows.forEach(([, label], i) => chart.append(draw('text', {class: 'axis', x: left - 8, 'text-anchor': 'end',
                                                              y: top + (i + 0.5) * cellHeight + 4}, label)));
    cells.forEach((cell, i) => {
      const x = left + places[i].column * cellWidth, y = top + places[i].row * cellHeight;
      const grade = Math.round(8 * Math.log1p(cell.bytes) / most);
      const said = `${figures.bytes(cell.bytes)} in ${figures.plural(cell.blocks, 'block')} of ${sizeText(cell)}, ` +
        timeOfCell(cell);
      fields.push(draw('rect', {class: `heat${grade}`, x, y, width: cellWidth - 1, height: cellHeight - 1, rx: 2,
                                role: 'button', 'aria-label': said, 'data-name': nameOf(cell),
                                tabindex: i === current ? '0' : '-1',
                                onclick: () => choose(cell)}, draw('title', {}, said)));
      chart.append(fields.at(-1));
      if (cellWidth >= CELL.forShort)
        chart.append(draw('text', {class: `heat-label heat${grade}`, x: x + cellWidth / 2, y: y + 14,
                                   'text-anchor': 'middle'},
                          cellWidth < CELL.forLabel ? shortBytes(cell.bytes) : figures.bytes(cell.bytes)));
    });
    if (isFocused) fields[current].focus({preventScroll: true});
  }
  const host = make('div', {class: 'chart-host'}, chart);
  let painted = 0;
  new ResizeObserver(() => {
    if (host.clientWidth === painted || !host.clientWidth) return;
    painted = host.clientWidth;
    paint(painted);
  }).observe(host);
  paint(900);
  return {host, chart};
}

const siteColumn = {key: 'name', label: 'Call site', wide: true, value: row => row.name, cell: row =>
  viewTable.nameCell(row), search: row => row.name, csvLabel: ['name', 'file', 'line'],
  csv: row => [row.name, row.file, row.line]};
const number = (key, label, text, more = {}) => ({key, label, number: true, value: row => row[key],
                                                  text: row => text(row[key], row),
                                                  exact: row => figures.grouped(row[key]), ...more});

function rowsOf(sites) {
  return sites.map(site => ({...site, ...site.site ? names.ofFrame(site.site) :
    {name: '(no stack)', file: null, line: null, module: null}}));
}

const shownOf = ({state}) => ['churn', 'reallocs'].includes(state.shown) ? state.shown : '';

function head(context) {
  const shown = shownOf(context);
  return {tools: [viewParts.directions(shown, [['', 'Sizes and lifetimes'], ['churn', 'Short-lived'],
                                               ['reallocs', 'Reallocations']])],
          command: [shown || 'histogram', shown ? ['--top', viewParts.isWhole() ? '0' : '100'] : []]};
}

async function show(context) {
  const shown = shownOf(context);
  const {tools, command} = head(context);
  const answer = await (shown ? viewParts.askForList(context, shown) : context.ask('histogram', {}));
  const select = row => detailsPanel.showStack({
    title: names.label(row.name), frames: row.stack || [], name: row.name, entries: [
      ['allocations', row.allocations === undefined ? '' : figures.count(row.allocations)],
      ...row.short_lived === undefined ? [] :
        [['freed within ' + figures.time(answer.within_ns), figures.count(row.short_lived)]],
      ['mean lifetime', row.mean_lifetime_ns === undefined ? '' : figures.time(row.mean_lifetime_ns)],
      ['copied by realloc', row.copied_bytes === undefined ? '' : figures.bytes(row.copied_bytes)]]});
  const listOf = table => make('div', {class: 'stacked'}, table.host,
    ...viewParts.rest(answer.all_sites - answer.sites.length, 'call site', shown));
  if (shown === 'churn') {
    const churn = answer;
    const table = rowTable.create({
      label: 'Short-lived allocations by call site', rows: rowsOf(churn.sites),
      columns: [siteColumn, number('short_lived', `Freed within ${figures.time(churn.within_ns)}`, figures.count),
                number('short_lived_bytes', 'Their bytes', figures.bytes, {minor: 2}),
                viewParts.shareColumn(row => row.short_lived, churn.total.short_lived, {minor: 1}),
                number('allocations', 'Allocations', figures.count),
                number('temporary', 'Temporary', figures.count, {minor: 2}),
                number('mean_lifetime_ns', 'Mean lifetime', figures.time, {minor: 2})],
      onSelect: select});
    const {total} = churn;
    return {node: churn.sites.length ? listOf(table) : viewParts.emptySelection('No block was freed'), tools,
            command,
            csv: table.csv, filter: table.filter, focus: table.focus,
            sentence: sentenceOf(total.allocated_bytes, total.allocations),
            shown: `${figures.count(total.short_lived)} of ${figures.plural(total.allocations, 'allocation')} are ` +
              `freed within ${figures.time(churn.within_ns)}`};
  }
  if (shown === 'reallocs') {
    const reallocs = answer;
    const table = rowTable.create({
      label: 'Buffers that grow by realloc', rows: rowsOf(reallocs.sites),
      columns: [siteColumn, number('copied_bytes', 'Copied', figures.bytes), number('chains', 'Buffers',
          figures.count),
                number('steps', 'Reallocs', figures.count), number('moved', 'Moved', figures.count)],
      onSelect: select});
    return {node: reallocs.sites.length ? listOf(table) : viewParts.emptySelection('No buffer grew by realloc'),
            tools, command, csv: table.csv, filter: table.filter, focus: table.focus};
  }
  const histogram = answer;
  if (histogram.allocations === 0)
    return {node: viewParts.emptySelection('No block was allocated'), tools, command};
  const sizes = histogram.sizes.map(part => [sizeText(part), part.allocations, part.bytes, sizesOf(part)]);
  const lives = histogram.lifetimes.map(part => [lifeText(part), part.blocks, part.bytes, lifetimesOf(part)]);
  lives.push([leftText(), histogram.not_freed.blocks, histogram.not_freed.bytes, LEFT]);
  const limits = ['from_bytes', 'to_bytes', 'from_ns', 'below_ns'];
  const limitsOf = part => limits.map(key => part ? part[key] : null);
  const map = histogram.cells && histogram.cells.length ? heatMap(histogram.cells) : null;
  return {
    node: make('div', {class: 'scrolled'}, map ? map.host : null,
               make('div', {class: 'pair'}, distribution('Sizes', sizes, 'Size'),
                    distribution('Lifetimes', lives, 'Lifetime'))),
    tools, command, picture: map ? () => map.chart : null,
    csv: () => [['kind', 'range', 'blocks', 'bytes', ...limits],
                ...sizes.map((row, i) => ['size', ...row.slice(0, 3), ...limitsOf(histogram.sizes[i])]),
                ...lives.map((row, i) => ['lifetime', ...row.slice(0, 3), ...limitsOf(histogram.lifetimes[i])]),
                ...(histogram.cells || []).map(cell => ['cell', `${sizeText(cell)}, ${timeOfCell(cell)}`, cell.blocks,
                                                        cell.bytes, ...limitsOf(cell)])],
    shown: `${figures.plural(histogram.allocations, 'allocation')}, ${figures.bytes(histogram.allocated_bytes)}`,
    sentence: sentenceOf(histogram.allocated_bytes, histogram.allocations),
  };
}

return {key: 'lifetimes', title: 'Lifetimes', isOfBlocks: true, metrics: () => [], head, show};
})();
