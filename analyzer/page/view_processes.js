// All recordings that are served, when there are several.
'use strict';

const viewProcesses = (() => {
async function show(context) {
  const rows = await Promise.all(context.traces.map(async trace => {
    const options = trace.n === 0 ? {} : {trace: String(trace.n)};
    try {
      const report = await ask.template('report', {metric: 'peak'}, options);
      return {...trace, report};
    } catch (error) {
      return {...trace, error: error.message};
    }
  }));
  const heap = (key, label) => ({key, label, number: true, value: row => row.report ? row.report.heap[key] : null,
    text: row => row.report ? figures.bytes(row.report.heap[key]) : '',
    exact: row => row.report ? figures.exact('peak', row.report.heap[key]) : row.error});
  const table = rowTable.create({
    label: 'Recordings', rows, sort: {key: 'peak_bytes'},
    columns: [
      {key: 'name', label: 'Recording', wide: true, value: row => row.name, search: row => row.name,
       text: row => row.error ? `${row.name}: ${row.error}` : row.name},
      {key: 'program', label: 'Program', minor: 1, value: row => row.report ? names.base(row.report.program) : '',
       text: row => row.report ? names.base(row.report.program) : ''},
      {key: 'pid', label: 'Process', number: true, minor: 2, value: row => row.report ? row.report.pid : null,
       text: row => row.report ? String(row.report.pid) : ''},
      heap('peak_bytes', 'Peak'), heap('leaked_bytes', 'Left at end'), heap('allocated_bytes', 'Allocated'),
    ],
    isSelected: row => String(row.n) === context.state.trace,
    onSelect: row => selection.change({trace: String(row.n), view: 'summary', from: '', to: '', at: '', name: ''}),
  });
  return {node: table.host, csv: table.csv, filter: table.filter, focus: table.focus, command: ['report', []]};
}

return {key: 'processes', title: 'Processes', metrics: () => [], show};
})();
