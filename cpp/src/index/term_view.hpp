// One term's part of the index, with lookups that never leave it, whatever the files contain.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/kernels.hpp"
#include "segmax/index/index.hpp"

namespace segmax {

/// The block of an entry, counted from the collection's first.
template <class Code>
std::uint32_t block_of(const EntryList<Code>& list, std::size_t entry) {
    return list.first_block + list.blocks[entry];
}

/// The bytes of a run.
struct Run {
    const std::uint8_t* bytes = nullptr;
    std::uint32_t size = 0;
};

template <class Code>
struct TermView {
    std::uint32_t term = 0;
    std::uint32_t weight = 0;
    std::uint32_t num_pairs = 0;
    std::uint32_t num_postings = 0;
    std::uint64_t first_pair = 0;
    std::span<const std::uint32_t> clusters;  ///< of its pairs, ascending; empty if wide
    const std::uint64_t* bits = nullptr;      ///< narrow: clusters that have a pair
    const std::uint32_t* rank = nullptr;      ///< narrow: pairs before each word of `bits`
    const Code* cluster_max = nullptr;        ///< by pair
    std::uint32_t num_segments = 1;
    const std::uint8_t* segment_max = nullptr;   ///< wide: levels, num_segments for each cluster
    const std::uint8_t* segment_mask = nullptr;  ///< narrow: by pair, the segments that have the term
    bool wide = false;
    bool head = false;
    Code largest = 0;
    const Code* levels = nullptr;  ///< of its rows; nullptr for a narrow tail term, which has none
    // head
    const std::uint8_t* quad_max = nullptr;
    const std::uint8_t* block_max = nullptr;
    const std::uint32_t* run_base = nullptr;
    const std::uint16_t* run_start = nullptr;
    const std::uint8_t* run_bytes = nullptr;
    std::uint64_t num_run_bytes = 0;
    const Code* segment_codes = nullptr;  ///< by pair, num_segments each; nullptr where the index has none
    // tail
    const std::uint16_t* pair_entry = nullptr;  ///< by pair, in its zone; nullptr where the index has none
    std::span<const EntryList<Code>> zones;
    std::uint64_t num_entries = 0;

    /// Points at a term of an index, `weight` being what a query gives it. `lists` has room for the entries of a tail
    /// term, one list per zone. It belongs to the caller and must live as long as the view is used, as must `index`.
    void open(const Index& index, std::uint32_t number, std::uint32_t query_weight, EntryList<Code>* lists) {
        assert(number < index.num_terms() && index.num_postings(number) > 0);
        const IndexArrays& a = index.arrays();
        const Index::Offsets& at = index.offsets(number);
        *this = TermView();
        term = number;
        weight = query_weight;
        num_pairs = static_cast<std::uint32_t>(index.num_pairs(number));
        num_postings = static_cast<std::uint32_t>(index.num_postings(number));
        first_pair = a.term_first_pair[number];
        cluster_max = index.codes<Code>(a.cluster_max) + first_pair;
        num_segments = index.num_segments();
        wide = index.is_wide(number);
        head = index.is_head(number);
        largest = static_cast<Code>(index.largest_code(number));
        if (wide) {
            segment_max = a.segment_max.data() + at.wide * Index::segment_row_bytes(index.num_clusters(), num_segments);
        } else {
            clusters = a.narrow_cluster.subspan(at.narrow, num_pairs);
            segment_mask = a.segment_mask.data() + at.narrow * segment_mask_bytes(num_segments);
        }
        if (!a.segment_code.empty()) {
            segment_codes = index.codes<Code>(a.segment_code) + first_pair * num_segments;
        }
        if (index.has_levels(number)) levels = index.codes<Code>(a.level) + at.levels * kNumLevels;
        if (head) {
            quad_max = a.quad_max.data() + at.head * level_row_bytes(index.num_quads());
            run_base = a.run_base.data() + at.head * Index::num_bases(index.num_spans());
            block_max = a.block_max.data() + at.head * index.num_spans() * kSpanBytes;
            run_start = a.run_start.data() + at.head * (index.num_spans() + 1);
            run_bytes = a.run_bytes.data() + a.term_first_byte[number];
            num_run_bytes = a.term_first_byte[number + 1] - a.term_first_byte[number];
        } else {
            if (!a.pair_entry.empty()) pair_entry = a.pair_entry.data() + at.start;
            open_zones(index, lists);
        }
    }

