// Scoring blocks, many at a time: while the memory of one lookup is fetched, others are worked on.
//
// Head terms are added a group at a time, the heaviest first; what a group really adds replaces what it might have
// added, and blocks that now fail drop out. The tail comes last, for the few that are left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

#include "search/block_bounds.hpp"

namespace segmax {

template <class Code, class Acc>
class BlockScorer {
public:
    BlockScorer(Context<Code, Acc>& context, const BoundTerms<Code, Acc>& terms, const TailPlaces<Code, Acc>& tails,
                BlockBounds<Code, Acc>& bounds, double factor, double inner_factor)
        : context_(context),
          terms_(terms),
          tails_(tails),
          bounds_(bounds),
          factor_(factor),
          inner_factor_(inner_factor) {
        context.scratch.scorer.lookups.resize(kMostBatch * kGroupTerms + 1);
    }

    /// What a bound must reach to be looked at now.
    std::uint64_t least() {
        return std::max<std::uint64_t>(
            terms_.steps(Gate<Acc>::of(context_.top(), factor_, context_.threshold_estimate).least), 1);
    }

    struct LookedAt {
        std::size_t count = 0;  ///< of the blocks, from the first
        bool stopped = false;   ///< is_late() ended it
    };

    /// Scores the blocks of these, which ascend, that still pass, the best bounds first, and offers their documents.
    /// Reorders them.
    /// Stops after `most` blocks, or when is_late() between two batches, though never before the first of a search: an
    /// answer beats none.
    template <class IsLate>
    LookedAt score(std::span<std::uint32_t> blocks, std::size_t most, IsLate is_late) {
        rank(blocks);
        const std::size_t batch = std::clamp(blocks.size() / 8, kLeastBatch, kMostBatch);
        std::size_t looked_at = 0;
        while (looked_at < std::min(blocks.size(), most)) {
            const auto wanted =
                blocks.subspan(looked_at, std::min({batch, blocks.size() - looked_at, most - looked_at}));
            const std::uint64_t gate = least();
            if (context_.stats().blocks_scored > 0 && bounds_.bound(wanted[0]) >= gate && is_late()) {
                return {looked_at, true};
            }
            num_blocks_ = 0;
            while (num_blocks_ < wanted.size() && bounds_.bound(wanted[num_blocks_]) >= gate) {
                blocks_[num_blocks_] = wanted[num_blocks_];
                ++num_blocks_;
            }
            looked_at += num_blocks_;
            const bool is_last = num_blocks_ < wanted.size();
            score_batch();
            if (is_last) break;
        }
        return {looked_at, false};
    }

    void score(std::span<std::uint32_t> blocks) {
        score(blocks, std::numeric_limits<std::size_t>::max(), [] { return false; });
    }

    /// Records of a watched document that its block was not looked at because its bound is too low.
    void watch_skipped(std::uint32_t first_block, std::uint32_t end_block) {
        const std::uint32_t block = context_.params.watch / kBlockDocs;
        if (context_.params.watch == kNoRow || block < first_block || block >= end_block) return;
        if (context_.result.watched.fate != Fate::unseen || !bounds_.is_bounded(block / kTileBlocks)) return;
        if (bounds_.bound(block) < least()) note_dropped(bounds_.bound(block), factor_);
    }

private:
    /// Small batches let the threshold rise in between; in large ones neighbors share cache lines.
    static constexpr std::size_t kLeastBatch = 32;
    static constexpr std::size_t kMostBatch = 256;
    static constexpr std::size_t kGroupTerms = 6;

