// Every way to search against brute force over the documents.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "make_index.hpp"
#include "search/best_first.hpp"
#include "segmax/base/interrupt.hpp"
#include "segmax/index/documents.hpp"
#include "segmax/search/search.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

SearchParams variant(Method method, bool estimate) {
    SearchParams params;
    params.method = method;
    params.hooks.estimate_threshold = estimate;
    params.hooks.sweep = false;
    return params;
}

/// Best first over all blocks and over those of the best clusters, with all terms in the bounds and with two, and with
/// leave to sweep.
void add_best_first(std::vector<SearchParams>& variants) {
    for (const Method method : {Method::best_first, Method::asc}) {
        for (const bool estimate : {false, true}) {
            for (const std::uint32_t all_tiles : {0U, 512U}) {
                for (const std::uint32_t max_terms : {0U, 2U}) {
                    if (method == Method::asc && (max_terms != 0 || !estimate)) continue;
                    variants.push_back(variant(method, estimate));
                    variants.back().hooks.all_tiles = all_tiles;
                    variants.back().max_terms = max_terms;
                    variants.back().bound_dropped = max_terms != 0;
                }
            }
        }
        variants.push_back(variant(method, true));
        variants.back().hooks.sweep = true;
    }
}

/// Clusters one by one, which a trace asks for, or a limit, even one that is never reached.
void add_cluster_searches(std::vector<SearchParams>& variants) {
    for (const Method method : {Method::anytime, Method::asc}) {
        for (const DocumentMethod documents : {DocumentMethod::blocks, DocumentMethod::maxscore}) {
            for (const ClusterOrder order : {ClusterOrder::max_bound, ClusterOrder::bound_sum}) {
                for (int flags = 0; flags < 8; ++flags) {
                    SearchParams params = variant(method, (flags & 1) != 0);
                    params.hooks.documents = documents;
                    params.hooks.cluster_order = order;
                    params.hooks.lazy = (flags & 2) != 0;
                    params.trace = (flags & 4) != 0;
                    params.max_clusters = params.trace ? 0 : 1U << 31;
                    params.max_terms = params.trace && params.hooks.estimate_threshold ? 3 : 0;
                    params.bound_dropped = params.max_terms != 0;
                    const bool plain = order == ClusterOrder::max_bound && params.hooks.lazy;
                    if (method == Method::asc || plain) variants.push_back(params);
                }
            }
        }
    }
}

/// Every combination of parameters that must answer like exhaustive search.
std::vector<SearchParams> safe_variants() {
    std::vector<SearchParams> variants{variant(Method::exhaustive, false), variant(Method::maxscore, false),
                                       variant(Method::maxscore, true)};
    add_best_first(variants);
    add_cluster_searches(variants);
    return variants;
}

SearchParams with_method(Method method) {
    SearchParams params;
    params.method = method;
    return params;
}

std::string describe(const SearchParams& p) {
    std::ostringstream out;
    out << "method " << show(p.method) << ", documents " << show(p.hooks.documents) << ", order "
        << show(p.hooks.cluster_order) << ", lazy " << p.hooks.lazy << ", estimate " << p.hooks.estimate_threshold
        << ", trace " << p.trace << ", mu " << p.mu << ", eta " << p.eta << ", all tiles " << p.hooks.all_tiles
        << ", max terms " << p.max_terms << ", sweep " << p.hooks.sweep;
    return out.str();
}

void check_result(const Index& index, const PreparedQuery& query, const Ranking& ranking, std::size_t k,
                  const SearchParams& params) {
    NOTE("k " << k << ", terms " << query.terms.size() << ", " << describe(params));
    const SearchResult result = search(index, query, k, params);
    const Ranking expected = ranking.first(k);
    CHECK_EQ(result.rows, expected.rows);
    CHECK_EQ(result.scores, expected.scores);
}

/// All variants at many k, for queries short and long, of small weights (many ties) and of the largest.
template <class Code>
void check_all_variants(const Indexed<Code>& made, std::vector<std::size_t> query_sizes, unsigned seed) {
    Random random(seed);
    const std::size_t docs = made.docs.num_docs();
    for (const std::size_t terms : query_sizes) {
        for (const std::uint32_t largest_weight : {1U, 3U, kMaxQueryWeight}) {
            const PreparedQuery query = random_query(made.index, random, terms, largest_weight);
            const Ranking ranking = rank_all(made.docs.scores(query));
            for (const std::size_t k : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{10},
                                        std::size_t{101}, docs - 1, docs, docs + 5}) {
                for (const SearchParams& params : safe_variants()) {
                    check_result(made.index, query, ranking, k, params);
                }
            }
        }
    }
}

