// What was never freed, by call site: growth, age, and what the suppressions hide.
'use strict';

const viewLeaks = (() => {
const {make} = elements;
/// The trends of call sites: stable memory is divided into what grew with the load and what did not.
const TRENDS = {growing: 'growing', with_load: 'with load', stable: 'stable', in_use: 'in use'};
const trendOf = site => site.trend === 'stable' && site.grew_with_load ? 'with_load' : site.trend;
const RANK = 'Likeliest leaks first: by the bytes that are left; sites that grew until the end count more, sites ' +
  'whose other blocks were freed less';
/// The share of what the call site allocated that was freed. What a realloc moves counts neither as left nor as freed.
const freedOf = site => 1 - site.survival;

/// The age of the oldest block that is left, as `blocks` counts it: at the selected moment, or at the end of the range.
/// Null where the answer has no trends.
function ageOf(site, {live_at_ns: moment_ns, slice, duration_ns}) {
  return site.first_ns === undefined ? null : (moment_ns ?? (slice ? slice.to_ns : duration_ns)) - site.first_ns;
}

/// As free_stacks_recorded() in analyzer/cli/commands/where_memory_went/frees.cpp.
const hasFreeStacks = ({HEAPPROF_FREE_STACKS: value}) => value !== undefined && !['0', 'off', 'no'].includes(value);

const onlyOf = name => ['--function', selection.exactly(name)];

/// Who frees the other blocks of a call site: the innermost own functions of the freeing stacks. A file has the pairs
/// of an allocating and a freeing stack of all call sites, at least those with most blocks.
async function freeing(context, name) {
  const only = ask.file ? null : selection.ofFunction(name, context.selected);
  const answer = await (ask.file ? context.ask('frees', {}) :
    ask.question('frees', only ? {...only, top: '200'} : {...context.selected, top: '0'}));
  const framesOf = stack => stack.map(frame => typeof frame === 'number' ? answer.frames[frame] : frame);
  const pairs = only ? answer.pairs : answer.pairs.filter(pair =>
    framesOf(pair.allocated_by).some(frame => names.ofFrame(frame).name === name));
  const isCut = ask.file !== null && answer.pairs.length < answer.all_pairs;
  if (isCut && !pairs.length) throw new ask.NotInFile('This file does not contain the answer.');
  const sums = new Map();
  for (const pair of pairs) {
    const stack = framesOf(pair.freed_by);
    const frame = stack.find(candidate => candidate.function &&
      !/^(operator delete|std::|__gnu_cxx::|free$)/.test(candidate.function)) || stack[0];
    const by = frame ? names.ofFrame(frame).name : '(no stack)';
    sums.set(by, (sums.get(by) || 0) + pair.bytes);
  }
  if (!sums.size) return [];
  const all = only ? answer.known.bytes : pairs.reduce((sum, pair) => sum + pair.bytes, 0);
  return [make('ul', {class: 'calls'},
    ...[...sums].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([by, bytes]) => make('li', {},
      make('span', {title: by}, names.label(by)), make('span', {}, figures.bytes(bytes), ' ',
        make('small', {}, figures.percent(bytes, all)))))),
          ...isCut ? [make('p', {class: 'muted'}, `In the ${figures.plural(answer.pairs.length, 'pair')} of stacks ` +
            `with most blocks, of ${figures.count(answer.all_pairs)}; all are printed by `,
                           make('code', {}, recording.commandLine('frees', ['--top', '0', ...onlyOf(name)])))] : []];
}

/// The same with a heading. Without an answer, the reason is in its place: the figures beside it do not need it.
async function freeingPart(context, name) {
  const nodes = await freeing(context, name).catch(error => [error instanceof ask.NotInFile ?
    viewParts.needsServer('frees', onlyOf(name)) :
    make('p', {class: 'error'}, error.message)]);
  return nodes.length ? [make('h3', {}, 'Frees of its other blocks'), ...nodes] : [];
}

function head({state}) {
  return {tools: [viewParts.directions(state.shown, [['', 'Suppressions applied'], ['all', 'Show suppressed']])],
          command: ['leaks', ['--top', '200', ...state.shown === 'all' ? ['--no-suppressions'] : []]]};
}

/// Trends need every event of the recording. If they take longer than this, what is left is shown without them first.
const MAX_WAIT_MS = 300;

/// Of a program that still runs, the figures without trends would replace those with trends again and again.
async function show(context) {
  const question = context.state.shown === 'all' ? 'all_leaks' : 'leaks';
  const all = context.ask(question, {}).then(answer => viewOf(context, answer));
  if (ask.file || recording.isRunning()) return all;
  const first = await Promise.race([all, new Promise(done => setTimeout(done, MAX_WAIT_MS))]);
  if (first) return first;
  const withoutTrends = ask.template(question, {}, {...context.selected, 'no-history': '1'})
    .then(answer => ({...viewOf(context, answer, true), later: all}));
  return Promise.race([all, withoutTrends]);
}

/// `isPending`: the answer has no trends; they follow.
function viewOf(context, answer, isPending = false) {
  const frame = entry => typeof entry === 'number' ? answer.frames[entry] : entry;
  const {tools, command} = head(context);
  const parts = [];
  if (answer.site_trends || isPending) {
    parts.push(make('div', {class: 'tiles'}, ...Object.entries(TRENDS).map(([key, label]) => {
      if (isPending) return make('div', {class: 'tile waiting'}, make('span', {}, label), make('b', {}, '...'),
                                 make('small', {}, '\u00a0'));
      const {bytes, blocks, sites} = answer.site_trends[key];
      return make('div', {class: `tile ${bytes > 0 ? key : ''}`}, make('span', {}, label), make('b', {},
          figures.bytes(bytes)),
                  make('small', {}, `${figures.plural(blocks, 'block')}, ${figures.plural(sites, 'call site')}`));
    }), make('div', {class: 'tile', title: answer.suppressed.by.map(entry =>
      `${entry.name}: ${figures.bytes(entry.bytes)}`).join('\n')}, make('span', {}, 'suppressed'),
             make('b', {}, figures.bytes(answer.suppressed_bytes)),
             make('small', {}, figures.plural(answer.suppressed.by.length, 'rule')))));
  }
  if (!answer.sites.length) {
    const reason = answer.suppressed_bytes > 0 ?
      elements.empty('Everything that is left is suppressed. Choose "Show suppressed" to see it.') :
      viewParts.emptySelection('No block is left at the end');
    return {node: make('div', {}, ...parts, reason), tools, command};
  }
  const rows = answer.sites.map((site, i) => ({...site, number: i, place: site.site === null ? null :
    names.ofFrame(frame(site.site))}));
  const all = answer.heap.leaked_bytes;
  const table = rowTable.create({
    label: 'What was never freed, by call site',
    rows, sort: {key: 'rank', ascending: true},
    columns: [
      {key: 'rank', label: '#', title: RANK, number: true, width: 46, minor: 2, value: row => row.number + 1,
       text: row => String(row.number + 1)},
      {key: 'name', label: 'Call site', wide: true, value: row => row.place ? row.place.name : '',
       csvLabel: ['name', 'file', 'line', 'module', 'origin'],
       csv: ({place, origin}) => place ? [place.name, place.file, place.line, place.module, origin] :
         ['(no stack)', null, null, null, null],
       cell: row => viewTable.nameCell({...row.place, name: row.place ? row.place.name : '(no stack)',
                                        origin: row.origin}),
       search: row => row.place ? `${row.place.name} ${row.place.file || ''} ${row.place.module}` : ''},
      {key: 'bytes', label: 'Left', number: true, value: row => row.bytes, text: row => figures.bytes(row.bytes),
       exact: row => figures.exact('leaked', row.bytes)},
      viewParts.shareColumn(row => row.bytes, all, {minor: 2}),
      {key: 'blocks', label: 'Blocks', number: true, minor: 1, value: row => row.blocks, text: row =>
       figures.count(row.blocks)},
      {key: 'trend', label: 'Trend', value: row => trendOf(row) || '', text: row => TRENDS[trendOf(row)] || ''},
      {key: 'freed', label: 'Freed', number: true, minor: 2, value: freedOf,
       text: row => figures.percent(freedOf(row), 1)},
      {key: 'age', label: 'Oldest', number: true, minor: 4, value: row => ageOf(row, answer),
       csvLabel: ['oldest_age_ns'], text: row => figures.time(ageOf(row, answer)),
       exact: row => row.first_ns === undefined ? '' : `allocated at ${figures.time(row.first_ns)}`},
      {key: 'low', label: 'Over time', width: 104, minor: 3, cell: row => elements.sparkline(row.low_bytes),
       csv: () => [], csvLabel: []},
    ],
    isSelected: row => row.place && row.place.name === selection.now().name,
    onSelect: row => {
      // The command prints the largest stack of each call site in the order of the call sites.
      const stack = answer.top[row.number];
      detailsPanel.showStack({
        title: row.place ? names.label(row.place.name) : '(no stack)', frames: stack ? stack.stack.map(frame) : [],
        name: row.place && row.place.name,
        later: hasFreeStacks(answer.settings) && row.place && row.freed_blocks ?
          () => freeingPart(context, row.place.name) : null,
        entries: [['left', `${figures.bytes(row.bytes)} in ${figures.plural(row.blocks, 'block')}`],
                  ['trend', TRENDS[trendOf(row)]],
                  ['freed of its bytes', figures.percent(freedOf(row), 1)],
                  ['sizes', row.smallest_bytes === undefined ? '' :
                    `${figures.bytes(row.smallest_bytes)} to ${figures.bytes(row.largest_bytes)}`],
                  ['allocated', row.first_ns === undefined ? '' :
                    `${figures.time(row.first_ns)} to ${figures.time(row.last_ns)}`],
                  ['grew until', row.grew_until_ns === undefined ? '' : figures.time(row.grew_until_ns)],
                  ['longest life of a freed block', row.freed_blocks ? figures.time(row.longest_lifetime_ns) : '']],
      });
    },
    more: answer.all_sites > rows.length ? `+${figures.count(answer.all_sites - rows.length)} more call sites` : '',
  });
  parts.push(table.host);
  if (!hasFreeStacks(answer.settings))
    parts.push(make('p', {class: 'more'}, 'Who frees the other blocks of a call site: record with --free-stacks.'));
  return {node: make('div', {class: 'stacked'}, ...parts), tools, filter: table.filter, csv: table.csv,
          focus: table.focus, command, select: table.repaint,
          shown: isPending ? 'reading the recording for the trends ...' : 'likeliest leaks first'};
}

return {key: 'leaks', title: 'Leaks', metrics: () => ['leaked'], head, show};
})();
