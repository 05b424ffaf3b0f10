// Internal to gguf/: what a File holds. Shared by file.cpp and values.cpp only.
#pragma once

#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/mapping.h"
#include "gguf/parse.h"

namespace foresay::gguf {

struct File::Impl {
    std::vector<std::string> shard_paths;  ///< [0] is the file that was opened
    std::vector<Mapping> mappings;         ///< one per shard; none for a File over memory
    Contents contents;                     ///< of the first shard, with the tensors of all
    NameIndex tensor_names;                ///< views into contents.tensors, which no longer changes
    size_t bytes = 0;                      ///< of all shards
};

}  // namespace foresay::gguf
