#include "text/lowercase.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>

#include "base/error.h"
#include "base/utf8.h"

namespace nmt {

std::string lowercase(std::string_view text) {
  std::string repaired, result;
  if (!is_valid_utf8(text)) text = repaired = repair_utf8(text);  // the library would leave it as it is
  if (text.size() > INT32_MAX) fail("a text of {} bytes is too long to be lower-cased", text.size());
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode status = U_ZERO_ERROR;
  icu::CaseMap::utf8ToLower("", 0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink, nullptr,
                            status);
  if (U_FAILURE(status)) fail("cannot lower-case a text of {} bytes: {}", text.size(), u_errorName(status));
  return result;
}

}  // namespace nmt
