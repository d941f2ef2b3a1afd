// Scoring the documents of one chunk by blocks.
//
// Rare ("tail") terms are added up exactly; for the frequent ("head") ones the block maxima bound what they can add.
// Blocks whose bound passes the gate survive and get the head terms' postings, a group of terms at a time, the heaviest
// first; what a group really adds replaces what it might have added, and blocks that now fail drop out.
// Few survivors: their postings are looked up run by run; many: whole runs are added, which costs less per posting.
#pragma once

#include "segmax/search/context.hpp"

namespace segmax {

template <class Code, class Acc>
class BlockVisitor {
public:
    BlockVisitor(Context<Code, Acc>& context, double factor) : context_(context), factor_(factor) {
        for (const auto& term : context.terms()) (term.block_max != nullptr ? head_ : tail_).push_back(&term);
        std::stable_sort(head_.begin(), head_.end(), [](const auto* a, const auto* b) {
            return std::uint64_t{a->weight} * a->largest > std::uint64_t{b->weight} * b->largest;
        });
        constexpr std::size_t most_blocks = kMaxChunkDocs / kBlockDocs + kBlockDocs;
        head_bounds_.resize(most_blocks);
        block_bounds_.resize(most_blocks);
        surviving_.resize(most_blocks);
    }

    /// Asks for the memory that visiting this chunk will touch first.
    void prefetch(std::uint32_t chunk) const {
        const Position position = context_.index.chunk_position(chunk);
        for (const auto* term : head_) {
            const Code* row = term->block_max + position / kBlockDocs;
            __builtin_prefetch(row);
            __builtin_prefetch(row + context_.index.chunk_num_docs(chunk) / kBlockDocs);
        }
        for (const auto* term : tail_) {
            if (!term->has(chunk)) continue;
            const Run<Code> run = term->run(chunk);
            __builtin_prefetch(run.ids);
            __builtin_prefetch(run.codes);
        }
    }

    /// Told how many clusters may be visited: where they are many, fetches what they share in order.
    void expect(std::size_t visits) {
        if (visits * kStreamShare <= context_.index.num_clusters()) return;
        for (const auto* term : head_) {
            prefetch_range(term->block_max, context_.index.num_blocks() * sizeof(Code));
            prefetch_range(term->run_start, term->num_pairs * sizeof(std::uint32_t));
        }
        for (const auto* term : tail_) fetch_list(*term);
    }

    void visit(std::uint32_t chunk) {
        const Index& index = context_.index;
        chunk_ = chunk;
        first_ = index.chunk_position(chunk);
        base_ = static_cast<std::uint16_t>(first_);
        docs_ = index.chunk_num_docs(chunk);
        const std::uint32_t num_blocks = blocks_of(docs_);
        touched_ = false;
        bound_blocks(num_blocks);
        add_tail(num_blocks);
        std::size_t survivors = find_survivors(num_blocks);
        for (std::size_t g = 0; g < head_.size() && survivors > 0; g += kGroupTerms) {
            add_group(std::span(head_).subspan(g, std::min(kGroupTerms, head_.size() - g)), survivors);
            survivors = drop_failed(survivors);
        }
        offer_survivors(survivors);
        if (touched_) std::fill_n(context_.scratch.accumulators.data(), docs_, Acc{0});
    }

private:
    /// Looking up one block in a run costs about as much as adding this many postings of it.
    static constexpr std::size_t kLookupCost = 32;
    /// Where more than one cluster in this many will be visited, block maxima and tail lists are fetched in order.
    static constexpr std::size_t kStreamShare = 10;
    static constexpr std::size_t kGroupTerms = 4;

    static void fetch_list(const TermView<Code>& term) {
        prefetch_range(term.run_start, term.num_pairs * sizeof(std::uint32_t));
        prefetch_range(term.ids, term.num_postings * sizeof(std::uint16_t));
        prefetch_range(term.codes, term.num_postings * sizeof(Code));
    }

    void add_run(const TermView<Code>& term, const Run<Code>& run) {
        context_.kernel.scatter_add(run.ids, run.codes, run.size, base_, term.weight,
                                    context_.scratch.accumulators.data());
        context_.stats().postings_read += run.size;
        touched_ = true;
    }

    void add_tail(std::uint32_t num_blocks) {
        for (const auto* term : tail_) {
            if (term->has(chunk_)) add_run(*term, term->run(chunk_));
        }
        std::copy_n(head_bounds_.data(), num_blocks, block_bounds_.data());
        if (!touched_) return;
        context_.kernel.add_block_max(context_.scratch.accumulators.data(), num_blocks, block_bounds_.data());
    }

    void add_group(std::span<const TermView<Code>* const> group, std::size_t survivors) {
        wanted_.clear();
        for (const auto* term : group) {
            if (!subtract_bounds(*term, survivors) || !term->has(chunk_)) continue;
            const Run<Code> run = term->run(chunk_);
            prefetch_range(run.ids, run.size * sizeof(std::uint16_t));
            prefetch_range(run.codes, run.size * sizeof(Code));
            wanted_.push_back({term, run});
        }
        for (const auto& [term, run] : wanted_) {
            if (run.size <= survivors * kLookupCost) {
                add_run(*term, run);
            } else {
                add_surviving(*term, run, survivors);
            }
        }
    }

    /// Takes a term out of what the head terms might still add to the survivors; false if it was nothing.
    bool subtract_bounds(const TermView<Code>& term, std::size_t survivors) {
        const Code* row = term.block_max + first_ / kBlockDocs;
        Code any = 0;
        for (std::size_t i = 0; i < survivors; ++i) {
            const std::uint32_t block = surviving_[i];
            any |= row[block];
            head_bounds_[block] -= static_cast<Acc>(term.weight) * row[block];
        }
        return any != 0;
    }

