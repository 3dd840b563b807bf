// The timeline above the views: asks for its figures, and makes selections of what is dragged and clicked.
'use strict';

const timeline = (() => {
const {make, button} = elements;
const at = id => document.getElementById(id);
let chart = null, turn = 0;

const duration = () => recording.info().duration_ns;

/// A file has the answers for ten equal ranges: the one with the middle of a range.
function tenth(ns) {
  const number = Math.min(9, Math.max(0, Math.floor(10 * ns / duration())));
  return {from: `${10 * number}%`, to: `${10 * number + 10}%`, at: ''};
}

/// A file has answers for the peak and for some marks: the nearest of these moments that is near a time, or null.
const NEAR = 0.01;   // of the duration
function storedMoment(ns) {
  const {peak, marks} = chart.data();
  const distance = time => Math.abs(time - ns);
  const [nearest = null] = [...peak ? [peak.time_ns] : [], ...marks.map(({time_ns: time}) => time)]
    .filter(time => distance(time) <= NEAR * duration() && ask.hasMoment(`${time}ns`))
    .sort((a, b) => distance(a) - distance(b));
  return nearest === null ? null : `${nearest}ns`;
}

function changeTo(moment) {
  const isPinned = selection.now().metric === 'pinned' && !ask.file;
  return selection.change({at: moment, from: '', to: '', metric: isPinned ? 'pinned' : 'live'});
}
/// Selects the moment of a click. A file of `heapprof html` has few moments: there, the nearest one or a tenth of the
/// time is selected, as the selection bar shows.
function selectMoment(ns) {
  if (!ask.file) return changeTo(selection.seconds(ns, duration()));
  const moment = storedMoment(ns);
  if (moment === null) return selection.change({...tenth(ns), ...selection.withoutMoment()});
  return changeTo(moment);
}

/// Of a mark, or the peak, whose moment is not in the file. A moment near it has other figures, so none is selected in
/// its place.
const NOT_IN_FILE = 'this file has no figures of this moment';
const isMissing = ns => ask.file !== null && !ask.hasMoment(`${ns}ns`);
/// Selects the moment of `what`, which commands call `text`.
function selectMomentOf(what, ns, text) {
  if (!isMissing(ns)) return changeTo(ask.file ? `${ns}ns` : text);
  return chart.say(`${what} at ${figures.time(ns)}: ${NOT_IN_FILE}. Ask the recording: `,
                   make('code', {}, recording.commandLine('report', ['--live-at', text], [], 'filters')), ', or ',
                   make('code', {}, `heapprof serve ${selection.quoted(recording.path())}`));
}

/// Whether the peak of the chart, that of the blocks that filters select, is the moment that commands call so: that of
/// all blocks of the kind.
const hasPeakOfAll = () => selection.now().filters.every(({option}) => ['kind', 'own'].includes(option));

/// The chart is empty until refresh() has figures.
function create() {
  chart = timeChart.create(at('timeline'), {
    onRange(from, to) {
      const range = to - from;
      const fields = {...ask.file ? tenth((from + to) / 2) :
        {from: selection.seconds(from, range), to: selection.seconds(to, range), at: ''},
                      ...selection.withoutMoment()};
      selection.change(fields);
      // What was dragged stays drawn until the selection changes. It does not if it is that of a file already.
      if (selection.link(fields) === selection.link({})) mark();
    },
    /// Times are rounded, so one near the peak can be before the allocation that reached it.
    onPeak() {
      const {time_ns: ns} = chart.data().peak;
      selectMomentOf('Peak', ns, hasPeakOfAll() ? 'peak' : `${ns}ns`);
    },
    onMark: ({time_ns: ns, text}) => selectMomentOf(`Mark "${names.oneLine(text)}"`, ns, `${ns}ns`),
    remarkOfMark: ({time_ns: ns}) => isMissing(ns) ? NOT_IN_FILE : '',
    onMoment: selectMoment,
    onPin(ns) {
      const {before, after} = selection.now();
      const text = selection.seconds(ns, duration());
      if (!before || after) selection.change({before: text, after: ''});
      else {
        const [first, second] = [before, text].sort((a, b) => a - b);
        selection.change({before: first, after: second, view: 'compare'});
      }
    },
    onClear: () => selection.change({from: '', to: '', at: '', ...selection.withoutMoment()}),
    async onSite(site) {
      const {series, trace} = selection.now();
      if (series === 'module') selection.add('module', selection.exactFile(site.label));
      // A name can be that of several threads, or end in a number.
      else if (series === 'thread')
        selection.add('thread', (/^tid (\d+)$/.exec(site.detail) || [null, site.label])[1]);
      else {
        const name = await fullName(site);
        if (trace === selection.now().trace) selection.change({name});
      }
    },
    tools: [make('span', {class: 'chart-saves'},
                 button('CSV', () => saving.save(recording.fileName('timeline.csv'), 'text/csv',
                                                 saving.csv(chart.csv())),
                        {title: 'Save the timeline as CSV'}),
                 button('SVG', () => saving.save(recording.fileName('timeline.svg'), 'image/svg+xml',
                                                 saving.svg(chart.picture())), {title: 'Save the timeline as SVG'})),
    make('select', {'aria-label': 'Areas of the timeline', onchange: event =>
      selection.change({series: event.target.value})}, ...[['', 'by call site'], ['module', 'by module'],
        ['thread', 'by thread']].map(([value, text]) => make('option', {value}, text)))],
  });
  clear('');
}
/// The whole name of a site of the timeline, whose label is short.
async function fullName(site) {
  const {rows} = await recording.functionRows().catch(() => ({rows: []}));
  const found = rows.find(({name}) => name === site.name) ||
    rows.find(({name}) => names.short(name) === names.short(site.label));
  return found ? found.name : site.label;
}

/// The answer with the figures of the chart.
function asked() {
  const selected = selection.options(selection.now(), true);
  delete selected['only-own'];
  return ask.template('timeline', {}, {}, {...selected, by: selection.now().series});
}

const hasFigures = () => chart.data().note === undefined;

/// `isUpdate`: of a running program that has gone on; then the chart is not dimmed.
async function refresh(isUpdate = false) {
  const mine = ++turn;
  at('timeline').inert = false;
  if (!isUpdate) {
    at('timeline').classList.add('waiting');
    if (!hasFigures()) chart.showEmpty(duration(), 'Reading live memory over time \u2026');
  }
  try {
    const data = await asked();
    if (mine !== turn) return;
    chart.show(data);
    mark();
    showPause(data);
  } catch (error) {
    if (mine !== turn) return;
    // Figures that are there are of another selection, or of the same one some moments ago.
    if (isUpdate && hasFigures()) feedback.fail(error);
    else chart.showEmpty(duration(), error.message, true);
  } finally {
    if (mine === turn) at('timeline').classList.remove('waiting');
  }
}

/// No recording is known yet, or another one is chosen: a text in place of figures, and no moment can be selected.
function clear(text) {
  ++turn;
  at('timeline').classList.remove('waiting');
  at('timeline').inert = true;   // its times are those of no recording
  chart.showEmpty(0, text);
}

/// A pause that lasts until now is the state of the recording, which `heapprof control` may have changed.
function showPause({pauses, duration_ns: duration}) {
  const paused = pauses.length > 0 && pauses.at(-1).to_ns >= duration;
  if (paused === recording.isPaused()) return;
  recording.setPaused(paused);
  selectionBar.draw();
}

/// Shows the selection. What was said about another one is of no interest any more.
function mark() {
  chart.say();
  const {from, to, at: moment, before, after, filters} = selection.now();
  const {peak, marks} = chart.data();
  const ns = text => {
    if (!text) return null;
    if (text === 'peak' && hasPeakOfAll()) return peak ? peak.time_ns : null;
    // The report of the recording has the peak of the heap.
    if (text === 'peak' && filters.some(({option}) => option === 'kind')) return null;
    const value = selection.nanosecondsOf(text, recording.info(), marks);
    return Number.isFinite(value) ? value : null;
  };
  // As they are compared: the earlier one is the first.
  const pins = [ns(before), ns(after)].filter(pin => pin !== null).sort((a, b) => a - b);
  chart.mark({from: ns(from), to: ns(to), at: ns(moment), pins});
}

/// Shows which areas are chosen.
function setSeries(series) {
  const list = at('timeline').querySelector('select');
  if (list) list.value = series;
}

/// The marks of the recording; null before they are known.
const marks = () => hasFigures() ? chart.data().marks : null;

return {create, refresh, clear, mark, setSeries, marks, asked};
})();