/// Indices of every kind: few codes (ties), all codes, one cluster, a cluster per document, many terms per
/// document, large clusters, several tiles with terms of both kinds.
template <class Code>
std::vector<Shape> shapes() {
    constexpr std::uint32_t max = std::numeric_limits<Code>::max();
    return {
        {.docs = 400, .clusters = 20, .largest_code = 2, .seed = 1},
        {.docs = 500, .terms = 200, .clusters = 90, .segments = 3, .terms_per_doc = 6, .largest_code = max, .seed = 2},
        {.docs = 150, .terms = 30, .clusters = 1, .segments = 1, .largest_code = 9, .seed = 3},
        {.docs = 150, .terms = 30, .clusters = 5000, .segments = 17, .largest_code = max, .seed = 4},
        {.docs = 200, .terms = 500, .clusters = 8, .terms_per_doc = 300, .largest_code = max, .seed = 5},
        {.docs = 700, .terms = 40, .clusters = 2, .terms_per_doc = 10, .largest_code = max, .seed = 6},
        {.docs = 2500, .terms = 90, .clusters = 40, .largest_code = max, .head_ratio = 1, .seed = 7},
    };
}

bool same_entry(const TraceEntry& a, const TraceEntry& b, bool same_bounds) {
    return a.cluster == b.cluster && a.decision == b.decision && a.bound_sum == b.bound_sum &&
           a.threshold == b.threshold && a.threshold_row == b.threshold_row &&
           (!same_bounds || (a.max_bound == b.max_bound && a.segment_sum == b.segment_sum));
}

/// Pairs of factors with mu <= eta <= 1.
constexpr std::pair<double, double> kFactors[] = {{1.0, 1.0}, {0.9, 1.0}, {0.7, 0.9}, {0.4, 0.6}, {0.5, 0.5}};

/// Stops at the n-th poll.
std::function<bool()> stop_at(int n) {
    return [left = n]() mutable { return --left == 0; };
}

/// Random values over a share of an array's bytes.
struct Damage {
    const char* name;
    std::function<void(std::span<std::byte>, Random&)> apply;
};

const Damage kDamages[] = {
    {"all random",
     [](auto bytes, Random& random) {
         for (auto& b : bytes) b = static_cast<std::byte>(random());
     }},
    {"some random",
     [](auto bytes, Random& random) {
         for (auto& b : bytes) b = draw(random, 0, 15) == 0 ? static_cast<std::byte>(random()) : b;
     }},
    {"all ones", [](auto bytes, Random&) { std::fill(bytes.begin(), bytes.end(), std::byte{0xFF}); }},
    {"all zero", [](auto bytes, Random&) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); }},
};

template <class T>
std::span<std::byte> bytes_of(PaddedVector<T>& array) {
    return std::as_writable_bytes(std::span<T>(array.data(), array.size()));
}

struct DamagedArray {
    const char* name;
    std::span<std::byte> bytes;
};

/// What the constructor of Index does not check.
template <class Code>
std::vector<DamagedArray> unchecked_arrays(Parts<Code>& parts) {
    std::vector<DamagedArray> arrays;
    IndexArrays view = parts.view();
    each_term_array(parts.built, view,
                    [&](const char* name, auto& array, auto&) { arrays.push_back({name, bytes_of(array)}); });
    return arrays;
}

/// Calls visit with an index for each damage of each array, and of all of them at once.
template <class Code, class Visit>
void each_damaged_index(const Parts<Code>& whole, Visit visit) {
    Random random(41);
    constexpr std::size_t kArrays = 15;
    for (const Damage& damage : kDamages) {
        for (std::size_t target = 0; target <= kArrays; ++target) {
            Parts<Code> parts = whole;
            const auto arrays = unchecked_arrays(parts);
            CHECK_EQ(arrays.size(), kArrays);
            NOTE((target == kArrays ? "every array" : arrays[target].name) << ' ' << damage.name);
            for (std::size_t i = 0; i < kArrays; ++i) {
                CHECK(!arrays[i].bytes.empty());
                if (i == target || target == kArrays) damage.apply(arrays[i].bytes, random);
            }
            const Index index(parts.view());
            visit(index, random);
        }
    }
}

/// Whatever is in the arrays, results are at most k rows of the index, best first.
void check_plausible(const Index& index, const SearchResult& result, std::size_t k) {
    CHECK(result.rows.size() <= k);
    CHECK(std::all_of(result.rows.begin(), result.rows.end(), [&](Row row) { return row < index.num_docs(); }));
    CHECK(std::is_sorted(result.scores.rbegin(), result.scores.rend()));
}

