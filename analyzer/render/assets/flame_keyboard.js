// The keys of a flame graph. Needs flame_layout.js.
'use strict';

/// `shown`: what the graph shows. `svg`: its frames. `page`, `input`: the graph with its controls, and its search
/// field. `isPart`: whether it is a part of a page. `actions`: functions of flameGraph().
function flameKeyboard(tree, shown, {svg, page, input, isPart}, actions) {

/// The frame to which an arrow leads: "out", "in", "left" or "right"; -1: there is none.
function neighbour(way) {
  const {layout, zoomed, current} = shown;
  const here = layout.boxOf(current) ? current : zoomed;
  if (way === 'out') return tree.parent[here];
  if (way === 'in') return here + 1 < tree.end[here] && layout.boxOf(here + 1) ? here + 1 : -1;
  const row = (layout.rows[tree.depth[here]] || []).filter(box => box.n === 0);
  const at = row.findIndex(box => box.i === here);
  const to = row[at + (way === 'right' ? 1 : -1)];
  return to ? to.i : -1;
}

svg.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const {flames} = shown;
  const ways = {ArrowLeft: 'left', ArrowRight: 'right',
                ArrowUp: flames ? 'in' : 'out', ArrowDown: flames ? 'out' : 'in'};
  if (ways[event.key]) {
    const to = neighbour(ways[event.key]);
    if (to >= 0) actions.select(to);
  } else if (event.key === 'Enter' || event.key === ' ') {
    const i = shown.current;
    actions.choose(i);
    actions.select(i);
  } else return;
  event.preventDefault();
});

// In a page these keys act where the graph has the focus; Escape then undoes the page's steps where there is no step
// of the graph to undo.
(isPart ? page : document).addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'Escape') {
    if (isPart && shown.zoomed === 0) return;
    if (event.target !== svg) actions.hideTip();
    // The page's own field ends its search.
    if (!isPart && input.value !== '') actions.endSearch();
    else if (event.target === input) svg.focus();
    else actions.zoom(Math.max(tree.parent[shown.zoomed], 0));
  } else if (event.target === input) {
    if (event.key === 'Enter') actions.nextMatch(event.shiftKey ? -1 : 1);
    else return;
  } else if (event.key === '/' && !isPart) {   // a page has its own field
    input.focus();
    input.select();
  } else if (event.key === 'Home') actions.zoom(0);
  else if (event.key === 'f') actions.setFlames(!shown.flames);
  else if (event.key === 'n' || event.key === 'N') actions.nextMatch(event.key === 'n' ? 1 : -1);
  else return;
  event.preventDefault();
  if (isPart) event.stopPropagation();
});
}
