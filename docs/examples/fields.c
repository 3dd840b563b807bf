// The extension module that docs/examples/orders.py imports: fields.split("a;b") returns ["a", "b"]. It never frees
// the fields, unless it is compiled with -DFIXED.
//
//   gcc -g -O1 -shared -fPIC $(python3-config --includes) fields.c -o fields.so
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

static PyObject* split(PyObject* self, PyObject* arguments) {
  (void)self;
  const char* line;
  if (!PyArg_ParseTuple(arguments, "s", &line)) return NULL;
  PyObject* fields = PyList_New(0);
  while (fields != NULL) {
    const char* end = strchr(line, ';');
    const Py_ssize_t length = end != NULL ? end - line : (Py_ssize_t)strlen(line);
    PyObject* field = PyUnicode_FromStringAndSize(line, length);
    if (field == NULL || PyList_Append(fields, field) != 0) {
      Py_XDECREF(field);
      Py_DECREF(fields);
      return NULL;
    }
#ifdef FIXED
    Py_DECREF(field);  // the list has its own reference
#endif
    if (end == NULL) break;
    line = end + 1;
  }
  return fields;
}

static PyMethodDef functions[] = {
    {"split", split, METH_VARARGS, "split(line): the fields of a line, which ';' separates"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fields", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_fields(void) { return PyModule_Create(&module); }
