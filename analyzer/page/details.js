// The panel for whatever is selected: a function with its figures, callers, callees and its largest stack; a stack;
// or a block; or a moment, modules and threads.
'use strict';

const details = (() => {
const {make, button} = elements;

const rowsOf = entries => entries.filter(entry => entry && entry[1]).flatMap(([label, text, exact]) =>
  [make('dt', {}, label), make('dd', {title: exact}, text)]);
const list = entries => make('dl', {}, ...rowsOf(entries));

const opened = new Set();   // frames that are no longer folded, also when the figures are asked for again
/// A stack, innermost first: own frames in bold; neighbours of other origin are folded into one line that opens.
function stackOf(frames, originOf) {
  const lines = make('ol', {class: 'stack'});
  const line = frame => {
    const {name, unresolved} = names.ofFrame(frame);
    const origin = originOf(frame);
    const open = unresolved ? make('span', {title: frame.module}, names.label(name)) :
      button(names.label(name), () => selection.change({name}), {class: 'plain', title: name});
    return make('li', {class: origin}, open, ' ', make('small', {}, names.place(names.ofFrame(frame)),
                                                        frame.inlined ? ', inlined' : ''));
  };
  for (let i = 0; i < frames.length;) {
    let end = i;
    while (end < frames.length && originOf(frames[end]) !== 'own') ++end;
    if (end - i < 3) {
      end = Math.max(end, i + 1);
      for (; i < end; ++i) lines.append(line(frames[i]));
      continue;
    }
    const folded = frames.slice(i + 1, end);
    lines.append(line(frames[i]));
    i = end;
    const key = JSON.stringify(folded);
    if (opened.has(key)) {
      lines.append(...folded.map(line));
      continue;
    }
    const entry = make('li', {class: 'folded'});
    const open = () => {
      opened.add(key);
      const revealed = folded.map(line);
      entry.replaceWith(...revealed);
      // The button that had the focus is gone. Frames without names are no buttons.
      const next = revealed.map(one => one.querySelector('button')).find(Boolean);
      (next || document.getElementById('details')).focus({preventScroll: true});
    };
    entry.append(button(`\u2026 ${folded.length} frames of ${names.base(folded.at(-1).module) || 'unknown code'}`,
                        open, {class: 'plain', 'aria-expanded': 'false'}));
    lines.append(entry);
  }
  return lines;
}

/// The origin of each function, from the rows of the whole recording. The file of `heapprof html` may have few rows.
async function origins(context) {
  const rows = await context.functionRows().catch(error => {
    if (error instanceof ask.NotInFile) return {rows: []};
    throw error;
  });
  const known = new Map(rows.rows.map(row => [row.name, row.origin]));
  return frame => known.get(names.ofFrame(frame).name) || 'unknown';
}

function actions(name, place) {
  const pattern = selection.exactly(name);
  // A block needs to match one of several functions only, so this one takes the place of others.
  const only = () => [...selection.now().filters.filter(({option}) => option !== 'function'),
                      {option: 'function', value: pattern}];
  return [
    make('p', {class: 'actions'},
         button('Callers', () => selection.change({view: 'flame', shown: 'sandwich', name})),
         button('Blocks', () => selection.change({view: 'blocks', name, filters: only()})),
         button('Source', () => selection.change({view: 'source', file: place || name, name}))),
    make('p', {class: 'actions'},
         button('Only this', () => selection.change({filters: only()})),
         button('Without this', () => selection.add('not-function', pattern)),
         button('Copy name', event => feedback.copy(name, event.currentTarget))),
  ];
}

/// The range of a distribution in which its median is: "2.01 KiB to 4.00 KiB". Some ranges are one size, and the last
/// one of lifetimes has no end.
function median(parts, weight, from, to, text) {
  const total = parts.reduce((sum, part) => sum + part[weight], 0);
  let below = 0;
  for (const part of parts) {
    below += part[weight];
    if (total === 0 || below * 2 < total) continue;
    return part[to] === null ? `from ${text(part[from])}` : part[to] === part[from] ? text(part[from]) :
      `${text(part[from])} to ${text(part[to])}`;
  }
  return '';
}

/// A file of `heapprof html` may not have an answer.
function missing(error) {
  if (error instanceof ask.NotInFile) return null;
  throw error;
}

/// Sizes and lifetimes of what is selected, of a function of it if there is a name. Null where they cannot be asked
/// for: of mappings, and of a function beside other ones, since a block need match only one of several functions.
function histogramOf(context, name = '') {
  const {state, selected} = context;
  const filters = name ? selection.ofFunction(name, selected) : selected;
  if (recording.withMappings(state) || filters === null) return null;
  const asked = ask.template('histogram', {}, filters).catch(missing);
  context.medians = asked.catch(() => {});   // of no interest if the figures beside it cannot be drawn
  return asked;
}
const mediansOf = histogram => histogram ? [
  ['median size', median(histogram.sizes, 'allocations', 'from_bytes', 'to_bytes', figures.bytes)],
  ['median lifetime', median(histogram.lifetimes, 'blocks', 'from_ns', 'below_ns', figures.time)]] : [];

/// A list of figures, to which the medians of a histogram are added when it is known: it needs another pass over the
/// recording. Their rows have their place at once, so that nothing below them moves. `heading` is that of a list that
/// has nothing else. Returns what is to be drawn.
function withMedians(known, histogram, heading = null) {
  if (histogram === null) return heading ? [] : [known];
  const awaited = ['median size', 'median lifetime'].flatMap(label =>
    [make('dt', {class: 'waiting'}, label), make('dd', {class: 'waiting'}, '\u2026')]);
  known.append(...awaited);
  const host = make('div', {}, heading, known);
  const replaceAwaited = rows => {
    for (const part of awaited) part.remove();
    known.append(...rows);
  };
  histogram.then(answer => {
    const rows = rowsOf(mediansOf(answer));
    replaceAwaited(rows);
    if (heading && !rows.length) host.replaceChildren();
  }, error => {
    replaceAwaited([]);
    host.append(make('p', {class: 'error', role: 'alert'}, `Sizes and lifetimes are unknown: ${error.message}`));
  });
  return [host];
}

/// A figure of the selected metric, and those of the others.
const figureOf = ({metric, state}, total) =>
  [recording.said(metric, state), figures.sentence(metric, total),
   figures.exact(metric, total[figures.metrics[metric].value])];
function otherFigures({metric, state}, total) {
  const beside = recording.otherMetrics(metric, state);
  return ['peak', 'leaked', 'allocated', 'temporary'].filter(other => beside.includes(other)).map(other =>
    [other === 'temporary' ? 'temporary' : recording.said(other, state), ['peak', 'leaked'].includes(other) ?
      figures.bytes(total[figures.metrics[other].value]) : figures.sentence(other, total)]);
}

/// `largest`: {bytes, blocks, stack}; `all`: what it is a part of.
async function largestStack(context, largest, all) {
  const {metric} = context;
  const value = figures.metrics[metric].unit === 'count' ? largest.blocks : largest.bytes;
  return [make('h3', {}, 'Largest stack'), make('p', {class: 'muted'},
    `${figures.ofMetric(metric, value)}, ${figures.percent(value, all)} of it`),
          stackOf(largest.stack, await origins(context))];
}

async function functionDetails(context, name) {
  const {metric, state} = context;
  const about = figures.metrics[metric];
  const histogram = histogramOf(context, name);
  const [callers, rows] = await Promise.all([
    name.length > selection.MAX_NAME ? null : context.ask('callers', {name, metric}).catch(missing),
    ask.file || name.length > selection.MAX_NAME ? context.ask('function_rows', {}).catch(missing) : null,
  ]);
  const all = await context.report;
  const row = rows && rows.rows.find(candidate => candidate.name === name);
  const total = callers ? callers.total : row && row.total, self = callers ? callers.self : row && row.self;
  const nodes = [make('h2', {}, names.oneLine(name))];
  const largest = callers && callers.largest_stack;
  const frame = largest && largest.stack.find(candidate => candidate.function === name);
  const place = frame ? names.ofFrame(frame) : row;
  if (place) nodes.push(make('p', {class: 'muted', title: place.file || place.module},
                             [names.place(place), names.base(place.module)].filter(Boolean).join(' \u00b7 ')));
  if (total) {
    const whole = metric === 'temporary' ? all.total.blocks : about.unit === 'count' ? all.total.blocks :
      all.total.bytes;
    nodes.push(...withMedians(list([
      figureOf(context, total),
      ['itself', figures.ofMetric(metric, self[about.value]), figures.exact(metric, self[about.value])],
      ['share', figures.percent(total[about.value], whole)],
      ...otherFigures(context, total),
    ]), histogram));
  }
  nodes.push(...actions(name, place && place.file));
  if (largest) nodes.push(...await largestStack(context, largest, total[about.value]));
  if (callers) {
    for (const [title, entries] of [['Callers', callers.callers], ['Callees', callers.callees]]) {
      if (!entries.length) continue;
      nodes.push(make('h3', {}, title), make('ul', {class: 'calls'}, ...entries.map(entry => make('li', {},
        names.isFunction(entry.name) ? button(names.label(entry.name), () => selection.change({name: entry.name}),
                                              {class: 'plain', title: entry.name}) :
          make('span', {title: names.noFunctions[entry.name]}, entry.name),
        make('span', {}, figures.ofMetric(metric, entry.total[about.value]), ' ',
             make('small', {}, figures.percent(entry.total[about.value], total[about.value])))))));
    }
  } else if (ask.file) {
    nodes.push(viewParts.needsServer('callers', [], [context.tracePath, name]));
  }
  return nodes;
}

/// What a moment, modules and threads that are selected are called; empty if none is.
function titleOf({at, filters}) {
  const values = option => filters.filter(filter => filter.option === option).map(({value}) => value);
  const named = (what, list) => list.length ? [`${what} ${list.map(names.oneLine).join(', ')}`] : [];
  return [...at ? [`Live at ${recording.timeText(at)}`] : [],
          ...named('Module', values('module').map(path => names.base(path) || path)),
          ...named('Thread', values('thread'))].join(' \u00b7 ');
}

/// A moment, modules or threads: the figures of everything that is selected.
async function selectionDetails(context) {
  const {state, metric} = context;
  const title = make('h2', {}, titleOf(state));
  const histogram = histogramOf(context);
  try {
    const [rows, report] = await Promise.all([context.ask('function_rows', {}), context.report]);
    const nodes = [title, ...withMedians(list([figureOf(context, rows.total), ...otherFigures(context, rows.total)]),
                                         histogram)];
    const [largest] = report.top;
    if (largest) {
      const stack = largest.stack.map(position => report.frames[position]);
      nodes.push(...await largestStack(context, {...largest, stack}, rows.total[figures.metrics[metric].value]));
    }
    return nodes;
  } catch (error) {
    return [title, make('p', {class: error instanceof ask.NotInFile ? 'muted' : 'error'}, error.message)];
  }
}

/// Of a stack, the figures of a row, and what is known of the function that has it: a stack cannot be selected.
async function figuresOfStack(context, frames, self) {
  const originOf = await origins(context);
  const frame = frames.find(candidate => originOf(candidate) === 'own') || frames[0];
  const {name, unresolved} = frame ? names.ofFrame(frame) : {unresolved: true};
  return [
    list([figureOf(context, self), ...otherFigures(context, self),
          ['mean size', self.allocations ? figures.bytes(self.allocated_bytes / self.allocations) : '']]),
    ...withMedians(list([]), unresolved ? null : histogramOf(context, name),
                   make('h3', {}, `All blocks of ${names.label(name)}`))];
}

/// A stack that a view shows: {title, entries: [[label, text]], frames, self}. `self` has all its figures, if it is
/// given; `frames` is null of what has no stack.
async function stackDetails(context, {title, entries, frames, self}) {
  const nodes = [make('h2', {}, title), list(entries), ...self ? await figuresOfStack(context, frames, self) : []];
  if (frames === null) return nodes;
  return [...nodes, make('h3', {}, 'Stack'), frames.length ? stackOf(frames, await origins(context)) :
    make('p', {class: 'muted'}, 'no stack was recorded')];
}

function nothing() {
  return [make('p', {class: 'muted'}, 'Select a row, a frame or a block to see its figures and its stack.')];
}

return {functionDetails, stackDetails, selectionDetails, titleOf, nothing};
})();
