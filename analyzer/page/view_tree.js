// The call tree, top-down or bottom-up, with all metrics; branches open and close.
'use strict';

const viewTree = (() => {
const {make, button} = elements;

/// Opens the callers of the largest node with this name.
function openPathTo(name, root, value, open) {
  const callers = new Map();
  let largest = null;
  const list = [root];
  for (let i = 0; i < list.length; ++i) {
    for (const child of list[i].children) {
      callers.set(child, list[i]);
      list.push(child);
      if (child.name === name && (!largest || value(child) > value(largest))) largest = child;
    }
  }
  for (let node = callers.get(largest); node; node = callers.get(node)) open.add(node);
}

/// Marks the nodes that are open at first: those with at least a twentieth of everything, while there are few.
function openLarge(root, value) {
  const open = new Set([root]);
  const least = value(root) / 20;
  const list = [root];
  for (let i = 0; i < list.length && open.size < 40; ++i) {
    for (const child of list[i].children) {
      if (value(child) < least) continue;
      open.add(list[i]);
      if (child.children.length) open.add(child);
      list.push(child);
    }
  }
  return open;
}

/// The names on the way from the root to a node. Calls of one function in two modules are two nodes.
const keyOf = node => `${node.name}\0${node.module}`;
function pathsTo(nodes, root) {
  const callers = new Map();
  const list = [root];
  for (let i = 0; i < list.length; ++i) {
    for (const child of list[i].children) {
      callers.set(child, list[i]);
      list.push(child);
    }
  }
  return [...nodes].map(node => {
    const path = [];
    for (let at = node; at !== root; at = callers.get(at)) path.push(keyOf(at));
    return path.reverse();
  });
}
/// The node to which a path leads; undefined: there is none any more.
const nodeAt = (path, root) =>
  path.reduce((node, key) => node && node.children.find(child => keyOf(child) === key), root);

/// Levels for which the usual indentation has room, in a window of any width and in a narrow one.
const MAX_LEVELS = 12, MAX_LEVELS_ON_PHONE = 5;

const isInverted = ({state, isPinned}) => state.shown === 'inverted' && !isPinned;

function head(context, share = viewParts.MIN_SHARE) {
  if (context.isPinned) return pinned.treeCommand(context);
  const {state, metric} = context;
  const inverted = isInverted(context);
  return {tools: [viewParts.directions(state.shown, [['', 'Top-down'], ['inverted', 'Bottom-up']])],
          command: ['tree', ['--cost', metric, ...(inverted ? ['--inverted'] : []), '--min-share', share]]};
}

async function show(context) {
  const {state, isPinned} = context;
  const metric = isPinned ? 'pinned' : context.metric;
  const inverted = isInverted(context);
  const root = await (isPinned ? pinned.tree(context) :
    context.ask(inverted ? 'inverted_tree' : 'tree', {metric}));
  if (root === null) return pinned.noTree(context);
  const about = figures.metrics[metric];
  const value = node => node.total[about.value];
  // Of a program that goes on, branches that were open or closed stay so, whatever their shares are now.
  const kept = viewState.of('tree');   // {open: paths}
  const open = kept.open ? new Set(kept.open.map(path => nodeAt(path, root)).filter(Boolean)) : openLarge(root, value);
  if (!kept.open && state.name) openPathTo(state.name, root, value, open);
  kept.open = pathsTo(open, root);

  /// The nodes in view, in preorder. A node of `left_out` stands for what is too small.
  function visible() {
    const rows = [];
    const path = [{of: null, nodes: root.children, rest: root.left_out, depth: 0, at: 0}];
    while (path.length) {
      const level = path.at(-1);
      if (level.at === level.nodes.length) {
        if (level.rest)
          rows.push({rest: level.rest, of: level.of, depth: level.depth, total: level.rest.total, self: null});
        path.pop();
        continue;
      }
      const node = level.nodes[level.at++];
      rows.push({node, depth: level.depth, total: node.total, self: node.self});
      if (open.has(node)) path.push({of: node, nodes: node.children, rest: node.left_out, depth: level.depth + 1, at: 0});
    }
    return rows;
  }
  /// Selects the function whose parts are left out: their shares are then those of this function.
  const canNarrow = row => row.rest && row.of && !ask.file && !isPinned;
  const narrow = row => selection.add('function', selection.exactly(row.of.name));
  const canOpen = row => row.node && (row.node.children.length > 0 || row.node.left_out);
  let table = null;
  /// All levels have the same indentation, as much as the deepest one leaves to each; where that is little, numbers
  /// say which level a row is.
  function indent(rows) {
    const deepest = rows.reduce((most, row) => Math.max(most, row.depth), 0);
    table.host.style.setProperty('--deepest', deepest + 1);
    table.host.style.setProperty('--digits', String(deepest).length);
    table.host.classList.toggle('deep', deepest > MAX_LEVELS);
    table.host.classList.toggle('deep-on-phone', deepest > MAX_LEVELS_ON_PHONE);
    return rows;
  }
  function toggle(row, wanted = !open.has(row.node)) {
    if (!canOpen(row)) return;
    if (wanted) open.add(row.node);
    else open.delete(row.node);
    kept.open = pathsTo(open, root);
    table.replaceRows(indent(visible()));
  }
  const cellOf = row => {
    const cell = make('span', {class: 'name tree-name'});
    cell.style.setProperty('--depth', row.depth);
    cell.append(make('small', {class: 'level', title: `level ${row.depth}`}, String(row.depth)));
    if (row.rest) {
      const text = `+${figures.count(row.rest.nodes)} more with small shares`;
      const title = 'heapprof tree --min-share 0 prints all';
      cell.append(canNarrow(row) ? button(text, () => narrow(row), {class: 'plain', tabindex: '-1',
        title: `Show only ${names.label(row.of.name)}. ${title}`}) : make('span', {class: 'muted', title}, text));
      return cell;
    }
    const sign = canOpen(row) ? button(open.has(row.node) ? '\u25be' : '\u25b8', () => toggle(row),
      {class: 'fold', tabindex: '-1', 'aria-expanded': String(open.has(row.node)),
       'aria-label': `${open.has(row.node) ? 'Close' : 'Open'} ${names.label(row.node.name)}`}) :
      make('span', {class: 'fold'});
    cell.append(sign, viewTable.nameCell(row.node));
    return cell;
  };
  const all = value(root);
  const figure = (key, label, more = {}) => viewTable.figureColumn(key, 'total', {label, sortable: false, ...more});
  table = rowTable.create({
    label: inverted ? 'Call tree, from call sites to their callers' : 'Call tree, from the outermost function',
    columns: [
      {key: 'name', label: 'Function', wide: true, cell: cellOf, sortable: false, value: row => row.depth,
       csvLabel: ['depth', 'name', 'file', 'module'],
       csv: row => row.rest ? [row.depth, `+${row.rest.nodes} more`, null, null] :
         [row.depth, row.node.name, row.node.file, row.node.module],
       search: row => row.node ? row.node.name : ''},
      figure(metric, 'Total'),
      {...viewTable.shareColumn(metric, 'total', all), sortable: false},
      {key: 'self', label: 'Self', number: true, minor: 1, sortable: false,
       value: row => row.self ? row.self[about.value] : null,
       text: row => row.self ? figures.ofMetric(metric, row.self[about.value]) : ''},
      ...about.blocks ? [{...viewTable.countColumn(about.blocks, 'total'), minor: 1, sortable: false}] : [],
      ...(isPinned ? [] : recording.otherMetrics(metric, state))
        .map((other, i) => figure(other, figures.metrics[other].column || figures.metrics[other].label,
                                  {minor: i < 2 ? 2 : 4})),
    ],
    rows: visible(),
    isSelected: row => row.node && row.node.name === selection.now().name,
    onSelect: row => {
      if (row.node) selection.change({name: row.node.name});
      else if (canNarrow(row)) narrow(row);
    },
    onKey: (event, row) => {
      if (event.key === 'ArrowRight') toggle(row, true);
      else if (event.key === 'ArrowLeft') toggle(row, false);
      else return false;
      return true;
    },
  });
  indent(visible());
  if (isPinned) return {node: table.host, filter: table.filter, csv: table.csv, focus: table.focus,
                        select: table.repaint, ...head(context)};
  const shown = head(context, viewParts.shareOf(root));
  if (!root.children.length)
    return {node: make('div', {}, viewParts.emptySelection('No block has this cost')), ...shown};
  return {node: table.host, filter: table.filter, csv: table.csv, focus: table.focus, select: table.repaint,
          ...shown};
}

return {key: 'tree', title: 'Tree', hasPinned: true, head, show};
})();