    /// Sorts blocks, which ascend, by bound, descending, then by number: stable passes over a byte of the bound each.
    void rank(std::span<std::uint32_t> blocks) {
        constexpr std::size_t kBytes = 256;
        auto& ranked = context_.scratch.scorer.ranked;
        auto& by_low = context_.scratch.scorer.by_low;
        ranked.resize(blocks.size());
        if (blocks.size() < kBytes / 2) {  // counting would take longer than comparing
            for (std::size_t i = 0; i < blocks.size(); ++i) ranked[i] = ranked_as(blocks[i]);
            std::sort(ranked.begin(), ranked.end());
            for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::uint32_t>(ranked[i]);
            return;
        }
        by_low.resize(blocks.size());
        std::uint32_t low[kBytes + 1] = {};
        std::uint32_t high[kBytes + 1] = {};
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            ranked[i] = ranked_as(blocks[i]);
            ++low[(ranked[i] >> 32) % kBytes + 1];
            ++high[(ranked[i] >> 40) + 1];
        }
        for (std::size_t byte = 0; byte < kBytes; ++byte) {
            low[byte + 1] += low[byte];
            high[byte + 1] += high[byte];
        }
        for (const std::uint64_t block : ranked) by_low[low[(block >> 32) % kBytes]++] = block;
        for (const std::uint64_t block : by_low) blocks[high[block >> 40]++] = static_cast<std::uint32_t>(block);
    }

    /// An integer that is smaller for what comes first.
    std::uint64_t ranked_as(std::uint32_t block) const {
        return (std::uint64_t{0xFFFFU - bounds_.bound(block)} << 32) | block;
    }

    void score_batch() {
        if (num_blocks_ == 0) return;
        Acc* sums = context_.scratch.sums.sums.data();
        const std::size_t used = num_blocks_ * kBlockDocs;
        std::sort(blocks_, blocks_ + num_blocks_);  // neighbors share cache lines of rows and runs
        for (std::size_t i = 0; i < num_blocks_; ++i) left_[i] = bounds_.bound(blocks_[i]);
        context_.stats().blocks_scored += num_blocks_;
        const auto heads = terms_.heads();
        for (std::size_t at = 0; at < heads.size() && num_blocks_ > 0; at += kGroupTerms) {
            add_heads(heads.subspan(at, std::min(kGroupTerms, heads.size() - at)));
            drop_failed();
        }
        add_tails();
        offer();
        context_.top().settle();
        std::fill_n(sums, used, Acc{0});
    }

    /// Looks every block up in the rows of some head terms, then finds the runs that have it, then adds these: each
    /// step asks for the memory of the next, which has arrived by then.
    void add_heads(std::span<const BoundedHead<Code>> heads) {
        RunLookup* lookups = context_.scratch.scorer.lookups.data();
        std::size_t count = 0;
        for (std::size_t h = 0; h < heads.size(); ++h) {
            const TermView<Code>& term = *heads[h].term;
            for (std::size_t i = 0; i < num_blocks_; ++i) {
                const std::uint32_t level = term.level(blocks_[i]);
                left_[i] = static_cast<std::uint16_t>(left_[i] - heads[h].added[level]);
                __builtin_prefetch(term.run_start + blocks_[i] / kSpanBlocks);
                __builtin_prefetch(term.run_base + blocks_[i] / kSpanBlocks / kBaseSpans);
                // Always written, kept by the count: no branch to mispredict.
                lookups[count].slot = static_cast<std::uint16_t>(i);
                lookups[count].block = static_cast<std::uint16_t>(h);
                count += level != 0 ? 1 : 0;
            }
        }
        for (std::size_t at = 0; at < count; ++at) {
            const TermView<Code>& term = *heads[lookups[at].block].term;
            const std::uint32_t block = blocks_[lookups[at].slot];
            const Run run = term.run(block / kSpanBlocks);
            __builtin_prefetch(run.bytes);
            __builtin_prefetch(run.bytes + run.size / 2);
            lookups[at] = {run.bytes, run.size, term.weight, lookups[at].slot,
                           static_cast<std::uint16_t>(block % kSpanBlocks)};
        }
        context_.stats().postings_read +=
            context_.kernel.add_lookups(lookups, count, context_.scratch.sums.sums.data());
    }

