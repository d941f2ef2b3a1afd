// What an index accepts, how documents are laid out in it, and whether its maxima are those of the documents.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.hpp"
#include "index/levels.hpp"
#include "make_index.hpp"
#include "segmax/base/errors.hpp"
#include "segmax/base/interrupt.hpp"
#include "segmax/index/documents.hpp"
#include "segmax/index/project.hpp"
#include "segmax/search/search.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

/// Many clusters and terms of every kind: wide and narrow, head and tail.
template <class Code>
Collection<Code> mixed_collection() {
    return random_collection<Code>({.docs = 1500,
                                    .terms = 150,
                                    .clusters = 30,
                                    .segments = 5,
                                    .terms_per_doc = 6,
                                    .largest_code = std::numeric_limits<Code>::max(),
                                    .head_ratio = 1});
}

template <class T>
std::span<const T> shorter(std::span<const T> array, std::size_t by) {
    return array.first(array.size() - by);
}

template <class T>
std::span<const T> longer(std::span<const T> array, std::size_t by) {
    return {array.data(), array.size() + by};
}

using Change = std::function<void(IndexArrays&)>;

/// The same change to the length of every array, by one element each.
template <class Code, class Resize>
std::vector<std::pair<const char*, Change>> resized_arrays(const Parts<Code>& parts, Resize resize) {
    std::vector<std::pair<const char*, Change>> changes;
    IndexArrays view = parts.view();
    const auto add = [&]<class T, class To>(const char* name, const PaddedVector<T>&, std::span<const To>& array) {
        const auto at = reinterpret_cast<std::byte*>(&array) - reinterpret_cast<std::byte*>(&view);
        const std::size_t step = sizeof(T) / sizeof(To);
        changes.emplace_back(name, [=](IndexArrays& arrays) {
            auto& target = *reinterpret_cast<std::span<const To>*>(reinterpret_cast<std::byte*>(&arrays) + at);
            target = resize(target, step);
        });
    };
    each_array(parts.built, view, add);
    return changes;
}

/// Checks that an index with changed contents is rejected.
template <class Code>
void check_rejected(const Parts<Code>& whole, const char* what, const std::function<void(Parts<Code>&)>& change) {
    NOTE(what);
    Parts<Code> parts = whole;
    change(parts);
    CHECK_THROWS(Index(parts.view()), FormatError);
}

/// A collection of clusters of the given sizes in which terms are few and most documents have two.
Collection<std::uint8_t> large_collection(const std::vector<std::uint32_t>& sizes) {
    Collection<std::uint8_t> made;
    made.num_terms = 8;
    made.num_segments = 3;
    Random random(31);
    std::vector<std::uint32_t> labels;
    for (std::uint32_t cluster = 0; cluster < sizes.size(); ++cluster)
        labels.insert(labels.end(), sizes[cluster], cluster);
    std::shuffle(labels.begin(), labels.end(), random);
    for (std::uint32_t d = 0; d < labels.size(); ++d) {
        made.add_entry(d % 3, static_cast<std::uint8_t>(draw(random, 1, 255)));
        if (d % 7 != 0) made.add_entry(3 + labels[d] % 4, static_cast<std::uint8_t>(draw(random, 1, 255)));
        if (d % 9973 == 0) made.add_entry(7, static_cast<std::uint8_t>(1 + d % 5));
        made.end_document(labels[d], d % 3);
    }
    return made;
}

/// Checks that clusters start at blocks, and that every document lies at exactly one position, in its own cluster.
template <class Code>
void check_layout(const Indexed<Code>& made) {
    const Index& index = made.index;
    std::vector<std::uint32_t> times_found(made.docs.num_docs(), 0);
    Position next = 0;
    for (std::uint32_t cluster = 0; cluster < index.num_clusters(); ++cluster) {
        const Position first = index.first_position(cluster);
        const std::uint32_t docs = index.cluster_num_docs(cluster);
        CHECK_EQ(first, next);
        CHECK(docs >= 1);
        CHECK_EQ(first % kBlockDocs, 0U);
        CHECK_EQ(index.end_position(cluster), first + (docs + 7) / 8 * 8);
        next = index.end_position(cluster);
        Row smallest = kNoRow;
        std::uint32_t label = kNoRow;
        for (Position p = first; p < next; ++p) {
            const Row row = index.row_at(p);
            CHECK_EQ(row == kNoRow, p >= first + docs);
            CHECK_EQ(index.cluster_of(p), cluster);
            if (row >= made.docs.num_docs()) continue;
            ++times_found[row];
            smallest = std::min(smallest, row);
            if (label == kNoRow) label = made.docs.clusters[row];
            CHECK_EQ(made.docs.clusters[row], label);
        }
        CHECK_EQ(index.cluster_min_row(cluster), smallest);
    }
    CHECK_EQ(index.num_positions(), next);
    CHECK_EQ(index.num_blocks(), next / 8);
    CHECK_EQ(index.num_tiles(), (next + 1023) / 1024);
    CHECK_EQ(index.num_spans(), (next + 1023) / 1024 * 4);
    CHECK(std::all_of(times_found.begin(), times_found.end(), [](auto times) { return times == 1; }));
    const std::vector<Position> positions = positions_of_rows(index);
    CHECK_EQ(positions.size(), made.docs.num_docs());
    for (Row row = 0; row < positions.size(); ++row) CHECK_EQ(index.row_at(positions[row]), row);
}

template <class Code>
struct PlainPosting {
    Position position;
    Code code;
};

/// The postings of every term from the documents, by position.
template <class Code>
std::vector<std::vector<PlainPosting<Code>>> direct_postings(const Indexed<Code>& made) {
    std::vector<std::vector<PlainPosting<Code>>> postings(made.docs.num_terms);
    for (Position position = 0; position < made.index.num_positions(); ++position) {
        const Row row = made.index.row_at(position);
        if (row == kNoRow) continue;
        made.docs.each_entry(row, [&](std::uint32_t term, Code code) { postings[term].push_back({position, code}); });
    }
    return postings;
}

