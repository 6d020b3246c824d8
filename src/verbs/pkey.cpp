// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading and choosing partition keys.
#include "verbs/pkey.hpp"

namespace gdr::verbs {

std::optional<Pkey> choose_pkey(ibv_context* context, const Port& port,
                                std::optional<unsigned long> partition)
{
    std::optional<Pkey> limited;
    for (int index = 0; index < port.attributes.pkey_tbl_len; ++index) {
        uint16_t big_endian = 0;
        if (ibv_query_pkey(context, port.number, index, &big_endian) != 0 || big_endian == 0) {
            continue;
        }
        const Pkey pkey{static_cast<uint16_t>(index), __builtin_bswap16(big_endian)};
        if (partition && ((pkey.value ^ *partition) & kPartition) != 0) {
            continue;
        }
        if ((pkey.value & kFullMember) != 0) {
            return pkey;
        }
        if (!limited) {
            limited = pkey;
        }
    }
    return limited;
}

} // namespace gdr::verbs
