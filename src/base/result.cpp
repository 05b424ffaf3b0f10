#include "base/result.h"

namespace foresay {

std::string_view code_name(Code code) {
    switch (code) {
        case Code::kInvalidArgument:
            return "invalid_argument";
        case Code::kNotFound:
            return "not_found";
        case Code::kBadFile:
            return "bad_file";
        case Code::kUnsupported:
            return "unsupported";
        case Code::kOutOfMemory:
            return "out_of_memory";
        case Code::kCapacity:
            return "capacity";
        case Code::kCancelled:
            return "cancelled";
        case Code::kTimeout:
            return "timeout";
        case Code::kIo:
            return "io";
        case Code::kInternal:
            break;
    }
    return "internal";
}

std::string Error::to_string() const {
    std::string text = where.empty() ? message : where + ": " + message;
    if (!hint.empty()) {
        text += " (" + hint + ")";
    }
    return text;
}

Error Error::context(std::string_view outer) && {
    where = where.empty() ? std::string(outer) : std::string(outer) + ": " + where;
    return std::move(*this);
}

}  // namespace foresay
