// Exhaustive search: every posting of every query term, one window of accumulators at a time.
#pragma once

#include "segmax/search/context.hpp"

namespace segmax {

/// Offers the documents of a chunk in the window that starts at position `base`.
template <class Code, class Acc>
void offer_chunk(Context<Code, Acc>& context, Position base, std::uint32_t chunk) {
    const Position first = context.index.chunk_position(chunk);
    const Acc* accumulators = context.scratch.accumulators.data() + (first - base);
    std::uint32_t* found = context.scratch.found.data();
    const Acc least = Gate<Acc>::of(context.top(), 1.0, context.seed).least;
    const std::size_t hits =
        context.kernel.collect_at_least(accumulators, context.index.chunk_num_docs(chunk), least, found);
    for (std::size_t i = 0; i < hits; ++i) context.offer(accumulators[found[i]], first + found[i]);
}

/// Adds up all postings window by window and calls `visit(window base, first chunk, end chunk)` for each.
template <class Code, class Acc, class VisitWindow>
void sweep(Context<Code, Acc>& context, VisitWindow visit) {
    const Index& index = context.index;
    Acc* accumulators = context.scratch.accumulators.data();
    const auto windows = index.window_first_chunk();
    for (std::size_t w = 0; w + 1 < windows.size(); ++w) {
        const Position base = index.chunk_position(windows[w]);
        for (const TermView<Code>& term : context.terms()) {
            const Run<Code> run = term.in_chunks(windows[w], windows[w + 1], index.num_chunks());
            context.kernel.scatter_add(run.ids, run.codes, run.size, 0, term.weight, accumulators);
            context.stats().postings_read += run.size;
        }
        visit(base, windows[w], windows[w + 1]);
        std::fill_n(accumulators, kWindowDocs, Acc{0});
        context.check_stop();
    }
}

template <class Code, class Acc>
void search_exhaustive(Context<Code, Acc>& context) {
    const Index& index = context.index;
    sweep(context, [&](Position base, std::uint32_t first, std::uint32_t end) {
        for (std::uint32_t chunk = first; chunk < end; ++chunk) offer_chunk(context, base, chunk);
    });
    context.stats().docs_scored = index.num_docs();
    context.stats().blocks_scored = index.num_blocks();
    context.stats().clusters_visited = index.num_clusters();
}

}  // namespace segmax
