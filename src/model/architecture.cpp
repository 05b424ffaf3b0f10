#include "model/architecture.h"

namespace foresay::model {

#define FORESAY_ARCH(name)              \
    namespace arch {                    \
    extern const Architecture k_##name; \
    }
#include "model/architectures.inc"
#undef FORESAY_ARCH

namespace {

const Architecture* const kAll[] = {
#define FORESAY_ARCH(name) &arch::k_##name,
#include "model/architectures.inc"
#undef FORESAY_ARCH
};

}  // namespace

const Architecture* find_architecture(std::string_view name) {
    for (const Architecture* arch : kAll) {
        if (arch->name == name) {
            return arch;
        }
    }
    return nullptr;
}

std::vector<std::string_view> architecture_names() {
    std::vector<std::string_view> names;
    for (const Architecture* arch : kAll) {
        names.push_back(arch->name);
    }
    return names;
}

}  // namespace foresay::model
