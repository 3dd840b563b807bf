// The labels of a recording: what the user wrote with it, to find and group it among others.
//
// HEAPPROF_LABELS and the settings in a trace's header have them as one text (common/settings_grammar.h).
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace heapprof {

using Labels = std::map<std::string, std::string>;  ///< value by key

/// "key=value,key=value", as is_labels_setting() accepts it if the keys have no other characters than those of keys.
std::string encode_labels(const Labels& labels);

/// The labels in such a text. Whatever is not one is left out; of two with one key, the last counts. Values may have
/// any bytes.
Labels decode_labels(std::string_view text);

}  // namespace heapprof
