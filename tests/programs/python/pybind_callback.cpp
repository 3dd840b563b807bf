// An extension module that calls a Python function, for package_callbacks.py.
#include <pybind11/pybind11.h>

PYBIND11_MODULE(pybind_callback, module) {
  module.def("call", [](const pybind11::function& function) { return function(1); });
}
