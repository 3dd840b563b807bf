// The list of views, the view that is chosen, and the search in its rows.
'use strict';

const viewPanel = (() => {
const {make, button} = elements;
const at = id => document.getElementById(id);
const VIEWS = [viewSummary, viewFlame, viewTable, viewTree, viewLeaks, viewBlocks, viewLifetimes, viewThreads,
               viewSource];
const MORE_VIEWS = [viewResident, viewCompare, viewProcesses];
/// The command that answers a view's first question, for files without the answer.
const COMMANDS = {summary: 'report', flame: 'tree', table: 'report', tree: 'tree', leaks: 'leaks', blocks: 'blocks',
                  lifetimes: 'histogram', threads: 'threads', source: 'source', resident: 'rss', compare: 'diff',
                  processes: 'report'};
/// The question, besides `report`, without whose answer a view shows nothing.
const FIRST = {summary: 'function_rows', flame: 'tree', table: 'function_rows', tree: 'tree'};
const SEARCH_HELP = 'The text is found as it is typed, in upper and lower case if it has no capital letter. Enter ' +
  'selects the blocks with functions whose names contain it. + filter takes regular expressions, too';
let shown = null;   // what the view returned: filter, csv, picture, command
let turn = 0;

const available = () => [...VIEWS, viewResident, viewCompare,
                         ...(recording.traces().length > 1 ? [viewProcesses] : [])];
const viewOf = key => available().find(view => view.key === key) || viewSummary;

/// The metrics on which a view depends: those that it lists, or all.
function metricsOf(state) {
  const view = viewOf(state.view);
  return view.metrics ? view.metrics(state) : Object.keys(figures.metrics);
}
/// The metric of which the view is: the first that it has, if it does not have the selected one; null: none.
function metricOf(state) {
  const possible = metricsOf(state);
  return possible.includes(state.metric) ? state.metric : possible[0] || null;
}

function drawList() {
  const {view} = selection.now();
  const list = available();
  const menu = make('select', {id: 'view-menu', 'aria-label': 'View'}, ...list.map(({key, title}) =>
    make('option', {value: key, selected: key === view}, title)));
  menu.addEventListener('change', () => selection.change({view: menu.value}));
  elements.replaceContent(at('views'), menu, make('ul', {}, ...list.map(({key, title}, i) => make('li',
    {class: MORE_VIEWS.some(other => other.key === key) ? 'apart' : ''},
    make('a', {href: selection.link({view: key}), 'aria-current': key === view ? 'page' : null}, title,
         VIEWS[i] ? make('kbd', {}, String(i + 1)) : null)))));
}

/// Whether newer figures would take away what the user is at: they wait, and the page says so. `hasEnded`: as update().
function areWaiting(hasEnded) {
  const panel = at('view-panel'), then = turn;
  if (!interaction.isIn(panel)) return false;
  interaction.afterwards(panel, () => { if (then === turn) update(hasEnded); });
  if (!panel.querySelector('.held'))
    panel.querySelector('.saves').before(make('span', {class: 'held muted', role: 'status', title: 'They are shown ' +
      'when no text of the view is selected, and the mouse is not pressed there'}, 'new figures wait'));
  return true;
}

/// A running program has gone on, or has ended: newer figures of the view that is shown.
async function update(hasEnded = false) {
  if (!areWaiting(hasEnded)) await refresh(!hasEnded, true);
}

/// `isUpdate`: the same view, of a running program that has gone on. `mayWait`: the user has not asked for it.
async function refresh(isUpdate = false, mayWait = isUpdate) {
  const mine = ++turn;
  const selected = selection.now();
  const view = viewOf(selected.view);
  const metric = metricOf(selected);
  const state = metric === null ? selected : {...selected, metric};
  const host = at('view');
  /// What is shown stays.
  const isLeft = () => {
    if (mine !== turn) return true;
    if (!mayWait || !areWaiting(!isUpdate)) return false;
    host.dataset.drawn = String(mine);
    return true;
  };
  viewState.begin(selected);
  host.dataset.asked = String(mine);
  const context = recording.contextOf(state);
  const head = headOf(view, context);
  // Name and command are those of the view that is awaited, and what is left of the one before is dimmed. While a
  // program runs, the same view with its earlier figures stays.
  if (!isUpdate) {
    drawHead(view, head, mayWait);
    statusLine.wait(head, false);
  }
  // A search is in the rows of one view, and a file that was not written has those of one.
  if (shown && shown.key !== view.key) {
    at('search').value = '';
    if (written === null) feedback.clear(feedback.SAVED);
  }
  context.searched = at('search').value.trim();
  context.isUpdate = mayWait;
  const stopProgress = feedback.showProgress(COMMANDS[view.key], () => mine === turn, isUpdate, () => {
    if (isPartlyDrawn) return;
    if (!isUpdate) statusLine.wait(head, true);
    host.classList.add('waiting');
    host.classList.toggle('stale', host.dataset.view !== view.key);
  });
  let result, isPartlyDrawn = false;
  try {
    result = view.isOfBlocks && recording.withMappings(state) ? {...head,
      node: elements.empty(`${view.title} has figures of heap blocks only. Remove the filter "kind".`)} :
      {...head, ...await view.show(context)};
    if (isLeft()) return;
    if (result.later) {
      // What is known already is shown, until everything is; but figures that are shown are replaced at once.
      if (!isUpdate) {
        draw(view, result);
        isPartlyDrawn = true;
        host.classList.remove('waiting', 'stale');
      }
      result = {...head, ...await result.later};
      if (isLeft()) return;
    }
    if (selected.metric === 'pinned' && !view.hasPinned)
      result.shown = [result.shown, 'without pinned bytes: see the table, the tree or the flame graph']
        .filter(Boolean).join('; ');
    const drawSentence = report => { if (mine === turn) statusLine.draw(state, report, result, mayWait); };
    drawSentence(metric === null ? undefined : null);
    if (metric !== null) context.report.then(drawSentence, () => drawSentence(undefined));
    feedback.clear();
  } catch (error) {
    if (isLeft()) return;
    const [words, more, name, positional] = head.command || [COMMANDS[view.key], []];
    result = error instanceof ask.NotInFile ? {...head, node: viewParts.needsServer(words, more, positional ||
      (name ? [context.tracePath, name] : undefined), head.selects)} :
      {...head, node: make('p', {class: 'error', role: 'alert'}, error.message)};
    statusLine.draw(state, undefined, head);
    feedback.clear();
    // It is announced once.
    if (isUpdate && host.textContent === error.message) {
      host.dataset.drawn = String(mine);
      return;
    }
  } finally {
    stopProgress();
    if (mine === turn) host.classList.remove('waiting', 'stale');
  }
  const isKnown = draw(view, result) && isUpdate;
  shown.wasFiltered = context.searched !== '';   // the field may have been emptied meanwhile
  applySearch(isKnown);
  host.dataset.drawn = String(mine);   // equal to `asked` when nothing is awaited
  if (!isKnown) feedback.announce(`${view.title}. ${at('sentence').textContent}`);
}

/// What a view's name and command are, before its answer is there.
const headOf = (view, context) => view.head ? view.head(context) : {command: [COMMANDS[view.key], []]};

/// `noSearch`: why the rows of the view cannot be searched. A disabled field has no tooltip on a touch screen, and a
/// screen reader passes it over. `isSame`: the view is shown already. A list that may be open stays then. So does, in
/// each case, a field into which something is typed.
function drawHead(view, {tools, shown: said, noSearch}, isSame, ...saves) {
  const FIELDS = 'input, select', head = at('view-head'), focused = document.activeElement;
  const nameOf = tool => {
    const field = tool.matches(FIELDS) ? tool : tool.querySelector(FIELDS);
    return field && field.getAttribute('aria-label');
  };
  const isTyped = field => field.matches('input') && field.value !== field.defaultValue;
  const used = head.contains(focused) && focused.matches(FIELDS) && (isSame || isTyped(focused)) ?
    [...head.children].find(tool => tool.contains(focused)) : null;
  const stay = tool => used && nameOf(tool) === nameOf(used) ? used : tool;
  elements.replaceContent(head, make('h1', {}, view.title), ...(tools || []).map(stay),
                          make('span', {class: 'shown muted'}, said || ''),
                          make('span', {id: 'no-search', class: 'muted'}, noSearch || ''),
                          make('span', {class: 'saves'}, ...saves));
}

/// The file that is being written, as a task of feedback.showProgress(); one at a time.
let written = null;
/// `csv` returns the rows, or a promise of a Blob with their text, which may have to be read from the recording. The
/// file is that of the click, also if another view or recording is chosen until it is written.
async function saveCsv({key}, csv) {
  if (written !== null) {
    written.remark = 'Only one file is written at a time.';
    feedback.announce(`${written.text}. ${written.remark}`);
    return;
  }
  const name = recording.fileName(key + '.csv');
  written = {about: feedback.SAVED, text: `Writing ${name}`, remark: ''};
  feedback.clear(feedback.SAVED);   // an error of the file before
  const stopProgress = feedback.showProgress(COMMANDS[key], () => true, false, () => {}, written);
  try {
    const content = await csv();
    saving.save(name, 'text/csv', content instanceof Blob ? content : saving.csv(content));
    stopProgress();
    feedback.clear(feedback.SAVED);
  } catch (error) {
    stopProgress();
    feedback.fail(new Error(`${name} was not written: ${error.message}`), feedback.SAVED);
  } finally {
    written = null;
  }
}

/// Returns whether the same view was shown already.
function draw(view, result) {
  const host = at('view'), isSame = shown !== null && shown.stateNumber === viewState.number();
  shown = {...result, key: view.key, stateNumber: viewState.number()};
  const csv = result.csv ? [button('CSV', () => saveCsv(view, result.csv))] : [];
  const svg = button('SVG', () => saving.save(recording.fileName(view.key + '.svg'), 'image/svg+xml',
                                              saving.svg(result.picture ? result.picture() : at('view'))));
  at('search').disabled = Boolean(result.noSearch);
  elements.setTitle(at('search'), result.noSearch || SEARCH_HELP);
  drawHead(view, result, isSame, ...csv, svg);
  host.dataset.view = view.key;
  const place = () => {
    elements.replaceContent(host, result.node);   // sorting shows the table again
    if (result.attached) result.attached();
  };
  if (isSame) viewState.keeping(host, place);
  else place();
  return isSame;
}

/// `isKnown`: the user has not typed anything.
function applySearch(isKnown = false) {
  const text = at('search').value.trim();
  if (shown && shown.filter && (text || shown.wasFiltered)) {
    shown.wasFiltered = true;
    const count = shown.filter(text);
    if (text && Number.isFinite(count) && !isKnown) feedback.announce(`${figures.plural(count, 'row')} found`);
  }
}
/// Makes a filter of what was searched. If it is selected already, the view shows all of its rows again.
async function filterBy(text) {
  const {trace} = selection.now();
  const pattern = await recording.patternOf(text);
  if (trace === selection.now().trace && !selection.add('function', pattern)) applySearch();
}
at('search').addEventListener('input', () => applySearch());
at('search').addEventListener('keydown', event => {
  if (event.key === 'Enter') {
    const text = at('search').value.trim();
    at('search').value = '';
    at('search').blur();
    if (text) filterBy(text);
  } else if (event.key === 'Escape') {
    event.stopPropagation();
    if (at('search').value === '') at('search').blur();
    at('search').value = '';
    applySearch();
  } else if (event.key === 'ArrowDown' && shown && shown.focus) {
    shown.focus();
  } else return;
  event.preventDefault();
});

/// Zooms a flame graph that is shown already.
function zoom(frame) { if (shown && shown.zoom) shown.zoom(frame); }

/// Another recording is selected, of which nothing is known yet.
function wait() {
  at('view').dataset.asked = String(++turn);
  if (written === null) feedback.clear(feedback.SAVED);
  drawList();
  drawHead(viewOf(selection.now().view), {}, false);
  statusLine.wait({command: null}, true);
  at('view').classList.add('waiting', 'stale');
}

/// The recording cannot be read: the reason in place of its figures. The list of recordings has no need of them.
function fail(error) {
  drawList();
  const state = selection.now(), view = viewOf(state.view), host = at('view');
  if (view === viewProcesses) return refresh();
  statusLine.draw(state, undefined, {command: null});
  feedback.clear();
  const others = recording.traces().length < 2 ? [] :
    [button('Show all recordings', () => selection.change({view: 'processes'}))];
  draw(view, {node: make('div', {}, make('p', {class: 'error', role: 'alert'}, error.message), ...others)});
  host.classList.remove('waiting', 'stale');
  host.dataset.asked = host.dataset.drawn = String(++turn);
}

/// Another function is selected: most views only mark it.
function select() {
  const {asked, drawn} = at('view').dataset;
  if (shown && shown.select && asked === drawn) return shown.select();
  if (shown && shown.select === null) viewState.forget();   // another function makes another view
  refresh();
}

/// Asks the first question of a view before it is shown; it asks the same again, and shows an error.
function askFirst(state) {
  const {key} = viewOf(state.view);
  if (Object.hasOwn(FIRST, key) && state.metric !== 'pinned')
    ask.template(FIRST[key], {metric: state.metric}, selection.options()).catch(() => {});
}

return {KEYS: VIEWS.map(({key}) => key), metricsOf, metricOf, commandOf: view => COMMANDS[viewOf(view).key], drawList,
        refresh, update, wait, fail, zoom, select, askFirst};
})();
