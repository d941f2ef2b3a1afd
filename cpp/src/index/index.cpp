#include "segmax/index/index.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>

#include "segmax/base/errors.hpp"

namespace segmax {

namespace {

void require(bool condition, const char* what) {
    if (!condition) throw FormatError(std::string("the index is damaged: ") + what + "; rebuild it or restore a copy");
}

template <class T>
bool is_ascending_from_zero(std::span<const T> offsets) {
    return !offsets.empty() && offsets.front() == 0 && std::is_sorted(offsets.begin(), offsets.end());
}

std::uint64_t next_serial() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
}

}  // namespace

Index::Index(const IndexArrays& arrays) : arrays_(arrays), serial_(next_serial()) {
    check_tables();
    check_terms();
    derive_rows();
}

// Counts and offsets come from files that may be damaged or forged. Every check below guards a later access or
// multiplication; values are compared in an order in which nothing can overflow.
void Index::check_tables() {
    const auto& a = arrays_;
    require(a.num_segments >= 1, "it has no segments");
    require(a.code_bytes == 1 || a.code_bytes == 2, "codes are neither 8 nor 16 bits wide");
    require(a.head_ratio >= 1 && a.head_ratio <= kMaxHeadRatio, "head_ratio is impossible");
    require(is_ascending_from_zero(a.cluster_first_position), "cluster_first_position does not ascend from 0");
    num_clusters_ = static_cast<std::uint32_t>(a.cluster_first_position.size() - 1);
    num_positions_ = a.cluster_first_position.back();
    require(a.cluster_num_docs.size() == num_clusters_, "cluster_num_docs has the wrong length");
    require(a.position_row.size() == num_positions_, "position_row has the wrong length");
    require(a.num_docs <= num_positions_, "it has more documents than positions");
    for (std::uint32_t cluster = 0; cluster < num_clusters_; ++cluster) {
        const std::uint64_t docs = cluster_num_docs(cluster);
        const std::uint32_t places = end_position(cluster) - first_position(cluster);
        require(docs >= 1 && docs <= places && places == blocks_of(cluster_num_docs(cluster)) * kBlockDocs,
                "a cluster has an impossible size or place");
        while (tile_first_cluster_.size() * kTileDocs < end_position(cluster)) tile_first_cluster_.push_back(cluster);
    }
    tile_first_cluster_.push_back(num_clusters_ - (num_clusters_ > 0 ? 1 : 0));
}

