// The functions for text, until all users include what they use.
#pragma once

#include "analyzer/render/escape.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/text_sink.h"
#include "analyzer/render/utf8.h"
