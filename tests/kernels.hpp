// The kernels and element types that typed suites go through.
#pragma once

#include <gtest/gtest.h>

#include <lockstep/lockstep.hpp>
#include <string>
#include <type_traits>

namespace fixture {

namespace ls = lockstep;

template <class... Ts>
struct List {};

/// The kernels that go through every suite of these folders: one more is added here. A kernel with Specification's bits
/// is in the list of attend/contract_kernels.hpp besides, which is enough to give it all that is shown of
/// Specification.
using Kernels = List<ls::Specification, ls::Materialized>;
using Elements = List<float, double, Eigen::half, Eigen::bfloat16>;

template <class K, class T>
struct Case {
  using Kernel = K;
  using Element = T;
};

template <class T>
std::string element_name() {
  if constexpr (std::is_same_v<T, float>)
    return "Float";
  else if constexpr (std::is_same_v<T, double>)
    return "Double";
  else if constexpr (std::is_same_v<T, Eigen::half>)
    return "Half";
  else
    return "Bfloat16";
}
struct CaseName {
  template <class U>
  static std::string GetName(int) {
    return U::Kernel::name + element_name<typename U::Element>();
  }
};

namespace detail {
template <class... Lists>
struct Join {
  using type = ::testing::Types<>;
};
template <class... As>
struct Join<List<As...>> {
  using type = ::testing::Types<As...>;
};
template <class... As, class... Bs, class... Rest>
struct Join<List<As...>, List<Bs...>, Rest...> : Join<List<As..., Bs...>, Rest...> {};
template <class Ks, class Ts>
struct Cross;
template <class... Ks, class... Ts>
struct Cross<List<Ks...>, List<Ts...>> {
  template <class K>
  using Row = List<Case<K, Ts>...>;
  using type = typename Join<Row<Ks>...>::type;
};
}  // namespace detail

/// The kernels of a list with each element type of another, for a typed suite.
template <class Ks, class Ts>
using Cross = typename detail::Cross<Ks, Ts>::type;
using FloatCases = Cross<Kernels, List<float>>;

}  // namespace fixture
