// The yardstick: the plainest fast exhaustive search. Per term a list of row and code, one 32-bit accumulator per
// document, one pass for the top k. Compiled by scatter_add.py with the flags of the core's portable build.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

extern "C" void scatter_add_search(const std::int64_t* list_start, const std::uint32_t* rows, const std::uint8_t* codes,
                                   std::int64_t num_docs, std::int64_t num_queries, const std::int64_t* query_start,
                                   const std::int32_t* query_terms, const std::uint32_t* query_weights, std::int64_t k,
                                   std::int64_t* found_rows, double* elapsed_ns) {
    using Clock = std::chrono::steady_clock;
    using Entry = std::pair<std::uint32_t, std::int64_t>;  // score, and minus the row: the worst is the smallest
    std::vector<std::uint32_t> accumulators(static_cast<std::size_t>(num_docs));
    for (std::int64_t q = 0; q < num_queries; ++q) {
        const auto start = Clock::now();
        std::fill(accumulators.begin(), accumulators.end(), 0);
        for (std::int64_t t = query_start[q]; t < query_start[q + 1]; ++t) {
            const std::uint32_t weight = query_weights[t];
            const std::int64_t end = list_start[query_terms[t] + 1];
            for (std::int64_t i = list_start[query_terms[t]]; i < end; ++i) accumulators[rows[i]] += weight * codes[i];
        }
        std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap;
        std::uint32_t threshold = 0;
        for (std::int64_t row = 0; row < num_docs; ++row) {
            const std::uint32_t score = accumulators[static_cast<std::size_t>(row)];
            if (score <= threshold) continue;  // rows ascend, so a tie never wins
            heap.emplace(score, -row);
            if (static_cast<std::int64_t>(heap.size()) > k) heap.pop();
            if (static_cast<std::int64_t>(heap.size()) == k) threshold = heap.top().first;
        }
        for (std::int64_t i = static_cast<std::int64_t>(heap.size()); i-- > 0; heap.pop()) {
            found_rows[q * k + i] = -heap.top().second;
        }
        elapsed_ns[q] =
            static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
    }
}