/// The largest code of every block.
template <class Code>
std::vector<Code> block_maxima(const std::vector<PlainPosting<Code>>& postings, std::uint32_t num_spans) {
    std::vector<Code> maxima(std::size_t{num_spans} * 32, 0);
    for (const auto& [position, code] : postings) maxima[position / 8] = std::max(maxima[position / 8], code);
    return maxima;
}

/// The largest codes of a term in the segments of every cluster that has it.
template <class Code>
using SegmentMaxima = std::map<std::uint32_t, std::vector<Code>>;

template <class Code>
SegmentMaxima<Code> segment_maxima(const Indexed<Code>& made, const std::vector<PlainPosting<Code>>& postings) {
    SegmentMaxima<Code> maxima;
    for (const auto& [position, code] : postings) {
        auto& segments = maxima[made.index.cluster_of(position)];
        segments.resize(made.docs.num_segments);
        Code& best = segments[made.docs.segments[made.index.row_at(position)]];
        best = std::max(best, code);
    }
    return maxima;
}

/// What bounds make of these where the index does not have them as they are: rounded up to a level, though not beyond
/// the maximum of the cluster, where the term is in half of the clusters, else the maximum of the cluster in every
/// segment that has the term. A single segment is the cluster, which is not rounded.
template <class Code>
SegmentMaxima<Code> rounded_maxima(const Indexed<Code>& made, const std::vector<PlainPosting<Code>>& postings) {
    SegmentMaxima<Code> maxima = segment_maxima(made, postings);
    if (made.docs.num_segments == 1 || made.docs.exact_segments) return maxima;
    const auto levels = choose_levels<Code>(block_maxima(postings, made.index.num_spans()));
    const bool wide = 2 * maxima.size() >= made.index.num_clusters();
    for (auto& [cluster, segments] : maxima) {
        const Code largest = *std::max_element(segments.begin(), segments.end());
        for (Code& code : segments) {
            const auto level = std::find_if(levels.begin(), levels.end(), [&](Code value) { return value >= code; });
            if (wide) code = std::min(*level, largest);
            if (!wide && code > 0) code = largest;
        }
    }
    return maxima;
}

/// The bounds of every cluster from the documents themselves, segment maxima rounded as in the index. `postings` is
/// direct_postings(made).
template <class Code>
AllBounds direct_bounds(const Indexed<Code>& made, const std::vector<std::vector<PlainPosting<Code>>>& postings,
                        const PreparedQuery& query) {
    const std::size_t num_clusters = made.index.num_clusters();
    const std::size_t num_segments = made.docs.num_segments;
    AllBounds all;
    for (auto* list : {&all.bound_sum, &all.max_bound, &all.segment_sum, &all.best_score}) list->resize(num_clusters);
    std::vector<std::uint64_t> segment_bounds(num_clusters * num_segments, 0);
    for (const QueryTerm& t : query.terms) {
        for (const auto& [cluster, segments] : segment_maxima(made, postings[t.term])) {
            all.bound_sum[cluster] += std::uint64_t{t.weight} * *std::max_element(segments.begin(), segments.end());
        }
        for (const auto& [cluster, segments] : rounded_maxima(made, postings[t.term])) {
            for (std::size_t s = 0; s < num_segments; ++s) {
                segment_bounds[cluster * num_segments + s] += std::uint64_t{t.weight} * segments[s];
            }
        }
    }
    for (std::size_t i = 0; i < segment_bounds.size(); ++i) {
        const std::size_t c = i / num_segments;
        all.max_bound[c] = std::max(all.max_bound[c], segment_bounds[i]);
        all.segment_sum[c] += segment_bounds[i];
    }
    const std::vector<std::uint64_t> scores = made.docs.scores(query);
    for (Position position = 0; position < made.index.num_positions(); ++position) {
        const Row row = made.index.row_at(position);
        if (row == kNoRow) continue;
        auto& best = all.best_score[made.index.cluster_of(position)];
        best = std::max(best, scores[row]);
    }
    return all;
}

template <class Code>
void check_bounds(const Indexed<Code>& made, const std::vector<std::vector<PlainPosting<Code>>>& postings,
                  const PreparedQuery& query) {
    const AllBounds bounds = cluster_bounds(made.index, query);
    const AllBounds direct = direct_bounds(made, postings, query);
    CHECK_EQ(bounds.bound_sum, direct.bound_sum);
    CHECK_EQ(bounds.max_bound, direct.max_bound);
    CHECK_EQ(bounds.segment_sum, direct.segment_sum);
    CHECK_EQ(bounds.best_score, direct.best_score);
    for (std::size_t c = 0; c < bounds.best_score.size(); ++c) {
        CHECK(bounds.best_score[c] <= bounds.max_bound[c] && bounds.max_bound[c] <= bounds.bound_sum[c]);
    }
}

PreparedQuery single_term(const Index& index, std::uint32_t term) {
    return prepare_query(index, std::vector<std::int64_t>{term}, std::vector<double>{1.0});
}

