// Makes the drafters that feed on the target's rows, by the name of their type.
#pragma once

#include <memory>
#include <string_view>

#include "spec/drafters/feature_drafter.h"

namespace foresay::spec {

/// type: "draft-eagle3", "draft-dflash", "draft-dspark", "draft-mtp". The pair must have passed check_pair() (pair.h).
/// Errors: unsupported (another type), bad_file, out_of_memory.
Result<std::unique_ptr<Drafter>> make_feature_drafter(std::string_view type, const FeatureDrafterSetup& setup);

}  // namespace foresay::spec
