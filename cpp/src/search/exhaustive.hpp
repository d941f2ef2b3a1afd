// Exhaustive search: every posting of every query term, one window of accumulators at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "search/context.hpp"

namespace segmax {

/// Calls visit(first position, number of positions, their scores) window by window.
template <class Code, class Acc, class Visit>
void each_window(Context<Code, Acc>& context, Visit visit) {
    using Place = typename Kernels<Code, Acc>::EntryPlace;
    const Index& index = context.index;
    Acc* sums = context.scratch.sums.sums.data();
    std::vector<Place> places(context.terms().size());
    for (std::uint64_t next = 0; next < index.num_positions(); next += kWindowDocs) {
        const auto base = static_cast<Position>(next);
        const std::uint32_t size = std::min(kWindowDocs, index.num_positions() - base);
        for (std::size_t i = 0; i < places.size(); ++i) {
            const TermView<Code>& term = context.terms()[i];
            if (term.head) {
                context.kernel.add_runs(term.run_bytes, term.num_run_bytes, term.run_base, term.run_start,
                                        base / kSpanDocs, (base + size + kSpanDocs - 1) / kSpanDocs, term.weight, sums);
            } else {
                const std::uint32_t zone = base / kBlockDocs / kZoneBlocks;
                // Entries are numbered by zone, codes by term: a new zone starts over with its entries only.
                if (base == zone * kZoneBlocks * kBlockDocs) places[i].entry = 0;
                places[i] = context.kernel.add_entries(term.zones[zone], places[i], base / kBlockDocs,
                                                       (base + size) / kBlockDocs, term.weight, sums);
            }
        }
        visit(base, size, static_cast<const Acc*>(sums));
        std::fill_n(sums, kWindowDocs + kBlockDocs, Acc{0});  // and the block where damaged entries go
        context.check_stop();
    }
}

/// Offers the documents of a window that a mask allows, one by one.
template <class Code, class Acc>
void offer_allowed(Context<Code, Acc>& context, const Mask& mask, Position base, std::uint32_t size, const Acc* sums) {
    for (std::uint32_t first = 0; first < size; first += kBlockDocs) {
        for (std::uint32_t bits = mask.blocks()[(base + first) / kBlockDocs]; bits != 0; bits &= bits - 1) {
            const std::uint32_t place = first + static_cast<std::uint32_t>(std::countr_zero(bits));
            if (sums[place] >= std::max<Acc>(context.top().threshold(), 1)) context.offer(sums[place], base + place);
        }
    }
    context.top().settle();
}

template <class Code, class Acc>
void search_exhaustive(Context<Code, Acc>& context) {
    const Index& index = context.index;
    std::uint32_t* found = context.scratch.sums.found.data();
    // Of these documents, many would be found that the mask forbids.
    constexpr std::uint32_t kFewAllowed = 4;
    const Mask* mask = context.params.mask.get();
    const bool allows_few = mask != nullptr && mask->count() < index.num_docs() / kFewAllowed;
    each_window(context, [&](Position base, std::uint32_t size, const Acc* sums) {
        if (allows_few) return offer_allowed(context, *mask, base, size, sums);
        // In pieces, so that what one piece finds raises the threshold for the next.
        for (std::uint32_t first = 0; first < size; first += kTileDocs) {
            const Acc least = Gate<Acc>::of(context.top(), 1.0, context.threshold_estimate).least;
            const std::size_t hits =
                context.kernel.collect_at_least(sums + first, std::min(kTileDocs, size - first), least, found);
            for (std::size_t h = 0; h < hits; ++h) {
                context.offer(sums[first + found[h]], base + first + found[h]);
            }
        }
    });
    for (const auto& term : context.terms()) context.stats().postings_read += term.num_postings;
    context.stats().docs_scored = index.num_docs();
    context.stats().blocks_scored = index.num_blocks();
    context.stats().clusters_visited = index.num_clusters();
}

}  // namespace segmax