template <class Code>
void append_bytes(std::vector<std::uint8_t>& bytes, Code value) {
    for (std::size_t i = 0; i < sizeof(Code); ++i) bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

/// A row of levels: 32 of them in 16 bytes, byte j holding number j low and number 16 + j high, the row in whole 64
/// bytes.
std::vector<std::uint8_t> pack_levels(const std::vector<std::uint32_t>& levels) {
    std::vector<std::uint8_t> row((levels.size() + 127) / 128 * 64, 0);
    for (std::size_t i = 0; i < levels.size(); ++i) {
        std::uint8_t& byte = row[i / 32 * 16 + i % 16];
        byte = static_cast<std::uint8_t>(byte + (i % 32 < 16 ? levels[i] : 16 * levels[i]));
    }
    return row;
}

/// The levels that maxima are rounded up to, by number.
template <class Code>
std::vector<std::uint32_t> levels_of(const std::vector<Code>& maxima, const std::array<Code, kNumLevels>& levels) {
    std::vector<std::uint32_t> numbers;
    for (const Code maximum : maxima) {
        std::uint32_t level = 0;
        while (levels[level] < maximum) ++level;
        numbers.push_back(level);
    }
    return numbers;
}

/// The pairs of a term: one for every cluster that has it, or for all where these are half of them.
template <class Code>
void write_pairs_slowly(const Indexed<Code>& made, const std::vector<PlainPosting<Code>>& postings, bool head,
                        TermArrays<Code>& out) {
    const auto write_start = [&](std::uint32_t cluster) {
        std::set<std::uint32_t> before;
        const std::uint32_t first = made.index.first_position(cluster) / 8;
        for (const auto& posting : postings) {
            const std::uint32_t block = posting.position / 8;
            if (block < first && block / 65536 == first / 65536) before.insert(block);
        }
        if (!head) out.pair_entry.push_back(static_cast<std::uint16_t>(before.size()));
    };
    const SegmentMaxima<Code> maxima = segment_maxima(made, postings);
    const std::uint32_t num_segments = made.docs.num_segments;
    const std::uint32_t num_clusters = made.index.num_clusters();
    if (!postings.empty() && 2 * maxima.size() >= num_clusters) {
        std::vector<Code> row;
        for (std::uint32_t cluster = 0; cluster < num_clusters; ++cluster) {
            const auto found = maxima.find(cluster);
            const auto segments = found == maxima.end() ? std::vector<Code>(num_segments, 0) : found->second;
            write_start(cluster);
            out.cluster_max.push_back(*std::max_element(segments.begin(), segments.end()));
            append(row, segments);
        }
        const auto levels = choose_levels<Code>(block_maxima(postings, made.index.num_spans()));
        if (num_segments > 1) append(out.segment_max, pack_levels(levels_of(row, levels)));
        if (num_segments > 1 && made.docs.exact_segments) append(out.segment_code, row);
        return;
    }
    for (const auto& [cluster, segments] : maxima) {
        out.narrow_cluster.push_back(cluster);
        out.cluster_max.push_back(*std::max_element(segments.begin(), segments.end()));
        write_start(cluster);
        if (num_segments == 1) continue;
        if (made.docs.exact_segments) append(out.segment_code, segments);
        std::vector<std::uint8_t> mask((num_segments + 7) / 8, 0);
        for (std::uint32_t s = 0; s < num_segments; ++s) {
            mask[s / 8] = static_cast<std::uint8_t>(mask[s / 8] + (segments[s] > 0 ? 1U << (s % 8) : 0));
        }
        append(out.segment_mask, mask);
    }
}

/// The levels of a term that has any.
template <class Code>
void write_levels_slowly(const std::vector<PlainPosting<Code>>& postings, std::uint32_t num_spans,
                         TermArrays<Code>& out) {
    const auto levels = choose_levels<Code>(block_maxima(postings, num_spans));
    append(out.level, std::vector<Code>(levels.begin(), levels.end()));
}

/// What follows from the postings of a head term, written down one block, one quad and one span after the other.
template <class Code>
void write_head_slowly(const std::vector<PlainPosting<Code>>& postings, std::uint32_t num_spans,
                       TermArrays<Code>& out) {
    const std::size_t start = out.run_bytes.size();
    const std::vector<Code> maxima = block_maxima(postings, num_spans);
    const auto levels = choose_levels<Code>(maxima);
    std::vector<Code> quads;
    for (std::size_t block = 0; block < maxima.size(); block += 4) {
        quads.push_back(std::max({maxima[block], maxima[block + 1], maxima[block + 2], maxima[block + 3]}));
    }
    append(out.block_max, pack_levels(levels_of(maxima, levels)));
    append(out.quad_max, pack_levels(levels_of(quads, levels)));
    const auto start_run = [&](std::size_t span) {
        const std::size_t place = out.run_bytes.size() - start;
        if (span % 64 == 0) out.run_base.push_back(static_cast<std::uint32_t>(place));
        out.run_start.push_back(static_cast<std::uint16_t>(place - out.run_base.back()));
    };
    for (std::size_t span = 0; span < num_spans; ++span) {
        start_run(span);
        std::vector<PlainPosting<Code>> run;
        for (const auto& posting : postings) {
            if (posting.position / 256 == span) run.push_back({posting.position % 256, posting.code});
        }
        std::vector<std::uint8_t> bitmap(32, 0);
        for (const auto& [place, code] : run) {
            bitmap[place / 8] = static_cast<std::uint8_t>(bitmap[place / 8] + (1U << (place % 8)));
            if (run.size() <= 32) out.run_bytes.push_back(static_cast<std::uint8_t>(place));
        }
        if (run.size() > 32) append(out.run_bytes, bitmap);
        for (const auto& posting : run) append_bytes(out.run_bytes, posting.code);
    }
    start_run(num_spans);
}

template <class Code>
void write_tail_slowly(const std::vector<PlainPosting<Code>>& postings, TermArrays<Code>& out) {
    std::map<std::uint32_t, std::vector<PlainPosting<Code>>> blocks;
    for (const auto& posting : postings) blocks[posting.position / 8].push_back(posting);
    std::uint32_t zone = 0;
    std::uint32_t entry = 0;
    std::uint32_t code_count = 0;
    for (const auto& [block, some] : blocks) {
        if (block / 65536 != zone) entry = 0;
        zone = block / 65536;
        if (entry++ % 32 == 0) out.group_start.push_back(code_count);
        code_count += static_cast<std::uint32_t>(some.size());
        Code largest = 0;
        std::uint32_t mask = 0;
        for (const auto& [position, code] : some) {
            largest = std::max(largest, code);
            mask += 1U << (position % 8);
            out.entry_code.push_back(code);
        }
        out.entry_block.push_back(static_cast<std::uint16_t>(block % 65536));
        out.entry_max.push_back(largest);
        out.entry_mask.push_back(static_cast<std::uint8_t>(mask));
    }
}

}  // namespace

