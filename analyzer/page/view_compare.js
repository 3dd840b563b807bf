// Two moments of a recording: the net difference, and what was allocated between and lives on. Or two recordings:
// what each stack costs in one and in the other.
'use strict';

const viewCompare = (() => {
const {make} = elements;

/// Grades of change from -4 (much less) to 4, the classes g0 to g8; as grade_of() in analyzer/render/palette.cpp.
function gradeOf(before, after) {
  const larger = Math.max(before, after);
  if (larger === 0) return 4;
  const share = (larger - Math.min(before, after)) / larger;
  const grade = share < 0.01 ? 0 : share < 0.1 ? 1 : share < 0.35 ? 2 : share < 0.75 ? 3 : 4;
  return 4 + (after < before ? -grade : grade);
}

/// A tree of the stacks that changed, whose nodes have the live bytes before and after. The root has those of all.
function treeOf(stacks, total) {
  const root = {name: '', children: [], index: new Map(), before: total.bytes_before, after: total.bytes_after};
  for (const {stack, bytes_before: before, bytes_after: after} of stacks) {
    let node = root;
    for (const frame of [...stack].reverse()) {
      const place = names.ofFrame(frame);
      const key = `${place.name}\0${place.module}`;
      if (!node.index.has(key)) {
        const child = {...place, origin: null, children: [], index: new Map(), before: 0, after: 0};
        node.index.set(key, child);
        node.children.push(child);
      }
      node = node.index.get(key);
      node.before += before;
      node.after += after;
    }
  }
  // A node is as wide as the larger value, and at least as wide as its children.
  const order = [root];
  for (let i = 0; i < order.length; ++i) order.push(...order[i].children);
  for (const node of order.reverse())
    node.total = {width: Math.max(node.before, node.after, node.children.reduce((sum, child) =>
      sum + child.total.width, 0)), before: node.before, after: node.after};
  return root;
}

/// The tree without the frames that all stacks begin with, apart from the last one: on a low picture they would leave
/// no room for those that differ. Returns their names, the outermost first.
function withoutCommonFrames(root) {
  const left = [];
  let [only, ...others] = root.children;
  while (only && !others.length && only.children.length === 1 && only.children[0].total.width === only.total.width) {
    left.push(only.name);
    [only, ...others] = only.children;
  }
  const any = left.length !== 0 && only.children.length !== 0;
  return any ? {tree: {...root, children: [only]}, left} : {tree: root, left: []};
}
const withoutText = left => left.length ?
  `, without the ${figures.plural(left.length, 'frame')} that all have in common` : '';

/// The flame graph in red and blue: mounts itself in `host`, when that is on the page.
function graphOf(host, tree, unit) {
  const {data, all: values} = viewFlame.dataOf(tree, value => value.width, unit);
  data.was = values.map(value => value.before);
  data.is = values.map(value => value.after);
  data.grade = values.map(value => gradeOf(value.before, value.after));
  return viewFlame.mount(host, data);
}

/// The recording with which this one is compared; empty: two moments of this one.
function recordingChoice(context) {
  const others = context.traces.filter(trace => String(trace.n) !== context.state.trace);
  if (!others.length) return [];
  const list = make('select', {'aria-label': 'Compare with', onchange: event =>
    selection.change({other: event.target.value})}, make('option', {value: ''}, 'two moments'),
    ...others.map(trace => make('option', {value: String(trace.n), selected: String(trace.n) === context.state.other},
                                `with ${names.oneLine(trace.name)}`)));
  return [list];
}

/// Call sites and stacks with the largest changes: the answer has all frames of a stack, so that a thousand stacks of a
/// compiler have 10 MB. As in questions.json.
const MAX_STACKS = 200;
const more = (shown, all, noun) => shown < all ? `+${figures.plural(all - shown, noun)} with smaller changes` : '';

const changeCell = (change, text) => make('span', {class: change > 0 ? 'grew' : change < 0 ? 'shrank' : ''},
                                          figures.change(change, text));

/// Whether another recording is chosen. After a change of the first one, both can be the same.
const isOfTwo = ({trace, other}) => other !== '' && other !== trace;
const isOfRecordings = ({state, traces}) =>
  isOfTwo(state) && traces.some(trace => String(trace.n) === state.other);
const otherOf = ({state, traces}) => traces.find(trace => String(trace.n) === state.other);

/// The two moments, the earlier one first: those that are chosen, else two that show what changed lately. `marks`: null
/// before they are known. Returns {before, after, reason}; `reason` says which moments these are, if the user chose
/// none. Null: not known yet.
function momentsOf({state, info}, marks) {
  const nsOf = text => selection.nanosecondsOf(text, info, marks || []);
  const ordered = (before, after, reason = '') =>
    nsOf(before) > nsOf(after) ? {before: after, after: before, reason} : {before, after, reason};
  if (state.before || state.from || state.after || state.to) {
    const chosen = [state.before || state.from || '0', state.after || state.to || 'end'];
    return marks === null && chosen.some(text => Number.isNaN(nsOf(text))) ? null : ordered(...chosen);
  }
  if (marks === null) return null;
  const isName = text => marks.filter(mark => mark.text === text).length === 1 && /^[a-z][\w .-]*$/i.test(text) &&
    !['start', 'end', 'peak'].includes(text);
  const textOf = mark => isName(mark.text) ? mark.text : `${mark.time_ns}ns`;
  const said = mark => `the mark "${names.oneLine(mark.text)}"`;
  if (marks.length > 1) {
    const [first, second] = marks.slice(-2);
    return ordered(textOf(first), textOf(second), `${said(first)} and ${said(second)}` +
      (marks.length > 2 ? ', the last two of the recording' : ''));
  }
  // At the end of a program that frees what it has, there is nothing to see.
  const {peak_time_ns: peakTime, peak_bytes: peak, leaked_bytes: left} = info.heap;
  const isUntilPeak = left * 2 < peak;
  const end = isUntilPeak ? peakTime : info.duration_ns, after = isUntilPeak ? 'peak' : 'end';
  const last = isUntilPeak ? 'the peak' : recording.isRunning() ? 'now' : 'the end';
  if (marks.length === 1 && marks[0].time_ns < end)
    return {before: textOf(marks[0]), after, reason: `${said(marks[0])} and ${last}`};
  // A file was written with the text of this moment, by which its answer is found.
  const before = ask.file ? ask.file.compared.before : selection.seconds(end * 2 / 3, info.duration_ns);
  return {before, after,
          reason: isUntilPeak ? 'the last third of the time before the peak' :
            `the last third of the recording${recording.isRunning() ? ' so far' : ''}`};
}

function momentsHead(context, moments) {
  if (moments === null) return {tools: recordingChoice(context), command: null};
  const {before, after} = moments;
  const field = (key, label, value) => {
    const input = make('input', {type: 'text', value, size: '10', 'aria-label': label, 'data-key': key});
    input.addEventListener('change', () => {
      input.defaultValue = input.value;   // nothing is being typed
      // The other moment stays, also if it was not chosen.
      selection.change(Object.fromEntries([...input.closest('.moments').querySelectorAll('input')]
        .map(one => [one.dataset.key, one.value.trim()])));
    });
    return make('label', {}, label + ' ', input);
  };
  return {tools: [...recordingChoice(context),
                  make('span', {class: 'moments'}, field('before', 'Before', before), field('after', 'After', after)),
                  make('span', {class: 'muted'}, 'seconds, a share (40%), start, peak, end, or a mark')],
          command: ['diff', ['--top', String(MAX_STACKS)], null, [`${context.tracePath}@${before}`,
                                                                  `${context.tracePath}@${after}`]],
          selects: 'filters'};
}

function head(context) {
  if (!isOfRecordings(context)) return momentsHead(context, momentsOf(context, timeline.marks()));
  return {tools: recordingChoice(context),
          command: ['diff', ['--cost', context.metric, '--top', String(MAX_STACKS)], null,
                    [context.tracePath, recording.pathOf(otherOf(context))]]};
}

async function showRecordings(context) {
  const {state, metric} = context;
  const about = figures.metrics[metric];
  const other = otherOf(context);
  const answer = await ask.question('diff', {...context.selected, trace: state.trace, with: state.other, cost: metric,
                                             top: String(MAX_STACKS)});
  const isCount = about.unit === 'count';
  const [value, text] = isCount ? ['blocks', figures.count] : ['bytes', figures.bytes];
  const total = {bytes_before: answer.before[about.value] ?? 0, bytes_after: answer.after[about.value] ?? 0};
  // The frames that begin every stack, of allocators and containers, distinguish nothing.
  const isLibrary = frame => /^(operator new|std::|__gnu_cxx::|malloc$|calloc$|realloc$)/.test(frame.function);
  const rows = answer.top.map(entry => {
    const from = Math.max(0, entry.stack.findIndex(frame => !isLibrary(frame)));
    return {...entry, name: entry.stack[from] ? entry.stack[from].function : '(no stack)',
            place: entry.stack.slice(from).map((frame, i) => i === 0 ? frame.location : names.label(frame.function))
              .slice(0, 4).filter(Boolean).join(' \u2039 ')};
  });
  const {tools, command} = head(context);
  const tile = (label, number) => make('div', {class: 'tile'}, make('span', {}, label), make('b', {}, text(number)),
                                       make('small', {}, about.said));
  const change = total.bytes_after - total.bytes_before;
  const tiles = make('div', {class: 'tiles'}, tile(names.oneLine(context.traceName), total.bytes_before),
    tile(names.oneLine(other.name), total.bytes_after),
    make('div', {class: `tile ${change > 0 ? 'grew' : change < 0 ? 'shrank' : ''}`}, make('span', {}, 'Change'),
         make('b', {}, figures.change(change, text)), make('small', {}, about.said)));
  if (!rows.length)
    return {node: make('div', {}, tiles, elements.empty('No stack differs between these recordings.')), tools,
            command};
  const column = (key, label) => ({key, label, number: true, value: row => row[key], text: row => text(row[key]),
                                   exact: row => figures.grouped(row[key])});
  const table = rowTable.create({
    label: 'Changes by stack', rows, sort: {key: value},
    columns: [
      {key: 'name', label: 'Stack', wide: true, value: row => row.name, cell: row => viewTable.nameCell(row, row.place),
       search: row => row.stack.map(frame => frame.function).join(' ')},
      {...column(value, 'Change'), cell: row => changeCell(row[value], text)},
      column(value + '_before', 'Before'), column(value + '_after', 'After'),
    ],
    onSelect: row => detailsPanel.showStack({
      title: names.label(row.name), name: row.name, frames: row.stack.map(frame => ({function: frame.function,
        file: frame.location, line: null, module: null, inlined: false})),
      entries: [['before', text(row[value + '_before'])], ['after', text(row[value + '_after'])],
                ['change', figures.change(row[value], text)]]}),
    more: more(rows.length, answer.changed_stacks, 'stack'),
  });
  const host = make('div', {class: 'flame half'});
  const stacks = rows.map(row => ({stack: row.stack, bytes_before: row[value + '_before'],
                                   bytes_after: row[value + '_after']}));
  const {tree, left} = withoutCommonFrames(treeOf(stacks, total));
  const restoreFocus = viewFlame.keepFocus();
  let graph = null;
  return {
    node: make('div', {class: 'stacked'}, tiles, host, table.host), tools, command, csv: table.csv,
      focus: table.focus,
    attached() {
      graph = graphOf(host, tree, about.unit);
      restoreFocus([graph]);
    },
    filter: wanted => { table.filter(wanted); graph.search(wanted); }, picture: () => graph.drawn(),
    zoom: text => viewFlame.zoom(graph, text),
    shown: `${figures.plural(answer.changed_stacks, 'stack')} changed; the graph has those${withoutText(left)}`,
  };
}

async function show(context) {
  if (isOfRecordings(context)) return showRecordings(context);
  const marks = timeline.marks() || (await timeline.asked().catch(() => ({marks: []}))).marks;
  const {before, after, reason} = momentsOf(context, marks);
  const {tools, command} = momentsHead(context, {before, after});
  const answer = await ask.template('moments', {}, {}, {arg: [`@${before}`, `@${after}`],
                                                        ...context.filters}).catch(error => {
    if (error instanceof ask.NotInFile) return null;
    throw error;
  });
  if (answer === null)
    return {node: viewParts.needsServer(command[0], command[1], command[3], 'filters'), tools, command,
            selects: 'filters'};
  const {total} = answer;
  const note = reason ? make('p', {class: 'compared'}, 'Compared: ', make('b', {}, reason),
    `, ${figures.time(answer.before.at_ns)} with ${figures.time(answer.after.at_ns)}. Choose other moments above, ` +
      'or hold Alt and click twice on the timeline.') : '';
  const tile = (label, bytes, blocks, kind = '') => make('div', {class: `tile ${kind}`}, make('span', {}, label),
    make('b', {title: figures.grouped(bytes) + ' bytes'}, label === 'Net' ? figures.change(bytes) :
         figures.bytes(bytes)),
    make('small', {}, label === 'Net' ? `${figures.change(blocks, figures.count)} blocks` :
      figures.plural(blocks, 'block')));
  const tiles = make('div', {class: 'tiles'},
    tile(`Live at ${figures.time(answer.before.at_ns)}`, total.bytes_before, total.blocks_before),
    tile(`Live at ${figures.time(answer.after.at_ns)}`, total.bytes_after, total.blocks_after),
    tile('Net', total.bytes, total.blocks, total.bytes > 0 ? 'grew' : total.bytes < 0 ? 'shrank' : ''),
    tile('New, still live', total.new_bytes, total.new_blocks), tile('Freed', total.freed_bytes, total.freed_blocks));
  if (!answer.sites.length)
    return {node: make('div', {}, note, tiles,
                       elements.empty('Nothing changed between these moments. Choose others.')),
            tools, command, selects: 'filters'};
  const change = (key, label, more = {}) => ({key, label, number: true, value: row => row[key],
    text: row => figures.bytes(row[key]), exact: row => `${figures.grouped(row[key])} bytes`, ...more});
  const table = rowTable.create({
    label: 'Changes by call site', rows: answer.sites, sort: {key: 'bytes'},
    columns: [
      {key: 'name', label: 'Call site', wide: true, value: row => row.name, cell: row => viewTable.nameCell(row),
       search: row => `${row.name} ${row.file || ''} ${row.module || ''}`,
       csvLabel: ['name', 'file', 'line'], csv: row => [row.name, row.file, row.line]},
      {key: 'bytes', label: 'Net', number: true, value: row => row.bytes, cell: row => changeCell(row.bytes),
       exact: row => `${figures.grouped(row.bytes)} bytes in ${figures.grouped(row.blocks)} blocks`},
      change('new_bytes', 'New'), change('freed_bytes', 'Freed'),
      change('bytes_before', 'Before', {minor: 2}), change('bytes_after', 'After', {minor: 2}),
    ],
    isSelected: row => row.name === selection.now().name,
    onSelect: row => selection.change({name: row.name}),
    more: more(answer.sites.length, answer.changed_sites, 'call site'),
  });
  const host = make('div', {class: 'flame half'});
  const {tree, left} = withoutCommonFrames(treeOf(answer.top, total));
  const restoreFocus = viewFlame.keepFocus();
  let graph = null;
  return {
    node: make('div', {class: 'stacked'}, note, tiles, host, table.host), tools, command, selects: 'filters',
    csv: table.csv,
    select() {
      table.repaint();
      graph.repaint();
    },
    sentence: ['Live: ', make('b', {}, figures.bytes(total.bytes_before)), ` at ${figures.time(answer.before.at_ns)}, `,
               make('b', {}, figures.bytes(total.bytes_after)), ` at ${figures.time(answer.after.at_ns)}`],
    attached() {
      graph = graphOf(host, tree, 'bytes');
      restoreFocus([graph]);
    },
    filter: text => { table.filter(text); graph.search(text); }, picture: () => graph.drawn(),
    zoom: text => viewFlame.zoom(graph, text), focus: table.focus,
    shown: `${figures.plural(answer.changed_sites, 'call site')} changed between ` +
      `${figures.time(answer.before.at_ns)} and ${figures.time(answer.after.at_ns)}; the graph shows their stacks` +
      withoutText(left),
  };
}

return {key: 'compare', title: 'Compare', isOfBlocks: true,
        metrics: state => isOfTwo(state) ? Object.keys(figures.metrics) : [], head, show, momentsOf, gradeOf, treeOf};
})();
