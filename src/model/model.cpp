#include "model/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <new>
#include <span>

#include "tensor/dequant.h"

namespace foresay::model {
namespace {

std::string shape_text(const std::array<int64_t, 4>& ne) {
    return fmt::format("[{}, {}, {}, {}]", ne[0], ne[1], ne[2], ne[3]);
}

Result<const Architecture*> architecture_of(const gguf::File& file) {
    FORESAY_TRY(const auto name, file.string("general.architecture"));
    const Architecture* arch = find_architecture(name);
    if (arch == nullptr) {
        return error(Code::kUnsupported, fmt::format("architecture '{}' is not supported", name), file.path(),
                     fmt::format("supported: {}", fmt::join(architecture_names(), ", ")));
    }
    return arch;
}

/// The architecture's hyper-parameters, with what every one of them must keep: a layer attends or has a state.
Result<Hparams> checked_hparams(const gguf::File& file, const Architecture& arch) {
    FORESAY_TRY(Hparams h, arch.read_hparams(file));
    for (size_t layer = 0; layer < h.n_head_kv.size(); ++layer) {
        if (h.n_head_kv[layer] < 1 && !h.is_recurrent[layer]) {
            return error(Code::kBadFile, fmt::format("layer {} has no key heads", layer),
                         fmt::format("{}.attention.head_count_kv", h.arch));
        }
    }
    return h;
}

/// The file's tensor for a spec, checked; null for a missing optional one.
Result<const gguf::TensorInfo*> checked_tensor(const gguf::File& file, const WeightSpec& spec) {
    const gguf::TensorInfo* tensor = file.tensor(spec.name);
    if (tensor == nullptr) {
        if (spec.optional) {
            return nullptr;
        }
        return error(Code::kBadFile, "tensor is missing", spec.name,
                     "the file is incomplete or of another architecture");
    }
    if (tensor->ne != spec.ne) {
        return error(Code::kBadFile,
                     fmt::format("shape is {}, expected {}", shape_text(tensor->ne), shape_text(spec.ne)), spec.name);
    }
    const auto dtype = dtype_from_gguf(tensor->type);
    if (!dtype || !dtype_info(*dtype).is_weight) {
        const auto type_name = gguf_type_name(tensor->type);
        return error(Code::kUnsupported,
                     fmt::format("tensor type {} (id {}) is not supported", type_name.empty() ? "unknown" : type_name,
                                 tensor->type),
                     spec.name, "re-quantise the model to a supported type");
    }
    if (spec.use == Use::kVector && *dtype != DType::kF32) {
        // Norm weights and biases are read as F32; other float types are widened when loaded.
        if (*dtype != DType::kF16 && *dtype != DType::kBF16) {
            return error(Code::kUnsupported, fmt::format("a vector of type {} is not supported", dtype_name(*dtype)),
                         spec.name);
        }
    }
    return tensor;
}

/// Of a NextN block alone: its layer's tensors and its own (draft-models.md, 6.2).
std::vector<WeightSpec> nextn_specs(const Architecture& arch, const Hparams& h) {
    const std::string prefix = fmt::format("blk.{}.", h.n_layer - 1);
    const int64_t E = h.n_embd;
    std::vector<WeightSpec> specs{{prefix + "nextn.eh_proj.weight", {2 * E, E, 1, 1}, Use::kMulMat, false},
                                  {prefix + "nextn.enorm.weight", {E, 1, 1, 1}, Use::kVector, false},
                                  {prefix + "nextn.hnorm.weight", {E, 1, 1, 1}, Use::kVector, false},
                                  {prefix + "nextn.embed_tokens.weight", {E, h.n_vocab, 1, 1}, Use::kEmbedding, true},
                                  {prefix + "nextn.shared_head_head.weight", {E, h.n_vocab, 1, 1}, Use::kMulMat, true},
                                  {prefix + "nextn.shared_head_norm.weight", {E, 1, 1, 1}, Use::kVector, true}};
    for (WeightSpec& spec : arch.weights(h)) {
        if (spec.name.rfind(prefix, 0) == 0) {
            specs.push_back(std::move(spec));
        }
    }
    return specs;
}

}  // namespace

const graph::Storage* Model::weight(std::string_view name) const {
    const auto found = weights_.find(std::string(name));
    if (found != weights_.end()) {
        return found->second.get();
    }
    return base_ == nullptr ? nullptr : base_->weight(name);
}

size_t Model::weight_bytes() const {
    size_t total = 0;
    for (const auto& [name, storage] : weights_) {
        total += storage->bytes;
    }
    return total;
}

std::string Model::description() const {
    const auto size = static_cast<double>(n_params_);
    const std::string params = size >= 1e9 ? fmt::format("{:.1f}B", size / 1e9) : fmt::format("{:.0f}M", size / 1e6);
    // file_type: gguf-and-quants.md, 1.4.
    static const std::unordered_map<uint32_t, std::string_view> kFileTypes = {
        {0, "F32"},           {1, "F16"},           {2, "Q4_0"},           {3, "Q4_1"},          {7, "Q8_0"},
        {8, "Q5_0"},          {9, "Q5_1"},          {10, "Q2_K"},          {11, "Q3_K - Small"}, {12, "Q3_K - Medium"},
        {13, "Q3_K - Large"}, {14, "Q4_K - Small"}, {15, "Q4_K - Medium"}, {16, "Q5_K - Small"}, {17, "Q5_K - Medium"},
        {18, "Q6_K"},         {25, "IQ4_NL"},       {30, "IQ4_XS"},        {32, "BF16"},         {38, "MXFP4"}};
    const auto type = file_->u32_or("general.file_type", UINT32_MAX);
    const auto found = kFileTypes.find(type.has_value() ? *type % 1024 : UINT32_MAX);
    return fmt::format("{} {} {}", hparams_.arch, params, found == kFileTypes.end() ? "mixed" : found->second);
}

Result<std::shared_ptr<const Model>> Model::load(const std::string& path, backend::Backend& backend,
                                                 const LoadOptions& options) {
    FORESAY_TRY(auto file, gguf::File::open(path));
    return load(std::move(file), backend, options);
}

Result<std::shared_ptr<const Model>> Model::load(std::shared_ptr<const gguf::File> opened, backend::Backend& backend,
                                                 const LoadOptions& options) {
    std::shared_ptr<Model> model(new Model);
    model->file_ = std::move(opened);
    const gguf::File& file = *model->file_;
    FORESAY_TRY(model->architecture_, architecture_of(file));
    FORESAY_TRY(model->hparams_, checked_hparams(file, *model->architecture_));
    std::vector<WeightSpec> specs;
    if (options.nextn_base != nullptr) {
        FORESAY_CHECK_OK(append_nextn_layer(file, model->hparams_));
        specs = nextn_specs(*model->architecture_, model->hparams_);
        const Hparams& base = options.nextn_base->hparams();
        if (base.arch != model->hparams_.arch || base.n_embd != model->hparams_.n_embd ||
            base.n_vocab != model->hparams_.n_vocab) {
            return error(Code::kBadFile,
                         fmt::format("a NextN block of a {} model {} wide with {} tokens doesn't belong to a {} model "
                                     "{} wide with {}",
                                     model->hparams_.arch, model->hparams_.n_embd, model->hparams_.n_vocab, base.arch,
                                     base.n_embd, base.n_vocab),
                         file.path());
        }
        model->base_ = options.nextn_base;
    } else {
        specs = model->architecture_->weights(model->hparams_);
    }
    for (const WeightSpec& spec : specs) {
        FORESAY_CHECK_OK(checked_tensor(file, spec));
    }
    FORESAY_TRY(model->vocab_, vocab::Vocab::load(file));
    if (model->vocab_->n_tokens() > model->hparams_.n_vocab) {
        return error(Code::kBadFile,
                     fmt::format("{} tokens but embeddings for {}", model->vocab_->n_tokens(), model->hparams_.n_vocab),
                     file.path());
    }

    size_t total_bytes = 0;
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        total_bytes += tensor.bytes;
    }
    // A model without an own head multiplies by its embedding table.
    const bool tied = file.tensor("output.weight") == nullptr;
    size_t done_bytes = 0;
    for (const WeightSpec& spec : specs) {
        FORESAY_TRY(const gguf::TensorInfo* tensor, checked_tensor(file, spec));
        if (tensor == nullptr) {
            continue;
        }
        backend::WeightRequest request;
        request.name = spec.name;
        request.dtype = *dtype_from_gguf(tensor->type);
        request.ne = tensor->ne;
        request.bytes = tensor->data;
        request.keep_mapped = true;  // the File lives as long as the Model
        request.used_by_get_rows = spec.use == Use::kEmbedding || spec.use == Use::kRows;
        request.used_by_mul_mat = spec.use == Use::kMulMat || (spec.use == Use::kEmbedding && tied);
        request.consumed = [&file](std::span<const std::byte> bytes) { file.drop_pages(bytes); };
        std::vector<float> widened;
        try {
            if (spec.use == Use::kVector && request.dtype != DType::kF32) {
                const int64_t n = tensor->ne[0] * tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
                widened.resize(static_cast<size_t>(n));
                dequantize_row(request.dtype, tensor->data.data(), widened.data(), n);
                request.dtype = DType::kF32;
                request.bytes = std::as_bytes(std::span(widened));
                request.keep_mapped = false;
            }
            auto storage = backend.load_weight(request);
            if (!storage.has_value()) {
                return std::move(storage).error().context(spec.name);
            }
            model->weights_.emplace(spec.name, std::move(*storage));
        } catch (const std::bad_alloc&) {
            return error(Code::kOutOfMemory,
                         fmt::format("no memory for {} bytes of weights ({} of {} loaded)", tensor->bytes, done_bytes,
                                     total_bytes),
                         spec.name);
        }
        model->n_params_ += static_cast<uint64_t>(tensor->ne[0] * tensor->ne[1] * tensor->ne[2] * tensor->ne[3]);
        done_bytes += tensor->bytes;
        if (options.progress) {
            options.progress(static_cast<float>(done_bytes) / static_cast<float>(total_bytes));
        }
    }
    return model;
}

std::vector<std::string> unsupported_reasons(const gguf::File& file, bool nextn) {
    std::vector<std::string> reasons;
    const auto arch = architecture_of(file);
    if (!arch.has_value()) {
        reasons.push_back(arch.error().to_string());
        return reasons;
    }
    auto hparams = checked_hparams(file, **arch);
    if (!hparams.has_value()) {
        reasons.push_back(hparams.error().to_string());
        return reasons;
    }
    if (nextn) {
        if (const Status added = append_nextn_layer(file, *hparams); !added.has_value()) {
            reasons.push_back(added.error().to_string());
            return reasons;
        }
    }
    for (const WeightSpec& spec : nextn ? nextn_specs(**arch, *hparams) : (*arch)->weights(*hparams)) {
        const auto tensor = checked_tensor(file, spec);
        if (!tensor.has_value()) {
            reasons.push_back(tensor.error().to_string());
        }
    }
    return reasons;
}

}  // namespace foresay::model
