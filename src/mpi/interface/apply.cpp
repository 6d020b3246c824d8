// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/apply.hpp"

#include <array>
#include <utility>

#include <cxxabi.h>

namespace gdr::mpi {

namespace {

using Apply = int(gdr_mpi_function* function, const Word* words);

template <size_t... index>
constexpr Apply* apply_with(std::index_sequence<index...>)
{
    return [](gdr_mpi_function* function, [[maybe_unused]] const Word* words) {
        return reinterpret_cast<int (*)(decltype(static_cast<void>(index), Word{})...)>(function)(
            words[index]...);
    };
}

template <size_t... count>
constexpr std::array<Apply*, sizeof...(count)> applies(std::index_sequence<count...>)
{
    return {apply_with(std::make_index_sequence<count>())...};
}

} // namespace

int apply(gdr_mpi_function* function, const Call& call, const Word* words)
{
    static constexpr auto kApplies = applies(std::make_index_sequence<kMostArguments + 1>());
#ifdef __GLIBCXX__
    try {
        return kApplies[call.arguments](function, words);
    } catch (const abi::__forced_unwind&) { // the thread ends
        throw;
    } catch (...) {
        throw Thrown{std::current_exception()};
    }
#else
    // If the layer has a C++ library of its own, the exception is foreign and no std::exception
    // here. With LLVM's library the end of a thread must not be caught.
    return kApplies[call.arguments](function, words);
#endif
}

} // namespace gdr::mpi
