// GBNF text: classes, repetitions, and characters as they stand in a JSON string. Must not know schemas.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/gbnf.h"
#include "grammar/schema.h"

namespace foresay::grammar {

/// "[...]"; ranges not empty.
std::string gbnf_class(const std::vector<CodeRange>& ranges);
/// An atom for one character of the set as a JSON string spells it: raw where JSON allows it, else the usual escape.
/// Empty when the set is.
std::string json_char(const std::vector<CodeRange>& set);
/// The set without these.
std::vector<CodeRange> without(const std::vector<CodeRange>& set, const std::vector<CodeRange>& removed);
/// One atom: the only one, or "(a | b)". choices: not empty.
std::string choice(const std::vector<std::string>& choices);
/// "{m,n}" and its short forms; "" for exactly one. max: kUnbounded.
std::string repetition(uint32_t min, uint32_t max);

}  // namespace foresay::grammar
