// The answers of `heapprof source`: the lines of one file or function, or the list of files; as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/model/profile.h"
#include "analyzer/symbols/source_files.h"
#include "analyzer/views/source_costs.h"

namespace heapprof::cli {

struct SourceAnswer {
  const SourceOptions& options;
  const model::Profile& profile;
  const StackNames& names;
  const Findings& findings;
};

/// A file, with its text if that was found.
struct SourceListing {
  const views::SourceFile& file;
  std::string function;  ///< whose lines these are; empty: all of the file
  int around = 0;        ///< the line that the user named: only the lines around it are printed; 0: none
  std::optional<symbols::SourceText> text;
  std::string why_no_text;  ///< "was not found"
  std::string warning;      ///< a sentence about the text; empty: none
};

Json files_json(const SourceAnswer& answer, const std::vector<views::SourceFile>& files);
std::string files_text(const SourceAnswer& answer, const std::vector<views::SourceFile>& files);

Json listing_json(const SourceAnswer& answer, const SourceListing& listing);
std::string listing_text(const SourceAnswer& answer, const SourceListing& listing);

/// What a file is called in sentences: its path, and for a relative one its module.
std::string file_name_of(const model::Profile& profile, const views::SourceFile& file);

}  // namespace heapprof::cli
