// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Assertions that a declaration of ours and UCX's own are the same for a compiler that passes one
// for the other.
#pragma once

#include <cstddef>
#include <type_traits>

namespace layout {

// Whether two types are passed and stored alike: kind and size.
template <class A, class B>
constexpr bool same_scalar()
{
    if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
        return std::is_void_v<A> && std::is_void_v<B>;
    } else if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) {
        return std::is_pointer_v<A> && std::is_pointer_v<B>;
    } else {
        return std::is_floating_point_v<A> == std::is_floating_point_v<B> && sizeof(A) == sizeof(B);
    }
}

template <class A, class B>
inline constexpr bool same_call = false;
template <class R, class... P, class S, class... Q>
requires(sizeof...(P) == sizeof...(Q)) inline constexpr bool same_call<R(P...), S(Q...)> =
    same_scalar<R, S>() && (same_scalar<P, Q>() && ...);

// Functions are compared by their parameters, structures by their size.
template <class A, class B>
constexpr bool same_type()
{
    if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B> &&
                  std::is_function_v<std::remove_pointer_t<A>>) {
        return same_call<std::remove_pointer_t<A>, std::remove_pointer_t<B>>;
    } else if constexpr (std::is_class_v<A> || std::is_array_v<A>) {
        return sizeof(A) == sizeof(B);
    } else {
        return same_scalar<A, B>();
    }
}

// The switch with which layout_check.sh verifies that a wrong offset is caught.
#ifdef LAYOUT_PERTURB
inline constexpr size_t kPerturb = 1;
#else
inline constexpr size_t kPerturb = 0;
#endif

} // namespace layout

#define SAME_SIZE(ours, theirs)                                                                    \
    static_assert(sizeof(ours) == sizeof(theirs), "size of " #ours " and " #theirs)
#define SAME_FIELD_AT(ours, field, theirs, their_field, shift)                                     \
    static_assert(offsetof(ours, field) + (shift) == offsetof(theirs, their_field),                \
                  "offset of " #ours "::" #field " and " #theirs "." #their_field);                \
    static_assert(                                                                                 \
        layout::same_type<std::remove_cv_t<decltype(ours::field)>,                                 \
                          std::remove_cv_t<decltype(((theirs*)nullptr)->their_field)>>(),          \
        "type of " #ours "::" #field " and " #theirs "." #their_field)
#define SAME_FIELD(ours, field, theirs, their_field)                                               \
    SAME_FIELD_AT(ours, field, theirs, their_field, 0)
#define SAME_VALUE(ours, theirs)                                                                   \
    static_assert(static_cast<unsigned long long>(ours) ==                                         \
                      static_cast<unsigned long long>(theirs),                                     \
                  "value of " #ours " and " #theirs)
#define SAME_CALL(ours, theirs)                                                                    \
    static_assert(layout::same_call<ours, decltype(theirs)>, "parameters of " #ours " and"         \
                                                             " " #theirs)
