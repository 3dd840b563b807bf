#include "analyzer/findings/interpreter.h"

#include <algorithm>
#include <array>

#include "analyzer/symbols/tail_call_name.h"

namespace heapprof::findings {
namespace {

/// "3", "3.11", "3.11d": what follows "python" in names of files; `rest` gets what follows it.
bool is_version_3(std::string_view text, std::string_view& rest) {
  if (!text.starts_with('3')) return false;
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  rest = text.substr(end);
  return true;
}

}  // namespace

bool is_python_interpreter(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  std::string_view file = path.substr(path.rfind('/') + 1);
  const bool is_library = file.starts_with("lib");
  if (is_library) file.remove_prefix(3);
  constexpr std::string_view kPython = "python";
  if (!file.starts_with(kPython)) return false;
  file.remove_prefix(kPython.size());
  std::string_view rest;
  if (!is_version_3(file, rest)) return false;
  // Letters of a build: d, m, t. The "." before "so" was taken as a part of the version.
  rest.remove_prefix(std::min(rest.find_first_not_of("dmtu."), rest.size()));
  return is_library ? rest.starts_with("so") : rest.empty();
}

bool is_nameless(std::string_view function) {
  return function.empty() || function.starts_with(symbols::kTailCallPrefix);
}

bool leads_to_python(std::string_view function) {
  if (is_nameless(function)) return true;
  function = function.substr(0, function.find('.'));  // _PyEval_EvalFrameDefault.cold
  static constexpr std::array<std::string_view, 12> kExact = {
      "run_mod",           "run_eval_code_obj",      "_PyObject_MakeTpCall", "PyEval_EvalCode",
      "PyEval_EvalCodeEx", "PyEval_EvalFrame",       "PyEval_EvalFrameEx",   "call_function",
      "do_call_core",      "function_code_fastcall", "object_vacall",        "PyVectorcall_Call"};
  static constexpr std::array<std::string_view, 15> kPrefixes = {"_PyEval_",
                                                                 "PyObject_Call",
                                                                 "_PyObject_Call",
                                                                 "_PyFunction_",
                                                                 "PyObject_Vectorcall",
                                                                 "_PyObject_Vectorcall",
                                                                 "slot_tp_",
                                                                 "_PyVectorcall",
                                                                 "vectorcall_",
                                                                 "_PyRun_",
                                                                 "PyRun_",
                                                                 "pyrun_",
                                                                 "pymain_run_",
                                                                 "Py_RunMain",
                                                                 "_PyObject_FastCall"};
  return std::ranges::find(kExact, function) != kExact.end() ||
         std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return function.starts_with(prefix); }) ||
         function.find("_vectorcall") != std::string_view::npos;
}

}  // namespace heapprof::findings
