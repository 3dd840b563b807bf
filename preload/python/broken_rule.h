// Rules of this directory that a build can break, to show that a test notices it: -DHEAPPROF_BROKEN_RULE=kPlace, for
// example. tools/campaign/python_rules.py breaks each one. In all other builds is_broken() is false.
#pragma once

namespace heapprof::python {

enum class Rule : unsigned char {
  kNone,
  kInstruction,  ///< a frame whose instruction has changed is not the remembered one
  kCodeVersion,  ///< the version is a part of a code object's identity (from 3.12 on)
  kFreedCode,    ///< the frees at its address are a part of a code object's identity (up to 3.11)
  kPlace,        ///< an evaluation is the C frame that contains its structure
  kHidden,       ///< only frames that do not execute yet are hidden
  kForkedChild,  ///< a forked child numbers code objects again
};

#ifndef HEAPPROF_BROKEN_RULE
#define HEAPPROF_BROKEN_RULE kNone
#endif

constexpr bool is_broken(Rule rule) noexcept { return rule != Rule::kNone && rule == Rule::HEAPPROF_BROKEN_RULE; }

}  // namespace heapprof::python
