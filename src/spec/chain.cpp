#include "spec/chain.h"

#include <algorithm>
#include <chrono>

namespace foresay::spec {
namespace {

double ms_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void Chain::add(std::unique_ptr<Drafter> drafter, int32_t n_max, bool is_costly) {
    name_ += name_.empty() ? "" : ",";
    name_ += drafter->name();
    n_max = std::min(n_max, drafter->n_max_limit());
    links_.push_back({std::move(drafter), n_max, is_costly, {}});
}

int32_t Chain::n_max() const {
    int32_t most = 0;
    for (const Link& link : links_) {
        most = std::max(most, link.n_max);
    }
    return most;
}

Status Chain::propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) {
    drafts.assign(requests.size(), Draft{});
    std::vector<size_t> open;  // requests without a draft so far
    for (size_t i = 0; i < requests.size(); ++i) {
        const auto slot = static_cast<size_t>(requests[i].slot);
        owner_.resize(std::max(owner_.size(), slot + 1), -1);
        owner_[slot] = -1;
        open.push_back(i);
    }
    std::vector<DraftRequest> asked;
    std::vector<Draft> given;
    for (size_t i_link = 0; i_link < links_.size() && !open.empty(); ++i_link) {
        Link& link = links_[i_link];
        asked.clear();
        for (const size_t i : open) {
            asked.push_back(requests[i]);
            asked.back().n_max = std::min(asked.back().n_max, link.n_max);
            DraftSampling& sampling = asked.back().sampling;
            sampling.probabilistic =
                link.drafter->can_draw() && sampling.asked.value_or(link.drafter->draws_by_default());
        }
        if (link.is_costly && planner_) {
            planner_(static_cast<int>(i_link), asked);
            const bool any = std::any_of(asked.begin(), asked.end(), [](const DraftRequest& r) { return r.n_max > 0; });
            if (!any) {
                continue;  // nobody's draft pays: the plain path, without a trace of the drafter
            }
        }
        const auto start = std::chrono::steady_clock::now();
        Status status = link.drafter->propose(asked, given);
        link.stats.draft_ms += ms_since(start);
        ++link.stats.calls;
        if (!status.has_value()) {
            drafts.assign(requests.size(), Draft{});
            std::fill(owner_.begin(), owner_.end(), -1);
            return status;
        }
        std::vector<size_t> still_open;
        for (size_t k = 0; k < open.size(); ++k) {
            auto& tokens = given[k].tokens;
            tokens.resize(std::min(tokens.size(), static_cast<size_t>(std::max(0, asked[k].n_max))));
            given[k].q.resize(std::min(given[k].q.size(), tokens.size()));
            if (tokens.empty()) {
                still_open.push_back(open[k]);
                continue;
            }
            ++link.stats.drafts;
            link.stats.tokens += tokens.size();
            given[k].drafter = static_cast<int>(i_link);
            owner_[static_cast<size_t>(asked[k].slot)] = static_cast<int>(i_link);
            drafts[open[k]] = std::move(given[k]);
        }
        open = std::move(still_open);
    }
    return ok();
}

bool Chain::can_draw() const {
    return std::any_of(links_.begin(), links_.end(), [](const Link& link) { return link.drafter->can_draw(); });
}

model::TapSpec Chain::taps() const {
    for (const Link& link : links_) {
        model::TapSpec taps = link.drafter->taps();
        if (taps.any()) {
            return taps;
        }
    }
    return {};
}

Status Chain::observe(std::span<const model::Row> rows, const model::Runner& target) {
    for (Link& link : links_) {
        const auto start = std::chrono::steady_clock::now();
        Status seen = link.drafter->observe(rows, target);
        link.stats.observe_ms += ms_since(start);
        if (!seen.has_value()) {
            return seen;
        }
    }
    return ok();
}

int32_t Chain::reusable(int slot, int32_t n_common) const {
    for (const Link& link : links_) {
        n_common = std::min(n_common, link.drafter->reusable(slot, n_common));
    }
    return n_common;
}

Status Chain::check_p_min(float p_min) const {
    for (const Link& link : links_) {
        FORESAY_CHECK_OK(link.drafter->check_p_min(p_min));
    }
    return ok();
}

void Chain::set_probe(const DraftProbe& probe) {
    for (Link& link : links_) {
        link.drafter->set_probe(probe);
    }
}

void Chain::begin(int slot, std::span<const TokenId> prompt) {
    for (Link& link : links_) {
        link.drafter->begin(slot, prompt);
    }
}

void Chain::accepted(int slot, int32_t n_drafted, int32_t n_accepted, bool /*own*/) {
    const int owner = static_cast<size_t>(slot) < owner_.size() ? owner_[static_cast<size_t>(slot)] : -1;
    for (size_t i = 0; i < links_.size(); ++i) {
        Link& link = links_[i];
        const bool own = static_cast<int>(i) == owner;
        if (own) {
            link.stats.acc_drafts += n_accepted > 0 ? 1 : 0;
            link.stats.acc_tokens += static_cast<uint64_t>(n_accepted);
        }
        link.drafter->accepted(slot, n_drafted, n_accepted, own);
    }
}

void Chain::shifted(int slot, int32_t keep, int32_t discard) {
    for (Link& link : links_) {
        link.drafter->shifted(slot, keep, discard);
    }
}

void Chain::reset(int slot) {
    for (Link& link : links_) {
        link.drafter->reset(slot);
    }
}

std::vector<std::byte> Chain::save(int slot, std::span<const TokenId> text) const {
    for (const Link& link : links_) {
        if (auto state = link.drafter->save(slot, text); !state.empty()) {
            return state;
        }
    }
    return {};
}

Status Chain::restore(int slot, std::span<const std::byte> state) {
    for (Link& link : links_) {
        FORESAY_CHECK_OK(link.drafter->restore(slot, state));
    }
    return ok();
}

size_t Chain::memory_bytes() const {
    size_t bytes = 0;
    for (const Link& link : links_) {
        bytes += link.drafter->memory_bytes();
    }
    return bytes;
}

size_t Chain::compute_bytes() const {
    size_t bytes = 0;
    for (const Link& link : links_) {
        bytes += link.drafter->compute_bytes();
    }
    return bytes;
}

}  // namespace foresay::spec
