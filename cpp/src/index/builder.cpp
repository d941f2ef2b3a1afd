// One pass to count, one to fill; clusters in order, so every list comes out sorted by position.
#include "segmax/index/builder.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "segmax/base/interrupt.hpp"

namespace segmax {

namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFU;

template <class Code>
class ArrayBuilder {
public:
    ArrayBuilder(const CodedDocs<Code>& docs, std::span<const std::uint32_t> cluster_first, std::span<const Row> rows,
                 std::span<const std::uint32_t> segments, std::uint32_t num_segments, const StopCheck& stop)
        : docs_(docs),
          cluster_first_(cluster_first),
          rows_(rows),
          segments_(segments),
          num_segments_(num_segments),
          stop_(stop) {}

    BuiltArrays<Code> build() {
        lay_out_chunks();
        count();
        allocate();
        for (std::uint32_t cluster = 0; cluster < num_clusters(); ++cluster) fill_cluster(cluster);
        finish_wide_runs();
        find_seed_codes();
        return std::move(out_);
    }

private:
    std::uint32_t num_clusters() const { return static_cast<std::uint32_t>(cluster_first_.size() - 1); }
    std::uint32_t num_chunks() const { return static_cast<std::uint32_t>(out_.chunk_num_docs.size()); }
    std::uint32_t num_blocks() const { return static_cast<std::uint32_t>(out_.position_row.size()) / kBlockDocs; }

    void check_stop() const {
        if (stop_ && stop_()) throw Interrupted();
    }

    template <class Visit>
    void each_posting(Row row, Visit visit) const {
        const auto begin = static_cast<std::size_t>(docs_.indptr[row]);
        const auto end = static_cast<std::size_t>(docs_.indptr[row + 1]);
        for (std::size_t i = begin; i < end; ++i) visit(docs_.terms[i], docs_.codes[i]);
    }

    void lay_out_chunks() {
        std::vector<std::uint32_t> first_chunk{0};
        std::vector<std::uint32_t> starts;
        std::vector<std::uint32_t> sizes;
        std::uint64_t position = 0;
        for (std::uint32_t cluster = 0; cluster < num_clusters(); ++cluster) {
            std::uint32_t left = cluster_first_[cluster + 1] - cluster_first_[cluster];
            while (left > 0) {
                const auto room = static_cast<std::uint32_t>(kWindowDocs - position % kWindowDocs);
                const std::uint32_t size = std::min({left, room, kMaxChunkDocs});
                starts.push_back(static_cast<std::uint32_t>(position));
                sizes.push_back(size);
                position += std::uint64_t{blocks_of(size)} * kBlockDocs;
                left -= size;
            }
            first_chunk.push_back(static_cast<std::uint32_t>(starts.size()));
        }
        if (position >= kNoRow) throw std::length_error("the collection is too large: 4,294,967,294 places at most");
        starts.push_back(static_cast<std::uint32_t>(position));
        copy(first_chunk, out_.cluster_first_chunk);
        copy(starts, out_.chunk_first_position);
        copy(sizes, out_.chunk_num_docs);
        out_.position_row.assign(position);
        std::fill_n(out_.position_row.data(), position, kNoRow);
        std::size_t at = 0;
        for (std::size_t chunk = 0; chunk < sizes.size(); ++chunk) {
            for (std::uint32_t i = 0; i < sizes[chunk]; ++i) out_.position_row[starts[chunk] + i] = rows_[at++];
        }
    }

    template <class T>
    static void copy(const std::vector<T>& from, PaddedVector<T>& to) {
        to.assign(from.size());
        std::copy(from.begin(), from.end(), to.data());
    }

    std::uint32_t chunks_in(std::uint32_t cluster) {
        return out_.cluster_first_chunk[cluster + 1] - out_.cluster_first_chunk[cluster];
    }