// An index of arrays that belong together opens; with any array one element short or long it does not.
TEST(index_rejects_wrong_lengths) {
    each_code_type([](auto code) {
        NOTE("code bytes " << sizeof(code));
        Collection<decltype(code)> docs = mixed_collection<decltype(code)>();
        docs.exact_segments = true;
        const Parts<decltype(code)> parts = make_parts(docs);
        const IndexArrays whole = parts.view();
        CHECK(!whole.narrow_cluster.empty());
        CHECK(!whole.block_max.empty());
        CHECK(whole.group_start.size() > 1 && whole.pair_entry.size() > 1);
        CHECK(!whole.segment_code.empty());
        CHECK_EQ(Index(whole).num_docs(), 1500U);
        for (const auto& [name, change] :
             resized_arrays(parts, [](auto array, std::size_t by) { return shorter(array, by); })) {
            NOTE(name << " shorter");
            IndexArrays arrays = whole;
            change(arrays);
            CHECK_THROWS(Index(arrays), FormatError);
        }
        std::vector<double> scales(parts.built.term_scale.size() + 1, 1.0);
        for (const auto& [name, change] :
             resized_arrays(parts, [](auto array, std::size_t by) { return longer(array, by); })) {
            NOTE(name << " longer");
            IndexArrays arrays = whole;
            arrays.term_scale = std::span<const double>(scales).first(parts.built.term_scale.size());
            change(arrays);
            CHECK_THROWS(Index(arrays), FormatError);
        }
        for (const auto& [name, change] :
             resized_arrays(parts, [](auto array, std::size_t) { return array.first(0); })) {
            NOTE(name << " empty");
            IndexArrays arrays = whole;
            change(arrays);
            if (std::string_view(name) == "pair_entry" || std::string_view(name) == "segment_code") {
                CHECK_EQ(Index(arrays).num_docs(), 1500U);  // indexes of format 4 lack both
            } else {
                CHECK_THROWS(Index(arrays), FormatError);
            }
        }
    });
}

// Counts that contradict the arrays are rejected: of documents, terms, segments and bytes per code.
TEST(index_rejects_wrong_counts) {
    const Parts<std::uint8_t> parts = make_parts(mixed_collection<std::uint8_t>());
    const std::pair<const char*, Change> changes[] = {
        {"one document less", [](auto& a) { --a.num_docs; }},
        {"one document more", [](auto& a) { ++a.num_docs; }},
        {"one term less", [](auto& a) { --a.num_terms; }},
        {"one term more", [](auto& a) { ++a.num_terms; }},
        {"no segments", [](auto& a) { a.num_segments = 0; }},
        {"segments in more bytes", [](auto& a) { a.num_segments = 9; }},
        {"wider codes", [](auto& a) { a.code_bytes = 2; }},
        {"no codes", [](auto& a) { a.code_bytes = 0; }},
        {"odd codes", [](auto& a) { a.code_bytes = 3; }},
        {"more head terms", [](auto& a) { a.head_ratio = 8; }},
        {"no head_ratio", [](auto& a) { a.head_ratio = 0; }},
        {"a head_ratio too large", [](auto& a) { a.head_ratio = kMaxHeadRatio + 1; }},
        {"endless segments", [](auto& a) { a.num_segments = 0xFFFFFFFFU; }},
    };
    for (const auto& [name, change] : changes) {
        NOTE(name);
        IndexArrays arrays = parts.view();
        change(arrays);
        CHECK_THROWS(Index(arrays), FormatError);
    }
}

