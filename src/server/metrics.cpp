#include "server/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace foresay::server {
namespace {

class Page {
  public:
    void counter(const char* name, const char* help, double value) {
        add(name, help, prometheus::MetricType::Counter, value);
    }

    void gauge(const char* name, const char* help, double value) {
        add(name, help, prometheus::MetricType::Gauge, value);
    }

    using Labels = std::vector<std::pair<std::string, std::string>>;

    /// One counter with a value per set of labels; nothing when there are none yet.
    void counters(const char* name, const char* help, const std::vector<std::pair<Labels, double>>& values) {
        if (values.empty()) {
            return;
        }
        prometheus::MetricFamily family{name, help, prometheus::MetricType::Counter, {}};
        for (const auto& [labels, value] : values) {
            prometheus::ClientMetric& metric = family.metric.emplace_back();
            metric.counter.value = value;
            for (const auto& [label, text] : labels) {
                metric.label.push_back({label, text});
            }
        }
        families_.push_back(std::move(family));
    }

    std::string text() const {
        std::ostringstream out;
        prometheus::TextSerializer().Serialize(out, families_);
        return out.str();
    }

  private:
    /// help: one line; the serializer escapes label values but not this.
    void add(const char* name, const char* help, prometheus::MetricType type, double value) {
        prometheus::ClientMetric metric;
        const double finite = std::isfinite(value) ? value : 0.0;
        metric.counter.value = finite;
        metric.gauge.value = finite;
        families_.push_back({name, help, type, {metric}});
    }

    std::vector<prometheus::MetricFamily> families_;
};

double rate(double count, double ms) {
    return ms > 0.0 ? 1e3 * count / ms : 0.0;
}

void add_engine(const engine::Metrics& m, Page* page) {
    const auto n = [](uint64_t value) { return static_cast<double>(value); };
    page->counter("llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", n(m.prompt_tokens_total));
    page->counter("llamacpp:prompt_seconds_total", "Prompt process time", m.prompt_seconds_total);
    page->counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed.",
                  n(m.tokens_predicted_total));
    page->counter("llamacpp:tokens_predicted_seconds_total", "Predict process time", m.predicted_seconds_total);
    page->counter("llamacpp:n_decode_total", "Total number of decode calls", n(m.n_decode_total));
    page->counter("llamacpp:n_tokens_max", "Largest observed number of tokens in a slot.", n(m.n_tokens_max));
    page->counter("llamacpp:spec_decode_num_drafts_total", "Verification steps that carried a draft.",
                  n(m.verify_steps_total));
    page->counter("llamacpp:spec_decode_num_draft_tokens_total", "Drafted tokens that went to verification.",
                  n(m.draft_n_total));
    page->counter("llamacpp:spec_decode_num_accepted_tokens_total", "Drafted tokens accepted.",
                  n(m.draft_n_accepted_total));
    page->gauge("llamacpp:requests_processing", "Number of requests processing.", m.requests_processing);
    page->gauge("llamacpp:requests_deferred", "Number of requests deferred.", m.requests_deferred);
    page->gauge("llamacpp:n_busy_slots_per_decode", "Average number of busy slots per decode call",
                m.n_decode_total > 0 ? n(m.n_busy_slots_total) / n(m.n_decode_total) : 0.0);
    page->counter("foresay:draft_relaxed_tokens_total", "Drafted tokens accepted by the relaxed rule only.",
                  n(m.draft_n_relaxed_total));
    page->counter("foresay:draft_exact_tokens_total",
                  "Drafted tokens accepted that the target would have chosen itself.",
                  n(m.draft_n_accepted_total - m.draft_n_relaxed_total));
    page->counter("foresay:draft_rejected_tokens_total", "Drafted tokens that were judged and rejected.",
                  n(m.draft_n_rejected_total));
    page->counter("foresay:draft_relaxed_rank_sum_total",
                  "Summed ranks of the relaxed tokens; by count: the mean rank.", m.relaxed_rank_sum_total);
    page->counter("foresay:draft_relaxed_gap_sum_total",
                  "Summed log-probability gap in nats of the relaxed tokens to the target's best candidate.",
                  m.relaxed_gap_sum_total);
    page->counter("foresay:draft_adaptive_off_total", "Rounds of slots without a draft because it wouldn't pay.",
                  n(m.adaptive_off_total));
    page->counter("foresay:draft_adaptive_probes_total", "Rounds of slots that tried a draft all the same.",
                  n(m.adaptive_probes_total));
    page->gauge("foresay:sched_hash_capacity", "Capacity of the target's scheduler table.", n(m.sched_hash_capacity));
    page->gauge("foresay:sched_nodes", "Nodes of the last graph.", n(m.sched_n_nodes));
    page->gauge("foresay:sched_leafs", "Leafs of the last graph.", n(m.sched_n_leafs));
    page->gauge("foresay:sched_buffer_bytes", "Bytes of compute buffers.", n(m.sched_buffer_bytes));
    page->gauge("foresay:memory_bytes", "Bytes of weights, caches, states and buffers of passes, with the drafters'.",
                n(m.memory_bytes));
    page->gauge("foresay:recurrent_state_bytes", "Bytes of recurrent states and their snapshots.", n(m.state_bytes));
    page->counter("foresay:sched_growths_total", "Times the scheduler table grew.", n(m.sched_growths_total));
    page->counter("foresay:sched_plans_built_total", "Plans built.", n(m.sched_plans_built_total));
    page->counter("foresay:sched_plan_hits_total", "Plans taken from the cache.", n(m.sched_plan_hits_total));
}

