// A program that is linked with libpython and refers to types of it, so that the linker copies these into the program
// (COPY relocations). The test compiles it for each library.
extern void Py_InitializeEx(int);
extern int PyRun_SimpleStringFlags(const char*, void*);
extern char PyUnicode_Type[], PyCode_Type[];

char* volatile types[2];

int main(void) {
  types[0] = PyUnicode_Type;
  types[1] = PyCode_Type;
  Py_InitializeEx(0);
  return PyRun_SimpleStringFlags("def hello(): return bytearray(777000)\nhello()\n", 0);
}
