// Bounds of spans: a coarser level that tells, in a large collection, which tiles are worth bounding block by block.
//
// All terms but the rarest have a row of levels over all spans; the rarest add the maxima of their entries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "search/block_bounds.hpp"

namespace segmax {

template <class Code, class Acc>
class SpanBounds {
public:
    SpanBounds(Context<Code, Acc>& context, const BlockBounds<Code, Acc>& blocks) : context_(context) {
        SpanBuffers& s = context.scratch.spans;
        num_tiles_ = level_row_bytes(context.index.num_spans()) * 2 / kTileBlocks;
        s.bounds.assign(num_tiles_ * kTileBlocks + 1, blocks.floor());
        s.tile_max.resize(num_tiles_);
        s.found.resize(s.bounds.size());
        tiles_.resize(num_tiles_);
        std::iota(tiles_.begin(), tiles_.end(), 0U);
        for (const std::uint32_t tile : tiles_) places_.push_back(tile * kTileBlocks);
        std::vector<const TermView<Code>*> heads;
        for (const auto& head : blocks.heads()) {
            if (!blocks.is_dropped(*head.term)) heads.push_back(head.term);
        }
        // The last stage first: what is there before a stage is added is what is left after it.
        constexpr std::size_t kStageHeads = BlockBounds<Code, Acc>::kStageHeads;
        rests_.resize(std::max<std::size_t>(1, (heads.size() + kStageHeads - 1) / kStageHeads));
        for (std::size_t stage = rests_.size(); stage-- > 0;) {
            rests_[stage] = s.bounds;
            std::vector<LevelRow> rows;
            const auto some = std::span(heads).subspan(std::min(stage * kStageHeads, heads.size()));
            for (const auto* term : some.first(std::min(kStageHeads, some.size()))) add_row(rows, *term, blocks);
            if (stage == 0) {
                for (const auto* term : blocks.tails()) {
                    if (blocks.is_dropped(*term)) continue;
                    if (term->span_max != nullptr) {
                        add_row(rows, *term, blocks);
                    } else {
                        add_entries(*term, blocks);
                    }
                }
            }
            context.kernel.add_levels(rows.data(), rows.size(), tiles_.data(), num_tiles_, places_.data(),
                                      s.bounds.data(), s.tile_max.data());
        }
    }

    /// By stage of BlockBounds::bound_stages and span: what later stages can add.
    std::span<const std::vector<std::uint16_t>> rests() const { return rests_; }

    /// The spans with at least this bound, ascending.
    std::span<std::uint32_t> collect(std::uint64_t least) {
        SpanBuffers& s = context_.scratch.spans;
        if (least > std::numeric_limits<std::uint16_t>::max()) return {};
        std::size_t found = context_.kernel.collect_blocks(s.bounds.data(), s.tile_max.data(), 0, num_tiles_,
                                                           static_cast<std::uint16_t>(least), s.found.data());
        while (found > 0 && s.found[found - 1] >= context_.index.num_spans()) --found;
        return {s.found.data(), found};
    }

    /// About the best `count` of them, not below `least`, ascending.
    std::span<std::uint32_t> best(std::size_t count, std::uint64_t least) {
        const SpanBuffers& s = context_.scratch.spans;
        std::uint64_t limit = *std::max_element(s.tile_max.begin(), s.tile_max.end());
        auto found = collect(std::max(limit, least));
        while (found.size() < count && limit > least) {
            limit = std::max(limit * 9 / 10, least);
            found = collect(limit);
        }
        if (found.size() <= count) return found;
        std::nth_element(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count), found.end(),
                         [&](std::uint32_t a, std::uint32_t b) {
                             return s.bounds[a] != s.bounds[b] ? s.bounds[a] > s.bounds[b] : a < b;
                         });
        found = found.first(count);
        std::sort(found.begin(), found.end());
        return found;
    }

private:
    void add_row(std::vector<LevelRow>& rows, const TermView<Code>& term, const BlockBounds<Code, Acc>& blocks) {
        rows.push_back(blocks.row_of(term, term.span_max));
        rows.back().run_start = context_.scratch.spans.found.data();  // nothing to look up after this
    }

    void add_entries(const TermView<Code>& term, const BlockBounds<Code, Acc>& blocks) {
        for (const EntryList<Code>& list : term.zones) {
            for (std::uint32_t i = 0; i < list.num_entries;) {
                const std::uint32_t span = block_of(list, i) / kSpanBlocks;
                Code most = 0;
                for (; i < list.num_entries && block_of(list, i) / kSpanBlocks == span; ++i) {
                    most = std::max(most, list.maxima[i]);
                }
                const std::size_t place = std::min<std::size_t>(span, num_tiles_ * kTileBlocks);
                std::uint16_t& bound = context_.scratch.spans.bounds[place];
                bound = static_cast<std::uint16_t>(bound + blocks.steps(std::uint64_t{term.weight} * most));
            }
        }
    }

    Context<Code, Acc>& context_;
    std::size_t num_tiles_ = 0;
    std::vector<std::uint32_t> tiles_, places_;
    std::vector<std::vector<std::uint16_t>> rests_;
};

}  // namespace segmax