void add_drafts(const engine::Metrics& m, Page* page) {
    using Values = std::vector<std::pair<Page::Labels, double>>;
    Values positions;
    for (size_t i = 0; i < m.accepted_per_position.size(); ++i) {
        positions.push_back({{{"position", std::to_string(i)}}, static_cast<double>(m.accepted_per_position[i])});
    }
    page->counters("llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
                   "Drafted tokens accepted, by draft position.", positions);
    Values drafts;
    Values tokens;
    Values accepted;
    Values relaxed;
    for (const auto& [key, counts] : m.drafts) {
        const Page::Labels labels{{"drafter", key.first}, {"rule", key.second}};
        drafts.emplace_back(labels, static_cast<double>(counts.drafts));
        tokens.emplace_back(labels, static_cast<double>(counts.tokens));
        accepted.emplace_back(labels, static_cast<double>(counts.accepted));
        relaxed.emplace_back(labels, static_cast<double>(counts.relaxed));
    }
    page->counters("foresay:drafts_total", "Verification steps that carried a draft.", drafts);
    page->counters("foresay:draft_tokens_total", "Drafted tokens that went to verification.", tokens);
    page->counters("foresay:draft_accepted_tokens_total", "Drafted tokens accepted.", accepted);
    page->counters("foresay:draft_relaxed_total", "Drafted tokens accepted by the relaxed rule only.", relaxed);
}

}  // namespace

std::string MetricsPage::render(const App& app, size_t n_connections) {
    const Counters& c = app.counters;
    Page page;
    const engine::Metrics metrics = app.engine->metrics();
    add_engine(metrics, &page);
    add_drafts(metrics, &page);
    page.gauge("foresay:slots", "Slots.", app.engine->info().n_parallel);
    page.counter("llamacpp:prompt_tokens_cached_total", "Number of prompt tokens taken from the cache.",
                 static_cast<double>(c.prompt_tokens_cached_total));
    page.gauge("llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s, since the last scrape.",
               rate(static_cast<double>(c.prompt_tokens - last_.prompt_tokens), c.prompt_ms - last_.prompt_ms));
    page.gauge(
        "llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s, since the last scrape.",
        rate(static_cast<double>(c.predicted_steps - last_.predicted_steps), c.predicted_ms - last_.predicted_ms));
    last_ = {c.prompt_tokens, c.prompt_ms, c.predicted_steps, c.predicted_ms};
    page.counter("foresay:requests_total", "Completion requests accepted.", static_cast<double>(c.requests_total));
    page.counter("foresay:requests_refused_total", "Completion requests refused because the queue was full.",
                 static_cast<double>(c.requests_refused_total));
    page.counter("foresay:requests_cancelled_total", "Completion requests whose client went away.",
                 static_cast<double>(c.requests_cancelled_total));
    page.gauge("foresay:http_connections", "Open HTTP connections.", static_cast<double>(n_connections));
    return page.text();
}

}  // namespace foresay::server