// Offsets that do not ascend from 0, impossible chunks, rows and scales are rejected.
TEST(index_rejects_wrong_contents) {
    const Parts<std::uint8_t> whole = make_parts(mixed_collection<std::uint8_t>());
    const auto rejects = [&](const char* what, const std::function<void(Parts<std::uint8_t>&)>& change) {
        check_rejected<std::uint8_t>(whole, what, change);
    };
    rejects("cluster_first_position starts late", [](auto& p) { p.built.cluster_first_position[0] = kBlockDocs; });
    rejects("cluster_first_position descends",
            [](auto& p) { std::swap(p.built.cluster_first_position[2], p.built.cluster_first_position[3]); });
    rejects("cluster_first_position jumps", [](auto& p) { p.built.cluster_first_position[2] = 100000; });
    rejects("a cluster without places",
            [](auto& p) { p.built.cluster_first_position[2] = p.built.cluster_first_position[1]; });
    rejects("a cluster off the blocks", [](auto& p) { ++p.built.cluster_first_position[2]; });
    rejects("a cluster moved by a block", [](auto& p) { p.built.cluster_first_position[2] += kBlockDocs; });
    rejects("a cluster without documents", [](auto& p) { p.built.cluster_num_docs[1] = 0; });
    rejects("a cluster with a document more", [](auto& p) { ++p.built.cluster_num_docs[1]; });
    rejects("a cluster with a document less", [](auto& p) { --p.built.cluster_num_docs[1]; });
    rejects("a huge cluster", [](auto& p) { p.built.cluster_num_docs[1] = 0xFFFFFFFFU; });
    rejects("a row twice", [](auto& p) { p.built.position_row[1] = p.built.position_row[0]; });
    rejects("a row beyond the last", [](auto& p) { p.built.position_row[1] = p.num_docs; });
    rejects("a hole among documents", [](auto& p) { p.built.position_row[0] = kNoRow; });
    rejects("a document in a hole", [](auto& p) {
        *std::find(p.built.position_row.data(), p.built.position_row.data() + p.built.position_row.size(), kNoRow) = 0;
    });
    rejects("term_first_pair starts late", [](auto& p) { p.built.term_first_pair[0] = 1; });
    rejects("term_first_pair descends", [](auto& p) { p.built.term_first_pair[1] = ~std::uint64_t{0}; });
    rejects("term_first_posting starts late", [](auto& p) { p.built.term_first_posting[0] = 1; });
    rejects("term_first_posting descends", [](auto& p) { p.built.term_first_posting[1] = ~std::uint64_t{0}; });
    rejects("more pairs than clusters", [](auto& p) { p.built.term_first_pair[1] += 1; });
    rejects("more postings than documents", [](auto& p) { p.built.term_first_posting[1] = p.num_docs + 1; });
    rejects("term_first_byte starts late", [](auto& p) { p.built.term_first_byte[0] = 1; });
    rejects("term_first_byte descends", [](auto& p) { p.built.term_first_byte[1] = ~std::uint64_t{0}; });
    rejects("term_first_entry starts late", [](auto& p) { p.built.term_first_entry[0] = 1; });
    rejects("term_first_entry descends", [](auto& p) { p.built.term_first_entry[1] = ~std::uint64_t{0}; });
    const Index index(whole.view());
    const std::uint32_t last = whole.view().num_terms - 1;
    CHECK(index.is_head(0) && !index.is_head(last) && index.num_entries(last) > 1);
    rejects("entries of a head term", [](auto& p) { p.built.term_first_entry[1] = 1; });
    rejects("runs of a tail term", [&](auto& p) { --p.built.term_first_byte[last]; });
    rejects("more bytes than a head term's postings take",
            [&](auto& p) { std::fill_n(&p.built.term_first_byte[1], last, 2 * index.num_postings(0) + 1); });
    rejects("fewer entries than postings fit",
            [&](auto& p) { p.built.term_first_entry[last] = p.built.term_first_entry[last + 1]; });
    rejects("more entries than postings", [&](auto& p) {
        p.built.term_first_entry[last + 1] = p.built.term_first_entry[last] + index.num_postings(last) + 1;
    });
    rejects("postings without pairs", [](auto& p) { p.built.term_first_pair[1] = 0; });
    rejects("pairs without postings", [](auto& p) { p.built.term_first_posting[1] = 0; });
    for (const double scale : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
        rejects("an impossible scale", [&](auto& p) { p.built.term_scale[3] = scale; });
    }
}

// An index without documents, or with documents without terms, opens and finds nothing.
TEST(index_may_be_empty) {
    Collection<std::uint8_t> docs;
    docs.num_terms = 3;
    for (int i = 0; i < 2; ++i) {
        const Indexed<std::uint8_t> made(docs);
        CHECK_EQ(made.index.num_docs(), docs.num_docs());
        const PreparedQuery query = single_term(made.index, 1);
        CHECK_EQ(query.unknown_terms, 1U);
        CHECK(search(made.index, query, 10, {}).rows.empty());
        CHECK_EQ(cluster_bounds(made.index, query).bound_sum.size(), made.index.num_clusters());
        for (int d = 0; d < 20; ++d) docs.end_document(0, 0);
    }
}

// Small clusters start at blocks, and every document lies at one position of its own cluster.
TEST(index_layout_of_small_clusters) {
    check_layout(Indexed<std::uint8_t>(mixed_collection<std::uint8_t>()));
    check_layout(Indexed<std::uint16_t>(random_collection<std::uint16_t>({.docs = 300, .clusters = 300})));
    check_layout(
        Indexed<std::uint8_t>(random_collection<std::uint8_t>({.docs = 1, .clusters = 1, .terms_per_doc = 30})));
}

// Clusters larger than a tile, a window or a piece of MaxScore are laid out like small ones, and searches over them are
// right in every method, whether all blocks are bounded or quads first.
TEST(index_layout_of_large_clusters) {
    const Indexed<std::uint8_t> made(large_collection({5000, 57, 4096, 4097, 70001, 3, 60000}));
    check_layout(made);
    const std::vector<Position> positions = positions_of_rows(made.index);
    for (const std::vector<std::int64_t>& terms :
         {std::vector<std::int64_t>{0}, {7}, {1, 4, 7}, {0, 1, 2, 3, 4, 5, 6, 7}}) {
        std::vector<double> weights;
        for (std::size_t i = 0; i < terms.size(); ++i) weights.push_back(static_cast<double>(1 + 3 * i));
        const PreparedQuery query = prepare_query(made.index, terms, weights);
        const std::vector<std::uint64_t> scores = made.docs.scores(query);
        CHECK(score_positions(made.index, query, positions) == scores);
        const Ranking ranking = rank_all(scores);
        for (const Method method :
             {Method::exhaustive, Method::maxscore, Method::anytime, Method::sequential, Method::asc}) {
            for (const bool trace : {false, true}) {
                for (const std::size_t k : {1, 10, 1000, 30000}) {
                    NOTE("terms " << show(terms) << ", method " << show(method) << ", trace " << trace << ", k " << k);
                    SearchParams params;
                    params.method = method;
                    params.trace = trace;
                    params.hooks.sweep = false;
                    params.hooks.all_tiles = trace ? 2048 : 3;
                    params.hooks.documents = k == 10 ? DocumentMethod::maxscore : DocumentMethod::blocks;
                    const SearchResult result = search(made.index, query, k, params);
                    CHECK_EQ(result.rows, ranking.first(k).rows);
                    CHECK_EQ(result.scores, ranking.first(k).scores);
                }
            }
        }
    }
}

