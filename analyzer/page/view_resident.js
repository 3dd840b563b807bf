// What resident memory consists of, line by line: where it is when there is much more of it than live blocks.
'use strict';

const viewResident = (() => {
const {make} = elements;

/// The lines as `heapprof rss` names them, and what a click selects.
const pinnedTable = {view: 'table', metric: 'pinned'};
const LINES = {
  requested: ['asked for', 'requested by the program, in live blocks'],
  rounding: ['rounding', 'what size classes and headers add to these blocks'],
  holes: ['holes', 'free memory in pages that hold live blocks', pinnedTable],
  held_back: ['held back', 'free pages that cannot be returned', pinnedTable],
  returnable: ['returnable', 'free pages that no live block keeps', pinnedTable],
  metadata: ['metadata', 'the allocator\u2019s own, and pages that it has not used yet'],
  mmap: ['mappings', 'mapped by the program itself (mmap)'],
  files: ['files', 'program, libraries, other files'],
  stacks: ['stacks', 'of threads'],
  shared: ['shared', 'shared memory'],
  recorder: ['recorder', 'of heapprof, only while it records'],
  unknown: ['unknown', 'anonymous memory that was not mapped by a recorded call'],
};
const OUTSIDE = {not_resident_bytes: 'of live blocks that are not resident', swapped_bytes: 'in swap',
                 page_table_bytes: 'of page tables', huge_tlb_bytes: 'of huge pages (hugetlbfs)'};

const wordsOf = ({state}) => state.at ? ['--live-at', state.at] : [];
/// The answer has all mappings and files of a line. The command prints some, unless it is asked for all.
const head = context => ({command: ['rss', ['--top', '0', ...wordsOf(context)]], selects: 'nothing'});

/// A link to the snapshot with most resident memory, unless it is the one that is shown. A file of `heapprof html` has
/// no figures of it, so there it is no link.
function highestOf(answer) {
  const [highest] = [...answer.snapshots].sort((one, other) => other.statm_bytes - one.statm_bytes);
  const isShown = highest && answer.snapshot && answer.snapshot.number === highest.number;
  if (!highest || isShown || highest.statm_bytes <= answer.rss_bytes) return [];
  const text = `At ${figures.time(highest.end_ns)} it was highest: ${figures.bytes(highest.statm_bytes)}.`;
  return [ask.file ? make('span', {class: 'muted'}, text) :
    viewParts.link({at: `${highest.end_ns}ns`, from: '', to: '', metric: 'live'}, {}, text)];
}

/// The parts of a line, the largest first; mappings by call site, with the largest stack of each.
function partsOf(line) {
  if (!line.children || !line.children.length) return [];
  const parts = new Map();
  for (const {name, bytes, writable, stack} of line.children) {
    const key = `${name}\0${writable}`;
    if (!parts.has(key))
      parts.set(key, {label: stack ? name : names.base(name), whole: name, what: writable ? 'writable data' : '',
                      bytes: 0, stack});
    parts.get(key).bytes += bytes;
  }
  const rest = line.bytes - line.children.reduce((sum, child) => sum + child.bytes, 0);
  return [...[...parts.values()].sort((one, other) => other.bytes - one.bytes),
          ...rest > 0 && line.name === 'mmap' ? [{label: 'others', what: '', bytes: rest}] : []];
}

const rowsOf = answer => answer.lines.filter(line => line.bytes > 0).flatMap(line => {
  const [label, what, fields] = LINES[line.name] || [line.name, ''];
  return [{label, what, fields, bytes: line.bytes, isLine: true}, ...partsOf(line)];
});

async function show(context) {
  const {state, selected} = context;
  const answer = await ask.template('resident', {}, {}, {trace: selected.trace,
                                                          ...state.at ? {'live-at': state.at} : {}});
  const all = answer.rss_bytes;
  const table = rowTable.create({
    label: 'Resident memory, line by line', rows: rowsOf(answer),
    columns: [
      {key: 'name', label: 'Line', wide: true, value: row => row.label, sortable: false,
       search: row => `${row.label} ${row.what}`,
       cell: row => make('span', {class: `name ${row.isLine ? 'line' : 'part'}`, title: row.whole || row.what},
                         make('span', {class: 'called'}, names.label(row.label)), ' ', make('small', {}, row.what))},
      {key: 'bytes', label: 'Bytes', number: true, value: row => row.bytes, sortable: false,
       text: row => figures.bytes(row.bytes), exact: row => `${figures.grouped(row.bytes)} bytes`},
      {key: 'share', label: 'Share', title: 'Of resident memory', number: true, width: 120, value: row => row.bytes,
       sortable: false, csv: () => [], csvLabel: [],
       cell: row => make('span', {}, elements.bar(row.bytes / all), figures.percent(row.bytes, all))},
    ],
    onSelect(row) {
      if (row.fields) selection.change(row.fields);
      else if (row.stack) detailsPanel.showStack({title: names.label(row.label), frames: row.stack,
        entries: [['resident', figures.bytes(row.bytes)]]});
    },
  });
  const outside = Object.entries(OUTSIDE).filter(([key]) => answer.outside[key] > 0)
    .map(([key, text]) => `${figures.bytes(answer.outside[key])} ${text}`);
  const notes = [answer.verdict, answer.note].filter(Boolean).map(text => make('p', {class: 'verdict'},
    text.replaceAll('TRACE', context.tracePath)));
  const source = {snapshot: 'by a snapshot of the resident pages', sample: 'estimated by a sample'}[answer.source];
  return {
    node: make('div', {class: 'stacked'}, ...notes, table.host,
               outside.length ? make('p', {class: 'more'}, `Beside it: ${outside.join(', ')}.`) : ''),
    tools: highestOf(answer), csv: table.csv, filter: table.filter, focus: table.focus, select() {},
    shown: `${figures.bytes(all)} at ${figures.time(answer.at_ns)}, ${source || answer.source}` +
      (state.filters.length || state.from || state.to ? '; filters and ranges do not apply' : ''),
    sentence: ['Resident: ', make('b', {}, figures.bytes(all)), ` at ${figures.time(answer.at_ns)}`],
    ...head(context),
  };
}

return {key: 'resident', title: 'Resident', hasPinned: true, metrics: () => [], head, show};
})();
