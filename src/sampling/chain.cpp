// Sampler: puts the steps in order, draws by Gumbel-max with shared noise (sampling.md 3, 8 and 11.1) and hands out the
// candidates that verification judges. The steps are in files of their own; see steps.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/assert.h"
#include "grammar/grammar.h"
#include "sampling/budget.h"
#include "sampling/constraint.h"
#include "sampling/math.h"
#include "sampling/steps.h"

namespace foresay::sampling {

constexpr uint32_t kRandomSeed = 4294967295U;

struct Sampler::Impl {
    struct Link {
        std::string name;
        std::unique_ptr<Step> step;  ///< null: neutral, listed for describe() only
    };

    Params params;
    std::shared_ptr<const vocab::Vocab> vocab;
    uint32_t seed = 0;
    std::vector<Edit> bias;  ///< ascending by id
    std::vector<Link> chain;
    Row row;
    std::unique_ptr<Constraint> constraint;  ///< null: no grammar
    std::unique_ptr<Budget> budget;          ///< null: no limit on thinking
    std::vector<float> legal_logits;         ///< of the second pass under a grammar
    Status status = ok();
    bool has_draw = false;  ///< row holds the candidates of a draw that accept() hasn't seen yet

    std::unique_ptr<Step> make_step(std::string_view name) const;
    void build_bias();
    void build_chain();
    TokenId draw_from(std::span<const float> logits, DrawKey key);
    TokenId draw_legal(std::span<const float> logits, DrawKey key);
    TokenId select(DrawKey key);
    TokenId forced();
};

namespace {

TokenId first_largest(std::span<const float> logits) {
    size_t best = 0;
    for (size_t i = 1; i < logits.size(); ++i) {
        // Negated, so that a NaN in front gives way to any number.
        if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) {
            best = i;
        }
    }
    return static_cast<TokenId>(best);
}

}  // namespace

std::unique_ptr<Step> Sampler::Impl::make_step(std::string_view name) const {
    if (name == "penalties") {
        return make_penalties(params);
    }
    if (name == "dry") {
        return make_dry(params, *vocab);
    }
    if (name == "top_n_sigma") {
        return make_top_n_sigma(params);
    }
    if (name == "top_k") {
        return make_top_k(params);
    }
    if (name == "typ_p") {
        return make_typical(params);
    }
    if (name == "top_p") {
        return make_top_p(params);
    }
    if (name == "min_p") {
        return make_min_p(params);
    }
    if (name == "xtc") {
        return make_xtc(params);
    }
    if (name == "infill") {
        return make_infill(vocab);
    }
    FORESAY_ASSERT(name == "temperature");  // checked_params() lets only these names through
    return make_temperature(params);
}

void Sampler::Impl::build_bias() {
    constexpr float kBan = std::numeric_limits<float>::infinity();
    for (const auto& [id, value] : params.logit_bias) {
        if (id >= 0 && id < vocab->n_tokens()) {
            bias.push_back({id, 1.0F, -value});
        }
    }
    for (const TokenId id : vocab->suppressed()) {
        bias.push_back({id, 1.0F, kBan});
    }
    if (params.ignore_eos) {
        for (const TokenId id : vocab->eog_tokens()) {
            bias.push_back({id, 1.0F, kBan});
        }
    }
    std::stable_sort(bias.begin(), bias.end(), [](const Edit& a, const Edit& b) { return a.id < b.id; });
    size_t n = 0;
    for (const Edit& edit : bias) {
        if (n > 0 && bias[n - 1].id == edit.id) {
            float& offset = bias[n - 1].offset;
            // A ban holds against an infinite bonus, whose sum with it would be NaN.
            offset = offset == kBan || edit.offset == kBan ? kBan : offset + edit.offset;
        } else {
            bias[n++] = edit;
        }
    }
    bias.resize(n);
}

void Sampler::Impl::build_chain() {
    if (params.mirostat != 0) {
        chain.push_back({"temperature", make_temperature(params)});
        chain.push_back({"mirostat", make_mirostat(params, vocab->n_tokens())});
        return;
    }
    bool is_adaptive = false;
    for (const std::string& name : params.samplers) {
        if (name == "adaptive_p") {
            is_adaptive = true;  // reshapes what is left for the draw: always the last step
        } else {
            chain.push_back({name, make_step(name)});
        }
    }
    if (is_adaptive) {
        chain.push_back({"adaptive_p", make_adaptive_p(params)});
    }
}

