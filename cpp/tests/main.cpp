// Runs the tests whose name contains the argument, or all. The last line says how many passed and failed.
#include <chrono>
#include <cstdio>
#include <exception>
#include <string_view>

#include "check.hpp"

namespace {

bool passes(const segmax::test::TestCase& test) {
    using namespace segmax::test;
    num_failures = 0;
    try {
        test.run();
    } catch (const std::exception& error) {
        fail(test.name, 0, std::string("threw ") + error.what());
    }
    if (num_failures > kMostPrinted) {
        std::fprintf(stderr, "    and %zu more failed checks\n", num_failures - kMostPrinted);
    }
    return num_failures == 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view filter = argc > 1 ? argv[1] : "";
    int passed = 0;
    int failed = 0;
    for (const auto& test : segmax::test::all_tests()) {
        if (std::string_view(test.name).find(filter) == std::string_view::npos) continue;
        const auto start = std::chrono::steady_clock::now();
        const bool good = passes(test);
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        std::printf("%s %s (%.0f ms)\n", good ? "ok  " : "FAIL", test.name, took.count());
        std::fflush(stdout);
        ++(good ? passed : failed);
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
