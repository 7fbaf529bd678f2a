export const minTokenLength = 8 // §8
export const maxTokenLength = 1024

/** Returns why a text cannot be a deploy token, as the end of a sentence; null: it can. It has to fit into a header. */
export function tokenFault(token: string): string | null {
  if (token.length < minTokenLength) return `at least ${minTokenLength} characters are needed`
  if (token.length > maxTokenLength) return `at most ${maxTokenLength} characters are possible`
  if (!/^[\x21-\x7e]+$/.test(token)) return 'only visible ASCII characters, without spaces, fit into a header'
  return null
}
