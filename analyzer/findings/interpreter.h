// What belongs to the Python interpreter in a stack: its module, and the functions that only lead from one line of
// Python to the next.
#pragma once

#include <string_view>

namespace heapprof::findings {

/// Whether a module is a CPython interpreter: python3.11, libpython3.11.so.1.0.
bool is_python_interpreter(std::string_view module_path);

/// Whether a function has no symbol: its name is empty, or "[tail of ...]".
bool is_nameless(std::string_view function);

/// Whether `function` of the interpreter evaluates bytecode, or passes a call on: _PyEval_EvalFrameDefault,
/// _PyFunction_Vectorcall, PyObject_Call, slot_tp_call; or runs a file: pymain_run_file. An empty name does,
/// as does "[tail of ...]": functions without a symbol are not those that programs call.
bool leads_to_python(std::string_view function);

}  // namespace heapprof::findings
