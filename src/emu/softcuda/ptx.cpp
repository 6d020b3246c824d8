// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// PTX as a row of words, of which the directives that declare kernels are understood.
#include "emu/softcuda/ptx.hpp"
#include "emu/softcuda/device.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>

namespace softcuda {

namespace {

constexpr auto kBad = CUDA_ERROR_INVALID_PTX;

/// Words of letters, digits, '_', '$' and '.', and single other characters; without comments.
class Words {
  public:
    explicit Words(std::string_view text) : rest_(text) { next(); }

    std::string_view now() const { return now_; }
    bool at_end() const { return now_.empty(); }

    std::string_view take()
    {
        std::string_view taken = now_;
        require(!taken.empty(), kBad);
        next();
        return taken;
    }

    bool skip(std::string_view word)
    {
        const bool there = now_ == word;
        if (there) {
            next();
        }
        return there;
    }

    void expect(std::string_view word) { require(skip(word), kBad); }

    size_t number()
    {
        std::string_view text = take();
        size_t value = 0;
        auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        require(error == std::errc{} && end == text.data() + text.size(), kBad);
        return value;
    }

  private:
    static bool in_word(char c)
    {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '$';
    }

    void skip_to(std::string_view end)
    {
        size_t found = rest_.find(end);
        rest_.remove_prefix(found == rest_.npos ? rest_.size() : found + end.size());
    }

    void next()
    {
        for (;;) {
            while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0])) != 0) {
                rest_.remove_prefix(1);
            }
            if (rest_.starts_with("//")) {
                skip_to("\n");
            } else if (rest_.starts_with("/*")) {
                skip_to("*/");
            } else {
                break;
            }
        }
        size_t length = std::find_if_not(rest_.begin(), rest_.end(), in_word) - rest_.begin();
        now_ = rest_.substr(0, std::max<size_t>(length, rest_.empty() ? 0 : 1));
        rest_.remove_prefix(now_.size());
    }

    std::string_view rest_;
    std::string_view now_;
};

/// Of ".u64", ".f32", ".b8", ...; 0 for another word.
size_t size_of_type(std::string_view type)
{
    if (type.size() < 3 || type[0] != '.' || std::strchr("bsuf", type[1]) == nullptr) {
        return 0;
    }
    for (size_t size : {1, 2, 4, 8}) {
        if (type.substr(2) == std::to_string(size * 8)) {
            return size;
        }
    }
    return 0;
}

/// .param [.align N] .type [.ptr [.space] [.align N]] name[N]
void parse_parameter(Words& words, KernelDeclaration& kernel)
{
    words.expect(".param");
    size_t alignment = 0, size = 0;
    bool pointer = false;
    while (words.now().starts_with('.')) {
        if (words.skip(".align")) {
            size_t value = words.number();
            alignment = pointer ? alignment : value; // a pointer's is that of what it points to
        } else {
            std::string_view word = words.take();
            pointer = pointer || word == ".ptr";
            size = size != 0 ? size : size_of_type(word);
        }
    }
    require(size != 0, kBad);
    alignment = std::max(alignment, size);
    words.take(); // the name
    if (words.skip("[")) {
        size *= words.number();
        words.expect("]");
    }
    const size_t offset = round_up(kernel.parameter_bytes, alignment);
    kernel.parameters.push_back({offset, size});
    kernel.parameter_bytes = offset + size;
}

KernelDeclaration parse_kernel(Words& words)
{
    KernelDeclaration kernel{std::string(words.take())};
    if (words.skip("(") && !words.skip(")")) {
        do {
            parse_parameter(words, kernel);
        } while (words.skip(","));
        words.expect(")");
    }
    while (!words.skip("{")) {
        if (words.skip(".maxntid") || words.skip(".reqntid")) {
            size_t threads = words.number();
            while (words.skip(",")) {
                threads *= words.number();
            }
            kernel.max_threads = static_cast<int>(threads);
        } else {
            words.take();
        }
    }
    for (int depth = 1; depth > 0;) {
        std::string_view word = words.take();
        depth += word == "{" ? 1 : word == "}" ? -1 : 0;
    }
    return kernel;
}

/// ".target sm_70": a device of this or a later kind runs it.
void check_target(std::string_view target)
{
    require(target.starts_with("sm_"), kBad);
    target.remove_prefix(3);
    int capability = 0; // a letter may follow
    auto [end, error] = std::from_chars(target.data(), target.data() + target.size(), capability);
    require(error == std::errc{}, kBad);
    require(capability <= device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                              device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
}

bool compiled(const char* image)
{
    constexpr char kElf[] = "\177ELF";
    constexpr char kFatBinary[] = "\x50\xed\x55\xba";
    return std::strncmp(image, kElf, 4) == 0 || std::strncmp(image, kFatBinary, 4) == 0;
}

} // namespace

void KernelDeclaration::locate_parameter(size_t index, size_t* offset, size_t* size) const
{
    require(offset != nullptr && index < parameters.size());
    *offset = parameters[index].offset;
    if (size != nullptr) {
        *size = parameters[index].size;
    }
}

std::vector<KernelDeclaration> parse_ptx(const char* image)
{
    require(!compiled(image), CUDA_ERROR_NO_BINARY_FOR_GPU);
    Words words(image);
    require(words.skip(".version"), CUDA_ERROR_INVALID_IMAGE);
    words.take();
    words.expect(".target");
    check_target(words.take());
    std::vector<KernelDeclaration> kernels;
    while (!words.at_end()) {
        if (words.take() == ".entry") {
            kernels.push_back(parse_kernel(words));
        }
    }
    return kernels;
}

} // namespace softcuda
