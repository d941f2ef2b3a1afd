// The engine's parts against what they are defined as, and what may cut a search short: masks, floors, the gate,
// budgets.
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "check.hpp"
#include "make_index.hpp"
#include "search_variants.hpp"
#include "segmax/index/documents.hpp"
#include "segmax/search/search.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

/// Several tiles, clusters of one and of many blocks, terms of every kind.
template <class Code>
Collection<Code> tiled_collection() {
    constexpr std::uint32_t max = std::numeric_limits<Code>::max();
    return random_collection<Code>({.docs = 6000, .terms = 90, .clusters = 30, .largest_code = max, .head_ratio = 1});
}

/// What the engine bounds blocks by.
template <class Code, class Acc>
struct Bounds {
    explicit Bounds(Context<Code, Acc>& context) : terms(context), tails(context), blocks(context, terms, tails) {}
    BoundTerms<Code, Acc> terms;
    TailPlaces<Code, Acc> tails;
    BlockBounds<Code, Acc> blocks;
};

/// The largest code of a term in every block, from the documents.
template <class Code>
std::vector<std::uint64_t> block_maxima(const Indexed<Code>& made, std::uint32_t term) {
    std::vector<std::uint64_t> best(made.index.num_blocks(), 0);
    for (Position p = 0; p < made.index.num_positions(); ++p) {
        const Row row = made.index.row_at(p);
        if (row == kNoRow) continue;
        made.docs.each_entry(row, [&](std::uint32_t t, Code code) {
            if (t == term) best[p / kBlockDocs] = std::max<std::uint64_t>(best[p / kBlockDocs], code);
        });
    }
    return best;
}

/// A code rounded up to a level of a term that has levels.
template <class Code>
std::uint64_t rounded(const TermView<Code>& term, std::uint64_t code) {
    return *std::lower_bound(term.levels, term.levels + kNumLevels, code);
}

/// The bounds of every group of so many blocks by definition: the largest code of each term, of head terms rounded up
/// to a level, times its weight, in steps and rounded up. Beyond the `num_bounded` heaviest terms, what a term adds at
/// most.
template <class Code, class Acc>
std::vector<std::uint64_t> direct_bounds(const Indexed<Code>& made, const Opened<Code, Acc>& opened,
                                         const BoundTerms<Code, Acc>& terms, std::size_t group,
                                         std::size_t num_bounded) {
    std::vector<const TermView<Code>*> heaviest;
    for (const auto& term : opened.context.terms()) heaviest.push_back(&term);
    std::stable_sort(heaviest.begin(), heaviest.end(), [](auto* a, auto* b) { return a->most() > b->most(); });
    std::vector<std::uint64_t> sums((made.index.num_blocks() + group - 1) / group, 0);
    std::vector<std::uint64_t> tails(made.index.num_blocks(), 0);
    for (std::size_t i = 0; i < heaviest.size(); ++i) {
        const TermView<Code>& term = *heaviest[i];
        if (i >= num_bounded) {
            for (std::uint64_t& sum : sums) sum += terms.steps(term.most());
            continue;
        }
        const std::vector<std::uint64_t> best = block_maxima(made, term.term);
        if (!term.head) {
            for (std::size_t b = 0; b < tails.size(); ++b) tails[b] += terms.steps(term.weight * best[b]);
            continue;
        }
        for (std::size_t g = 0; g < sums.size(); ++g) {
            std::uint64_t largest = 0;
            for (std::size_t b = g * group; b < std::min(best.size(), (g + 1) * group); ++b) {
                largest = std::max(largest, best[b]);
            }
            sums[g] += terms.steps(term.weight * rounded(term, largest));
        }
    }
    for (std::size_t g = 0; g < sums.size(); ++g) {
        const auto first = tails.begin() + static_cast<std::ptrdiff_t>(g * group);
        sums[g] +=
            *std::max_element(first, first + static_cast<std::ptrdiff_t>(std::min(group, tails.size() - g * group)));
    }
    return sums;
}

/// The bounds of the segments of all clusters by definition, in steps.
template <class Code, class Acc>
std::vector<std::uint64_t> direct_segment_bounds(const Indexed<Code>& made, const Opened<Code, Acc>& opened,
                                                 const BoundTerms<Code, Acc>& terms) {
    const std::size_t num_segments = made.docs.num_segments;
    std::vector<std::uint64_t> sums(made.index.num_clusters() * num_segments, 0);
    for (const auto& term : opened.context.terms()) {
        std::vector<std::uint64_t> segments(sums.size(), 0), clusters(made.index.num_clusters(), 0);
        for (Position p = 0; p < made.index.num_positions(); ++p) {
            const Row row = made.index.row_at(p);
            if (row == kNoRow) continue;
            const std::uint32_t cluster = made.index.cluster_of(p);
            made.docs.each_entry(row, [&](std::uint32_t t, Code code) {
                if (t != term.term) return;
                auto& best = segments[cluster * num_segments + made.docs.segments[row]];
                best = std::max<std::uint64_t>(best, code);
                clusters[cluster] = std::max<std::uint64_t>(clusters[cluster], code);
            });
        }
        for (std::size_t i = 0; i < sums.size(); ++i) {
            if (segments[i] == 0) continue;
            const bool by_level = term.wide && num_segments > 1;
            sums[i] += terms.steps(term.weight * (by_level ? rounded(term, segments[i]) : clusters[i / num_segments]));
        }
    }
    return sums;
}

/// The blocks with at least this bound.
std::vector<std::uint32_t> blocks_from(const std::vector<std::uint64_t>& bounds, std::uint64_t least) {
    std::vector<std::uint32_t> blocks;
    for (std::uint32_t b = 0; b < bounds.size(); ++b) {
        if (bounds[b] >= least) blocks.push_back(b);
    }
    return blocks;
}

std::vector<std::uint32_t> copy_of(std::span<const std::uint32_t> found) {
    return {found.begin(), found.end()};
}

