// A test registry small enough to read: TEST(name) { CHECK(...); CHECK_EQ(a, b); CHECK_THROWS(call, type); }.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace segmax::test {

struct TestCase {
    const char* name;
    void (*run)();
};

inline std::vector<TestCase>& all_tests() {
    static std::vector<TestCase> tests;
    return tests;
}

inline bool add_test(const char* name, void (*run)()) {
    all_tests().push_back({name, run});
    return true;
}

/// Failed checks of the running test.
inline std::size_t num_failures = 0;
/// Failed checks of one test beyond these are counted, not printed.
inline constexpr std::size_t kMostPrinted = 10;

/// What the loops around a check are at; read only when a check fails.
inline std::vector<std::function<std::string()>>& notes() {
    static std::vector<std::function<std::string()>> stack;
    return stack;
}

class Note {
public:
    explicit Note(std::function<std::string()> text) { notes().push_back(std::move(text)); }
    ~Note() { notes().pop_back(); }
    Note(const Note&) = delete;
    Note& operator=(const Note&) = delete;
};

template <class T>
std::string show(const T& value) {
    std::ostringstream out;
    if constexpr (std::is_enum_v<T>) {
        out << static_cast<long long>(value);
    } else if constexpr (std::integral<T>) {
        out << +value;
    } else if constexpr (requires { out << value; }) {
        out << value;
    } else if constexpr (requires { value.begin(); }) {
        constexpr std::size_t most_shown = 20;
        std::size_t shown = 0;
        out << "{";
        for (const auto& item : value) {
            if (++shown > most_shown) break;
            out << (shown == 1 ? "" : ", ") << show(item);
        }
        out << (shown > most_shown ? ", ...} of " : "} of ") << value.size();
    } else {
        out << "(a value)";
    }
    return out.str();
}

inline void fail(const char* file, int line, const std::string& what) {
    if (++num_failures > kMostPrinted) return;
    std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
    for (const auto& note : notes()) std::fprintf(stderr, "    with %s\n", note().c_str());
}

template <class A, class B>
bool equal(const A& a, const B& b) {
    if constexpr (std::integral<A> && std::integral<B> && !std::same_as<A, bool> && !std::same_as<B, bool>) {
        return (a < 0) == (b < 0) && static_cast<std::uintmax_t>(a) == static_cast<std::uintmax_t>(b);
    } else {
        return a == b;
    }
}

template <class A, class B>
void check_equal(const char* file, int line, const char* text_a, const char* text_b, const A& a, const B& b) {
    if (equal(a, b)) return;
    fail(file, line,
         std::string("expected ") + text_a + " == " + text_b + "\n    left:  " + show(a) + "\n    right: " + show(b));
}

template <class Exception, class Call>
void check_throws(const char* file, int line, const char* text, const char* type, Call call) {
    try {
        call();
    } catch (const Exception&) {
        return;
    } catch (const std::exception& other) {
        return fail(file, line, std::string(text) + " threw something else than " + type + ": " + other.what());
    }
    fail(file, line, std::string(text) + " did not throw " + type);
}

}  // namespace segmax::test

#define SEGMAX_JOIN_(a, b) a##b
#define SEGMAX_JOIN(a, b) SEGMAX_JOIN_(a, b)

#define TEST(name)                                                                                   \
    static void test_##name();                                                                       \
    [[maybe_unused]] static const bool added_##name = ::segmax::test::add_test(#name, &test_##name); \
    static void test_##name()

#define CHECK(...) ((__VA_ARGS__) ? void() : ::segmax::test::fail(__FILE__, __LINE__, "expected " #__VA_ARGS__))
#define CHECK_EQ(a, b) ::segmax::test::check_equal(__FILE__, __LINE__, #a, #b, (a), (b))
#define CHECK_THROWS(call, type) \
    ::segmax::test::check_throws<type>(__FILE__, __LINE__, #call, #type, [&] { (void)(call); })

/// NOTE("k " << k): told with every check that fails before the end of the scope.
#define NOTE(...)                                                 \
    const ::segmax::test::Note SEGMAX_JOIN(note_, __LINE__)([&] { \
        std::ostringstream note_text;                             \
        note_text << __VA_ARGS__;                                 \
        return note_text.str();                                   \
    })
