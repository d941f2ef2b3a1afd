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

void Index::check_tables() {
    const auto& a = arrays_;
    require(a.num_segments >= 1, "it has no segments");
    require(a.code_bytes == 1 || a.code_bytes == 2, "codes are neither 8 nor 16 bits wide");
    require(a.head_ratio >= 1 && a.head_ratio <= kMaxHeadRatio, "head_ratio is impossible");
    require(is_ascending_from_zero(a.cluster_first_chunk), "cluster_first_chunk does not ascend from 0");
    require(is_ascending_from_zero(a.chunk_first_position), "chunk_first_position does not ascend from 0");
    num_clusters_ = static_cast<std::uint32_t>(a.cluster_first_chunk.size() - 1);
    num_chunks_ = static_cast<std::uint32_t>(a.chunk_first_position.size() - 1);
    require(a.cluster_first_chunk.back() == num_chunks_, "clusters and chunks do not match");
    require(a.chunk_num_docs.size() == num_chunks_, "chunk_num_docs has the wrong length");
    require(a.position_row.size() == a.chunk_first_position.back(), "position_row has the wrong length");
    num_positions_ = static_cast<std::uint32_t>(a.position_row.size());
    require(num_positions_ % kBlockDocs == 0, "the clustered order does not end with a whole block");
    chunk_cluster_.resize(num_chunks_);
    for (std::uint32_t cluster = 0; cluster < num_clusters_; ++cluster) {
        require(end_chunk(cluster) > first_chunk(cluster), "a cluster has no chunk");
        for (std::uint32_t c = first_chunk(cluster); c < end_chunk(cluster); ++c) chunk_cluster_[c] = cluster;
    }
    for (std::uint32_t chunk = 0; chunk < num_chunks_; ++chunk) {
        const Position first = chunk_position(chunk);
        const std::uint32_t places = chunk_position(chunk + 1) - first;
        const std::uint32_t docs = chunk_num_docs(chunk);
        require(first % kBlockDocs == 0 && docs >= 1 && docs <= kMaxChunkDocs &&
                    places == blocks_of(docs) * kBlockDocs && first % kWindowDocs + places <= kWindowDocs,
                "a chunk has an impossible size or place");
        if (first % kWindowDocs == 0) window_first_chunk_.push_back(chunk);
    }
    window_first_chunk_.push_back(num_chunks_);
}

void Index::check_terms() {
    const auto& a = arrays_;
    sum_bytes_ = sum_bytes(a.num_segments, a.code_bytes);
    const std::size_t terms = a.num_terms;
    require(is_ascending_from_zero(a.term_first_pair) && a.term_first_pair.size() == terms + 1,
            "term_first_pair does not ascend from 0, or has the wrong length");
    require(is_ascending_from_zero(a.term_first_posting) && a.term_first_posting.size() == terms + 1,
            "term_first_posting does not ascend from 0, or has the wrong length");
    require(a.term_scale.size() == terms, "term_scale has the wrong length");
    narrow_offset_.resize(terms);
    block_max_offset_.resize(terms);
    std::uint64_t narrow_pairs = 0;
    std::uint64_t blocks = 0;
    for (std::uint32_t term = 0; term < terms; ++term) {
        const std::uint64_t pairs = num_pairs(term);
        require(pairs <= num_chunks_, "a term has more pairs than there are chunks");
        require(num_postings(term) <= num_docs(), "a term has more postings than there are documents");
        require((pairs == 0) == (num_postings(term) == 0), "a term has postings but no pairs, or the reverse");
        narrow_offset_[term] = narrow_pairs;
        block_max_offset_[term] = blocks;
        narrow_pairs += is_wide(term) ? 0 : pairs;
        blocks += is_head(term) ? num_blocks() : 0;
        require(a.term_scale[term] > 0 && std::isfinite(a.term_scale[term]), "a term's scale is not a positive number");
    }
    const std::uint64_t pairs = a.term_first_pair.back();
    const std::uint64_t postings = a.term_first_posting.back();
    const std::uint64_t width = a.code_bytes;
    require(a.narrow_chunk.size() == narrow_pairs, "narrow_chunk has the wrong length");
    require(a.term_seed_code.size() == terms * kNumSeedRanks * width, "term_seed_code has the wrong length");
    require(a.run_start.size() == pairs, "run_start has the wrong length");
    require(a.cluster_max.size() == pairs * width, "cluster_max has the wrong length");
    require(a.segment_max.size() / width / a.num_segments == pairs &&
                a.segment_max.size() == pairs * a.num_segments * width,
            "segment_max has the wrong length");
    require(a.segment_sum.size() == pairs * sum_bytes_, "segment_sum has the wrong length");
    require(a.block_max.size() == blocks * width, "block_max has the wrong length");
    require(a.posting_id.size() == postings && a.posting_code.size() == postings * width,
            "the postings have the wrong length");
}

void Index::derive_rows() {
    block_min_row_.assign(num_blocks(), kNoRow);
    cluster_min_row_.assign(num_clusters_, kNoRow);
    std::vector<bool> seen(num_docs(), false);
    std::uint32_t docs = 0;
    for (std::uint32_t chunk = 0; chunk < num_chunks_; ++chunk) {
        const std::uint32_t cluster = chunk_cluster_[chunk];
        for (std::uint32_t i = 0; i < chunk_position(chunk + 1) - chunk_position(chunk); ++i) {
            const Position position = chunk_position(chunk) + i;
            const Row row = row_at(position);
            require((row == kNoRow) == (i >= chunk_num_docs(chunk)), "position_row has a hole in the wrong place");
            if (row == kNoRow) continue;
            require(row < num_docs() && !seen[row], "position_row names a row twice or one that does not exist");
            seen[row] = true;
            ++docs;
            block_min_row_[position / kBlockDocs] = std::min(block_min_row_[position / kBlockDocs], row);
            cluster_min_row_[cluster] = std::min(cluster_min_row_[cluster], row);
        }
    }
    require(docs == num_docs(), "position_row does not name every row");
}

std::uint32_t Index::chunk_of(Position position) const {
    const auto& starts = arrays_.chunk_first_position;
    const auto after = std::upper_bound(starts.begin(), starts.end(), position);
    return static_cast<std::uint32_t>(after - starts.begin()) - 1;
}

}  // namespace segmax