/// Every method, and everything else that reads postings, over a damaged index.
void use_damaged(const Index& index, Random& random) {
    for (const std::size_t terms : {3, 25, 60}) {
        const PreparedQuery query = random_query(index, random, terms, terms == 25 ? 50 : kMaxQueryWeight);
        for (SearchParams params : safe_variants()) {
            const auto& [mu, eta] = kFactors[draw(random, 0, std::size(kFactors) - 1)];
            params.mu = mu;
            params.eta = eta;
            params.watch = static_cast<Position>(draw(random, 0, index.num_positions() - 1));
            const std::size_t k = draw(random, 0, 1) == 0 ? 3 : 60;
            NOTE("k " << k << ", " << describe(params));
            check_plausible(index, search(index, query, k, params), k);
        }
        cluster_bounds(index, query);
    }
    std::vector<Position> positions(index.num_positions());
    std::iota(positions.begin(), positions.end(), Position{0});
    CHECK_EQ(document_vectors(index, positions).indptr.size(), positions.size() + 1);
}

template <class Code>
Collection<Code> damage_collection() {
    return random_collection<Code>({.docs = 900, .terms = 120, .clusters = 100, .terms_per_doc = 5, .head_ratio = 1});
}

/// A query opened over an index, with all that code below `search` wants.
template <class Code, class Acc>
struct Opened {
    Opened(const Index& index, const PreparedQuery& query, const SearchParams& params, std::size_t k)
        : context{index, params, kernels<Code, Acc>(simd_level()), scratch, result} {
        scratch.view.open(index, query);
        scratch.top.reset(k);
    }
    Scratch<Code, Acc> scratch;
    SearchResult result;
    Context<Code, Acc> context;
};

/// Calls visit with opened queries, short and long, of small and large weights, in sums of both widths.
template <class Code, class Visit>
void each_opened(const Indexed<Code>& made, const SearchParams& params, std::size_t k, Visit visit) {
    Random random(49);
    for (const std::size_t terms : {1, 3, 12, 60}) {
        for (const std::uint32_t largest_weight : {1U, 50U, kMaxQueryWeight}) {
            NOTE("code bytes " << sizeof(Code) << ", terms " << terms << ", weights to " << largest_weight);
            const PreparedQuery query = random_query(made.index, random, terms, largest_weight);
            if (!query.needs_64_bits()) {
                Opened<Code, std::uint32_t> opened(made.index, query, params, k);
                visit(opened, query);
            }
            Opened<Code, std::uint64_t> opened(made.index, query, params, k);
            visit(opened, query);
        }
    }
}

/// The bound of every block by definition: codes rounded up to levels (head) or the largest (tail), times weights, each
/// in steps and rounded up.
template <class Code, class Acc>
std::vector<std::uint64_t> direct_block_bounds(const Indexed<Code>& made, const Opened<Code, Acc>& opened,
                                               const BlockBounds<Code, Acc>& bounds, std::size_t num_bounded) {
    std::vector<const TermView<Code>*> heaviest;
    for (const auto& term : opened.context.terms()) heaviest.push_back(&term);
    std::stable_sort(heaviest.begin(), heaviest.end(), [](auto* a, auto* b) { return a->most() > b->most(); });
    std::vector<std::uint64_t> sums(made.index.num_blocks(), 0);
    for (std::size_t i = 0; i < heaviest.size(); ++i) {
        const TermView<Code>& term = *heaviest[i];
        std::vector<std::uint64_t> best(sums.size(), i < num_bounded ? 0 : term.largest);
        for (Position p = 0; p < made.index.num_positions(); ++p) {
            const Row row = made.index.row_at(p);
            if (row == kNoRow || i >= num_bounded) continue;
            made.docs.each_entry(row, [&](std::uint32_t t, Code code) {
                if (t == term.term) best[p / kBlockDocs] = std::max<std::uint64_t>(best[p / kBlockDocs], code);
            });
        }
        for (std::size_t b = 0; b < sums.size(); ++b) {
            std::uint64_t code = best[b];
            if (term.head) code = *std::lower_bound(term.levels, term.levels + kNumLevels, code);
            sums[b] += bounds.steps(term.weight * code);
        }
    }
    return sums;
}

}  // namespace

// With 8-bit codes every method, order and switch answers like brute force, ties by row, for any k.
TEST(search_equals_brute_force_8_bits) {
    for (const Shape& shape : shapes<std::uint8_t>()) {
        NOTE("shape " << shape.seed);
        const Indexed<std::uint8_t> made(random_collection<std::uint8_t>(shape));
        check_all_variants(made, {1, 3, 12, 40}, shape.seed);
    }
}

// A collection with more blocks than 16 bits can name is no different.
TEST(search_equals_brute_force_across_zones) {
    const Indexed<std::uint8_t> made(zoned_collection<std::uint8_t>());
    CHECK_EQ(made.index.num_zones(), 2U);
    check_all_variants(made, {12}, 1);
}

// With 16-bit codes, where sums soon need 64 bits, they do the same.
TEST(search_equals_brute_force_16_bits) {
    for (const Shape& shape : shapes<std::uint16_t>()) {
        NOTE("shape " << shape.seed);
        const Indexed<std::uint16_t> made(random_collection<std::uint16_t>(shape));
        check_all_variants(made, {1, 3, 12, 40}, shape.seed);
    }
}

