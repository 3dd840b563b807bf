// Parts that several views have: what is shown when there is nothing to show, and choices beside their titles.
'use strict';

const viewParts = (() => {
const {make, button} = elements;

function emptySelection(text) {
  const isSelected = selection.isNarrowed();
  return elements.empty(`${text} in this ${isSelected ? 'selection. Widen the range, or remove a filter. ' :
    'recording. '}`, isSelected ? button('Select everything', () =>
    selection.change({from: '', to: '', at: '', filters: [], own: false,
                      metric: selection.now().metric === 'live' ? 'peak' : selection.now().metric})) : null);
}

/// A link to the selection with some fields changed. Its address is computed again when it is used, because a view that
/// is shown does not draw its links again when a function is selected in it.
function link(fields, properties, ...children) {
  const renew = () => { made.href = selection.link(fields); };
  const made = make('a', {href: selection.link(fields), onpointerdown: renew, onclick: renew, ...properties},
                    ...children);
  return made;
}

/// `selects`: as selection.commandLine().
function needsServer(command, more, positional, selects = 'all') {
  const {from, to, metric} = selection.now();
  const isOtherMetric = (from || to) && metric !== 'peak' && selects === 'all';
  return make('p', {class: 'empty'}, isOtherMetric ?
    'Of ranges, this file has trees and flame graphs of the metric "Live at peak" only. Ask the recording: ' :
    'This file does not contain the answer. Ask the recording: ',
              make('code', {}, recording.commandLine(command, more, positional, selects)), ', or ',
              make('code', {}, `heapprof serve ${selection.quoted(recording.path())}`));
}

/// Lists of which a question has the first rows. A button below them asks for all, until the view or the selection
/// changes; if these are too many for an answer, the view begins with the first ones again.
const listState = () => viewState.of('list');   // {isWhole}
const isWhole = () => Boolean(listState().isWhole);
function askForList(context, question) {
  if (!isWhole()) return context.ask(question, {});
  return ask.template(question, {}, context.selected, {top: '0'}).catch(error => {
    listState().isWhole = false;
    throw error;
  });
}
/// What is below such a list: how many rows are left out. `command` prints all of them.
function rest(number, noun, command) {
  if (number <= 0) return [];
  const showAll = async () => {
    listState().isWhole = true;
    await viewPanel.refresh();
    const list = document.querySelector('#view .scroller');
    if (list && document.activeElement === document.body) list.focus();
  };
  const all = ask.file ? make('code', {}, recording.commandLine(command, ['--top', '0'])) :
    button(`show all ${noun}s`, showAll);
  return [make('p', {class: 'more'}, `+${figures.plural(number, `more ${noun}`)}: `, all)];
}

function directions(shown, entries) {
  return make('div', {class: 'segments', role: 'group', 'aria-label': 'Variant of the view'},
    ...entries.map(([key, label]) => button(label, () => selection.change({shown: key}),
                                            {'aria-pressed': String(key === shown)})));
}
function choice(field, value, labels, standard) {
  const list = make('select', {'aria-label': 'Order'}, ...Object.entries(labels).map(([key, label]) =>
    make('option', {value: key, selected: key === value}, label)));
  list.addEventListener('change', () => selection.change({[field]: list.value === standard ? '' : list.value}));
  return list;
}

/// A column of a table: what share of `total` the value of a row is, with a bar.
const shareColumn = (value, total, more = {}) => ({key: 'share', label: 'Share', number: true, width: 120, value,
  csvLabel: ['share'], csv: row => [total > 0 ? value(row) / total : 0],
  cell: row => make('span', {}, elements.bar(value(row) / total), figures.percent(value(row), total)), ...more});

/// Branches with smaller percentages of everything are left out of a tree. As in questions.json.
const MIN_SHARE = '0.1';
/// The same of an answer: a file of `heapprof html` that was pruned has fewer branches. Answers have a fraction.
const shareOf = ({min_share: share}) => share === undefined ? MIN_SHARE : String(Number((share * 100).toPrecision(3)));

return {emptySelection, link, needsServer, isWhole, askForList, rest, directions, choice, shareColumn, MIN_SHARE,
        shareOf};
})();
