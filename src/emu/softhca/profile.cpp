// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The profiles, and reading lists of keys. Limits beyond softhca's own are cut down to these.
#include "emu/softhca/profile.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <utility>

#include <arpa/inet.h>

namespace softhca {
namespace {

struct Row {
    std::string_view name;
    std::string_view list;
};

constexpr Row kProfiles[] = {
    {"softhca", ""},
    {"cx7", "max_srq_wr=32767,max_sge=30,max_qp_wr=32768,max_cqe=4194303,rd_atom=16,vendor=2c9,"
            "part=4129"},
    {"cx8xdr", "cx7,speed=xdr,width=4,part=4131"},
    {"relaxed_only", "cx7,relaxed=only"},
    {"azure_vf", "cx7,grh=required,pkeys=8012+7fff,part=4126"},
    {"nvswitch_port", "cx7,vpd=SW_MNG,isolated=yes"},
    {"cx3", "max_srq_wr=16383,max_inline=1024,max_sge=32,max_qp_wr=16351,max_cqe=4194303,"
            "rd_atom=16,dmabuf=no,resize_cq=efault,td=no,wr=no,vendor=2c9,part=4099"},
    {"thor", "link_layer=ethernet,atomics=none,max_inline=96,max_sge=6,max_qp_wr=65535,"
             "max_cqe=8388607,rd_atom=126,max_msg_sz=1073741824,resize_cq=breaks_cq,"
             "negative_errno=yes,td=no,cqx=no,vendor=14e4,part=5968"},
    {"e810", "link_layer=ethernet,max_srq=0,atomics=none,max_inline=101,max_sge=6,max_qp_wr=8127,"
             "max_cqe=1048574,rd_atom=8,td=no,wr=no,vendor=8086,part=5522"},
    {"hip08", "link_layer=ethernet,ud=no,ah=silent,max_srq_wr=16383,max_inline=32,"
              "inline=grant_less,max_sge=7,max_qp_wr=32768,max_cqe=65535,rd_atom=128,dmabuf=no,"
              "resize_cq=no,vendor=19e5,part=41506"},
    {"hip09", "link_layer=ethernet,max_srq_wr=16383,max_inline=1024,inline=grant_less,max_sge=64,"
              "max_qp_wr=32768,max_cqe=65535,rd_atom=128,dmabuf=no,resize_cq=no,vendor=19e5,"
              "part=41512"},
    {"qedr", "link_layer=ethernet,ud=no,ah=eopnotsupp,max_inline=256,max_sge=4,max_qp_wr=32767,"
             "max_cqe=8388480,rd_atom=32,dmabuf=no,resize_cq=no,td=no,cqx=no,wr=no,vendor=1077,"
             "part=5718"},
    {"hfi1", "max_inline=0,inline=grant_less,max_sge=16,max_qp_wr=16384,max_cqe=196608,rd_atom=16,"
             "dmabuf=no,td=no,cqx=no,wr=no,vendor=1175,part=9456"},
    {"pvrdma", "link_layer=ethernet,srq=einval,max_inline=0,inline=grant_less,max_sge=16,"
               "max_qp_wr=1024,max_cqe=262144,rd_atom=16,dmabuf=no,resize_cq=no,td=no,cqx=no,"
               "wr=no,vendor=15ad,part=2080"},
    {"efa", "transport=unspecified,rc=no,max_srq=0,atomics=none,max_inline=32,max_sge=2,"
            "max_qp_wr=4096,max_cqe=32768,rd_atom=0,resize_cq=no,vendor=1d0f,part=61344"},
    {"mana", "link_layer=ethernet,ud=no,ah=eopnotsupp,max_srq=0,atomics=none,max_inline=0,"
             "max_sge=10,max_qp_wr=1024,speed=edr,width=4,resize_cq=no,td=no,cqx=no,wr=no,"
             "vendor=1414,part=186"},
    {"ionic", "link_layer=ethernet,max_srq=0,max_inline=128,max_sge=8,max_qp_wr=65535,"
              "resize_cq=no,vendor=1dd8,part=4098"},
    {"iwarp", "transport=iwarp,link_layer=ethernet,ud=no,ah=eopnotsupp,atomics=none"},
};

template <class T>
struct Word {
    std::string_view name;
    T value;
};

// The values that a key may have, by its type or, where that is not enough, by its words.
constexpr Word<bool> kYesNo[] = {{"yes", true}, {"no", false}};
constexpr Word<Dmabuf> kDmabuf[] = {
    {"yes", Dmabuf::any}, {"pcie", Dmabuf::by_pcie}, {"no", Dmabuf::none}};
constexpr Word<bool> kRefuseGrant[] = {{"refuse", false}, {"grant_less", true}};
constexpr Word<bool> kAnyOnly[] = {{"any", false}, {"only", true}};
constexpr Word<bool> kYesEinval[] = {{"yes", false}, {"einval", true}};
constexpr Word<bool> kLinkLayers[] = {{"infiniband", false}, {"ethernet", true}};
constexpr Word<bool> kGrh[] = {{"optional", false}, {"required", true}};
constexpr Word<ibv_transport_type> kTransports[] = {{"ib", IBV_TRANSPORT_IB},
                                                    {"iwarp", IBV_TRANSPORT_IWARP},
                                                    {"unspecified", IBV_TRANSPORT_UNSPECIFIED}};
constexpr Word<AddressHandles> kAddressHandles[] = {{"ok", AddressHandles::made},
                                                    {"eopnotsupp", AddressHandles::refused},
                                                    {"silent", AddressHandles::silently_refused}};
constexpr Word<Atomics> kAtomics[] = {{"hca", Atomics::hca},
                                      {"glob", Atomics::glob},
                                      {"none", Atomics::none},
                                      {"refused", Atomics::refused}};
constexpr Word<ResizeCq> kResizeCq[] = {{"yes", ResizeCq::works},
                                        {"no", ResizeCq::is_missing},
                                        {"efault", ResizeCq::faults},
                                        {"breaks_cq", ResizeCq::frees_ring},
                                        {"does_nothing", ResizeCq::does_nothing}};
constexpr Word<std::uint32_t> kSpeeds[] = {{"sdr", 1},   {"ddr", 2},   {"qdr", 4},
                                           {"fdr10", 8}, {"fdr", 16},  {"edr", 32},
                                           {"hdr", 64},  {"ndr", 128}, {"xdr", 256}};
constexpr Word<std::uint32_t> kWidths[] = {{"1", 1}, {"2", 16}, {"4", 2}, {"8", 4}, {"12", 8}};

template <auto member, const auto& words>
bool take_word(Profile& profile, std::string_view value)
{
    const auto* const word = std::find_if(std::begin(words), std::end(words),
                                          [value](const auto& w) { return w.name == value; });
    if (word == std::end(words)) {
        return false;
    }
    profile.*member = word->value;
    return true;
}

template <int base = 10>
bool read_number(std::string_view text, std::uint32_t& number)
{
    const char* const end = text.data() + text.size();
    const auto [read, error] = std::from_chars(text.data(), end, number, base);
    return error == std::errc() && read == end;
}

template <auto member, std::uint32_t most, int base = 10>
bool take_number(Profile& profile, std::string_view value)
{
    std::uint32_t number;
    if (!read_number<base>(value, number)) {
        return false;
    }
    profile.*member = std::min(number, most);
    return true;
}

template <auto member>
bool take_text(Profile& profile, std::string_view value)
{
    profile.*member = value;
    return true;
}

// Calls take(part) for each part of a list; false when it does once.
template <class Take>
bool for_each_part(std::string_view list, char separator, const Take& take)
{
    while (true) {
        const std::size_t end = list.find(separator);
        if (!take(list.substr(0, end))) {
            return false;
        }
        if (end == std::string_view::npos) {
            return true;
        }
        list.remove_prefix(end + 1);
    }
}

bool take_pkeys(Profile& profile, std::string_view value)
{
    profile.pkeys.clear();
    return for_each_part(value, '+', [&](std::string_view text) {
        std::uint32_t pkey;
        const bool is_one = read_number<16>(text, pkey) && pkey <= 0xffff;
        if (is_one) {
            profile.pkeys.push_back(static_cast<std::uint16_t>(pkey));
        }
        return is_one;
    });
}

// "own", "none" or an IPv6 address; "@netns" behind it: of another network namespace.
bool read_gid(std::string_view text, GidOfProfile& entry)
{
    constexpr std::string_view foreign = "@netns";
    entry = {};
    entry.is_foreign = text.ends_with(foreign);
    if (entry.is_foreign) {
        text.remove_suffix(foreign.size());
    }
    entry.is_own = text == "own";
    return entry.is_own || text == "none" ||
           inet_pton(AF_INET6, std::string(text).c_str(), entry.gid.raw) == 1;
}

bool take_gids(Profile& profile, std::string_view value)
{
    std::size_t count = 0;
    profile.gids.fill({.is_own = false});
    return for_each_part(value, '+', [&](std::string_view text) {
        return count < profile.gids.size() && read_gid(text, profile.gids[count++]);
    });
}

struct Key {
    std::string_view name;
    bool (*take)(Profile& profile, std::string_view value);
};

constexpr Key kKeys[] = {
    {"transport", take_word<&Profile::transport, kTransports>},
    {"link_layer", take_word<&Profile::ethernet, kLinkLayers>},
    {"grh", take_word<&Profile::grh_required, kGrh>},
    {"isolated", take_word<&Profile::isolated, kYesNo>},
    {"rc", take_word<&Profile::rc, kYesNo>},
    {"ud", take_word<&Profile::ud, kYesNo>},
    {"ah", take_word<&Profile::address_handles, kAddressHandles>},
    {"atomics", take_word<&Profile::atomics, kAtomics>},
    {"srq", take_word<&Profile::refuses_srq, kYesEinval>},
    {"max_srq", take_number<&Profile::max_srq, kMaxSrqs>},
    {"max_srq_wr", take_number<&Profile::max_srq_wr, kMaxQueueDepth>},
    {"inline", take_word<&Profile::grants_less_inline, kRefuseGrant>},
    {"max_inline", take_number<&Profile::max_inline, kMaxInline>},
    {"max_sge", take_number<&Profile::max_sge, kMaxSge>},
    {"max_qp_wr", take_number<&Profile::max_qp_wr, kMaxQueueDepth>},
    {"max_cqe", take_number<&Profile::max_cqe, kMaxCqe>},
    {"rd_atom", take_number<&Profile::rd_atom, 255>},
    {"max_msg_sz", take_number<&Profile::max_msg_sz, kMaxMessage>},
    {"dmabuf", take_word<&Profile::dmabuf, kDmabuf>},
    {"peermem", take_word<&Profile::peermem, kYesNo>},
    {"relaxed", take_word<&Profile::relaxed_only, kAnyOnly>},
    {"resize_cq", take_word<&Profile::resize_cq, kResizeCq>},
    {"negative_errno", take_word<&Profile::negative_errno, kYesNo>},
    {"td", take_word<&Profile::thread_domain, kYesNo>},
    {"cqx", take_word<&Profile::extended_cq, kYesNo>},
    {"wr", take_word<&Profile::wr_functions, kYesNo>},
    {"last_wqe", take_word<&Profile::last_wqe, kYesNo>},
    {"pkeys", take_pkeys},
    {"gid_tbl_len", take_number<&Profile::gid_tbl_len, 1024>},
    {"gids", take_gids},
    {"speed", take_word<&Profile::speed, kSpeeds>},
    {"width", take_word<&Profile::width, kWidths>},
    {"vendor", take_number<&Profile::vendor, 0xffffff, 16>},
    {"part", take_number<&Profile::part, 0xffffffff>},
    {"vpd", take_text<&Profile::vpd>},
};

template <class Entry>
const Entry* find(const Entry* begin, const Entry* end, std::string_view name)
{
    const Entry* const found =
        std::find_if(begin, end, [name](const Entry& entry) { return entry.name == name; });
    return found == end ? nullptr : found;
}

} // namespace

bool set(Profile& profile, std::string_view key, std::string_view value)
{
    const Key* const known = find(std::begin(kKeys), std::end(kKeys), key);
    return known != nullptr && known->take(profile, value);
}

std::string apply(Profile& profile, std::string_view list)
{
    std::string wrong;
    const auto take = [&](std::string_view item) {
        const std::size_t equals = item.find('=');
        if (equals != std::string_view::npos) {
            if (!set(profile, item.substr(0, equals), item.substr(equals + 1))) {
                wrong = item;
            }
        } else if (const Row* row = find(std::begin(kProfiles), std::end(kProfiles), item)) {
            wrong = row->list.empty() ? "" : apply(profile, row->list);
        } else if (!item.empty()) {
            wrong = item;
        }
        return wrong.empty();
    };
    for_each_part(list, ',', take);
    return wrong;
}

} // namespace softhca
