// The search of a flame graph. Needs flame_tree.js.
'use strict';

/// Finds the frames whose function's name has the text. A search with capital letters is case-sensitive. `isRegex`:
/// the text is a regular expression. `hasFields`: `module:` and `file:` before the text search these. Returns
/// `matches`, a Uint8Array by frame; `countIn(from, to)`, the matches among these frames; `order`, the matched frames
/// by descending value; and their sum, `total`. {error}: why the expression is invalid. Null: there is nothing to
/// search for.
function flameSearch(tree, text, isRegex, hasFields) {
  const {data, count, value, fn, end} = tree;
  const [, field, wanted] = hasFields ? /^(?:(module|file):)?([^]*)$/.exec(text) : [text, undefined, text];
  if (wanted === '' && field !== 'module') return null;
  const exactCase = wanted !== wanted.toLowerCase();
  let test;
  if (isRegex) {
    try {
      const pattern = new RegExp(wanted, exactCase ? '' : 'i');
      test = name => pattern.test(name);
    } catch (error) {
      return {error: error.message};
    }
  } else if (field === 'module' && data.modules.some(m => m[0] === wanted)) {
    test = name => name === wanted;
  } else {
    const needle = exactCase ? wanted : wanted.toLowerCase();
    test = name => (exactCase ? name : name.toLowerCase()).includes(needle);
  }
  const wordOf = {module: f => data.modules[f[2]][0], file: f => data.files[f[3]]}[field] || (f => f[0]);
  const hits = data.functions.map(f => test(wordOf(f)));
  const matches = new Uint8Array(count);
  const before = new Uint32Array(count + 1);   // matches among the frames before each
  const order = [];
  let total = 0, covered = 0;
  for (let i = 0; i < count; ++i) {
    before[i + 1] = before[i];
    if (fn[i] < 0 || !hits[fn[i]]) continue;
    matches[i] = 1;
    ++before[i + 1];
    order.push(i);
    // A match inside another match is already in its sum.
    if (i >= covered) {
      total += value[i];
      covered = end[i];
    }
  }
  order.sort((a, b) => value[b] - value[a] || a - b);
  return {matches, countIn: (from, to) => before[to] - before[from], order, total};
}
