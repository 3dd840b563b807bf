// All recordings that are served, when there are several.
'use strict';

const viewProcesses = (() => {
const MAX_ASKED = 4;       // questions at a time: as many as a server computes
const MAX_WAIT_MS = 300;   // for all answers, before some are shown

/// Asks for the report of each row, and calls `onAnswer` after each answer. Other rows are not asked for when another
/// view has been chosen.
async function askReports(rows, onAnswer) {
  const unasked = [...rows];
  const askNext = async () => {
    while (unasked.length && selection.now().view === 'processes') {
      const row = unasked.shift();
      try {
        row.report = await ask.template('report', {metric: 'peak'}, row.n === 0 ? {} : {trace: String(row.n)});
      } catch (error) {
        row.error = error.message;
      }
      onAnswer();
    }
  };
  await Promise.all(Array.from({length: MAX_ASKED}, askNext));
}

function tableOf(context, rows, sort) {
  const heap = (key, label) => ({key, label, number: true, value: row => row.report ? row.report.heap[key] : null,
    text: row => row.report ? figures.bytes(row.report.heap[key]) : row.error ? '' : '\u2026',
    exact: row => row.report ? figures.exact('peak', row.report.heap[key]) : row.error});
  return rowTable.create({
    label: 'Recordings', rows, sort,
    columns: [
      {key: 'name', label: 'Recording', wide: true, value: row => row.name, search: row => row.name,
       text: row => names.oneLine(row.error ? `${row.name}: ${row.error}` : row.name)},
      {key: 'program', label: 'Program', minor: 1, value: row => row.report ? names.base(row.report.program) : '',
       text: row => row.report ? names.oneLine(names.base(row.report.program)) : ''},
      {key: 'pid', label: 'Process', number: true, minor: 2, value: row => row.report ? row.report.pid : null,
       text: row => row.report ? String(row.report.pid) : ''},
      heap('peak_bytes', 'Peak'), heap('leaked_bytes', 'Left at end'), heap('allocated_bytes', 'Allocated'),
    ],
    isSelected: row => String(row.n) === context.state.trace,
    // Times, a function and a file of the recording before would be shown as those of this one.
    onSelect: row => selection.change({trace: String(row.n), view: 'summary', from: '', to: '', at: '', before: '',
                                       after: '', name: '', file: '', ...selection.withoutMoment()}),
  });
}

async function show(context) {
  const rows = context.traces.map(trace => ({...trace}));
  const resultOf = table => ({node: table.host, csv: table.csv, filter: table.filter, focus: table.focus,
                              command: ['report', []]});
  // Rows stay where they are until all are known.
  const table = tableOf(context, rows, {});
  const all = askReports(rows, table.repaint).then(() => resultOf(tableOf(context, rows, {key: 'peak_bytes'})));
  const first = await Promise.race([all, new Promise(done => setTimeout(done, MAX_WAIT_MS))]);
  return first || {...resultOf(table), later: all};
}

return {key: 'processes', title: 'Processes', metrics: () => [], show};
})();
