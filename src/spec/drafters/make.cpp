#include "spec/drafters/make.h"

#include <fmt/format.h>

#include "spec/drafters/draft_dflash.h"
#include "spec/drafters/draft_eagle3.h"

namespace foresay::spec {

Result<std::unique_ptr<Drafter>> make_feature_drafter(std::string_view type, const FeatureDrafterSetup& setup) {
    if (type == "draft-eagle3") {
        return DraftEagle3::create(setup);
    }
    if (type == "draft-dflash" || type == "draft-dspark") {
        return DraftDflash::create(type, setup);
    }
    return error(Code::kUnsupported, fmt::format("the speculation type '{}' is not supported yet", type));
}

}  // namespace foresay::spec