    /// The most that the term can add to a score.
    std::uint64_t most() const { return std::uint64_t{weight} * largest; }

    /// Whether the term occurs in a cluster.
    bool has(std::uint32_t cluster) const {
        return wide ? cluster_max[cluster] != 0 : ((bits[cluster / 64] >> (cluster % 64)) & 1) != 0;
    }

    /// The pair of a cluster that has() is true for.
    std::uint32_t pair(std::uint32_t cluster) const {
        assert(has(cluster));
        if (wide) return cluster;
        const std::uint64_t before = bits[cluster / 64] & ((std::uint64_t{1} << (cluster % 64)) - 1);
        return std::min(rank[cluster / 64] + static_cast<std::uint32_t>(std::popcount(before)), num_pairs - 1);
    }

    /// A head term's run in a span.
    Run run(std::uint32_t span) const {
        assert(head);
        const std::uint64_t start = std::min(run_place(span), num_run_bytes);
        const std::uint64_t end = std::min(run_place(span + 1), num_run_bytes);
        return {run_bytes + start, static_cast<std::uint32_t>(end > start ? end - start : 0)};
    }

    /// A head term's level in a block.
    std::uint32_t level(std::uint32_t block) const {
        assert(head);
        return level_in(block_max, block);
    }
    /// The largest code in a segment of a pair, where the index has it; else rounded up to a level where the term is
    /// wide, though not above the largest code of the cluster; where the term is narrow, that.
    std::uint32_t segment_code(std::uint32_t pair, std::uint32_t segment) const {
        assert(pair < num_pairs && segment < num_segments);
        if (num_segments == 1) return cluster_max[pair];
        if (segment_codes) return std::min(segment_codes[std::uint64_t{pair} * num_segments + segment], largest);
        if (wide) {
            const std::uint64_t place = std::uint64_t{pair} * num_segments + segment;
            return std::min(code_of(level_in(segment_max, place)), cluster_max[pair]);
        }
        const std::uint8_t* mask = segment_mask + std::size_t{pair} * segment_mask_bytes(num_segments);
        return (mask[segment / 8] >> (segment % 8) & 1) != 0 ? cluster_max[pair] : Code{0};
    }

    /// The code of a level. A damaged level must not pass the largest code, which sums were made to fit.
    Code code_of(std::uint32_t level) const { return std::min(levels[level], largest); }

    /// Calls visit(list, first, end) with the entries of a tail term in the blocks [first_block, end_block), zone by
    /// zone.
    template <class Visit>
    void each_entries(std::uint32_t first_block, std::uint32_t end_block, Visit visit) const {
        for (std::uint32_t zone = first_block / kZoneBlocks; zone < zones.size(); ++zone) {
            const EntryList<Code>& list = zones[zone];
            if (list.first_block >= end_block) return;
            const std::uint32_t first = first_entry(list, first_block);
            const std::uint32_t end = first_entry(list, end_block);
            if (first < end) visit(list, first, end);
        }
    }

    /// Calls visit(position, code) for the term's documents in [first, end), ascending; both are multiples of
    /// kBlockDocs.
    template <class Visit>
    void each_posting(Position first, Position end, Visit visit) const {
        assert(first % kBlockDocs == 0 && end % kBlockDocs == 0);
        if (head) {
            for (std::uint32_t span = first / kSpanDocs; std::uint64_t{span} * kSpanDocs < end; ++span) {
                each_in_run(span, first, end, visit);
            }
        } else {
            each_in_entries(first / kBlockDocs, end / kBlockDocs, visit);
        }
    }

