// A real table that draws only the rows in view, so that several hundred thousand rows scroll smoothly. Rows come
// from an array, which the table sorts, or from a source that is asked as the user scrolls.
//
// A column: key, label, `text(row)` or `cell(row)` (an element), `value(row)` for sorting and CSV, `exact(row)` for
// the tooltip, `wide` (takes the remaining width), `minWidth` of a wide one and `width` of others in pixels,
// `number`, `title` (the tooltip of its heading), `sortable`, and `minor`: where the table is narrow, columns are
// left out, those with the highest `minor` first, and of equal ones the last. A note below the table lists them, and
// has a button that shows all. A table that is still too wide scrolls.
// A source: {count, at(index) -> row or undefined, need(first, last) -> promise or null}. `need` is called for the
// rows in view, and again when its promise is fulfilled.
'use strict';

const rowTable = (() => {
const {make} = elements;
const ROW = 29;                 // pixels; the same in page.css
const SPARE = 12;               // rows drawn above and below the view
const WIDTH = 84, PADDING = 20; // of a column of figures, and of its heading's sides, in pixels
const MIN_WIDE = 200, MIN_WIDE_ON_PHONE = 150, PHONE = 480, MAX_MIN_WIDE = 340;

const ruler = document.createElement('canvas').getContext('2d');
/// The width of a column: its longest word is not broken, with the sign of the order beside it.
function widthOf(column) {
  if (column.width) return column.width;
  ruler.font = `600 13px ${getComputedStyle(document.body).fontFamily}`;
  const words = column.label.split(' ');
  words[words.length - 1] += ' \u25be';
  return Math.max(WIDTH, PADDING + Math.ceil(Math.max(...words.map(word => ruler.measureText(word).width))));
}

/// Whether columns are shown for which there is no room: the user's choice, for all tables.
let showsAll = false;

/// The columns for which a table of this width has room, or all.
function fitting(columns, widths, width) {
  const wide = columns.find(column => column.wide);
  const usual = width < PHONE ? MIN_WIDE_ON_PHONE : Math.max(MIN_WIDE, Math.min(MAX_MIN_WIDE, width * 0.3));
  const least = wide ? Math.max(wide.minWidth || 0, usual) : 0;
  const shown = [...columns];
  const needed = () => shown.reduce((sum, column) => sum + (column.wide ? least : widths.get(column)), 0);
  while (!showsAll && needed() > width) {
    const others = shown.filter(column => !column.wide);
    if (others.length < 2) break;
    const highest = Math.max(...others.map(column => column.minor || 0));
    shown.splice(shown.indexOf(others.findLast(column => (column.minor || 0) === highest)), 1);
  }
  return {shown, needed: needed()};
}

function sorted(rows, columns, sort) {
  const column = columns.find(candidate => candidate.key === sort.key);
  if (!column || !column.value) return rows;
  const values = new Map(rows.map(row => [row, column.value(row)]));
  const less = sort.ascending ? -1 : 1;
  /// What has no value comes last in both orders.
  const order = (a, b) => {
    const x = values.get(a), y = values.get(b);
    return x === y ? 0 : x === null ? 1 : y === null ? -1 : x < y ? less : -less;
  };
  return [...rows].sort(order);
}

/// options: label, columns, rows or source, sort {key, ascending}, onSort(sort), onSelect(row), isSelected(row),
/// onKey(event, row) -> true if it was handled, more (a sentence about rows that are left out).
function create(options) {
  const {columns} = options;
  const kept = viewState.of('rows');   // {sort, current, name, isRevealed, drawn: rows in view}
  let sort = kept.sort || options.sort || {};
  let rows = options.rows ? sorted(options.rows, columns, sort) : null;
  let filtered = rows;
  let source = options.source || null;
  let current = 0, firstDrawn = -1, lastDrawn = -1, drawnShift = 0;
  let drawn = new Map();   // index: its line
  const count = () => source ? source.count : filtered.length;
  const at = i => source ? source.at(i) : filtered[i];

  let shown = columns;     // those for which there is room
  const widths = new Map(columns.map(column => [column, widthOf(column)]));

  const head = make('tr', {}), group = make('colgroup', {});
  const body = make('tbody', {});
  const table = make('table', {class: 'rows', 'aria-label': options.label},
    group, make('thead', {}, head), body);
  const scroller = make('div', {class: 'scroller', tabindex: '0', role: 'group',
                                'aria-label': `${options.label}. Arrow keys move, Enter selects.`,
                                'data-name': 'rows'}, table);
  const note = make('p', {class: 'more'}, options.more || '');
  const columnNote = make('p', {class: 'more left-out'});
  const host = make('div', {class: 'row-table'}, scroller, note, columnNote);

  /// A table that has no place in the page yet has no width, and room for all columns: it is fitted again there.
  function fit() {
    const width = scroller.clientWidth || Infinity;
    const now = fitting(columns, widths, width);
    table.style.minWidth = `${now.needed}px`;
    // The names stay where they are.
    host.classList.toggle('sideways', now.needed > width && Boolean(columns[0].wide));
    noteColumns(now.shown, now.needed > width);
    if (now.shown.length === shown.length && group.firstChild) return;
    shown = now.shown;
    group.replaceChildren(...shown.map(column => {
      const place = make('col');
      if (!column.wide) place.style.width = `${widths.get(column)}px`;
      return place;
    }));
    drawHead();
  }

  /// Says which columns are left out, or that the table is wider than its place.
  let noted = '';
  function noteColumns(shownNow, isWider) {
    const hidden = columns.filter(column => !shownNow.includes(column)).map(column => column.label);
    const text = hidden.length ? `Not shown: ${hidden.join(', ')}. Widen the window, or ` :
      showsAll && isWider ? 'All columns are shown. Scroll sideways, or ' : '';
    if (text === noted) return;
    noted = text;
    const change = elements.button(hidden.length ? 'show all columns' : 'show those that fit', () => {
      showsAll = !showsAll;
      redraw();
      const next = columnNote.querySelector('button');
      if (next) next.focus();
    });
    columnNote.replaceChildren(...text ? [text, change] : []);
  }

  function drawHead() {
    elements.replaceContent(head, ...shown.map(column => {
      const active = sort.key === column.key;
      const cell = make('th', {scope: 'col', class: column.number ? 'n' : null,
                               title: column.title || explanations.of(column.label),
                               'aria-sort': active ? (sort.ascending ? 'ascending' : 'descending') : null});
      if (column.sortable === false || !column.value) {
        cell.append(column.label);
      } else {
        cell.append(elements.button(column.label + (active ? (sort.ascending ? ' \u25b4' : ' \u25be') : ''), () => {
          sort = {key: column.key, ascending: active ? !sort.ascending : !column.number || column.key === 'rank'};
          kept.sort = sort;
          delete kept.current;   // it is not looked for in the new order
          if (options.onSort) options.onSort(sort);
          if (!rows) return;
          rows = sorted(rows, columns, sort);
          applyFilter();
          drawHead();
        }));
      }
      return cell;
    }));
  }

  function drawRow(i) {
    const row = at(i), isSelected = Boolean(row && options.isSelected && options.isSelected(row));
    const line = make('tr', {class: `${row ? '' : 'pending'} ${isSelected ? 'selected' : ''} ` +
      `${i === current ? 'current' : ''}`, 'aria-rowindex': i + 2, 'aria-current': isSelected ? 'true' : null});
    line.dataset.index = i;
    for (const column of shown) {
      const cell = make(column.wide ? 'th' : 'td', {class: column.number ? 'n' : null,
                                                    scope: column.wide ? 'row' : null});
      if (row) {
        const content = column.cell ? column.cell(row) : column.text(row);
        if (content !== null && content !== undefined) cell.append(content);
        const exact = column.exact && column.exact(row);
        if (exact) cell.title = exact;
      } else if (column.wide) {
        cell.append('\u2026');
      }
      line.append(cell);
    }
    return line;
  }

  const spacer = () => make('tr', {class: 'spacer', 'aria-hidden': 'true'}, make('td'));
  const spaceAbove = spacer(), spaceBelow = spacer();
  body.append(spaceAbove, spaceBelow);

  const position = listPosition.create(scroller, table.tHead, () => paint(false));

  function paint(force) {
    position.setWhole(count() * ROW);
    const top = position.top(), shift = position.shift();
    // Of the rows around the view, those that fit into the element.
    const least = Math.ceil(shift / ROW), most = Math.min(count(), Math.floor((shift + position.height()) / ROW));
    const first = Math.max(least, Math.floor(top / ROW) - SPARE);
    const last = Math.min(most, Math.ceil((top + (scroller.clientHeight || 400)) / ROW) + SPARE);
    if (!force && first === firstDrawn && last === lastDrawn && shift === drawnShift) return;
    [firstDrawn, lastDrawn, drawnShift] = [first, last, shift];
    if (scroller.clientHeight) kept.drawn = [first, last];
    // Lines that were drawn stay what they are; a pending one is drawn again when its row is there.
    const lines = new Map();
    for (let i = first; i < last; ++i) {
      const old = force ? undefined : drawn.get(i);
      lines.set(i, old && !(old.classList.contains('pending') && at(i)) ? old : drawRow(i));
    }
    // Only the lines that change are taken out and put in: the browser lays out the others again otherwise.
    for (const [i, line] of drawn) if (lines.get(i) !== line) line.remove();
    let next = spaceAbove.nextSibling;
    for (const line of lines.values()) {
      if (line === next) next = next.nextSibling;
      else body.insertBefore(line, next);
    }
    drawn = lines;
    spaceAbove.firstChild.style.height = `${first * ROW - shift}px`;
    spaceBelow.firstChild.style.height = `${Math.max(0, position.height() + shift - last * ROW)}px`;
    table.setAttribute('aria-rowcount', count() + 1);
    if (source && source.need) {
      const wanted = source.need(first, last);
      if (wanted) wanted.then(() => { firstDrawn = -1; paint(false); }, () => {});
    }
  }

  /// What a row is called, of rows that are known. Several can have the same name.
  const wide = columns.find(column => column.wide) || columns[0];
  const nameOf = row => wide.search ? wide.search(row) : wide.value(row);
  function keepCurrent(i) {
    current = kept.current = i;
    if (filtered && filtered[i]) kept.name = nameOf(filtered[i]);
  }
  /// The current row stays the same one, where others are above it now.
  function findCurrent() {
    current = Math.max(0, Math.min(kept.current ?? current, count() - 1));
    if (kept.current === undefined || !filtered || !filtered.length || nameOf(filtered[current]) === kept.name) return;
    let least = Infinity;
    filtered.forEach((row, i) => {
      const distance = Math.abs(i - kept.current);
      if (distance < least && nameOf(row) === kept.name) [least, current] = [distance, i];
    });
  }

  let filterText = '';
  function applyFilter() {
    if (!rows) return;
    const isFound = names.finder(filterText);
    filtered = filterText === '' ? rows : rows.filter(row => columns.some(column =>
      column.search && isFound(column.search(row))));
    findCurrent();
    note.textContent = rows.length && !filtered.length ? `No row contains "${filterText}".` : options.more || '';
    paint(true);
  }

  function select(i, open) {
    keepCurrent(Math.max(0, Math.min(count() - 1, i)));
    const top = position.top(), end = (current + 1) * ROW - scroller.clientHeight + table.tHead.offsetHeight;
    if (current * ROW < top) position.moveTo(current * ROW);
    else if (end > top) position.moveTo(end);
    paint(true);
    const row = at(current);
    if (open && row && options.onSelect) options.onSelect(row);
    const line = body.querySelector(`tr[data-index="${current}"]`);
    if (line) feedback.announce([...line.children].map(cell => cell.textContent).filter(Boolean).join(', '));
  }

  scroller.addEventListener('scroll', () => requestAnimationFrame(() => paint(false)));
  scroller.addEventListener('keydown', event => {
    if (event.target !== scroller || event.ctrlKey || event.metaKey || event.altKey) return;
    const pageful = Math.max(1, Math.floor(scroller.clientHeight / ROW) - 2);
    const moves = {ArrowDown: 1, ArrowUp: -1, PageDown: pageful, PageUp: -pageful, Home: -Infinity, End: Infinity};
    if (options.onKey && at(current) && options.onKey(event, at(current))) event.preventDefault();
    else if (Object.hasOwn(moves, event.key)) select(current + moves[event.key], false);
    else if (event.key === 'Enter' || event.key === ' ') select(current, true);
    else return;
    event.preventDefault();
  });
  body.addEventListener('click', event => {
    if (event.target.closest('a, button') || String(document.getSelection()) !== '') return;
    const line = event.target.closest('tr[data-index]');
    if (line) select(Number(line.dataset.index), true);
  });

  /// Scrolls to the first selected row, once, when the table has its place in the page.
  function reveal() {
    if (kept.isRevealed || !scroller.clientHeight) return;
    kept.isRevealed = true;
    const i = rows && options.isSelected ? filtered.findIndex(options.isSelected) : -1;
    if (i < 0 || (i + 2) * ROW < scroller.clientHeight) return;
    keepCurrent(i);
    position.moveTo(i * ROW - scroller.clientHeight / 2);
  }

  const redraw = () => {
    fit();
    paint(true);
    reveal();
  };
  findCurrent();
  redraw();
  new ResizeObserver(redraw).observe(scroller);
  return {
    host,
    filter(text) { filterText = text; applyFilter(); return count(); },
    repaint: () => paint(true),
    /// Draws the rows again, whose values of the column `key` have changed.
    changed(key) {
      if (rows && sort.key === key) rows = sorted(rows, columns, sort);
      applyFilter();
    },
    replaceRows(next) { rows = next; applyFilter(); },
    focus: () => scroller.focus(),
    /// A promise of the rows of a source that were in view before the view was drawn again.
    async ready() { if (source && kept.drawn) await source.need(...kept.drawn.map(i => Math.min(i, count()))); },
    scrollTo(i) { position.moveTo(i * ROW); },
    csv() {
      const saved = columns.filter(column => column.value || column.csv);
      const lines = [saved.flatMap(column => column.csvLabel || [column.label])];
      for (let i = 0; i < count(); ++i)
        if (at(i)) lines.push(saved.flatMap(column => column.csv ? column.csv(at(i)) : [column.value(at(i))]));
      return lines;
    },
  };
}

return {create};
})();
