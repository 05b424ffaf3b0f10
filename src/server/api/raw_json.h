// Parts of a JSON text as they were written: a schema's properties must keep their order, which parsed values lose.
// Internal to server/api.
#pragma once

#include <cstddef>
#include <string_view>

namespace foresay::server {

/// The text of a member of an object; of equal keys the last one, as the parser has it. Empty: no such member, or no
/// object. object: valid JSON (parse_object() has accepted it or what holds it). Cost: one pass.
std::string_view raw_member(std::string_view object, std::string_view key);
/// The text of an element of an array; empty: no such element, or no array. array: valid JSON.
std::string_view raw_element(std::string_view array, size_t index);

}  // namespace foresay::server