// Queries of hundreds of terms, in 32 and in 64 bits, are answered like brute force as well.
TEST(search_equals_brute_force_long_queries) {
    const Indexed<std::uint8_t> made(random_collection<std::uint8_t>(
        {.docs = 150, .terms = 700, .clusters = 2, .terms_per_doc = 250, .largest_code = 255}));
    Random random(42);
    CHECK(random_query(made.index, random, 700, kMaxQueryWeight).needs_64_bits());
    check_all_variants(made, {700}, 42);
}

// Where all documents are equal, the smallest rows win, in every method.
TEST(search_breaks_ties_by_row) {
    Collection<std::uint8_t> docs;
    docs.num_terms = 2;
    docs.num_segments = 2;
    for (std::uint32_t d = 0; d < 333; ++d) {
        docs.add_entry(0, 5);
        docs.add_entry(1, 5);
        docs.end_document(d * 31 % 17, d % 2);
    }
    const Indexed<std::uint8_t> made(std::move(docs));
    check_all_variants(made, {2}, 7);
}

// score_positions gives every document its exact score and every hole 0.
TEST(search_scores_positions) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(damage_collection<Code>());
        Random random(43);
        std::vector<Position> positions(made.index.num_positions());
        std::iota(positions.begin(), positions.end(), Position{0});
        for (const std::size_t terms : {1, 5, 60}) {
            const PreparedQuery query = random_query(made.index, random, terms, kMaxQueryWeight);
            const std::vector<std::uint64_t> by_row = made.docs.scores(query);
            std::vector<std::uint64_t> expected;
            for (const Position p : positions) {
                const Row row = made.index.row_at(p);
                expected.push_back(row == kNoRow ? 0 : by_row[row]);
            }
            CHECK_EQ(score_positions(made.index, query, positions), expected);
        }
    });
}

// The bounds of blocks are what levels and maxima say, in 16 bits, and never below the score of a document; whether all
// blocks are bounded, those of some clusters, or single tiles.
TEST(search_block_bounds) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        constexpr std::uint32_t max = std::numeric_limits<Code>::max();
        const Indexed<Code> made(
            random_collection<Code>({.docs = 4000, .terms = 90, .clusters = 30, .largest_code = max, .head_ratio = 1}));
        const std::vector<Position> positions = positions_of_rows(made.index);
        Random random(50);
        for (const std::uint32_t max_terms : {0U, 2U}) {
            SearchParams params;
            params.max_terms = max_terms;
            params.bound_dropped = true;
            each_opened(made, params, 10, [&]<class Acc>(Opened<Code, Acc>& opened, const PreparedQuery& query) {
                NOTE("max terms " << max_terms);
                BlockBounds<Code, Acc> bounds(opened.context);
                const std::size_t num_bounded = max_terms == 0 ? query.terms.size() : max_terms;
                const std::vector<std::uint64_t> expected = direct_block_bounds(made, opened, bounds, num_bounded);
                const auto check_tiles = [&](std::uint32_t first, std::uint32_t end) {
                    const std::uint32_t blocks = std::min(made.index.num_blocks(), end * kTileBlocks);
                    std::uint64_t largest = 0;
                    for (std::uint32_t block = first * kTileBlocks; block < blocks; ++block) {
                        CHECK_EQ(bounds.bound(block), expected[block]);
                        largest = std::max(largest, expected[block]);
                    }
                    // Behind the last block of an index there is what dropped terms add.
                    if (end < made.index.num_tiles()) CHECK_EQ(bounds.largest(first, end), largest);
                };
                bounds.bound_all();
                check_tiles(0, made.index.num_tiles());
                const std::vector<std::uint64_t> scores = made.docs.scores(query);
                for (Row row = 0; row < scores.size(); ++row) {
                    const std::uint32_t block = positions[row] / kBlockDocs;
                    CHECK(scores[row] <= bounds.score_of(bounds.bound(block)));
                    CHECK(bounds.steps(scores[row]) <= bounds.bound(block));
                }
                SpanBounds<Code, Acc> spans(opened.context, bounds);
                for (Row row = 0; row < scores.size(); ++row) {
                    const auto found = spans.collect(std::max<std::uint64_t>(bounds.steps(scores[row]), 1));
                    CHECK(scores[row] == 0 ||
                          std::binary_search(found.begin(), found.end(), positions[row] / kSpanDocs));
                }
                std::vector<std::uint32_t> clusters;
                for (std::uint32_t c = 0; c < made.index.num_clusters(); ++c) {
                    if (draw(random, 0, 9) == 0) clusters.push_back(c);
                }
                TileRanges merged;
                for (const std::uint32_t c : clusters) merged.add(tiles_of_cluster(made.index, c));
                const std::vector<TileRange> ranges = merged.get();
                bounds.bound_ranges(ranges);
                for (const auto& [first, end] : ranges) check_tiles(first, end);
                for (const std::uint32_t c : clusters) {
                    const TileRange tiles = tiles_of_cluster(made.index, c);
                    const auto has = [&](const TileRange& r) { return r.first <= tiles.first && tiles.end <= r.end; };
                    CHECK_EQ(std::count_if(ranges.begin(), ranges.end(), has), 1);
                }
                for (std::uint32_t tile = 0; tile < made.index.num_tiles(); ++tile) bounds.require(tile, tile + 1);
                check_tiles(0, made.index.num_tiles());
                const std::uint64_t some = expected[draw(random, 0, expected.size() - 1)];
                for (const std::uint64_t least : {std::uint64_t{1}, some, some + 1, std::uint64_t{65536}}) {
                    std::vector<std::uint32_t> blocks;
                    for (std::uint32_t b = 0; b < expected.size(); ++b) {
                        if (expected[b] >= least) blocks.push_back(b);
                    }
                    const auto found = bounds.collect(0, made.index.num_tiles(), least);
                    CHECK_EQ((std::vector<std::uint32_t>(found.begin(), found.end())), blocks);
                }
            });
        }
    });
}

