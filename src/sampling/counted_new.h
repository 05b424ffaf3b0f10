// The number of allocations so far in this test program. Only tests include it.
#pragma once

namespace foresay {

long n_allocations();

}  // namespace foresay
