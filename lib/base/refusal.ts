/** The kind of failure that caused a refusal. Each edge maps it once, to an HTTP status or an exit code. */
export type RefusalKind =
  | 'invalid'
  | 'usage'
  | 'unauthorized'
  | 'forbidden'
  | 'not_found'
  | 'method'
  | 'conflict'
  | 'precondition'
  | 'too_large'
  | 'unsupported_type'
  | 'misdirected'
  | 'upgrade'
  | 'too_many'
  | 'timed_out'
  | 'unsupported'
  | 'bad_gateway'
  | 'unavailable'

/** Optional fields of a refusal. */
export interface RefusalDetails {
  /** The invalid input as the user wrote it: `deployPath`, `items[3].filePath`, `--limit`. */
  field?: string
  /** Seconds after which a retry may succeed (`Retry-After`). */
  retryAfterSeconds?: number
  /** The record that is in the way. The answer names it in a field after its kind, for example `conflictProject`. */
  other?: OtherRecord | undefined
  cause?: unknown
}

/** The kinds of records that a refusal names. */
export const otherKinds = ['project', 'category', 'tag', 'token', 'node', 'deployment'] as const

/** A record that is in the way of a request. */
export interface OtherRecord {
  kind: (typeof otherKinds)[number]
  id: string
  name?: string
}

/**
 * A failure that the user caused or can fix. Any layer may throw it; every other exception is a bug. The code is stable
 * snake_case and listed in docs/errors.md. The sentence says what failed, why, and what to do. It never contains a
 * secret.
 */
export class Refusal extends Error {
  readonly kind: RefusalKind
  readonly code: string
  readonly field: string | undefined
  readonly retryAfterSeconds: number | undefined
  readonly other: OtherRecord | undefined

  // biome-ignore lint/complexity/useMaxParams: a refusal always has a kind, a code and a sentence
  constructor(kind: RefusalKind, code: string, sentence: string, details: RefusalDetails = {}) {
    super(sentence, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'Refusal'
    this.kind = kind
    this.code = code
    this.field = details.field
    this.retryAfterSeconds = details.retryAfterSeconds
    this.other = details.other
  }
}

/** Returns the field of an answer that names a record in the way: `conflictProject`. */
export function otherField(kind: OtherRecord['kind']): `conflict${string}` {
  return `conflict${kind.charAt(0).toUpperCase()}${kind.slice(1)}`
}

/** Returns a 400 that names the field. */
export function invalid(field: string, sentence: string): Refusal {
  return new Refusal('invalid', 'invalid_field', sentence, { field })
}

/** Returns a 404. `what` is the noun, and `id` the requested id. */
export function notFound(what: string, id: string): Refusal {
  return new Refusal('not_found', 'not_found', `${what} not found: "${id}"`)
}
