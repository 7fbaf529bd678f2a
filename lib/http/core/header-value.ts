/** A header's value before the first semicolon, in lower case, and its parameters by name, in lower case. */
export interface HeaderValue {
  value: string
  parameters: Map<string, string>
}

const parameter = /;[ \t]*(?:([!#$%&'*+.^`|~\w-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))[ \t]*)?/y

/**
 * Parses a header value such as `form-data; name="file"; filename*=UTF-8''na%C3%AFve.zip` (RFC 9110 §5.6.6). Returns
 * undefined if it is malformed. If a name occurs twice, the first value is kept. `name*` is decoded and kept under its
 * name with the asterisk.
 */
export function parseHeaderValue(text: string): HeaderValue | undefined {
  const semicolon = text.indexOf(';')
  const end = semicolon === -1 ? text.length : semicolon
  const parameters = new Map<string, string>()
  let at = end
  while (at < text.length) {
    parameter.lastIndex = at
    const found = parameter.exec(text)
    if (found === null) return undefined
    at = parameter.lastIndex
    const [, name, quoted, plain] = found
    if (name === undefined) continue
    const value = quoted === undefined ? (plain as string).trim() : unquote(quoted)
    const key = name.toLowerCase()
    const decoded = key.endsWith('*') ? decodeExtended(value) : value
    if (decoded !== undefined && !parameters.has(key)) parameters.set(key, decoded)
  }
  return { value: text.slice(0, end).trim().toLowerCase(), parameters }
}

/**
 * Removes escapes. Only `\"` and `\\` are escapes: a backslash before another character belongs to a Windows path. Some
 * clients send it unescaped, against RFC 9110 §5.6.4.
 */
function unquote(text: string): string {
  return text.includes('\\') ? text.replace(/\\(["\\])/g, '$1') : text
}

/** Decodes an extended value (RFC 8187 §3.2): charset, language, percent-encoded bytes. */
function decodeExtended(text: string): string | undefined {
  const found = /^([\w-]+)'[\w-]*'((?:[!#$&+.^`|~\w-]|%[\da-f]{2})*)$/i.exec(text)
  if (found === null) return undefined
  const [, charset = '', encoded = ''] = found
  const bytes = Buffer.from(
    encoded.replace(/%(..)/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1'
  )
  if (charset.toLowerCase() === 'iso-8859-1') return bytes.toString('latin1')
  return charset.toLowerCase() === 'utf-8' ? bytes.toString('utf8') : undefined
}
