// Rows by function, line, call site, stack, module or thread, with all metrics.
'use strict';

const viewTable = (() => {
const {make, dot, sparkline} = elements;
const KEYS = {function: 'Function', line: 'Line', site: 'Call site', stack: 'Stack', module: 'Module',
              thread: 'Thread'};

/// Rows by stack have all stacks with their frames: those of a compiler would be too many for a table. As in
/// questions.json.
const MAX_STACKS = 500;

const growthOf = row => row.live_over_time ? row.live_over_time.at(-1) - row.live_over_time[0] : null;

function nameCell(row, place = names.place(row)) {
  return make('span', {class: 'name', title: `${row.name}\n${row.file || row.module || ''}`}, row.origin ?
              dot(row.origin) : null,
              // Without the comma, a screen reader would read it and the name as one word.
              make('span', {class: 'unseen'}, names.originText[row.origin] ? `${names.originText[row.origin]}, ` : ''),
              make('span', {class: 'called'}, names.label(row.name)), ' ',
              make('small', {}, place === row.name ? '' : names.oneLine(place)));
}

/// Columns of figures of `part` ("self" or "total") of each row.
function figureColumn(metric, part, more = {}) {
  const about = figures.metrics[metric];
  const value = row => row[part][about.value];
  return {key: `${part}-${metric}`, label: about.column || about.label, number: true, value,
          text: row => figures.ofMetric(metric, value(row)), exact: row => figures.exact(metric, value(row)),
            ...more};
}
const countColumn = (key, part) => ({key: `${part}-${key}`, label: 'Blocks', number: true, minor: 1,
                                     value: row => row[part][key], text: row => figures.count(row[part][key]),
                                     exact: row => figures.grouped(row[part][key])});
const shareColumn = (metric, part, total) =>
  viewParts.shareColumn(row => row[part][figures.metrics[metric].value], total);

function columnsOf(metric, total, title) {
  const about = figures.metrics[metric];
  return [
    {key: 'name', label: title, wide: true, value: row => row.name,
     // Threads have no origin.
     // A stack needs the room of the module.
     cell: row => nameCell('tid' in row ? {...row, origin: null} : row,
                           row.stack && !row.file ? '' : names.place(row)),
     search: row => `${row.name} ${row.file || ''} ${row.module || ''}`,
     csvLabel: ['name', 'file', 'line', 'module', 'origin'],
     csv: row => [row.name, row.file, row.line, row.module, row.origin]},
    figureColumn(metric, 'self', {label: 'Self'}),
    shareColumn(metric, 'self', total[about.value]),
    figureColumn(metric, 'total', {label: 'Total', minor: 1}),
    // In a narrow window, rows keep their growth longer than the other metrics.
    ...about.blocks ? [{...countColumn(about.blocks, 'self'), minor: 4}] : [],
    ...recording.otherMetrics(metric, selection.now())
      .map((other, i) => figureColumn(other, 'self', {minor: i < 2 ? 3 : 4})),
    {key: 'growth', label: 'Growth', number: true, minor: 2, value: growthOf,
     text: row => growthOf(row) === null ? '' : figures.change(growthOf(row))},
    {key: 'over-time', label: 'Over time', width: 104, minor: 2,
     cell: row => sparkline(row.live_over_time),
     exact: row => row.live_over_time ? `${figures.bytes(Math.min(...row.live_over_time))} to ` +
       `${figures.bytes(Math.max(...row.live_over_time))} of its own` : null,
     csvLabel: [], csv: () => []},
  ];
}

function tableOf(answer, context, options = {}) {
  const {metric} = context;
  const table = rowTable.create({
    label: `Memory by ${answer.by}`,
    columns: columnsOf(metric, answer.total, KEYS[answer.by]),
    rows: answer.rows,
    sort: {key: `self-${metric}`, ascending: false},
    isSelected: row => row.name === selection.now().name,
    onSelect: row => {
      if (answer.by === 'module' && row.module) selection.add('module', selection.exactFile(row.name));
      else if (answer.by === 'thread') selection.add('thread', String(row.tid ?? row.name));
      else if (answer.by === 'stack') detailsPanel.showStack({
        title: names.label(row.name), frames: row.stack, self: row.self, entries: []});
      else selection.change({name: row.name});
    },
    ...options,
  });
  addLines(answer, context, table);
  return table;
}

/// Adds live bytes over time to the largest rows. They need another pass over the recording, so the rows do not wait.
function addLines(answer, context, table) {
  const {by} = answer;
  if (recording.withMappings(context.state) || (ask.file && by !== 'function')) return;
  // Stacks that differ in their callers only have the same name and place.
  const keyOf = row => JSON.stringify([row.name, row.file, row.line, row.module, row.index, row.stack]);
  const wanted = ask.file ? context.ask('function_over_time', {}) :
    context.ask('over_time', {by, metric: context.metric});
  wanted.then(lines => {
    const known = new Map(lines.rows.map(row => [keyOf(row), row.live_over_time]));
    for (const row of answer.rows) row.live_over_time = known.get(keyOf(row)) || null;
    table.changed('growth');
  }, error => {
    // A file shows which figures it has. A question that was given up is asked again by the next view.
    if (error instanceof ask.NotInFile || error.name === 'AbortError') return;
    table.host.append(make('p', {class: 'more'}, `Growth and lines over time are unknown: ${error.message}`));
  });
}

/// The order of the rows: that of the address, unless the columns of another metric, which had the key, are gone.
function orderOf({state, metric}) {
  const [, sign, key] = /^(-?)([\w-]+)$/.exec(state.sort) || [];
  return columnsOf(metric, {}, '').some(column => column.key === key && column.value) ?
    {key, ascending: sign === ''} : {key: `self-${metric}`, ascending: false};
}
const byOf = state => Object.hasOwn(KEYS, state.by) ? state.by : 'function';

function head(context) {
  const {state, metric} = context;
  if (context.isPinned) return pinned.tableHead(context);
  const by = byOf(state);
  const choice = make('div', {class: 'segments', role: 'group', 'aria-label': 'Rows by'},
    ...Object.entries(KEYS).map(([key, label]) => elements.button(label, () => selection.change({by: key}),
                                                                  {'aria-pressed': String(key === by)})));
  const {key: orderKey, ascending} = orderOf(context);
  // The command sorts by what the rows cost themselves, the highest first.
  const ordered = !ascending && /^self-(\w+)$/.exec(orderKey);
  const sort = ordered && Object.hasOwn(figures.metrics, ordered[1]) ? ordered[1] : metric;
  return {command: ['report', ['--by', by, '--sort', sort, '--top', by === 'stack' ? String(MAX_STACKS) : '0']],
          tools: [choice]};
}

/// The stacks with the highest costs. A file whose stacks with the highest peaks, or with most bytes at a moment, are
/// all stacks has them once.
async function stackRows({metric, state, ask: asked}) {
  const answer = await asked('stack_rows', {metric}).catch(async error => {
    if (!(error instanceof ask.NotInFile)) throw error;
    const other = await asked('stack_rows', {metric: state.at ? 'live' : 'peak'});
    if (other.rows.length < other.all_rows) throw error;
    return other;
  });
  return {...answer, rows: answer.rows.map(row => ({...row, stack: row.stack.map(at => answer.frames[at])}))};
}

async function show(context) {
  const {state, metric} = context;
  if (context.isPinned) return pinned.table(context);
  const by = byOf(state);
  const {command, tools} = head(context);
  const answer = await (by === 'function' ? context.ask('function_rows', {}) :
    by === 'stack' ? stackRows(context) : context.ask('rows', {by}));
  if (!answer.rows.length) {
    return {node: make('div', {}, viewParts.emptySelection('No block was allocated')), tools, command};
  }
  const table = tableOf(answer, context, {
    more: answer.rows.length < answer.all_rows ?
      `+${figures.plural(answer.all_rows - answer.rows.length, 'row')} with lower costs` : '',
    sort: orderOf(context),
    onSort: ({key, ascending}) => selection.change({sort: (ascending ? '' : '-') + key}, true)});
  return {node: table.host, tools, filter: table.filter, csv: table.csv, command, select: table.repaint,
          focus: table.focus, shown: `${figures.plural(answer.all_rows, 'row')}`};
}

return {key: 'table', title: 'Table', hasPinned: true, head, show, nameCell, figureColumn, countColumn, shareColumn,
        tableOf, growthOf, MAX_STACKS};
})();
