// FORESAY_ASSERT: a programmer's mistake, checked in every build. Anything that input can cause is a Result instead.
#pragma once

namespace foresay {
[[noreturn]] void assert_failed(const char* condition, const char* file, int line);
}  // namespace foresay

#define FORESAY_ASSERT(condition) \
    (static_cast<bool>(condition) ? void(0) : ::foresay::assert_failed(#condition, __FILE__, __LINE__))

#ifdef FORESAY_DEBUG
#define FORESAY_DCHECK(condition) FORESAY_ASSERT(condition)
#else
#define FORESAY_DCHECK(condition) void(0)
#endif
