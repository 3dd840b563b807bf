// A recording in words: its command line, its end, what is missing in it.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/model/profile.h"

namespace heapprof::cli {

/// "exited with status 0", "ended by signal 9 (SIGKILL)", ...
std::string ending_of(const model::Profile& profile);

/// The same with the length of the recording: "exited with status 0 after 1.80 s", "recording stopped after 2.00 s,
/// the disk is full". `compacted`: a copy. Not clean.
std::string ending_after(const model::Integrity& integrity, bool compacted, std::uint64_t duration_ns);

/// The command line, quoted for a shell; the program if the command line is unknown; of several recordings, what they
/// are called. Clean UTF-8.
std::string command_of(const model::Profile& profile);

/// What was recorded and whether it is whole: "pid 804: exited with status 0 after 1.80 s. Recording complete,
/// 433,688 events."
std::string recorded_sentences(const model::Profile& profile);
/// The same without the number of events: "pid 804: exited with status 0 after 1.80 s. Recording complete"
std::string completeness_of(const model::Profile& profile);

/// What was allocated in the slice is called: "Allocated from 1.00 s to 2.50 s"; "Allocated in total" without one.
std::string allocated_words(const model::Profile& profile);

/// What the leaked blocks are called: "Live at the end", "Live when it was killed", "Live now", ...; of a slice
/// "Allocated from 1.00 s to 2.50 s and live at 2.50 s"; of its survivors "... and still live at the end".
std::string live_words(const model::Profile& profile);

/// "live at the end" of "Live at the end".
std::string lower_case(std::string sentence);

/// "recorded data is missing: 6 events lost, 4,096 bytes damaged". Only for an incomplete recording.
std::string losses_of(const model::Integrity& integrity);

/// "12 blocks", "1 mapping": `count` of what the profile's kind counts.
std::string count_of_kind(const model::Profile& profile, std::uint64_t count);

}  // namespace heapprof::cli