/// What a mask and a floor leave of a ranking. The floor is in the query's integers, here as twice its value, so that
/// it may lie between two scores.
struct Restriction {
    std::vector<bool> allowed;  // by row; empty: all
    std::optional<std::uint64_t> floor_twice;
    Row floor_row = kNoRow;

    bool lets_in(Row row, std::uint64_t score) const {
        if (!allowed.empty() && !allowed[row]) return false;
        if (!floor_twice) return true;
        return 2 * score > *floor_twice || (2 * score == *floor_twice && row < floor_row);
    }

    Ranking of(const Ranking& all) const {
        Ranking left;
        for (std::size_t i = 0; i < all.rows.size(); ++i) {
            if (!lets_in(all.rows[i], all.scores[i])) continue;
            left.rows.push_back(all.rows[i]);
            left.scores.push_back(all.scores[i]);
        }
        return left;
    }

    void apply(const Index& index, const PreparedQuery& query, SearchParams& params) const {
        if (!allowed.empty()) params.mask = make_mask(index, [&](Row row) { return allowed[row]; });
        if (!floor_twice) return;
        // The score of a result is its integer times the scale, nothing else.
        const double score = *floor_twice % 2 == 0 ? static_cast<double>(*floor_twice / 2) * query.scale
                                                   : static_cast<double>(*floor_twice) / 2 * query.scale;
        params.floor = Floor{score, floor_row};
    }
};

/// Masks of every kind, and floors at, above and between scores of a ranking.
std::vector<Restriction> restrictions(const Ranking& all, std::uint32_t num_docs, Random& random) {
    std::vector<std::vector<bool>> masks(6, std::vector<bool>(num_docs, false));
    masks[0].clear();
    for (Row row = 0; row < num_docs; ++row) {
        masks[1][row] = draw(random, 0, 1) == 0;
        masks[2][row] = draw(random, 0, 49) == 0;
        masks[3][row] = true;
    }
    if (!all.rows.empty()) masks[5][all.rows[all.rows.size() / 2]] = true;  // masks[4] allows nothing
    std::vector<Restriction> made;
    for (const auto& mask : masks) made.push_back({mask, std::nullopt, kNoRow});
    for (const auto& mask : {masks[0], masks[1], masks[2]}) {
        if (all.rows.empty()) continue;
        for (const std::size_t rank : {std::size_t{0}, std::size_t{9}, all.rows.size() / 2, all.rows.size() - 1}) {
            const std::size_t at = std::min(rank, all.rows.size() - 1);
            const std::uint64_t twice = 2 * all.scores[at];
            made.push_back({mask, twice, all.rows[at]});
            made.push_back({mask, twice, kNoRow});
            made.push_back({mask, twice, 0});
            made.push_back({mask, twice - 1, static_cast<Row>(draw(random, 0, num_docs))});
            made.push_back({mask, twice + 1, kNoRow});
        }
        made.push_back({mask, 1, kNoRow});
        made.push_back({mask, 4 * all.scores[0], kNoRow});
    }
    // Between two scores the row of a floor means nothing.
    for (Restriction& restriction : made) {
        if (restriction.floor_twice && *restriction.floor_twice % 2 == 1) restriction.floor_row = kNoRow;
    }
    return made;
}

/// A query with weights that are no whole numbers, so that its scale is not 1.
PreparedQuery fractional_query(const Index& index, Random& random, std::size_t num_terms) {
    std::vector<std::int64_t> terms(index.num_terms());
    std::iota(terms.begin(), terms.end(), 0);
    std::shuffle(terms.begin(), terms.end(), random);
    terms.resize(std::min(num_terms, terms.size()));
    std::vector<double> weights(terms.size());
    for (double& weight : weights) weight = 0.37 * static_cast<double>(draw(random, 1, 9));
    return prepare_query(index, terms, weights);
}

/// Checks that rows are real, best first, without repeats, and scored right.
void check_real(const SearchResult& result, const std::vector<std::uint64_t>& scores) {
    CHECK_EQ(std::set<Row>(result.rows.begin(), result.rows.end()).size(), result.rows.size());
    for (std::size_t i = 0; i < result.rows.size(); ++i) {
        CHECK_EQ(result.scores[i], scores[result.rows[i]]);
        if (i == 0) continue;
        const bool in_order = result.scores[i - 1] > result.scores[i] ||
                              (result.scores[i - 1] == result.scores[i] && result.rows[i - 1] < result.rows[i]);
        CHECK(in_order);
    }
}

/// A clock that stands still until it has been looked at so many times, and is an hour later then.
Clock late_after(int looks) {
    return [left = looks]() mutable { return std::uint64_t{--left < 0 ? 3'600'000'000'000U : 0U}; };
}

/// A clock that every look moves by so many nanoseconds.
Clock ticking(std::uint64_t step) {
    return [now = std::uint64_t{0}, step]() mutable { return now += step; };
}

Clock standing() {
    return [] { return std::uint64_t{0}; };
}

bool same_work(const SearchStats& a, const SearchStats& b) {
    return a.clusters_visited == b.clusters_visited && a.clusters_pruned == b.clusters_pruned &&
           a.clusters_stopped == b.clusters_stopped && a.segments_read == b.segments_read &&
           a.blocks_scored == b.blocks_scored && a.docs_scored == b.docs_scored && a.postings_read == b.postings_read &&
           a.swept == b.swept && a.budget_hit == b.budget_hit;
}

/// Whether a limit left out a block that might have held a result: one whose bound passes the final θ and that was not
/// looked at. Where all blocks are bounded the best are looked at first, so counting is enough.
bool left_something_out(const std::vector<std::uint64_t>& bounds,
                        const std::function<std::uint64_t(std::uint64_t)>& steps, const SearchResult& result,
                        std::size_t k) {
    const std::uint64_t threshold = result.scores.size() == k ? result.scores.back() : 0;
    const auto least = std::max<std::uint64_t>({threshold, result.threshold_estimate, 1});
    return blocks_from(bounds, std::max<std::uint64_t>(steps(least), 1)).size() > result.stats.blocks_scored;
}

}  // namespace

