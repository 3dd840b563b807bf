// The panel beside the view: the selected function, or a stack that a view shows until the selection changes; without
// them, the moment, modules and threads that are selected.
'use strict';

const detailsPanel = (() => {
const {make, button} = elements;
let stack = null, turn = 0;
let isOpened = false;   // also without details

/// Shows a stack instead of the selected function: {title, entries, frames, name}; `later` is a function that asks
/// for more, and returns a promise of elements. The entries are of a row, and those of a running program get old.
function showStack(shown) {
  const asOf = recording.isRunning() ? [['as of', figures.time(recording.info().duration_ns)]] : [];
  stack = {...shown, entries: [...shown.entries, ...asOf]};
  refresh();
}
/// Shows the selected function again. False: it was shown.
function closeStack() {
  if (!stack) return false;
  stack = null;
  refresh();
  return true;
}

/// A running program has gone on, or has ended: newer figures of what is shown. They wait while text of it is selected,
/// or the mouse is pressed in it.
function isWaiting() {
  const host = document.getElementById('details'), then = turn;
  if (!interaction.isIn(host)) return false;
  interaction.afterwards(host, () => { if (then === turn) update(); });
  return true;
}
async function update() {
  if (!isWaiting()) await refresh(false, true);
}

/// `isOther`: the selection has changed, and a stack is not shown any more. `isUpdate`: as update().
async function refresh(isOther = false, isUpdate = false) {
  if (isOther) [stack, isOpened] = [null, false];
  const mine = ++turn;
  const state = selection.now();
  const host = document.getElementById('details');
  host.dataset.asked = String(mine);
  // A control that has the focus may not be among the new ones; then the panel has it.
  const place = nodes => {
    const isInside = host.contains(document.activeElement);
    elements.replaceContent(host, ...nodes);
    if (isInside && !host.contains(document.activeElement)) host.focus({preventScroll: true});
  };
  const replace = nodes => {
    if (mine !== turn) return;
    host.dataset.drawn = String(mine);
    if (isUpdate && isWaiting()) return;
    host.classList.remove('waiting');
    place(nodes);
    // Below the view, on a narrow screen.
    if (!isUpdate && mine > 1 && (stack || state.name) && matchMedia('(max-width: 900px)').matches)
      host.scrollIntoView({block: 'nearest'});
  };
  // The same function with other figures, or another one whose name is shown at once.
  const title = stack ? stack.title : names.oneLine(state.name) || details.titleOf(state);
  document.getElementById('columns').classList.toggle('without-details', title === '' && !isOpened);
  if (title === '') return replace(details.nothing());
  if (!stack && !names.isFunction(state.name))
    return replace([make('h2', {}, state.name), make('p', {class: 'muted'}, names.noFunctions[state.name])]);
  const waiting = setTimeout(() => {
    if (isUpdate || mine !== turn) return;
    host.classList.add('waiting');
    place([make('h2', {}, title), make('p', {class: 'muted', role: 'status'}, make('span', {class: 'busy'}),
                                       'Reading the recording \u2026')]);
  }, feedback.PROGRESS_AFTER_MS);
  const context = recording.contextOf(state);
  let nodes;
  try {
    if (stack) {
      const actions = stack.name && names.isFunction(stack.name) ? [button('Figures of this function', () => {
        const {name} = stack;
        stack = null;
        if (name === selection.now().name) refresh();
        else selection.change({name});
      })] : [];
      const more = stack.later ? await stack.later() : [];
      nodes = [...await details.stackDetails(context, stack), ...more, make('p', {class: 'actions'}, ...actions)];
    } else {
      nodes = await (state.name ? details.functionDetails(context, state.name) : details.selectionDetails(context));
    }
    if (isUpdate) await context.medians;   // those of a moment ago stay until then
    replace(nodes);
  } catch (error) {
    // The selection may exclude it, for example by "Without this".
    const isAbsent = error.message.includes('no stack with costs has a function');
    // The view says that an answer is missing; these figures are those of a moment ago.
    if (isUpdate && !isAbsent) {
      if (mine === turn) host.dataset.drawn = String(mine);
      return;
    }
    replace([make('h2', {}, title), isAbsent ?
      make('p', {class: 'muted'}, 'No block of this selection was allocated in this function.') :
      make('p', {class: 'error'}, error.message)]);
  } finally {
    clearTimeout(waiting);
  }
}

/// Without details, the panel says what to select. A window that has no room for that shows it from now on, until the
/// selection changes.
function focus() {
  const host = document.getElementById('details');
  isOpened = true;
  document.getElementById('columns').classList.remove('without-details');
  host.focus();
  if (!host.querySelector('h2')) feedback.announce(host.textContent);
}

/// Another recording is chosen.
function clear() {
  stack = null;
  const host = document.getElementById('details');
  host.dataset.asked = host.dataset.drawn = String(++turn);
  host.classList.remove('waiting');
  host.replaceChildren();
}

return {showStack, closeStack, refresh, update, focus, clear};
})();