    /// Finds the entries of all blocks first, and asks for their memory; by the time they are added it has arrived.
    void add_tails() {
        auto& entries = context_.scratch.scorer.entries;
        entries.clear();
        for (std::size_t tail = 0; tail < terms_.tails().size(); ++tail) {
            const TermView<Code>& term = *terms_.tails()[tail];
            const auto tile = [&](std::size_t i) { return blocks_[i] / kTileBlocks; };
            tails_.each_last(terms_, tail, num_blocks_, tile, [&](std::size_t i, std::uint32_t last) {
                const EntryList<Code>& list = term.zones[blocks_[i] / kZoneBlocks];
                const std::uint32_t entry = context_.kernel.find_entry(list, last, blocks_[i] % kZoneBlocks);
                if (entry == kNoEntry) return;
                __builtin_prefetch(list.masks + entry);
                __builtin_prefetch(list.group_start + entry / kGroupEntries);
                entries.push_back({&list, entry, term.weight, static_cast<std::uint32_t>(i)});
            });
        }
        context_.stats().postings_read +=
            context_.kernel.add_entry_lookups(entries.data(), entries.size(), context_.scratch.sums.sums.data());
    }

    /// A block's bound is now its best real sum so far plus what the terms to come can add. Blocks that fail drop out,
    /// and the sums of the others close ranks.
    void drop_failed() {
        const std::uint64_t gate =
            terms_.steps(Gate<Acc>::of(context_.top(), inner_factor_, context_.threshold_estimate).least);
        Acc* sums = context_.scratch.sums.sums.data();
        Acc largest[kMostBatch];
        context_.kernel.block_largest(sums, num_blocks_, largest);
        std::size_t kept = 0;
        for (std::size_t i = 0; i < num_blocks_; ++i) {
            const std::uint64_t bound = terms_.steps(largest[i]) + left_[i];
            if (bound < gate) {
                if (blocks_[i] == context_.params.watch / kBlockDocs) note_dropped(bound, inner_factor_);
                continue;
            }
            blocks_[kept] = blocks_[i];
            left_[kept] = left_[i];
            std::copy_n(sums + i * kBlockDocs, kBlockDocs, sums + kept * kBlockDocs);
            ++kept;
        }
        num_blocks_ = kept;
    }

    void offer() {
        const Acc* sums = context_.scratch.sums.sums.data();
        std::uint32_t* found = context_.scratch.sums.found.data();
        const Acc gate = std::max<Acc>(context_.top().threshold(), 1);
        const std::size_t hits = context_.kernel.collect_at_least(sums, num_blocks_ * kBlockDocs, gate, found);
        for (std::size_t h = 0; h < hits; ++h) {
            context_.offer(sums[found[h]], blocks_[found[h] / kBlockDocs] * kBlockDocs + found[h] % kBlockDocs);
        }
        for (std::size_t i = 0; i < num_blocks_; ++i) watch_scored(i);
        context_.stats().docs_scored += num_blocks_ * kBlockDocs;
    }

    void watch_scored(std::size_t i) {
        const Position watch = context_.params.watch;
        if (blocks_[i] != watch / kBlockDocs || context_.result.watched.fate == Fate::scored) return;
        const Acc score = context_.scratch.sums.sums[i * kBlockDocs + watch % kBlockDocs];
        context_.result.watched = {Fate::scored, score, context_.top().threshold(), context_.top().threshold()};
    }

    void note_dropped(std::uint64_t bound, double factor) {
        const Acc needed = Gate<Acc>::of(context_.top(), factor, context_.threshold_estimate).least;
        context_.result.watched = {Fate::below_bound, terms_.score_of(bound), context_.top().threshold(), needed};
    }

    Context<Code, Acc>& context_;
    const BoundTerms<Code, Acc>& terms_;
    const TailPlaces<Code, Acc>& tails_;
    BlockBounds<Code, Acc>& bounds_;
    double factor_, inner_factor_;
    std::size_t num_blocks_ = 0;
    std::uint32_t blocks_[kMostBatch];  // ascending
    std::uint16_t left_[kMostBatch];    // what the terms that are not added yet can add
};

}  // namespace segmax