// The bounds of blocks are what levels and maxima say, in 16 bits, and never below the score of a document; whether all
// blocks are bounded or tiles one after the other, after the quads. Those of quads are no less, and what is collected
// is what reaches the limit.
TEST(engine_bounds_of_blocks_and_quads) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(tiled_collection<Code>());
        const std::vector<Position> positions = positions_of_rows(made.index);
        Random random(50);
        for (const std::uint32_t max_terms : {0U, 2U}) {
            SearchParams params;
            params.max_terms = max_terms;
            params.bound_dropped = true;
            each_opened(made, params, 10, [&]<class Acc>(Opened<Code, Acc>& opened, const PreparedQuery& query) {
                NOTE("max terms " << max_terms);
                Bounds<Code, Acc> all(opened.context);
                BlockBounds<Code, Acc>& blocks = all.blocks;
                const std::size_t num_bounded = max_terms == 0 ? query.terms.size() : max_terms;
                const auto expected = direct_bounds(made, opened, all.terms, 1, num_bounded);
                const auto expected_quads = direct_bounds(made, opened, all.terms, kQuadBlocks, num_bounded);
                const auto check_blocks = [&](std::uint32_t first, std::uint32_t end) {
                    for (std::uint32_t block = first; block < std::min(end, made.index.num_blocks()); ++block) {
                        CHECK_EQ(blocks.bound(block), expected[block]);
                        CHECK(expected[block] <= expected_quads[block / kQuadBlocks]);
                    }
                };
                blocks.bound_all();
                check_blocks(0, made.index.num_blocks());
                const std::vector<std::uint64_t> scores = made.docs.scores(query);
                for (Row row = 0; row < scores.size(); ++row) {
                    const std::uint16_t bound = blocks.bound(positions[row] / kBlockDocs);
                    CHECK(scores[row] <= all.terms.score_of(bound) && all.terms.steps(scores[row]) <= bound);
                }
                const std::uint64_t some = expected[draw(random, 0, expected.size() - 1)];
                for (const std::uint64_t least : {std::uint64_t{1}, some, some + 1, std::uint64_t{65536}}) {
                    CHECK_EQ(copy_of(blocks.collect(least)), blocks_from(expected, std::max<std::uint64_t>(least, 1)));
                }

                Bounds<Code, Acc> fresh(opened.context);
                QuadBounds<Code, Acc> quads(opened.context, fresh.terms, fresh.blocks);
                quads.bound_all();
                for (std::uint32_t q = 0; q < expected_quads.size(); ++q) CHECK_EQ(quads.bound(q), expected_quads[q]);
                const std::uint64_t limit = expected_quads[draw(random, 0, expected_quads.size() - 1)] + 1;
                auto found = copy_of(quads.collect(limit));
                // Behind the last block there is what dropped terms add.
                std::erase_if(found, [&](std::uint32_t q) { return q >= expected_quads.size(); });
                CHECK_EQ(found, blocks_from(expected_quads, limit));
                const auto best = copy_of(quads.best(20, 1));
                CHECK(best.size() <= 30 && std::is_sorted(best.begin(), best.end()));
                for (std::uint32_t tile = 0; tile < made.index.num_tiles(); ++tile) {
                    if (tile % 2 == 1) continue;
                    const std::vector<std::uint32_t> wanted{tile * kTileQuads, tile * kTileQuads + 3};
                    fresh.blocks.bound_tiles(wanted);
                    fresh.blocks.bound_tiles(wanted);  // once more changes nothing
                    CHECK(fresh.blocks.is_bounded(tile));
                    check_blocks(tile * kTileBlocks, (tile + 1) * kTileBlocks);
                }
                for (const std::uint32_t block : fresh.blocks.collect(1)) CHECK_EQ(block / kTileBlocks % 2, 0U);
            });
        }
    });
}

// A rare term in all blocks of a quad does not make its bound wrap: what four blocks add does not fit 16 bits.
TEST(engine_quads_of_rare_terms) {
    Collection<std::uint8_t> docs;
    docs.num_terms = 2;
    docs.head_ratio = 1;
    for (std::uint32_t d = 0; d < 16'384; ++d) {
        const std::uint32_t tile = d / kTileDocs;
        // The best documents are those of the first quad, in a tile with nothing else of the query.
        if (d < 32) docs.add_entry(0, 255);
        if (tile > 0 && d % 64 == 0) docs.add_entry(0, static_cast<std::uint8_t>(50 + d % 7));
        docs.add_entry(1, 1);
        docs.end_document(d / 32, 0);
    }
    const Indexed<std::uint8_t> made(std::move(docs));
    CHECK(!made.index.is_head(0));
    for (const double weight : {1.0, 128.0, 257.0, 32767.0}) {
        const PreparedQuery query =
            prepare_query(made.index, std::vector<std::int64_t>{0}, std::vector<double>{weight});
        const Ranking ranking = rank_all(made.docs.scores(query));
        for (const bool estimate : {false, true}) {
            SearchParams params = variant(Method::asc, estimate);
            params.hooks.all_tiles = 0;
            for (const std::size_t k : {1, 10, 40, 500}) check_result(made.index, query, ranking, k, params);
        }
    }
}

/// The clusters with the best MaxSBound, as the gate ranks them.
std::set<std::uint32_t> best_clusters(const std::vector<std::uint64_t>& bounds, std::size_t count) {
    std::vector<std::uint32_t> clusters;
    for (std::uint32_t c = 0; c < bounds.size(); ++c) {
        if (bounds[c] > 0) clusters.push_back(c);
    }
    std::stable_sort(clusters.begin(), clusters.end(), [&](auto a, auto b) { return bounds[a] > bounds[b]; });
    clusters.resize(std::min(clusters.size(), count));
    return {clusters.begin(), clusters.end()};
}