void Index::check_terms() {
    const auto& a = arrays_;
    const std::size_t terms = a.num_terms;
    require(is_ascending_from_zero(a.term_first_pair) && a.term_first_pair.size() == terms + 1,
            "term_first_pair does not ascend from 0, or has the wrong length");
    require(is_ascending_from_zero(a.term_first_posting) && a.term_first_posting.size() == terms + 1,
            "term_first_posting does not ascend from 0, or has the wrong length");
    require(a.term_scale.size() == terms, "term_scale has the wrong length");
    require(is_ascending_from_zero(a.term_first_byte) && a.term_first_byte.size() == terms + 1,
            "term_first_byte does not ascend from 0, or has the wrong length");
    require(is_ascending_from_zero(a.term_first_entry) && a.term_first_entry.size() == terms * num_zones() + 1,
            "term_first_entry does not ascend from 0, or has the wrong length");
    // Arrays without offsets of their own follow the rules of layout: counting along gives each term its place.
    offsets_.resize(terms);
    Offsets at;
    const std::uint64_t width = a.code_bytes;
    for (std::uint32_t term = 0; term < terms; ++term) {
        const std::uint64_t pairs = num_pairs(term);
        const std::uint64_t postings = num_postings(term);
        const std::uint64_t bytes = a.term_first_byte[term + 1] - a.term_first_byte[term];
        const std::uint64_t entries = num_entries(term);
        require(pairs <= num_clusters_, "a term has more pairs than there are clusters");
        require(postings <= num_docs(), "a term has more postings than there are documents");
        require((pairs == 0) == (postings == 0), "a term has postings but no pairs, or the reverse");
        require(is_head(term) ? entries == 0 && bytes <= postings * (1 + width) : bytes == 0,
                "a term has runs or entries that do not fit its postings");
        require(is_head(term) || (entries <= postings && entries * kBlockDocs >= postings),
                "a term has runs or entries that do not fit its postings");
        require(a.term_scale[term] > 0 && std::isfinite(a.term_scale[term]), "a term's scale is not a positive number");
        offsets_[term] = at;
        at.narrow += is_wide(term) ? 0 : pairs;
        at.head += is_head(term) ? 1 : 0;
        at.wide += is_wide(term) ? 1 : 0;
        at.levels += has_levels(term) ? 1 : 0;
        const auto zones = zone_entries(term);
        for (std::size_t zone = 0; zone < num_zones(); ++zone) at.group += groups_of(zones[zone + 1] - zones[zone]);
        at.code += is_head(term) ? 0 : postings;
        at.start += is_head(term) ? 0 : pairs;
    }
    const std::uint64_t pairs = a.term_first_pair.back();
    const std::uint64_t entries = a.term_first_entry.back();
    require(a.narrow_cluster.size() == at.narrow, "narrow_cluster has the wrong length");
    require(a.term_top_code.size() == terms * kNumTopRanks * width, "term_top_code has the wrong length");
    require(a.cluster_max.size() == pairs * width, "cluster_max has the wrong length");
    const std::uint64_t segment_bytes = segment_row_bytes(num_clusters_, a.num_segments);
    require(a.segment_max.size() == at.wide * segment_bytes, "segment_max has the wrong length");
    require(a.segment_mask.size() == at.narrow * segment_mask_bytes(a.num_segments),
            "segment_mask has the wrong length");
    require(a.level.size() == at.levels * kNumLevels * width, "level has the wrong length");
    require(a.quad_max.size() == at.head * level_row_bytes(num_quads()), "quad_max has the wrong length");
    require(a.block_max.size() == at.head * num_spans() * kSpanBytes, "block_max has the wrong length");
    require(a.run_base.size() == at.head * num_bases(num_spans()), "run_base has the wrong length");
    require(a.run_start.size() == at.head * (num_spans() + 1), "run_start has the wrong length");
    require(a.run_bytes.size() == a.term_first_byte.back(), "run_bytes has the wrong length");
    require(a.entry_block.size() == entries && a.entry_max.size() == entries * width && a.entry_mask.size() == entries,
            "the entries have the wrong length");
    require(a.group_start.size() == at.group, "group_start has the wrong length");
    require(a.entry_code.size() == at.code * width, "entry_code has the wrong length");
    require(a.pair_entry.empty() || a.pair_entry.size() == at.start, "pair_entry has the wrong length");
    require(a.segment_code.empty() || (a.segment_code.size() / width / a.num_segments == pairs &&
                                       a.segment_code.size() % (width * a.num_segments) == 0),
            "segment_code has the wrong length");
}

/// Every row must be at exactly one position, holes only behind the documents of a cluster: results name rows, and
/// ties are decided by the smallest row of a cluster.
void Index::derive_rows() {
    cluster_min_row_.assign(num_clusters_, kNoRow);
    std::vector<bool> seen(num_docs(), false);
    std::uint32_t docs = 0;
    for (std::uint32_t cluster = 0; cluster < num_clusters_; ++cluster) {
        for (Position position = first_position(cluster); position < end_position(cluster); ++position) {
            const Row row = row_at(position);
            require((row == kNoRow) == (position - first_position(cluster) >= cluster_num_docs(cluster)),
                    "position_row has a hole in the wrong place");
            if (row == kNoRow) continue;
            require(row < num_docs() && !seen[row], "position_row names a row twice or one that does not exist");
            seen[row] = true;
            ++docs;
            cluster_min_row_[cluster] = std::min(cluster_min_row_[cluster], row);
        }
    }
    require(docs == num_docs(), "position_row does not name every row");
}

std::uint32_t Index::cluster_of(Position position) const {
    // Clusters that start in the tile, and the one before them.
    const auto& starts = arrays_.cluster_first_position;
    const std::uint32_t tile = position / kTileDocs;
    const auto begin = starts.begin() + tile_first_cluster_[tile];
    const auto end = starts.begin() + tile_first_cluster_[tile + 1] + 1;
    return static_cast<std::uint32_t>(std::upper_bound(begin, end, position) - starts.begin()) - 1;
}

}  // namespace segmax
