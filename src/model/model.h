// A loaded model: hyper-parameters, vocabulary, weights in a backend's layout. Must not know sampling, slots or HTTP.
// Read next: architecture.h (what an architecture provides), graph_context.h (how it builds), runner.h (how it runs).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "gguf/gguf.h"
#include "model/architecture.h"
#include "model/hparams.h"
#include "vocab/vocab.h"

namespace foresay::model {

struct LoadOptions {
    std::function<void(float fraction)> progress;  ///< 0..1 by bytes; may be empty
    /// Only the file's NextN block, as layer n_layer of the architecture; what it lacks (embedding, norm, head) is
    /// base's. Null: the whole model.
    std::shared_ptr<const class Model> nextn_base{};
};

class Model {
  public:
    /// Loads a GGUF model into the backend. Every shape and type is checked before any weight is loaded.
    /// Errors: unsupported (architecture, tensor type by tensor name), bad_file (missing tensor, wrong shape),
    /// out_of_memory, io.
    static Result<std::shared_ptr<const Model>> load(const std::string& path, backend::Backend& backend,
                                                     const LoadOptions& options = {});
    /// The same of a file that is open already.
    static Result<std::shared_ptr<const Model>> load(std::shared_ptr<const gguf::File> file, backend::Backend& backend,
                                                     const LoadOptions& options = {});

    const Hparams& hparams() const { return hparams_; }

    const Architecture& architecture() const { return *architecture_; }

    const std::shared_ptr<const vocab::Vocab>& vocab() const { return vocab_; }

    const gguf::File& file() const { return *file_; }

    const std::shared_ptr<const gguf::File>& shared_file() const { return file_; }

    /// The weight of this name, or null when the file has none (only optional ones may be missing).
    const graph::Storage* weight(std::string_view name) const;

    uint64_t n_params() const { return n_params_; }

    size_t weight_bytes() const;
    /// "qwen2 1.5B Q4_K - Medium".
    std::string description() const;

  private:
    Model() = default;

    std::shared_ptr<const gguf::File> file_;
    std::shared_ptr<const Model> base_;  ///< of a NextN block
    std::shared_ptr<const vocab::Vocab> vocab_;
    const Architecture* architecture_ = nullptr;
    Hparams hparams_;
    std::unordered_map<std::string, std::unique_ptr<graph::Storage>> weights_;
    uint64_t n_params_ = 0;
};

/// Every reason why this file's architecture and tensors can't be computed here; empty when they can. For `inspect`.
/// nextn: of its NextN block alone, as LoadOptions::nextn_base loads it.
std::vector<std::string> unsupported_reasons(const gguf::File& file, bool nextn = false);

}  // namespace foresay::model