// With max_blocks best first looks at the blocks of the best bounds, no more, and answers from these.
TEST(search_max_blocks) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(random_collection<Code>({.docs = 4000, .terms = 90, .clusters = 30, .head_ratio = 1}));
        const std::vector<Position> positions = positions_of_rows(made.index);
        each_opened(made, {}, 10, [&]<class Acc>(Opened<Code, Acc>& opened, const PreparedQuery& query) {
            BlockBounds<Code, Acc> bounds(opened.context);
            bounds.bound_all();
            std::vector<std::uint32_t> blocks(made.index.num_blocks());
            std::iota(blocks.begin(), blocks.end(), 0U);
            std::stable_sort(blocks.begin(), blocks.end(),
                             [&](std::uint32_t a, std::uint32_t b) { return bounds.bound(a) > bounds.bound(b); });
            const std::vector<std::uint64_t> scores = made.docs.scores(query);
            for (const std::uint32_t most : {1U, 2U, 31U, 32U, 33U, 45U, 100U, 1U << 30}) {
                const std::set<std::uint32_t> looked_at(
                    blocks.begin(), blocks.begin() + std::min<std::ptrdiff_t>(most, std::ssize(blocks)));
                std::vector<std::uint64_t> seen(scores.size(), 0);
                for (Row row = 0; row < seen.size(); ++row) {
                    if (looked_at.contains(positions[row] / kBlockDocs)) seen[row] = scores[row];
                }
                const Ranking ranking = rank_all(seen);
                for (const std::size_t k : {1, 10, 300}) {
                    NOTE("at most " << most << ", k " << k);
                    SearchParams params = variant(Method::best_first, false);
                    params.max_blocks = most;
                    params.hooks.sweep = true;
                    SearchResult result = search(made.index, query, k, params);
                    CHECK_EQ(result.rows, ranking.first(k).rows);
                    CHECK_EQ(result.scores, ranking.first(k).scores);
                    CHECK(result.stats.blocks_scored <= most);
                    // By clusters other blocks come first, but no more of them.
                    params.hooks.all_tiles = 0;
                    result = search(made.index, query, k, params);
                    CHECK(result.stats.blocks_scored <= most);
                    for (std::size_t i = 0; i < result.rows.size(); ++i) {
                        CHECK_EQ(result.scores[i], scores[result.rows[i]]);
                    }
                }
            }
        });
    });
}

// With max_terms a search answers for the query of its heaviest terms; with bound_dropped for all of them.
TEST(search_max_terms) {
    const Indexed<std::uint8_t> made(random_collection<std::uint8_t>({.docs = 2000, .clusters = 30, .head_ratio = 1}));
    Random random(51);
    for (int round = 0; round < 5; ++round) {
        const PreparedQuery query = random_query(made.index, random, 12, 50);
        for (SearchParams params : safe_variants()) {
            for (const std::uint32_t max_terms : {1U, 4U, 11U, 12U, 100U}) {
                PreparedQuery heaviest = query;
                const auto most = [&](const QueryTerm& t) { return t.weight * made.index.largest_code(t.term); };
                std::stable_sort(heaviest.terms.begin(), heaviest.terms.end(),
                                 [&](auto& a, auto& b) { return most(a) > most(b); });
                heaviest.terms.resize(std::min<std::size_t>(max_terms, query.terms.size()));
                params.max_terms = max_terms;
                params.bound_dropped = false;
                check_result(made.index, query, rank_all(made.docs.scores(heaviest)), 10, params);
                params.bound_dropped = true;
                check_result(made.index, query, rank_all(made.docs.scores(query)), 10, params);
            }
        }
    }
}