// The gate's bounds are the segment maxima of the documents, rounded as in the index and in steps, with one segment and
// with many; they are never below MaxSBound and n * AvgSBound, and its decisions are those of ASC's rule.
TEST(engine_gate) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        for (const std::uint32_t segments : {1U, 2U, 6U, 17U}) {
            const Indexed<Code> made(random_collection<Code>(
                {.docs = 3000, .terms = 120, .clusters = 60, .segments = segments, .terms_per_doc = 5}));
            for (const auto& [mu, eta] : {std::pair{0.9, 1.0}, {0.5, 0.8}, {0.6, 0.4}}) {
                SearchParams params;
                params.mu = mu;
                params.eta = eta;
                each_opened(made, params, 10, [&]<class Acc>(Opened<Code, Acc>& opened, const PreparedQuery& query) {
                    NOTE("segments " << segments << ", mu " << mu << ", eta " << eta);
                    const BoundTerms<Code, Acc> terms(opened.context);
                    ClusterGate<Code, Acc> gate(opened.context, terms);
                    gate.bound_all();
                    const auto expected = direct_segment_bounds(made, opened, terms);
                    const AllBounds bounds = cluster_bounds(made.index, query);
                    std::vector<std::uint64_t> largest(made.index.num_clusters(), 0);
                    for (std::uint32_t c = 0; c < made.index.num_clusters(); ++c) {
                        const auto first = expected.begin() + static_cast<std::ptrdiff_t>(c) * segments;
                        largest[c] = *std::max_element(first, first + segments);
                        const std::uint64_t sum = std::accumulate(first, first + segments, std::uint64_t{0});
                        CHECK_EQ(gate.max_bound(c), largest[c]);
                        CHECK_EQ(gate.segment_sum(c), sum);
                        CHECK(terms.score_of(largest[c]) >= bounds.max_bound[c]);
                        CHECK(terms.score_of(sum) >= bounds.segment_sum[c]);
                        for (const std::uint64_t score : {bounds.best_score[c] / 2, bounds.best_score[c]}) {
                            const auto threshold = static_cast<double>(score);
                            const bool out = static_cast<double>(terms.score_of(largest[c])) <= threshold / mu &&
                                             static_cast<double>(terms.score_of(sum)) <= threshold * segments / eta;
                            CHECK_EQ(gate.keeps(c, static_cast<Acc>(score)), !out);
                        }
                    }
                    for (const std::size_t count : {1, 7, 1000}) {
                        std::vector<std::uint32_t> best;
                        gate.best(count, best);
                        const auto wanted = best_clusters(largest, count);
                        CHECK_EQ(best, std::vector<std::uint32_t>(wanted.begin(), wanted.end()));
                    }
                });
            }
        }
    });
}

// Scoring whole spans offers their documents, all with their exact scores, and no others.
TEST(engine_scores_spans) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(tiled_collection<Code>());
        const std::vector<Position> positions = positions_of_rows(made.index);
        Random random(53);
        const SearchParams params;
        for (const std::size_t k : {10, 6000}) {
            each_opened(made, params, k, [&]<class Acc>(Opened<Code, Acc>& opened, const PreparedQuery& query) {
                Bounds<Code, Acc> bounds(opened.context);
                bounds.blocks.bound_all();
                std::vector<std::uint32_t> spans;
                for (std::uint32_t span = 0; span * kSpanDocs < made.index.num_positions(); ++span) {
                    if (draw(random, 0, 2) != 0) spans.push_back(span);
                }
                SpanScorer<Code, Acc>(opened.context, bounds.terms, bounds.tails, bounds.blocks).score(spans);
                std::vector<std::uint64_t> seen = made.docs.scores(query);
                for (Row row = 0; row < seen.size(); ++row) {
                    if (!std::binary_search(spans.begin(), spans.end(), positions[row] / kSpanDocs)) seen[row] = 0;
                }
                const Ranking expected = rank_all(seen).first(k);
                std::vector<Row> rows;
                opened.context.top().drain([&](std::size_t, Acc, Row row) { rows.push_back(row); });
                CHECK_EQ(rows, expected.rows);
            });
        }
    });
}

// Where many blocks pass, spans are scored as a whole, and the answer is that of brute force.
TEST(engine_scores_spans_where_many_blocks_pass) {
    Collection<std::uint8_t> docs;
    docs.num_terms = 12;
    docs.num_segments = 2;
    Random random(54);
    for (std::uint32_t d = 0; d < 200'000; ++d) {
        // Four common terms, and rare ones, which tail terms are made of.
        for (std::uint32_t t = 0; t < 4; ++t) {
            if (draw(random, 0, 1) == 0) docs.add_entry(t, static_cast<std::uint8_t>(draw(random, 1, 255)));
        }
        if (d % 300 == 0) docs.add_entry(4 + d / 300 % 8, 200);
        docs.end_document(d / 1000, d % 2);
    }
    const Indexed<std::uint8_t> made(std::move(docs));
    std::size_t times_used = 0;
    for (const std::vector<std::int64_t>& terms : {std::vector<std::int64_t>{0, 1, 5}, {0, 1, 2, 3, 4, 5, 6, 7}}) {
        const PreparedQuery query = prepare_query(made.index, terms, std::vector<double>(terms.size(), 3.0));
        const Ranking ranking = rank_all(made.docs.scores(query));
        for (const std::size_t k : {10, 64, 65, 500, 1000, 2000}) {
            for (const std::uint32_t all_tiles : {0U, 2048U}) {
                SearchParams params;
                params.hooks.all_tiles = all_tiles;
                const SearchResult result = check_result(made.index, query, ranking, k, params);
                params.hooks.sweep = false;
                const SearchResult by_blocks = check_result(made.index, query, ranking, k, params);
                const bool more = result.stats.blocks_scored > by_blocks.stats.blocks_scored;
                times_used += result.stats.swept == 0 && more ? 1 : 0;
            }
        }
    }
    CHECK(times_used > 0);
}

