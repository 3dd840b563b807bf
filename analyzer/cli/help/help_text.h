// How --help is laid out, and how a wrong command line is answered, by all commands alike.
#pragma once

namespace CLI {
class App;
}

namespace heapprof::cli {

/// To be called before commands are added: they take both from `app`.
void lay_out_help(CLI::App& app);

}  // namespace heapprof::cli