// A sweep answers like exhaustive search, whether nothing was found before or some documents that set a threshold.
TEST(search_sweep) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(random_collection<Code>({.docs = 2000, .clusters = 30, .head_ratio = 1}));
        const SearchParams params;
        for (const std::size_t k : {1, 10, 700}) {
            for (const std::size_t num_found : {0, 5, 900, 2000}) {
                each_opened(made, params, k, [&]<class Acc>(Opened<Code, Acc>& opened, const PreparedQuery& query) {
                    NOTE("k " << k << ", found " << num_found);
                    const std::vector<std::uint64_t> scores = made.docs.scores(query);
                    auto& top = opened.context.top();
                    for (Row row = 0; row < num_found; ++row) {
                        const Acc score = static_cast<Acc>(scores[row]);
                        if (top.admits(score, row)) top.push(score, row);
                    }
                    sweep(opened.context);
                    const Ranking expected = rank_all(scores).first(k);
                    std::vector<Row> rows;
                    top.drain([&](std::size_t, Acc, Row row) { rows.push_back(row); });
                    CHECK_EQ(rows, expected.rows);
                    CHECK_EQ(opened.result.stats.swept, 1U);
                });
            }
        }
    });
}

// A query of more terms than steps in a bound is answered, too.
TEST(search_with_very_many_terms) {
    Collection<std::uint8_t> docs;
    docs.num_terms = 70'000;
    docs.head_ratio = 1;
    Random random(52);
    for (std::uint32_t d = 0; d < 400; ++d) {
        docs.add_entry(d % 3, static_cast<std::uint8_t>(draw(random, 1, 255)));
        for (std::uint32_t term = 3 + d; term < docs.num_terms; term += 400) {
            docs.add_entry(term, static_cast<std::uint8_t>(draw(random, 1, 255)));
        }
        docs.end_document(d % 7, 0);
    }
    const Indexed<std::uint8_t> made(std::move(docs));
    std::vector<std::int64_t> terms(70'000);
    std::iota(terms.begin(), terms.end(), 0);
    const PreparedQuery query = prepare_query(made.index, terms, std::vector<double>(terms.size(), 1.0));
    CHECK_EQ(query.terms.size(), terms.size());
    const Ranking ranking = rank_all(made.docs.scores(query));
    for (const SearchParams& params : safe_variants()) check_result(made.index, query, ranking, 10, params);
}

// The lazy queue decides about the same clusters in the same order by the same numbers as the plain one, for any
// factors; by BoundSum it only reads fewer segments.
TEST(search_lazy_and_plain_traces_are_equal) {
    for (const Shape& shape : shapes<std::uint8_t>()) {
        const Indexed<std::uint8_t> made(random_collection<std::uint8_t>(shape));
        Random random(shape.seed);
        for (const std::size_t terms : {1, 4, 12, 12}) {
            const PreparedQuery query = random_query(made.index, random, terms, 9);
            for (const auto& [mu, eta] : kFactors) {
                for (SearchParams params : safe_variants()) {
                    if (params.method != Method::asc || !params.trace || !params.hooks.lazy) continue;
                    params.mu = mu;
                    params.eta = eta;
                    for (const std::size_t k : {1, 5, 40}) {
                        NOTE("shape " << shape.seed << ", k " << k << ", " << describe(params));
                        SearchParams plain = params;
                        plain.hooks.lazy = false;
                        const SearchResult a = search(made.index, query, k, params);
                        const SearchResult b = search(made.index, query, k, plain);
                        CHECK_EQ(a.rows, b.rows);
                        CHECK_EQ(a.scores, b.scores);
                        CHECK_EQ(a.trace.size(), b.trace.size());
                        const bool same_bounds = params.hooks.cluster_order == ClusterOrder::max_bound;
                        CHECK(std::equal(a.trace.begin(), a.trace.end(), b.trace.begin(), b.trace.end(),
                                         [&](auto& x, auto& y) { return same_entry(x, y, same_bounds); }));
                    }
                }
            }
        }
    }
}

// With factors below 1 scores stay exact, and the score at every rank is at least mu times the true one.
TEST(search_factors_bound_the_loss) {
    for (const Shape& shape : shapes<std::uint8_t>()) {
        const Indexed<std::uint8_t> made(random_collection<std::uint8_t>(shape));
        Random random(shape.seed);
        for (const std::size_t terms : {2, 8}) {
            const PreparedQuery query = random_query(made.index, random, terms, 20);
            const std::vector<std::uint64_t> scores = made.docs.scores(query);
            const Ranking ranking = rank_all(scores);
            for (const auto& [mu, eta] : kFactors) {
                for (SearchParams params : safe_variants()) {
                    params.mu = mu;
                    params.eta = eta;
                    for (const std::size_t k : {1, 10}) {
                        NOTE("shape " << shape.seed << ", k " << k << ", " << describe(params));
                        const SearchResult result = search(made.index, query, k, params);
                        const Ranking best = ranking.first(k);
                        CHECK_EQ(result.rows.size(), best.rows.size());
                        for (std::size_t i = 0; i < result.rows.size(); ++i) {
                            CHECK_EQ(result.scores[i], scores[result.rows[i]]);
                            CHECK(static_cast<double>(result.scores[i]) >=
                                  mu * static_cast<double>(best.scores[i]) * (1 - 1e-12));
                        }
                    }
                }
            }
        }
    }
}

// A trace names each cluster once; what it visited, pruned and tied is what the counters say.
TEST(search_traces_match_counters) {
    const Indexed<std::uint8_t> made(damage_collection<std::uint8_t>());
    Random random(44);
    for (const std::size_t terms : {1, 3, 10}) {
        const PreparedQuery query = random_query(made.index, random, terms, 9);
        for (const auto& [mu, eta] : kFactors) {
            for (SearchParams params : safe_variants()) {
                if (!params.trace) continue;
                params.mu = mu;
                params.eta = eta;
                NOTE("terms " << terms << ", " << describe(params));
                const SearchResult result = search(made.index, query, 5, params);
                std::set<std::uint32_t> clusters;
                for (const TraceEntry& entry : result.trace) clusters.insert(entry.cluster);
                CHECK_EQ(clusters.size(), result.trace.size());
                const auto count = [&](Decision decision) {
                    return std::count_if(result.trace.begin(), result.trace.end(),
                                         [&](const TraceEntry& e) { return e.decision == decision; });
                };
                const SearchStats& stats = result.stats;
                CHECK_EQ(stats.clusters_visited, count(Decision::visited));
                CHECK_EQ(stats.clusters_pruned, count(Decision::pruned));
                CHECK_EQ(stats.clusters_tied, count(Decision::tied));
                CHECK_EQ(stats.clusters_visited + stats.clusters_pruned + stats.clusters_tied + stats.clusters_stopped +
                             stats.clusters_zero,
                         made.index.num_clusters());
            }
        }
    }
}

// max_clusters and a time budget end a search after that many clusters, never before the first, and what was scored
// until then is exact.
TEST(search_respects_limits) {
    const Indexed<std::uint8_t> made(damage_collection<std::uint8_t>());
    Random random(47);
    const PreparedQuery query = random_query(made.index, random, 15, 9);
    const std::vector<std::uint64_t> scores = made.docs.scores(query);
    for (const SearchParams& safe : safe_variants()) {
        if (safe.method != Method::anytime && safe.method != Method::asc) continue;
        SearchParams unlimited = safe;
        unlimited.trace = true;
        const std::uint64_t all = search(made.index, query, 10, unlimited).stats.clusters_visited;
        CHECK(all > 6);
        for (const std::uint32_t most : {1U, 2U, 5U, 1000U}) {
            for (const bool by_time : {false, true}) {
                NOTE("at most " << most << ", by time " << by_time << ", " << describe(safe));
                SearchParams params = safe;
                params.max_clusters = by_time ? 0 : most;
                // A clock that every look moves by a millisecond: one look at the start and one before each visit.
                params.budget_ms = by_time ? most + 1 : 0;
                params.risk = 0;
                params.hooks.clock = [now = std::uint64_t{0}]() mutable { return now += 1'000'000; };
                const SearchResult result = search(made.index, query, 10, params);
                const bool limited = most == 5U ? result.stats.budget_hit == 1 : most < 5U;
                CHECK_EQ(result.stats.budget_hit, limited ? 1U : 0U);
                CHECK(result.stats.clusters_visited >= 1 && result.stats.clusters_visited <= most + 1);
                if (!by_time) CHECK(result.stats.clusters_visited <= most);
                for (std::size_t i = 0; i < result.rows.size(); ++i) CHECK_EQ(result.scores[i], scores[result.rows[i]]);
            }
        }
    }
}

// What is told of a watched document is true: its score, or a bound of it that did not pass the threshold, or that its
// cluster was not visited.
TEST(search_tells_the_fate_of_a_document) {
    const Indexed<std::uint8_t> made(damage_collection<std::uint8_t>());
    Random random(48);
    const std::vector<Position> positions = positions_of_rows(made.index);
    const PreparedQuery query = random_query(made.index, random, 15, 9);
    const std::vector<std::uint64_t> scores = made.docs.scores(query);
    for (SearchParams params : safe_variants()) {
        const bool best_first = params.method == Method::best_first;
        if (!(params.trace || best_first) || params.hooks.estimate_threshold) continue;
        for (Row row = 0; row < made.docs.num_docs(); row += 3) {
            NOTE("row " << row << ", " << describe(params));
            params.watch = positions[row];
            const SearchResult result = search(made.index, query, 10, params);
            const std::uint32_t cluster = made.index.cluster_of(positions[row]);
            const bool visited = std::any_of(result.trace.begin(), result.trace.end(), [&](const TraceEntry& e) {
                return e.cluster == cluster && e.decision == Decision::visited;
            });
            const WatchReport& report = result.watched;
            if (report.fate == Fate::scored) CHECK_EQ(report.bound, scores[row]);
            if (report.fate == Fate::below_bound)
                CHECK(scores[row] <= report.bound && report.bound <= report.threshold);
            if (best_first) {
                CHECK(report.fate != Fate::unseen);
                continue;
            }
            if (report.fate != Fate::unseen) CHECK(visited);
            if (params.hooks.documents == DocumentMethod::blocks) CHECK_EQ(report.fate != Fate::unseen, visited);
        }
    }
}

// A search whose stop check says so throws Interrupted, at whatever poll, and the next one on the thread is right.
TEST(search_stops_on_request) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(random_collection<Code>(
            {.docs = 900, .terms = 80, .clusters = 300, .terms_per_doc = 12, .largest_code = 9}));
        Random random(45);
        for (const std::uint32_t weight : {5U, kMaxQueryWeight}) {
            const PreparedQuery query = random_query(made.index, random, 20, weight);
            const Ranking ranking = rank_all(made.docs.scores(query));
            for (const SearchParams& params : safe_variants()) {
                NOTE(describe(params));
                SearchParams counting = params;
                int polls = 0;
                counting.stop = [&] { return ++polls < 0; };
                check_result(made.index, query, ranking, 200, counting);
                CHECK(polls > 0);
                for (int poll = 1; poll <= polls; ++poll) {
                    SearchParams stopping = params;
                    stopping.stop = stop_at(poll);
                    CHECK_THROWS(search(made.index, query, 200, stopping), Interrupted);
                    check_result(made.index, query, ranking, 200, params);
                }
            }
        }
    });
}