    void count() {
        out_.term_first_pair.assign(docs_.num_terms + std::size_t{1});
        out_.term_first_posting.assign(docs_.num_terms + std::size_t{1});
        last_cluster_.assign(docs_.num_terms, kNone);
        for (std::uint32_t cluster = 0; cluster < num_clusters(); ++cluster) {
            for (std::uint32_t i = cluster_first_[cluster]; i < cluster_first_[cluster + 1]; ++i) {
                each_posting(rows_[i], [&](std::uint32_t term, Code) {
                    ++out_.term_first_posting[term + 1];
                    if (last_cluster_[term] == cluster) return;
                    last_cluster_[term] = cluster;
                    out_.term_first_pair[term + 1] += chunks_in(cluster);
                });
            }
            check_stop();
        }
        wide_.resize(docs_.num_terms);
        for (std::size_t term = 0; term < docs_.num_terms; ++term) {
            std::uint64_t& pairs = out_.term_first_pair[term + 1];
            wide_[term] = Index::wide(pairs, num_chunks());
            pairs = (wide_[term] ? num_chunks() : pairs) + out_.term_first_pair[term];
            out_.term_first_posting[term + 1] += out_.term_first_posting[term];
        }
    }

    void allocate() {
        const std::size_t terms = docs_.num_terms;
        const std::uint64_t pairs = out_.term_first_pair[terms];
        const std::uint64_t postings = out_.term_first_posting[terms];
        std::uint64_t narrow_pairs = 0;
        std::uint64_t block_codes = 0;
        narrow_offset_.resize(terms);
        block_offset_.resize(terms);
        for (std::size_t term = 0; term < terms; ++term) {
            narrow_offset_[term] = narrow_pairs;
            block_offset_[term] = block_codes;
            narrow_pairs += wide_[term] ? 0 : out_.term_first_pair[term + 1] - out_.term_first_pair[term];
            block_codes += is_head(term) ? num_blocks() : 0;
        }
        out_.narrow_chunk.assign(narrow_pairs);
        out_.run_start.assign(pairs);
        out_.cluster_max.assign(pairs);
        out_.segment_max.assign(pairs * num_segments_);
        sum_bytes_ = Index::sum_bytes(num_segments_, sizeof(Code));
        out_.segment_sum.assign(pairs * sum_bytes_);
        out_.block_max.assign(block_codes);
        out_.posting_id.assign(postings);
        out_.posting_code.assign(postings);
        pair_of_.assign(terms, 0);
        num_filled_pairs_.assign(terms, 0);
        num_filled_postings_.assign(terms, 0);
        last_cluster_.assign(terms, kNone);
    }

    bool is_head(std::size_t term) {
        return Index::head(out_.term_first_posting[term + 1] - out_.term_first_posting[term], num_blocks());
    }

    void fill_cluster(std::uint32_t cluster) {
        touched_.clear();
        const std::uint32_t first = out_.cluster_first_chunk[cluster];
        const std::uint32_t end = out_.cluster_first_chunk[cluster + 1];
        for (std::uint32_t chunk = first; chunk < end; ++chunk) {
            // A term seen in an earlier chunk of this cluster: its run in this chunk starts where the list is now.
            for (const std::uint32_t term : touched_) {
                out_.run_start[pair_of_[term] + (chunk - first)] = num_filled_postings_[term];
            }
            fill_chunk(cluster, chunk);
        }
        for (const std::uint32_t term : touched_) finish_pairs(term, end - first);
        check_stop();
    }

    void fill_chunk(std::uint32_t cluster, std::uint32_t chunk) {
        const std::uint32_t first = out_.cluster_first_chunk[cluster];
        const std::uint32_t end = out_.cluster_first_chunk[cluster + 1];
        const Position start = out_.chunk_first_position[chunk];
        for (std::uint32_t i = 0; i < out_.chunk_num_docs[chunk]; ++i) {
            const Position position = start + i;
            const Row row = out_.position_row[position];
            const std::uint32_t segment = segments_[row];
            each_posting(row, [&](std::uint32_t term, Code code) {
                if (last_cluster_[term] != cluster) {
                    last_cluster_[term] = cluster;
                    open_pairs(term, first, end);
                }
                Code& best = out_.segment_max[pair_of_[term] * num_segments_ + segment];
                best = std::max(best, code);
                if (is_head(term)) {
                    Code& block = out_.block_max[block_offset_[term] + position / kBlockDocs];
                    block = std::max(block, code);
                }
                const std::uint64_t at = out_.term_first_posting[term] + num_filled_postings_[term]++;
                out_.posting_id[at] = static_cast<std::uint16_t>(position);
                out_.posting_code[at] = code;
            });
        }
    }

