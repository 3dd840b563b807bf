// What each thread allocates, and which thread frees whose blocks.
'use strict';

const viewThreads = (() => {
const {make} = elements;

const head = () => ({command: ['threads', viewParts.isWhole() ? ['--top', '0'] : []]});

async function show(context) {
  const {metric, state} = context;
  const about = figures.metrics[metric];
  const [answer, rows] = await Promise.all([viewParts.askForList(context, 'threads'),
                                            context.ask('thread_rows', {})]);
  const {command} = head();
  const hasBlocks = answer.threads.some(thread => thread.allocations || thread.not_freed.blocks ||
                                                  thread.freed_of_others.blocks) || rows.total[about.value];
  if (!hasBlocks) return {node: viewParts.emptySelection('No thread allocated'), command};
  const figuresOf = new Map(rows.rows.map(row => [row.index, row.self]));
  const threads = answer.threads.map(thread => ({...thread, self: figuresOf.get(thread.index) || null,
                                                 label: `${names.oneLine(thread.name || '')} ${thread.tid}`}));
  const labels = new Map(threads.map(thread => [thread.index, thread.label]));
  const pairOf = (key, label, more = {}) => ({key, label, number: true, value: row => row[key].bytes,
    text: row => figures.bytes(row[key].bytes),
    exact: row => `${figures.grouped(row[key].bytes)} bytes in ${figures.grouped(row[key].blocks)} blocks`, ...more});
  const all = rows.total[about.value];
  const table = rowTable.create({
    label: 'Threads', rows: threads, sort: {key: 'metric'},
    columns: [
      {key: 'name', label: 'Thread', wide: true, value: row => row.label, text: row => row.label,
       search: row => row.label, csvLabel: ['name', 'tid'], csv: row => [row.name, row.tid]},
      {key: 'metric', label: recording.metricLabel(metric, state), title: explanations.ofMetric(metric, state),
       number: true, csvLabel: [about.label], csv: row => [row.self ? row.self[about.value] : 0],
       value: row => row.self ? row.self[about.value] : 0,
       text: row => row.self ? figures.ofMetric(metric, row.self[about.value]) : ''},
      viewParts.shareColumn(row => row.self ? row.self[about.value] : 0, all, {minor: 1,
        cell: row => row.self ? make('span', {}, elements.bar(row.self[about.value] / all),
                                     figures.percent(row.self[about.value], all)) : null}),
      {key: 'allocated', label: 'Allocates', number: true, minor: 1, value: row => row.allocated_bytes,
       text: row => figures.bytes(row.allocated_bytes),
       exact: row => figures.plural(row.allocations, 'allocation')},
      pairOf('freed_by_itself', 'Freed by itself', {minor: 2}), pairOf('freed_by_others', 'Freed by others'),
      pairOf('freed_of_others', 'Frees of others', {minor: 2}), pairOf('not_freed', 'Not freed'),
    ],
    onSelect: row => selection.add('thread', String(row.tid)),
  });
  const byIndex = new Map(threads.map(thread => [thread.index, thread]));
  const placeOf = index => [byIndex.get(index)?.name, byIndex.get(index)?.tid];
  /// Both tables. A pair has the columns of the thread that allocated, and its own.
  function csv() {
    const [head, ...lines] = table.csv(), more = ['freed_by', 'freed_by_tid', 'blocks', 'bytes'];
    return [['kind', ...head, ...more], ...lines.map(line => ['thread', ...line, ...more.map(() => null)]),
            ...answer.pairs.map(pair => ['pair', ...placeOf(pair.allocated_by), ...head.slice(2).map(() => null),
                                         ...placeOf(pair.freed_by), pair.blocks, pair.bytes])];
  }
  const pairs = answer.pairs.length ? make('table', {class: 'distribution'},
    make('caption', {}, 'Who frees whose blocks'),
    make('thead', {}, make('tr', {}, ...['Allocated by', 'Freed by'].map(text => make('th', {scope: 'col'}, text)),
                           make('th', {scope: 'col', class: 'n'}, 'Blocks'), make('th', {scope: 'col', class: 'n'},
                               'Bytes'))),
    make('tbody', {}, ...answer.pairs.map(pair => make('tr', {}, make('th', {scope: 'row'},
                                                                      labels.get(pair.allocated_by)),
      make('td', {}, labels.get(pair.freed_by)), make('td', {class: 'n'}, figures.count(pair.blocks)),
      make('td', {class: 'n'}, figures.bytes(pair.bytes)))))) :
    answer.all_pairs > 0 ? null : make('p', {class: 'more'}, 'No block is freed by another thread.');
  const rest = viewParts.rest(answer.all_pairs - answer.pairs.length, 'pair', 'threads');
  return {node: make('div', {class: 'stacked'}, table.host, pairs, ...rest), command, csv, filter: table.filter,
          focus: table.focus, select() {}, shown: `${figures.count(answer.cross_thread_frees.blocks)} of ` +
            `${figures.plural(answer.freed.blocks, 'free')} are by another thread`};
}

return {key: 'threads', title: 'Threads', isOfBlocks: true, head, show};
})();