// A sweep answers like exhaustive search, whether nothing was found before or some documents that set a threshold, with
// a mask and a floor or without.
TEST(engine_sweep) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(random_collection<Code>({.docs = 2000, .clusters = 30, .head_ratio = 1}));
        Restriction restriction;
        for (const bool restricted : {false, true}) {
            SearchParams params;
            if (restricted) {
                for (Row row = 0; row < 2000; ++row) restriction.allowed.push_back(row % 3 != 1);
                params.mask = make_mask(made.index, [&](Row row) { return restriction.allowed[row]; });
            }
            for (const std::size_t k : {1, 10, 700}) {
                for (const std::size_t num_found : {0, 5, 900, 2000}) {
                    each_opened(made, params, k, [&]<class Acc>(Opened<Code, Acc>& opened, const PreparedQuery& query) {
                        NOTE("k " << k << ", found " << num_found << ", restricted " << restricted);
                        const std::vector<std::uint64_t> scores = made.docs.scores(query);
                        const Ranking all = rank_all(scores);
                        if (restricted && !all.rows.empty()) {
                            const std::size_t middle = all.rows.size() / 2;
                            restriction.floor_twice = 2 * all.scores[middle];
                            restriction.floor_row = all.rows[middle];
                            opened.context.floor = IntegerFloor{all.scores[middle], all.rows[middle]};
                            opened.context.reset_top(true);
                        }
                        auto& top = opened.context.top();
                        for (Row row = 0; row < num_found; ++row) {
                            const Acc score = static_cast<Acc>(scores[row]);
                            const bool allowed = !restricted || restriction.allowed[row];
                            if (allowed && top.admits(score, row)) top.push(score, row);
                        }
                        sweep(opened.context);
                        const Ranking expected = (restricted ? restriction.of(all) : all).first(k);
                        std::vector<Row> rows;
                        top.drain([&](std::size_t, Acc, Row row) { rows.push_back(row); });
                        CHECK_EQ(rows, expected.rows);
                        CHECK_EQ(opened.result.stats.swept, 1U);
                    });
                }
            }
        }
    });
}

// Under a mask and above a floor, each alone and both, every method answers like brute force over what they let in.
TEST(engine_masks_and_floors) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        for (const Shape& shape : shapes<Code>()) {
            if (shape.seed == 5) continue;  // slow, and nothing new
            const Indexed<Code> made(random_collection<Code>(shape));
            Random random(shape.seed);
            for (const std::size_t terms : {1, 3, 12}) {
                const PreparedQuery queries[] = {random_query(made.index, random, terms, 2),
                                                 random_query(made.index, random, terms, kMaxQueryWeight),
                                                 fractional_query(made.index, random, terms)};
                for (const PreparedQuery& query : queries) {
                    const Ranking all = rank_all(made.docs.scores(query));
                    for (const Restriction& restriction : restrictions(all, made.docs.num_docs(), random)) {
                        const Ranking left = restriction.of(all);
                        const std::size_t k = std::vector<std::size_t>{1, 10, 101}[draw(random, 0, 2)];
                        for (SearchParams params : safe_variants()) {
                            restriction.apply(made.index, query, params);
                            NOTE("shape " << shape.seed << ", code bytes " << sizeof(Code));
                            check_result(made.index, query, left, k, params);
                        }
                    }
                }
            }
        }
    });
}

// With factors, a mask and a floor, what is missing has a score of at most θ divided by the smaller factor, θ being the
// floor's where fewer than k documents were found.
TEST(engine_factors_with_masks_and_floors) {
    for (const Shape& shape : shapes<std::uint8_t>()) {
        if (shape.seed == 5) continue;
        const Indexed<std::uint8_t> made(random_collection<std::uint8_t>(shape));
        Random random(shape.seed);
        const PreparedQuery query = fractional_query(made.index, random, 6);
        const std::vector<std::uint64_t> scores = made.docs.scores(query);
        const Ranking all = rank_all(scores);
        for (const Restriction& restriction : restrictions(all, made.docs.num_docs(), random)) {
            const Ranking left = restriction.of(all);
            for (SearchParams params : safe_variants()) {
                const bool is_engine = params.method == Method::asc;
                const auto& [mu, eta] =
                    is_engine ? kEngineFactors[draw(random, 0, 2)] : kFactors[draw(random, 1, std::size(kFactors) - 1)];
                params.mu = mu;
                params.eta = eta;
                restriction.apply(made.index, query, params);
                const std::size_t k = draw(random, 0, 1) == 0 ? 3 : 40;
                NOTE("shape " << shape.seed << ", k " << k << ", " << describe(params));
                const SearchResult result = search(made.index, query, k, params);
                check_real(result, scores);
                const std::set<Row> found(result.rows.begin(), result.rows.end());
                for (const Row row : result.rows) CHECK(restriction.lets_in(row, scores[row]));
                double threshold = static_cast<double>(restriction.floor_twice.value_or(0)) / 2;
                if (found.size() == k) threshold = static_cast<double>(result.scores.back());
                for (std::size_t i = 0; i < left.rows.size(); ++i) {
                    if (found.contains(left.rows[i])) continue;
                    CHECK(static_cast<double>(left.scores[i]) * loss_factor(params) <= threshold * (1 + 1e-12));
                }
            }
        }
    }
}

// No document passes the ceiling, which is no larger than what all terms can add; in every shape, with one segment too.
TEST(engine_ceiling) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        for (const Shape& shape : shapes<Code>()) {
            const Indexed<Code> made(random_collection<Code>(shape));
            Random random(shape.seed);
            std::size_t below = 0;
            for (const std::size_t terms : {0, 1, 3, 12, 60}) {
                for (const std::uint32_t weight : {1U, 20U, kMaxQueryWeight}) {
                    NOTE("shape " << shape.seed << ", terms " << terms << ", weights to " << weight);
                    const PreparedQuery query = random_query(made.index, random, terms, weight);
                    const std::uint64_t most = ceiling(made.index, query);
                    const AllBounds bounds = cluster_bounds(made.index, query);
                    CHECK(most <= query.max_score);
                    for (std::size_t c = 0; c < made.index.num_clusters(); ++c) {
                        CHECK(bounds.best_score[c] <= bounds.max_bound[c] && bounds.max_bound[c] <= most);
                    }
                    below += most < query.max_score ? 1 : 0;
                }
            }
            CHECK(below > 0 || shape.seed == 3 || shape.seed == 1);
        }
    });
    const Indexed<std::uint8_t> empty{Collection<std::uint8_t>()};
    CHECK_EQ(ceiling(empty.index, prepare_query(empty.index, {}, {})), 0U);
}