// Threads that search one index at the same time get the answers of one thread.
TEST(search_is_safe_in_threads) {
    const Indexed<std::uint8_t> made(damage_collection<std::uint8_t>());
    const std::vector<SearchParams> variants = safe_variants();
    const auto answers = [&](std::size_t shift) {
        std::vector<std::vector<Row>> rows(variants.size());
        for (std::size_t i = 0; i < variants.size(); ++i) {
            const std::size_t at = (i + shift) % variants.size();
            Random random(at);
            rows[at] = search(made.index, random_query(made.index, random, 9, 50), 15, variants[at]).rows;
        }
        return rows;
    };
    const auto expected = answers(0);
    std::vector<std::vector<std::vector<Row>>> found(4);
    {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < found.size(); ++t) threads.emplace_back([&, t] { found[t] = answers(t * 5); });
    }
    for (const auto& rows : found) CHECK(rows == expected);
}

// Whatever bytes are in the arrays that are not checked on opening, no method leaves its memory, and results are
// at most k rows in order of their scores.
TEST(search_survives_damage) {
    each_code_type([](auto code) {
        NOTE("code bytes " << sizeof(code));
        each_damaged_index(make_parts(damage_collection<decltype(code)>()), use_damaged);
    });
}

// Damage in clusters of several tiles and windows is survived too.
TEST(search_survives_damage_in_large_clusters) {
    Collection<std::uint8_t> docs;
    docs.num_terms = 6;
    for (std::uint32_t d = 0; d < 80000; ++d) {
        docs.add_entry(d % 3, static_cast<std::uint8_t>(1 + d % 255));
        if (d % 500 == 0) docs.add_entry(3 + d / 500 % 3, 9);
        docs.end_document(d % 10 == 0 ? 1 : d < 79000 ? 0 : 2 + d % 60, 0);
    }
    each_damaged_index(make_parts(docs), [](const Index& index, Random& random) {
        for (const Method method :
             {Method::exhaustive, Method::maxscore, Method::anytime, Method::asc, Method::best_first}) {
            SearchParams params = variant(method, true);
            params.trace = true;
            params.hooks.all_tiles = static_cast<std::uint32_t>(draw(random, 0, 1)) * 512;
            check_plausible(index, search(index, random_query(index, random, 6, 50), 10, params), 10);
        }
    });
}

// A search over a damaged index leaves nothing behind: the next one on the thread, over a whole index, is right.
TEST(search_after_damage_is_right) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(damage_collection<Code>());
        Random query_random(46);
        const PreparedQuery query = random_query(made.index, query_random, 10, 50);
        const Ranking ranking = rank_all(made.docs.scores(query));
        each_damaged_index(made.parts, [&](const Index& index, Random& random) {
            for (const SearchParams& params : safe_variants()) {
                NOTE("damaged " << describe(params));
                search(index, random_query(index, random, 10, 50), 20, params);
                check_result(made.index, query, ranking, 20, with_method(Method::exhaustive));
                check_result(made.index, query, ranking, 20, with_method(Method::asc));
            }
        });
    });
}
