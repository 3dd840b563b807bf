// Flame graph and icicle in both directions, and the callers and callees of one function (sandwich). The drawing is
// that of `heapprof flamegraph`.
'use strict';

const viewFlame = (() => {
const {make} = elements;

/// The arrays that flameGraph() draws, of a tree whose nodes have `name`, `total`, `children` and `left_out`.
/// `valueOf(figures)` is the width of a node.
function dataOf(root, valueOf, unit) {
  const data = {title: '', cost: '', unit, total: valueOf(root.total), merged: [0, 0], context: [], modules: [],
                functions: [], files: [''], depth: [], function: [], line: [], value: [], exact: {}};
  const all = [];   // figures of each frame
  const numbers = new Map(), modules = new Map(), files = new Map([['', 0]]);
  const number = (map, list, key, entry) => {
    if (!map.has(key)) {
      map.set(key, list.length);
      list.push(entry);
    }
    return map.get(key);
  };
  const functionOf = node => {
    const module = number(modules, data.modules, node.module || '', [names.base(node.module), 0, 0]);
    const file = number(files, data.files, node.file || '', node.file || '');
    return number(numbers, data.functions, `${node.name}\0${module}\0${file}`,
                  [names.oneLine(node.name), names.label(node.name), module, file, 0, 0, node.origin, node.name]);
  };
  const pending = [{node: root, depth: 0}];
  while (pending.length) {
    const {node, depth, rest} = pending.pop();
    const figuresOfNode = rest ? rest.total : node.total;
    data.depth.push(depth);
    data.function.push(rest || depth === 0 ? -1 : functionOf(node));
    data.line.push(rest ? rest.nodes : node.line || 0);
    data.value.push(valueOf(figuresOfNode));
    all.push(figuresOfNode);
    if (rest) {
      data.merged[0] += rest.nodes;
      data.merged[1] += valueOf(rest.total);
      continue;
    }
    const below = node.children.filter(child => valueOf(child.total) > 0)
      .map(child => ({node: child, depth: depth + 1, value: valueOf(child.total)}));
    if (node.left_out && valueOf(node.left_out.total) > 0)
      below.push({rest: node.left_out, depth: depth + 1, value: valueOf(node.left_out.total)});
    // The drawing expects the widest first; the stack returns the last first.
    below.sort((a, b) => a.value - b.value);
    pending.push(...below);
  }
  return {data, all};
}

/// Branches with smaller percentages of their tree are left out: the second one if the answer is too large otherwise.
const SANDWICH_SHARES = ['0.01', '0.1'];

/// What a sandwich of the selected function is made of: the tree of its stacks, from which branches with less than
/// `share` percent of `of` are left out, and its exact figures as `callers` has them. A file has the tree of all
/// functions only. `isOfOwnPeak`: the tree has what is live at the peak of the function's blocks, while `callers` has
/// what is live at the peak of everything that is selected. Null: no block was allocated in the function.
async function askSandwich(context) {
  const {metric, selected, state: {name, at}} = context;
  if (ask.file) {
    const root = await context.ask('tree', {metric});
    return {root, exact: null, share: viewParts.shareOf(root), of: 'everything'};
  }
  // The peak of what a function allocates is at another time than that of the selection.
  const only = metric === 'peak' && !at ? null : selection.ofFunction(name, selected);
  const tree = async ([share, ...larger]) => {
    try {
      return {share, root: await ask.question('tree', {...only || selected, cost: metric, 'min-share': share})};
    } catch (error) {
      if (!larger.length || !error.message.startsWith('the answer has more than')) throw error;
      return tree(larger);
    }
  };
  try {
    // As in the details, whose question this is, too.
    const [found, exact] = await Promise.all([tree(SANDWICH_SHARES), name.length > selection.MAX_NAME ? null :
      context.ask('callers', {name, metric})]);
    return {...found, exact, of: only ? 'it' : 'everything', isOfOwnPeak: Boolean(only && !at && !selected.function)};
  } catch (error) {
    if (error.message.includes('no stack with costs has a function')) return null;
    throw error;
  }
}

/// The peak at which the figures of a sandwich are live: "selection", "function", or "unknown".
function peakOf({isOfOwnPeak, exact}) {
  if (!isOfOwnPeak) return 'selection';
  // What the function allocates as a helper is in no tree, and how much of it is live at this peak is not known.
  return exact && Object.values(exact.as_helper).some(value => value > 0) ? 'unknown' : 'function';
}
/// `exact` with what is live at the peak of the function's blocks, of which `root` is the tree.
const exactAtOwnPeak = (exact, {total: {peak_bytes, peak_blocks}}) =>
  exact && {...exact, total: {...exact.total, peak_bytes, peak_blocks}};

/// The trees below and above all outermost occurrences of a function: {callees, callers, found}. With `exact` figures
/// of the function, both have its total, and a frame for what is in branches that are left out: `rest`. The frames
/// below call sites, of helpers, are no part of trees. `row` describes a function that has no branch.
function sandwich(root, name, exact = null, row = null) {
  const add = (to, from) => { for (const key of Object.keys(from)) to[key] = (to[key] || 0) + from[key]; };
  const leaveOut = (to, nodes, total) => {
    to.left_out = to.left_out || {nodes: 0, total: {}};
    to.left_out.nodes += nodes;
    add(to.left_out.total, total);
  };
  const merged = node => ({name: node.name, file: node.file, line: node.line, module: node.module,
                           origin: node.origin, total: {}, children: [], index: new Map()});
  const child = (parent, node) => {
    const key = `${node.name}\0${node.module}`;
    if (!parent.index.has(key)) {
      parent.index.set(key, merged(node));
      parent.children.push(parent.index.get(key));
    }
    return parent.index.get(key);
  };
  let callees = null, callers = null, leftOut = 0;
  const list = [{node: root, up: null}];
  while (list.length) {
    const entry = list.pop();
    const {node} = entry;
    if (node.name !== name) {
      leftOut += node.left_out ? node.left_out.nodes : 0;
      for (const below of node.children) list.push({node: below, up: entry});
      continue;
    }
    callees = callees || merged(node);
    callers = callers || merged(node);
    const copies = [[callees, node]];
    while (copies.length) {
      const [to, from] = copies.pop();
      add(to.total, from.total);
      if (from.left_out) leaveOut(to, from.left_out.nodes, from.left_out.total);
      for (const below of from.children) copies.push([child(to, below), below]);
    }
    add(callers.total, node.total);
    let to = callers;
    for (let up = entry.up; up && up.up; up = up.up) {
      to = child(to, up.node);
      add(to.total, node.total);
    }
  }
  const found = callees !== null, rest = {};
  if (!found && row) [callees, callers] = [merged(row), merged(row)];
  if (exact && callees) {
    // Of a program that still runs, the tree may be newer than these figures.
    for (const key of Object.keys(exact.total))
      rest[key] = Math.max(0, exact.total[key] - exact.as_helper[key] - (callees.total[key] || 0));
    const isPartly = Object.values(rest).some(value => value > 0);
    for (const tree of [callees, callers]) {
      tree.total = exact.total;
      if (isPartly) leaveOut(tree, Math.max(1, leftOut), rest);
    }
  }
  const rooted = tree => tree && {name: '', total: tree.total, children: [tree]};
  return {callees: rooted(callees), callers: rooted(callers), found, rest};
}

const styleOf = entry => entry ? `o-${entry[6] || 'unknown'}` : 'o-merged';

/// The zoomed frame is a part of the selection: as the names on the path to it, as # and the hash of a longer path, or
/// as "function", the widest frame of the selected function.
const WIDEST = 'function';
const MAX_PATH = 8000;
const textOf = path => {
  const text = path.length ? JSON.stringify(path) : '';
  return text.length > MAX_PATH ? `#${flameTree.hashOf(path)}` : text;
};
function pathOf(text) {
  if (text.startsWith('#')) return Number(text.slice(1));
  try {
    const path = JSON.parse(text || '[]');
    return Array.isArray(path) ? path.map(String) : [];
  } catch (error) {
    return [];
  }
}

const isSelected = entry => entry[7] === selection.now().name;

function mount(host, data, flames = false, small = `less than ${viewParts.MIN_SHARE}% of the total`) {
  return flameGraph(data, {
    host, styleOf, flames, zoom: pathOf(selection.now().zoom), isSelected,
    kept: viewState.of(flames ? 'graph of callers' : 'graph'),
    mergedNote: `each has ${small}; heapprof flamegraph draws all`,
    onSelect: (entry, path) => selection.change({name: entry[7], zoom: textOf(path)}),
    onZoom: path => selection.change({zoom: textOf(path)}),
  });
}

/// Zooms a graph of all functions. Returns a sentence if the zoomed frame is not all of the selected function. `share`:
/// branches with smaller percentages are left out of the graph.
function zoom(graph, text, share = viewParts.MIN_SHARE) {
  if (text !== WIDEST) {
    graph.zoomTo(pathOf(text));
    return '';
  }
  const {name} = selection.now();
  const found = graph.zoomToFunction(isSelected);
  if (found === null) {
    graph.zoomTo([]);
    return `${names.label(name)} has less than ${share}% of this cost`;
  }
  return found.frames < 2 ? '' : `the widest of ${found.frames} frames of ${names.label(name)}, ` +
    `with ${figures.percent(found.share, 1)} of its total; Sandwich has all`;
}

function legend() {
  return make('span', {class: 'origins'}, ...Object.entries(names.originText).filter(([key]) => key !== 'runtime')
    .map(([key, text]) => make('span', {}, elements.dot(key), key === 'standard' ? 'standard library' : text)));
}

/// Keeps the focus in a graph that is drawn again, for users who work without a mouse. Call it while the previous view
/// is shown, and call the returned function with the graphs that replace it. That function refers to no element of the
/// previous graphs, which would stay in memory otherwise.
function keepFocus() {
  const hosts = () => [...document.querySelectorAll('#view .flame')];
  const {localName, textContent} = document.activeElement;
  const i = hosts().findIndex(host => host.contains(document.activeElement));
  const label = localName === 'button' ? textContent : null;
  return graphs => {
    if (!graphs[i] || document.activeElement !== document.body) return;
    const button = [...hosts()[i].querySelectorAll('button:enabled')].find(other => other.textContent === label);
    if (button) button.focus({preventScroll: true});
    else graphs[i].restoreFocus();
  };
}

/// Bytes that could be returned without the blocks of a frame: the innermost functions have no such bytes by
/// themselves if others keep the same memory, so there is one direction only.
async function showPinned(context) {
  const note = make('span', {class: 'muted'});
  const root = await pinned.tree(context);
  if (root === null) return pinned.noTree(context);
  if (!root.children.length)
    return {node: elements.empty('No block is live at this moment. Select another one.'),
            ...pinned.treeCommand(context)};
  const {value, unit} = figures.metrics.pinned;
  const host = make('div', {class: 'flame'});
  const table = await pinned.table(context);
  const restoreFocus = keepFocus();
  let graph = null;
  return {
    node: make('div', {class: 'stacked'}, host, table.node), tools: [note, legend()], shown: table.shown,
    ...pinned.treeCommand(context),
    attached() {
      graph = mount(host, dataOf(root, total => total[value], unit).data);
      restoreFocus([graph]);
      note.textContent = zoom(graph, context.state.zoom);
    },
    zoom(text) { note.textContent = zoom(graph, text); },
    select() {
      graph.repaint();
      table.select();
    },
    filter: text => graph.search(text), picture: () => graph.drawn(),
    csv: () => rowsOf(root),
  };
}

/// The rows of a tree's CSV. `columnOf`: the heading of a figure, or null if it is left out.
function rowsOf(root, columnOf = key => key) {
  const keys = Object.keys(root.total).filter(key => columnOf(key) !== null);
  const lines = [['depth', 'name', 'file', 'module', ...keys.map(columnOf)]];
  const list = [[root, 0]];
  while (list.length) {
    const [node, depth] = list.pop();
    lines.push([depth, node.name, node.file, node.module, ...keys.map(key => node.total[key])]);
    for (const child of [...node.children].reverse()) list.push([child, depth + 1]);
  }
  return lines;
}

/// The same of both trees of a sandwich, which begin with its function. `peak`: that of the figures.
function rowsOfSandwich([callers, callees], peak) {
  const columnOf = key => peak === 'selection' || !key.startsWith('peak_') ? key :
    peak === 'function' ? `function_${key}` : null;
  const [[head, ...above], [, ...below]] = [callers, callees].map(tree => rowsOf(tree.children[0], columnOf));
  return [['kind', ...head], ...above.map(row => ['caller', ...row]), ...below.map(row => ['callee', ...row])];
}

const shownOf = state => ['inverted', 'sandwich'].includes(state.shown) ? state.shown : '';
const isSandwichOf = state => shownOf(state) === 'sandwich' && state.name !== '' && names.isFunction(state.name);

function head(context, share = viewParts.MIN_SHARE) {
  const {state, metric} = context;
  if (context.isPinned) return {...pinned.treeCommand(context), tools: [legend()]};
  const shown = shownOf(state);
  return {command: isSandwichOf(state) ? ['callers', ['--cost', metric], state.name] :
    ['tree', ['--cost', metric, ...(shown === 'inverted' ? ['--inverted'] : []), '--min-share', share]],
          tools: [viewParts.directions(shown, [['', 'Top-down'], ['inverted', 'Bottom-up'],
                                               ['sandwich', 'Sandwich']])]};
}

async function show(context) {
  if (context.isPinned) return showPinned(context);
  const {state, metric} = context;
  const about = figures.metrics[metric];
  const valueOf = total => total[about.value] || 0;
  const shown = shownOf(state), isSandwich = isSandwichOf(state);
  const {tools: [choice]} = head(context);
  const asked = isSandwich ? await askSandwich(context) :
    {root: await context.ask(shown === 'inverted' ? 'inverted_tree' : 'tree', {metric}), exact: null};
  if (asked === null)
    return {node: elements.empty('No block of this selection was allocated in this function.'), tools: [choice],
            command: head(context).command};
  const {root} = asked, peak = peakOf(asked);
  const exact = peak === 'function' ? exactAtOwnPeak(asked.exact, root) : asked.exact;
  const share = isSandwich ? asked.share : viewParts.shareOf(root);
  const {command} = head(context, share);
  if (shown === 'sandwich' && !isSandwich)
    return {node: elements.empty(`${state.name ? `${state.name} is no function, so it has no callers and callees` :
      'No function is selected'}. Select one in the table or in a flame graph.`), tools: [choice], command};
  if (exact ? valueOf(exact.total) === 0 : !root.children.length || valueOf(root.total) === 0)
    return {node: make('div', {}, viewParts.emptySelection('No block has this cost')), tools: [choice], command};
  const node = make('div', {class: 'stacked'});
  const hosts = [];
  const note = make('span', {class: 'muted'});
  const small = `less than ${share}% of ${isSandwich ? asked.of : 'the total'}`;
  let rowsBelow = null;
  if (isSandwich) {
    const helped = exact ? valueOf(exact.as_helper) : 0;
    const left = `branches with ${small}`;
    let made = sandwich(root, state.name, exact);
    if (!made.found && exact && helped < valueOf(exact.total)) {
      const {rows} = await context.functionRows();
      made = sandwich(root, state.name, exact, rows.find(row => row.name === state.name) || {name: state.name});
    }
    if (!made.callees)
      return {node: elements.empty(`${names.label(state.name)} ` + (exact ?
        'allocates for its callers only, and its blocks are counted there. ' : `is in no branch but ${left}. `),
                                   'Its exact callers are in the details.'), tools: [choice], command};
    note.textContent = exact ? [
      valueOf(made.rest) > 0 ? `${figures.ofMetric(metric, valueOf(made.rest))} in ${left}` : '',
      helped > 0 ? `${figures.ofMetric(metric, helped)} are counted at its callers, for which it allocates` : '',
    ].filter(Boolean).join('; ') : `without ${left}`;
    for (const [title, tree] of [['Callers', made.callers], ['Callees', made.callees]]) {
      const host = make('div', {class: 'flame half'});
      hosts.push([host, tree]);
      node.append(make('h3', {}, `${title} of ${names.label(state.name)}`), host);
    }
  } else {
    const host = make('div', {class: 'flame'});
    hosts.push([host, root]);
    // The graph does not wait for the table below it, unless both were there before.
    const below = make('div', {class: 'row-table waiting'});
    node.append(host, below);
    const known = context.ask('function_rows', {}).then(rows => {
      rowsBelow = viewTable.tableOf(rows, context, {});
      below.replaceWith(rowsBelow.host);
    }, error => below.replaceWith(make('p', {class: 'more'}, error.message)));
    if (context.isUpdate) await known;
  }
  const graphs = [];
  const restoreFocus = keepFocus();
  return {
    node, tools: [choice, note, legend()], command,
    attached() {
      // Callers stand above the function, callees below it.
      hosts.forEach(([host, tree], i) => {
        const {data, all} = dataOf(tree, valueOf, about.unit);
        data.figures = frame => (state.at ? ['leaked'] : Object.keys(figures.metrics))
          .filter(key => ![metric, about.blocks, 'live', 'pinned', ...peak === 'unknown' ? ['peak'] : []].includes(key))
          .concat(about.blocks ? [about.blocks] : [])
          .map(key => key === about.blocks ? ['blocks', figures.count(all[frame][key])] :
            [key === 'peak' && peak === 'function' ? 'live at the peak of the selected function' :
              recording.metricLabel(key, state).toLowerCase(),
             figures.ofMetric(key, all[frame][figures.metrics[key].value])]);
        graphs.push(mount(host, data, isSandwich && i === 0, small));
      });
      restoreFocus(graphs);
      if (!isSandwich) note.textContent = zoom(graphs[0], state.zoom, share);
    },
    zoom(text) {
      for (const graph of graphs) {
        const said = zoom(graph, text, share);
        if (!isSandwich) note.textContent = said;
      }
    },
    // A sandwich is of the selected function.
    select: isSandwich ? null : () => {
      graphs[0].repaint();
      if (rowsBelow) rowsBelow.repaint();
    },
    filter: text => graphs.forEach(graph => graph.search(text)),
    picture: () => !isSandwich ? graphs[0].drawn() : ['Callers', 'Callees'].map((title, i) =>
      [`${title} of ${names.label(state.name)}`, graphs[i].drawn()]),
    csv: () => isSandwich ? rowsOfSandwich(hosts.map(([, tree]) => tree), peak) : rowsOf(root),
  };
}

return {key: 'flame', title: 'Flame graph', hasPinned: true, head, show, dataOf, mount, keepFocus, zoom, WIDEST,
        styleOf, sandwich};
})();