// For every term and cluster the maxima, by cluster and by segment, are those of the documents, rounded as the format
// says; in large clusters too.
TEST(index_maxima_of_single_terms) {
    each_code_type([](auto code) {
        const Indexed<decltype(code)> made(mixed_collection<decltype(code)>());
        const auto postings = direct_postings(made);
        for (std::uint32_t term = 0; term < made.index.num_terms(); ++term) {
            NOTE("code bytes " << sizeof(code) << ", term " << term);
            check_bounds(made, postings, single_term(made.index, term));
        }
    });
    const Indexed<std::uint8_t> large(large_collection({5000, 57, 9000}));
    for (std::uint32_t term = 0; term < large.index.num_terms(); ++term) {
        check_bounds(large, direct_postings(large), single_term(large.index, term));
    }
}

// Bounds of several terms are the weighted sums of their maxima, per segment, with any number of segments.
TEST(index_maxima_of_queries) {
    Random random(32);
    each_code_type([&](auto code) {
        using Code = decltype(code);
        for (const std::uint32_t segments : {1, 2, 15, 16, 17, 257, 258}) {
            const std::uint32_t largest_code = std::numeric_limits<Code>::max();
            Collection<Code> docs = random_collection<Code>(
                {.docs = 600, .clusters = 9, .segments = segments, .terms_per_doc = 6, .largest_code = largest_code});
            docs.exact_segments = segments == 2 || segments == 257;
            const Indexed<Code> made(docs);
            const auto postings = direct_postings(made);
            for (const std::size_t terms : {2, 30}) {
                for (const std::uint32_t weight : {5U, kMaxQueryWeight}) {
                    NOTE("code bytes " << sizeof(Code) << ", segments " << segments << ", terms " << terms);
                    check_bounds(made, postings, random_query(made.index, random, terms, weight));
                }
            }
        }
    });
}

// The arrays of all terms, wide and narrow, head and tail, are byte for byte what a slow writer makes of the documents.
TEST(index_arrays_of_terms) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        std::vector<Collection<Code>> collections;
        for (const auto& [ratio, segments] : {std::pair{1U, 5U}, {2U, 1U}, {8U, 8U}, {1000U, 9U}, {3U, 40U}}) {
            collections.push_back(random_collection<Code>({.docs = 1500,
                                                           .terms = 150,
                                                           .clusters = 30,
                                                           .segments = segments,
                                                           .terms_per_doc = 6,
                                                           .largest_code = std::numeric_limits<Code>::max(),
                                                           .head_ratio = ratio}));
        }
        collections.push_back(zoned_collection<Code>());
        // 64 spans: the end of the last run has a base of its own.
        collections.push_back(
            random_collection<Code>({.docs = 16'340, .terms = 40, .clusters = 3, .segments = 3, .head_ratio = 2}));
        std::size_t heads = 0, tails = 0, wide = 0, wide_tails = 0, exact = 0;
        for (std::size_t i = 0; i < collections.size(); ++i) {
            collections[i].exact_segments = i % 2 == 0;
            const Indexed<Code> made(collections[i]);
            const std::uint32_t ratio = made.docs.head_ratio;
            CHECK_EQ(made.index.num_zones(), i == 5 ? 2U : 1U);
            CHECK_EQ(made.index.num_spans() == kBaseSpans, i == 6);
            NOTE("code bytes " << sizeof(Code) << ", collection " << i);
            TermArrays<Code> expected;
            for (const auto& postings : direct_postings(made)) {
                const bool head = postings.size() > 0 && postings.size() * ratio >= made.index.num_positions() / 16;
                const bool is_wide =
                    !postings.empty() && 2 * segment_maxima(made, postings).size() >= made.index.num_clusters();
                const std::size_t bytes = expected.run_bytes.size();
                write_pairs_slowly(made, postings, head, expected);
                if (head || is_wide) write_levels_slowly(postings, made.index.num_spans(), expected);
                if (head) {
                    write_head_slowly(postings, made.index.num_spans(), expected);
                } else {
                    write_tail_slowly(postings, expected);
                }
                ++(head ? heads : tails);
                wide += is_wide ? 1 : 0;
                wide_tails += is_wide && !head ? 1 : 0;
                for (std::uint32_t zone = 0; zone < made.index.num_zones(); ++zone) {
                    std::set<std::uint32_t> blocks;
                    for (const auto& posting : postings) {
                        if (!head && posting.position / 8 / 65536 == zone) blocks.insert(posting.position / 8);
                    }
                    expected.term_num_entries.push_back(blocks.size());
                }
                expected.term_num_bytes.push_back(expected.run_bytes.size() - bytes);
            }
            const auto& built = made.parts.built;
            const auto same = [](const auto& a, const auto& b) { return std::ranges::equal(a.view(), b); };
            CHECK(same(built.term_first_byte, offsets_of(expected.term_num_bytes)));
            CHECK(same(built.term_first_entry, offsets_of(expected.term_num_entries)));
            CHECK(same(built.narrow_cluster, expected.narrow_cluster));
            CHECK(same(built.cluster_max, expected.cluster_max));
            CHECK(same(built.level, expected.level));
            CHECK(same(built.segment_max, expected.segment_max));
            CHECK(same(built.segment_mask, expected.segment_mask));
            CHECK(same(built.quad_max, expected.quad_max));
            CHECK(same(built.block_max, expected.block_max));
            CHECK(same(built.run_base, expected.run_base));
            CHECK(same(built.run_start, expected.run_start));
            CHECK(same(built.run_bytes, expected.run_bytes));
            CHECK(same(built.entry_block, expected.entry_block));
            CHECK(same(built.entry_max, expected.entry_max));
            CHECK(same(built.entry_mask, expected.entry_mask));
            CHECK(same(built.group_start, expected.group_start));
            CHECK(same(built.entry_code, expected.entry_code));
            CHECK(same(built.pair_entry, expected.pair_entry));
            CHECK(same(built.segment_code, expected.segment_code));
            exact += built.segment_code.size();
            CHECK_EQ(built.segment_max.size() == 0 && built.segment_mask.size() == 0, made.docs.num_segments == 1);
        }
        CHECK(heads > 20 && tails > 20 && wide > 20 && wide_tails > 0 && exact > 1000);
    });
}

