// Memory that live blocks keep from being returned to the system, at the selected moment or at the end: what the
// metric "Pinned" shows in the views that have it. `pins` has no filters and no ranges of time.
'use strict';

const pinned = (() => {
const {make} = elements;
const KEYS = {function: 'Function', site: 'Call site', stack: 'Stack'};
const WIDTH = 'pinned_bytes';
/// The columns of `heapprof pins`.
const TITLES = {
  overhead: 'Memory that the live blocks of this row keep from being returned, less the blocks themselves: alone + ' +
    'shared \u2212 self. Below 0 for a row that fills more than its share of the pages',
  alone: 'Pages in which only this row has live blocks. They could be returned if these blocks were freed',
  shared: 'Pages in which other rows have live blocks, too, divided equally among these rows. They can be returned ' +
    'only if the blocks of all of them are freed',
  self: 'Size of the live blocks of this row, as the allocator has rounded it up',
  blocks: 'Live blocks of this row',
};

const optionsOf = ({selected, state}) => ({trace: selected.trace, ...state.at ? {'live-at': state.at} : {}});
const wordsOf = ({state}) => state.at ? ['--live-at', state.at] : [];
/// Of stacks, there are as many rows as in the table of other metrics, and for the same reason.
const topOf = by => by === 'stack' ? String(viewTable.MAX_STACKS) : '0';
/// `isSlow`: a view does not wait for the answer, and it is given up with the view.
const groups = (context, by = 'function', isSlow = false) =>
  ask.template('pins', {}, {}, {...optionsOf(context), by, top: topOf(by)}, isSlow);

/// What the figures are about, beside the title of a view.
const about = (context, answer) => `${figures.bytes(answer.pinned_bytes)} pinned at ${figures.time(answer.at_ns)}, ` +
  `${figures.bytes(answer.returnable_bytes)} returnable` +
  (context.state.filters.length || context.state.from || context.state.to ? '; filters and ranges do not apply' : '');

/// The sentence of the status line.
async function sentence(context) {
  const answer = await groups(context);
  return ['Whole recording: ', make('b', {}, figures.bytes(answer.pinned_bytes)), ` pinned at ` +
    `${figures.time(answer.at_ns)} \u00b7 `, make('b', {}, figures.bytes(answer.overhead_bytes)),
          ' of it beyond the live blocks'];
}

const byOf = ({state}) => Object.hasOwn(KEYS, state.by) ? state.by : 'function';

function tableHead(context) {
  const by = byOf(context);
  const choice = make('div', {class: 'segments', role: 'group', 'aria-label': 'Rows by'},
    ...Object.entries(KEYS).map(([key, label]) => elements.button(label, () => selection.change({by: key}),
                                                                  {'aria-pressed': String(key === by)})));
  return {tools: [choice], selects: 'nothing',
          command: ['pins', ['--by', by, '--top', topOf(by), ...wordsOf(context)]]};
}

/// The rows of the table, by function, call site or stack.
async function table(context) {
  const by = byOf(context);
  const answer = await groups(context, by);
  const figure = (key, label, more = {}) => ({key, label, number: true, value: row => row[key],
                                              text: row => figures.bytes(row[key]),
                                              exact: row => `${figures.grouped(row[key])} bytes`, ...more});
  const rows = rowTable.create({
    label: `Pinned memory by ${KEYS[by].toLowerCase()}`, rows: answer.groups, sort: {key: 'overhead_bytes'},
    more: answer.groups.length < answer.all_groups ?
      `+${figures.plural(answer.all_groups - answer.groups.length, 'row')} with less overhead` : '',
    columns: [
      {key: 'name', label: KEYS[by], wide: true, value: row => row.name, search: row => row.name,
       cell: row => viewTable.nameCell({...row, file: null, module: null})},
      figure('overhead_bytes', 'Overhead', {title: TITLES.overhead}),
      figure('alone_bytes', 'Alone', {title: TITLES.alone}),
      figure('shared_bytes', 'Shared', {title: TITLES.shared, minor: 1}),
      figure('usable_bytes', 'Self', {title: TITLES.self, minor: 2,
        exact: row => `${figures.grouped(row.usable_bytes)} bytes, of which the program asked for ` +
          figures.grouped(row.live_bytes)}),
      {key: 'blocks', label: 'Blocks', number: true, title: TITLES.blocks, minor: 3, value: row => row.blocks,
       text: row => figures.count(row.blocks)},
    ],
    isSelected: row => row.name === selection.now().name,
    onSelect: row => by === 'function' ? selection.change({name: row.name}) : detailsPanel.showStack({
      title: names.label(row.name), frames: row.stack || [],
      entries: [['overhead', figures.bytes(row.overhead_bytes)], ['alone', figures.bytes(row.alone_bytes)],
                ['shared', figures.bytes(row.shared_bytes)],
                ['self', `${figures.bytes(row.usable_bytes)} in ${figures.plural(row.blocks, 'block')}`],
                ['requested', figures.bytes(row.live_bytes)],
                ['shared with', row.with.map(names.label).join('; ')]]}),
  });
  return {
    node: answer.groups.length ? rows.host : elements.empty('No block is live at this moment. Select another one.'),
    ...tableHead(context), filter: rows.filter, csv: rows.csv, focus: rows.focus, select: rows.repaint,
    shown: about(context, answer),
  };
}

/// A name as folded stacks have it, where ; separates names: folded_name() in analyzer/render/flame_tree.cpp.
const foldedName = name => name.replaceAll(';', ':').replace(/ ([\d.]+)$/, '\u00a0$1');

/// The tree of `flamegraph --cost pinned`, as `tree` would answer: a frame has what could be returned without the
/// blocks that were allocated in and below it. Null where a file has no such answer.
async function tree(context) {
  const [folded, rows] = await Promise.all([
    ask.question('flamegraph', {...optionsOf(context), cost: 'pinned', format: 'folded'}).catch(error => {
      if (error instanceof ask.NotInFile) return null;
      throw error;
    }), context.functionRows()]);
  if (folded === null) return null;
  const known = new Map(rows.rows.map(row => [foldedName(row.name), row]));
  const nodeOf = name => ({...known.get(name) || {origin: null, file: null, module: null, name}, line: null,
                           self: {[WIDTH]: 0}, total: {[WIDTH]: 0}, children: [], index: new Map()});
  const root = nodeOf('');
  for (const line of folded.split('\n')) {
    // Names may have characters that end a line for a regular expression, but no line feed.
    const [, stack, bytes] = /^([^]*) (\d+)$/.exec(line) || [];
    if (stack === undefined) continue;
    let node = root;
    node.total[WIDTH] += Number(bytes);
    for (const name of stack.split(';')) {
      if (!node.index.has(name)) {
        node.index.set(name, nodeOf(name));
        node.children.push(node.index.get(name));
      }
      node = node.index.get(name);
      node.total[WIDTH] += Number(bytes);
    }
    node.self[WIDTH] += Number(bytes);
  }
  const all = [root];
  for (let i = 0; i < all.length; ++i) {
    all[i].children.sort((a, b) => b.total[WIDTH] - a.total[WIDTH]);
    all.push(...all[i].children);
  }
  return root;
}

/// Of a view that shows this tree.
const treeCommand = context => ({selects: 'nothing', command: ['flamegraph', ['--cost', 'pinned', '--format', 'folded',
                                                                       ...wordsOf(context)]]});
/// In place of a tree that a file does not have.
function noTree(context) {
  const shown = treeCommand(context);
  return {node: viewParts.needsServer(...shown.command, undefined, 'nothing'), ...shown};
}

return {table, tableHead, tree, treeCommand, noTree, sentence, groups, about};
})();