// μ alone neither changes results nor work: nothing is asked that exact search does not ask.
TEST(engine_factors_of_clusters_cost_nothing) {
    const Indexed<std::uint8_t> made(gated_collection<std::uint8_t>());
    Random random(56);
    for (int round = 0; round < 8; ++round) {
        const PreparedQuery query = random_query(made.index, random, round < 4 ? 5 : 14, 9);
        for (const std::uint32_t all_tiles : {0U, 2048U}) {
            for (const std::size_t k : {1, 10, 100, 1000}) {
                SearchParams params;
                params.hooks.all_tiles = all_tiles;
                const SearchResult exact = search(made.index, query, k, params);
                for (const double mu : {0.9, 0.7, 0.5}) {
                    params.mu = mu;
                    const SearchResult found = search(made.index, query, k, params);
                    CHECK_EQ(found.rows, exact.rows);
                    CHECK_EQ(found.stats.segments_read, 0U);
                    CHECK_EQ(found.stats.clusters_pruned, 0U);
                    CHECK_EQ(found.stats.blocks_scored, exact.stats.blocks_scored);
                    CHECK_EQ(found.stats.postings_read, exact.stats.postings_read);
                    CHECK_EQ(found.stats.swept, exact.stats.swept);
                }
            }
        }
    }
}

// With a limit of clusters, the answer is that of the best of them alone, but for factors; never fewer than k documents
// where there are so many, and complete only where nothing is missing. A limit of all clusters is none.
TEST(engine_max_clusters) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(gated_collection<Code>());
        IndexArrays older = made.parts.view();  // of format 4, which says nothing of where entries of clusters start
        older.pair_entry = {};
        const Index without_starts(older);
        const std::vector<Position> positions = positions_of_rows(made.index);
        const double num_segments = made.docs.num_segments;
        constexpr double kRounding = 1 + 1e-12;
        Random random(55);
        std::size_t num_missing = 0, num_pruned = 0, num_complete = 0, num_whole = 0;
        for (const int round : {0, 2, 5, 7, 10}) {
            const PreparedQuery query = random_query(made.index, random, round % 2 == 0 ? 5 : 14, 9);
            const bool masked = round % 4 >= 2;
            const std::uint64_t rare = round % 8 == 7 ? 400 : 3;
            std::vector<bool> allowed(made.docs.num_docs());
            for (auto&& row : allowed) row = !masked || draw(random, 0, rare) == 0;
            std::vector<std::uint64_t> scores = made.docs.scores(query);
            for (Row row = 0; row < scores.size(); ++row) scores[row] = allowed[row] ? scores[row] : 0;
            const Ranking exact = rank_all(scores);
            const AllBounds bounds = cluster_bounds(made.index, query);
            SearchParams params = variant(Method::asc, round % 3 == 0);
            params.hooks.list_masked = false;
            params.trace = round % 5 == 0;
            const auto is_allowed = [&](Row row) { return allowed[row]; };
            if (masked) params.mask = make_mask(made.index, is_allowed);
            const auto without_starts_mask = make_mask(without_starts, is_allowed);
            for (const std::uint32_t max_clusters : {1U, 4U, 30U, made.index.num_clusters(), 1U << 31}) {
                for (const auto& [mu, eta] : {std::pair{1.0, 1.0}, {0.9, 1.0}, {0.5, 0.7}, {1.0, 0.8}}) {
                    params.max_clusters = max_clusters;
                    params.mu = mu;
                    params.eta = eta;
                    const auto chosen =
                        best_clusters(max_bounds(made.index, query, params, gate_mass(params)), max_clusters);
                    std::vector<std::uint64_t> left = scores;
                    for (Row row = 0; row < left.size(); ++row) {
                        if (!chosen.contains(made.index.cluster_of(positions[row]))) left[row] = 0;
                    }
                    const Ranking within = rank_all(left);
                    for (const std::size_t k : {1, 10, 100}) {
                        NOTE("round " << round << ", clusters " << max_clusters << ", k " << k << ", "
                                      << describe(params));
                        const SearchResult result = search(made.index, query, k, params);
                        const bool is_enough = within.rows.size() >= k || within.rows.size() == exact.rows.size();
                        const Ranking expected = (is_enough ? within : exact).first(k);
                        num_whole += is_enough ? 0 : 1;
                        CHECK_EQ(result.rows.size(), expected.rows.size());
                        const bool same = mu == 1.0 && eta == 1.0;
                        if (same) CHECK_EQ(result.rows, expected.rows);
                        if (same) CHECK_EQ(result.scores, expected.scores);
                        if (max_clusters >= made.index.num_clusters()) CHECK_EQ(result.stats.budget_hit, 0U);
                        if (same && result.stats.budget_hit == 0) CHECK_EQ(result.rows, exact.first(k).rows);
                        num_complete += result.stats.budget_hit == 0 && max_clusters == 30 ? 1 : 0;
                        num_missing += result.rows != exact.first(k).rows ? 1 : 0;
                        SearchParams same_params = params;
                        if (masked) same_params.mask = without_starts_mask;
                        const SearchResult twin = search(without_starts, query, k, same_params);
                        CHECK_EQ(twin.rows, result.rows);
                        CHECK_EQ(twin.stats.blocks_scored, result.stats.blocks_scored);
                        if (result.rows.size() < k) continue;
                        const auto threshold = static_cast<double>(result.scores.back());
                        for (const TraceEntry& entry : result.trace) {
                            if (entry.decision != Decision::pruned) continue;
                            const std::uint32_t c = entry.cluster;
                            CHECK(static_cast<double>(bounds.max_bound[c]) <= threshold / mu * kRounding);
                            CHECK(static_cast<double>(bounds.segment_sum[c]) / num_segments <=
                                  threshold / eta * kRounding);
                            ++num_pruned;
                        }
                    }
                }
            }
        }
        CHECK(num_missing > 100 && num_pruned > 100 && num_complete > 0 && num_whole > 0);
    });
}

