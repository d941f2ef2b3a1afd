// Scoring whole spans: where several blocks of a span may pass, adding up all its postings costs less than looking each
// block up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "search/block_bounds.hpp"

namespace segmax {

template <class Code, class Acc>
class SpanScorer {
public:
    SpanScorer(Context<Code, Acc>& context, const BoundTerms<Code, Acc>& terms, const TailPlaces<Code, Acc>& tails,
               const BlockBounds<Code, Acc>& bounds)
        : context_(context), terms_(terms), tails_(tails), bounds_(bounds) {}

    /// Scores all documents of these spans, whose tiles are bounded, and offers those of blocks whose bound is not 0:
    /// the others were offered before, or have nothing of the query.
    void score(std::span<const std::uint32_t> spans) {
        for (std::size_t at = 0; at < spans.size(); at += kBatch) {
            score_batch(spans.subspan(at, std::min(kBatch, spans.size() - at)));
        }
    }

private:
    /// Spans that are worked on together: while the memory of one is fetched, others are added.
    static constexpr std::size_t kBatch = 16;
    static_assert(kBatch * kSpanDocs <= kWindowDocs);

    void score_batch(std::span<const std::uint32_t> spans) {
        Acc* sums = context_.scratch.sums.sums.data();
        for (const auto& head : terms_.heads()) {
            for (const std::uint32_t span : spans) {
                const Run run = head.term->run(span);
                for (std::uint32_t byte = 0; byte < run.size; byte += 64) __builtin_prefetch(run.bytes + byte);
            }
        }
        for (const auto& head : terms_.heads()) {
            const TermView<Code>& term = *head.term;
            for (std::size_t i = 0; i < spans.size(); ++i) {
                context_.kernel.add_runs(term.run_bytes, term.num_run_bytes, term.run_base, term.run_start, spans[i],
                                         spans[i] + 1, term.weight, sums + i * kSpanDocs);
            }
        }
        add_tails(spans);
        for (std::size_t i = 0; i < spans.size(); ++i) offer(spans[i], sums + i * kSpanDocs);
        context_.top().settle();
        std::fill_n(sums, spans.size() * kSpanDocs, Acc{0});
        context_.stats().blocks_scored += spans.size() * kSpanBlocks;
        context_.stats().docs_scored += spans.size() * kSpanDocs;
    }

    void add_tails(std::span<const std::uint32_t> spans) {
        auto& entries = context_.scratch.scorer.entries;
        entries.clear();
        for (std::size_t tail = 0; tail < terms_.tails().size(); ++tail) {
            const TermView<Code>& term = *terms_.tails()[tail];
            const auto tile = [&](std::size_t i) { return spans[i] / kTileSpans; };
            tails_.each_last(terms_, tail, spans.size(), tile, [&](std::size_t i, std::uint32_t entry) {
                const std::uint32_t first = spans[i] * kSpanBlocks % kZoneBlocks;
                const EntryList<Code>& list = term.zones[spans[i] * kSpanBlocks / kZoneBlocks];
                for (; entry != kNoEntry && list.blocks[entry] >= first; --entry) {
                    const std::uint32_t inside = list.blocks[entry] - first;
                    if (inside >= kSpanBlocks) continue;
                    __builtin_prefetch(list.masks + entry);
                    entries.push_back(
                        {&list, entry, term.weight, static_cast<std::uint32_t>(i * kSpanBlocks + inside)});
                }
            });
        }
        context_.stats().postings_read +=
            context_.kernel.add_entry_lookups(entries.data(), entries.size(), context_.scratch.sums.sums.data());
    }

    void offer(std::uint32_t span, const Acc* sums) {
        std::uint32_t* found = context_.scratch.sums.found.data();
        const Position first = span * kSpanDocs;
        const std::uint32_t size = std::min(kSpanDocs, context_.index.num_positions() - first);
        const Acc gate = std::max<Acc>({context_.top().threshold(), context_.threshold_estimate, Acc{1}});
        const std::size_t hits = context_.kernel.collect_at_least(sums, size, gate, found);
        for (std::size_t h = 0; h < hits; ++h) {
            const Position position = first + found[h];
            if (bounds_.bound(position / kBlockDocs) != 0) context_.offer(sums[found[h]], position);
        }
        const Position watch = context_.params.watch;
        if (watch >= first && watch - first < size && context_.result.watched.fate != Fate::scored) {
            const Acc threshold = context_.top().threshold();
            context_.result.watched = {Fate::scored, sums[watch - first], threshold, threshold};
        }
    }

    Context<Code, Acc>& context_;
    const BoundTerms<Code, Acc>& terms_;
    const TailPlaces<Code, Acc>& tails_;
    const BlockBounds<Code, Acc>& bounds_;
};

}  // namespace segmax
