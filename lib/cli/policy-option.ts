import { usage } from './args.js'

/** The option that sets keys of a project's policy. */
export const policyOption = {
  policy: {
    type: 'text',
    value: 'key=value',
    repeatable: true,
    help: 'set a key of the policy, for example drift=refuse; JSON for objects; without a value: the default'
  }
} as const

/**
 * Returns the field `policy` with the keys that these words set, or no field without words. A word is `key=value` or a
 * JSON object with several keys. The server checks keys and values. Refuses any other word with the kind `usage`.
 */
export function policyField(words: readonly string[]): { policy?: Record<string, unknown> } {
  return words.length === 0 ? {} : { policy: Object.assign({}, ...words.map(keysOf)) }
}

function keysOf(word: string): Record<string, unknown> {
  const whole = jsonOf(word)
  if (typeof whole === 'object' && whole !== null && !Array.isArray(whole)) return { ...whole }
  const [, key, value] = /^([A-Za-z]+)=([^]*)$/.exec(word) ?? []
  if (key === undefined || value === undefined)
    throw usage('--policy', `--policy cannot be "${word}": it must be key=value or a JSON object`)
  const parsed = jsonOf(value)
  return { [key]: value === '' ? null : parsed === undefined ? value : parsed }
}

/** Returns the value of a JSON text, or undefined if it is another text. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
