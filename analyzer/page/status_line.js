// The last line of the page: what its figures are shares of, and the command that prints the same.
'use strict';

const statusLine = (() => {
const {make} = elements;
const at = id => document.getElementById(id);
let command = '', turn = 0;

/// The command of a view; none is shown while it is not known yet.
function drawCommand({command: of, selects}) {
  const [words, more, name, positional] = of || ['report', []];
  const trace = recording.path();
  command = of === null ? '' :
    recording.commandLine(words, more, positional || (name ? [trace, name] : undefined), selects);
  // It stays selected, where a user has selected it to be copied.
  if (at('command').textContent !== command) at('command').textContent = command;
  at('copy').disabled = command === '';
}

/// Of a view that is awaited: its command at once, and in place of the sentence about the view before, once `isLong`,
/// that the recording is read.
function wait(head, isLong) {
  ++turn;
  drawCommand(head);
  at('sentence').classList.add('waiting');
  if (isLong) at('sentence').replaceChildren('Reading the recording \u2026');
}

/// Of what the view `result` shows. `report`: null before its answer has arrived, undefined without one. `isUpdate`:
/// the figures are newer ones of a running program. Then a sentence in which text is selected is drawn afterwards.
function draw(state, report, result, isUpdate = false) {
  const mine = ++turn;
  drawCommand(result);
  const place = at('sentence');
  if (isUpdate && interaction.isIn(place))
    return interaction.afterwards(place, () => { if (mine === turn) draw(state, report, result); });
  at('sentence').classList.toggle('waiting', report === null);
  if (report === undefined) at('sentence').replaceChildren(...result.sentence || []);
  if (!report) return;
  if (state.metric === 'pinned') {
    pinned.sentence(recording.contextOf(state)).then(nodes => {
      if (mine === turn) at('sentence').replaceChildren(...nodes);
    }, () => { if (mine === turn) at('sentence').replaceChildren(); });
    return;
  }
  const about = figures.metrics[state.metric];
  const {bytes, blocks} = report.total;
  const text = about.unit === 'count' ? `${figures.count(blocks)}` : figures.bytes(bytes);
  const rest = about.unit === 'count' ? ` ${about.said}, ${figures.bytes(bytes)}` :
    ` in ${figures.plural(blocks, state.metric === 'allocated' ? 'allocation' : 'block')}` +
    (state.metric === 'peak' ? ` at ${figures.time(report.heap.peak_time_ns)}` :
      state.metric === 'live' ? ` at ${state.at ? recording.timeText(state.at) : 'the end'}` :
        state.metric === 'allocated' ? '' : ` ${recording.said(state.metric, state)}`);
  at('sentence').replaceChildren(selection.isNarrowed() ? 'Selection: ' : 'Whole recording: ', make('b', {}, text),
                                 rest);
  // What a range leaves is no part of what the recording leaves.
  if (!selection.isNarrowed() || (state.metric === 'leaked' && (state.from || state.to))) return;
  // Of the selected kind: mappings are no part of the heap.
  const {trace, kind = ''} = selection.options(state, true);
  const ofKind = {mmap: ' of the mappings', all: ' of heap and mappings'}[kind] || '';
  ask.template('report', {metric: state.metric === 'live' ? 'peak' : state.metric}, {trace, kind}).then(whole => {
    if (mine !== turn) return;
    const [part, all] = about.unit === 'count' ? [blocks, whole.total.blocks] : [bytes, whole.total.bytes];
    at('sentence').append(' \u00b7 ', make('b', {}, figures.percent(part, all)), state.metric === 'live' ?
      ` of the peak${ofKind}` : `${ofKind} of the whole recording`);
  }, () => {});
}

/// By key, also while the button is disabled.
function copy() {
  if (command) feedback.copy(command, at('copy'));
  else feedback.announce('The command of this view is not known yet.');
}
at('copy').addEventListener('click', copy);

return {draw, wait, copy, command: () => command};
})();
