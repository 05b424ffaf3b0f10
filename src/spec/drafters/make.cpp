#include "spec/drafters/make.h"

#include <fmt/format.h>

#include "spec/drafters/draft_assistant.h"
#include "spec/drafters/draft_dflash.h"
#include "spec/drafters/draft_eagle3.h"
#include "spec/drafters/draft_nextn.h"

namespace foresay::spec {

Result<std::unique_ptr<Drafter>> make_feature_drafter(std::string_view type, const FeatureDrafterSetup& setup) {
    if (type == "draft-eagle3") {
        return DraftEagle3::create(setup);
    }
    if (type == "draft-dflash" || type == "draft-dspark") {
        return DraftDflash::create(type, setup);
    }
    if (type == "draft-mtp") {
        return setup.draft->hparams().arch == "gemma4-assistant" ? DraftAssistant::create(setup)
                                                                 : DraftNextn::create(setup);
    }
    return error(Code::kUnsupported, fmt::format("the speculation type '{}' is not supported yet", type));
}

}  // namespace foresay::spec
