/* Rates a new admin token by the policy of the server (§5.6, §8). Pure. */

const minLength = 8
const strongLength = 24
const strongCharacters = 8

/** `refused`: the server would reject it. `words` is English and passed to t() with `values`. */
export interface Strength {
  level: 'refused' | 'weak' | 'strong'
  words: string
  values?: Record<string, number>
}

/** Returns the rating of a token, or null for an empty text. */
export function strengthOf(token: string): Strength | null {
  if (token === '') return null
  if (!/^[\x21-\x7e]+$/.test(token)) return { level: 'refused', words: 'Only visible ASCII characters, without spaces' }
  const missing = minLength - token.length
  if (missing > 0)
    return {
      level: 'refused',
      words: missing === 1 ? 'Too short: 1 more character is needed' : 'Too short: {count} more characters are needed',
      values: { count: missing }
    }
  if (token.length < strongLength) {
    const count = strongLength - token.length
    const words =
      count === 1 ? 'Weak: 1 more character would make it strong' : 'Weak: {count} more characters would make it strong'
    return { level: 'weak', words, values: { count } }
  }
  if (!/[a-z]/i.test(token)) return { level: 'weak', words: 'Weak: no letters' }
  if (!/[0-9]/.test(token)) return { level: 'weak', words: 'Weak: no digits' }
  if (new Set(token).size < strongCharacters) return { level: 'weak', words: 'Weak: too few different characters' }
  return { level: 'strong', words: 'Strong' }
}

/** Returns a strong token of 32 random bytes. */
export function strongToken(randomBytes: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>): string {
  for (;;) {
    const text = btoa(String.fromCharCode(...randomBytes(new Uint8Array(32))))
    const token = text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
    if (strengthOf(token)?.level === 'strong') return token
  }
}