/// Gumbel-max over the candidates: argmax of ln p + noise. Ties: the lower id.
TokenId Sampler::Impl::select(DrawKey key) {
    const double log_sum = row.softmax();
    const auto max = static_cast<double>(row.max_logit());
    const uint64_t stream = noise_key(key, Purpose::kGumbel);
    double best = -std::numeric_limits<double>::infinity();
    // A candidate can only win when v < p * bound, because noise < -ln v: this spares nearly all candidates of a large
    // set two logarithms. The factor covers the rounding of p and of the noise to float.
    constexpr double kSlack = 1.00001;
    double bound = std::numeric_limits<double>::infinity();
    TokenId id = vocab::kNoToken;
    for (const Candidate& c : row.items()) {
        if (!(c.p > 0.0F)) {
            continue;
        }
        const double v = uniform_of(stream, static_cast<uint32_t>(c.id));
        if (v > static_cast<double>(c.p) * bound) {
            continue;
        }
        // Counted from the maximum, so that the noise isn't lost beside a large logit.
        const double score = (static_cast<double>(c.logit) - max) + static_cast<double>(gumbel_of(v));
        if (score > best || (score == best && c.id < id)) {
            best = score;
            id = c.id;
            bound = exp_fixed((log_sum - max) - best) * kSlack;
        }
    }
    if (id == vocab::kNoToken) {
        // Edits behind a greedy temperature have killed its choice: the best of the others is the choice then.
        const std::span<Candidate> items = row.sorted_items(1);
        items[0].p = 1.0F;
        id = items[0].id;
    }
    return id;
}

Sampler::Sampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Sampler::~Sampler() = default;

Result<std::unique_ptr<Sampler>> Sampler::create(const Params& params, std::shared_ptr<const vocab::Vocab> vocab,
                                                 grammar::Library* grammars) {
    FORESAY_ASSERT(vocab != nullptr);
    FORESAY_TRY(Params checked, checked_params(params));
    auto impl = std::make_unique<Impl>();
    impl->params = std::move(checked);
    impl->vocab = std::move(vocab);
    impl->seed = params.seed == kRandomSeed ? static_cast<uint32_t>(std::random_device()()) : params.seed;
    impl->build_bias();
    impl->build_chain();
    FORESAY_TRY(impl->budget, Budget::create(impl->params.reasoning, impl->vocab));
    FORESAY_TRY(impl->constraint, Constraint::create(impl->params, impl->vocab, grammars));
    return std::make_unique<Sampler>(std::move(impl));
}

/// Runs bias and chain and selects.
TokenId Sampler::Impl::draw_from(std::span<const float> logits, DrawKey key) {
    row.start(logits);
    row.edit(bias);
    for (const Link& link : chain) {
        if (link.step != nullptr) {
            link.step->apply(row, key);
        }
    }
    if (row.items().empty()) {
        // Everything is banned. A token must come out all the same; the model's own choice is the least surprising.
        row.assign(first_largest(logits), 0.0F);
    }
    return select(key);
}

/// The second pass under a grammar: forbidden tokens are banned before the chain, so that truncation keeps the best
/// legal ones. The noise is the same, for it is keyed by position and token (sampling.md 11.1).
TokenId Sampler::Impl::draw_legal(std::span<const float> logits, DrawKey key) {
    legal_logits.assign(logits.begin(), logits.end());
    Constraint::Legal legal = constraint->keep_legal(legal_logits, [this](TokenId id) {
        const auto it =
            std::lower_bound(bias.begin(), bias.end(), id, [](const Edit& e, TokenId x) { return e.id < x; });
        return it != bias.end() && it->id == id && it->offset == std::numeric_limits<float>::infinity();
    });
    status = std::move(legal.status);
    if (legal.only_end != vocab::kNoToken) {
        row.start(logits);
        row.assign(legal.only_end, 0.0F);
        return select(key);
    }
    return draw_from(status.has_value() ? std::span<const float>(legal_logits) : logits, key);
}