    /// Gives the term its pairs for the chunks of a new cluster.
    void open_pairs(std::uint32_t term, std::uint32_t first, std::uint32_t end) {
        const std::uint64_t slot = wide_[term] ? first : num_filled_pairs_[term];
        pair_of_[term] = out_.term_first_pair[term] + slot;
        for (std::uint32_t chunk = first; chunk < end; ++chunk) {
            out_.run_start[pair_of_[term] + (chunk - first)] = num_filled_postings_[term];
            if (!wide_[term]) out_.narrow_chunk[narrow_offset_[term] + slot + (chunk - first)] = chunk;
        }
        num_filled_pairs_[term] += end - first;
        touched_.push_back(term);
    }

    /// Every chunk of a cluster carries the cluster's maxima, so that a pair serves both its run and its bounds.
    void finish_pairs(std::uint32_t term, std::uint32_t num_chunks) {
        const std::uint64_t pair = pair_of_[term];
        const Code* segments = out_.segment_max.data() + pair * num_segments_;
        const Code best = *std::max_element(segments, segments + num_segments_);
        std::uint32_t sum = 0;
        for (std::uint32_t s = 0; s < num_segments_; ++s) sum += segments[s];
        for (std::uint32_t i = 0; i < num_chunks; ++i) {
            out_.cluster_max[pair + i] = best;
            std::memcpy(out_.segment_sum.data() + (pair + i) * sum_bytes_, &sum, sum_bytes_);  // little endian
            if (i > 0) std::copy_n(segments, num_segments_, out_.segment_max.data() + (pair + i) * num_segments_);
        }
    }

    /// A chunk that a wide term does not occur in has an empty run: it starts where the next one does.
    void finish_wide_runs() {
        for (std::size_t term = 0; term < docs_.num_terms; ++term) {
            if (!wide_[term]) continue;
            std::uint32_t next = num_filled_postings_[term];
            for (std::uint64_t pair = out_.term_first_pair[term + 1]; pair-- > out_.term_first_pair[term];) {
                if (out_.cluster_max[pair] == 0) out_.run_start[pair] = next;
                next = out_.run_start[pair];
            }
        }
    }

    /// The code at each of kSeedRanks in descending order; 0 where the list is shorter.
    void find_seed_codes() {
        out_.term_seed_code.assign(docs_.num_terms * kNumSeedRanks);
        for (std::size_t term = 0; term < docs_.num_terms; ++term) {
            const auto codes = out_.posting_code.view().subspan(
                out_.term_first_posting[term], out_.term_first_posting[term + 1] - out_.term_first_posting[term]);
            std::vector<Code> largest(std::min<std::size_t>(codes.size(), kSeedRanks[kNumSeedRanks - 1]));
            std::partial_sort_copy(codes.begin(), codes.end(), largest.begin(), largest.end(), std::greater<>());
            for (std::size_t r = 0; r < kNumSeedRanks; ++r) {
                out_.term_seed_code[term * kNumSeedRanks + r] =
                    kSeedRanks[r] <= largest.size() ? largest[kSeedRanks[r] - 1] : Code{0};
            }
        }
    }

    const CodedDocs<Code>& docs_;
    std::span<const std::uint32_t> cluster_first_;
    std::span<const Row> rows_;
    std::span<const std::uint32_t> segments_;
    std::uint32_t num_segments_;
    std::uint32_t sum_bytes_ = 2;
    const StopCheck& stop_;
    BuiltArrays<Code> out_;
    std::vector<std::uint64_t> narrow_offset_, block_offset_;
    std::vector<std::uint64_t> pair_of_;  // the term's first pair in the cluster being filled
    std::vector<bool> wide_;
    std::vector<std::uint32_t> num_filled_pairs_, num_filled_postings_, last_cluster_, touched_;
};

}  // namespace

template <class Code>
BuiltArrays<Code> build_arrays(const CodedDocs<Code>& docs, std::span<const std::uint32_t> cluster_first,
                               std::span<const Row> rows, std::span<const std::uint32_t> segments,
                               std::uint32_t num_segments, const StopCheck& stop) {
    return ArrayBuilder<Code>(docs, cluster_first, rows, segments, num_segments, stop).build();
}

template BuiltArrays<std::uint8_t> build_arrays(const CodedDocs<std::uint8_t>&, std::span<const std::uint32_t>,
                                                std::span<const Row>, std::span<const std::uint32_t>, std::uint32_t,
                                                const StopCheck&);
template BuiltArrays<std::uint16_t> build_arrays(const CodedDocs<std::uint16_t>&, std::span<const std::uint32_t>,
                                                 std::span<const Row>, std::span<const std::uint32_t>, std::uint32_t,
                                                 const StopCheck&);

}  // namespace segmax