    std::size_t drop_failed(std::size_t survivors) {
        const Gate<Acc> gate = Gate<Acc>::of(context_.top(), factor_, context_.seed);
        std::size_t kept = 0;
        for (std::size_t i = 0; i < survivors; ++i) {
            const std::uint32_t block = surviving_[i];
            Acc& bound = block_bounds_[block];
            bound = head_bounds_[block];
            context_.kernel.add_block_max(context_.scratch.accumulators.data() + block * kBlockDocs, 1, &bound);
            surviving_[kept] = block;
            kept += gate.lets_in(bound, context_.index.block_min_row(first_ / kBlockDocs + block)) ? 1 : 0;
        }
        watch_blocks(kept);
        return kept;
    }

    void bound_blocks(std::uint32_t num_blocks) {
        auto& s = context_.scratch;
        s.rows.clear();
        s.weights.clear();
        for (const auto* term : head_) {
            if (!term->has(chunk_)) continue;
            s.rows.push_back(term->block_max + first_ / kBlockDocs);
            s.weights.push_back(static_cast<std::uint16_t>(term->weight));
        }
        context_.kernel.weighted_rows(s.rows.data(), s.weights.data(), s.rows.size(), num_blocks, head_bounds_.data());
    }

    std::size_t find_survivors(std::uint32_t num_blocks) {
        const Gate<Acc> gate = Gate<Acc>::of(context_.top(), factor_, context_.seed);
        const std::size_t found =
            context_.kernel.collect_at_least(block_bounds_.data(), num_blocks, gate.least, surviving_.data());
        std::size_t kept = 0;
        for (std::size_t i = 0; i < found; ++i) {
            const std::uint32_t block = surviving_[i];
            surviving_[kept] = block;
            kept += gate.lets_in(block_bounds_[block], context_.index.block_min_row(first_ / kBlockDocs + block));
        }
        watch_blocks(kept);
        return kept;
    }

    void add_surviving(const TermView<Code>& term, const Run<Code>& run, std::size_t survivors) {
        const Code* row = term.block_max + first_ / kBlockDocs;
        Acc* accumulators = context_.scratch.accumulators.data();
        std::uint32_t at = 0;
        for (std::size_t i = 0; i < survivors; ++i) {
            const std::uint32_t block = surviving_[i];
            if (row[block] == 0) continue;
            at += static_cast<std::uint32_t>(
                context_.kernel.count_below(run.ids + at, run.size - at, base_, block * kBlockDocs));
            const std::uint32_t end = (block + 1) * kBlockDocs;
            for (; at < run.size; ++at) {
                const std::uint32_t doc = static_cast<std::uint16_t>(run.ids[at] - base_);
                if (doc >= end) break;
                accumulators[doc] += static_cast<Acc>(term.weight) * run.codes[at];
                ++context_.stats().postings_read;
            }
            touched_ = true;
        }
    }

    void offer_survivors(std::size_t survivors) {
        const Acc* accumulators = context_.scratch.accumulators.data();
        for (std::size_t i = 0; i < survivors; ++i) {
            const std::uint32_t start = surviving_[i] * kBlockDocs;
            const std::uint32_t count = std::min(kBlockDocs, docs_ - start);
            const Acc least = std::max<Acc>(context_.top().threshold(), 1);
            std::uint32_t* found = context_.scratch.found.data();
            const std::size_t hits = context_.kernel.collect_at_least(accumulators + start, count, least, found);
            for (std::size_t h = 0; h < hits; ++h) {
                context_.offer(accumulators[start + found[h]], first_ + start + found[h]);
            }
            watch_scored(start, count);
            context_.stats().docs_scored += count;
        }
        context_.stats().blocks_scored += survivors;
    }

    bool is_watched(std::uint32_t start, std::uint32_t count) const {
        return context_.params.watch - (first_ + start) < count;
    }

    void watch_blocks(std::size_t survivors) {
        if (!is_watched(0, docs_)) return;
        const std::uint32_t block = (context_.params.watch - first_) / kBlockDocs;
        const auto end = surviving_.begin() + static_cast<std::ptrdiff_t>(survivors);
        if (std::find(surviving_.begin(), end, block) != end) return;
        const Acc least = Gate<Acc>::of(context_.top(), factor_, context_.seed).least;
        context_.result.watched = {Fate::below_bound, block_bounds_[block], context_.top().threshold(), least};
    }

    void watch_scored(std::uint32_t start, std::uint32_t count) {
        if (!is_watched(start, count) || context_.result.watched.fate == Fate::scored) return;
        const Acc score = context_.scratch.accumulators[context_.params.watch - first_];
        context_.result.watched = {Fate::scored, score, context_.top().threshold(), context_.top().threshold()};
    }

    Context<Code, Acc>& context_;
    double factor_;
    std::vector<const TermView<Code>*> head_, tail_;
    struct Wanted {
        const TermView<Code>* term;
        Run<Code> run;
    };
    std::vector<Wanted> wanted_;
    std::vector<Acc> head_bounds_;   // by block: what the head terms not added yet can add
    std::vector<Acc> block_bounds_;  // by block: that, and the best of its documents so far
    std::vector<std::uint32_t> surviving_;
    std::uint32_t chunk_ = 0;
    Position first_ = 0;
    std::uint16_t base_ = 0;
    std::uint32_t docs_ = 0;
    bool touched_ = false;
};

}  // namespace segmax
