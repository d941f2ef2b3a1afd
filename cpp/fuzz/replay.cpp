// What runs a fuzz target where libFuzzer is not there, with the options of libFuzzer that tests/fuzz needs:
//
//   fuzz_NAME FILE ...                                                  runs the target on these files
//   fuzz_NAME [-max_total_time=SECONDS] [-runs=COUNT] FOLDER ...        runs it on the files of the folders, and then
//                                                                       on changed copies of them
//   -artifact_prefix=PREFIX   where the input under way is kept, as PREFIXcurrent: a crash leaves it there
//   -timeout=SECONDS          of one input; -max_len=BYTES
//
// Inputs that reach new code are kept for further changes, until the program ends, if the compiler can tell
// (-fsanitize-coverage=trace-pc). Other options of libFuzzer are ignored.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kPlaces = 1U << 16U;
std::array<std::uint8_t, kPlaces> reached{};
std::size_t num_reached = 0;

struct Options {
    double seconds = 0;
    std::uint64_t runs = 0;
    bool is_limited = false;  // by seconds or runs: without, only what is given is run
    unsigned timeout = 60;
    std::size_t max_len = 1U << 16U;
    std::string prefix;
    std::vector<std::filesystem::path> paths;
};

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        const std::size_t equals = argument.find('=');
        if (argument.empty() || argument[0] != '-' || equals == std::string::npos) {
            options.paths.emplace_back(argument);
            continue;
        }
        const std::string name = argument.substr(1, equals - 1);
        const std::string value = argument.substr(equals + 1);
        if (name == "max_total_time") options.seconds = std::atof(value.c_str());
        if (name == "runs") options.runs = std::strtoull(value.c_str(), nullptr, 10);
        if (name == "max_total_time" || name == "runs") options.is_limited = true;
        if (name == "timeout") options.timeout = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
        if (name == "max_len") options.max_len = std::strtoull(value.c_str(), nullptr, 10);
        if (name == "artifact_prefix") options.prefix = value;
    }
    return options;
}

Bytes content_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<Bytes> inputs_of(const Options& options) {
    std::vector<std::filesystem::path> files;
    for (const auto& path : options.paths) {
        if (!std::filesystem::is_directory(path)) files.push_back(path);
        if (!std::filesystem::is_directory(path)) continue;
        for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    std::vector<Bytes> inputs;
    for (const auto& file : files) inputs.push_back(content_of(file));
    return inputs;
}

/// One change of an input; `other` is another one to copy from.
void change(Bytes& input, const Bytes& other, std::mt19937_64& random) {
    const auto below = [&](std::size_t end) {
        return static_cast<std::size_t>(random() % std::max<std::size_t>(1, end));
    };
    const auto place = [&](std::size_t at) { return input.begin() + static_cast<std::ptrdiff_t>(at); };
    static constexpr std::uint64_t kNumbers[] = {0,   1,     7,     127,        128,        255,
                                                 256, 32767, 65535, 0x7FFFFFFF, 0xFFFFFFFF, ~0ULL};
    const std::size_t at = below(input.size());
    const std::size_t length = std::min(input.size() - at, 1 + below(16));
    switch (random() % 8) {
        case 0:
            if (!input.empty()) input[at] ^= static_cast<std::uint8_t>(1U << random() % 8);
            break;
        case 1:
            if (!input.empty()) input[at] = static_cast<std::uint8_t>(random());
            break;
        case 2: {  // a number of 1, 2, 4 or 8 bytes
            const std::uint64_t number = kNumbers[below(std::size(kNumbers))];
            const std::size_t width = std::min<std::size_t>(std::size_t{1} << random() % 4, input.size() - at);
            if (width > 0) std::memcpy(input.data() + at, &number, width);
            break;
        }
        case 3:
            input.erase(place(at), place(at + length));
            break;
        case 4: {
            const Bytes copy(place(at), place(at + length));
            input.insert(place(below(input.size())), copy.begin(), copy.end());
            break;
        }
        case 5:
            input.insert(place(at), 1 + below(8), static_cast<std::uint8_t>(random()));
            break;
        case 6: {
            const std::size_t from = below(other.size());
            const std::size_t count = std::min({other.size() - from, input.size() - at, 1 + below(64)});
            if (count > 0) std::memcpy(input.data() + at, other.data() + from, count);
            break;
        }
        default:
            input.resize(at);
    }
}

/// Runs the target, with the input where a crash leaves it.
bool reaches_new_code(const Bytes& input, const Options& options) {
    if (!options.prefix.empty()) {
        std::ofstream(options.prefix + "current", std::ios::binary)
            .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
    }
    const std::size_t before = num_reached;
    alarm(options.timeout);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    alarm(0);
    return num_reached > before;
}

}  // namespace

#if defined(__GNUC__) && !defined(__clang__)
/// Called at every branch of what is instrumented.
extern "C" void __sanitizer_cov_trace_pc() {
    const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    std::uint8_t& seen = reached[(place ^ place >> 16U) % kPlaces];
    num_reached += seen == 0 ? 1 : 0;
    seen = 1;
}
#endif

int main(int argc, char** argv) {
    const Options options = parse(argc, argv);
    std::vector<Bytes> inputs = inputs_of(options);
    for (const Bytes& input : inputs) reaches_new_code(input, options);
    std::printf("replayed %zu inputs\n", inputs.size());
    if (inputs.empty()) inputs.emplace_back();
    std::mt19937_64 random(std::random_device{}());
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    std::uint64_t runs = 0;
    while (options.is_limited && (options.runs == 0 ? options.seconds > 0 : runs < options.runs) &&
           (options.seconds <= 0 || elapsed() < options.seconds)) {
        Bytes input = inputs[random() % inputs.size()];
        const Bytes& other = inputs[random() % inputs.size()];
        for (std::uint64_t i = 1 + random() % 4; i > 0; --i) change(input, other, random);
        input.resize(std::min(input.size(), options.max_len));
        if (reaches_new_code(input, options)) inputs.push_back(std::move(input));
        ++runs;
    }
    if (!options.prefix.empty()) std::filesystem::remove(options.prefix + "current");
    if (options.is_limited)
        std::printf("Done %llu runs in %.0f second(s)\n", static_cast<unsigned long long>(runs), elapsed());
    return 0;
}