// With max_blocks the engine looks at the blocks of the best bounds, no more, answers from these, and says so exactly
// where a block that might have held a result was left.
TEST(engine_max_blocks) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(random_collection<Code>({.docs = 4000, .terms = 90, .clusters = 30, .head_ratio = 1}));
        const std::vector<Position> positions = positions_of_rows(made.index);
        each_opened(made, {}, 10, [&]<class Acc>(Opened<Code, Acc>& opened, const PreparedQuery& query) {
            Bounds<Code, Acc> all(opened.context);
            const std::vector<std::uint64_t> bounds = direct_bounds(made, opened, all.terms, 1, query.terms.size());
            std::vector<std::uint32_t> blocks(made.index.num_blocks());
            std::iota(blocks.begin(), blocks.end(), 0U);
            std::stable_sort(blocks.begin(), blocks.end(),
                             [&](std::uint32_t a, std::uint32_t b) { return bounds[a] > bounds[b]; });
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
                    SearchParams params = variant(Method::asc, false);
                    params.max_blocks = most;
                    params.hooks.sweep = true;
                    SearchResult result = search(made.index, query, k, params);
                    CHECK_EQ(result.rows, ranking.first(k).rows);
                    CHECK_EQ(result.scores, ranking.first(k).scores);
                    CHECK(result.stats.blocks_scored <= most);
                    const auto steps = [&](std::uint64_t score) { return all.terms.steps(score); };
                    CHECK_EQ(result.stats.budget_hit, left_something_out(bounds, steps, result, k) ? 1U : 0U);
                    // By quads other blocks come first, but no more of them.
                    params.hooks.all_tiles = 0;
                    result = search(made.index, query, k, params);
                    CHECK(result.stats.blocks_scored <= most);
                    check_real(result, scores);
                    if (result.stats.budget_hit == 0) CHECK_EQ(result.rows, rank_all(scores).first(k).rows);
                }
            }
        });
    });
}

// A budget ends a search between batches, with the best seen so far and at least one batch, and says so exactly where
// it left something out.
TEST(engine_budget_stops_between_batches) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        const Indexed<Code> made(tiled_collection<Code>());
        std::size_t num_stopped = 0;
        each_opened(made, {}, 10, [&]<class Acc>(Opened<Code, Acc>& opened, const PreparedQuery& query) {
            Bounds<Code, Acc> all(opened.context);
            const std::vector<std::uint64_t> bounds = direct_bounds(made, opened, all.terms, 1, query.terms.size());
            const auto steps = [&](std::uint64_t score) { return all.terms.steps(score); };
            const std::vector<std::uint64_t> scores = made.docs.scores(query);
            const Ranking ranking = rank_all(scores);
            for (const std::uint32_t all_tiles : {0U, 2048U}) {
                for (const std::size_t k : {3, 40, 300}) {
                    SearchParams params = variant(Method::asc, k == 40);
                    params.hooks.all_tiles = all_tiles;
                    params.budget_ms = 1000;
                    std::uint64_t before = 0;
                    bool finished = false;
                    for (int looks = 1; !finished; ++looks) {
                        NOTE("k " << k << ", all tiles " << all_tiles << ", late after " << looks << " looks");
                        params.hooks.clock = late_after(looks);
                        const SearchResult result = search(made.index, query, k, params);
                        check_real(result, scores);
                        CHECK_EQ(result.rows.empty(), ranking.rows.empty());
                        // Between batches: what a moment more of time adds is one batch, of 256 blocks at most.
                        CHECK(result.stats.blocks_scored >= before);
                        CHECK(looks == 1 || result.stats.blocks_scored <= before + 256);
                        before = result.stats.blocks_scored;
                        if (result.stats.budget_hit == 0) CHECK_EQ(result.rows, ranking.first(k).rows);
                        if (all_tiles > 0 && k <= 64) {
                            CHECK_EQ(result.stats.budget_hit, left_something_out(bounds, steps, result, k) ? 1U : 0U);
                        }
                        CHECK_EQ(result.stats.clusters_limited > 0 && result.stats.budget_hit == 0, false);
                        num_stopped += result.stats.budget_hit;
                        params.hooks.clock = standing();
                        finished =
                            result.stats.blocks_scored == search(made.index, query, k, params).stats.blocks_scored ||
                            looks > 200;
                        CHECK(looks <= 200);
                    }
                }
            }
        });
        CHECK(num_stopped > 20);
    });
}

// Limits of clusters and of time in indexes of fewer clusters than a budget visits at least: what is found is real, and
// enough.
TEST(engine_limits_in_few_clusters) {
    for (const std::uint32_t clusters : {1U, 2U, 7U, 9U}) {
        const Indexed<std::uint8_t> made(random_collection<std::uint8_t>({.docs = 900, .clusters = clusters}));
        Random random(clusters);
        const PreparedQuery query = random_query(made.index, random, 8, 9);
        const std::vector<std::uint64_t> scores = made.docs.scores(query);
        for (const std::uint32_t max_clusters : {0U, 1U, 6U, 100U}) {
            for (const double budget : {0.0, 1e-9, 0.02, 20.0}) {
                for (const std::uint32_t all_tiles : {0U, 2048U}) {
                    SearchParams params;
                    params.max_clusters = max_clusters;
                    params.budget_ms = budget;
                    params.hooks.all_tiles = all_tiles;
                    params.hooks.clock = ticking(1000);
                    NOTE("clusters " << clusters << ", " << describe(params));
                    const SearchResult result = search(made.index, query, 10, params);
                    check_real(result, scores);
                    CHECK_EQ(result.rows.size(), 10U);
                    const bool no_limit = budget == 0 && max_clusters >= clusters;
                    if (no_limit) CHECK_EQ(result.rows, rank_all(scores).first(10).rows);
                }
            }
        }
    }
}