    /// The code of the document at a position; 0 where it lacks the term.
    std::uint32_t code_at(Position position) const {
        std::uint32_t found = 0;
        const Position block = position / kBlockDocs * kBlockDocs;
        each_posting(block, block + kBlockDocs, [&](Position at, Code code) { found = at == position ? code : found; });
        return found;
    }

private:
    void open_zones(const Index& index, EntryList<Code>* lists) {
        const IndexArrays& a = index.arrays();
        const auto first = index.zone_entries(term);
        const std::uint32_t* group_start = a.group_start.data() + index.offsets(term).group;
        const Code* codes = index.codes<Code>(a.entry_code) + index.offsets(term).code;
        for (std::uint32_t zone = 0; zone < index.num_zones(); ++zone) {
            const std::uint64_t count = first[zone + 1] - first[zone];
            lists[zone] = {a.entry_block.data() + first[zone],
                           index.codes<Code>(a.entry_max) + first[zone],
                           a.entry_mask.data() + first[zone],
                           group_start,
                           codes,
                           static_cast<std::uint32_t>(count),
                           num_postings,
                           zone * kZoneBlocks};
            group_start += Index::groups_of(count);
        }
        zones = {lists, index.num_zones()};
        num_entries = first.back() - first.front();
    }

    /// The first entry of a list at a block or behind it.
    static std::uint32_t first_entry(const EntryList<Code>& list, std::uint32_t block) {
        if (block <= list.first_block) return 0;
        if (block - list.first_block >= kZoneBlocks) return list.num_entries;
        const auto* end = list.blocks + list.num_entries;
        return static_cast<std::uint32_t>(std::lower_bound(list.blocks, end, block - list.first_block) - list.blocks);
    }

    std::uint64_t run_place(std::uint32_t span) const {
        return std::uint64_t{run_base[span / kBaseSpans]} + run_start[span];
    }

    static std::uint32_t level_in(const std::uint8_t* row, std::uint64_t place) {
        const auto inside = static_cast<std::uint32_t>(place % kSpanBlocks);
        const std::uint8_t byte = row[place / kSpanBlocks * kSpanBytes + inside % kSpanBytes];
        return (byte >> (inside / kSpanBytes * 4)) & 15U;
    }

    static Code code_in(const std::uint8_t* codes, std::size_t i) {
        Code code;
        std::memcpy(&code, codes + i * sizeof(Code), sizeof(Code));
        return code;
    }

    template <class Visit>
    void each_in_run(std::uint32_t span, Position first, Position end, Visit visit) const {
        const Run part = run(span);
        const Position base = span * kSpanDocs;
        const auto offer = [&](Position place, Code code) {
            if (base + place >= first && base + place < end) visit(base + place, code);
        };
        if (part.size <= kMaxListed * (1 + sizeof(Code))) {
            const std::size_t size = part.size / (1 + sizeof(Code));
            for (std::size_t i = 0; i < size; ++i) offer(part.bytes[i], code_in(part.bytes + size, i));
            return;
        }
        const std::size_t size = (part.size - kSpanBlocks) / sizeof(Code);
        std::size_t rank_in_run = 0;
        for (std::uint32_t word = 0; word < kSpanDocs / 64; ++word) {
            std::uint64_t bits;
            std::memcpy(&bits, part.bytes + word * sizeof(bits), sizeof(bits));  // little endian
            for (; bits != 0 && rank_in_run < size; bits &= bits - 1) {
                offer(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)),
                      code_in(part.bytes + kSpanBlocks, rank_in_run++));
            }
        }
    }

    template <class Visit>
    void each_in_entries(std::uint32_t first_block, std::uint32_t end_block, Visit visit) const {
        each_entries(first_block, end_block, [&](const EntryList<Code>& list, std::uint32_t entry, std::uint32_t end) {
            std::uint64_t code = list.group_start[entry / kGroupEntries];
            for (std::uint32_t e = entry / kGroupEntries * kGroupEntries; e < entry; ++e) {
                code += static_cast<std::uint64_t>(std::popcount(list.masks[e]));
            }
            for (; entry < end; ++entry) {
                for (std::uint32_t mask = list.masks[entry]; mask != 0; mask &= mask - 1, ++code) {
                    // A block outside the range can only be damage.
                    const bool inside = block_of(list, entry) >= first_block && block_of(list, entry) < end_block;
                    if (code >= list.num_codes || !inside) continue;
                    const auto place = static_cast<std::uint32_t>(std::countr_zero(mask));
                    visit(block_of(list, entry) * kBlockDocs + place, list.codes[code]);
                }
            }
        });
    }
};

}  // namespace segmax
