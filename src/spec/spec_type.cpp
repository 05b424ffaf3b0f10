#include "spec/spec_type.h"

#include <algorithm>

namespace foresay::spec {
bool is_draft_model(SpecType type) {
    return type >= SpecType::kDraftSimple;
}

std::vector<SpecType> in_order(std::vector<SpecType> types) {
    std::sort(types.begin(), types.end());
    types.erase(std::unique(types.begin(), types.end()), types.end());
    if (!types.empty() && types.front() == SpecType::kNone) {
        types.erase(types.begin());
    }
    return types;
}

std::string join_names(std::span<const SpecType> types) {
    std::string text;
    for (const SpecType type : types) {
        text += text.empty() ? "" : ",";
        text += name_of(type);
    }
    return text.empty() ? "none" : text;
}

}  // namespace foresay::spec