// The top codes of a term are its codes at ranks 1, 10, 100 and 1000, and 0 where it has fewer postings.
TEST(index_top_codes) {
    const Indexed<std::uint16_t> made(
        random_collection<std::uint16_t>({.docs = 3000, .terms = 90, .terms_per_doc = 6, .largest_code = 65535}));
    std::vector<std::vector<std::uint16_t>> codes(made.docs.num_terms);
    for (Row row = 0; row < made.docs.num_docs(); ++row) {
        made.docs.each_entry(row, [&](std::uint32_t term, std::uint16_t code) { codes[term].push_back(code); });
    }
    for (std::uint32_t term = 0; term < codes.size(); ++term) {
        std::sort(codes[term].rbegin(), codes[term].rend());
        for (std::size_t r = 0; r < kNumTopRanks; ++r) {
            NOTE("term " << term << ", rank " << kTopRanks[r]);
            const std::uint32_t rank = kTopRanks[r];
            const std::uint16_t expected = rank <= codes[term].size() ? codes[term][rank - 1] : 0;
            CHECK_EQ(made.index.codes<std::uint16_t>(made.index.arrays().term_top_code)[term * kNumTopRanks + r],
                     expected);
        }
    }
}

// document_vectors gives back the rows that went in, in any order of positions, repeated ones too.
TEST(index_gives_back_documents) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(mixed_collection<Code>());
        const std::vector<Position> position_of = positions_of_rows(made.index);
        Random random(33);
        std::vector<Row> rows(made.docs.num_docs());
        std::iota(rows.begin(), rows.end(), Row{0});
        std::shuffle(rows.begin(), rows.end(), random);
        rows.push_back(rows[0]);
        std::vector<Position> positions;
        for (const Row row : rows) positions.push_back(position_of[row]);
        const DocumentVectors vectors = document_vectors(made.index, positions);
        CHECK_EQ(vectors.indptr.size(), rows.size() + 1);
        std::vector<std::uint32_t> terms, codes;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            made.docs.each_entry(rows[i], [&](std::uint32_t term, Code c) {
                terms.push_back(term);
                codes.push_back(c);
            });
            CHECK_EQ(vectors.indptr[i + 1], static_cast<std::int64_t>(terms.size()));
        }
        CHECK_EQ(vectors.terms, terms);
        CHECK_EQ(vectors.codes, codes);
        CHECK_EQ(document_vectors(made.index, {}).indptr, std::vector<std::int64_t>{0});
    });
}

// Ordering by similarity keeps every cluster's rows and puts documents that share terms into the same blocks.
TEST(index_order_by_similarity) {
    Collection<std::uint8_t> docs;
    docs.num_terms = 64;
    for (std::uint32_t d = 0; d < 640; ++d) {
        const std::uint32_t topic = d * 7 % 8;
        docs.add_entry(topic * 8 + d % 3, 200);
        docs.add_entry(topic * 8 + 7, 250);
        docs.end_document(d % 5, 0);
    }
    const Groups start = group_rows(docs.clusters);
    std::vector<Row> rows = start.rows;
    const std::vector<float> points = dense_points(docs);
    order_by_similarity({points, docs.num_terms}, start.first, std::span(rows), StopFlag{false});
    for (std::size_t c = 0; c + 1 < start.first.size(); ++c) {
        std::vector<Row> sorted(rows.begin() + start.first[c], rows.begin() + start.first[c + 1]);
        std::sort(sorted.begin(), sorted.end());
        CHECK(std::equal(sorted.begin(), sorted.end(), start.rows.begin() + start.first[c]));
    }
    // 128 documents per cluster and 16 per topic: by row, every block has all 8 topics.
    const auto topics_in_blocks = [](const std::vector<Row>& order) {
        std::set<std::pair<std::size_t, Row>> topics;
        for (std::size_t i = 0; i < order.size(); ++i) topics.insert({i / kBlockDocs, order[i] * 7 % 8});
        return topics.size();
    };
    CHECK_EQ(topics_in_blocks(start.rows), 80U * 8);
    NOTE(topics_in_blocks(rows));
    CHECK(topics_in_blocks(rows) <= 80U * 2);
}

// Work that finds the flag set ends with Interrupted.
TEST(index_build_stops_on_request) {
    const Collection<std::uint8_t> docs = mixed_collection<std::uint8_t>();
    const StopFlag stop{true};
    Groups groups = group_rows(docs.clusters);
    const auto coded = docs.docs();
    const std::vector<float> points = dense_points(docs);
    const DensePoints dense{points, docs.num_terms};
    CHECK_THROWS(order_by_similarity(dense, groups.first, std::span(groups.rows), stop), Interrupted);
    std::vector<std::uint64_t> postings(docs.num_terms), pairs(docs.num_terms);
    CHECK_THROWS(count_terms(coded, groups.first, 0, 1, std::span(postings), std::span(pairs), stop), Interrupted);
    const std::vector<std::uint32_t> first_position = lay_out_clusters(groups.first);
    const FillJob<std::uint8_t, std::uint32_t> job{coded, groups.first, first_position, groups.rows, docs.segments, 5,
                                                   1,     postings,     pairs};
    CHECK_THROWS(fill_terms(job, 0, 0, stop), Interrupted);
}