// Whatever the clock and the budget, under a mask, a floor and factors too, results are real and nothing is missing
// where the search says that it is complete.
TEST(engine_budgets_of_every_size) {
    const Indexed<std::uint8_t> made(gated_collection<std::uint8_t>());
    Random random(56);
    std::size_t num_hit = 0, num_complete = 0;
    for (int round = 0; round < 6; ++round) {
        const PreparedQuery query = random_query(made.index, random, round < 3 ? 4 : 20, 50);
        const std::vector<std::uint64_t> scores = made.docs.scores(query);
        const Ranking all = rank_all(scores);
        for (const double budget : {1e-9, 0.005, 0.02, 0.1, 0.5, 2.0, 20.0}) {
            for (const std::uint64_t step : {0U, 100U, 5'000U, 100'000U}) {
                for (int flags = 0; flags < 16; ++flags) {
                    Restriction restriction;
                    if ((flags & 1) != 0) {
                        for (Row row = 0; row < made.docs.num_docs(); ++row) {
                            restriction.allowed.push_back(draw(random, 0, 1) == 0);
                        }
                        restriction.floor_twice = 2 * all.scores[200];
                        restriction.floor_row = all.rows[200];
                    }
                    SearchParams params = variant(Method::asc, true);
                    restriction.apply(made.index, query, params);
                    params.hooks.all_tiles = (flags & 2) != 0 ? 0 : 2048;
                    params.hooks.sweep = (flags & 4) != 0;
                    params.mu = (flags & 8) != 0 ? 0.8 : 1.0;
                    params.budget_ms = budget;
                    params.hooks.clock = ticking(step);
                    const std::size_t k = draw(random, 0, 1) == 0 ? 10 : 400;
                    NOTE("step " << step << ", k " << k << ", " << describe(params));
                    const SearchResult result = search(made.index, query, k, params);
                    check_real(result, scores);
                    CHECK(result.rows.size() <= k);
                    CHECK(!result.rows.empty() || (flags & 1) != 0);
                    for (const Row row : result.rows) CHECK(restriction.lets_in(row, scores[row]));
                    ++(result.stats.budget_hit != 0 ? num_hit : num_complete);
                    if (result.stats.budget_hit == 0 && params.mu == 1.0) {
                        CHECK_EQ(result.rows, restriction.of(all).first(k).rows);
                    }
                }
            }
        }
    }
    CHECK(num_hit > 100 && num_complete > 100);
}

// A budget that is never reached changes nothing: neither results nor the work, block for block.
TEST(engine_budget_that_is_never_reached) {
    const Indexed<std::uint8_t> made(gated_collection<std::uint8_t>());
    Random random(57);
    for (int round = 0; round < 10; ++round) {
        const PreparedQuery query = random_query(made.index, random, round < 5 ? 4 : 20, 50);
        for (int flags = 0; flags < 8; ++flags) {
            for (const std::size_t k : {1, 10, 100, 500}) {
                SearchParams params = variant(Method::asc, (flags & 1) != 0);
                params.hooks.all_tiles = (flags & 2) != 0 ? 0 : 2048;
                params.mu = (flags & 4) != 0 ? 0.7 : 1.0;
                NOTE("k " << k << ", " << describe(params));
                const SearchResult free = search(made.index, query, k, params);
                params.budget_ms = 1e9;
                const SearchResult limited = search(made.index, query, k, params);
                CHECK_EQ(limited.rows, free.rows);
                CHECK_EQ(limited.scores, free.scores);
                CHECK(same_work(limited.stats, free.stats));
            }
        }
    }
}

// A sweep starts only where it fits the budget.
TEST(engine_sweeps_within_a_budget) {
    const Indexed<std::uint8_t> made(random_collection<std::uint8_t>({.docs = 3000, .clusters = 30}));
    Random random(58);
    const PreparedQuery query = random_query(made.index, random, 8, 9);
    const Ranking ranking = rank_all(made.docs.scores(query));
    constexpr std::size_t kMany = 1500;
    SearchParams params;
    Opened<std::uint8_t, std::uint32_t> opened(made.index, query, params, kMany);
    const double cost_ms = sweep_cost(opened.context) / 1e6;
    CHECK_EQ(check_result(made.index, query, ranking, kMany, params).stats.swept, 1U);
    params.hooks.clock = standing();
    params.budget_ms = 1.5 * cost_ms;
    CHECK_EQ(check_result(made.index, query, ranking, kMany, params).stats.swept, 1U);
    params.budget_ms = 0.5 * cost_ms;
    CHECK_EQ(search(made.index, query, kMany, params).stats.swept, 0U);
}

// With bound_mass below 1 scores are exact and rows real, only fewer of the best may be found; at 1 nothing changes.
TEST(engine_bound_mass) {
    const Indexed<std::uint8_t> made(gated_collection<std::uint8_t>());
    Random random(59);
    for (int round = 0; round < 6; ++round) {
        const PreparedQuery query = random_query(made.index, random, 12, 50);
        const std::vector<std::uint64_t> scores = made.docs.scores(query);
        const Ranking ranking = rank_all(scores);
        for (const double mass : {0.01, 0.3, 0.7, 0.999, 1.0}) {
            for (const std::uint32_t all_tiles : {0U, 2048U}) {
                for (const std::size_t k : {1, 10, 200}) {
                    NOTE("mass " << mass << ", all tiles " << all_tiles << ", k " << k);
                    SearchParams params = variant(Method::asc, true);
                    params.bound_mass = mass;
                    params.hooks.all_tiles = all_tiles;
                    const SearchResult result = search(made.index, query, k, params);
                    check_real(result, scores);
                    CHECK_EQ(result.kept_terms.size(), query.terms.size());
                    if (mass == 1.0) CHECK_EQ(result.rows, ranking.first(k).rows);
                    // Where k documents were found, the best of them cannot all be bad: the first block is scored
                    // whole.
                    CHECK(!result.rows.empty());
                }
            }
        }
    }
}