/// The token that ends thoughts over their budget; kNoToken: any may come. A grammar has the last word.
TokenId Sampler::Impl::forced() {
    const TokenId id = budget != nullptr ? budget->forced() : vocab::kNoToken;
    return id != vocab::kNoToken && constraint != nullptr && !constraint->allows(id) ? vocab::kNoToken : id;
}

Draw Sampler::draw(std::span<const float> logits, int64_t position) {
    FORESAY_ASSERT(!logits.empty());
    const DrawKey key{impl_->seed, position};
    Row& row = impl_->row;
    Draw draw;
    if (const TokenId forced = impl_->forced(); forced != vocab::kNoToken) {
        row.start(logits);
        row.assign(forced, 0.0F);
        draw.id = impl_->select(key);
    } else {
        draw.id = impl_->draw_from(logits, key);
        if (impl_->constraint != nullptr && !impl_->constraint->allows(draw.id)) {
            draw.id = impl_->draw_legal(logits, key);
        }
    }
    row.finish_ranks();
    draw.candidates = row.items();
    draw.sorted = std::is_sorted(draw.candidates.begin(), draw.candidates.end(),
                                 [](const Candidate& a, const Candidate& b) { return a.p_rank > b.p_rank; });
    impl_->has_draw = true;
    return draw;
}

const Status& Sampler::status() const {
    return impl_->status;
}

bool Sampler::has_grammar() const {
    return impl_->constraint != nullptr;
}

void Sampler::drop_forbidden(Draw* draw) {
    FORESAY_ASSERT(impl_->has_draw);
    if (impl_->constraint == nullptr) {
        return;
    }
    Row& row = impl_->row;
    constexpr size_t kMany = 256;  // from here on one mask costs less than asking for each
    const auto mask = row.items().size() > kMany ? impl_->constraint->mask() : nullptr;
    row.filter([&](const Candidate& c) { return mask != nullptr ? mask->has(c.id) : impl_->constraint->allows(c.id); });
    double sum = 0.0;
    double sum_rank = 0.0;
    for (const Candidate& c : row.items()) {
        sum += static_cast<double>(c.p);
        sum_rank += static_cast<double>(c.p_rank);
    }
    for (Candidate& c : row.items()) {
        c.p = sum > 0.0 ? static_cast<float>(static_cast<double>(c.p) / sum) : c.p;
        c.p_rank = sum_rank > 0.0 ? static_cast<float>(static_cast<double>(c.p_rank) / sum_rank) : c.p_rank;
    }
    draw->candidates = row.items();
}

void Sampler::accept(TokenId id, bool generated) {
    std::span<const Candidate> drawn_from;
    if (generated && impl_->has_draw) {
        drawn_from = impl_->row.items();
        impl_->has_draw = false;
    }
    for (const Impl::Link& link : impl_->chain) {
        if (link.step != nullptr) {
            link.step->accept(id, drawn_from);
        }
    }
    if (generated && impl_->constraint != nullptr) {
        impl_->constraint->accept(id);
    }
    if (generated && impl_->budget != nullptr) {
        impl_->budget->accept(id);
    }
}

void Sampler::reset() {
    impl_->has_draw = false;
    impl_->status = ok();
    if (impl_->constraint != nullptr) {
        impl_->constraint->reset();
    }
    if (impl_->budget != nullptr) {
        impl_->budget->reset();
    }
    for (const Impl::Link& link : impl_->chain) {
        if (link.step != nullptr) {
            link.step->reset();
        }
    }
}

uint32_t Sampler::seed() const {
    return impl_->seed;
}

const Params& Sampler::params() const {
    return impl_->params;
}

std::string Sampler::describe() const {
    std::string text = "logits";
    if (!impl_->bias.empty()) {
        text += " -> logit_bias";
    }
    for (const Impl::Link& link : impl_->chain) {
        text += link.step == nullptr ? " -> ?" : " -> ";
        text += link.name;
    }
    return text + " -> dist";
}

bool Sampler::is_banned(TokenId id) const {
    const auto it = std::lower_bound(impl_->bias.begin(), impl_->bias.end(), id,
                                     [](const Edit& edit, TokenId x) { return edit.id < x; });
    return it != impl_->bias.end() && it->id == id && it->offset == std::numeric_limits<float>::infinity();
}

}  // namespace foresay::sampling
