/** Minimum length of a deploy token in characters (§8). */
export const minTokenLength = 8
/** Maximum length of a deploy token in characters. */
export const maxTokenLength = 1024

/**
 * Returns why a text cannot be a deploy token, as the end of a sentence; null if it can. A token must fit in a header.
 */
export function tokenFault(token: string): string | null {
  if (token.length < minTokenLength) return `at least ${minTokenLength} characters are needed`
  if (token.length > maxTokenLength) return `at most ${maxTokenLength} characters are allowed`
  if (!/^[\x21-\x7e]+$/.test(token))
    return 'use only visible ASCII characters without spaces, because the token is sent in a header'
  return null
}
