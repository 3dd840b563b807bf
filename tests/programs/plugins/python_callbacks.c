// A library that Python loads by ctypes: C functions that call back into Python. They have symbols also where the
// interpreter has none. The additions keep their frames on the stack, and make them different functions.
int call_back(int (*callback)(int), int argument) { return callback(argument) + 1; }
int call_back_again(int (*callback)(int), int argument) { return callback(argument) + 2; }