// The arrays do not depend on how the work is cut into ranges.
TEST(index_arrays_do_not_depend_on_ranges) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Collection<Code> docs = mixed_collection<Code>();
        const Parts<Code> whole = make_parts(docs, 1);
        for (const std::uint32_t ranges : {2U, 5U, docs.num_terms}) {
            const Parts<Code> parts = make_parts(docs, ranges);
            std::vector<std::vector<std::byte>> contents;
            IndexArrays view = whole.view();
            const auto take = [&](const char*, const auto& array, auto&) {
                const auto bytes = std::as_bytes(array.view());
                contents.emplace_back(bytes.begin(), bytes.end());
            };
            each_array(whole.built, view, take);
            std::size_t at = 0;
            const auto compare = [&](const char* name, const auto& array, auto&) {
                NOTE(ranges << " ranges, " << name);
                CHECK(std::ranges::equal(std::as_bytes(array.view()), contents[at++]));
            };
            each_array(parts.built, view, compare);
        }
    });
}

// Making the arrays takes no more bytes than plan_terms foretells, and not much fewer.
TEST(index_plan_foretells_the_bytes) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        for (const std::uint32_t ratio : {1U, 1000U, 1001U}) {
            Collection<Code> docs = mixed_collection<Code>();
            docs.head_ratio = ratio;
            docs.exact_segments = ratio == 1001;
            const Parts<Code> parts = make_parts(docs);
            IndexArrays view = parts.view();
            std::uint64_t bytes = 0;
            each_term_array(parts.built, view,
                            [&](const char*, const auto& array, auto&) { bytes += array.view().size_bytes(); });
            // Postings are kept as pairs of position and code until they are written, segment maxima as codes, offsets
            // as 64-bit counts.
            bytes += docs.terms.size() * 8 + docs.num_terms * 16;
            bytes += parts.built.cluster_max.size() * docs.num_segments * sizeof(Code);
            NOTE("code bytes " << sizeof(Code) << ", ratio " << ratio << ": " << bytes << ", " << parts.planned_bytes);
            CHECK(bytes <= parts.planned_bytes);
            CHECK(parts.planned_bytes < bytes + bytes / 2);
        }
    });
}

// Gathering slots in any ranges from any parts gives the rows in the order of the slots.
TEST(index_gather_rows) {
    Random random(5);
    const Collection<std::uint8_t> docs = mixed_collection<std::uint8_t>();
    std::vector<std::uint32_t> slot_of_row(docs.num_docs());
    std::iota(slot_of_row.begin(), slot_of_row.end(), 0U);
    std::shuffle(slot_of_row.begin(), slot_of_row.end(), random);
    std::vector<Row> row_of_slot(docs.num_docs());
    for (Row row = 0; row < docs.num_docs(); ++row) row_of_slot[slot_of_row[row]] = row;
    std::vector<std::int64_t> indptr{0};
    for (const Row row : row_of_slot) indptr.push_back(indptr.back() + docs.indptr[row + 1] - docs.indptr[row]);
    const std::uint32_t half = docs.num_docs() / 2;
    for (const auto& [first, last] : {std::pair{0U, docs.num_docs()}, std::pair{0U, half}, std::pair{half, half + 3}}) {
        const auto offsets = std::span<const std::int64_t>(indptr).subspan(first, last - first + 1);
        std::vector<std::uint32_t> terms(static_cast<std::size_t>(offsets.back() - offsets.front()));
        std::vector<std::uint8_t> codes(terms.size());
        gather_rows(docs.docs(), slot_of_row, first, offsets, std::span(terms), std::span(codes));
        std::size_t at = 0;
        for (std::uint32_t slot = first; slot < last; ++slot) {
            docs.each_entry(row_of_slot[slot], [&](std::uint32_t term, std::uint8_t code) {
                CHECK_EQ(terms[at], term);
                CHECK_EQ(codes[at++], code);
            });
        }
        CHECK_EQ(at, terms.size());
    }
}

// Documents times a matrix, and the transpose, against sums written out.
TEST(index_project) {
    const Collection<std::uint8_t> docs = mixed_collection<std::uint8_t>();
    std::vector<std::int32_t> row_of_term(docs.num_terms);
    for (std::uint32_t t = 0; t < docs.num_terms; ++t) {
        row_of_term[t] = t % 3 == 0 ? -1 : static_cast<std::int32_t>(t / 2);
    }
    const TermRows rows{row_of_term, 5};
    std::vector<float> matrix(docs.num_terms * rows.num_dims);
    for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i % 11) - 5.0F;
    std::vector<float> out(docs.num_docs() * rows.num_dims, 99.0F);
    project_rows(docs.docs(), rows, std::span<const float>(matrix), std::span(out));
    std::vector<float> back(matrix.size(), 99.0F);
    project_back(docs.docs(), rows, std::span<const float>(out), std::span(back));
    std::vector<double> expected_back(matrix.size(), 0.0);
    for (Row d = 0; d < docs.num_docs(); ++d) {
        std::vector<double> expected(rows.num_dims, 0.0);
        docs.each_entry(d, [&](std::uint32_t term, std::uint8_t code) {
            if (row_of_term[term] < 0) return;
            const std::size_t first = static_cast<std::size_t>(row_of_term[term]) * rows.num_dims;
            for (std::size_t i = 0; i < rows.num_dims; ++i) {
                expected[i] += std::sqrt(static_cast<double>(code)) * matrix[first + i];
                expected_back[first + i] += std::sqrt(static_cast<double>(code)) * out[d * rows.num_dims + i];
            }
        });
        for (std::size_t i = 0; i < rows.num_dims; ++i) {
            CHECK(std::abs(expected[i] - out[d * rows.num_dims + i]) < 1e-2);
        }
    }
    for (std::size_t i = 0; i < back.size(); ++i) {
        CHECK(std::abs(expected_back[i] - back[i]) <= 1e-4 * std::max(1.0, std::abs(expected_back[i])));
    }
}
